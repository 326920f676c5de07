/* SPDX-License-Identifier: Apache-2.0 */
#include "heading.h"

#include "uwasa/status.h"

#include <string.h>

#define ROUNDS 5u                   /* of the mean */
#define ROUNDS_LEAST 2u             /* before a rank is refused */
#define ALIKE 0.15f                 /* the mean of a rank that learns the same */
#define LEAST (-1.0f)               /* the lowest mean that is not refused */
#define LEAST_ALIKE (-0.3f)         /* where most ranks are alike */
#define MOST 3.0                    /* of one round */
#define SETTLED_ROUNDS 8u           /* before them newcomers are usual */

/* A pseudo-random sign for element k. */
static float signed_of(uint32_t k, float x)
{
    uint32_t hash = k * 0x9e3779b1u;
    hash = (hash ^ hash >> 15) * 0x85ebca6bu;
    return hash >> 31 != 0 ? -x : x;
}

static void sum_up(float sums[UW_HEADING_SUMS_N], const float *x, uint32_t size_n)
{
    memset(sums, 0, UW_HEADING_SUMS_N * sizeof *sums);
    for (uint32_t k = 0; k < size_n; k++) {
        sums[k % UW_HEADING_SUMS_N] += signed_of(k, x[k]);
    }
}

/* Put the heading of an id to its rank, a new one in place of somebody who is not there. */
static void seat(struct uw_headings *h, uint32_t rank, const uint32_t *ids, uint32_t ids_n)
{
    uint32_t at = rank;
    while (at < h->ranks_max && h->of[at].id != ids[rank]) {
        at++;
    }
    bool known = at < h->ranks_max;
    for (uint32_t free = rank; !known && free < h->ranks_max; free++) {
        bool needed = false;
        for (uint32_t i = rank; i < ids_n; i++) {
            needed = needed || h->of[free].id == ids[i];
        }
        at = needed ? at : free;
    }
    struct uw_heading it = known ? h->of[at] : (struct uw_heading){.id = ids[rank]};
    h->of[at] = h->of[rank];
    it.dot = 0.0;
    it.sent_n = 0;
    h->of[rank] = it;
}

/* Do half of the ranks, or more, learn the same as this node? */
static bool are_alike(const struct uw_heading *of, uint32_t ranks_n)
{
    uint32_t known = 0, alike = 0;
    for (uint32_t i = 0; i < ranks_n; i++) {
        known += of[i].rounds_n != 0 ? 1u : 0u;
        alike += of[i].rounds_n != 0 && of[i].mean > ALIKE ? 1u : 0u;
    }
    return alike != 0 && 2u * alike >= known;
}

bool uw_headings_meet(struct uw_headings *h, const uint32_t *ids, uint32_t ids_n, uint32_t own,
                      bool unequal)
{
    uint32_t come = 0;
    h->met_n = ids_n;
    for (uint32_t i = 0; i < ids_n; i++) {
        seat(h, i, ids, ids_n);
        come += i != own && h->of[i].round != h->round ? 1u : 0u;
    }
    h->lenient = come != 0 && h->round != 0;
    bool was_away = unequal && come == 0;
    return h->round < SETTLED_ROUNDS || (!was_away && 2u * come < ids_n);
}

void uw_headings_begin(struct uw_headings *h, const float *x, uint32_t size_n)
{
    h->limit = are_alike(h->of, h->met_n) ? LEAST_ALIKE : LEAST;
    sum_up(h->moved, x, size_n);
    h->squares = h->dot_start = 0.0;
    for (uint32_t i = 0; i < UW_HEADING_SUMS_N; i++) {
        h->moved[i] -= h->start[i];
        h->squares += (double)h->moved[i] * (double)h->moved[i];
        h->dot_start += (double)h->moved[i] * (double)h->start[i];
    }
}

bool uw_headings_oppose(struct uw_headings *h, uint32_t rank, uint32_t at, const float *floats,
                        uint32_t n)
{
    struct uw_heading *o = &h->of[rank];
    double dot = 0.0;
    for (uint32_t i = 0; i < n; i++) {
        dot += (double)signed_of(at + i, floats[i]) *
               (double)h->moved[(at + i) % UW_HEADING_SUMS_N];
    }
    o->dot += dot;
    o->sent_n += n;
    return o->rounds_n >= ROUNDS_LEAST && o->mean < h->limit;
}

static void learn(struct uw_heading *o, double heading)
{
    /* what is not finite is as far below as can be */
    heading = heading > -MOST ? (heading < MOST ? heading : MOST) : -MOST;
    o->rounds_n += o->rounds_n < ROUNDS ? 1u : 0u;
    o->mean += ((float)heading - o->mean) / (float)o->rounds_n;
}

void uw_headings_end(struct uw_headings *h, const float *x, uint32_t size_n)
{
    for (uint32_t i = 0; i < h->met_n; i++) {
        struct uw_heading *o = &h->of[i];
        if (o->sent_n != 0 && h->round != 0 && !h->lenient && h->squares > 0.0) {
            double models = (double)o->sent_n / (double)size_n;
            learn(o, (o->dot / models - h->dot_start) / h->squares);
        }
        o->sent_n = 0;
        o->round = h->round + 1u;
    }
    h->round++;
    sum_up(h->start, x, size_n);
}

int uw_headings_place(struct uw_headings **out, struct uw_arena *arena, uint32_t ranks_max)
{
    void *memory;
    int rc = uw_arena_take(arena, sizeof **out + ranks_max * sizeof(struct uw_heading), &memory);
    *out = memory;
    if (memory != NULL) {
        (*out)->ranks_max = ranks_max;
    }
    return rc;
}
