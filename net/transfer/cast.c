/* SPDX-License-Identifier: Apache-2.0 */
#include "cast.h"

#include "transfer.h"
#include "base/bits.h"

#include "uwasa/rng.h"

#include <string.h>

#define REPAIR_PASSES 3u            /* limit of repairs, in passes */
#define CHUNK_DEFAULT_US 2000u
#define PACE_DEFAULT_US 1000u

/* Times after a node's last chunk, in units of a chunk's air time: each of the N others asks in its
 * own moment, then follow repairs, or the next pass. */
#define ASK_FROM 5u
#define REPAIR_FROM 9u              /* and N */
#define PASS_FROM 12u               /* and N */
#define STAGGER 2u                  /* between the times at which nodes may begin */
#define LATE 2u                     /* a later question delays repairs so long */
#define LINGER 14u                  /* and 3 N, without a chunk: no node will ask any more; if a
                                       question may be lost, plus two pauses of questions */
#define PACE_BURST 4u
#define LIMIT_TURNS 32u             /* before larger chunks are tried again */
#define PACE_RANGE 8u
#define PACE_NOISE 50u              /* thousandths of loss that are ignored */

void uw_cast_pace_init(struct uw_cast_pace *p, uint32_t us, bool adapts)
{
    *p = (struct uw_cast_pace){
        .us = us, .least_us = adapts ? us / PACE_RANGE : us,
        .most_us = adapts ? us * PACE_RANGE : us};
}

void uw_cast_pace_learn(struct uw_cast_pace *p, uint32_t chunks, uint32_t again)
{
    uint32_t lost = again < chunks ? (uint32_t)(again * UINT64_C(1000) / chunks) : 1000u;
    /* If it was too fast, half as much time again delivers half as many again. */
    uint32_t came = 1000u - lost, came_before = 1000u - p->before;
    bool in_vain = p->slowed && came <= came_before + came_before / 5u;
    if (in_vain || lost < p->usual) {
        p->usual = (uint16_t)lost;
    }
    p->slowed = !in_vain && lost > p->usual + PACE_NOISE && p->us < p->most_us;
    p->before = (uint16_t)lost;
    uint32_t us = p->slowed ? p->us + p->us / 2u : p->us - p->us / (in_vain ? 3u : 8u);
    p->us = uw_min_u32(uw_max_u32(us, p->least_us), p->most_us);
}

static uint32_t chunks_of(const struct uw_cast *c, uint32_t chunk_n)
{
    return chunk_n != 0 ? uw_chunks_in(c->size_n, chunk_n) : UINT32_MAX;
}

int uw_cast_place(struct uw_cast *c, struct uw_arena *arena, uint32_t size_n, uint32_t least_n,
                  uint32_t most_n, uint32_t peers_max, uint32_t chunk_us)
{
    *c = (struct uw_cast){.size_n = size_n, .most_n = uw_min_u32(most_n, size_n),
                          .peers_max = peers_max,
                          .chunk_us = chunk_us != 0 ? chunk_us : CHUNK_DEFAULT_US};
    c->least_n = uw_min_u32(least_n, c->most_n);
    c->words = uw_set_words(chunks_of(c, c->least_n));
    uw_cast_pace_init(&c->pace, chunk_us != 0 ? chunk_us : PACE_DEFAULT_US, chunk_us == 0);
    const size_t set_bytes = c->words * sizeof(uint32_t);
    const size_t bytes[3] = {uw_size_mul(peers_max, sizeof *c->peers), set_bytes,
                             uw_size_mul(peers_max, set_bytes)};
    void *part[3];
    int rc = uw_arena_take_each(arena, 3, bytes, part);
    uint32_t *sets = part[2];
    c->peers = part[0];
    c->todo = part[1];
    for (uint32_t i = 0; sets != NULL && i < peers_max; i++) {
        c->peers[i].have = sets + (size_t)i * c->words;
    }
    return rc;
}

/* Is serial number a, which wraps, later than b? */
static bool is_later(uint8_t a, uint8_t b)
{
    return a != b && (uint8_t)(a - b) < 128u;
}

static uint64_t air_us(const struct uw_cast *c, uint32_t chunks)
{
    return (uint64_t)chunks * c->chunk_us;
}

static struct uw_cast_peer *peer_of(const struct uw_cast *c, uint32_t id)
{
    for (uint32_t i = 0; i < c->peers_n; i++) {
        if (c->peers[i].id == id) {
            return &c->peers[i];
        }
    }
    return NULL;
}

static uint32_t view_of(uint32_t self_id, const uint32_t *ids, uint32_t n)
{
    uint32_t view = (uint32_t)uw_rng_mix(0, self_id);
    for (uint32_t i = 0; i < n; i++) {
        view += (uint32_t)uw_rng_mix(0, ids[i]);
    }
    return view;
}

void uw_cast_begin(struct uw_cast *c, uint32_t self_id, const uint32_t *ids, uint32_t n,
                   uint32_t chunk_n, uint64_t now_us)
{
    uint32_t rank = 0;
    if (c->passed && c->peers_n != 0) {
        uw_cast_pace_learn(&c->pace, c->chunks, c->wanted_n);
    }
    bool follows = c->is_ahead && (c->began_us == 0 || is_later(c->ahead, c->turn));
    c->turn = follows ? c->ahead : (uint8_t)(c->turn + 1u);
    c->is_ahead = c->differs = c->lossy = false;
    c->peers_n = n;
    c->limit_turns -= c->limit_turns != 0;
    c->chunk_n = uw_min_u32(chunk_n, c->limit_turns != 0 ? c->limit_n : c->most_n);
    c->limited_us = 0;
    c->chunks = chunks_of(c, c->chunk_n);
    c->view = view_of(self_id, ids, n);
    for (uint32_t i = 0; i < n; i++) {
        struct uw_cast_peer *p = &c->peers[i];
        uint32_t *have = p->have, place = self_id < ids[i];
        for (uint32_t k = 0; k < n; k++) {
            place += ids[k] < ids[i];
        }
        memset(have, 0, c->words * sizeof *have);
        *p = (struct uw_cast_peer){
            .have = have, .id = ids[i], .order = (place + c->turn) % (n + 1u)};
        rank += ids[i] < self_id;
    }
    c->order = (rank + c->turn) % (n + 1u);
    memset(c->todo, 0, c->words * sizeof *c->todo);
    c->at = c->todo_n = c->wanted_n = 0;
    c->repairs_left = c->chunks * REPAIR_PASSES;
    c->active = c->sharing = true;
    c->passed = c->ends = false;
    c->began_us = c->active_us = now_us;
    c->air_us = c->wanted_us = c->asking_us = 0;
    c->last_id = 0;
    c->repairing = false;
}

/* A chunk or question of another node's turn was received. */
static void note_turn(struct uw_cast *c, uint8_t turn)
{
    if ((c->began_us == 0 && !c->is_ahead) || is_later(turn, c->is_ahead ? c->ahead : c->turn)) {
        c->ahead = turn;
        c->is_ahead = true;
    }
}

/* ---- sending ---- */

/* When this node's own pass may begin: after the nodes before it in the order. For each one that
 * has not begun, a little later, in case it does not. */
static uint64_t start_us(const struct uw_cast *c)
{
    uint32_t before = 0;
    for (uint32_t i = 0; i < c->peers_n; i++) {
        const struct uw_cast_peer *p = &c->peers[i];
        before += p->received_us == 0 && !p->over && p->order < c->order;
    }
    return uw_max_u64(c->busy_us, c->began_us) + air_us(c, STAGGER * before);
}

/* The earliest time of the next chunk by the pace, which allows short bursts. */
static uint64_t paced_us(const struct uw_cast *c)
{
    uint64_t ahead_us = (uint64_t)PACE_BURST * c->pace.us;
    return c->paced_us > ahead_us ? c->paced_us - ahead_us : 0;
}

/* When repairs may begin: all have asked, and no other node repairs. Nodes first ask the one that
 * sent last. */
static uint64_t repair_us(const struct uw_cast *c)
{
    if (c->repairing) {
        return 0;
    }
    uint32_t wait = REPAIR_FROM + c->peers_n + (c->last_id != 0 ? 1u + c->order : 0);
    return uw_max_u64(c->air_us + air_us(c, wait), c->wanted_us + air_us(c, LATE));
}

bool uw_cast_next(struct uw_cast *c, uint64_t now_us, uint32_t *chunk)
{
    if (!c->sharing || now_us < paced_us(c)) {
        return false;
    }
    if (!c->passed) {
        *chunk = c->at;
        return c->at != 0 || now_us >= start_us(c);
    }
    if ((c->todo_n == 0 && !c->ends) || now_us < repair_us(c)) {
        return false;
    }
    if (c->ends) {
        *chunk = c->chunks;
        return true;
    }
    while (!uw_set_has(c->todo, c->at)) {
        c->at = (c->at + 1u) % c->chunks;
    }
    *chunk = c->at;
    return true;
}

void uw_cast_sent(struct uw_cast *c, uint32_t chunk, uint64_t now_us)
{
    c->active_us = c->air_us = now_us;
    c->asking_us = now_us + air_us(c, ASK_FROM + c->order);     /* no node repairs before */
    c->last_id = 0;
    c->paced_us = uw_max_u64(c->paced_us, now_us) + c->pace.us;
    if (chunk == c->chunks) {
        c->ends = c->repairing = false;
        return;
    }
    if (c->passed) {
        uw_set_remove(c->todo, chunk);
        c->repairing = --c->todo_n != 0;
        if (--c->repairs_left == 0) {
            memset(c->todo, 0, c->words * sizeof *c->todo);
            c->todo_n = 0;
            c->ends = true;
        }
        return;
    }
    c->at = chunk + 1u;
    if (c->at == c->chunks) {
        c->at = 0;
        c->passed = true;
    }
}

/* Add a chunk to repair, unless the pass has still to send it. */
static void add_todo(struct uw_cast *c, uint32_t chunk)
{
    if ((c->passed || chunk < c->at) && !uw_set_has(c->todo, chunk)) {
        uw_set_add(c->todo, chunk);
        c->todo_n++;
        c->wanted_n++;
    }
}

/* Add this node's chunks that overlap a chunk of another size. */
static void add_todo_of(struct uw_cast *c, uint32_t chunk, uint32_t chunk_n)
{
    if (chunk_n == 0 || chunk >= chunks_of(c, chunk_n)) {
        return;
    }
    uint32_t from_n = chunk * chunk_n, last_n = uw_min_u32(from_n + chunk_n, c->size_n) - 1u;
    for (uint32_t i = from_n / c->chunk_n; i <= last_n / c->chunk_n; i++) {
        add_todo(c, i);
    }
}

/* A node asks for chunks of a smaller size: it has received none, maybe because it cannot receive
 * such large ones. Then further repairs for it are useless. Returns whether it has asked before. */
static bool is_limit(struct uw_cast *c, uint32_t chunk_n, uint64_t now_us)
{
    if (chunk_n >= c->chunk_n || chunk_n < c->least_n) {
        return false;
    }
    c->limit_n = c->limit_turns != 0 ? uw_min_u32(c->limit_n, chunk_n) : chunk_n;
    c->limit_turns = LIMIT_TURNS;
    bool again = c->limited_us != 0 && c->limited_us != now_us;
    c->limited_us = again ? c->limited_us : now_us;
    return again;
}

void uw_cast_wanted(struct uw_cast *c, const struct uw_want *want, uint64_t now_us)
{
    bool in_vain = is_limit(c, want->chunk_n, now_us);      /* of any turn, if it is behind */
    note_turn(c, (uint8_t)want->transfer);
    if (want->transfer != c->turn || !c->sharing || in_vain) {
        return;
    }
    c->lossy = true;
    c->ends = c->ends || c->repairs_left == 0;
    uint64_t wanted = c->repairs_left != 0 ? want->wanted : 0;
    for (; wanted != 0; wanted &= wanted - 1u) {
        add_todo_of(c, want->base + uw_lowest_bit(wanted), want->chunk_n);
    }
    c->active_us = c->wanted_us = now_us;
}

/* ---- receiving ---- */

/* Floats of the last chunk that are also in the one before. */
static uint32_t overlap_n(const struct uw_cast *c, const struct uw_cast_chunk *in)
{
    uint32_t left_n = c->size_n - in->chunk * in->count_n;
    return left_n < in->count_n ? in->count_n - left_n : 0;
}

int uw_cast_check(struct uw_cast *c, uint32_t id, const struct uw_cast_chunk *in, uint64_t now_us,
                  uint32_t *skip_n)
{
    uint32_t chunk_n = in->count_n, chunk = in->chunk;
    bool end = chunk_n == 0;
    if (!end && (chunk_n < c->least_n || chunk_n > c->most_n || chunk >= chunks_of(c, chunk_n))) {
        return UW_ERR_CORRUPT;
    }
    note_turn(c, in->turn);
    struct uw_cast_peer *p = peer_of(c, id);
    if (!c->active || p == NULL || p->gone || in->turn != c->turn) {
        return UW_ERR_MISMATCH;
    }
    if (end || (p->chunk_n != 0 && p->chunk_n != chunk_n)) {   /* or it has restarted */
        p->over = true;
        return UW_ERR_MISMATCH;
    }
    p->chunk_n = chunk_n;
    c->differs = c->differs || in->tag != uw_cast_tag(c, chunk);
    *skip_n = overlap_n(c, in);
    p->over = false;
    p->asks = 0;
    c->active_us = c->air_us = p->received_us = now_us;
    c->last_id = id;
    c->asking_us = now_us + air_us(c, ASK_FROM + c->order);
    c->busy_us = now_us + air_us(c, PASS_FROM + c->peers_n);
    p->end = chunk + 1u > p->end ? chunk + 1u : p->end;
    uint32_t wait = p->end == chunks_of(c, chunk_n) ? ASK_FROM : PASS_FROM + c->peers_n;
    p->ask_us = now_us + air_us(c, wait + c->order);
    return uw_set_has(p->have, chunk) ? UW_ERR_AGAIN : UW_OK;
}

void uw_cast_arrived(struct uw_cast *c, uint32_t id, uint32_t chunk)
{
    struct uw_cast_peer *p = peer_of(c, id);
    if (p != NULL && !uw_set_has(p->have, chunk)) {
        uw_set_add(p->have, chunk);
        p->have_n++;
    }
}

static bool has_all(const struct uw_cast *c, const struct uw_cast_peer *p)
{
    return p->have_n == chunks_of(c, p->chunk_n);
}

static bool is_done(const struct uw_cast *c, const struct uw_cast_peer *p)
{
    return p->over || has_all(c, p);
}

/* When to ask a node: some time after its last chunk, or after it should have begun. */
static uint64_t ask_at_us(const struct uw_cast *c, const struct uw_cast_peer *p)
{
    uint64_t idle_us = c->active_us + air_us(c, LINGER + (2u + c->peers_n) * c->peers_n + c->order);
    return p->received_us == 0 && idle_us > p->ask_us ? idle_us : p->ask_us;
}

/* Pause between questions to a node that does not answer. */
static uint32_t pause(const struct uw_cast *c)
{
    return 2u * (REPAIR_FROM + c->peers_n) + c->order;
}

/* May a node be asked now? One that did not answer too often has no more, or waits. */
static bool is_due(struct uw_cast *c, struct uw_cast_peer *p, uint64_t now_us)
{
    if (is_done(c, p) || now_us < ask_at_us(c, p)) {
        return false;
    }
    if (p->asks == UW_CAST_ASKS_MAX) {
        p->over = p->received_us != 0 || now_us >= c->active_us + c->patience_us;
        p->ask_us = now_us + air_us(c, pause(c) * UW_CAST_ASKS_MAX);
    }
    return p->asks < UW_CAST_ASKS_MAX;
}

/* Choose the node to ask: one at a time, so that others can send. If possible all ask the same one,
 * which then repairs for all: the one that sent last, else the one that was asked least. */
static struct uw_cast_peer *pick(struct uw_cast *c, uint64_t now_us)
{
    struct uw_cast_peer *best = NULL;
    for (uint32_t i = 0; i < c->peers_n; i++) {
        struct uw_cast_peer *p = &c->peers[i];
        if (!is_due(c, p, now_us)) {
            continue;
        }
        if (p->id == c->last_id && p->asks == 0) {
            return p;
        }
        bool sooner = best == NULL || p->asks < best->asks ||
                      (p->asks == best->asks && p->order < best->order);
        best = sooner ? p : best;
    }
    return best;
}

uint32_t uw_cast_ask(struct uw_cast *c, uint64_t now_us, uint32_t most, uint32_t *id,
                     struct uw_want *wants)
{
    struct uw_cast_peer *p = c->active && now_us >= c->asking_us ? pick(c, now_us) : NULL;
    if (p == NULL) {
        return 0;
    }
    const uint32_t chunk_n = p->chunk_n != 0 ? p->chunk_n : c->chunk_n;
    uint32_t n = 0, chunks = chunks_of(c, chunk_n);
    for (uint32_t at = 0; at < chunks && n < most; at++) {
        if (!uw_set_has(p->have, at)) {
            wants[n] = (struct uw_want){.base = at, .chunk_n = chunk_n, .transfer = c->turn};
            (void)uw_want_missing(p->have, p->have, at, chunks, 64u, &wants[n++].wanted);
            at += 63u;
        }
    }
    *id = p->id;
    c->lossy = true;
    p->asks++;
    p->ask_us = c->asking_us = now_us + air_us(c, pause(c));
    return n;
}

void uw_cast_unask(struct uw_cast *c, uint32_t id, uint64_t now_us)
{
    struct uw_cast_peer *p = peer_of(c, id);
    if (p != NULL) {
        p->asks = p->asks != 0 ? (uint8_t)(p->asks - 1u) : 0;
        p->ask_us = c->asking_us = now_us + c->chunk_us;
    }
}

void uw_cast_give_up(struct uw_cast *c, uint32_t id)
{
    struct uw_cast_peer *p = peer_of(c, id);
    if (p != NULL) {
        p->over = p->gone = true;
    }
}

void uw_cast_narrowed(struct uw_cast *c)
{
    memset(c->todo, 0, c->words * sizeof *c->todo);
    c->todo_n = c->repairs_left = 0;
    c->passed = c->ends = true;
}

/* ---- the end ---- */

bool uw_cast_is_exact(const struct uw_cast *c)
{
    bool exact = !c->differs;
    for (uint32_t i = 0; i < c->peers_n; i++) {
        exact = exact && has_all(c, &c->peers[i]);
    }
    return exact;
}

/* When no more questions are expected. */
static uint64_t quiet_us(const struct uw_cast *c)
{
    return c->active_us +
           air_us(c, c->lossy ? 3u * LINGER + 6u * c->peers_n : LINGER + 3u * c->peers_n);
}

bool uw_cast_over(struct uw_cast *c, uint64_t now_us)
{
    if (!c->active) {
        return false;
    }
    bool over = c->passed && c->todo_n == 0 && now_us >= quiet_us(c), alone = true;
    for (uint32_t i = 0; i < c->peers_n; i++) {
        over = over && is_done(c, &c->peers[i]);
        alone = alone && c->peers[i].gone;
    }
    /* a node in a later turn has no more chunks of this one */
    over = over || alone || (c->is_ahead && is_later(c->ahead, c->turn));
    c->active = !over;
    return over;
}

uint64_t uw_cast_next_us(const struct uw_cast *c, uint64_t now_us)
{
    uint64_t next = UINT64_MAX, ask_us = UINT64_MAX;
    if (c->sharing && !c->passed) {
        next = c->at != 0 ? now_us : start_us(c);
    } else if (c->sharing && (c->todo_n != 0 || c->ends)) {
        next = repair_us(c);
    }
    next = uw_max_u64(next, paced_us(c));
    for (uint32_t i = 0; c->active && i < c->peers_n; i++) {
        if (!is_done(c, &c->peers[i])) {
            ask_us = uw_min_u64(ask_us, ask_at_us(c, &c->peers[i]));
        }
    }
    next = uw_min_u64(next, uw_max_u64(ask_us, c->asking_us));
    if (c->active && c->passed && quiet_us(c) > now_us) {
        next = uw_min_u64(next, quiet_us(c));
    }
    return uw_max_u64(next, now_us);
}
