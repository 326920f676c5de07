/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_own.h"
#include "launch.cuh"

bool uw_conv2d_own_takes(const struct uw_conv2d *c, uint32_t batch_n, enum uw_conv2d_part part)
{
    (void)c;
    (void)batch_n;
    (void)part;
    return false;
}

int uw_conv2d_own_fw(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
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

int uw_conv2d_own_bw_input(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
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

int uw_conv2d_own_bw_param(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
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
