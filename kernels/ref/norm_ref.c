/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums are in eight double lanes, added in a fixed order: precise enough for rows of any length,
 * and the same bits however a compiler vectorizes. */
#include "ref/ref.h"

#include "uwasa/fmath.h"
#include "uwasa/status.h"

#define LANES 8u

static double total(const double lane[LANES])
{
    return ((lane[0] + lane[1]) + (lane[2] + lane[3])) +
           ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

static double sum_of(size_t n, const float *x)
{
    double lane[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (size_t k = 0; k < LANES; k++) {
            lane[k] += (double)x[i + k];
        }
    }
    for (size_t k = 0; i < n; i++, k++) {
        lane[k] += (double)x[i];
    }
    return total(lane);
}

/* Sum of (x - mean)^2. */
static double spread_of(size_t n, const float *x, double mean)
{
    double lane[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (size_t k = 0; k < LANES; k++) {
            double d = (double)x[i + k] - mean;
            lane[k] += d * d;
        }
    }
    for (size_t k = 0; i < n; i++, k++) {
        double d = (double)x[i] - mean;
        lane[k] += d * d;
    }
    return total(lane);
}

/* Sum of dy * xhat. */
static double projection_of(size_t n, const float *x, const float *dy, const float *stats)
{
    double lane[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (size_t k = 0; k < LANES; k++) {
            lane[k] += (double)dy[i + k] * (double)((x[i + k] - stats[0]) * stats[1]);
        }
    }
    for (size_t k = 0; i < n; i++, k++) {
        lane[k] += (double)dy[i] * (double)((x[i] - stats[0]) * stats[1]);
    }
    return total(lane);
}

static void normalize(size_t n, const float *x, const float *stats, float gamma, float beta,
                      float *y)
{
    for (size_t i = 0; i < n; i++) {
        y[i] = gamma * ((x[i] - stats[0]) * stats[1]) + beta;
    }
}

/* dx = gamma * second * (dy - a - xhat * b) */
static void denormalize(size_t n, const float *x, const float *stats, const float *dy, float gamma,
                        float a, float b, float *dx, bool accumulate)
{
    for (size_t i = 0; i < n; i++) {
        float xhat = (x[i] - stats[0]) * stats[1];
        float d = stats[1] * (gamma * dy[i] - a - xhat * b);
        dx[i] = accumulate ? dx[i] + d : d;
    }
}

static void moments_of(const struct norm_rows *r, const float *x, double *mean, double *spread)
{
    double sum = 0.0;
    for (size_t s = 0; s < r->count; s++) {
        sum += sum_of(r->n, x + s * r->stride);
    }
    *mean = sum / ((double)r->count * (double)r->n);
    *spread = 0.0;
    for (size_t s = 0; s < r->count; s++) {
        *spread += spread_of(r->n, x + s * r->stride, *mean);
    }
}

/* dy after the backward pass of the ReLU. */
static inline float passed(const struct norm_channel *c, float xhat, float dy)
{
    float v = c->gamma * xhat + c->beta;
    return c->ceiling == 0.0f || (v > 0.0f && v < c->ceiling) ? dy : 0.0f;
}

static void project(const struct norm_rows *r, const float *x, const float *dy,
                    const struct norm_channel *c, double *plain, double *projected)
{
    *plain = *projected = 0.0;
    for (size_t s = 0; s < r->count; s++, x += r->stride, dy += r->stride) {
        double sum[LANES] = {0}, product[LANES] = {0};
        for (size_t i = 0; i < r->n; i++) {
            float xhat = (x[i] - c->mean) * c->second, d = passed(c, xhat, dy[i]);
            sum[i % LANES] += (double)d;
            product[i % LANES] += (double)d * (double)xhat;
        }
        *plain += total(sum);
        *projected += total(product);
    }
}

static void normalize_rows(const struct norm_rows *r, const float *x,
                           const struct norm_channel *c, float *y)
{
    for (size_t s = 0; s < r->count; s++, x += r->stride, y += r->stride) {
        for (size_t i = 0; i < r->n; i++) {
            float v = c->gamma * ((x[i] - c->mean) * c->second) + c->beta;
            if (c->ceiling > 0.0f) {
                v = v <= 0.0f ? 0.0f : v >= c->ceiling ? c->ceiling : v;
            }
            y[i] = v;
        }
    }
}

static bool denormalize_rows(const struct norm_rows *r, const float *x, const float *dy,
                             const struct norm_channel *c, float a, float b, float *dx,
                             bool accumulate)
{
    float bad = 0.0f;
    for (size_t s = 0; s < r->count; s++, x += r->stride, dy += r->stride, dx += r->stride) {
        for (size_t i = 0; i < r->n; i++) {
            float xhat = (x[i] - c->mean) * c->second;
            float d = c->second * (c->gamma * passed(c, xhat, dy[i]) - a - xhat * b);
            d = accumulate ? dx[i] + d : d;
            bad += d * 0.0f;
            dx[i] = d;
        }
    }
    return bad == 0.0f;
}

#include "ref/norm_inline.h"

#define EACH_LANES 4u

/* a = sum of gamma * dy, b = sum of gamma * dy * xhat, in EACH_LANES lanes. */
static void weighted_sums(size_t n, const float *x, const float *dy, const float *gamma,
                          const float *stats, double *a, double *b)
{
    const float mean = stats[0], second = stats[1];
    double plain[EACH_LANES] = {0}, projected[EACH_LANES] = {0};
    size_t c = 0;
    for (; c + EACH_LANES <= n; c += EACH_LANES) {
        for (size_t k = 0; k < EACH_LANES; k++) {
            double g = (double)or_one(gamma, c + k) * (double)dy[c + k];
            plain[k] += g;
            projected[k] += g * (double)((x[c + k] - mean) * second);
        }
    }
    for (size_t k = 0; c < n; c++, k++) {
        double g = (double)or_one(gamma, c) * (double)dy[c];
        plain[k] += g;
        projected[k] += g * (double)((x[c] - mean) * second);
    }
    *a = (plain[0] + plain[1]) + (plain[2] + plain[3]);
    *b = (projected[0] + projected[1]) + (projected[2] + projected[3]);
}

#include "ref/groupnorm_inline.h"

static inline float root(float x)
{
    return uw_sqrtf(x);
}

#include "ref/lrn_inline.h"

int uw_batchnorm_running_ref(const struct uw_exec *e, const struct uw_norm *n,
                             const float *running_mean, const float *running_var, float *stats)
{
    (void)e;
    for (uint32_t c = 0; c < n->channels; c++) {
        stats[2 * (size_t)c] = running_mean[c];
        stats[2 * (size_t)c + 1] = 1.0f / uw_sqrtf(running_var[c] + n->epsilon);
    }
    return UW_OK;
}

const struct uw_norm_kernels uw_norm_ref = {NORM_ENTRIES};
