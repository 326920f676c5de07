/* SPDX-License-Identifier: Apache-2.0 */
#include "attack.h"

#include "uwasa/rng.h"

#include <math.h>
#include <stdlib.h>

#define NOISE_STREAM 0xa77ac4u

static const struct uw_sim_device *device_of(const struct uw_world *w, uint32_t i)
{
    return &w->config.fleet->devices[i];
}

int uw_attack_open(struct uw_world_node *n)
{
    const struct uw_sim_device *d = device_of(n->world, n->place);
    if (d->attack == UW_SIM_HONEST || d->attack == UW_SIM_LABELS) {
        return UW_OK;
    }
    n->shown = n->params;
    n->shown.x = calloc(2u * (size_t)n->params.size_n, sizeof(float));
    n->shown_velocity = n->shown.x != NULL ? n->shown.x + n->params.size_n : NULL;
    return n->shown.x != NULL ? UW_OK : UW_ERR_NOMEM;
}

void uw_attack_close(struct uw_world_node *n)
{
    free(n->shown.x);
    n->shown.x = NULL;
}

/* Mean and deviation of element k of the honest nodes' published models. */
static void honest(const struct uw_world *w, uint32_t k, double *mean, double *deviation)
{
    double sum = 0.0, squares = 0.0, n = 0.0;
    for (uint32_t i = 0; i < w->config.fleet->devices_n; i++) {
        const struct uw_snapshot *s = &w->nodes[i].snapshot;
        if (device_of(w, i)->attack == UW_SIM_HONEST && s->version != 0) {
            double v = (double)s->data[k];
            sum += v;
            squares += v * v;
            n += 1.0;
        }
    }
    *mean = n > 0.0 ? sum / n : (double)w->config.params->x[k];
    double variance = n > 0.0 ? squares / n - *mean * *mean : 0.0;
    *deviation = variance > 0.0 ? sqrt(variance) : 0.0;
}

void uw_attack_show(const struct uw_world *w, struct uw_world_node *n)
{
    const struct uw_sim_device *d = device_of(w, n->place);
    float *x = n->shown.x;
    double strength = (double)d->strength, squares = 0.0;
    if (x == NULL || n->averaging) {
        return;
    }
    for (uint32_t k = 0; k < n->shown.size_n; k++) {
        double mean, deviation;
        honest(w, k, &mean, &deviation);
        double v = d->attack == UW_SIM_SIGN_FLIP ? -strength * mean
                   : d->attack == UW_SIM_SCALE   ? strength * mean
                   : d->attack == UW_SIM_LITTLE  ? mean - strength * deviation
                   : d->attack == UW_SIM_OLD     ? (double)w->config.params->x[k]
                                                 : mean;
        squares += mean * mean;
        x[k] = (float)v;
    }
    if (d->attack == UW_SIM_NOISE) {
        struct uw_rng rng;
        float scale = d->strength * (float)sqrt(squares / n->shown.size_n);
        uw_rng_seed(&rng, uw_rng_mix(uw_rng_mix(w->config.node.seed, NOISE_STREAM + n->place),
                                     n->snapshot.version));
        for (uint32_t k = 0; k < n->shown.size_n; k++) {
            x[k] += scale * uw_rng_normal(&rng);
        }
    }
}
