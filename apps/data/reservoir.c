/* SPDX-License-Identifier: Apache-2.0 */
#include "reservoir.h"

#include "uwasa/status.h"

#include <stdlib.h>
#include <string.h>

int uw_reservoir_open(struct uw_reservoir *r, uint32_t cap_n, uint32_t features_n, uint64_t seed)
{
    *r = (struct uw_reservoir){.cap_n = cap_n, .features_n = features_n};
    r->x = malloc((size_t)cap_n * features_n * sizeof *r->x);
    r->label = malloc((size_t)cap_n * sizeof *r->label);
    uw_rng_seed(&r->rng, seed);
    if (r->x == NULL || r->label == NULL) {
        uw_reservoir_close(r);
        return UW_ERR_NOMEM;
    }
    return UW_OK;
}

void uw_reservoir_close(struct uw_reservoir *r)
{
    free(r->x);
    free(r->label);
    free(r->class);
    *r = (struct uw_reservoir){.n = 0};
}

/* A number below n from random bits. */
static uint32_t below(uint64_t bits, uint32_t n)
{
    return (uint32_t)((bits >> 32) * n >> 32);
}

static struct uw_reservoir_class *class_of(struct uw_reservoir *r, uint32_t label)
{
    for (uint32_t i = 0; i < r->classes_n; i++) {
        if (r->class[i].label == label) {
            return &r->class[i];
        }
    }
    if (r->classes_n == r->classes_cap_n) {
        uint32_t cap = r->classes_cap_n == 0 ? 16 : 2 * r->classes_cap_n;
        struct uw_reservoir_class *bigger = realloc(r->class, cap * sizeof *bigger);
        if (bigger == NULL) {
            return NULL;
        }
        r->class = bigger;
        r->classes_cap_n = cap;
    }
    r->class[r->classes_n] = (struct uw_reservoir_class){.label = label};
    return &r->class[r->classes_n++];
}

/* The k-th place of a label. */
static uint32_t place_of(const struct uw_reservoir *r, uint32_t label, uint32_t k)
{
    uint32_t i = 0;
    while (r->label[i] != label || k-- != 0) {
        i++;
    }
    return i;
}

int uw_reservoir_add(struct uw_reservoir *r, const float *x, uint32_t label)
{
    struct uw_reservoir_class *mine = class_of(r, label), *most = mine;
    if (mine == NULL) {
        return UW_ERR_NOMEM;
    }
    mine->seen_n++;
    uint32_t place = r->n;
    if (r->n == r->cap_n) {
        for (uint32_t i = 0; i < r->classes_n; i++) {
            most = r->class[i].kept_n > most->kept_n ? &r->class[i] : most;
        }
        if (most == mine && (double)uw_rng_uniform(&r->rng) * (double)mine->seen_n >=
                                (double)mine->kept_n) {
            return 0;
        }
        place = place_of(r, most->label, uw_rng_below(&r->rng, most->kept_n));
        most->kept_n--;
    } else {
        r->n++;
    }
    mine->kept_n++;
    memcpy(r->x + (size_t)place * r->features_n, x, r->features_n * sizeof *x);
    r->label[place] = label;
    return 1;
}

uint32_t uw_reservoir_draw(const struct uw_reservoir *r, uint64_t key)
{
    uint32_t present = 0, i = 0;
    for (uint32_t c = 0; c < r->classes_n; c++) {
        present += r->class[c].kept_n != 0;
    }
    uint32_t chosen = below(uw_rng_mix(key, 1), present);
    while (r->class[i].kept_n == 0 || chosen-- != 0) {
        i++;
    }
    const struct uw_reservoir_class *c = &r->class[i];
    return place_of(r, c->label, below(uw_rng_mix(key, 2), c->kept_n));
}
