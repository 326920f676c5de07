/* SPDX-License-Identifier: Apache-2.0
 *
 * Slots gemm and dense. */
#include "exact/exact_product.h"

#include "ref/ref.h"
#include "uwasa/status.h"

#include <string.h>

typedef float vec4 __attribute__((vector_size(16)));

static inline vec4 load(const float *p)
{
    vec4 v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* to[i][r] = from[r][i] */
static inline void transpose_4x4(const float *from, size_t row, float *to)
{
    vec4 r0 = load(from), r1 = load(from + row), r2 = load(from + 2 * row);
    vec4 r3 = load(from + 3 * row);
    vec4 a = __builtin_shufflevector(r0, r1, 0, 4, 1, 5);
    vec4 b = __builtin_shufflevector(r2, r3, 0, 4, 1, 5);
    vec4 c = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
    vec4 d = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
    const vec4 transposed[4] = {__builtin_shufflevector(a, b, 0, 1, 4, 5),
                                __builtin_shufflevector(a, b, 2, 3, 6, 7),
                                __builtin_shufflevector(c, d, 0, 1, 4, 5),
                                __builtin_shufflevector(c, d, 2, 3, 6, 7)};
    for (uint32_t i = 0; i < 4; i++) {
        memcpy(to + i * UW_EXACT_NR, &transposed[i], sizeof transposed[i]);
    }
}

/* B stored [k][n]. */
static void pack_rows(const struct uw_exact_product *p, uint32_t image, uint32_t group, uint32_t k,
                      uint32_t k_n, uint32_t j, uint32_t n, float *panel)
{
    (void)image;
    (void)group;
    const float *b = (const float *)p->b + k * p->row_b + j;
    for (uint32_t i = 0; i < k_n; i++, b += p->row_b, panel += UW_EXACT_NR) {
        if (n == UW_EXACT_NR) {
            memcpy(panel, b, UW_EXACT_NR * sizeof *b);
            continue;
        }
        for (uint32_t c = 0; c < UW_EXACT_NR; c++) {
            panel[c] = c < n ? b[c] : 0.0f;
        }
    }
}

/* B stored [n][k]: four columns are transposed at a time. */
static void pack_columns(const struct uw_exact_product *p, uint32_t image, uint32_t group,
                         uint32_t k, uint32_t k_n, uint32_t j, uint32_t n, float *panel)
{
    (void)image;
    (void)group;
    const float *b = (const float *)p->b + j * p->row_b + k;
    if (n < UW_EXACT_NR) {
        memset(panel, 0, (size_t)k_n * UW_EXACT_NR * sizeof *panel);
    }
    for (uint32_t c = 0; c < n; c += 4, b += 4 * p->row_b, panel += 4) {
        uint32_t i = 0;
        if (c + 4 <= n) {
            for (; i + 4 <= k_n; i += 4) {
                transpose_4x4(b + i, p->row_b, panel + i * UW_EXACT_NR);
            }
        }
        for (; i < k_n; i++) {
            for (uint32_t r = 0; r < 4 && c + r < n; r++) {
                panel[i * UW_EXACT_NR + r] = b[r * p->row_b + i];
            }
        }
    }
}

int uw_gemm_exact(const struct uw_exec *e, const struct uw_gemm *g, const float *a, const float *b,
                  float *c)
{
    const struct uw_exact_product p = {
        .m = g->m, .n = g->n, .k = g->k, .images = 1, .groups = 1, .block = UW_BLOCK_REF,
        .a = a, .row_a = g->trans_a ? 1 : g->lda, .step_a = g->trans_a ? g->lda : 1,
        .inner_a = UINT32_MAX, .alpha = g->alpha, .pack = g->trans_b ? pack_columns : pack_rows,
        .b = b, .row_b = g->ldb, .c = c, .row_c = g->ldc, .beta = g->beta};
    return uw_exact_product_run(e, &p);
}

size_t uw_gemm_scratch_bytes_exact(const struct uw_kernels *k, const struct uw_gemm *g,
                                   uint32_t threads)
{
    (void)k;
    bool none = g->m == 0 || g->n == 0;
    return none ? 0 : uw_exact_product_scratch(UW_BLOCK_REF, threads);
}

int uw_dense_fw_exact(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                      const float *x, const float *w, const float *b, float *y)
{
    const struct uw_gemm g = uw_dense_fw_gemm_ref(d, batch_n, b, y);
    return uw_gemm_exact(e, &g, x, w, y);
}

int uw_dense_bw_input_exact(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                            const float *dy, const float *w, float *dx, bool accumulate)
{
    const struct uw_gemm g = uw_dense_bw_input_gemm_ref(d, batch_n, accumulate);
    return uw_gemm_exact(e, &g, dy, w, dx);
}

int uw_dense_bw_param_exact(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                            const float *x, const float *dy, float scale, float *dw, float *db)
{
    const struct uw_gemm g = uw_dense_bw_param_gemm_ref(d, batch_n, scale);
    int rc = uw_dense_bw_param_ref(e, d, batch_n, x, dy, scale, NULL, db);
    return rc == UW_OK && dw != NULL && batch_n != 0 ? uw_gemm_exact(e, &g, dy, x, dw) : rc;
}

size_t uw_dense_scratch_bytes_exact(const struct uw_kernels *k, const struct uw_dense *d,
                                    uint32_t batch_n, uint32_t threads)
{
    (void)k;
    (void)d;
    return batch_n == 0 ? 0 : uw_exact_product_scratch(UW_BLOCK_REF, threads);
}
