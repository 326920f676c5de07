/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/optimizer.h - optimizers and their options
 *
 * The model copies a struct uw_optimizer when it is planned. Kind, momentum and clipping are then
 * fixed, because memory depends on them; lr may change before every step.
 *
 * Source     PyTorch's definitions: SGD, Adam, AdamW, RMSprop, clip_grad_norm_
 */
#ifndef UWASA_OPTIMIZER_H
#define UWASA_OPTIMIZER_H

#include "uwasa/cplusplus.h"

#include <stdbool.h>
#include <stdint.h>

UW_C_BEGIN

#define UW_OPTIMIZER_VECTORS_MAX 2

enum uw_optimizer_kind {
    UW_OPTIMIZER_SGD = 0,
    UW_OPTIMIZER_ADAM,              /* weight decay is added to the gradient */
    UW_OPTIMIZER_ADAMW,             /* weight decay shrinks the weights */
    UW_OPTIMIZER_RMSPROP
};

struct uw_optimizer {
    enum uw_optimizer_kind kind;
    float lr;
    float weight_decay;
    float momentum;                 /* sgd, rmsprop */
    bool nesterov;                  /* sgd */
    bool frozen;                    /* sgd: the velocity is a mixing rule's, see struct uw_sgd */
    float beta1, beta2;             /* adam; 0: 0.9, 0.999 */
    float alpha;                    /* rmsprop; 0: 0.99 */
    float epsilon;                  /* adam, rmsprop; 0: 1e-8 */
    float clip_tensor;              /* largest norm of one tensor's gradient; 0: no limit */
    float clip_global;              /* largest norm of all gradients together, clipped before the
                                       tensors; 0: no limit */
};

/* Number of the optimizer's floats per trainable parameter, 0 to UW_OPTIMIZER_VECTORS_MAX. */
uint32_t uw_optimizer_vectors(const struct uw_optimizer *o);

/* Name of vector v in a checkpoint, PyTorch's: "momentum_buffer", "exp_avg", "square_avg". */
const char *uw_optimizer_vector_name(const struct uw_optimizer *o, uint32_t v);

UW_C_END
#endif
