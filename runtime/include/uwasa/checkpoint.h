/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/checkpoint.h - weights and training state as safetensors, written atomically
 *
 * A weights file holds the parameters by name ("conv1.weight"); Python reads it directly. A
 * checkpoint adds the state of a run, to resume it bit for bit: the optimizer's vectors
 * ("optimizer.exp_avg.conv1.weight"), the model's kept parameters if there are any
 * ("optimizer.kept.conv1.weight"; a file may lack them) and, in the header's __metadata__, step,
 * loader cursor and seeds. A threshold of anomalies (uwasa/anomaly.h) and a checksum of the whole
 * file are in both. Loading checks it, if the file has one, and every name, shape and size before
 * the first parameter changes.
 *
 * Memory     no heap; a few hundred bytes of stack      Blocking  the storage's
 * Context    the model's thread
 * Source     the safetensors format: u64 header size, JSON header, raw little-endian tensors
 */
#ifndef UWASA_CHECKPOINT_H
#define UWASA_CHECKPOINT_H

#include "uwasa/cplusplus.h"
#include "uwasa/dataset.h"
#include "uwasa/model.h"
#include "uwasa/storage.h"

#include <stdbool.h>

UW_C_BEGIN

/* Training state beside the tensors. */
struct uw_checkpoint {
    uint64_t step;                  /* steps done */
    uint64_t epoch;                 /* loader cursor */
    uint64_t position;
    uint64_t seed;                  /* of the run; must be equal when resumed */
    uint64_t batch_n;               /* minibatch of the run; must be equal when resumed */
    uint64_t updates, noise;        /* the model's updates and seed, and ... */
    uint64_t guard[2];              /* ... its spike guard's `seen` and `mean` (bits of a double):
                                       written by save, set in the model by load */
    uint64_t user[4];               /* the caller's, for example a gossip round */
    uint64_t exact;                 /* 1: exact mode (uwasa/exact.h) */
    uint64_t mode, micro_n;         /* of the plan, written by save; in exact mode they decide the
                                       order of sums */
    uint64_t layers;                /* the caller's hash of what the model computes beyond its
                                       shapes; 0: not known, as in older files */
    const char *data;               /* a text about the samples, which save writes into __metadata__
                                       as uwasa.data; NULL: none. load sets NULL */
};

/* Write parameters, and with state != NULL the optimizer's vectors and the state.
 * Returns UW_OK, UW_ERR_INVALID (deferred updates are pending, see uwasa/bucket.h), UW_ERR_IO,
 * UW_ERR_DENIED. */
int uw_checkpoint_save(const struct uw_model *m, const struct uw_checkpoint *state,
                       struct uw_storage *storage, const char *object, struct uw_error *err);

/* Read parameters by name and, with state != NULL, the optimizer's vectors and state. Extra
 * tensors are ignored. Without state, the file's low-rank additions (LoRA) are added to the weights
 * of a model without LoRA, and a model's LoRA tensors stay unchanged if the file has none. An error
 * in the header leaves the model unchanged; after UW_ERR_IO in the data its parameters are
 * unspecified.
 *
 * Returns UW_OK, UW_ERR_NOTFOUND (no object, or a tensor is missing), UW_ERR_CORRUPT (truncated,
 * longer than its tensors, or malformed: err names the byte; or not what its checksum is of),
 * UW_ERR_MISMATCH (a shape, a dtype, the optimizer or the scale of low-rank additions differs, or
 * no training state inside),
 * UW_ERR_NONFINITE (a stored value is NaN or infinite), UW_ERR_INVALID (deferred updates are
 * pending), UW_ERR_IO. */
int uw_checkpoint_load(struct uw_model *m, struct uw_checkpoint *state,
                       struct uw_storage *storage, const char *object, struct uw_error *err);

/* Some of a file's tensors. */
struct uw_weights_tensors {
    uint32_t n;
    char first[160];                /* the first one's name; "" without any */
};

/* What weights from elsewhere were like. */
struct uw_weights_report {
    char type[8];                   /* of the widened ones: "BF16"; "" without any */
    struct uw_weights_tensors widened;      /* converted to float */
    struct uw_weights_tensors unknown;      /* in the file, not in the model: left out; neither
                                               optimizer.* nor num_batches_tracked */
    struct uw_weights_tensors missing;      /* in the model, not in the file: unchanged */
    struct uw_weights_tensors reshaped;     /* of another shape than in the model: unchanged */
};

/* A tensor of a file of weights. */
struct uw_weights_tensor {
    const char *name;
    const uint64_t *dim;            /* [rank] */
    uint32_t rank;                  /* UW_SHAPE_RANK_MAX + 1 stands for any higher one */
};

/* Call `visit` for each tensor of a file, in the order of its header; names that are too long for
 * a parameter are "". Returns UW_OK, UW_ERR_NOTFOUND, UW_ERR_CORRUPT, UW_ERR_IO. */
int uw_checkpoint_each(struct uw_storage *storage, const char *object,
                       void (*visit)(void *arg, const struct uw_weights_tensor *t), void *arg,
                       struct uw_error *err);

/* What a parameter is called in files of another program. Several of the same parameter are parts
 * of it, which follow one another; of two of the same rows the first is read. */
struct uw_weights_name {
    const char *mine, *theirs;      /* theirs NULL: a file may lack it, it stays as it is */
    uint32_t first, rows;           /* along axis 0 of the parameter; rows 0: all */
};

struct uw_weights_names {
    const struct uw_weights_name *name;     /* [n] */
    uint32_t n;
};

/* Read parameters by name from a file of another program, as uw_checkpoint_load without state does.
 * Also reads F16, BF16 and F64, which is rounded. A shape may differ by axes of size 1.
 *
 *   loose   a tensor that is missing, or has another shape, leaves the parameter as it is
 *   names   other names of parameters, for files without their own; NULL: none
 *   report  filled, after an error as far as the file was read
 *
 * Returns as uw_checkpoint_load; with `loose` a missing tensor and another shape are no errors. */
int uw_checkpoint_load_weights(struct uw_model *m, bool loose,
                               const struct uw_weights_names *names,
                               struct uw_weights_report *report, struct uw_storage *storage,
                               const char *object, struct uw_error *err);

UW_C_END
#endif
