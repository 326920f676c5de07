/* SPDX-License-Identifier: Apache-2.0
 *
 * job_names.h - what the parameters of a model are called in PyTorch, and in a file of weights
 *
 * A recurrent layer's tensor "lstm_2.weight_ih" is "lstm.weight_ih_l1" or
 * "lstm.weight_ih_l0_reverse" in a state_dict: there one module has several layers and directions.
 * Queries, keys and values of an attention are rows of one tensor here, and in PyTorch perhaps of
 * three dense layers. Other names are the same; shapes may differ by axes of size 1.
 *
 * Memory     the heap      Blocking  reads a file      Context  one thread
 */
#ifndef UWASA_CLI_JOB_NAMES_H
#define UWASA_CLI_JOB_NAMES_H

#include "job.h"

#define UW_JOB_NAME_BYTES 176u

/* What a parameter is in PyTorch's state_dict. */
struct uw_job_torch {
    const struct uw_convert_part *part;     /* [n]; 0: it has no such tensor */
    uint32_t n;
    struct uw_convert_part own;     /* private */
    char text[UW_JOB_NAME_BYTES];   /* private */
};

/* Find it, where it has another name or shape than the segment, or is several tensors or none: of
 * ONNX files; a recurrent layer of a JSON file is taken for a module of its own. t, which may point
 * into itself, is filled. Returns false where name and shape are the segment's. */
bool uw_job_torch_find(const struct uw_job *j, const struct uw_segment *s, struct uw_job_torch *t);

struct uw_job_names {
    struct uw_weights_names names;  /* of the file's tensors, for uw_checkpoint_load_weights */
    char note[160];                 /* what was taken by order or shape; "": nothing */
    void *memory;                   /* private */
};

/* Find what a file calls the model's parameters. Recurrent layers whose names neither the file nor
 * PyTorch has are taken in their order, if the file has as many of the same shapes in one module,
 * or by their shapes, if each has one of its own.
 *   normed  true: refuse a file with batch norm that the model does not have, which an exporter has
 *           folded into other layers: its other weights compute something else without it
 * Returns UW_OK, UW_ERR_MISMATCH (refused), UW_ERR_NOMEM, or an error of uw_checkpoint_each; err
 * filled. Close in every case. */
int uw_job_names_find(struct uw_job_names *n, const struct uw_job *j, bool normed,
                      struct uw_storage *storage, const char *object, struct uw_error *err);
void uw_job_names_close(struct uw_job_names *n);

#endif
