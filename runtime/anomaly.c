/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/anomaly.h"

int uw_anomaly_error(struct uw_model *m, const float *x, float *error)
{
    const struct uw_loss_def *loss = m->config.def->losses;
    double sum = 0.0;
    uint32_t correct_n = 0;
    if (loss == NULL || loss[0].target != UW_TARGET_INPUT) {
        return UW_ERR_INVALID;
    }
    int rc = uw_model_evaluate(m, &(struct uw_minibatch){.x = x, .n = 1}, &sum, &correct_n);
    *error = rc < 0 ? *error : (float)sum;
    return rc;
}

int uw_anomaly_found(struct uw_model *m, const float *x, float *error)
{
    int rc = uw_anomaly_error(m, x, error);
    if (rc < 0 || m->anomaly_threshold == 0.0f) {
        return rc < 0 ? rc : UW_ERR_NOTFOUND;
    }
    return !(*error <= m->anomaly_threshold);
}

/* Let x[at] sink into the heap of the n elements below it: no element is below its children. */
static void sink(float *x, uint32_t at, uint32_t n)
{
    float value = x[at];
    for (uint32_t child = 2 * at + 1; child < n; child = 2 * at + 1) {
        child += child + 1 < n && x[child + 1] > x[child];
        if (!(x[child] > value)) {
            break;
        }
        x[at] = x[child];
        at = child;
    }
    x[at] = value;
}

/* By a heap: no recursion, no memory. */
static void sort(float *x, uint32_t n)
{
    uint32_t sorted_n = 1;
    while (sorted_n < n && x[sorted_n - 1] <= x[sorted_n]) {
        sorted_n++;
    }
    if (sorted_n == n) {
        return;
    }
    for (uint32_t i = n / 2; i-- > 0;) {
        sink(x, i, n);
    }
    for (uint32_t i = n; i-- > 1;) {
        float largest = x[0];
        x[0] = x[i];
        x[i] = largest;
        sink(x, 0, i);
    }
}

float uw_anomaly_percentile(float *error, uint32_t n, double percentile)
{
    if (n == 0) {
        return 0.0f;
    }
    sort(error, n);
    double at = percentile / 100.0 * (n - 1u);
    uint32_t low = at <= 0.0 ? 0 : at >= n - 1u ? n - 1u : (uint32_t)at;
    uint32_t high = low + 1u < n ? low + 1u : low;
    return (float)((double)error[low] +
                   (at - low) * ((double)error[high] - (double)error[low]));
}
