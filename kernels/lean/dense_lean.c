/* SPDX-License-Identifier: Apache-2.0
 *
 * Dense layers for small minibatches: four sums at the same time, in the blocks of 64 terms that
 * uwasa/exact.h requires. */
#include "ref/ref.h"

#include "uwasa/status.h"

#define LANES 4u

/* sum[i] = sum over k < n of scale * a[k * a_step] * b[k * b_step + lane[i]], for four lanes. Not
 * inlined, so that its loop fits in registers. */
__attribute__((noinline)) static void dots(uint32_t n, const float *a, size_t a_step, float scale,
                                           const float *b, size_t b_step,
                                           const size_t lane[LANES], float sum[LANES])
{
    const float *b1 = b + lane[1], *b2 = b + lane[2], *b3 = b + lane[3];
    float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
    for (; n > 0; n--) {
        float f = scale * *a;
        a += a_step;
        s0 += f * *b;
        s1 += f * *b1;
        s2 += f * *b2;
        s3 += f * *b3;
        b += b_step;
        b1 += b_step;
        b2 += b_step;
        b3 += b_step;
    }
    sum[0] = s0;
    sum[1] = s1;
    sum[2] = s2;
    sum[3] = s3;
}

/* c[j] += sum over k of scale * a[k] * b[k][j] for j < columns; element (k, j) of B is at
 * k * k_step + j * j_step. */
static void add_row(uint32_t columns, uint32_t terms, const float *a, size_t a_step, float scale,
                    const float *b, size_t k_step, size_t j_step, float *c)
{
    for (uint32_t j = 0; j < columns; j += LANES) {
        uint32_t n = columns - j < LANES ? columns - j : LANES;
        size_t lane[LANES];
        for (uint32_t i = 0; i < LANES; i++) {
            lane[i] = i < n ? i * j_step : 0;
        }
        for (uint32_t k = 0; k < terms; k += UW_BLOCK_REF) {
            uint32_t block = terms - k < UW_BLOCK_REF ? terms - k : UW_BLOCK_REF;
            float sum[LANES];
            dots(block, a + k * a_step, a_step, scale, b + k * k_step + j * j_step, k_step, lane,
                 sum);
            for (uint32_t i = 0; i < n; i++) {
                c[j + i] += sum[i];
            }
        }
    }
}

int uw_dense_fw_lean(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                     const float *x, const float *w, const float *b, float *y)
{
    (void)e;
    for (uint32_t n = 0; n < batch_n; n++, x += d->in, y += d->out) {
        for (uint32_t o = 0; o < d->out; o++) {
            y[o] = b != NULL ? b[o] + 0.0f : 0.0f;
        }
        add_row(d->out, d->in, x, 1, 1.0f, w, 1, d->in, y);
    }
    return UW_OK;
}

int uw_dense_bw_input_lean(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                           const float *dy, const float *w, float *dx, bool accumulate)
{
    (void)e;
    for (uint32_t n = 0; n < batch_n; n++, dy += d->out, dx += d->in) {
        for (uint32_t i = 0; i < d->in; i++) {
            dx[i] = accumulate ? dx[i] + 0.0f : 0.0f;
        }
        add_row(d->in, d->out, dy, 1, 1.0f, w, d->in, 1, dx);
    }
    return UW_OK;
}

int uw_dense_bw_param_lean(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                           const float *x, const float *dy, float scale, float *dw, float *db)
{
    (void)e;
    for (uint32_t o = 0; o < d->out; o++, dy++) {
        float sum = 0.0f;
        for (uint32_t n = 0; n < batch_n && db != NULL; n++) {
            sum += dy[(size_t)n * d->out];
        }
        if (db != NULL) {
            db[o] += scale * sum;
        }
        float f = batch_n == 1 ? scale * *dy : 0.0f;
        for (uint32_t i = 0; i < d->in && dw != NULL; i++) {
            dw[i] += 0.0f; /* a sum never begins at -0 */
            dw[i] += batch_n == 1 ? 0.0f + f * x[i] : 0.0f;
        }
        if (batch_n > 1 && dw != NULL) {
            add_row(d->in, batch_n, dy, d->out, scale, x, d->in, 1, dw);
        }
        dw += dw != NULL ? d->in : 0;
    }
    return UW_OK;
}
