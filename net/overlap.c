/* SPDX-License-Identifier: Apache-2.0 */
#include "overlap.h"

#include "bits.h"

#include <string.h>

#define SEND_MOST 64u               /* messages in one run */
#define SEND_RETRY_US 200u
#define PATIENCE_MIN_US 20000u
#define TRIES_MAX 5u
#define NONE UINT32_MAX

/* Sets of fragments. */

static void set_bit(uint64_t *words, uint32_t i, bool on)
{
    uint64_t bit = (uint64_t)1 << (i % 64u);
    words[i / 64u] = on ? words[i / 64u] | bit : words[i / 64u] & ~bit;
}

/* Has a fragment chunks to send in its step? */
static void set_sending(struct uw_overlap *o, uint32_t i)
{
    const struct uw_fragment *f = &o->fragments[i];
    bool now = (o->sending[i / 64u] >> (i % 64u) & 1u) != 0;
    if (now != (f->wanted != 0)) {
        set_bit(o->sending, i, !now);
        o->waiting[f->to] += now ? UINT32_MAX : 1u;
    }
}

/* The first one from i on; NONE: there is none. */
static uint32_t next_bit(const struct uw_overlap *o, const uint64_t *words, uint32_t i)
{
    for (uint32_t w = i / 64u; w < o->words; w++) {
        uint64_t bits = words[w] & (w == i / 64u ? UINT64_MAX << (i % 64u) : UINT64_MAX);
        if (bits != 0) {
            return w * 64u + uw_lowest_bit(bits);
        }
    }
    return NONE;
}

/* Steps of a fragment. */

static uint64_t chunks_of(const struct uw_overlap *o, uint32_t n)
{
    uint32_t chunk_n = o->config.chunk_n;
    uint32_t chunks = n / chunk_n + (n % chunk_n != 0 ? 1 : 0);
    return chunks != 0 ? UINT64_MAX >> (64u - chunks) : 0;
}

static struct uw_allreduce_step step_at(const struct uw_overlap *o, const struct uw_fragment *f,
                                        uint32_t k)
{
    return uw_allreduce_step(o->config.kind, o->group.ranks, o->group.rank, f->size_n, k);
}

static float *gradient_of(const struct uw_overlap *o, const struct uw_fragment *f)
{
    return o->buckets[f->bucket].x + f->at;
}

static void set_due(struct uw_overlap *o, struct uw_fragment *f)
{
    f->due_us = o->now_us + (o->patience_us << uw_min_u32(f->tries, TRIES_MAX));
    o->due_us = f->due_us < o->due_us ? f->due_us : o->due_us;
}

static void trace(const struct uw_overlap *o, const struct uw_fragment *f, bool end)
{
    if (o->config.trace != NULL) {
        uint32_t i = (uint32_t)(f - o->fragments) - o->buckets[f->bucket].first;
        o->config.trace(o->config.arg, f->bucket, i, end, o->now_us);
    }
}

static void move(const struct uw_overlap *o, struct uw_fragment *f)
{
    if (!f->moved) {
        f->moved = true;
        trace(o, f, false);
    }
}

static void enter(struct uw_overlap *o, uint32_t i)
{
    struct uw_fragment *f = &o->fragments[i];
    struct uw_allreduce_step s = step_at(o, f, f->k);
    f->have = f->out = f->wanted = f->sent = 0;
    f->got = false;
    f->tries = 0;
    f->to = (uint16_t)s.to;
    f->from = (uint16_t)s.from;
    f->wanted = (f->ahead & 1u) != 0 ? chunks_of(o, s.send_n) : 0;
    set_bit(o->asking, i, s.recv_n > 0);
    set_sending(o, i);
    set_due(o, f);
}

static bool is_over(const struct uw_overlap *o, const struct uw_fragment *f,
                    const struct uw_allreduce_step *s)
{
    bool delivered = s->send_n == 0 ||
                     (o->config.reliable ? f->sent == chunks_of(o, s->send_n) : f->got);
    return delivered && f->have == chunks_of(o, s->recv_n);
}

static void scale_owned(const struct uw_overlap *o, const struct uw_fragment *f)
{
    const struct uw_overlap_group *g = &o->group;
    uint32_t at;
    uint32_t n = !o->config.average ? 0
                                    : uw_allreduce_owned(o->config.kind, g->ranks, g->rank,
                                                         f->size_n, f->k, &at);
    float *x = n > 0 ? gradient_of(o, f) + at : NULL;
    float share = 1.0f / (float)g->ranks;
    for (uint32_t i = 0; i < n; i++) {
        x[i] *= share;
    }
}

static void finish(struct uw_overlap *o, struct uw_fragment *f)
{
    struct uw_overlap_bucket *b = &o->buckets[f->bucket];
    f->running = false;
    o->running_n--;
    move(o, f);
    trace(o, f, true);
    if (++b->done_n == b->fragments_n) {
        b->state = UW_OVERLAP_DONE;
    }
}

/* Go on as far as possible. */
static void advance(struct uw_overlap *o, uint32_t i)
{
    struct uw_fragment *f = &o->fragments[i];
    while (f->running) {
        if (f->k == o->steps_n) {
            finish(o, f);
            return;
        }
        struct uw_allreduce_step s = step_at(o, f, f->k);
        if (!is_over(o, f, &s)) {
            return;
        }
        scale_owned(o, f);
        f->k++;
        o->advanced_n++;
        f->ahead >>= 1;
        set_bit(o->asking, i, false);
        if (f->k < o->steps_n) {
            enter(o, i);
        }
    }
}

void uw_overlap_begin(struct uw_overlap *o, const struct uw_overlap_group *group, uint64_t now_us)
{
    uw_overlap_stop(o);
    o->group = *group;
    o->steps_n = uw_allreduce_steps_n(o->config.kind, group->ranks);
    o->active = true;
    o->now_us = now_us;
    o->patience_us = 4u * group->rtt_us + PATIENCE_MIN_US;
    for (uint32_t i = 0; i < o->config.buckets_n; i++) {
        o->buckets[i].state = UW_OVERLAP_IDLE;
        o->buckets[i].round = 0;
    }
    for (uint32_t i = 0; i < o->fragments_n; i++) {
        o->fragments[i].next = 0;
    }
    memset(o->blocked, 0, o->config.ranks_max * sizeof *o->blocked);
    o->runs = 0;
}

void uw_overlap_ready(struct uw_overlap *o, uint32_t bucket, float *x, uint64_t now_us)
{
    struct uw_overlap_bucket *b = &o->buckets[bucket];
    o->now_us = now_us;
    b->x = x;
    b->round++;
    b->done_n = 0;
    b->state = UW_OVERLAP_RUNNING;
    o->running_n += b->fragments_n;
    for (uint32_t i = b->first; i < b->first + b->fragments_n; i++) {
        struct uw_fragment *f = &o->fragments[i];
        f->running = true;
        f->moved = false;
        f->k = 0;
        f->ahead = f->next;
        f->next = 0;
        if (o->steps_n > 0) {
            enter(o, i);
        }
        advance(o, i);
    }
}

uint32_t uw_overlap_progress(const struct uw_overlap *o, uint32_t *waits_for)
{
    const struct uw_fragment *last = NULL;
    for (uint32_t i = 0; i < o->fragments_n && o->running_n > 0; i++) {
        const struct uw_fragment *f = &o->fragments[i];
        last = f->running && (last == NULL || f->k < last->k) ? f : last;
    }
    *waits_for = UW_RANK_NONE;
    if (last != NULL) {
        struct uw_allreduce_step s = step_at(o, last, last->k);
        *waits_for = last->have != chunks_of(o, s.recv_n) ? s.from : s.to;
    }
    return o->advanced_n;
}

void uw_overlap_stop(struct uw_overlap *o)
{
    o->active = false;
    o->out_chunks = o->running_n = 0;
    o->due_us = UINT64_MAX;
    for (uint32_t i = 0; i < o->config.buckets_n; i++) {
        struct uw_overlap_bucket *b = &o->buckets[i];
        b->state = b->state == UW_OVERLAP_RUNNING ? UW_OVERLAP_STOPPED : b->state;
    }
    for (uint32_t i = 0; i < o->fragments_n; i++) {
        o->fragments[i].running = false;
    }
    memset(o->asking, 0, o->words * sizeof *o->asking);
    memset(o->sending, 0, o->words * sizeof *o->sending);
    memset(o->waiting, 0, o->config.ranks_max * sizeof *o->waiting);
}

/* What comes in. */

static void answer_got(struct uw_overlap *o, uint32_t rank, const struct uw_part *data)
{
    const struct uw_part p = {.type = UW_PART_GOT, .group = o->group.group, .round = data->round,
                              .step = data->step, .op = data->op};
    if (!o->config.reliable) {
        (void)o->config.send(o->config.arg, rank, &p);
    }
}

/* Data of the step at hand. */
static void arrive(struct uw_overlap *o, struct uw_fragment *f, const struct uw_part *p)
{
    struct uw_allreduce_step s = step_at(o, f, f->k);
    uint32_t chunk_n = o->config.chunk_n;
    if (p->offset_n >= s.recv_n || p->offset_n % chunk_n != 0 ||
        p->count_n != uw_min_u32(chunk_n, s.recv_n - p->offset_n)) {
        return;
    }
    uint64_t bit = (uint64_t)1 << (p->offset_n / chunk_n);
    if ((f->have & bit) == 0) {
        float *x = gradient_of(o, f) + s.recv_at + p->offset_n;
        if (s.take == UW_TAKE_COPY) {
            memcpy(x, p->floats, p->count_n * sizeof *x);
        } else {
            for (uint32_t i = 0; i < p->count_n; i++) {
                x[i] += p->floats[i];
            }
        }
        o->out_chunks -= (f->out & bit) != 0 ? 1 : 0;
        f->have |= bit;
        f->out &= ~bit;
        f->tries = 0;
        f->due_us = o->now_us + o->patience_us;
        move(o, f);
    }
    if (f->have == chunks_of(o, s.recv_n)) {
        answer_got(o, f->from, p);
    }
}

static void take_data(struct uw_overlap *o, uint32_t from, struct uw_fragment *f,
                      const struct uw_part *p)
{
    uint32_t round = o->buckets[f->bucket].round;
    if (p->round == round && f->running && p->step == f->k) {
        if (f->from == from) {
            arrive(o, f, p);
        }
    } else if (p->round < round || (p->round == round && (!f->running || p->step < f->k))) {
        answer_got(o, from, p);     /* the first one was lost */
    }
}

static void take_want(struct uw_overlap *o, uint32_t from, struct uw_fragment *f,
                      const struct uw_part *p)
{
    uint32_t round = o->buckets[f->bucket].round;
    bool now = p->round == round && f->running && p->step >= f->k;
    uint32_t j = now ? (uint32_t)p->step - f->k : p->step;
    struct uw_allreduce_step s = step_at(o, f, p->step);
    if (s.to != from || j > 63u || p->want.chunk_n != o->config.chunk_n || p->want.base != 0) {
        return;
    }
    if (!now) {
        f->next |= p->round == round + 1u ? (uint64_t)1 << j : 0;
    } else if (j > 0) {
        f->ahead |= (uint64_t)1 << j;
    } else {
        f->wanted |= p->want.wanted & chunks_of(o, s.send_n) & ~(o->config.reliable ? f->sent : 0);
        set_sending(o, (uint32_t)(f - o->fragments));
    }
}

static void take_got(struct uw_overlap *o, uint32_t from, struct uw_fragment *f,
                     const struct uw_part *p)
{
    if (p->round == o->buckets[f->bucket].round && f->running && p->step == f->k &&
        f->to == from) {
        f->got = true;
        f->wanted = 0;
        set_sending(o, (uint32_t)(f - o->fragments));
    }
}

void uw_overlap_take(struct uw_overlap *o, uint32_t from, const struct uw_part *p, uint64_t now_us)
{
    if (!o->active || p->group != o->group.group || from >= o->group.ranks ||
        from == o->group.rank || p->op == 0 || p->op > o->fragments_n || p->step >= o->steps_n) {
        return;
    }
    uint32_t i = p->op - 1u;
    struct uw_fragment *f = &o->fragments[i];
    o->now_us = now_us;
    switch (p->type) {
    case UW_PART_DATA: take_data(o, from, f, p); break;
    case UW_PART_WANT: take_want(o, from, f, p); break;
    case UW_PART_GOT: take_got(o, from, f, p); break;
    default: break;
    }
    advance(o, i);
}

/* What is due. */

static bool hand_over(struct uw_overlap *o, uint32_t i, uint32_t rank, struct uw_part *p)
{
    p->group = o->group.group;
    p->round = o->buckets[o->fragments[i].bucket].round;
    p->step = o->fragments[i].k;
    p->op = (uint16_t)(i + 1u);
    if (o->config.send(o->config.arg, rank, p) != UW_ERR_AGAIN) {
        return true;
    }
    o->blocked[rank] = o->runs;
    o->refused = true;
    return false;
}

/* The lowest bits of a set, at most `most`. */
static uint64_t lowest(uint64_t set, uint32_t most)
{
    uint64_t rest = set;
    for (; rest != 0 && most > 0; most--) {
        rest &= rest - 1u;
    }
    return set & ~rest;
}

/* Ask for what this rank can take now, as far as the window goes. */
static void ask(struct uw_overlap *o)
{
    uint32_t window = o->config.window_chunks;
    for (uint32_t i = next_bit(o, o->asking, 0); i != NONE; i = next_bit(o, o->asking, i + 1)) {
        struct uw_fragment *f = &o->fragments[i];
        if (o->blocked[f->from] == o->runs) {
            continue;
        }
        struct uw_allreduce_step s = step_at(o, f, f->k);
        uint64_t missing = chunks_of(o, s.recv_n) & ~f->have & ~f->out;
        uint32_t room = window == 0 ? 64u : window > o->out_chunks ? window - o->out_chunks : 0;
        struct uw_part p = {.type = UW_PART_WANT,
                            .want = {.transfer = f->k, .chunk_n = o->config.chunk_n,
                                     .wanted = lowest(missing, room)}};
        if (missing != 0 && room == 0) {
            return;
        }
        if (missing != 0 && !hand_over(o, i, f->from, &p)) {
            continue;
        }
        f->out |= p.want.wanted;
        o->out_chunks += uw_bits_in(p.want.wanted);
        set_bit(o->asking, i, missing != p.want.wanted);
        set_due(o, f);
    }
}

/* Are there chunks for a rank that may take some? */
static bool any_open(const struct uw_overlap *o)
{
    bool open = false;
    for (uint32_t rank = 0; rank < o->group.ranks && !open; rank++) {
        open = o->waiting[rank] > 0 && o->blocked[rank] != o->runs;
    }
    return open;
}

/* Send the next chunk of the first fragment that has one for a rank that takes it. Returns false
 * when there is none. */
static bool send_next(struct uw_overlap *o)
{
    for (uint32_t i = 0; any_open(o); i++) {
        i = next_bit(o, o->sending, i);
        struct uw_fragment *f = &o->fragments[i];
        if (o->blocked[f->to] == o->runs) {
            continue;
        }
        struct uw_allreduce_step s = step_at(o, f, f->k);
        uint32_t chunk = uw_lowest_bit(f->wanted), at = chunk * o->config.chunk_n;
        struct uw_part p = {.type = UW_PART_DATA, .offset_n = at,
                            .count_n = uw_min_u32(o->config.chunk_n, s.send_n - at),
                            .floats = gradient_of(o, f) + s.send_at + at};
        if (!hand_over(o, i, f->to, &p)) {
            continue;
        }
        f->wanted &= f->wanted - 1u;
        f->sent |= (uint64_t)1 << chunk;
        set_sending(o, i);
        move(o, f);
        advance(o, i);
        return true;
    }
    return false;
}

/* Nothing has come for long. */
static void lose_patience(struct uw_overlap *o, uint32_t i)
{
    struct uw_fragment *f = &o->fragments[i];
    struct uw_allreduce_step s = step_at(o, f, f->k);
    f->tries = (uint8_t)uw_min_u32(f->tries + 1u, TRIES_MAX);
    if (f->have != chunks_of(o, s.recv_n)) {
        o->out_chunks -= uw_bits_in(f->out);
        f->out = 0;
        set_bit(o->asking, i, true);
    }
    if (!o->config.reliable && !f->got && f->wanted == 0 && f->sent != 0) {
        uint32_t last = (s.send_n - 1u) / o->config.chunk_n;    /* it is answered with GOT */
        f->wanted = (uint64_t)1 << last;
        set_sending(o, i);
    }
}

static void check_due(struct uw_overlap *o)
{
    if (o->now_us < o->due_us) {
        return;
    }
    o->due_us = UINT64_MAX;
    for (uint32_t i = 0; i < o->fragments_n && o->running_n > 0; i++) {
        struct uw_fragment *f = &o->fragments[i];
        if (!f->running) {
            continue;
        }
        if (f->due_us <= o->now_us) {
            lose_patience(o, i);
            set_due(o, f);
        }
        o->due_us = f->due_us < o->due_us ? f->due_us : o->due_us;
    }
}

uint64_t uw_overlap_run(struct uw_overlap *o, uint64_t now_us)
{
    if (!o->active) {
        return UINT64_MAX;
    }
    o->now_us = now_us;
    o->runs++;
    o->refused = false;
    check_due(o);
    ask(o);
    for (uint32_t sent = 0; send_next(o); sent++) {
        if (sent == SEND_MOST) {
            return now_us;
        }
        ask(o);
    }
    uint64_t again_us = o->refused ? now_us + SEND_RETRY_US : UINT64_MAX;
    return again_us < o->due_us ? again_us : o->due_us;
}
