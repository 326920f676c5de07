/* SPDX-License-Identifier: Apache-2.0 */
#include "sets.h"

#include <stdlib.h>

static int read_subset(struct uw_dataset *base, uint64_t index, float *x, uint32_t *label)
{
    const struct uw_subset *d = (const struct uw_subset *)base;
    if (!base->endless && index >= base->samples_n) {
        return UW_ERR_INVALID;
    }
    uint64_t inner = index * d->shards_n + d->shard;
    return d->inner->ops->read(d->inner, d->kept != NULL ? d->kept[inner] : inner, x, label);
}

static int read_subset_target(struct uw_dataset *base, uint64_t index, float *target)
{
    const struct uw_subset *d = (const struct uw_subset *)base;
    if (!base->endless && index >= base->samples_n) {
        return UW_ERR_INVALID;
    }
    uint64_t inner = index * d->shards_n + d->shard;
    return d->inner->ops->read_target(d->inner, d->kept != NULL ? d->kept[inner] : inner, target);
}

static const struct uw_dataset_ops subset_ops = {
    .name = "subset", .read = read_subset, .read_target = read_subset_target};

/* Returns how many samples are of a wanted class, their indexes in d->kept, or an error. */
static int collect(struct uw_subset *d, uint32_t classes_mask)
{
    struct uw_dataset *inner = d->inner;
    uint32_t kept_n = 0;
    int rc = UW_OK;
    d->kept = malloc((size_t)inner->samples_n * sizeof *d->kept);
    float *x = malloc((size_t)inner->channels * inner->height * inner->width * sizeof *x);
    if (d->kept == NULL || x == NULL) {
        rc = UW_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < inner->samples_n && rc == UW_OK; i++) {
        uint32_t label;
        rc = inner->ops->read(inner, i, x, &label);
        if (rc == UW_OK && label < 32 && (classes_mask >> label & 1u) != 0) {
            d->kept[kept_n++] = i;
        }
    }
    free(x);
    if (rc == UW_OK && kept_n > 0) {
        uint32_t *smaller = realloc(d->kept, kept_n * sizeof *d->kept);
        d->kept = smaller != NULL ? smaller : d->kept;
    }
    return rc < 0 ? rc : (int)kept_n;
}

int uw_subset_open(struct uw_subset *d, struct uw_dataset *inner, uint32_t classes_mask,
                   uint32_t shard, uint32_t shards_n)
{
    *d = (struct uw_subset){.base = *inner, .inner = inner, .shard = shard, .shards_n = shards_n};
    d->base.ops = &subset_ops;
    if (shard >= shards_n || (classes_mask != 0 && inner->endless)) {
        return UW_ERR_INVALID;
    }
    uint32_t n = inner->samples_n;
    if (classes_mask != 0) {
        int kept_n = collect(d, classes_mask);
        if (kept_n < 0) {
            uw_subset_close(d);
            return kept_n;
        }
        n = (uint32_t)kept_n;
    }
    d->base.samples_n = n > shard ? (n - shard - 1) / shards_n + 1 : 0;
    if (d->base.samples_n == 0) {
        uw_subset_close(d);
        return UW_ERR_INVALID;
    }
    return UW_OK;
}

void uw_subset_close(struct uw_subset *d)
{
    free(d->kept);
    d->kept = NULL;
}
