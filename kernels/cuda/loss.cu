/* SPDX-License-Identifier: Apache-2.0 */
#include "launch.cuh"
extern "C" {
#include "uwasa/slots.h"
}

int uw_softmax_xent_fw_cuda(const struct uw_exec *e, uint32_t batch_n, uint32_t classes,
                            float smoothing, const float *logits, const uint32_t *label, float *p,
                            double *loss_sum, uint32_t *correct_n)
{
    (void)e;
    (void)batch_n;
    (void)classes;
    (void)smoothing;
    (void)logits;
    (void)label;
    (void)p;
    (void)loss_sum;
    (void)correct_n;
    return UW_ERR_UNSUPPORTED;
}

int uw_softmax_xent_bw_input_cuda(const struct uw_exec *e, uint32_t batch_n, uint32_t classes,
                                  float smoothing, const float *p, const uint32_t *label,
                                  float scale, float *dlogits)
{
    (void)e;
    (void)batch_n;
    (void)classes;
    (void)smoothing;
    (void)p;
    (void)label;
    (void)scale;
    (void)dlogits;
    return UW_ERR_UNSUPPORTED;
}

const struct uw_loss_kernels uw_loss_cuda = uw_loss_none;

int uw_add_losses_cuda(const struct uw_exec *e, const float *weight, uint32_t heads_n,
                       uint32_t samples)
{
    (void)e;
    (void)weight;
    (void)heads_n;
    (void)samples;
    return UW_ERR_UNSUPPORTED;
}

int uw_onehot_cuda(const struct uw_exec *e, uint32_t rows, uint32_t n, const uint32_t *label,
                   const float *z, float *t, uint32_t *correct_n)
{
    (void)e;
    (void)rows;
    (void)n;
    (void)label;
    (void)z;
    (void)t;
    (void)correct_n;
    return UW_ERR_UNSUPPORTED;
}
