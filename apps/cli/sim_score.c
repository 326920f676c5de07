/* SPDX-License-Identifier: Apache-2.0 */
#include "sim.h"

#include <math.h>
#include <stdlib.h>

#define BLOCK_N 512u            /* of the mean model: what is summed stays in the cache */

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Between two neighbours: linear. */
static double quantile(const double *sorted, uint32_t n, double q)
{
    double at = q * (double)(n - 1u);
    uint32_t below = (uint32_t)at;
    uint32_t above = below + 1u < n ? below + 1u : below;
    return sorted[below] + (at - (double)below) * (sorted[above] - sorted[below]);
}

int uw_sim_score_spread(struct uw_sim_score *s, uint32_t nodes)
{
    double *sorted = malloc(nodes * sizeof *sorted);
    if (sorted == NULL) {
        return UW_ERR_NOMEM;
    }
    double sum = 0.0;
    for (uint32_t i = 0; i < nodes; i++) {
        sorted[i] = s->accuracies[i];
        sum += sorted[i];
    }
    qsort(sorted, nodes, sizeof *sorted, by_value);
    s->accuracy = sum / nodes;
    s->worst = sorted[0];
    s->lower_quartile = quantile(sorted, nodes, 0.25);
    s->upper_quartile = quantile(sorted, nodes, 0.75);
    s->best = sorted[nodes - 1u];
    free(sorted);
    return UW_OK;
}

double uw_sim_mean_model(const struct uw_world *w, float *mean)
{
    uint32_t nodes = w->config.nodes_n, size_n = w->config.params->size_n;
    double apart = 0.0, length = 0.0, sum[BLOCK_N];
    for (uint32_t from = 0; from < size_n; from += BLOCK_N) {
        uint32_t n = size_n - from < BLOCK_N ? size_n - from : BLOCK_N;
        for (uint32_t k = 0; k < n; k++) {
            sum[k] = 0.0;
        }
        for (uint32_t i = 0; i < nodes; i++) {
            const float *x = uw_world_model(w, &w->nodes[i]) + from;
            for (uint32_t k = 0; k < n; k++) {
                sum[k] += (double)x[k];
            }
        }
        for (uint32_t k = 0; k < n; k++) {
            sum[k] /= nodes;
            length += sum[k] * sum[k];
            mean[from + k] = (float)sum[k];
        }
        for (uint32_t i = 0; i < nodes; i++) {
            const float *x = uw_world_model(w, &w->nodes[i]) + from;
            for (uint32_t k = 0; k < n; k++) {
                double d = (double)x[k] - sum[k];
                apart += d * d;
            }
        }
    }
    return length > 0.0 ? sqrt(apart / nodes / length) : 0.0;
}
