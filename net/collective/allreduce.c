/* SPDX-License-Identifier: Apache-2.0 */
#include "allreduce_priv.h"

#include "base/bits.h"
#include "uwasa/mix.h"

#include <string.h>

#define SMALL_DEFAULT_N 2048u
#define STORE_MESSAGES 18u          /* small messages of a round: a sweep of 512 ranks */
#define PUSH_CHUNKS UW_ALLREDUCE_PUSH_CHUNKS
#define PATIENCE_MIN_US 20000u
#define PATIENCE_WAITS 4u           /* times as long when the sender says that it waits itself */
#define BLOCK_N 64u
#define GO_ON UINT32_MAX            /* base of a want: where the push was stopped */
#define STOP_FOR_GOOD 1u            /* seq of a wait: the rest is asked for */

static int take_kept(struct uw_allreduce_kept *k, struct uw_arena *arena, uint32_t store_n,
                     uint32_t steps_max)
{
    void *x = NULL, *message = NULL;
    int rc = uw_arena_take(arena, uw_size_mul(store_n, sizeof *k->x), &x);
    rc = rc < 0 ? rc : uw_arena_take(arena, uw_size_mul(steps_max, sizeof *k->message), &message);
    k->x = x;
    k->message = message;
    return rc;
}

int uw_allreduce_place(struct uw_allreduce *a, struct uw_arena *arena,
                       const struct uw_allreduce_config *config)
{
    void *scratch = NULL, *early = NULL, *got = NULL, *done = NULL, *dropped = NULL, *ways = NULL;
    *a = (struct uw_allreduce){.config = *config};
    struct uw_allreduce_config *c = &a->config;
    if (c->reliable) {
        return UW_OK;
    }
    c->scratch_n = c->scratch_n != 0 ? c->scratch_n : c->size_n;
    c->small_n = uw_min_u32(c->small_n != 0 ? c->small_n : SMALL_DEFAULT_N, c->chunk_n);
    a->store_n = STORE_MESSAGES * c->small_n;
    a->steps_max = 2 * c->ranks_max + 2;
    int rc = uw_arena_take(arena, uw_size_mul(c->scratch_n, sizeof(float)), &scratch);
    rc = rc < 0 ? rc : uw_arena_take(arena, uw_size_mul(a->store_n, sizeof(float)), &early);
    rc = rc < 0 ? rc : uw_arena_take(arena, a->steps_max, &got);
    rc = rc < 0 ? rc : uw_arena_take(arena, uw_size_mul(c->ranks_max, sizeof *a->done), &done);
    rc = rc < 0 ? rc
                : uw_arena_take(arena, uw_size_mul(a->steps_max, sizeof *a->dropped), &dropped);
    rc = rc < 0 ? rc : uw_arena_take(arena, uw_size_mul(c->ranks_max, sizeof *a->ways), &ways);
    rc = rc < 0 ? rc : take_kept(&a->kept[0], arena, a->store_n, a->steps_max);
    rc = rc < 0 ? rc : take_kept(&a->kept[1], arena, a->store_n, a->steps_max);
    rc = rc < 0 ? rc : uw_pull_place(&a->pull, arena, c->size_n, UW_CHUNK_MIN_N,
                                    c->window_chunks);
    a->scratch = scratch;
    a->early_x = early;
    a->got = got;
    a->done = done;
    a->dropped = dropped;
    a->ways = ways;
    if (rc == UW_OK && done != NULL) {
        memset(a->done, 0, c->ranks_max * sizeof *a->done);
        memset(a->dropped, 0, a->steps_max * sizeof *a->dropped);
        memset(a->ways, 0, c->ranks_max * sizeof *a->ways);
    }
    return rc;
}

/* Rounds and steps. */

static bool overlap(const struct uw_allreduce_step *s)
{
    return s->send_n > 0 && s->recv_n > 0 && s->send_at < s->recv_at + s->recv_n &&
           s->recv_at < s->send_at + s->send_n;
}

/* x = what the step makes of it and what arrived */
static void apply(const struct uw_allreduce_step *s, const float *floats, uint32_t n, float *x)
{
    switch (s->take) {
    case UW_TAKE_COPY: memcpy(x, floats, n * sizeof(float)); break;
    case UW_TAKE_MIX: uw_mix_chunk(s->weight, n, floats, x); break;
    default:
        for (uint32_t i = 0; i < n; i++) {
            x[i] += floats[i];
        }
        break;
    }
}

static void scale_owned(struct uw_allreduce *a)
{
    uint32_t at;
    uint32_t n = a->r.average ? uw_allreduce_owned(a->r.kind, a->r.ranks, a->r.rank, a->r.size_n,
                                                   a->k, &at)
                              : 0;
    float share = 1.0f / (float)a->r.ranks;
    for (uint32_t i = 0; i < n; i++) {
        a->r.x[at + i] *= share;
    }
}

/* Once nothing is left to be sent that others wait for. */
static void tell_all_done(struct uw_allreduce *a)
{
    a->tells = false;
    for (uint32_t k = 0; k < a->steps_n; k++) {
        struct uw_allreduce_step s = uw_allreduce_step_at(a, k);
        bool told = s.recv_n == 0;
        for (uint32_t j = 0; j < k && !told; j++) {
            struct uw_allreduce_step before = uw_allreduce_step_at(a, j);
            told = before.recv_n > 0 && before.from == s.from;
        }
        if (!told) {
            uw_allreduce_tell_done(a, s.from, a->r.round, false);
        }
    }
}

static void arrive(struct uw_allreduce *a, const struct uw_part *p);
static void begin_pull(struct uw_allreduce *a, uint32_t expected, bool whole);

/* Is there a place for what arrives in this step? */
static bool has_place(const struct uw_allreduce *a)
{
    return a->in_place || a->held == UW_ALLREDUCE_NONE;
}

/* The sender was stopped. */
static void ask_for_dropped(struct uw_allreduce *a)
{
    if (!a->pull.active) {
        begin_pull(a, 0, a->r.floats_per_us > 0.0f || a->dropped[a->k].whole);
        a->meter.stopped = true;
    }
    uint32_t base = a->pull.coming;
    if (a->now_us - a->dropped_us < a->r.rtt_us) {      /* some of it is on its way yet */
        uint32_t next = uw_min_u32(a->dropped[a->k].next, a->pull.chunks);
        a->pull.coming = a->pull.coming > next ? a->pull.coming : next;
        base = GO_ON;
    }
    if (a->pull.pushed && a->pull.coming < a->pull.chunks) {
        struct uw_part p = {.type = UW_PART_WANT, .round = a->r.round, .step = (uint16_t)a->k,
                            .reply = true};
        p.want = (struct uw_want){.transfer = (uint16_t)a->k, .chunk_n = a->r.chunk_n,
                                  .base = base, .wanted = 1};
        (void)uw_allreduce_send(a, a->step.from, &p);
    }
}

/* What came before there was a place for it; ask for what found no room. */
static void take_early(struct uw_allreduce *a)
{
    for (uint32_t i = 0; i < a->early_n && !a->received && has_place(a); i++) {
        struct uw_allreduce_early e = a->early[i];
        if (e.round == a->r.round && e.step == a->k && e.from == a->step.from) {
            const struct uw_part p = {.type = UW_PART_DATA, .round = e.round, .step = e.step,
                                      .offset_n = e.offset_n, .count_n = e.count_n,
                                      .floats = a->early_x + e.at, .reply = e.whole};
            arrive(a, &p);
        }
    }
    if (!a->received && has_place(a) && a->dropped[a->k].round == a->r.round) {
        ask_for_dropped(a);
        a->dropped[a->k].round = 0;
    }
}

static void enter(struct uw_allreduce *a)
{
    uint32_t n;
    a->step = uw_allreduce_step_at(a, a->k);
    a->entered = true;
    a->received = a->step.recv_n == 0;
    uw_allreduce_keep(a, &a->step);
    a->in_place = !overlap(&a->step) || uw_allreduce_copy(a, a->r.round, a->k, &n) != NULL;
    uw_allreduce_push(a, &a->step, a->k, 0);
    a->pull.active = false;
    a->tries = 0;
    a->asked_us = 0;
    a->ask_us = a->now_us + a->patience_us;
    take_early(a);
}

/* What was sent and what it becomes with what arrived change places, unless nobody is going to ask
 * for it any more. */
static void exchange(struct uw_allreduce *a)
{
    float old[BLOCK_N], *x = a->r.x + a->step.recv_at;
    if (a->got[a->k]) {
        apply(&a->step, a->scratch, a->step.recv_n, x);
        return;
    }
    for (uint32_t i = 0; i < a->step.recv_n; i += BLOCK_N) {
        uint32_t n = uw_min_u32(BLOCK_N, a->step.recv_n - i);
        memcpy(old, x + i, n * sizeof(float));
        apply(&a->step, a->scratch + i, n, x + i);
        memcpy(a->scratch + i, old, n * sizeof(float));
    }
    a->held = a->k;
    a->nudges = 0;
    uw_allreduce_nudge_later(a);
}

/* Go on as far as possible. */
static void advance(struct uw_allreduce *a)
{
    while (a->state == UW_ALLREDUCE_RUNNING) {
        if (a->k == a->steps_n) {
            a->state = UW_ALLREDUCE_DONE;
            a->tells = true;
            uw_allreduce_nudge_later(a);
            return;
        }
        if (!a->entered) {
            enter(a);
        }
        if (!a->received) {
            return;
        }
        if (!a->in_place) {
            exchange(a);
        }
        scale_owned(a);
        a->k++;
        a->entered = false;
        uw_allreduce_tidy_early(a);
    }
}

void uw_allreduce_begin(struct uw_allreduce *a, const struct uw_allreduce_round *round,
                        uint64_t now_us)
{
    bool same = a->r.group == round->group;
    a->now_us = now_us;
    if (same && a->tells && a->state == UW_ALLREDUCE_DONE) {
        tell_all_done(a);       /* the others' next round but one waits for it */
    }
    a->r = *round;
    a->r.chunk_n = round->chunk_n != 0 ? uw_min_u32(round->chunk_n, a->config.chunk_n)
                                       : a->config.chunk_n;
    a->push_us = now_us + round->ahead_us;
    a->pace_ns = 0;
    a->state = UW_ALLREDUCE_RUNNING;
    a->steps_n = uw_allreduce_steps_n(round->kind, round->ranks);
    if (a->config.reliable) {
        uw_allreduce_stream_begin(a);
        return;
    }
    a->k = 0;
    a->held = UW_ALLREDUCE_NONE;
    a->entered = a->tells = false;
    uint64_t patience_us = 2u * round->rtt_us + PATIENCE_MIN_US, learned_us = a->patience_us / 2u;
    a->patience_us = same && learned_us > patience_us ? learned_us : patience_us;
    memset(a->got, 0, a->steps_max);
    if (!same) {
        memset(a->done, 0, a->config.ranks_max * sizeof *a->done);
        a->kept[0].steps_n = a->kept[1].steps_n = 0;
        a->out_n = a->owed_n = a->early_n = a->early_used_n = 0;
        memset(a->dropped, 0, a->steps_max * sizeof *a->dropped);
        memset(a->ways, 0, a->config.ranks_max * sizeof *a->ways);
    }
    if (round->ways != NULL) {
        memcpy(a->ways, round->ways, round->ranks * sizeof *a->ways);
        a->r.ways = NULL;           /* the caller's */
    }
    struct uw_allreduce_kept *kept = &a->kept[round->round % 2];
    kept->round = round->round;
    kept->steps_n = kept->used_n = 0;
    advance(a);
}

void uw_allreduce_release(struct uw_allreduce *a)
{
    a->r.x = a->state == UW_ALLREDUCE_RUNNING ? a->r.x : NULL;
}

void uw_allreduce_stop(struct uw_allreduce *a)
{
    a->state = UW_ALLREDUCE_IDLE;
    a->out_n = a->owed_n = 0;
    a->pull.active = false;
    a->kept[0].steps_n = a->kept[1].steps_n = 0;
}

/* What comes in. */

/* expected: chunks that come unasked; whole: all do. */
static void begin_pull(struct uw_allreduce *a, uint32_t expected, bool whole)
{
    const struct uw_path path = uw_allreduce_meter_start(a, whole);
    a->pull.origin_n = 0;
    uw_pull_start(&a->pull, (uint16_t)a->k, a->step.recv_n, a->r.chunk_n, &path, a->now_us);
    if (whole) {
        uw_pull_pushed(&a->pull, a->now_us);
    } else if (expected > 0) {
        uw_pull_expect(&a->pull, expected, a->now_us);
    }
}

/* Data of the step at hand. */
static void arrive(struct uw_allreduce *a, const struct uw_part *p)
{
    const struct uw_allreduce_step *s = &a->step;
    if (a->received) {
        uw_allreduce_tell(a, s->from, UW_PART_GOT, a->r.round, a->k);  /* the first one was lost */
        return;
    }
    if (!a->pull.active) {
        /* Without loss, what was sent before and is not here was dropped, and will not come. */
        bool dropped = a->config.lossless && (a->asked_us != 0 || p->offset_n != 0);
        uw_allreduce_answered(a);
        begin_pull(a, dropped ? 0 : PUSH_CHUNKS, a->r.floats_per_us > 0.0f || p->reply);
    }
    if (uw_pull_check(&a->pull, (uint16_t)a->k, p->offset_n, p->count_n) < 0) {
        return;
    }
    if (a->in_place) {
        apply(s, p->floats, p->count_n, a->r.x + s->recv_at + p->offset_n);
    } else {
        memcpy(a->scratch + p->offset_n, p->floats, p->count_n * sizeof(float));
    }
    uw_pull_arrived(&a->pull, p->seq, p->offset_n, a->now_us);
    uw_allreduce_meter_add(a, p->count_n);
    if (uw_allreduce_push_fails(a)) {
        struct uw_part stop = {.type = UW_PART_WAIT, .round = a->r.round, .step = (uint16_t)a->k,
                               .seq = STOP_FOR_GOOD, .reply = true};
        (void)uw_allreduce_send(a, s->from, &stop);
        a->pull.pushed = false;
    }
    if (uw_pull_complete(&a->pull)) {
        a->received = true;
        a->pull.active = false;
        if (!uw_allreduce_is_small(a, s->recv_n)) {
            struct uw_part got = {.type = UW_PART_GOT, .round = a->r.round, .step = (uint16_t)a->k,
                                  .offset_n = uw_allreduce_measured(a)};
            (void)uw_allreduce_send(a, s->from, &got);
        }
    }
}

static void take_data(struct uw_allreduce *a, uint32_t from, const struct uw_part *p)
{
    bool now = p->round == a->r.round && a->state == UW_ALLREDUCE_RUNNING;
    if (now && p->step == a->k && a->entered) {
        if (from == a->step.from && (a->received || has_place(a))) {
            arrive(a, p);
        } else if (from == a->step.from) {
            uw_allreduce_store_early(a, from, p);
        }
    } else if (p->round > a->r.round || (now && p->step > a->k)) {
        uw_allreduce_store_early(a, from, p);
    } else if (p->round < a->r.round || p->step < a->k || a->state == UW_ALLREDUCE_DONE) {
        uw_allreduce_tell(a, from, UW_PART_GOT, p->round, p->step);   /* the first one was lost */
    }
}

static void take_want(struct uw_allreduce *a, uint32_t from, const struct uw_part *p)
{
    bool later = p->round > a->r.round ||
                 (p->round == a->r.round && a->state == UW_ALLREDUCE_RUNNING &&
                  (p->step > a->k || (p->step == a->k && !a->entered)));
    if (later) {
        uw_allreduce_tell(a, from, UW_PART_WAIT, p->round, p->step);
        return;
    }
    if (p->want.chunk_n != a->r.chunk_n) {
        return;
    }
    if (!p->reply) {
        uw_allreduce_add_out(a, from, p->round, &p->want);
    } else if (p->round == a->r.round && p->step < a->steps_n) {
        struct uw_allreduce_step s = uw_allreduce_step_at(a, p->step);
        if (p->want.base == GO_ON) {
            uw_allreduce_pause_push(a, from, p->round, p->step, false);
        } else if (s.to == from) {
            uw_allreduce_stop_push(a, from, p->round, p->step);
            uw_allreduce_push(a, &s, p->step, p->want.base);
        }
    }
}

static void take_wait(struct uw_allreduce *a, uint32_t from, const struct uw_part *p)
{
    if (p->reply) {
        if (p->seq == STOP_FOR_GOOD) {
            uw_allreduce_stop_push(a, from, p->round, p->step);
        } else {
            uw_allreduce_pause_push(a, from, p->round, p->step, true);
        }
        return;
    }
    if (p->round == a->r.round && p->step == a->k && a->entered && from == a->step.from) {
        uw_allreduce_answered(a);
        uint64_t wait_us = PATIENCE_WAITS * a->patience_us;
        a->ask_us = a->now_us + (wait_us << uw_min_u32(a->tries, UW_ALLREDUCE_TRIES_MAX));
        if (a->pull.have_chunks == 0) {
            a->pull.active = false;
        }
    }
}

static void take_got(struct uw_allreduce *a, uint32_t from, const struct uw_part *p)
{
    if (p->round != a->r.round || p->step >= a->steps_n ||
        uw_allreduce_step_at(a, p->step).to != from) {
        return;
    }
    /* It may come twice, or after one without a rate, which was asked for. */
    if (a->got[p->step] != UW_GOT_LEARNED) {
        bool measured = p->offset_n != UW_MEASURED_NOTHING;
        a->got[p->step] = measured ? UW_GOT_LEARNED : UW_GOT;
        uw_allreduce_learn(a, from, p->offset_n);
    }
    if (p->step == a->held) {
        a->held = UW_ALLREDUCE_NONE;
        if (a->state == UW_ALLREDUCE_RUNNING && a->entered) {
            take_early(a);
        }
    }
}

static void take_done(struct uw_allreduce *a, uint32_t from, const struct uw_part *p)
{
    if (p->round + 1 > a->done[from]) {
        a->done[from] = p->round + 1;
    }
    if (p->reply && (p->round < a->r.round || a->state == UW_ALLREDUCE_DONE)) {
        uint32_t round = a->state == UW_ALLREDUCE_DONE ? a->r.round : a->r.round - 1;
        uw_allreduce_tell_done(a, from, round, false);
    }
}

int uw_allreduce_take(struct uw_allreduce *a, uint32_t from, const struct uw_part *p,
                      uint64_t now_us)
{
    if (a->state == UW_ALLREDUCE_IDLE || p->group != a->r.group || from >= a->r.ranks ||
        from == a->r.rank) {
        return UW_ERR_MISMATCH;
    }
    a->now_us = now_us;
    if (a->config.reliable) {
        return uw_allreduce_stream_take(a, from, p);
    }
    switch (p->type) {
    case UW_PART_DATA: take_data(a, from, p); break;
    case UW_PART_WANT: take_want(a, from, p); break;
    case UW_PART_WAIT: take_wait(a, from, p); break;
    case UW_PART_GOT: take_got(a, from, p); break;
    case UW_PART_DONE: take_done(a, from, p); break;
    default: break;
    }
    advance(a);
    return UW_OK;
}

/* What is due. */

uint64_t uw_allreduce_run(struct uw_allreduce *a, uint64_t now_us)
{
    uint64_t next_us = UINT64_MAX;
    if (a->state == UW_ALLREDUCE_IDLE) {
        return UINT64_MAX;
    }
    a->now_us = now_us;
    if (a->config.reliable) {
        return uw_allreduce_stream_run(a);
    }
    advance(a);
    if (a->state == UW_ALLREDUCE_RUNNING) {
        uint64_t nudge_us = uw_allreduce_nudge_for_got(a);
        next_us = a->received || !has_place(a) ? UINT64_MAX : uw_allreduce_ask(a);
        next_us = nudge_us < next_us ? nudge_us : next_us;
    } else {
        next_us = uw_allreduce_nudge_for_done(a);
    }
    uint64_t out_us = uw_allreduce_send_out(a);
    if (a->tells && (a->out_n == 0 || a->now_us >= a->nudge_us)) {
        tell_all_done(a);
    }
    return out_us < next_us ? out_us : next_us;
}
