/* SPDX-License-Identifier: Apache-2.0 */
#include "guard.h"

#include "base/cpu.h"
#include "mix/squares.h"

#include <math.h>

#define USUAL_FIRST 2.0f            /* movements of a round */
#define USUAL_UP 1.1f
#define USUAL_DOWN 0.85f
#define USUAL_JUMP 2.0f             /* after refusals in a row, at most */
#define FAR 4.0f                    /* times what is usual: refused */
#define FAR_CAST 6.0f               /* of broadcasts */
#define FAR_AFTER 8u                /* from a share of the model on */
#define LENIENCE 4.0f               /* times as far where ranks were away */
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

/* The element behind segment i. */
static uint32_t end_of(const struct uw_params *p, uint32_t i)
{
    return i + 1u < p->segments_n ? p->segments[i + 1u].offset_n : p->size_n;
}

static uint32_t size_of(const struct uw_params *p, uint32_t i)
{
    return end_of(p, i) - p->segments[i].offset_n;
}

/* The rms of this node's movement in segment i since the last publish; 0: none, or not known. */
static float movement(const struct uw_gossip *g, uint32_t i)
{
    const struct uw_params *p = g->config.params;
    const float *start = uw_gossip_start(g);
    uint32_t at = p->segments[i].offset_n;
    uint32_t n = end_of(p, i) - at;
    return start == NULL || g->steps == 0 || g->jumped || n == 0
               ? 0.0f
               : sqrtf((float)(uw_squares_apart(p->x + at, start + at, n) / n));
}

/* Only what it goes while it waits for a pull counts: the first way since the last one is as usual.
 */
static void go(struct uw_distances *u, float moves)
{
    u->moved += u->mixes ? 0.0f : moves;
    u->mixes = false;
}

/* What is usual at first is this node's way until the end of the first round. The way of its own
 * steps is at least the whole one without what was mixed. */
static void publishes(struct uw_guard *base, const struct uw_gossip *g)
{
    struct uw_distances *u = (struct uw_distances *)base;
    float squares = 0.0f;
    for (uint32_t i = 0; i < g->config.params->segments_n; i++) {
        float moved = movement(g, i);
        squares += moved * moved * (float)size_of(g->config.params, i);
        if (!u->learned || u->usual[i].rms == 0.0f) {
            u->usual[i].rms += USUAL_FIRST * moved;
        }
    }
    float own = sqrtf(squares) - sqrtf(u->mixed_squares);
    u->moves = own > 0.0f ? USUAL_FIRST * own : 0.0f;
    go(u, u->moves);
    u->mixed_squares = 0.0f;
}

static void follows(struct uw_guard *base, const struct uw_guard *other, const struct uw_gossip *g)
{
    struct uw_distances *u = (struct uw_distances *)base;
    const struct uw_distances *its = (const struct uw_distances *)other;
    go(u, its->moves);
    for (uint32_t i = 0; i < g->config.params->segments_n; i++) {
        if (!u->learned || u->usual[i].rms == 0.0f) {
            u->usual[i].rms = its->usual[i].rms;
        }
    }
}

static float jump_to(float ratio)
{
    float jump = USUAL_UP * ratio / FAR;
    return jump < USUAL_JUMP ? jump : USUAL_JUMP;
}

/* Is this pull one of the last again? */
static bool is_seen(struct uw_distances *u)
{
    bool seen = false;
    for (uint32_t i = 0; u->content != 0 && i < UW_GUARD_SEEN; i++) {
        seen = seen || u->seen[i] == u->content;
    }
    if (u->content != 0 && !seen) {
        u->seen[u->seen_n++ % UW_GUARD_SEEN] = u->content;
    }
    u->content = 0;
    return seen;
}

/* Learn from the round; without movement also what is usual at first. */
static bool ends(struct uw_guard *base, const struct uw_gossip *g, bool rejected)
{
    struct uw_distances *u = (struct uw_distances *)base;
    bool most = u->refused_n > u->n && u->refused_ratio > 0.0f;
    float ratio = most                     ? u->refused_ratio
                  : u->usual_squares > 0.0f ? sqrtf(u->squares / u->usual_squares)
                                            : 0.0f;
    float nearer = ratio < u->ratio ? ratio : u->ratio;
    bool refused = (rejected && u->n != 0) || most, again = refused && base->doubts;
    u->learned = u->learned || u->n != 0;
    if (u->n != 0) {
        u->moved = 0.0f;
        u->mixes = true;
    }
    for (uint32_t i = 0; i < g->config.params->segments_n; i++) {
        struct uw_usual *s = &u->usual[i];
        float rms = s->n != 0 ? sqrtf(s->squares / (float)s->n) : s->rms;
        if (s->rms == 0.0f && (u->follower || movement(g, i) == 0.0f)) {
            s->rms = rms;
        } else if (again) {
            s->rms *= jump_to(nearer);
        } else if (u->n != 0 && (refused || rms != s->rms)) {
            s->rms *= refused || rms > s->rms ? USUAL_UP : USUAL_DOWN;
        }
        s->squares = 0.0f;
        s->n = 0;
    }
    base->doubts = !u->follower && (refused || (base->doubts && u->n == 0));
    u->ratio = ratio;
    u->squares = u->usual_squares = u->refused_ratio = 0.0f;
    u->n = u->refused_n = 0;
    for (uint32_t i = 0; i < u->senders_max; i++) {
        u->senders[i].squares = u->senders[i].usual_squares = 0.0f;
        u->senders[i].n = 0;
        u->senders[i].seen = u->senders[i].refused = false;
    }
    return is_seen(u);
}

/* The sum of squares of a chunk's distance, and of what is usual; keep: add it to the round's. */
static float measure(struct uw_distances *u, const struct uw_params *p,
                     const struct uw_guarded *c, bool keep, float *usual_squares)
{
    double sum = 0.0, usual = 0.0;
    uint32_t end = c->offset_n + c->count_n;
    for (uint32_t at = c->offset_n, i = segment_of(p, at); at < end; i++) {
        uint32_t to = end_of(p, i) < end && i + 1u < p->segments_n ? end_of(p, i) : end;
        double squares = uw_squares_apart(c->x + (at - c->offset_n), c->own + (at - c->offset_n),
                                          to - at);
        struct uw_usual *s = &u->usual[i];
        sum += squares;
        usual += (double)s->rms * (double)s->rms * (double)(to - at);
        if (keep) {
            s->squares += (float)squares;
            s->n += to - at;
        }
        at = to;
    }
    *usual_squares = (float)usual;
    return (float)sum;
}

/* One of several senders is refused. */
static void refuse(struct uw_distances *u, float ratio, uint32_t count_n)
{
    bool nearest = u->refused_ratio == 0.0f || ratio < u->refused_ratio;
    u->refused_ratio = nearest ? ratio : u->refused_ratio;
    u->refused_n += count_n;
}

/* What is known of a sender, in place of one that is silent; NULL: there are too many. */
static struct uw_sender *sender_of(struct uw_distances *u, uint32_t id)
{
    struct uw_sender *silent = NULL;
    for (uint32_t i = 0; i < u->senders_max; i++) {
        struct uw_sender *s = &u->senders[i];
        if (s->id == id) {
            return s;
        }
        silent = s->n == 0 && (silent == NULL || silent->id != 0) ? s : silent;
    }
    if (silent != NULL) {
        *silent = (struct uw_sender){.id = id};
    }
    return silent;
}

/* One chunk of a sender is enough to see that it does not train. */
static bool repeats(struct uw_sender *from, const struct uw_guarded *c)
{
    if (from->content == 0 || (from->offset_n == c->offset_n && !from->seen)) {
        uint32_t content = uw_crc32c(c->offset_n, c->x, c->count_n * sizeof *c->x);
        from->repeats = from->content == content;
        from->content = content;
        from->offset_n = c->offset_n;
        from->seen = true;
    }
    return from->repeats;
}

/* Of several senders each chunk counts by itself. */
static float share_of_many(struct uw_distances *u, const struct uw_params *p,
                           const struct uw_guarded *c, float squares, float usual)
{
    float far = u->learned && c->count_n >= p->size_n / FAR_AFTER ? FAR : MOVES_MOST;
    far *= u->headings != NULL && u->headings->lenient ? LENIENCE : 1.0f;
    if (usual > 0.0f && squares > far * far * usual) {
        refuse(u, sqrtf(squares / usual), c->count_n);
        return -1.0f;
    }
    (void)measure(u, p, c, true, &usual);
    u->n += c->count_n;
    return 1.0f;
}

/* Count a chunk of a pull or of broadcasts in this round. */
static void add(struct uw_distances *u, const struct uw_params *p, const struct uw_guarded *c,
                float squares, float usual)
{
    u->squares += squares;
    u->usual_squares += usual;
    u->n += c->count_n;
    (void)measure(u, p, c, true, &usual);
}

/* The share with which a chunk moves its elements by `most` times what is usual at most. */
static float clipped(float squares, float usual, float most)
{
    float ratio = sqrtf(squares / usual);
    return ratio > most ? most / ratio : 1.0f;
}

/* Of broadcasts each sender counts by itself. A refused one is reported once a round. */
static float share_of_cast(struct uw_distances *u, const struct uw_params *p,
                           const struct uw_guarded *c, float squares, float usual)
{
    struct uw_sender *from = sender_of(u, c->from_id);
    if (from == NULL) {
        return 0.0f;
    }
    from->squares += squares;
    from->usual_squares += usual;
    from->n += c->count_n;
    bool known = from->n >= p->size_n / FAR_AFTER;
    if (known) {
        from->far = from->squares > FAR_CAST * FAR_CAST * from->usual_squares;
    }
    if (known && from->far) {
        refuse(u, sqrtf(from->squares / from->usual_squares), c->count_n);
    }
    if (from->far || (repeats(from, c) && u->moves > 0.0f && squares > usual)) {
        float refused = from->refused ? 0.0f : -1.0f;
        from->refused = true;
        return refused;
    }
    add(u, p, c, squares, usual);
    return clipped(squares, usual, FAR_CAST);
}

static float share_of_one(struct uw_distances *u, const struct uw_params *p,
                          const struct uw_guarded *c, float squares, float usual)
{
    add(u, p, c, squares, usual);
    float far = u->learned ? FAR : MOVES_MOST;
    if (u->n >= p->size_n / FAR_AFTER && u->squares > far * far * u->usual_squares) {
        return -1.0f;
    }
    return clipped(squares, usual, MOVES_MOST);
}

static float share(struct uw_guard *base, const struct uw_gossip *g, const struct uw_guarded *c)
{
    struct uw_distances *u = (struct uw_distances *)base;
    const struct uw_params *p = g->config.params;
    float usual, squares = measure(u, p, c, false, &usual);
    if (isinf(u->squares + squares)) {
        return -1.0f;
    }
    bool averaged = c->rank != UW_GUARDED_PULL;
    if (averaged && c->rank != UW_GUARDED_RESULT && u->headings != NULL &&
        uw_headings_oppose(u->headings, c->rank, c->offset_n, c->x, c->count_n)) {
        return -1.0f;
    }
    if (!averaged && c->from_id == 0) {
        u->content += uw_crc32c(c->offset_n, c->x, c->count_n * sizeof *c->x);
    }
    if (usual == 0.0f && !averaged) {
        (void)measure(u, p, c, true, &usual);
        return u->follower || g->round_steps != 0 ? 0.0f : 1.0f;
    }
    /* Who has not mixed for long may have moved far. */
    float moved = u->moved * u->moved * (float)c->count_n / (float)p->size_n;
    usual = averaged || usual > moved ? usual : moved;
    float share = averaged || (c->from_id != 0 && u->senders_max == 0)
                      ? share_of_many(u, p, c, squares, usual)
                  : c->from_id != 0 ? share_of_cast(u, p, c, squares, usual)
                                    : share_of_one(u, p, c, squares, usual);
    float mixed = share > 0.0f ? share * c->weight : 0.0f;
    u->mixed_squares += mixed * mixed * squares;
    return share;
}

static bool averages(struct uw_guard *base, const struct uw_gossip *g, const uint32_t *ids,
                     uint32_t ids_n, uint32_t own, bool unequal)
{
    struct uw_distances *u = (struct uw_distances *)base;
    const struct uw_params *p = g->config.params;
    bool judged = uw_headings_meet(u->headings, ids, ids_n, own, unequal);
    if (judged) {
        uw_headings_begin(u->headings, p->x, p->size_n);
    }
    return judged;
}

static void begins(struct uw_guard *base, const struct uw_gossip *g)
{
    struct uw_distances *u = (struct uw_distances *)base;
    for (uint32_t i = 0; i < g->config.params->segments_n && !u->learned; i++) {
        u->usual[i].rms = 0.0f;
    }
}

static void averaged(struct uw_guard *base, const struct uw_gossip *g)
{
    struct uw_distances *u = (struct uw_distances *)base;
    const struct uw_params *p = g->config.params;
    uw_headings_end(u->headings, p->x, p->size_n);
}

int uw_distances_place(struct uw_distances **out, struct uw_arena *arena, uint32_t segments_n,
                       uint32_t ranks_max, uint32_t senders_max)
{
    void *memory, *senders = NULL;
    struct uw_headings *headings = NULL;
    size_t usual = uw_size_mul(segments_n + 1u, sizeof(struct uw_usual));
    int rc = uw_arena_take(arena, sizeof(struct uw_distances) + usual, &memory);
    rc = rc < 0 ? rc : uw_arena_take(arena, uw_size_mul(senders_max, sizeof(struct uw_sender)),
                                     &senders);
    rc = rc < 0 || ranks_max == 0 ? rc : uw_headings_place(&headings, arena, ranks_max);
    *out = memory;
    if (memory != NULL) {
        (*out)->base = (struct uw_guard){.share = share, .publishes = publishes,
                                         .follows = follows, .begins = begins,
                                         .averages = averages, .averaged = averaged,
                                         .ends = ends};
        (*out)->headings = headings;
        (*out)->senders = senders;
        (*out)->senders_max = senders_max;
    }
    return rc;
}
