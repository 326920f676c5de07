/* SPDX-License-Identifier: Apache-2.0 */
#include "ref/ref.h"

#include "uwasa/fmath.h"
#include "uwasa/status.h"

#include <math.h>

static float loss_at(enum uw_elementwise_loss kind, float delta, float z, float t)
{
    float d = z - t;
    float size = fabsf(d);

    switch (kind) {
    case UW_ELEMENTWISE_BCE:
        return (z > 0.0f ? z : 0.0f) - z * t + uw_logf(1.0f + uw_expf(-fabsf(z)));
    case UW_ELEMENTWISE_MSE:
        return d * d;
    case UW_ELEMENTWISE_L1:
        return size;
    case UW_ELEMENTWISE_HUBER:
        return size <= delta ? 0.5f * d * d : delta * (size - 0.5f * delta);
    }
    return NAN;
}

static float sign_of(float d)
{
    return d > 0.0f ? 1.0f : d < 0.0f ? -1.0f : d; /* 0 and NaN stay */
}

static float slope_at(enum uw_elementwise_loss kind, float delta, float z, float t)
{
    float d = z - t;
    float small;

    switch (kind) {
    case UW_ELEMENTWISE_BCE:
        small = uw_expf(-fabsf(z));
        return (z >= 0.0f ? 1.0f : small) / (1.0f + small) - t;
    case UW_ELEMENTWISE_MSE:
        return 2.0f * d;
    case UW_ELEMENTWISE_L1:
        return sign_of(d);
    case UW_ELEMENTWISE_HUBER:
        return fabsf(d) <= delta ? d : delta * sign_of(d);
    }
    return NAN;
}

static int forward(const struct uw_exec *e, enum uw_elementwise_loss kind, float delta, size_t n,
                   const float *z, const float *t, double *sum)
{
    (void)e;
    double total = 0.0;
    for (size_t i = 0; i < n; i++) {
        total += (double)loss_at(kind, delta, z[i], t[i]);
    }
    *sum = total;
    return UW_OK;
}

static int bw_input(const struct uw_exec *e, enum uw_elementwise_loss kind, float delta, size_t n,
                    const float *z, const float *t, float scale, float *dz)
{
    (void)e;
    for (size_t i = 0; i < n; i++) {
        dz[i] = scale * slope_at(kind, delta, z[i], t[i]);
    }
    return UW_OK;
}

const struct uw_loss_kernels uw_loss_ref = {.forward = forward, .bw_input = bw_input};
