/* SPDX-License-Identifier: Apache-2.0 */
#include "network_probe.h"

#include "base/bits.h"

#include <string.h>

#define TURNS_MAX 8u                /* ranks that measure alone */
#define FEW 4u                      /* ranks that send together more than once: */
#define FEW_TURNS 3u
#define TRAIN 8u
#define TRAIN_TOGETHER 16u          /* longer: ranks do not begin at the same time */
#define TRAIN_MAX 1024u
#define VECTORS_TOGETHER 4u         /* longest train of all at once, in train_n */
#define LONGER 4u                   /* times */
#define TRAIN_ENOUGH_S 5e-3f        /* a train shorter than this, or than the round trip, whose
                                       jitter it shows, is measured again with a longer one */
#define ROUND_TRIPS 3u
#define TRIES_MAX 3u
#define SILENCE_US 300000u          /* timeout, plus four round trips */
#define GO_US 700000u
#define GO_TRIES_MAX 6u
#define RETRY_US 200u               /* the link was full */

/* Steps of the messages. */
enum { STEP_GO = 1, STEP_ASK, STEP_ANSWER, STEP_REPORT };

#define GO_TOGETHER 1u

int uw_network_probe_place(struct uw_network_probe *p, struct uw_arena *arena,
                           const struct uw_network_probe_config *config)
{
    const size_t bytes[3] = {uw_size_mul(config->chunk_n, sizeof *p->zeros),
                             uw_size_mul(config->ranks_max, sizeof *p->reports),
                             uw_size_mul(config->ranks_max, sizeof *p->waits)};
    void *part[3];
    int rc = uw_arena_take_each(arena, 3, bytes, part);
    *p = (struct uw_network_probe){
        .config = *config, .zeros = part[0], .reports = part[1], .waits = part[2]};
    if (rc == UW_OK && p->zeros != NULL) {
        memset(p->zeros, 0, config->chunk_n * sizeof *p->zeros);
    }
    return rc;
}

void uw_network_probe_begin(struct uw_network_probe *p, uint32_t group, uint32_t ranks,
                            uint32_t rank, uint64_t now_us)
{
    p->group = group;
    p->ranks = ranks;
    p->rank = rank;
    p->now_us = now_us;
    p->answers_n = 0;
    p->stage = UW_PROBE_IDLE;
    p->job = p->seq = 0;
    p->done = rank != 0 || ranks < 2;
    p->turn = 0;
    p->turns = uw_min_u32(ranks, TURNS_MAX);
    p->together_n = TRAIN_TOGETHER;
    p->report = (struct uw_network_report){0};
    p->go_tries = 0;
    p->go_left = ranks;
    memset(p->reports, 0, ranks * sizeof *p->reports);
    memset(p->waits, 0, ranks * sizeof *p->waits);
    if (!p->done) {
        p->waits[0] = true;
    }
}

static int send(struct uw_network_probe *p, uint32_t to, struct uw_part *part)
{
    part->group = p->group;
    return p->config.send(p->config.arg, to, part);
}

/* The measurement of this rank. */

static void want_train(struct uw_network_probe *p, enum uw_probe_stage stage, uint32_t count,
                       uint32_t n)
{
    p->stage = stage;
    p->count = count;
    p->n = n;
    p->seq++;
    p->asks = true;
    p->arrived = 0;
    p->asked_us = p->now_us;
}

static bool is_short(const struct uw_network_report *r, float took_s)
{
    return took_s < TRAIN_ENOUGH_S || took_s < r->rtt_s;
}

/* One small message after another, then trains, until they are long enough. */
static void next_stage(struct uw_network_probe *p)
{
    uint32_t n = p->stage == UW_PROBE_SMALL ? 1u : p->config.chunk_n;
    bool may = p->config.train_n == 0 || n <= p->config.train_n / (LONGER * p->count);
    bool again = p->count < TRAIN_MAX && p->arrived > 1 && may &&
                 is_short(&p->report, 1e-6f * (float)(p->last_us - p->first_us));
    p->tries = 0;
    switch (p->stage) {
    case UW_PROBE_RTT:
        if (++p->trains < ROUND_TRIPS) {
            want_train(p, UW_PROBE_RTT, 1, 1);
        } else {
            want_train(p, UW_PROBE_SMALL, TRAIN, 1);
        }
        break;
    case UW_PROBE_SMALL:
    case UW_PROBE_LARGE:
        if (again) {
            want_train(p, p->stage, p->count * LONGER, n);
        } else if (p->stage == UW_PROBE_SMALL) {
            want_train(p, UW_PROBE_LARGE, TRAIN, p->config.chunk_n);
        } else {
            p->stage = UW_PROBE_REPORTS;
        }
        break;
    default:
        p->stage = UW_PROBE_REPORTS;
        break;
    }
}

/* Evaluate a train, complete or not. */
static void measured(struct uw_network_probe *p)
{
    float between_s = p->last > p->first ? (float)(p->last_us - p->first_us) * 1e-6f /
                                               (float)(p->last - p->first)
                                         : 0.0f;
    float rtt_s = (float)(p->first_us - p->asked_us) * 1e-6f;
    between_s = p->last > p->first && between_s <= 0.0f ? 1e-9f : between_s;
    switch (p->stage) {
    case UW_PROBE_RTT:
        if (p->arrived > 0 && (p->report.rtt_s <= 0.0f || rtt_s < p->report.rtt_s)) {
            p->report.rtt_s = rtt_s;
        }
        break;
    case UW_PROBE_SMALL: p->report.small_s = between_s; break;
    case UW_PROBE_LARGE: p->report.large_s = between_s; break;
    case UW_PROBE_TOGETHER: p->report.together_s = between_s; break;
    default: break;
    }
    next_stage(p);
}

static void go(struct uw_network_probe *p, uint16_t job, bool together, uint32_t count)
{
    if (p->job == job) {
        return;     /* a repeated GO: it is busy, or its report was lost */
    }
    p->job = job;
    p->tries = p->trains = 0;
    if (together) {
        want_train(p, UW_PROBE_TOGETHER, uw_min_u32(count, TRAIN_MAX), p->config.chunk_n);
    } else {
        p->report = (struct uw_network_report){0};
        want_train(p, UW_PROBE_RTT, 1, 1);
    }
}

static void receive_answer(struct uw_network_probe *p, const struct uw_part *part)
{
    if (p->stage == UW_PROBE_IDLE || p->stage == UW_PROBE_REPORTS || part->seq != p->seq ||
        part->offset_n >= p->count) {
        return;
    }
    /* When all send at once, the first and last messages have less competition. */
    uint32_t margin = p->stage == UW_PROBE_TOGETHER ? p->count / 4u : 0;
    if (p->arrived == 0 || p->first < margin) {
        p->first_us = p->now_us;
        p->first = part->offset_n;
    }
    p->arrived++;
    p->heard_us = p->now_us;
    if (p->arrived == 1 || part->offset_n + margin < p->count) {
        p->last_us = p->now_us;
        p->last = part->offset_n;
    }
    if (part->offset_n + 1u == p->count) {
        measured(p);
    }
}

static uint64_t silence_us(const struct uw_network_probe *p)
{
    float between_s = p->stage == UW_PROBE_TOGETHER ? p->report.large_s * (float)(p->ranks + 1u)
                                                    : p->report.small_s;
    return SILENCE_US + (uint64_t)(4e6f * (p->report.rtt_s + between_s));
}

/* Send requests and handle timeouts. Returns the time of the next call. */
static uint64_t run_stage(struct uw_network_probe *p)
{
    uint32_t to = (p->rank + 1u) % p->ranks;
    uint64_t heard_us = p->arrived > 0 ? p->heard_us : p->asked_us;
    if (p->stage == UW_PROBE_IDLE || p->stage == UW_PROBE_REPORTS) {
        return UINT64_MAX;
    }
    if (!p->asks && p->now_us >= heard_us + silence_us(p)) {
        if (p->arrived < 2 && p->tries < TRIES_MAX) {
            p->tries++;
            want_train(p, p->stage, p->count, p->n);
        } else {
            p->last = p->arrived > 0 ? p->last : p->first;
            measured(p);
        }
        heard_us = p->now_us;
    }
    if (p->asks) {
        struct uw_part ask = {.type = UW_PART_WANT, .step = STEP_ASK};
        ask.want = (struct uw_want){.transfer = STEP_ASK, .seq = p->seq, .chunk_n = p->n,
                                    .base = p->count, .wanted = 1};
        if (send(p, to, &ask) == UW_ERR_AGAIN) {
            return p->now_us + RETRY_US;
        }
        p->asks = false;
        p->asked_us = heard_us = p->now_us;
    }
    return heard_us + silence_us(p);
}

/* Requests of other ranks. */

static void receive_ask(struct uw_network_probe *p, uint32_t from, const struct uw_want *want)
{
    for (uint32_t i = 0; i < p->answers_n; i++) {
        if (p->answers[i].rank == from && p->answers[i].seq == want->seq) {
            return;     /* a duplicate */
        }
    }
    if (p->answers_n < UW_PROBE_ANSWERS && want->chunk_n - 1u < p->config.chunk_n) {
        p->answers[p->answers_n++] = (struct uw_probe_answer){
            .rank = from, .n = want->chunk_n, .count = uw_min_u32(want->base, TRAIN_MAX),
            .seq = want->seq};
    }
}

/* Returns the time of the next try; UINT64_MAX: all is sent. */
static uint64_t run_answers(struct uw_network_probe *p)
{
    while (p->answers_n > 0) {
        struct uw_probe_answer *a = &p->answers[0];
        for (; a->sent < a->count; a->sent++) {
            struct uw_part part = {.type = UW_PART_DATA, .step = STEP_ANSWER, .seq = a->seq,
                                   .offset_n = a->sent, .count_n = a->n, .floats = p->zeros};
            if (send(p, a->rank, &part) == UW_ERR_AGAIN) {
                return p->now_us + RETRY_US;
            }
        }
        p->answers_n--;
        memmove(&p->answers[0], &p->answers[1], p->answers_n * sizeof p->answers[0]);
    }
    return UINT64_MAX;
}

/* Rank 0. */

static bool is_together(const struct uw_network_probe *p)
{
    return p->turn >= p->turns;
}

static uint32_t longest(const struct uw_network_probe *p)
{
    const struct uw_network_probe_config *c = &p->config;
    uint64_t n = c->train_n != 0 ? (uint64_t)VECTORS_TOGETHER * c->train_n / c->chunk_n : TRAIN_MAX;
    return n < TRAIN_MAX ? (uint32_t)n : TRAIN_MAX;
}

static void receive_report(struct uw_network_probe *p, uint32_t from, uint16_t job,
                           const struct uw_network_report *r)
{
    if (p->done || job != p->turn + 1u || !p->waits[from]) {
        return;
    }
    p->waits[from] = false;
    if (is_together(p)) {
        float *together_s = &p->reports[from].together_s;
        *together_s = r->together_s > *together_s ? r->together_s : *together_s;
    } else {
        p->reports[from] = *r;
        while (p->together_n * LONGER <= longest(p) &&
               is_short(r, r->large_s * (float)p->together_n)) {
            p->together_n *= LONGER;
        }
    }
}

/* Ranks measure alone in turn, then all at once. */
static void next_turn(struct uw_network_probe *p)
{
    for (uint32_t i = 0; i < p->ranks; i++) {
        if (p->waits[i]) {
            return;
        }
    }
    if (++p->turn == p->turns + (p->ranks <= FEW ? FEW_TURNS : 1u)) {
        p->done = true;
        return;
    }
    p->go_tries = 0;
    p->go_left = p->ranks;
    for (uint32_t i = 0; i < p->ranks; i++) {
        p->waits[i] = is_together(p) || i == p->turn * p->ranks / p->turns;
    }
}

/* Returns UW_ERR_AGAIN when the link is full. */
static int send_go(struct uw_network_probe *p, uint32_t rank)
{
    uint16_t job = (uint16_t)(p->turn + 1u);
    struct uw_part part = {.type = UW_PART_WANT, .step = STEP_GO};
    part.want = (struct uw_want){.transfer = STEP_GO, .seq = job,
                                 .base = is_together(p) ? GO_TOGETHER : 0,
                                 .chunk_n = p->together_n, .wanted = 1};
    if (p->waits[rank] && p->go_tries == GO_TRIES_MAX) {
        p->waits[rank] = false;     /* skip it */
    } else if (p->waits[rank] && rank == 0) {
        go(p, job, is_together(p), p->together_n);
    } else if (p->waits[rank]) {
        return send(p, rank, &part);
    }
    return UW_OK;
}

/* Timeout of reports. On a shared medium all ranks wait for each other. */
static uint64_t patience_us(const struct uw_network_probe *p)
{
    float longest_s = 0.0f;
    for (uint32_t i = 0; i < p->ranks && is_together(p); i++) {
        longest_s = p->reports[i].large_s > longest_s ? p->reports[i].large_s : longest_s;
    }
    float all_s = longest_s * (float)p->together_n * (float)(p->ranks + 1u);
    return (GO_US << p->go_tries) + (uint64_t)(1e6f * all_s);
}

/* Send GO to ranks without a report, to itself last. Returns the time of the next call. */
static uint64_t send_gos(struct uw_network_probe *p)
{
    if (p->go_left == 0 && p->now_us >= p->go_us + patience_us(p)) {
        p->go_left = p->ranks;
        p->go_tries++;
    }
    for (; p->go_left > 0; p->go_left--) {
        if (send_go(p, p->go_left - 1u) == UW_ERR_AGAIN) {
            return p->now_us + RETRY_US;
        }
        p->go_us = p->now_us;
    }
    return p->go_us + patience_us(p);
}

/* Returns the time of the next call. */
static uint64_t report(struct uw_network_probe *p)
{
    if (p->stage != UW_PROBE_REPORTS) {
        return UINT64_MAX;
    }
    if (p->rank == 0) {
        receive_report(p, 0, p->job, &p->report);
        p->stage = UW_PROBE_IDLE;
        return p->now_us;
    }
    const float floats[UW_PROBE_REPORT_N] = {p->report.rtt_s, p->report.small_s,
                                             p->report.large_s, p->report.together_s};
    struct uw_part part = {.type = UW_PART_DATA, .step = STEP_REPORT, .seq = p->job,
                           .count_n = UW_PROBE_REPORT_N, .floats = floats};
    if (send(p, 0, &part) == UW_ERR_AGAIN) {
        return p->now_us + RETRY_US;
    }
    p->stage = UW_PROBE_IDLE;
    return UINT64_MAX;
}

void uw_network_probe_receive(struct uw_network_probe *p, uint32_t from, const struct uw_part *part,
                              uint64_t now_us)
{
    if (part->group != p->group || from >= p->ranks || from == p->rank) {
        return;
    }
    p->now_us = now_us;
    if (part->type == UW_PART_WANT && part->step == STEP_ASK) {
        receive_ask(p, from, &part->want);
    } else if (part->type == UW_PART_WANT && part->step == STEP_GO && from == 0) {
        if (part->want.seq == p->job && p->stage == UW_PROBE_IDLE) {
            p->stage = UW_PROBE_REPORTS;    /* it was lost */
        }
        go(p, part->want.seq, part->want.base == GO_TOGETHER, part->want.chunk_n);
    } else if (part->type == UW_PART_DATA && part->step == STEP_ANSWER) {
        receive_answer(p, part);
    } else if (part->type == UW_PART_DATA && part->step == STEP_REPORT && p->rank == 0 &&
               part->count_n == UW_PROBE_REPORT_N) {
        const struct uw_network_report r = {part->floats[0], part->floats[1], part->floats[2],
                                            part->floats[3]};
        receive_report(p, from, part->seq, &r);
    }
}

uint64_t uw_network_probe_run(struct uw_network_probe *p, uint64_t now_us)
{
    uint64_t next_us = UINT64_MAX;
    if (p->ranks < 2) {
        return next_us;
    }
    p->now_us = now_us;
    if (!p->done) {
        next_turn(p);
        next_us = p->done ? next_us : send_gos(p);
    }
    next_us = uw_min_u64(next_us, run_stage(p));
    next_us = uw_min_u64(next_us, report(p));
    return uw_min_u64(next_us, run_answers(p));
}
