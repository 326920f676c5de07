/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/optimizer.h"

#include <stddef.h>

uint32_t uw_optimizer_vectors(const struct uw_optimizer *o)
{
    switch (o->kind) {
    case UW_OPTIMIZER_SGD:
        return o->momentum != 0.0f && !o->frozen ? 1 : 0;
    case UW_OPTIMIZER_ADAM:
    case UW_OPTIMIZER_ADAMW:
        return 2;
    case UW_OPTIMIZER_RMSPROP:
        return o->momentum != 0.0f ? 2 : 1;
    }
    return 0;
}

const char *uw_optimizer_vector_name(const struct uw_optimizer *o, uint32_t v)
{
    switch (o->kind) {
    case UW_OPTIMIZER_SGD:
        break;
    case UW_OPTIMIZER_ADAM:
    case UW_OPTIMIZER_ADAMW:
        return v == 0 ? "exp_avg" : "exp_avg_sq";
    case UW_OPTIMIZER_RMSPROP:
        return v == 0 ? "square_avg" : "momentum_buffer";
    }
    return "momentum_buffer";
}
