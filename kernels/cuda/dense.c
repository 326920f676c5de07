/* SPDX-License-Identifier: Apache-2.0
 *
 * Products by cuBLAS, and dense layers by it or by dense_small.cu. */
#include "dense_small.h"
#include "products.h"

#include <limits.h>

/* C = beta C: what is left of a product without inner size. */
static int scale_only(const struct uw_exec *e, const struct uw_gemm *g, float *c)
{
    if (g->beta == 0.0f) {
        size_t row_bytes = (size_t)g->n * sizeof *c;
        return uw_cuda_launched(e, cudaMemset2DAsync(c, (size_t)g->ldc * sizeof *c, 0, row_bytes,
                                                     g->m, uw_cuda_of(e)->stream));
    }
    if (g->beta == 1.0f) {
        return UW_OK;
    }
    int rc = UW_OK;
    for (uint32_t i = 0; i < g->m && rc == UW_OK; i++) {
        float *row = c + (size_t)i * g->ldc;
        rc = uw_axpby_cuda(e, g->n, g->beta, row, 0.0f, row);
    }
    return rc;
}

static bool fits_int(const struct uw_gemm *g)
{
    return g->m <= INT_MAX && g->n <= INT_MAX && g->k <= INT_MAX && g->lda <= INT_MAX &&
           g->ldb <= INT_MAX && g->ldc <= INT_MAX;
}

/* cuBLAS counts down columns: its C is our C transposed, the product of B and A transposed. */
int uw_gemm_cuda(const struct uw_exec *e, const struct uw_gemm *g, const float *a, const float *b,
                 float *c)
{
    const struct uw_cuda_products *p = uw_cuda_of(e)->products;
    const cublasOperation_t op_a = g->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t op_b = g->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    if (g->m == 0 || g->n == 0) {
        return UW_OK;
    }
    if (g->k == 0) {
        return scale_only(e, g, c);
    }
    if (fits_int(g)) {
        return uw_cuda_blas_done(
            e, p->libraries.cublasSgemm_v2(p->cublas, op_b, op_a, (int)g->n, (int)g->m, (int)g->k,
                                           &g->alpha, b, (int)g->ldb, a, (int)g->lda, &g->beta, c,
                                           (int)g->ldc));
    }
    return uw_cuda_blas_done(
        e, p->libraries.cublasSgemm_v2_64(p->cublas, op_b, op_a, g->n, g->m, g->k, &g->alpha, b,
                                          g->ldb, a, g->lda, &g->beta, c, g->ldc));
}

size_t uw_gemm_scratch_bytes_cuda(const struct uw_kernels *k, const struct uw_gemm *g,
                                  uint32_t threads)
{
    (void)k;
    (void)g;
    (void)threads;
    return 0;
}

int uw_dense_fw_cuda(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                     const float *x, const float *w, const float *b, float *y)
{
    if (uw_dense_small_takes(d, batch_n)) {
        return uw_dense_small_fw(e, d, batch_n, x, w, b, y);
    }
    const struct uw_gemm g = {.trans_b = true, .m = batch_n, .n = d->out, .k = d->in,
                              .lda = d->in, .ldb = d->in, .ldc = d->out, .alpha = 1.0f};
    int rc = uw_gemm_cuda(e, &g, x, w, y);
    return rc < 0 || b == NULL ? rc : uw_add_channels_cuda(e, batch_n, d->out, 1, b, y);
}

int uw_dense_bw_input_cuda(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                           const float *dy, const float *w, float *dx, bool accumulate)
{
    if (uw_dense_small_takes(d, batch_n)) {
        return uw_dense_small_bw_input(e, d, batch_n, dy, w, dx, accumulate);
    }
    const struct uw_gemm g = {.m = batch_n, .n = d->in, .k = d->out, .lda = d->out, .ldb = d->in,
                              .ldc = d->in, .alpha = 1.0f, .beta = accumulate ? 1.0f : 0.0f};
    return uw_gemm_cuda(e, &g, dy, w, dx);
}

/* w = keep * w + scale * gradient of w, b likewise; either may be NULL. */
static int bw_param(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                    const float *x, const float *dy, float keep, float scale, float *w, float *b)
{
    const struct uw_gemm g = {.trans_a = true, .m = d->out, .n = d->in, .k = batch_n,
                              .lda = d->out, .ldb = d->in, .ldc = d->in, .alpha = scale,
                              .beta = keep};
    if (w != NULL && uw_dense_small_takes(d, batch_n)) {
        return uw_dense_small_bw_param(e, d, batch_n, x, dy, keep, scale, w, b);
    }
    int rc = w != NULL ? uw_gemm_cuda(e, &g, dy, x, w) : UW_OK;
    if (rc == UW_OK && b != NULL && keep != 1.0f) {
        rc = uw_axpby_cuda(e, d->out, keep, b, 0.0f, b);
    }
    return rc < 0 || b == NULL ? rc
                               : uw_sum_channels_cuda(e, batch_n, d->out, 1, dy, scale, b);
}

int uw_dense_bw_param_cuda(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                           const float *x, const float *dy, float scale, float *dw, float *db)
{
    return bw_param(e, d, batch_n, x, dy, 1.0f, scale, dw, db);
}

int uw_dense_bw_step_cuda(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                          const float *x, const float *dy, float keep, float scale, float *w,
                          float *b, float *dx, bool accumulate)
{
    int rc = dx != NULL ? uw_dense_bw_input_cuda(e, d, batch_n, dy, w, dx, accumulate) : UW_OK;
    return rc < 0 ? rc : bw_param(e, d, batch_n, x, dy, keep, scale, w, b);
}

size_t uw_dense_scratch_bytes_cuda(const struct uw_kernels *k, const struct uw_dense *d,
                                   uint32_t batch_n, uint32_t threads)
{
    (void)k;
    (void)d;
    (void)batch_n;
    (void)threads;
    return 0;
}
