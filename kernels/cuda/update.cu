/* SPDX-License-Identifier: Apache-2.0 */
#include "launch.cuh"
extern "C" {
#include "uwasa/slots.h"
}

int uw_sgd_update_cuda(const struct uw_exec *e, size_t n, const struct uw_sgd *s, const float *g,
                       float *w, float *v)
{
    (void)e;
    (void)n;
    (void)s;
    (void)g;
    (void)w;
    (void)v;
    return UW_ERR_UNSUPPORTED;
}

const struct uw_update_kernels uw_update_cuda = uw_update_none;

int uw_clip_cuda(const struct uw_exec *e, float most, size_t n, float *g)
{
    (void)e;
    (void)most;
    (void)n;
    (void)g;
    return UW_ERR_UNSUPPORTED;
}
