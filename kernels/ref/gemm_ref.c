/* SPDX-License-Identifier: Apache-2.0 */
#include "ref/ref.h"

#include "uwasa/status.h"

/* Four sums, so that neither the rounding error nor the adder's latency grows with n. */
float uw_dot_ref(size_t n, const float *x, const float *y)
{
    float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        s0 += x[i] * y[i];
        s1 += x[i + 1] * y[i + 1];
        s2 += x[i + 2] * y[i + 2];
        s3 += x[i + 3] * y[i + 3];
    }
    for (; i < n; i++) {
        s0 += x[i] * y[i];
    }
    return (s0 + s1) + (s2 + s3);
}

static void scale_row(uint32_t n, float beta, float *c)
{
    for (uint32_t j = 0; j < n; j++) {
        c[j] = beta == 0.0f ? 0.0f : beta * c[j];
    }
}

/* c[j] += sum over k of alpha * a[k] * b[k][j], one row of C. */
static void row_times_b(const struct uw_gemm *g, const float *a, const float *b, float *c)
{
    size_t step_a = g->trans_a ? g->lda : 1;
    for (uint32_t k = 0; k < g->k; k++) {
        float ak = g->alpha * a[k * step_a];
        const float *bk = b + (size_t)k * g->ldb;
        for (uint32_t j = 0; j < g->n; j++) {
            c[j] += ak * bk[j];
        }
    }
}

/* The same with B stored [n][k]. */
static void row_times_b_trans(const struct uw_gemm *g, const float *a, const float *b, float *c)
{
    for (uint32_t j = 0; j < g->n; j++) {
        const float *bj = b + (size_t)j * g->ldb;
        float sum = 0.0f;
        if (!g->trans_a) {
            sum = uw_dot_ref(g->k, a, bj);
        } else {
            for (uint32_t k = 0; k < g->k; k++) {
                sum += a[(size_t)k * g->lda] * bj[k];
            }
        }
        c[j] += g->alpha * sum;
    }
}

int uw_gemm_ref(const struct uw_exec *e, const struct uw_gemm *g, const float *a, const float *b,
                float *c)
{
    (void)e;
    for (uint32_t i = 0; i < g->m; i++) {
        const float *ai = a + (g->trans_a ? (size_t)i : (size_t)i * g->lda);
        float *ci = c + (size_t)i * g->ldc;
        if (g->beta != 1.0f) {
            scale_row(g->n, g->beta, ci);
        }
        if (g->trans_b) {
            row_times_b_trans(g, ai, b, ci);
        } else {
            row_times_b(g, ai, b, ci);
        }
    }
    return UW_OK;
}

size_t uw_gemm_scratch_bytes_ref(const struct uw_kernels *k, const struct uw_gemm *g,
                                 uint32_t threads)
{
    (void)k;
    (void)g;
    (void)threads;
    return 0;
}
