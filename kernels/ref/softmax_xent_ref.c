/* SPDX-License-Identifier: Apache-2.0 */
#include "ref/ref.h"

#include "uwasa/fmath.h"
#include "uwasa/status.h"

/* Index of the largest element, the first of equals. */
static uint32_t index_of_max(uint32_t n, const float *x)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++) {
        if (x[i] > x[best]) {
            best = i;
        }
    }
    return best;
}

int uw_softmax_xent_fw_ref(const struct uw_exec *e, uint32_t batch_n, uint32_t classes,
                           const float *logits, const uint32_t *label, float *p,
                           double *loss_sum, uint32_t *correct_n)
{
    (void)e;
    double loss = 0.0;
    uint32_t correct = 0;
    for (uint32_t n = 0; n < batch_n; n++) {
        uint32_t top = index_of_max(classes, logits);
        float max = logits[top];
        float label_logit = logits[label[n]] - max;
        float sum = 0.0f;
        for (uint32_t i = 0; i < classes; i++) {
            p[i] = uw_expf(logits[i] - max);
            sum += p[i];
        }
        for (uint32_t i = 0; i < classes; i++) {
            p[i] /= sum;
        }
        /* log of the sum, not of p: p may have underflowed to 0. */
        loss += (double)uw_logf(sum) - (double)label_logit;
        correct += top == label[n] ? 1u : 0u;
        logits += classes;
        p += classes;
    }
    *loss_sum = loss;
    *correct_n = correct;
    return UW_OK;
}

int uw_softmax_xent_bw_input_ref(const struct uw_exec *e, uint32_t batch_n, uint32_t classes,
                                 const float *p, const uint32_t *label, float scale,
                                 float *dlogits)
{
    (void)e;
    for (uint32_t n = 0; n < batch_n; n++) {
        for (uint32_t i = 0; i < classes; i++) {
            dlogits[i] = scale * (p[i] - (i == label[n] ? 1.0f : 0.0f));
        }
        p += classes;
        dlogits += classes;
    }
    return UW_OK;
}
