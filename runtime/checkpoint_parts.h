/* SPDX-License-Identifier: Apache-2.0
 *
 * checkpoint_parts.h - what saving and loading a checkpoint share (private) */
#ifndef UW_CHECKPOINT_PARTS_H
#define UW_CHECKPOINT_PARTS_H

#include "graph.h"

#include "uwasa/checkpoint.h"

#define UW_MIXING_PREFIX "optimizer.mixing_velocity."  /* the longest prefix of a vector */
#define UW_SCALE_KEY "uwasa.lora_scale"                /* bits of a float, as a decimal number */
#define UW_THRESHOLD_KEY "uwasa.anomaly_threshold"     /* the same */

/* Numbers of the training state, with their metadata keys. */
#define UW_STATE_NUMBERS(X)           \
    X("uwasa.step", step)          \
    X("uwasa.epoch", epoch)        \
    X("uwasa.position", position)  \
    X("uwasa.seed", seed)          \
    X("uwasa.batch", batch_n)      \
    X("uwasa.updates", updates)    \
    X("uwasa.noise", noise)        \
    X("uwasa.guard0", guard[0])    \
    X("uwasa.guard1", guard[1])    \
    X("uwasa.user0", user[0])      \
    X("uwasa.user1", user[1])      \
    X("uwasa.user2", user[2])      \
    X("uwasa.user3", user[3])

/* Older files lack these: 0. */
#define UW_EXACT_NUMBERS(X)           \
    X("uwasa.exact", exact)        \
    X("uwasa.mode", mode)          \
    X("uwasa.micro_batch", micro_n) \
    X("uwasa.layers", layers)

/* One vector of training state, saved beside the parameters. */
struct uw_vector {
    char prefix[40];
    float *data;
    bool trained_only;              /* [trainable_n], else [params.size_n] */
    bool may_lack;                  /* a file without it is loaded, too */
};
#define UW_VECTORS_MAX (UW_OPTIMIZER_VECTORS_MAX + 2)

/* The state's vectors, out[UW_VECTORS_MAX]. Returns how many. */
uint32_t uw_checkpoint_vectors(const struct uw_model *m, struct uw_vector *out);

/* Where a segment begins in the vector; UINT32_MAX: the vector does not contain it. */
static inline uint32_t uw_vector_offset(const struct uw_vector *v, const struct uw_segment *s)
{
    return v->trained_only ? s->state_n : s->offset_n;
}

/* Returns UW_OK, or UW_ERR_INVALID (updates are pending). */
int uw_checkpoint_pending(const struct uw_model *m, const char *object, struct uw_error *err);

#endif
