/* SPDX-License-Identifier: Apache-2.0 */
#include "ref/ref.h"

#include "uwasa/status.h"

/* Four independent sums: less rounding error, and the latency of additions is hidden. */
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

/* Set the initial sums of a row; -0 becomes 0. */
static void begin_row(uint32_t n, float beta, float *c)
{
    for (uint32_t j = 0; j < n; j++) {
        c[j] = beta == 0.0f ? 0.0f : beta * c[j] + 0.0f;
    }
}

#define COLUMNS 64u                 /* columns summed at the same time */

/* c[j] += sum over k of alpha * a[k] * b[k][j], one row of C and one block of k. */
static void row_times_b(const struct uw_gemm *g, uint32_t block_k, const float *a, const float *b,
                        float *c)
{
    size_t step_a = g->trans_a ? g->lda : 1;
    for (uint32_t j = 0; j < g->n; j += COLUMNS) {
        uint32_t n = g->n - j < COLUMNS ? g->n - j : COLUMNS;
        float sum[COLUMNS] = {0.0f};
        for (uint32_t k = 0; k < block_k; k++) {
            float ak = g->alpha * a[k * step_a];
            const float *bk = b + (size_t)k * g->ldb + j;
            for (uint32_t i = 0; i < n; i++) {
                sum[i] += ak * bk[i];
            }
        }
        for (uint32_t i = 0; i < n; i++) {
            c[j + i] += sum[i];
        }
    }
}

/* The same with B stored [n][k], four columns at a time, as independent sums. */
static void row_times_b_trans(const struct uw_gemm *g, uint32_t block_k, const float *a,
                              const float *b, float *c)
{
    size_t step_a = g->trans_a ? g->lda : 1;
    for (uint32_t j = 0; j < g->n; j += 4) {
        uint32_t n = g->n - j < 4 ? g->n - j : 4;
        const float *b0 = b + (size_t)j * g->ldb, *b1 = n > 1 ? b0 + g->ldb : b0;
        const float *b2 = n > 2 ? b1 + g->ldb : b0, *b3 = n > 3 ? b2 + g->ldb : b0;
        float s[4] = {0.0f};
        for (uint32_t k = 0; k < block_k; k++) {
            float ak = g->alpha * a[k * step_a];
            s[0] += ak * b0[k];
            s[1] += ak * b1[k];
            s[2] += ak * b2[k];
            s[3] += ak * b3[k];
        }
        for (uint32_t i = 0; i < n; i++) {
            c[j + i] += s[i];
        }
    }
}

int uw_gemm_ref(const struct uw_exec *e, const struct uw_gemm *g, const float *a, const float *b,
                float *c)
{
    (void)e;
    size_t step_a = g->trans_a ? g->lda : 1, step_b = g->trans_b ? 1 : g->ldb;
    for (uint32_t i = 0; i < g->m; i++) {
        const float *ai = a + (g->trans_a ? (size_t)i : (size_t)i * g->lda);
        float *ci = c + (size_t)i * g->ldc;
        begin_row(g->n, g->beta, ci);
        for (uint32_t k = 0; k < g->k; k += UW_BLOCK_REF) {
            uint32_t n = g->k - k < UW_BLOCK_REF ? g->k - k : UW_BLOCK_REF;
            const float *bk = b + k * step_b;
            if (g->trans_b) {
                row_times_b_trans(g, n, ai + k * step_a, bk, ci);
            } else {
                row_times_b(g, n, ai + k * step_a, bk, ci);
            }
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
