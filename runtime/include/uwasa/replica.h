/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/replica.h - one bound model, many sets of parameters
 *
 * A replica is what training changes of a model: its parameters, the optimizer's vectors, the
 * velocity of a mixing rule, the count of updates. A model that is pointed at a replica computes
 * and updates in place there; nothing is copied in or out. So many replicas of one network are
 * trained in turns with the activations, the scratch and the tables of a single model:
 *
 *     uw_model_use(&model, &replica[i]);
 *     uw_model_train_step(&model, &minibatch, &result, &err);
 *     replica[i].updates = model.updates;
 *
 * The learning rate, the seed of dropout and the spike guard stay the model's.
 *
 * Memory     the vectors are the caller's, and borrowed until the model is pointed elsewhere
 * Blocking   never      Context  the model's thread
 */
#ifndef UWASA_REPLICA_H
#define UWASA_REPLICA_H

#include "uwasa/cplusplus.h"
#include "uwasa/model.h"

UW_C_BEGIN

struct uw_replica {
    float *x;                       /* [params.size_n], any alignment of a float */
    float *state[UW_OPTIMIZER_VECTORS_MAX]; /* [trainable_n] each; NULL beyond those of the model */
    float *velocity;                /* [params.size_n]; NULL when the model has none */
    uint64_t updates;
};

/* What the model uses now: after bind, the vectors of its own arena. */
struct uw_replica uw_model_replica(const struct uw_model *m);

/* Use the replica from now on. Its values give the same bits, wherever they lie. A model planned
 * for inference needs x alone. Constants (struct uw_constant) stay where they are.
 * Returns UW_OK or UW_ERR_INVALID (a vector that the model needs is NULL, or updates are pending,
 * see uwasa/bucket.h); the model is then unchanged. */
int uw_model_use(struct uw_model *m, const struct uw_replica *r);

UW_C_END
#endif
