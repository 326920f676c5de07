/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/kept.h"

#include "uwasa/status.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { EMPTY = 0, TAKEN, THERE };

struct uw_kept_sample {
    atomic_int state;           /* THERE: x and label may be read */
    uint32_t label;
};

static size_t sample_n(const struct uw_dataset *d)
{
    return (size_t)d->channels * d->height * d->width;
}

static int read_kept(struct uw_dataset *base, uint64_t index, float *x, uint32_t *label)
{
    const struct uw_kept *k = (const struct uw_kept *)base;
    size_t bytes = sample_n(base) * sizeof *x;
    if (index >= k->n) {
        return k->inner->ops->read(k->inner, index, x, label);
    }
    struct uw_kept_sample *s = &k->sample[index];
    float *kept = k->x + index * sample_n(base);
    if (atomic_load_explicit(&s->state, memory_order_acquire) == THERE) {
        memcpy(x, kept, bytes);
        *label = s->label;
        return UW_OK;
    }
    int rc = k->inner->ops->read(k->inner, index, x, label), empty = EMPTY;
    if (rc == UW_OK && atomic_compare_exchange_strong(&s->state, &empty, TAKEN)) {
        memcpy(kept, x, bytes);
        s->label = *label;
        atomic_store_explicit(&s->state, THERE, memory_order_release);
    }
    return rc;
}

/* Values are few: they are not cached. */
static int read_kept_target(struct uw_dataset *base, uint64_t index, float *target)
{
    const struct uw_kept *k = (const struct uw_kept *)base;
    return k->inner->ops->read_target(k->inner, index, target);
}

static const struct uw_dataset_ops kept_ops = {
    .name = "kept", .read = read_kept, .read_target = read_kept_target};

int uw_kept_open(struct uw_kept *k, struct uw_dataset *inner, uint32_t n)
{
    n = n < inner->samples_n ? n : inner->samples_n;
    *k = (struct uw_kept){.base = *inner, .inner = inner, .n = n};
    k->base.ops = &kept_ops;
    k->x = calloc((size_t)n + 1u, sample_n(inner) * sizeof *k->x);
    k->sample = calloc((size_t)n + 1u, sizeof *k->sample);
    if (k->x == NULL || k->sample == NULL) {
        uw_kept_close(k);
        return UW_ERR_NOMEM;
    }
    return UW_OK;
}

void uw_kept_close(struct uw_kept *k)
{
    free(k->x);
    free(k->sample);
    k->x = NULL;
    k->sample = NULL;
    k->n = 0;
}
