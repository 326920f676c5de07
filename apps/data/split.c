/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/split.h"

#include "uwasa/rng.h"

#include <stdlib.h>

#define KEY UINT64_C(0x73706c697421)

/* Where a sample of the part is in the whole set. */
static int find(const struct uw_split_part *p, uint64_t index, uint64_t *at)
{
    uint64_t epoch = index / p->base.samples_n;
    *at = p->index[index % p->base.samples_n] + epoch * p->inner->samples_n;
    return epoch == 0 || p->base.endless ? UW_OK : UW_ERR_INVALID;
}

static int read_part(struct uw_dataset *base, uint64_t index, float *x, uint32_t *label)
{
    const struct uw_split_part *p = (const struct uw_split_part *)base;
    uint64_t at;
    int rc = find(p, index, &at);
    return rc < 0 ? rc : p->inner->ops->read(p->inner, at, x, label);
}

static int read_part_target(struct uw_dataset *base, uint64_t index, float *target)
{
    const struct uw_split_part *p = (const struct uw_split_part *)base;
    uint64_t at;
    int rc = find(p, index, &at);
    return rc < 0 ? rc : p->inner->ops->read_target(p->inner, at, target);
}

static const struct uw_dataset_ops part_ops = {
    .name = "part", .read = read_part, .read_target = read_part_target};

static struct uw_split_part part_of(struct uw_dataset *inner, bool endless, const uint32_t *index,
                                    uint32_t n)
{
    struct uw_split_part p = {.base = *inner, .inner = inner, .index = index};
    p.base.ops = &part_ops;
    p.base.endless = endless;
    p.base.samples_n = n;
    return p;
}

int uw_split_open(struct uw_split *s, struct uw_dataset *inner, struct uw_dataset *plain,
                  double share, struct uw_error *err)
{
    uint32_t n = inner->samples_n, train_n = 0, validation_n = 0;
    *s = (struct uw_split){.index = malloc((size_t)n * sizeof *s->index)};
    if (s->index == NULL) {
        return uw_error_set(err, UW_ERR_NOMEM, "no memory for a split of %u samples", (unsigned)n);
    }
    for (uint32_t i = 0; i < n; i++) {      /* the one from the front, the other from the end */
        double u = (double)(uw_rng_mix(KEY, i) >> 11) / 9007199254740992.0;
        s->index[u < share ? n - ++validation_n : train_n++] = i;
    }
    for (uint32_t a = train_n, b = n - 1; a < b && validation_n != 0; a++, b--) {   /* in order */
        uint32_t swapped = s->index[a];
        s->index[a] = s->index[b];
        s->index[b] = swapped;
    }
    if (train_n == 0 || validation_n == 0) {
        uw_split_close(s);
        return uw_error_set(err, UW_ERR_INVALID,
                            "of %u samples a share of %g leaves none to %s", (unsigned)n, share,
                            train_n == 0 ? "train on" : "validate with");
    }
    s->train = part_of(inner, inner->endless, s->index, train_n);
    s->validation = part_of(plain, false, s->index + train_n, validation_n);
    return UW_OK;
}

void uw_split_close(struct uw_split *s)
{
    free(s->index);
    *s = (struct uw_split){.index = NULL};
}
