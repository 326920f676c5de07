/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu.h"

int uw_conv2d_fw_cuda(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                      const float *x, const float *w, const float *b, float *y, bool accumulate)
{
    (void)e;
    (void)c;
    (void)batch_n;
    (void)x;
    (void)w;
    (void)b;
    (void)y;
    (void)accumulate;
    return UW_ERR_UNSUPPORTED;
}

int uw_conv2d_bw_input_cuda(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                            const float *dy, const float *w, float *dx, bool accumulate)
{
    (void)e;
    (void)c;
    (void)batch_n;
    (void)dy;
    (void)w;
    (void)dx;
    (void)accumulate;
    return UW_ERR_UNSUPPORTED;
}

int uw_conv2d_bw_param_cuda(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                            const float *x, const float *dy, float scale, float *dw, float *db)
{
    (void)e;
    (void)c;
    (void)batch_n;
    (void)x;
    (void)dy;
    (void)scale;
    (void)dw;
    (void)db;
    return UW_ERR_UNSUPPORTED;
}

bool uw_conv2d_takes_norm_cuda(const struct uw_kernels *k, const struct uw_conv2d *c,
                               uint32_t batch_n)
{
    (void)k;
    (void)c;
    (void)batch_n;
    return false;
}

size_t uw_conv2d_scratch_bytes_cuda(const struct uw_kernels *k, const struct uw_conv2d *c,
                                    uint32_t batch_n, uint32_t threads)
{
    (void)k;
    (void)c;
    (void)batch_n;
    (void)threads;
    return 0;
}
