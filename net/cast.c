/* SPDX-License-Identifier: Apache-2.0 */
#include "cast.h"

#include "bits.h"

#include <string.h>

#define ASKS_MAX 6u                 /* in a row in vain */
#define REPAIR_PARTS 2u             /* repairs are at most one part in so many of the pass */
#define CHUNK_DEFAULT_US 1000u

/* When things are done after a node's last chunk, in chunks' time on the air: each of the N others
 * asks in its moment, then come repairs, else the next pass. */
#define ASK_FROM 3u
#define REPAIR_FROM 7u              /* and N */
#define PASS_FROM 10u               /* and N */
#define STAGGER 2u                  /* between the moments at which nodes would begin theirs */
#define LATE 2u                     /* a wish that comes later waits for others so long */
#define LINGER 12u                  /* and 3 N, without a chunk: nobody will ask any more */

int uw_cast_place(struct uw_cast *c, struct uw_arena *arena, uint32_t size_n, uint32_t chunk_n,
                  uint32_t peers_max)
{
    *c = (struct uw_cast){.size_n = size_n, .chunk_n = chunk_n, .peers_max = peers_max,
                          .chunk_us = CHUNK_DEFAULT_US};
    c->chunks = size_n / chunk_n + (size_n % chunk_n != 0);
    c->words = (c->chunks + 31u) / 32u;
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

/* Serial numbers that come round. */
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

void uw_cast_begin(struct uw_cast *c, uint32_t self_id, const uint32_t *ids, uint32_t n,
                   uint64_t now_us)
{
    uint32_t rank = 0;
    bool follows = c->is_ahead && (c->began_us == 0 || is_later(c->ahead, c->turn));
    c->turn = follows ? c->ahead : (uint8_t)(c->turn + 1u);
    c->is_ahead = false;
    c->peers_n = n;
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
    c->at = c->todo_n = 0;
    c->repairs_left = c->chunks / REPAIR_PARTS;
    c->active = c->sharing = true;
    c->passed = c->ends = c->quits = false;
    c->began_us = c->active_us = now_us;
    c->sent_us = 0;
}

/* ---- sending ---- */

/* When this node's own pass may begin: after who comes before and has not begun, a little later
 * for each, in case it does not. */
static uint64_t start_us(const struct uw_cast *c)
{
    uint32_t before = 0;
    for (uint32_t i = 0; i < c->peers_n; i++) {
        const struct uw_cast_peer *p = &c->peers[i];
        before += p->heard_us == 0 && !p->over && p->order < c->order;
    }
    uint64_t from_us = c->busy_us > c->began_us ? c->busy_us : c->began_us;
    return from_us + air_us(c, STAGGER * before);
}

bool uw_cast_next(struct uw_cast *c, uint64_t now_us, uint32_t *chunk)
{
    if (!c->sharing) {
        return false;
    }
    if (!c->passed) {
        *chunk = c->at;
        return c->at != 0 || now_us >= start_us(c);
    }
    if (now_us < c->repair_us || (c->todo_n == 0 && !c->ends)) {
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
    c->active_us = c->sent_us = now_us;
    if (chunk == c->chunks) {
        c->ends = false;
        return;
    }
    if (c->passed) {
        uw_set_remove(c->todo, chunk);
        c->todo_n--;
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

void uw_cast_wanted(struct uw_cast *c, uint8_t turn, uint32_t base, uint64_t wanted,
                    uint64_t now_us)
{
    if (turn != c->turn || !c->sharing) {
        return;
    }
    if (c->todo_n == 0 && !c->ends) {
        uint64_t from_us = c->sent_us + air_us(c, REPAIR_FROM + c->peers_n);
        c->repair_us = now_us + air_us(c, LATE);
        c->repair_us = from_us > c->repair_us ? from_us : c->repair_us;
    }
    c->ends = c->ends || c->repairs_left == 0;
    for (; wanted != 0 && c->repairs_left != 0; wanted &= wanted - 1u) {
        uint32_t chunk = base + uw_lowest_bit(wanted);
        /* What its pass has not come to yet comes anyway. */
        if (chunk < c->chunks && (c->passed || chunk < c->at) && !uw_set_has(c->todo, chunk)) {
            uw_set_add(c->todo, chunk);
            c->todo_n++;
        }
    }
    c->active_us = now_us;
}

/* ---- hearing ---- */

int uw_cast_check(struct uw_cast *c, uint32_t id, uint8_t turn, uint32_t chunk, uint64_t now_us)
{
    if (chunk > c->chunks) {
        return UW_ERR_CORRUPT;
    }
    bool first = c->began_us == 0 && !c->is_ahead;
    if (first || is_later(turn, c->is_ahead ? c->ahead : c->turn)) {
        c->ahead = turn;
        c->is_ahead = true;
    }
    struct uw_cast_peer *p = peer_of(c, id);
    if (!c->active || p == NULL || turn != c->turn) {
        return UW_ERR_MISMATCH;
    }
    if (chunk == c->chunks) {
        p->over = true;
        return UW_ERR_MISMATCH;
    }
    c->active_us = p->heard_us = now_us;
    c->busy_us = now_us + air_us(c, PASS_FROM + c->peers_n);
    p->end = chunk + 1u > p->end ? chunk + 1u : p->end;
    uint32_t wait = p->end == c->chunks ? ASK_FROM : PASS_FROM + c->peers_n;
    p->ask_us = now_us + air_us(c, wait + c->order);
    return uw_set_has(p->have, chunk) ? UW_ERR_AGAIN : UW_OK;
}

void uw_cast_arrived(struct uw_cast *c, uint32_t id, uint32_t chunk)
{
    struct uw_cast_peer *p = peer_of(c, id);
    if (p == NULL || uw_set_has(p->have, chunk)) {
        return;
    }
    uw_set_add(p->have, chunk);
    p->have_n++;
    p->asks = 0;
}

static bool is_done(const struct uw_cast *c, const struct uw_cast_peer *p)
{
    return p->over || p->have_n == c->chunks;
}

/* Its last chunk came some time ago, or it should have begun. */
static uint64_t ask_at_us(const struct uw_cast *c, const struct uw_cast_peer *p)
{
    uint64_t idle_us = c->active_us + air_us(c, LINGER + (2u + c->peers_n) * c->peers_n + c->order);
    return p->heard_us == 0 && idle_us > p->ask_us ? idle_us : p->ask_us;
}

/* The first missing chunks from `from` on, up to 64 in a row; returns where to go on. */
static uint32_t missing_from(const struct uw_cast *c, const struct uw_cast_peer *p, uint32_t from,
                             struct uw_want *w)
{
    while (from < c->chunks && uw_set_has(p->have, from)) {
        from++;
    }
    *w = (struct uw_want){.base = from, .chunk_n = c->chunk_n, .transfer = c->turn};
    for (uint32_t bit = 0; bit < 64u && from + bit < c->chunks; bit++) {
        w->wanted |= (uint64_t)!uw_set_has(p->have, from + bit) << bit;
    }
    return from + 64u;
}

/* Between two questions to a node that does not answer. */
static uint32_t pause(const struct uw_cast *c)
{
    return 2u * (REPAIR_FROM + c->peers_n) + c->order;
}

uint32_t uw_cast_ask(struct uw_cast *c, uint64_t now_us, uint32_t most, uint32_t *id,
                     struct uw_want *wants)
{
    for (uint32_t i = 0; c->active && i < c->peers_n; i++) {
        struct uw_cast_peer *p = &c->peers[i];
        if (is_done(c, p) || now_us < ask_at_us(c, p)) {
            continue;
        }
        if (p->asks == ASKS_MAX) {
            p->over = p->heard_us != 0 || now_us >= c->active_us + c->patience_us;
            p->ask_us = now_us + air_us(c, pause(c) * ASKS_MAX);
            continue;
        }
        uint32_t n = 0;
        for (uint32_t at = 0; at < c->chunks && n < most;) {
            at = missing_from(c, p, at, &wants[n]);
            n += wants[n].wanted != 0;
        }
        *id = p->id;
        p->asks++;
        p->ask_us = now_us + air_us(c, pause(c));
        return n;
    }
    return 0;
}

void uw_cast_unask(struct uw_cast *c, uint32_t id, uint64_t now_us)
{
    struct uw_cast_peer *p = peer_of(c, id);
    if (p != NULL) {
        p->asks = p->asks != 0 ? (uint8_t)(p->asks - 1u) : 0;
        p->ask_us = now_us + c->chunk_us;
    }
}

void uw_cast_give_up(struct uw_cast *c, uint32_t id)
{
    struct uw_cast_peer *p = peer_of(c, id);
    if (p != NULL) {
        p->over = p->gone = true;
    }
}

void uw_cast_quit(struct uw_cast *c)
{
    c->quits = true;
    c->sharing = false;
}

/* ---- the end ---- */

bool uw_cast_is_exact(const struct uw_cast *c)
{
    bool exact = true;
    for (uint32_t i = 0; i < c->peers_n; i++) {
        exact = exact && c->peers[i].have_n == c->chunks;
    }
    return exact;
}

/* When nobody can be expected to ask for anything any more. */
static uint64_t quiet_us(const struct uw_cast *c)
{
    return c->active_us + air_us(c, LINGER + 3u * c->peers_n);
}

bool uw_cast_over(struct uw_cast *c, uint64_t now_us)
{
    if (!c->active) {
        return false;
    }
    bool over = c->passed && c->todo_n == 0 && now_us >= quiet_us(c);
    bool alone = true;
    for (uint32_t i = 0; i < c->peers_n; i++) {
        over = over && is_done(c, &c->peers[i]);
        alone = alone && c->peers[i].gone;
    }
    over = over || alone || c->quits;
    /* Who has gone on has nothing of this turn any more. */
    over = over || (c->is_ahead && is_later(c->ahead, c->turn));
    c->active = !over;
    return over;
}

void uw_cast_slept(struct uw_cast *c, uint64_t slept_us)
{
    uint64_t *const times[] = {&c->began_us, &c->active_us, &c->busy_us, &c->sent_us,
                               &c->repair_us};
    for (uint32_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        *times[i] += *times[i] != 0 ? slept_us : 0;
    }
    for (uint32_t i = 0; i < c->peers_n; i++) {
        c->peers[i].heard_us += c->peers[i].heard_us != 0 ? slept_us : 0;
        c->peers[i].ask_us += slept_us;
    }
}

uint64_t uw_cast_next_us(const struct uw_cast *c, uint64_t now_us)
{
    uint64_t next = UINT64_MAX;
    if (c->sharing && !c->passed) {
        next = c->at != 0 ? now_us : start_us(c);
    } else if (c->sharing && (c->todo_n != 0 || c->ends)) {
        next = c->repair_us;
    }
    for (uint32_t i = 0; c->active && i < c->peers_n; i++) {
        if (!is_done(c, &c->peers[i])) {
            next = uw_min_u64(next, ask_at_us(c, &c->peers[i]));
        }
    }
    if (c->active && c->passed && quiet_us(c) > now_us) {
        next = uw_min_u64(next, quiet_us(c));
    }
    return next > now_us ? next : now_us;
}
