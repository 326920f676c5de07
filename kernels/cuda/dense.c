/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu.h"

int uw_gemm_cuda(const struct uw_exec *e, const struct uw_gemm *g, const float *a, const float *b,
                 float *c)
{
    (void)e;
    (void)g;
    (void)a;
    (void)b;
    (void)c;
    return UW_ERR_UNSUPPORTED;
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
    (void)e;
    (void)d;
    (void)batch_n;
    (void)x;
    (void)w;
    (void)b;
    (void)y;
    return UW_ERR_UNSUPPORTED;
}

int uw_dense_bw_input_cuda(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                           const float *dy, const float *w, float *dx, bool accumulate)
{
    (void)e;
    (void)d;
    (void)batch_n;
    (void)dy;
    (void)w;
    (void)dx;
    (void)accumulate;
    return UW_ERR_UNSUPPORTED;
}

int uw_dense_bw_param_cuda(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                           const float *x, const float *dy, float scale, float *dw, float *db)
{
    (void)e;
    (void)d;
    (void)batch_n;
    (void)x;
    (void)dy;
    (void)scale;
    (void)dw;
    (void)db;
    return UW_ERR_UNSUPPORTED;
}

int uw_dense_bw_step_cuda(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                          const float *x, const float *dy, float keep, float scale, float *w,
                          float *b, float *dx, bool accumulate)
{
    (void)e;
    (void)d;
    (void)batch_n;
    (void)x;
    (void)dy;
    (void)keep;
    (void)scale;
    (void)w;
    (void)b;
    (void)dx;
    (void)accumulate;
    return UW_ERR_UNSUPPORTED;
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
