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
                           float smoothing, const float *logits, const uint32_t *label, float *p,
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
        double shifted = 0.0;
        for (uint32_t i = 0; i < classes; i++) {
            float z = logits[i] - max;
            shifted += (double)z;
            p[i] = uw_expf(z);
            sum += p[i];
        }
        for (uint32_t i = 0; i < classes; i++) {
            p[i] /= sum;
        }
        /* log of the sum, not of p: p may have underflowed to 0. */
        loss += (double)uw_logf(sum) - (double)(1.0f - smoothing) * (double)label_logit;
        if (smoothing != 0.0f) {
            loss -= (double)smoothing * shifted / classes;
        }
        correct += top == label[n] ? 1u : 0u;
        logits += classes;
        p += classes;
    }
    *loss_sum = loss;
    *correct_n = correct;
    return UW_OK;
}

int uw_softmax_xent_bw_input_ref(const struct uw_exec *e, uint32_t batch_n, uint32_t classes,
                                 float smoothing, const float *p, const uint32_t *label,
                                 float scale, float *dlogits)
{
    (void)e;
    float rest = smoothing / (float)classes;
    for (uint32_t n = 0; n < batch_n; n++) {
        for (uint32_t i = 0; i < classes; i++) {
            float q = i == label[n] ? 1.0f - smoothing + rest : rest;
            dlogits[i] = scale * (p[i] - q);
        }
        p += classes;
        dlogits += classes;
    }
    return UW_OK;
}
