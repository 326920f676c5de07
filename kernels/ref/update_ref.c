/* SPDX-License-Identifier: Apache-2.0 */
#include "ref/ref.h"

#include "uwasa/fmath.h"
#include "uwasa/status.h"

static int adam(const struct uw_exec *e, size_t n, const struct uw_adam *a, const float *g,
                float *w, float *m, float *v)
{
    (void)e;
    float shrink = a->decoupled ? 1.0f - a->lr * a->weight_decay : 1.0f;
    float decay = a->decoupled ? 0.0f : a->weight_decay;
    float step = a->lr / a->correction1;
    float root = uw_sqrtf(a->correction2);

    for (size_t i = 0; i < n; i++) {
        float gi = g[i] + decay * w[i];
        m[i] += (1.0f - a->beta1) * (gi - m[i]);
        v[i] = a->beta2 * v[i] + (1.0f - a->beta2) * gi * gi;
        w[i] = shrink * w[i] - step * m[i] / (uw_sqrtf(v[i]) / root + a->epsilon);
    }
    return UW_OK;
}

static int rmsprop(const struct uw_exec *e, size_t n, const struct uw_rmsprop *r, const float *g,
                   float *w, float *v, float *b)
{
    (void)e;
    for (size_t i = 0; i < n; i++) {
        float gi = g[i] + r->weight_decay * w[i];
        v[i] = r->alpha * v[i] + (1.0f - r->alpha) * gi * gi;
        float d = gi / (uw_sqrtf(v[i]) + r->epsilon);
        if (r->momentum != 0.0f) {
            b[i] = r->momentum * b[i] + d;
            d = b[i];
        }
        w[i] -= r->lr * d;
    }
    return UW_OK;
}

const struct uw_update_kernels uw_update_ref = {.adam = adam, .rmsprop = rmsprop};
