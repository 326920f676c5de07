/* SPDX-License-Identifier: Apache-2.0 */
#include "ref/ref.h"

#include "uwasa/status.h"

#include <string.h>

struct uw_gemm uw_dense_fw_gemm_ref(const struct uw_dense *d, uint32_t batch_n, const float *b,
                                    float *y)
{
    for (size_t n = 0; n < batch_n && b != NULL; n++) {
        memcpy(y + n * d->out, b, d->out * sizeof *b);
    }
    return (struct uw_gemm){.trans_b = true, .m = batch_n, .n = d->out, .k = d->in, .lda = d->in,
                            .ldb = d->in, .ldc = d->out, .alpha = 1.0f,
                            .beta = b != NULL ? 1.0f : 0.0f};
}

struct uw_gemm uw_dense_bw_input_gemm_ref(const struct uw_dense *d, uint32_t batch_n,
                                          bool accumulate)
{
    return (struct uw_gemm){.m = batch_n, .n = d->in, .k = d->out, .lda = d->out, .ldb = d->in,
                            .ldc = d->in, .alpha = 1.0f, .beta = accumulate ? 1.0f : 0.0f};
}

struct uw_gemm uw_dense_bw_param_gemm_ref(const struct uw_dense *d, uint32_t batch_n, float scale)
{
    return (struct uw_gemm){.trans_a = true, .m = d->out, .n = d->in, .k = batch_n, .lda = d->out,
                            .ldb = d->in, .ldc = d->in, .alpha = scale, .beta = 1.0f};
}

int uw_dense_fw_ref(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                    const float *x, const float *w, const float *b, float *y)
{
    const struct uw_gemm g = uw_dense_fw_gemm_ref(d, batch_n, b, y);
    return uw_gemm_ref(e, &g, x, w, y);
}

int uw_dense_bw_input_ref(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                          const float *dy, const float *w, float *dx, bool accumulate)
{
    const struct uw_gemm g = uw_dense_bw_input_gemm_ref(d, batch_n, accumulate);
    return uw_gemm_ref(e, &g, dy, w, dx);
}

int uw_dense_bw_param_ref(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                          const float *x, const float *dy, float scale, float *dw, float *db)
{
    const struct uw_gemm g = uw_dense_bw_param_gemm_ref(d, batch_n, scale);
    for (uint32_t o = 0; o < d->out && db != NULL; o++) {
        float sum = 0.0f;
        for (uint32_t n = 0; n < batch_n; n++) {
            sum += dy[(size_t)n * d->out + o];
        }
        db[o] += scale * sum;
    }
    return dw != NULL ? uw_gemm_ref(e, &g, dy, x, dw) : UW_OK;
}

int uw_dense_bw_step_ref(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                         const float *x, const float *dy, float keep, float scale, float *w,
                         float *b, float *dx, bool accumulate)
{
    const struct uw_kernels *k = e->kernels;
    int rc = dx != NULL ? k->dense_bw_input(e, d, batch_n, dy, w, dx, accumulate) : UW_OK;
    if (rc == UW_OK && keep != 1.0f) {
        rc = k->axpby(e, (size_t)d->out * d->in, keep, w, 0.0f, w);
    }
    if (rc == UW_OK && keep != 1.0f && b != NULL) {
        rc = k->axpby(e, d->out, keep, b, 0.0f, b);
    }
    return rc < 0 ? rc : k->dense_bw_param(e, d, batch_n, x, dy, scale, w, b);
}

size_t uw_dense_scratch_bytes_ref(const struct uw_kernels *k, const struct uw_dense *d,
                                  uint32_t batch_n, uint32_t threads)
{
    (void)k;
    (void)d;
    (void)batch_n;
    (void)threads;
    return 0;
}
