/* SPDX-License-Identifier: Apache-2.0 */
#include "allreduce_priv.h"

#include "base/backoff.h"

#include <string.h>

#define SMALL_DEFAULT_N 2048u
#define STORE_MESSAGES 18u          /* copied messages of a round: enough for 512 ranks */
#define PUSH_CHUNKS UW_ALLREDUCE_PUSH_CHUNKS
#define PATIENCE_WAITS 4u           /* longer timeout if the sender waits itself */
#define BLOCK_N 64u
#define EARLY_ROOM_N (UW_ALLREDUCE_EARLY_MAX * UW_PART_KEPT_HEAD_N)
#define GO_ON UINT32_MAX            /* base of a want: continue where the push stopped */
#define NUDGES_MAX 3u
#define STOP_FOR_GOOD 1u            /* seq of a wait: the rest is asked for */

int uw_allreduce_place(struct uw_allreduce *a, struct uw_arena *arena,
                       const struct uw_allreduce_config *config)
{
    *a = (struct uw_allreduce){.config = *config,
                               .queue = {.send = config->send, .arg = config->arg}};
    struct uw_allreduce_config *c = &a->config;
    if (c->streams_only) {
        return UW_OK;
    }
    c->scratch_n = c->scratch_n != 0 ? c->scratch_n : c->size_n;
    c->small_n = uw_min_u32(c->small_n != 0 ? c->small_n : SMALL_DEFAULT_N, c->chunk_n);
    a->store_n = STORE_MESSAGES * c->small_n;
    a->steps_max = 2 * c->ranks_max + 2;
    const size_t messages = uw_size_mul(a->steps_max, sizeof *a->kept[0].message);
    const size_t bytes[8] = {
        uw_size_mul(c->scratch_n, sizeof(float)),
        uw_size_mul(EARLY_ROOM_N + 3u * (size_t)a->store_n, sizeof(float)),
        a->steps_max, uw_size_mul(c->ranks_max, sizeof *a->done),
        uw_size_mul(a->steps_max, sizeof *a->dropped), uw_size_mul(c->ranks_max, sizeof *a->ways),
        messages, messages};
    void *block[8];
    int rc = uw_arena_take_each(arena, 8, bytes, block);
    rc = rc < 0 ? rc : uw_pull_place(&a->pull, arena, c->size_n, UW_CHUNK_MIN_N,
                                    c->window_chunks);
    a->scratch = block[0];
    a->early.x = block[1];
    a->got = block[2];
    a->done = block[3];
    a->dropped = block[4];
    a->ways = block[5];
    for (uint32_t i = 0; i < 2 && a->early.x != NULL; i++) {
        a->kept[i].x = a->early.x + EARLY_ROOM_N + (1u + i) * (size_t)a->store_n;
        a->kept[i].message = block[6 + i];
    }
    if (rc == UW_OK && a->done != NULL) {
        memset(a->done, 0, bytes[3]);
        memset(a->dropped, 0, bytes[4]);
        memset(a->ways, 0, bytes[5]);
    }
    return rc;
}

/* ---- questions for missing data, and for acknowledgements ---- */

/* Answer a rank about a step. send_done sends DONE of a round; reply: and asks for the rank's. */
static void answer(struct uw_allreduce *a, uint32_t rank, enum uw_part_type type, uint32_t round,
                   uint32_t step)
{
    struct uw_part p = {.type = type, .round = round, .step = (uint16_t)step};
    (void)uw_allreduce_send(a, rank, &p);
}

static void send_done(struct uw_allreduce *a, uint32_t rank, uint32_t round, bool reply)
{
    struct uw_part p = {.type = UW_PART_DONE, .round = round, .reply = reply};
    (void)uw_allreduce_send(a, rank, &p);
}

/* With a back-off: the network may be slower than measured. */
static void nudge_later(struct uw_allreduce *a)
{
    a->nudge_us = a->now_us + uw_backoff_us(a->patience_us, &a->nudges, NUDGES_MAX);
}

/* Lengthen the timeout by the measured answer time. The answer may be to an earlier question: then
 * the time is too short, and the next measurement corrects it. */
static void answered(struct uw_allreduce *a)
{
    if (a->asked_us != 0) {
        a->patience_us = uw_max_u64(a->patience_us, 2u * (a->now_us - a->asked_us));
        a->asked_us = 0;
    }
}

/* Ask for data that is not pushed. Returns when to ask again. */
static uint64_t ask(struct uw_allreduce *a)
{
    struct uw_part p = {.type = UW_PART_WANT, .round = a->r.round, .step = (uint16_t)a->k};
    if (a->pull.active) {
        while (uw_pull_next(&a->pull, a->config.window_chunks, a->now_us, &p.want)) {
            a->meter.asked += uw_bits_in(p.want.wanted);
            (void)uw_allreduce_send(a, a->step.from, &p);
        }
        return uw_pull_next_us(&a->pull, a->config.window_chunks, a->now_us);
    }
    if (a->now_us >= a->ask_us) {
        p.want = (struct uw_want){.transfer = (uint16_t)a->k, .seq = UW_PART_FIRST,
                                  .chunk_n = a->r.chunk_n, .wanted = 1};
        (void)uw_allreduce_send(a, a->step.from, &p);
        a->asked_us = a->now_us;
        a->ask_us = a->now_us + uw_backoff_us(a->patience_us, &a->tries,
                                              uw_part_tries(a->config.lossless));
    }
    return a->ask_us;
}

/* Send the last chunk of the held message again: a receiver that has all of it answers with GOT.
 * nudge_for_done asks ranks for a missing DONE. Both return when to do so again. */
static uint64_t nudge_for_got(struct uw_allreduce *a)
{
    if (a->held == UW_ALLREDUCE_NONE) {
        return UINT64_MAX;
    }
    if (a->now_us >= a->nudge_us) {
        struct uw_allreduce_step s = uw_allreduce_step_at(a, a->held);
        const struct uw_want want = {.transfer = (uint16_t)a->held, .chunk_n = a->r.chunk_n,
                                     .base = (s.send_n - 1) / a->r.chunk_n, .wanted = 1};
        uw_allreduce_add_out(a, s.to, a->r.round, &want);
        nudge_later(a);
    }
    return a->nudge_us;
}

static bool is_nudged(struct uw_allreduce *a, uint32_t rank)
{
    if (a != NULL) {
        send_done(a, rank, a->r.round, true);
    }
    return true;
}

/* May a rank still ask for data that the next round overwrites, including copies of the round
 * before this one? nudge: ask such ranks for their DONE; may be NULL. */
static bool is_open(const struct uw_allreduce *a, struct uw_allreduce *nudge)
{
    const struct uw_allreduce_kept *old = &a->kept[(a->r.round + 1) % 2];
    bool any = false;
    for (uint32_t k = 0, n; a->state == UW_ALLREDUCE_DONE && k < a->steps_n; k++) {
        struct uw_allreduce_step s = uw_allreduce_step_at(a, k);
        bool open = s.send_n > 0 && !a->got[k] && a->done[s.to] <= a->r.round &&
                    uw_allreduce_copy(a, a->r.round, k, &n) == NULL;
        any = (open && is_nudged(nudge, s.to)) || any;
    }
    for (uint32_t k = 0; k < old->steps_n; k++) {
        bool open = old->message[k].n != 0 && a->done[old->message[k].to] <= old->round;
        any = (open && is_nudged(nudge, old->message[k].to)) || any;
    }
    return any;
}

bool uw_allreduce_settled(const struct uw_allreduce *a)
{
    bool runs = a->state == UW_ALLREDUCE_RUNNING || a->state == UW_ALLREDUCE_FAILED;
    return !runs && (uw_allreduce_streams(a) || !is_open(a, NULL));
}

static uint64_t nudge_for_done(struct uw_allreduce *a)
{
    if (!is_open(a, NULL)) {
        return UINT64_MAX;
    }
    if (a->now_us >= a->nudge_us) {
        (void)is_open(a, a);
        nudge_later(a);
    }
    return a->nudge_us;
}

/* ---- early data ---- */

static void note_next(struct uw_allreduce *a, const struct uw_part *p)
{
    uint32_t next = p->offset_n / a->r.chunk_n + 1u;
    if (p->step < a->steps_max && next > a->dropped[p->step].next) {
        a->dropped[p->step].next = next;
    }
}

/* Store an early chunk. Without room its sender has to pause. */
static void store_early(struct uw_allreduce *a, uint32_t from, const struct uw_part *p)
{
    struct uw_part_store *early = &a->early;
    struct uw_part twin = *p;
    uint32_t its;
    if (uw_part_find(early, 0, &twin, &its) < early->used_n ||
        (early->parts_n < UW_ALLREDUCE_EARLY_MAX &&
         uw_part_keep(early, from, p, EARLY_ROOM_N + a->store_n))) {
        return;
    }
    if (p->step < a->steps_max && a->dropped[p->step].round != (p->round & (UINT32_MAX >> 1))) {
        (void)uw_allreduce_send(a, from, &(struct uw_part){
            .type = UW_PART_WAIT, .round = p->round, .step = p->step, .reply = true});
        a->dropped[p->step].round = p->round & (UINT32_MAX >> 1);
        a->dropped[p->step].whole = p->reply;
        a->dropped[p->step].next = 0;
        a->dropped_us = a->now_us;
    }
    note_next(a, p);
}

/* ---- rounds and steps ---- */

static bool overlap(const struct uw_allreduce_step *s)
{
    return s->send_n > 0 && s->recv_n > 0 && s->send_at < s->recv_at + s->recv_n &&
           s->recv_at < s->send_at + s->send_n;
}

/* Send DONE, after all data that other ranks wait for. */
static void send_done_to_all(struct uw_allreduce *a)
{
    a->owes_done = false;
    for (uint32_t k = 0; k < a->steps_n; k++) {
        struct uw_allreduce_step s = uw_allreduce_step_at(a, k);
        bool seen = s.recv_n == 0;
        for (uint32_t j = 0; j < k && !seen; j++) {
            struct uw_allreduce_step before = uw_allreduce_step_at(a, j);
            seen = before.recv_n > 0 && before.from == s.from;
        }
        if (!seen) {
            send_done(a, s.from, a->r.round, false);
        }
    }
}

static void arrive(struct uw_allreduce *a, const struct uw_part *p);
static void begin_pull(struct uw_allreduce *a, uint32_t expected, bool whole);

/* Is there room for the data of this step? */
static bool has_place(const struct uw_allreduce *a)
{
    return a->in_place || a->held == UW_ALLREDUCE_NONE;
}

/* Ask for dropped data, whose sender was paused. */
static void ask_for_dropped(struct uw_allreduce *a)
{
    if (!a->pull.active) {
        begin_pull(a, 0, a->r.floats_per_us > 0.0f || a->dropped[a->k].whole);
        a->meter.stopped = true;
    }
    uint32_t base = a->pull.coming;
    if (a->now_us - a->dropped_us < a->r.rtt_us) {      /* some of it is still on its way */
        a->pull.coming = uw_max_u32(a->pull.coming,
                                    uw_min_u32(a->dropped[a->k].next, a->pull.chunks));
        base = GO_ON;
    }
    if (a->pull.pushed && a->pull.coming < a->pull.chunks) {
        (void)uw_allreduce_send(a, a->step.from, &(struct uw_part){
            .type = UW_PART_WANT, .round = a->r.round, .step = (uint16_t)a->k, .reply = true,
            .want = {.transfer = (uint16_t)a->k, .chunk_n = a->r.chunk_n, .base = base,
                     .wanted = 1}});
    }
}

/* Apply early data, and ask for early data that was dropped. */
static void take_early(struct uw_allreduce *a)
{
    const struct uw_part_store *early = &a->early;
    const struct uw_part any = {.round = a->r.round, .step = (uint16_t)a->k,
                                .offset_n = UW_PART_ANY};
    struct uw_part p = any;
    uint32_t from;
    for (uint32_t at = 0; !a->received && has_place(a) &&
                          (at = uw_part_find(early, at, &p, &from)) < early->used_n; p = any) {
        if (from == a->step.from) {
            arrive(a, &p);
        }
        at = uw_part_after(early, at);
    }
    if (!a->received && has_place(a) && a->dropped[a->k].round == a->r.round) {
        ask_for_dropped(a);
        a->dropped[a->k].round = 0;
    }
}

/* Begin step k, if there is one. */
static void enter(struct uw_allreduce *a)
{
    uint32_t n;
    if (a->k == a->steps_n) {
        a->state = UW_ALLREDUCE_DONE;
        a->owes_done = true;
        nudge_later(a);
        return;
    }
    a->step = uw_allreduce_step_at(a, a->k);
    a->share = uw_allreduce_share_of(a, a->r.size_n, a->k);
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

/* Apply the received message to x. The sent values move to scratch, unless no rank can ask for them
 * any more. */
static void exchange(struct uw_allreduce *a)
{
    float old[BLOCK_N], *x = a->r.x + a->step.recv_at;
    const struct uw_allreduce_step s = uw_allreduce_judged(a, &a->step, a->scratch, x,
                                                           a->step.recv_n);
    if (a->got[a->k]) {
        uw_allreduce_apply(&s, a->share, a->scratch, a->step.recv_n, x, &a->bad);
        return;
    }
    for (uint32_t i = 0; i < a->step.recv_n; i += BLOCK_N) {
        uint32_t n = uw_min_u32(BLOCK_N, a->step.recv_n - i);
        memcpy(old, x + i, n * sizeof(float));
        uw_allreduce_apply(&s, a->share, a->scratch + i, n, x + i, &a->bad);
        memcpy(a->scratch + i, old, n * sizeof(float));
    }
    a->held = a->k;
    a->nudges = 0;
    nudge_later(a);
}

static void advance(struct uw_allreduce *a)
{
    while (a->state == UW_ALLREDUCE_RUNNING && a->received) {
        if (!a->in_place) {
            exchange(a);
        }
        a->k++;
        uw_part_tidy(&a->early, a->r.round, a->k);
        enter(a);
    }
}

/* Forget what was stored of another group. */
static void begin_group(struct uw_allreduce *a, uint32_t group)
{
    memset(a->done, 0, a->config.ranks_max * sizeof *a->done);
    a->kept[0].steps_n = a->kept[1].steps_n = 0;
    a->out_n = a->queue.n = 0;
    uw_part_store_clear(&a->early, group);
    memset(a->dropped, 0, a->steps_max * sizeof *a->dropped);
    memset(a->ways, 0, a->config.ranks_max * sizeof *a->ways);
}

void uw_allreduce_expect(struct uw_allreduce *a, const struct uw_allreduce_round *round)
{
    if (a->r.group == round->group || round->segment_n != 0) {
        return;
    }
    begin_group(a, round->group);
    a->r = *round;
    a->r.round--;
    a->r.x = NULL;
    a->r.ways = NULL;
    a->state = UW_ALLREDUCE_DONE;
    a->steps_n = 0;
    a->owes_done = false;
}

void uw_allreduce_begin(struct uw_allreduce *a, const struct uw_allreduce_round *round,
                        uint64_t now_us)
{
    bool same = a->r.group == round->group;
    a->now_us = now_us;
    if (same && a->owes_done && a->state == UW_ALLREDUCE_DONE) {
        send_done_to_all(a);       /* the others' next round but one waits for DONE */
    }
    a->r = *round;
    a->r.chunk_n = uw_min_u32(round->chunk_n != 0 ? round->chunk_n : UINT32_MAX, a->config.chunk_n);
    a->push_us = now_us + round->ahead_us;
    a->pace_ns = 0;
    a->state = UW_ALLREDUCE_RUNNING;
    a->steps_n = uw_allreduce_steps_n(round->kind, round->ranks);
    a->bad = 0;
    if (uw_allreduce_streams(a)) {
        a->kept[0].steps_n = a->kept[1].steps_n = 0;    /* the copies may be overwritten */
        a->out_n = a->queue.n = 0;
        uw_allreduce_stream_begin(a);
        return;
    }
    a->k = 0;
    a->held = UW_ALLREDUCE_NONE;
    a->owes_done = false;
    uint64_t patience_us = 2u * round->rtt_us + UW_PARTS_PATIENCE_US;
    uint64_t learned_us = a->patience_us / 2u;
    a->patience_us = same && learned_us > patience_us ? learned_us : patience_us;
    memset(a->got, 0, a->steps_max);
    if (!same) {
        begin_group(a, round->group);
    }
    if (round->ways != NULL) {
        memcpy(a->ways, round->ways, round->ranks * sizeof *a->ways);
        a->r.ways = NULL;           /* borrowed until here */
    }
    struct uw_allreduce_kept *kept = &a->kept[round->round % 2];
    kept->round = round->round;
    kept->steps_n = kept->used_n = 0;
    enter(a);
    advance(a);
}

void uw_allreduce_release(struct uw_allreduce *a)
{
    a->r.x = a->state == UW_ALLREDUCE_RUNNING ? a->r.x : NULL;
}

void uw_allreduce_stop(struct uw_allreduce *a)
{
    a->state = UW_ALLREDUCE_IDLE;
    a->out_n = a->queue.n = 0;
    a->pull.active = false;
    a->kept[0].steps_n = a->kept[1].steps_n = 0;
}

/* ---- received messages ---- */

/* expected: chunks that are sent unasked; whole: all are. */
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

/* Data of the current step. */
static void arrive(struct uw_allreduce *a, const struct uw_part *p)
{
    const struct uw_allreduce_step *s = &a->step;
    if (!a->pull.active) {
        /* On a lossless link, missing earlier data was dropped here, and will not arrive. */
        bool dropped = a->config.lossless && (a->asked_us != 0 || p->offset_n != 0);
        if (p->seq == UW_PART_FIRST) {      /* and not pushed, maybe long after the question */
            answered(a);
        }
        a->asked_us = 0;
        begin_pull(a, dropped ? 0 : PUSH_CHUNKS, a->r.floats_per_us > 0.0f || p->reply);
    }
    if (uw_pull_check(&a->pull, (uint16_t)a->k, p->offset_n, p->count_n) < 0) {
        return;
    }
    if (a->in_place) {
        float *x = a->r.x + s->recv_at + p->offset_n;
        const struct uw_allreduce_step judged = uw_allreduce_judged(a, s, p->floats, x,
                                                                    p->count_n);
        uw_allreduce_apply(&judged, a->share, p->floats, p->count_n, x, &a->bad);
    } else {
        memcpy(a->scratch + p->offset_n, p->floats, p->count_n * sizeof(float));
    }
    uw_pull_arrived(&a->pull, p->seq, p->offset_n, a->now_us);
    uw_allreduce_meter_add(a, p->count_n);
    if (uw_allreduce_push_fails(a)) {
        (void)uw_allreduce_send(a, s->from, &(struct uw_part){
            .type = UW_PART_WAIT, .round = a->r.round, .step = (uint16_t)a->k,
            .seq = STOP_FOR_GOOD, .reply = true});
        a->pull.pushed = false;
    }
    if (uw_pull_complete(&a->pull)) {
        a->received = true;
        a->pull.active = false;
        if (s->recv_n > a->config.small_n) {
            (void)uw_allreduce_send(a, s->from, &(struct uw_part){
                .type = UW_PART_GOT, .round = a->r.round, .step = (uint16_t)a->k,
                .offset_n = uw_allreduce_measured(a)});
        }
    }
}

static void take_data(struct uw_allreduce *a, uint32_t from, const struct uw_part *p)
{
    bool now = p->round == a->r.round && a->state == UW_ALLREDUCE_RUNNING;
    if (now && p->step == a->k) {
        if (from == a->step.from && has_place(a)) {
            arrive(a, p);
        } else if (from == a->step.from) {
            store_early(a, from, p);
        }
    } else if (p->round > a->r.round || (now && p->step > a->k)) {
        store_early(a, from, p);
    } else if (p->round < a->r.round || p->step < a->k || a->state == UW_ALLREDUCE_DONE) {
        answer(a, from, UW_PART_GOT, p->round, p->step);   /* the first GOT was lost */
    }
}

static void take_want(struct uw_allreduce *a, uint32_t from, const struct uw_part *p)
{
    bool later = p->round > a->r.round ||
                 (p->round == a->r.round && a->state == UW_ALLREDUCE_RUNNING && p->step > a->k);
    if (later) {
        answer(a, from, UW_PART_WAIT, p->round, p->step);
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
            uw_allreduce_steer(a, from, p->round, p->step, UW_PUSH_GO_ON);
        } else if (s.to == from) {
            uw_allreduce_steer(a, from, p->round, p->step, UW_PUSH_STOP);
            uw_allreduce_push(a, &s, p->step, p->want.base);
        }
    }
}

static void take_wait(struct uw_allreduce *a, uint32_t from, const struct uw_part *p)
{
    if (p->reply) {
        uw_allreduce_steer(a, from, p->round, p->step,
                           p->seq == STOP_FOR_GOOD ? UW_PUSH_STOP : UW_PUSH_PAUSE);
        return;
    }
    if (p->round == a->r.round && p->step == a->k && a->state == UW_ALLREDUCE_RUNNING &&
        from == a->step.from) {
        answered(a);
        a->ask_us = a->now_us + uw_backoff_after(PATIENCE_WAITS * a->patience_us, a->tries,
                                                 uw_part_tries(false));
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
    /* It may be repeated, or follow one without a rate, which was asked for. */
    if (a->got[p->step] != UW_GOT_LEARNED) {
        bool measured = p->offset_n != UW_MEASURED_NOTHING;
        a->got[p->step] = measured ? UW_GOT_LEARNED : UW_GOT;
        uw_allreduce_learn(a, from, p->offset_n);
    }
    if (p->step == a->held) {
        a->held = UW_ALLREDUCE_NONE;
        if (a->state == UW_ALLREDUCE_RUNNING) {
            take_early(a);
        }
    }
}

static void take_done(struct uw_allreduce *a, uint32_t from, const struct uw_part *p)
{
    a->done[from] = uw_max_u32(a->done[from], p->round + 1);
    if (p->reply && (p->round < a->r.round || a->state == UW_ALLREDUCE_DONE)) {
        uint32_t round = a->state == UW_ALLREDUCE_DONE ? a->r.round : a->r.round - 1;
        send_done(a, from, round, false);
    }
}

/* A step and the part of its message that has arrived. */
static uint32_t progress_of(uint32_t k, uint32_t n, uint32_t all_n)
{
    return k << 16 | (all_n != 0 ? (uint32_t)((uint64_t)n * UINT16_MAX / all_n) : 0);
}

uint32_t uw_allreduce_progress(const struct uw_allreduce *a, uint32_t *waits_for)
{
    const struct uw_allreduce_stream *t = &a->stream;
    bool streams = uw_allreduce_streams(a);
    *waits_for = UW_RANK_NONE;
    if (a->state == UW_ALLREDUCE_RUNNING || a->state == UW_ALLREDUCE_FAILED) {
        *waits_for = !streams                        ? a->step.from
                     : t->taken_n < t->recv.recv_n ? t->recv.from
                                                     : t->send.to;
    }
    return streams ? progress_of(t->recv_k, t->taken_n, t->recv.recv_n)
                   : progress_of(a->k, a->pull.active ? a->pull.have_chunks : 0, a->pull.chunks);
}

int uw_allreduce_take(struct uw_allreduce *a, uint32_t from, const struct uw_part *p,
                      uint64_t now_us)
{
    if (a->state == UW_ALLREDUCE_IDLE || p->group != a->r.group || from >= a->r.ranks ||
        from == a->r.rank) {
        return UW_ERR_MISMATCH;
    }
    a->now_us = now_us;
    if (uw_allreduce_streams(a)) {
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

uint64_t uw_allreduce_run(struct uw_allreduce *a, uint64_t now_us)
{
    if (a->state == UW_ALLREDUCE_IDLE) {
        return UINT64_MAX;
    }
    a->now_us = now_us;
    if (uw_allreduce_streams(a)) {
        return uw_allreduce_stream_run(a);
    }
    bool runs = a->state == UW_ALLREDUCE_RUNNING;
    uint64_t next_us = runs ? nudge_for_got(a) : nudge_for_done(a);
    if (runs && has_place(a)) {
        next_us = uw_min_u64(next_us, ask(a));
    }
    next_us = uw_min_u64(next_us, uw_allreduce_send_out(a));
    if (a->owes_done && (a->out_n == 0 || a->now_us >= a->nudge_us)) {
        send_done_to_all(a);
    }
    return next_us;
}
