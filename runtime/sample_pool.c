/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/sample_pool.h"

#include "uwasa/status.h"

#include <stddef.h>
#include <string.h>

/* Values of place[j]; FIRST_SLOT + i is slot i. */
#define HOME 0u
#define RESTING 1u
#define FIRST_SLOT 2u

static int read_source(struct uw_sample_pool *p, uint64_t index, float *x, uint32_t *label)
{
    return p->config.source->ops->read(p->config.source, index, x, label);
}

/* Whether a slot's lease has time left. Right even if the clock wraps. */
static bool lease_is_valid(const struct uw_sample_pool *p, const struct uw_pool_slot *s)
{
    return p->config.now_us == NULL || (int64_t)(s->until_us - p->config.now_us()) > 0;
}

/* A slot is written only if no place names it and it has no reader. So a reader first counts itself
 * and then checks that the place still names the slot; all four accesses are in one order. */
static int read_pool(struct uw_dataset *base, uint64_t index, float *x, uint32_t *label)
{
    struct uw_sample_pool *p = (struct uw_sample_pool *)base;
    if (index >= base->samples_n) {
        return UW_ERR_INVALID;
    }
    uint64_t j = index / 2u;
    if (index % 2u != 0 || j >= p->movable_n) {
        return read_source(p, index, x, label);
    }
    for (;;) {
        uint32_t at = (uint32_t)atomic_load(&p->place[j]);
        if (at < FIRST_SLOT) {
            return read_source(p, at == HOME ? index : index + 1u, x, label);
        }
        struct uw_pool_slot *s = &p->slots[at - FIRST_SLOT];
        atomic_fetch_add(&s->readers, 1u);
        bool there = (uint32_t)atomic_load(&p->place[j]) == at;
        bool good = there && lease_is_valid(p, s);
        if (good) {
            memcpy(x, p->borrowed + (size_t)(at - FIRST_SLOT) * p->sample_n,
                   p->sample_n * sizeof *x);
            *label = s->label;
        }
        atomic_fetch_sub(&s->readers, 1u);
        if (there) {
            return good ? UW_OK : read_source(p, index + 1u, x, label);
        }
    }
}

static const struct uw_dataset_ops pool_ops = {.name = "pool", .read = read_pool};

int uw_sample_pool_bind(struct uw_sample_pool *p, const struct uw_sample_pool_config *config,
                        struct uw_arena *arena)
{
    const struct uw_dataset *d = config->source;
    *p = (struct uw_sample_pool){.base = *d, .config = *config, .movable_n = d->samples_n / 2u,
                                 .sample_n = d->channels * d->height * d->width};
    p->base.ops = &pool_ops;
    p->base.endless = false;
    if (config->slots_n == 0 || config->slots_n > p->movable_n) {
        return UW_ERR_INVALID;
    }
    size_t sample_bytes = uw_size_mul(p->sample_n, sizeof(float));
    const size_t bytes[4] = {uw_size_mul(p->movable_n, sizeof *p->place),
                             uw_size_mul(config->slots_n, sizeof *p->slots),
                             uw_size_mul(config->slots_n, sample_bytes), sample_bytes};
    void *part[4];
    int rc = uw_arena_take_each(arena, 4, bytes, part);
    if (rc < 0) {
        return rc;
    }
    p->place = part[0];
    p->slots = part[1];
    p->borrowed = part[2];
    p->copy = part[3];
    for (uint32_t j = 0; p->place != NULL && j < p->movable_n; j++) {
        atomic_init(&p->place[j], HOME);
    }
    for (uint32_t k = 0; p->slots != NULL && k < config->slots_n; k++) {
        atomic_init(&p->slots[k].readers, 0);
    }
    return UW_OK;
}

bool uw_sample_pool_is_home(const struct uw_sample_pool *p, uint32_t j)
{
    return (uint32_t)atomic_load(&p->place[j]) == HOME;
}

void uw_sample_pool_rest(struct uw_sample_pool *p, uint32_t j)
{
    atomic_store(&p->place[j], RESTING);
}

void uw_sample_pool_restore(struct uw_sample_pool *p, uint32_t j)
{
    atomic_store(&p->place[j], HOME);
}

void uw_sample_pool_borrow(struct uw_sample_pool *p, uint32_t j, uint32_t k, uint32_t label,
                           uint64_t until_us)
{
    p->slots[k].label = label;
    p->slots[k].until_us = until_us;
    atomic_store(&p->place[j], k + FIRST_SLOT);
}

float *uw_sample_pool_room(struct uw_sample_pool *p, uint32_t k)
{
    bool read = atomic_load(&p->slots[k].readers) != 0;
    return read ? NULL : p->borrowed + (size_t)k * p->sample_n;
}

int uw_sample_pool_home(struct uw_sample_pool *p, uint32_t j, const float **x, uint32_t *label)
{
    *x = p->copy;
    return read_source(p, (uint64_t)j * 2u, p->copy, label);
}
