/* SPDX-License-Identifier: Apache-2.0 */
#include "ref/ref.h"

#include "uwasa/status.h"

#include <math.h>

int uw_relu_fw_ref(const struct uw_exec *e, size_t n, const float *x, float *y)
{
    (void)e;
    for (size_t i = 0; i < n; i++) {
        y[i] = x[i] <= 0.0f ? 0.0f : x[i]; /* false for NaN, which therefore stays */
    }
    return UW_OK;
}

int uw_relu_bw_input_ref(const struct uw_exec *e, size_t n, const float *y, const float *dy,
                         float *dx, bool accumulate)
{
    (void)e;
    if (accumulate) {
        for (size_t i = 0; i < n; i++) {
            dx[i] += y[i] > 0.0f ? dy[i] : 0.0f;
        }
    } else {
        for (size_t i = 0; i < n; i++) {
            dx[i] = y[i] > 0.0f ? dy[i] : 0.0f;
        }
    }
    return UW_OK;
}

int uw_axpby_ref(const struct uw_exec *e, size_t n, float a, const float *x, float b, float *y)
{
    (void)e;
    if (b == 0.0f) {
        for (size_t i = 0; i < n; i++) {
            y[i] = a * x[i];
        }
    } else {
        for (size_t i = 0; i < n; i++) {
            y[i] = a * x[i] + b * y[i];
        }
    }
    return UW_OK;
}

int uw_sgd_update_ref(const struct uw_exec *e, size_t n, const struct uw_sgd *s, const float *g,
                      float *w, float *v)
{
    (void)e;
    if (s->momentum == 0.0f) {
        for (size_t i = 0; i < n; i++) {
            w[i] -= s->lr * (g[i] + s->weight_decay * w[i]);
        }
    } else if (s->frozen) {
        for (size_t i = 0; i < n; i++) {
            w[i] -= s->lr * (g[i] + s->weight_decay * w[i] + s->momentum * v[i]);
        }
    } else {
        for (size_t i = 0; i < n; i++) {
            float gi = g[i] + s->weight_decay * w[i];
            float vi = s->momentum * v[i] + gi;
            v[i] = vi;
            w[i] -= s->lr * (s->nesterov ? gi + s->momentum * vi : vi);
        }
    }
    return UW_OK;
}

bool uw_all_finite_ref(const struct uw_exec *e, size_t n, const float *x)
{
    (void)e;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(x[i])) {
            return false;
        }
    }
    return true;
}

double uw_distance_sq_ref(const struct uw_exec *e, size_t n, const float *x, const float *y)
{
    (void)e;
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)x[i] - (y != NULL ? (double)y[i] : 0.0);
        sum += d * d;
    }
    return sum;
}
