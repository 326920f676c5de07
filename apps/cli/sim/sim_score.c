/* SPDX-License-Identifier: Apache-2.0 */
#include "sim.h"

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

int uw_sim_score_spread(struct uw_sim_score *s)
{
    uint32_t nodes = s->nodes;
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

/* n <= BLOCK_N. Sums of floats in doubles: nodes that agree in every bit are no distance apart. */
static void mean_block(const struct uw_world *w, uint32_t from, uint32_t n, float *mean,
                       struct uw_sim_apart *sums)
{
    uint32_t nodes = w->config.fleet->devices_n;
    double sum[BLOCK_N] = {0.0};
    for (uint32_t i = 0; i < nodes; i++) {
        const float *x = uw_world_model(w, &w->nodes[i]) + from;
        for (uint32_t k = 0; k < n; k++) {
            sum[k] += (double)x[k];
        }
    }
    for (uint32_t k = 0; k < n; k++) {
        sum[k] /= nodes;
        sums->length += sum[k] * sum[k];
        mean[k] = (float)sum[k];
    }
    for (uint32_t i = 0; i < nodes; i++) {
        const float *x = uw_world_model(w, &w->nodes[i]) + from;
        for (uint32_t k = 0; k < n; k++) {
            double d = (double)x[k] - sum[k];
            sums->apart += d * d;
        }
    }
}

void uw_sim_mean_model(const struct uw_world *w, uint32_t from, uint32_t n, float *mean,
                       struct uw_sim_apart *sums)
{
    for (uint32_t at = 0; at < n; at += BLOCK_N) {
        mean_block(w, from + at, n - at < BLOCK_N ? n - at : BLOCK_N, mean + at, sums);
    }
}
