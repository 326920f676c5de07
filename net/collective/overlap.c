/* SPDX-License-Identifier: Apache-2.0 */
#include "overlap.h"

#include "base/backoff.h"

#include <string.h>

#define EAGER_US 2000u              /* a whole step is polled often for so long, */
#define EAGER_POLL_US 20u
#define POLL_US 200u                /* then less often */

/* ---- tables: fragments in the order of sending ---- */

static uint32_t fragment_n(const struct uw_overlap_config *c)
{
    uint64_t most = (uint64_t)c->chunk_n * UW_OVERLAP_CHUNKS_MAX;
    return (uint32_t)uw_min_u64(c->fragment_n != 0 ? c->fragment_n : UINT32_MAX, most);
}

static int check(const struct uw_overlap_config *c, uint32_t *fragments_n)
{
    uint64_t sum = 0;
    if (c->kind == UW_ALLREDUCE_DOUBLING || c->kind == UW_ALLREDUCE_SWEEP) {
        return UW_ERR_UNSUPPORTED;
    }
    if (c->buckets_n == 0 || c->chunk_n == 0 || c->ranks_max < 2 ||
        c->ranks_max > UINT16_MAX) {
        return UW_ERR_INVALID;
    }
    for (uint32_t i = 0; i < c->buckets_n; i++) {
        if (c->bucket_n[i] == 0) {
            return UW_ERR_INVALID;
        }
        sum += uw_chunks_in(c->bucket_n[i], fragment_n(c));
    }
    *fragments_n = (uint32_t)uw_min_u64(sum, UW_OVERLAP_FRAGMENTS_MAX);
    return sum <= UW_OVERLAP_FRAGMENTS_MAX ? UW_OK : UW_ERR_TOOBIG;
}

/* Cut a bucket into fragments of about equal size, and append them to the table. */
static void cut(struct uw_overlap *o, uint32_t bucket, uint32_t *used)
{
    const struct uw_overlap_config *c = &o->config;
    const uint64_t n = c->bucket_n[bucket];
    const uint32_t count = uw_chunks_in((uint32_t)n, fragment_n(c));
    o->buckets[bucket].first = *used;
    o->buckets[bucket].fragments_n = count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = (uint32_t)(n * i / count), end = (uint32_t)(n * (i + 1) / count);
        o->fragments[(*used)++] = (struct uw_fragment){.bucket = bucket, .at = at,
                                                       .size_n = end - at};
    }
}

int uw_overlap_place(struct uw_overlap *o, struct uw_arena *arena,
                     const struct uw_overlap_config *config)
{
    uint32_t used = 0, n = config->buckets_n;
    void *block[6];
    *o = (struct uw_overlap){.config = *config,
                             .queue = {.send = config->send, .arg = config->arg}};
    int rc = check(config, &o->fragments_n);
    if (rc < 0) {
        return rc;
    }
    const size_t set = uw_set_words(o->fragments_n) * sizeof(uint32_t);
    const size_t ranks = config->ranks_max * sizeof(uint32_t);
    const size_t bytes[6] = {uw_size_mul(n, sizeof *o->buckets),
                             o->fragments_n * sizeof *o->fragments, set, set, ranks, ranks};
    rc = uw_arena_take_each(arena, 6, bytes, block);
    o->buckets = block[0];
    o->fragments = block[1];
    o->asking = block[2];
    o->sending = block[3];
    o->blocked = block[4];
    o->waiting = block[5];
    uint32_t small_n = config->small_n != 0 ? config->small_n : config->chunk_n;
    for (uint32_t i = 0; i < 2 * n && o->fragments != NULL; i++) {
        if ((config->bucket_n[i % n] <= small_n) == (i < n)) {
            cut(o, i % n, &used);
        }
    }
    o->config.bucket_n = NULL;
    return rc;
}

/* All chunks of a message of n floats. */
static uint64_t all_chunks(const struct uw_overlap *o, uint32_t n)
{
    return uw_low_mask(uw_chunks_in(n, o->config.chunk_n));
}

static struct uw_allreduce_step step_at(const struct uw_overlap *o, const struct uw_fragment *f,
                                        uint32_t k)
{
    return uw_allreduce_step(o->config.kind, o->group.ranks, o->group.rank, f->size_n, k);
}

static uint32_t number_of(const struct uw_overlap *o, const struct uw_fragment *f)
{
    return (uint32_t)(f - o->fragments);
}

static float *gradient_of(const struct uw_overlap *o, const struct uw_fragment *f)
{
    return o->buckets[f->bucket].x + f->at;
}

/* ---- steps of a fragment ---- */

static void set_sending(struct uw_overlap *o, const struct uw_fragment *f)
{
    uint32_t i = number_of(o, f);
    bool now = uw_set_has(o->sending, i);
    if (now != (f->wanted != 0)) {
        uw_set_put(o->sending, i, !now);
        o->waiting[f->to] += now ? UINT32_MAX : 1u;
    }
}

static void set_due(struct uw_overlap *o, struct uw_fragment *f)
{
    f->due_us = o->now_us + uw_backoff_after(o->patience_us, f->tries, UINT8_MAX);
    o->due_us = uw_min_u64(o->due_us, f->due_us);
}

/* Trace the first message of a fragment, and its end. */
static void trace(const struct uw_overlap *o, struct uw_fragment *f, bool end)
{
    bool first = !f->moved;
    f->moved = true;
    if (o->config.trace != NULL && (first || end)) {
        uint32_t i = number_of(o, f) - o->buckets[f->bucket].first;
        o->config.trace(o->config.arg, f->bucket, i, end, o->now_us);
    }
}

static void enter(struct uw_overlap *o, struct uw_fragment *f)
{
    struct uw_allreduce_step s = step_at(o, f, f->k);
    f->have = f->out = f->wanted = f->sent = 0;
    f->got = false;
    f->tries = 0;
    f->to = (uint16_t)s.to;
    f->from = (uint16_t)s.from;
    f->wanted = (f->ahead & 1u) != 0 ? all_chunks(o, s.send_n) : 0;
    uw_set_put(o->asking, number_of(o, f), s.recv_n > 0);
    set_sending(o, f);
    set_due(o, f);
}

static bool is_over(const struct uw_overlap *o, const struct uw_fragment *f,
                    const struct uw_allreduce_step *s)
{
    bool delivered = s->send_n == 0 ||
                     (o->config.reliable ? f->sent == all_chunks(o, s->send_n) : f->got);
    return delivered && f->have == all_chunks(o, s->recv_n);
}

static void finish(struct uw_overlap *o, struct uw_fragment *f)
{
    struct uw_overlap_bucket *b = &o->buckets[f->bucket];
    f->running = false;
    o->running_n--;
    trace(o, f, false);
    trace(o, f, true);
    if (++b->done_n == b->fragments_n) {
        b->state = UW_OVERLAP_DONE;
    }
}

static void advance(struct uw_overlap *o, struct uw_fragment *f)
{
    while (f->running) {
        if (f->k == o->steps_n) {
            finish(o, f);
            return;
        }
        struct uw_allreduce_step s = step_at(o, f, f->k);
        if (!is_over(o, f, &s)) {
            return;
        }
        f->k++;
        o->advanced_n++;
        f->ahead >>= 1;
        uw_set_put(o->asking, number_of(o, f), false);
        if (f->k < o->steps_n) {
            enter(o, f);
        }
    }
}

/* ---- whole steps ---- */

static void trace_all(const struct uw_overlap *o, bool end)
{
    for (uint32_t i = 0; o->config.trace != NULL && i < o->config.buckets_n; i++) {
        o->config.trace(o->config.arg, i, 0, end, o->now_us);
    }
}

static uint64_t run_whole(struct uw_overlap *o)
{
    const struct uw_overlap_whole *w = o->group.whole;
    int rc = UW_ERR_AGAIN;
    if (o->phase == UW_OVERLAP_WHOLE_FAILED || o->running_n < o->config.buckets_n) {
        return UINT64_MAX;
    }
    if (o->phase == UW_OVERLAP_ACTIVE) {
        o->phase = UW_OVERLAP_WHOLE_BEGUN;
        o->whole_us = o->now_us;
        trace_all(o, false);
        rc = w->begin(w->arg);
        rc = rc == UW_OK ? UW_ERR_AGAIN : rc;
    }
    rc = rc == UW_ERR_AGAIN ? w->poll(w->arg) : rc;
    if (rc == UW_OK) {
        o->phase = UW_OVERLAP_ACTIVE;
        o->running_n = 0;
        o->advanced_n++;
        for (uint32_t i = 0; i < o->config.buckets_n; i++) {
            o->buckets[i].state = UW_OVERLAP_DONE;
        }
        trace_all(o, true);
        return UINT64_MAX;
    }
    o->phase = rc == UW_ERR_AGAIN ? o->phase : UW_OVERLAP_WHOLE_FAILED;
    return o->now_us + (o->now_us < o->whole_us + EAGER_US ? EAGER_POLL_US : POLL_US);
}

/* ---- groups and buckets ---- */

void uw_overlap_begin(struct uw_overlap *o, const struct uw_overlap_group *group, uint64_t now_us)
{
    uw_overlap_stop(o);
    o->group = *group;
    o->steps_n = uw_allreduce_steps_n(o->config.kind, group->ranks);
    o->phase = UW_OVERLAP_ACTIVE;
    o->now_us = now_us;
    o->patience_us = 4u * group->rtt_us + UW_PARTS_PATIENCE_US;
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
    if (o->phase == UW_OVERLAP_GIVEN_UP) {
        b->state = UW_OVERLAP_STOPPED;
        return;
    }
    b->x = x;
    b->round++;
    b->done_n = 0;
    b->state = UW_OVERLAP_RUNNING;
    if (o->group.whole != NULL) {
        o->running_n++;
        return;
    }
    o->running_n += b->fragments_n;
    for (uint32_t i = 0; i < b->fragments_n; i++) {
        struct uw_fragment *f = &o->fragments[b->first + i];
        f->running = true;
        f->moved = false;
        f->k = 0;
        f->ahead = f->next;
        f->next = 0;
        if (o->steps_n > 0) {
            enter(o, f);
        }
        advance(o, f);
    }
}

uint32_t uw_overlap_progress(const struct uw_overlap *o, uint32_t *waits_for)
{
    const struct uw_fragment *last = NULL;
    if (o->group.whole != NULL) {
        *waits_for = o->phase == UW_OVERLAP_WHOLE_BEGUN ? (o->group.rank + 1u) % o->group.ranks
                                                        : UW_RANK_NONE;
        return o->advanced_n;
    }
    for (uint32_t i = 0; i < o->fragments_n && o->running_n > 0; i++) {
        const struct uw_fragment *f = &o->fragments[i];
        last = f->running && (last == NULL || f->k < last->k) ? f : last;
    }
    *waits_for = UW_RANK_NONE;
    if (last != NULL) {
        struct uw_allreduce_step s = step_at(o, last, last->k);
        *waits_for = last->have != all_chunks(o, s.recv_n) ? s.from : s.to;
    }
    return o->advanced_n;
}

void uw_overlap_stop(struct uw_overlap *o)
{
    if (o->phase >= UW_OVERLAP_WHOLE_BEGUN) {
        o->group.whole->stop(o->group.whole->arg);
    }
    o->phase = UW_OVERLAP_GIVEN_UP;
    o->out_chunks = o->running_n = o->queue.n = 0;
    o->due_us = UINT64_MAX;
    for (uint32_t i = 0; i < o->config.buckets_n; i++) {
        struct uw_overlap_bucket *b = &o->buckets[i];
        b->state = b->state == UW_OVERLAP_RUNNING ? UW_OVERLAP_STOPPED : b->state;
    }
    for (uint32_t i = 0; i < o->fragments_n; i++) {
        o->fragments[i].running = false;
    }
    const size_t set_bytes = uw_set_words(o->fragments_n) * sizeof(uint32_t);
    memset(o->asking, 0, set_bytes);
    memset(o->sending, 0, set_bytes);
    memset(o->waiting, 0, o->config.ranks_max * sizeof *o->waiting);
}

/* ---- received messages ---- */

/* All of a message has arrived. */
static void answer_got(struct uw_overlap *o, uint32_t rank, const struct uw_part *data)
{
    const struct uw_part p = {.type = UW_PART_GOT, .group = data->group, .round = data->round,
                              .step = data->step, .op = data->op};
    if (!o->config.reliable) {
        (void)uw_part_post(&o->queue, rank, &p);
    }
}

/* Data of the current step. */
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
        const struct uw_overlap_group *g = &o->group;
        float share = uw_allreduce_share(o->config.kind, g->ranks, g->rank, f->size_n, f->k);
        uint32_t bad = 0;           /* training checks the values */
        uw_allreduce_apply(&s, share, p->floats, p->count_n,
                           gradient_of(o, f) + s.recv_at + p->offset_n, &bad);
        o->out_chunks -= (f->out & bit) != 0 ? 1 : 0;
        f->have |= bit;
        f->out &= ~bit;
        f->tries = 0;
        f->due_us = o->now_us + o->patience_us;
        trace(o, f, false);
    }
    if (f->have == all_chunks(o, s.recv_n)) {
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
        answer_got(o, from, p);   /* the first GOT was lost */
    }
}

/* The message sent in the current step has arrived. */
static void deliver(struct uw_overlap *o, struct uw_fragment *f)
{
    f->got = true;
    f->wanted = 0;
    set_sending(o, f);
}

/* A question about a later step is stored as one bit: the whole message will be sent. */
static void take_want(struct uw_overlap *o, uint32_t from, struct uw_fragment *f,
                      const struct uw_part *p)
{
    uint32_t round = o->buckets[f->bucket].round;
    bool next = p->round == round + 1u, now = p->round == round && f->running && p->step >= f->k;
    uint32_t j = now ? (uint32_t)p->step - f->k : p->step;
    struct uw_allreduce_step s = step_at(o, f, p->step);
    if (s.to != from || j > 63u || p->want.chunk_n != o->config.chunk_n || p->want.base != 0) {
        return;
    }
    if ((next || (now && j > 0)) && from == f->to && f->running && f->sent != 0) {
        deliver(o, f);      /* it is in a later step: it has this step's message */
    }
    if (next) {
        f->next |= (uint64_t)1 << j;
    } else if (now && j > 0) {
        f->ahead |= (uint64_t)1 << j;
    } else if (now && !f->got) {
        uint64_t left = all_chunks(o, s.send_n) & ~(o->config.reliable ? f->sent : 0);
        f->wanted |= p->want.wanted & left;
        set_sending(o, f);
    }
}

static void take_got(struct uw_overlap *o, uint32_t from, struct uw_fragment *f,
                     const struct uw_part *p)
{
    if (p->round == o->buckets[f->bucket].round && f->running && p->step == f->k &&
        f->to == from) {
        deliver(o, f);
    }
}

void uw_overlap_take(struct uw_overlap *o, uint32_t from, const struct uw_part *p, uint64_t now_us)
{
    if (o->phase == UW_OVERLAP_GIVEN_UP || o->group.whole != NULL || p->group != o->group.group ||
        from >= o->group.ranks || from == o->group.rank || p->op == 0 ||
        p->op > o->fragments_n || p->step >= o->steps_n) {
        return;
    }
    struct uw_fragment *f = &o->fragments[p->op - 1u];
    o->now_us = now_us;
    switch (p->type) {
    case UW_PART_DATA: take_data(o, from, f, p); break;
    case UW_PART_WANT: take_want(o, from, f, p); break;
    case UW_PART_GOT: take_got(o, from, f, p); break;
    default: break;
    }
    advance(o, f);
}

/* ---- sending: answers, then questions, then chunks in order ---- */

/* Send a message of the current step. Returns false when the link is full. */
static bool hand_over(struct uw_overlap *o, const struct uw_fragment *f, uint32_t rank,
                      struct uw_part *p)
{
    p->group = o->group.group;
    p->round = o->buckets[f->bucket].round;
    p->step = f->k;
    p->op = (uint16_t)(number_of(o, f) + 1u);
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

/* Ask for missing chunks, as many as the window allows. */
static void ask(struct uw_overlap *o)
{
    uint32_t window = o->config.window_chunks;
    const uint32_t n = o->fragments_n;
    for (uint32_t i = uw_set_next(o->asking, n, 0); i < n; i = uw_set_next(o->asking, n, i + 1)) {
        struct uw_fragment *f = &o->fragments[i];
        if (o->blocked[f->from] == o->runs) {
            continue;
        }
        struct uw_allreduce_step s = step_at(o, f, f->k);
        uint64_t missing = all_chunks(o, s.recv_n) & ~f->have & ~f->out;
        uint32_t room = window == 0 ? 64u : window > o->out_chunks ? window - o->out_chunks : 0;
        struct uw_part p = {.type = UW_PART_WANT,
                            .want = {.transfer = f->k, .chunk_n = o->config.chunk_n,
                                     .wanted = lowest(missing, room)}};
        if (missing != 0 && room == 0) {
            return;
        }
        if (missing != 0 && !hand_over(o, f, f->from, &p)) {
            continue;
        }
        f->out |= p.want.wanted;
        o->out_chunks += uw_bits_in(p.want.wanted);
        uw_set_put(o->asking, i, missing != p.want.wanted);
        set_due(o, f);
    }
}

/* Are there chunks for a rank whose link is not full? */
static bool any_open(const struct uw_overlap *o)
{
    uint32_t rank = 0;
    while (rank < o->group.ranks && (o->waiting[rank] == 0 || o->blocked[rank] == o->runs)) {
        rank++;
    }
    return rank < o->group.ranks;
}

/* Send the next chunk of the first fragment that has one for a rank whose link is not full. Returns
 * false when there is none. */
static bool send_next(struct uw_overlap *o)
{
    for (uint32_t i = 0; any_open(o); i++) {
        i = uw_set_next(o->sending, o->fragments_n, i);
        struct uw_fragment *f = &o->fragments[i];
        if (o->blocked[f->to] == o->runs) {
            continue;
        }
        struct uw_allreduce_step s = step_at(o, f, f->k);
        uint32_t chunk = uw_lowest_bit(f->wanted), at = chunk * o->config.chunk_n;
        struct uw_part p = {.type = UW_PART_DATA, .offset_n = at,
                            .count_n = uw_min_u32(o->config.chunk_n, s.send_n - at),
                            .floats = gradient_of(o, f) + s.send_at + at};
        if (!hand_over(o, f, f->to, &p)) {
            continue;
        }
        f->wanted &= f->wanted - 1u;
        f->sent |= (uint64_t)1 << chunk;
        set_sending(o, f);
        trace(o, f, false);
        advance(o, f);
        return true;
    }
    return false;
}

/* Nothing arrived for the timeout: ask again, or send the last chunk again. */
static void lose_patience(struct uw_overlap *o, struct uw_fragment *f)
{
    struct uw_allreduce_step s = step_at(o, f, f->k);
    f->tries = (uint8_t)uw_min_u32(f->tries + 1u, uw_part_tries(o->config.reliable));
    if (f->have != all_chunks(o, s.recv_n)) {
        o->out_chunks -= uw_bits_in(f->out);
        f->out = 0;
        uw_set_put(o->asking, number_of(o, f), true);
    }
    if (!o->config.reliable && !f->got && f->wanted == 0 && f->sent != 0) {
        uint32_t last = (s.send_n - 1u) / o->config.chunk_n;    /* it is answered with GOT */
        f->wanted = (uint64_t)1 << last;
        set_sending(o, f);
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
            lose_patience(o, f);
            set_due(o, f);
        }
        o->due_us = f->due_us < o->due_us ? f->due_us : o->due_us;
    }
}

uint64_t uw_overlap_run(struct uw_overlap *o, uint64_t now_us)
{
    if (o->phase == UW_OVERLAP_GIVEN_UP) {
        return UINT64_MAX;
    }
    o->now_us = now_us;
    o->runs++;
    (void)uw_part_flush(&o->queue);
    o->refused = o->queue.n > 0;
    if (o->group.whole != NULL) {
        return run_whole(o);
    }
    check_due(o);
    ask(o);
    for (uint32_t sent = 0; send_next(o); sent++) {
        if (sent == UW_PARTS_SENT_MOST) {
            return now_us;
        }
        ask(o);
    }
    return uw_min_u64(o->refused ? now_us + UW_PARTS_RETRY_US : UINT64_MAX, o->due_us);
}

/* ---- between the threads ---- */

static uint32_t look(const atomic_uint_least32_t *number, memory_order order)
{
    return (uint32_t)atomic_load_explicit(number, order);
}

int uw_overlap_gate_place(struct uw_overlap_gate *g, struct uw_arena *arena,
                          struct uw_overlap *overlap)
{
    void *slots = NULL;
    uint32_t n = overlap->config.buckets_n;
    int rc = uw_arena_take(arena, uw_size_mul(n, sizeof *g->slots), &slots);
    *g = (struct uw_overlap_gate){.overlap = overlap, .slots = slots, .slots_n = n};
    for (uint32_t i = 0; i < n && slots != NULL; i++) {
        atomic_init(&g->slots[i].asked, 0);
        atomic_init(&g->slots[i].ended, 0);
        atomic_init(&g->slots[i].how, UW_OVERLAP_IDLE);
    }
    return rc;
}

void uw_overlap_gate_ready(struct uw_overlap_gate *g, uint32_t bucket, float *x)
{
    struct uw_overlap_slot *s = &g->slots[bucket];
    s->x = x;
    atomic_fetch_add_explicit(&s->asked, 1, memory_order_release);
}

enum uw_overlap_state uw_overlap_gate_state(const struct uw_overlap_gate *g, uint32_t bucket)
{
    const struct uw_overlap_slot *s = &g->slots[bucket];
    if (look(&s->ended, memory_order_acquire) != look(&s->asked, memory_order_relaxed)) {
        return UW_OVERLAP_RUNNING;
    }
    return (enum uw_overlap_state)look(&s->how, memory_order_relaxed);
}

uint64_t uw_overlap_gate_run(struct uw_overlap_gate *g, uint64_t now_us)
{
    for (uint32_t i = 0; i < g->slots_n; i++) {
        struct uw_overlap_slot *s = &g->slots[i];
        uint32_t asked = look(&s->asked, memory_order_acquire);
        if (asked != s->taken) {
            s->taken = asked;
            uw_overlap_ready(g->overlap, i, s->x, now_us);
        }
    }
    uint64_t next_us = uw_overlap_run(g->overlap, now_us);
    for (uint32_t i = 0; i < g->slots_n; i++) {
        struct uw_overlap_slot *s = &g->slots[i];
        enum uw_overlap_state state = uw_overlap_state(g->overlap, i);
        if (s->taken != look(&s->ended, memory_order_relaxed) && state != UW_OVERLAP_RUNNING) {
            atomic_store_explicit(&s->how, (uint32_t)state, memory_order_relaxed);
            atomic_store_explicit(&s->ended, s->taken, memory_order_release);
        }
    }
    return next_us;
}
