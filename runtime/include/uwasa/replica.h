/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/replica.h - one bound model, many sets of parameters
 *
 * A replica is the state of a model that training changes: parameters, the optimizer's vectors, the
 * velocity of a mixing rule, the count of updates. A model uses the vectors of its replica in
 * place, without a copy. Many replicas of one network can be trained in turns with the activations,
 * scratch and tables of a single model:
 *
 *     uw_model_use(&model, &replica[i]);
 *     uw_model_train_step(&model, &minibatch, &result, &err);
 *     replica[i].updates = model.updates;
 *
 * The learning rate, the seed of dropout and the spike guard stay the model's.
 *
 * Memory     the vectors are the caller's, borrowed until the model uses another replica
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

/* The replica in use: after bind, the vectors in the model's arena. */
struct uw_replica uw_model_replica(const struct uw_model *m);

/* Use a replica from now on. Results do not depend on its address. A model planned for inference
 * needs x only. Constants (struct uw_constant) are not part of it.
 * Returns UW_OK or UW_ERR_INVALID (a vector that the model needs is NULL, or updates are pending,
 * see uwasa/bucket.h); the model is then unchanged. */
int uw_model_use(struct uw_model *m, const struct uw_replica *r);

UW_C_END
#endif
