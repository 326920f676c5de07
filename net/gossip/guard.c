/* SPDX-License-Identifier: Apache-2.0 */
#include "guard.h"

#include "mix/squares.h"

#include <math.h>

#define USUAL_FIRST 2.0f            /* movements of a round */
#define USUAL_UP 1.1f
#define USUAL_DOWN 0.85f
#define FAR 4.0f                    /* times what is usual: the pull is refused */
#define FAR_AFTER 8u                /* from a share of the model on */
#define MOVES_MOST 5.0f             /* times what is usual in a chunk */

static uint32_t segment_of(const struct uw_params *p, uint32_t offset_n)
{
    uint32_t low = 0;
    uint32_t high = p->segments_n;
    while (high - low > 1u) {
        uint32_t middle = low + (high - low) / 2u;
        if (p->segments[middle].offset_n <= offset_n) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The rms of this node's movement in segment i since the last publish; 0: none, or not known. */
static float movement(const struct uw_gossip *g, uint32_t i)
{
    const struct uw_params *p = g->config.params;
    const float *start = uw_gossip_start(g);
    uint32_t at = p->segments[i].offset_n;
    uint32_t n = (i + 1u < p->segments_n ? p->segments[i + 1u].offset_n : p->size_n) - at;
    return start == NULL || g->steps == 0 || g->jumped || n == 0
               ? 0.0f
               : sqrtf((float)(uw_squares_apart(p->x + at, start + at, n) / n));
}

/* What is usual at first is this node's way until the end of the first pull. */
static void publishes(struct uw_guard *base, const struct uw_gossip *g)
{
    struct uw_distances *u = (struct uw_distances *)base;
    for (uint32_t i = 0; i < g->config.params->segments_n; i++) {
        if (!u->learned || u->usual[i].rms == 0.0f) {
            u->usual[i].rms += USUAL_FIRST * movement(g, i);
        }
    }
}

/* Learn from the round's pull; without movement also what is usual at first. */
static void ends(struct uw_guard *base, const struct uw_gossip *g, bool rejected)
{
    struct uw_distances *u = (struct uw_distances *)base;
    float ratio = u->usual_squares > 0.0f ? sqrtf(u->squares / u->usual_squares) : 0.0f;
    float nearer = ratio < u->ratio ? ratio : u->ratio;
    bool refused = rejected && u->n != 0, again = refused && base->doubts;
    u->learned = u->learned || u->n != 0;
    for (uint32_t i = 0; i < g->config.params->segments_n; i++) {
        struct uw_usual *s = &u->usual[i];
        float rms = s->n != 0 ? sqrtf(s->squares / (float)s->n) : s->rms;
        if (s->rms == 0.0f && movement(g, i) == 0.0f) {
            s->rms = rms;
        } else if (again) {
            s->rms *= USUAL_UP * nearer / FAR;
        } else if (u->n != 0 && (refused || rms != s->rms)) {
            s->rms *= refused || rms > s->rms ? USUAL_UP : USUAL_DOWN;
        }
        s->squares = 0.0f;
        s->n = 0;
    }
    base->doubts = refused ? !again : base->doubts && u->n == 0;
    u->ratio = ratio;
    u->squares = u->usual_squares = 0.0f;
    u->n = 0;
}

static float share(struct uw_guard *base, const struct uw_gossip *g,
                   const struct uw_gossip_slot *s, const float *own)
{
    struct uw_distances *u = (struct uw_distances *)base;
    struct uw_usual *usual = &u->usual[segment_of(g->config.params, s->offset_n)];
    float squares = (float)uw_squares_apart(s->x, own, s->count_n);
    float distance = sqrtf(squares / (float)s->count_n);
    if (isinf(usual->squares + squares)) {
        return -1.0f;
    }
    usual->squares += squares;
    usual->n += s->count_n;
    if (usual->rms == 0.0f) {
        return g->round_steps != 0 ? 0.0f : 1.0f;
    }
    u->squares += squares;
    u->usual_squares += usual->rms * usual->rms * (float)s->count_n;
    u->n += s->count_n;
    float far = u->learned ? FAR : MOVES_MOST;
    if (u->n >= g->config.params->size_n / FAR_AFTER && u->squares > far * far * u->usual_squares) {
        return -1.0f;
    }
    return distance > MOVES_MOST * usual->rms ? MOVES_MOST * usual->rms / distance : 1.0f;
}

int uw_distances_place(struct uw_distances **out, struct uw_arena *arena, uint32_t segments_n)
{
    void *memory;
    size_t usual = uw_size_mul(segments_n + 1u, sizeof(struct uw_usual));
    int rc = uw_arena_take(arena, sizeof(struct uw_distances) + usual, &memory);
    *out = memory;
    if (memory != NULL) {
        (*out)->base = (struct uw_guard){.share = share, .publishes = publishes, .ends = ends};
    }
    return rc;
}
