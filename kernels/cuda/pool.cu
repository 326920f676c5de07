/* SPDX-License-Identifier: Apache-2.0 */
#include "launch.cuh"

int uw_maxpool2d_fw_cuda(const struct uw_exec *e, const struct uw_pool2d *p, uint32_t batch_n,
                         const float *x, float *y, uint8_t *winner)
{
    (void)e;
    (void)p;
    (void)batch_n;
    (void)x;
    (void)y;
    (void)winner;
    return UW_ERR_UNSUPPORTED;
}

int uw_maxpool2d_bw_input_cuda(const struct uw_exec *e, const struct uw_pool2d *p,
                               uint32_t batch_n, const float *dy, const uint8_t *winner, float *dx,
                               bool accumulate)
{
    (void)e;
    (void)p;
    (void)batch_n;
    (void)dy;
    (void)winner;
    (void)dx;
    (void)accumulate;
    return UW_ERR_UNSUPPORTED;
}

int uw_avgpool2d_fw_cuda(const struct uw_exec *e, const struct uw_pool2d *p, uint32_t batch_n,
                         const float *x, float *y)
{
    (void)e;
    (void)p;
    (void)batch_n;
    (void)x;
    (void)y;
    return UW_ERR_UNSUPPORTED;
}

int uw_avgpool2d_bw_input_cuda(const struct uw_exec *e, const struct uw_pool2d *p,
                               uint32_t batch_n, const float *dy, float *dx, bool accumulate)
{
    (void)e;
    (void)p;
    (void)batch_n;
    (void)dy;
    (void)dx;
    (void)accumulate;
    return UW_ERR_UNSUPPORTED;
}
