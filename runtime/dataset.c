/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/dataset.h"

#include "uwasa/rng.h"
#include "uwasa/status.h"

#include <stddef.h>

int uw_loader_init(struct uw_loader *l, const struct uw_loader_config *config)
{
    if (config->dataset == NULL || config->dataset->samples_n == 0 || config->batch_n == 0) {
        return UW_ERR_INVALID;
    }
    *l = (struct uw_loader){.config = *config};
    return UW_OK;
}

static uint64_t sample_index(const struct uw_loader *l, uint32_t position)
{
    const struct uw_dataset *d = l->config.dataset;
    uint32_t i = position;
    if (!l->config.no_shuffle) {
        i = uw_rng_permute(uw_rng_mix(l->config.seed, l->epoch), d->samples_n, position);
    }
    return d->endless ? l->epoch * d->samples_n + i : i;
}

static int read_target(struct uw_dataset *d, uint64_t index, uint32_t label, float *target)
{
    if (d->targets_n != 0) {
        return d->ops->read_target(d, index, target);
    }
    *target = (float)label;
    return UW_OK;
}

int uw_loader_next(struct uw_loader *l, float *x, uint32_t *label, float *target)
{
    struct uw_dataset *d = l->config.dataset;
    size_t sample_n = (size_t)d->channels * d->height * d->width;
    uint32_t left = d->samples_n - l->position;
    uint32_t n = left < l->config.batch_n ? left : l->config.batch_n;

    for (uint32_t i = 0; i < n; i++) {
        uint64_t index = sample_index(l, l->position + i);
        int rc = d->ops->read(d, index, x + i * sample_n, &label[i]);
        if (rc == UW_OK && target != NULL) {
            size_t targets_n = d->targets_n != 0 ? d->targets_n : 1;
            rc = read_target(d, index, label[i], target + i * targets_n);
        }
        if (rc < 0) {
            return rc;
        }
        if (l->config.between != NULL) {
            l->config.between(l->config.between_arg);
        }
    }
    l->position += n;
    if (l->position == d->samples_n) {
        l->position = 0;
        l->epoch++;
    }
    return (int)n;
}
