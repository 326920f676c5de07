/* SPDX-License-Identifier: Apache-2.0
 *
 * Products by cuBLAS, and dense layers by it or by dense_small.cu. */
#include "products.h"

#include <limits.h>

/* C = beta C: a product with k == 0. */
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

/* cuBLAS is column-major: its C is our C transposed, the product of B and A transposed. */
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

/* Most products in one call, which is one launch. */
#define AT_ONCE 65535u

static bool is_batch(const struct uw_gemm *g)
{
    return fits_int(g) && g->m > 0 && g->n > 0 && g->k > 0;
}

static int one_by_one(const struct uw_exec *e, const struct uw_gemm *g,
                      const struct uw_gemm_batch *batch, const float *a, const float *b, float *c)
{
    int rc = UW_OK;
    for (size_t i = 0; i < (size_t)batch->n[0] * batch->n[1] && rc == UW_OK; i++) {
        size_t x = i / batch->n[1], y = i % batch->n[1];
        rc = uw_gemm_cuda(e, g, a + x * batch->a[0] + y * batch->a[1],
                          b + x * batch->b[0] + y * batch->b[1],
                          c + x * batch->c[0] + y * batch->c[1]);
    }
    return rc;
}

/* The longer dimension of the batch is one call's, the shorter one a loop over calls. */
int uw_gemm_batch_cuda(const struct uw_exec *e, const struct uw_gemm *g,
                       const struct uw_gemm_batch *batch, const float *a, const float *b, float *c)
{
    const struct uw_cuda_products *p = uw_cuda_of(e)->products;
    const cublasOperation_t op_a = g->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t op_b = g->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    int in = batch->n[0] < batch->n[1] ? 1 : 0, out = 1 - in, rc = UW_OK;
    if (!is_batch(g)) {
        return one_by_one(e, g, batch, a, b, c);
    }
    for (size_t i = 0; i < batch->n[out]; i++) {
        for (size_t j = 0; j < batch->n[in] && rc == UW_OK; j += AT_ONCE) {
            size_t left = batch->n[in] - j;
            rc = uw_cuda_blas_done(
                e, p->libraries.cublasSgemmStridedBatched(
                       p->cublas, op_b, op_a, (int)g->n, (int)g->m, (int)g->k, &g->alpha,
                       b + i * batch->b[out] + j * batch->b[in], (int)g->ldb,
                       (long long)batch->b[in], a + i * batch->a[out] + j * batch->a[in],
                       (int)g->lda, (long long)batch->a[in], &g->beta,
                       c + i * batch->c[out] + j * batch->c[in], (int)g->ldc,
                       (long long)batch->c[in], (int)(left < AT_ONCE ? left : AT_ONCE)));
        }
    }
    return rc;
}

size_t uw_gemm_scratch_bytes_cuda(const struct uw_kernels *k, const struct uw_gemm *g,
                                  uint32_t threads)
{
    (void)k;
    (void)g;
    (void)threads;
    return 0;
}

static int run_small(const struct uw_exec *e, const struct uw_dense *d,
                     const struct uw_dense_job *j)
{
    switch (j->part) {
    case UW_CONV2D_FW:
        return uw_dense_small_fw(e, d, j->batch_n, j->a, j->b, j->bias, 0.0f, j->out);
    case UW_CONV2D_BW_INPUT:
        return uw_dense_small_bw_input(e, d, j->batch_n, j->a, j->b, j->out, j->accumulate);
    case UW_CONV2D_BW_PARAM:
        break;
    }
    return uw_dense_small_bw_param(e, d, j->batch_n, j->a, j->b, j->keep, j->scale, j->out,
                                   j->dbias);
}

static int fw(const struct uw_exec *e, const struct uw_dense *d, const struct uw_dense_job *j)
{
    const struct uw_gemm g = {.trans_b = true, .m = j->batch_n, .n = d->out, .k = d->in,
                              .lda = d->in, .ldb = d->in, .ldc = d->out, .alpha = 1.0f};
    int rc = uw_gemm_cuda(e, &g, j->a, j->b, j->out);
    return rc < 0 || j->bias == NULL
               ? rc
               : uw_add_channels_cuda(e, j->batch_n, d->out, 1, j->bias, j->out);
}

static int bw_input(const struct uw_exec *e, const struct uw_dense *d,
                    const struct uw_dense_job *j)
{
    const struct uw_gemm g = {.m = j->batch_n, .n = d->in, .k = d->out, .lda = d->out,
                              .ldb = d->in, .ldc = d->in, .alpha = 1.0f,
                              .beta = j->accumulate ? 1.0f : 0.0f};
    return uw_gemm_cuda(e, &g, j->a, j->b, j->out);
}

/* x = keep * x, rounded, so that a fused step has the same bits as separate calls. */
static int keep(const struct uw_exec *e, const struct uw_dense_job *j, size_t n, float *x)
{
    return j->keep != 1.0f ? uw_axpby_cuda(e, n, j->keep, x, 0.0f, x) : UW_OK;
}

static int bw_bias(const struct uw_exec *e, const struct uw_dense *d, const struct uw_dense_job *j)
{
    int rc = keep(e, j, d->out, j->dbias);
    return rc < 0 ? rc
                  : uw_sum_channels_cuda(e, j->batch_n, d->out, 1, j->b, j->scale, j->dbias);
}

static int bw_param(const struct uw_exec *e, const struct uw_dense *d,
                    const struct uw_dense_job *j)
{
    const struct uw_gemm g = {.trans_a = true, .m = d->out, .n = d->in, .k = j->batch_n,
                              .lda = d->out, .ldb = d->in, .ldc = d->in, .alpha = j->scale,
                              .beta = 1.0f};
    int rc = keep(e, j, (size_t)d->in * d->out, j->out);
    rc = rc < 0 ? rc : uw_gemm_cuda(e, &g, j->b, j->a, j->out);
    return rc < 0 || j->dbias == NULL ? rc : bw_bias(e, d, j);
}

int uw_dense_run(const struct uw_exec *e, const struct uw_dense *d, const struct uw_dense_job *j,
                 bool small)
{
    if (small) {
        return run_small(e, d, j);
    }
    switch (j->part) {
    case UW_CONV2D_FW:
        return fw(e, d, j);
    case UW_CONV2D_BW_INPUT:
        return bw_input(e, d, j);
    case UW_CONV2D_BW_PARAM:
        break;
    }
    return bw_param(e, d, j);
}

static int run(const struct uw_exec *e, const struct uw_dense *d, const struct uw_dense_job *j)
{
    return uw_dense_run(e, d, j, uw_dense_is_small(uw_cuda_of(e), d, j->batch_n, j->part));
}

int uw_dense_fw_cuda(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                     const float *x, const float *w, const float *b, float *y)
{
    const struct uw_dense_job j = {.part = UW_CONV2D_FW, .batch_n = batch_n, .a = x, .b = w,
                                   .out = y, .bias = b};
    return run(e, d, &j);
}

int uw_dense_bw_input_cuda(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                           const float *dy, const float *w, float *dx, bool accumulate)
{
    const struct uw_dense_job j = {.part = UW_CONV2D_BW_INPUT, .batch_n = batch_n, .a = dy,
                                   .b = w, .out = dx, .accumulate = accumulate};
    return run(e, d, &j);
}

int uw_dense_bw_step_cuda(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                          const float *x, const float *dy, float keep, float scale, float *w,
                          float *b, float *dx, bool accumulate)
{
    const struct uw_dense_job j = {.part = UW_CONV2D_BW_PARAM, .batch_n = batch_n, .a = x, .b = dy,
                                   .out = w, .keep = keep, .scale = scale, .dbias = b};
    int rc = dx != NULL ? uw_dense_bw_input_cuda(e, d, batch_n, dy, w, dx, accumulate) : UW_OK;
    if (rc < 0) {
        return rc;
    }
    if (w != NULL || b == NULL) {
        return w != NULL ? run(e, d, &j) : UW_OK;
    }
    /* The same bits as together with w. */
    return uw_dense_is_small(uw_cuda_of(e), d, batch_n, j.part)
               ? uw_dense_small_bw_bias(e, d, batch_n, dy, keep, scale, b)
               : bw_bias(e, d, &j);
}

int uw_dense_bw_param_cuda(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                           const float *x, const float *dy, float scale, float *dw, float *db)
{
    return uw_dense_bw_step_cuda(e, d, batch_n, x, dy, 1.0f, scale, dw, db, NULL, false);
}

size_t uw_dense_scratch_bytes_cuda(const struct uw_kernels *k, const struct uw_dense *d,
                                   uint32_t batch_n, uint32_t threads)
{
    const struct uw_exec e = {.kernels = k};
    (void)threads;
    if (uw_cuda_of(&e)->products != NULL) {
        uw_dense_settle(uw_cuda_of(&e), d, batch_n);
    }
    return 0;
}
