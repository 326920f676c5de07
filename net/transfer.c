/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer.h"

#include <string.h>

#define WINDOW_FIRST 4.0f           /* a board's receive queue holds about this many large frames */
#define WINDOW_MIN 4.0f
#define WINDOW_TELLING 16.0f         /* below, a rate that does not grow is chance */
#define TIMEOUTS_FREE 3u            /* in a row, before they mean more than bad luck */
#define RTT_MAX_US 600000000u       /* nothing that takes longer is a round trip */
#define RTO_UNKNOWN_US 300000u
#define RTO_MIN_US 20000u
#define RTO_MAX_US 2000000u
#define RTO_SLACK_US 10000u
#define SLACK_US 5000.0f            /* timers and threads are no better than a few milliseconds */
#define SLACK_MAX_US 100000.0f
#define PROBE_SLACK_US 2000u
#define MIN_RTT_AGE_US 10000000u
#define REORDER_MIN 3u
#define REORDER_MAX 256u
#define LOSS_STEP (1.0f / 64.0f)
#define SLOW_HALF 16.0f             /* samples that weigh as much as what was known before */
#define PHASES 8u
#define LOSS_MAX 0.8f
#define LOSS_START 0.1f            /* ends the start at the first round without growth */
#define SPREAD_MAX_US 500000.0f

static uint32_t bits_in(uint64_t v)
{
    uint32_t n = 0;
    for (; v != 0; v &= v - 1u) {
        n++;
    }
    return n;
}

static bool bit_at(const uint64_t *words, uint32_t i)
{
    return (words[i / 64u] >> (i % 64u) & 1u) != 0;
}

static void bit_set(uint64_t *words, uint32_t i)
{
    words[i / 64u] |= (uint64_t)1 << (i % 64u);
}

static void bit_clear(uint64_t *words, uint32_t i)
{
    words[i / 64u] &= ~((uint64_t)1 << (i % 64u));
}

int uw_pull_place(struct uw_pull *p, struct uw_arena *arena, uint32_t size_n,
                  uint32_t window_chunks)
{
    *p = (struct uw_pull){0};
    p->words_max = size_n / UW_CHUNK_MIN_N / 64u + 1u;
    p->asked_max = 64;
    while (p->asked_max < 65536u && p->asked_max / 4u < window_chunks) {
        p->asked_max *= 2u;
    }
    void *have = NULL;
    void *out = NULL;
    void *asked = NULL;
    int rc = uw_arena_take(arena, uw_size_mul(p->words_max, sizeof *p->have), &have);
    if (rc == UW_OK) {
        rc = uw_arena_take(arena, uw_size_mul(p->words_max, sizeof *p->out), &out);
    }
    if (rc == UW_OK) {
        rc = uw_arena_take(arena, uw_size_mul(p->asked_max, sizeof *p->asked), &asked);
    }
    p->have = have;
    p->out = out;
    p->asked = asked;
    return rc;
}

/* Nothing is on its way yet, and of the path no more is known than before the pull. */
static void start_path(struct uw_pull *p, uint16_t transfer, const struct uw_path *path,
                       uint64_t now_us)
{
    p->transfer = transfer;
    p->seq = 0;
    p->out_chunks = 0;
    p->head = p->tail = p->overtaken = 0;
    p->reorder = REORDER_MIN;
    p->progress_us = p->want_us = p->timeout_us = now_us;
    p->rate = p->plateau = p->loss = p->lately = 0.0f;
    p->phase = p->slow_from = p->slow_to = p->slow_n = p->slow_lost = 0;
    p->round = p->round_end = p->stale_rounds = 0;
    p->starting = true;
    p->window = path->floats_per_us / (float)p->chunk_n * (float)path->rtt_us * 0.5f + WINDOW_FIRST;
    float most = (float)(p->asked_max / 2u);
    p->window = p->window < most ? p->window : most;
    p->min_rtt_us = 0;
    p->srtt_us = path->rtt_us;
    p->rttvar_us = path->rtt_us / 2u;
    p->backoff = 0;
    memset(p->rates, 0, sizeof p->rates);
    memset(p->log, 0, sizeof p->log);
    memset(p->out, 0, (p->chunks + 63u) / 64u * sizeof *p->out);
}

void uw_pull_start(struct uw_pull *p, uint16_t transfer, uint32_t size_n, uint32_t chunk_n,
                   const struct uw_path *path, uint64_t now_us)
{
    p->active = true;
    p->size_n = size_n;
    p->chunk_n = chunk_n;
    p->chunks = size_n / chunk_n + (size_n % chunk_n != 0);
    p->have_chunks = 0;
    p->base_word = p->frontier = 0;
    p->started_us = now_us;
    memset(p->have, 0, (p->chunks + 63u) / 64u * sizeof *p->have);
    start_path(p, transfer, path, now_us);
}

void uw_pull_move(struct uw_pull *p, uint16_t transfer, const struct uw_path *path,
                  uint64_t now_us)
{
    start_path(p, transfer, path, now_us);
}

void uw_pull_stop(struct uw_pull *p)
{
    p->active = false;
}

void uw_pull_slept(struct uw_pull *p, uint64_t slept_us)
{
    p->started_us += slept_us;
    p->progress_us += slept_us;
    memset(p->log, 0, sizeof p->log);   /* answers that waited for us tell nothing of the path */
}

int uw_pull_check(struct uw_pull *p, uint16_t transfer, uint32_t offset_n, uint32_t count_n)
{
    if (!p->active || transfer != p->transfer) {
        return UW_ERR_MISMATCH;
    }
    if (offset_n >= p->size_n || offset_n % p->chunk_n != 0) {
        return UW_ERR_CORRUPT;
    }
    uint32_t left = p->size_n - offset_n;
    if (count_n != (left < p->chunk_n ? left : p->chunk_n)) {
        return UW_ERR_CORRUPT;
    }
    if (bit_at(p->have, offset_n / p->chunk_n)) {
        p->twice_n++;
        return UW_ERR_AGAIN;
    }
    return UW_OK;
}

/* RFC 6298 for the smoothed values; the smallest ages, so that a longer route is believed. */
static void learn_rtt(struct uw_pull *p, uint32_t rtt, uint64_t now_us)
{
    if (p->min_rtt_us == 0 || rtt <= p->min_rtt_us || now_us - p->min_rtt_at_us > MIN_RTT_AGE_US) {
        p->min_rtt_us = rtt;
        p->min_rtt_at_us = now_us;
    }
    if (p->srtt_us == 0) {
        p->srtt_us = rtt;
        p->rttvar_us = rtt / 2u;
        return;
    }
    uint32_t error = rtt > p->srtt_us ? rtt - p->srtt_us : p->srtt_us - rtt;
    p->rttvar_us = (uint32_t)(((uint64_t)p->rttvar_us * 3u + error) / 4u);
    p->srtt_us = (uint32_t)(((uint64_t)p->srtt_us * 7u + rtt) / 8u);
}

static void end_round(struct uw_pull *p)
{
    if (p->starting) {
        if (p->rate > p->plateau * 1.25f) {
            p->plateau = p->rate;
            p->stale_rounds = 0;
        } else if (p->window >= WINDOW_TELLING &&
                   (++p->stale_rounds == 3u || (p->stale_rounds == 2u && p->lately > LOSS_START))) {
            p->starting = false;
            p->phase = PHASES - 1u;
        }
    }
    p->round++;
    p->round_end = p->tail;
    if (!p->starting) {
        p->phase = (p->phase + 1u) % PHASES;
        if (p->phase == 0) {
            p->slow_from = p->slow_to = p->tail;
            p->slow_n = p->slow_lost = 0;
        } else if (p->phase == 1u) {
            p->slow_to = p->tail;
        }
    }
    p->rates[p->round % UW_PULL_ROUNDS] = 0.0f;
    if (p->reorder > REORDER_MIN) {
        p->reorder -= (p->reorder - REORDER_MIN + 7u) / 8u;
    }
}

static void learn_rate(struct uw_pull *p, const struct uw_want_log *log, uint64_t now_us)
{
    uint64_t took_us = now_us > log->sent_us ? now_us - log->sent_us : 1u;
    float sample = (float)(p->have_chunks - log->delivered) / (float)took_us;
    float *best = &p->rates[p->round % UW_PULL_ROUNDS];
    *best = sample > *best ? sample : *best;
    p->rate = 0.0f;
    for (uint32_t i = 0; i < UW_PULL_ROUNDS; i++) {
        p->rate = p->rates[i] > p->rate ? p->rates[i] : p->rate;
    }
}

/* Chunks to ask for so that `rate` of them arrive: the loss by chance is made up for. */
static float asking_rate(const struct uw_pull *p)
{
    return p->rate / (1.0f - (p->loss < LOSS_MAX ? p->loss : LOSS_MAX));
}

static void set_window(struct uw_pull *p)
{
    float slack = 4.0f * (float)p->rttvar_us;
    slack = SLACK_US + (slack < SLACK_MAX_US ? slack : SLACK_MAX_US);
    float target = asking_rate(p) * (2.0f * (float)p->min_rtt_us + slack) + WINDOW_FIRST;
    if (p->starting || p->window < target) {
        p->window += 1.0f;
    } else {
        p->window = target;
    }
    float most = (float)(p->asked_max / 2u);
    p->window = p->window < most ? p->window : most;
}

void uw_pull_arrived(struct uw_pull *p, uint16_t seq, uint32_t offset_n, uint64_t now_us)
{
    uint32_t chunk = offset_n / p->chunk_n;
    bit_set(p->have, chunk);
    p->have_chunks++;
    if (bit_at(p->out, chunk)) {
        bit_clear(p->out, chunk);
        p->out_chunks--;
    }
    while (p->base_word < p->chunks / 64u && p->have[p->base_word] == UINT64_MAX) {
        p->base_word++;
    }
    p->progress_us = now_us;
    p->backoff = 0;
    const struct uw_want_log *log = &p->log[seq % UW_PULL_WANTS];
    uint32_t bit = chunk - log->base;
    if (!log->used || log->seq != seq || bit > 63u || (log->wanted >> bit & 1u) == 0) {
        return;     /* too old to learn from */
    }
    uint32_t rank = bits_in(log->wanted & (((uint64_t)1 << bit) - 1u));
    uint64_t due_us = log->sent_us + (uint64_t)log->spread_us * rank / log->chunks;
    uint64_t rtt_us = now_us > due_us ? now_us - due_us : 1u;
    learn_rtt(p, rtt_us < RTT_MAX_US ? (uint32_t)rtt_us : RTT_MAX_US, now_us);
    uint32_t place = log->first + rank;
    if ((int32_t)(place + 1u - p->overtaken) > 0) {
        p->overtaken = place + 1u;
    } else if (p->overtaken - place > p->reorder) {
        p->reorder = p->overtaken - place < REORDER_MAX ? p->overtaken - place : REORDER_MAX;
    }
    learn_rate(p, log, now_us);
    if ((int32_t)(p->overtaken - p->round_end) > 0) {
        end_round(p);
    }
    set_window(p);
}

static uint64_t rto_us(const struct uw_pull *p)
{
    uint32_t doublings = p->backoff > TIMEOUTS_FREE ? p->backoff - TIMEOUTS_FREE : 0;
    if (p->srtt_us == 0) {
        return (uint64_t)RTO_UNKNOWN_US << (doublings < 3u ? doublings : 3u);
    }
    uint64_t spread = 4u * (uint64_t)p->rttvar_us;
    uint64_t rto = p->srtt_us + (spread > RTO_SLACK_US ? spread : RTO_SLACK_US);
    rto = rto < RTO_MIN_US ? RTO_MIN_US : rto;
    rto <<= doublings < 7u ? doublings : 7u;
    return rto < RTO_MAX_US ? rto : RTO_MAX_US;
}

/* Towards the end there is nothing new to ask for, so no later answer can overtake a lost one.
 * The window is empty then: asking again early costs little, waiting would cost most of the time
 * of a small pull on a lossy link. */
static uint64_t patience_us(const struct uw_pull *p)
{
    uint64_t rto = rto_us(p);
    if (p->srtt_us == 0 || p->backoff != 0 || p->have_chunks + p->out_chunks < p->chunks ||
        (float)p->out_chunks > p->window / 2.0f) {
        return rto;
    }
    uint64_t probe = 2u * (uint64_t)p->srtt_us + 2u * (uint64_t)p->rttvar_us + PROBE_SLACK_US;
    return probe < rto ? probe : rto;
}

/* The question at the front of the queue came to an end. What was asked in the slow round tells
 * loss by chance, which does not care how fast we ask, from loss by a full queue, which the slow
 * round does not see: only the first is made up for by asking more. */
static void learn_loss(struct uw_pull *p, uint32_t lost)
{
    p->lately += ((float)lost - p->lately) * LOSS_STEP;
    bool slow = (int32_t)(p->head - p->slow_from) >= 0 &&
                (p->phase == 0 || (int32_t)(p->head - p->slow_to) < 0);
    if (!p->starting && slow) {
        p->slow_n++;
        p->slow_lost += lost;
    } else if (p->slow_n != 0) {
        float n = (float)p->slow_n;
        p->loss += ((float)p->slow_lost / n - p->loss) * n / (n + SLOW_HALF);
        p->slow_n = p->slow_lost = 0;
    }
}

/* Take answered and lost questions from the front of the queue. */
static void expire(struct uw_pull *p, uint64_t now_us)
{
    uint64_t rto = rto_us(p);
    uint64_t patience = patience_us(p);
    bool late = false;
    for (; p->head != p->tail; p->head++) {
        const struct uw_asked *a = &p->asked[p->head & (p->asked_max - 1u)];
        if (bit_at(p->have, a->chunk)) {
            learn_loss(p, 0);
            continue;
        }
        bool timeout = now_us >= a->due_us + patience;
        if (!timeout && (int32_t)(p->overtaken - p->head) <= (int32_t)p->reorder) {
            break;
        }
        bit_clear(p->out, a->chunk);
        p->out_chunks--;
        learn_loss(p, 1);
        late = late || timeout;
    }
    /* Once per timeout without any answer, however many questions it ended. */
    if (!late || now_us < p->progress_us + rto || now_us < p->timeout_us + rto) {
        return;
    }
    p->timeout_us = now_us;
    if (++p->backoff > TIMEOUTS_FREE) {
        p->window = p->window / 2.0f > WINDOW_MIN ? p->window / 2.0f : WINDOW_MIN;
    }
}

/* Chunks that may be asked for now. */
static uint32_t allowance(const struct uw_pull *p, uint32_t room_chunks)
{
    uint32_t limit = (uint32_t)p->window;
    limit = limit < room_chunks ? limit : room_chunks;
    if (!p->active || limit <= p->out_chunks) {
        return 0;
    }
    uint32_t n = limit - p->out_chunks;
    uint32_t missing = p->chunks - p->have_chunks - p->out_chunks;
    uint32_t queue = p->asked_max - (p->tail - p->head);
    n = n < missing ? n : missing;
    n = n < queue ? n : queue;
    return n < 64u ? n : 64u;
}

/* Small questions are saved up for a moment: one in a quarter of the window is enough. */
static uint64_t due_us(const struct uw_pull *p, uint32_t n)
{
    uint32_t batch = (uint32_t)(p->window / 4.0f);
    batch = batch < 64u ? batch : 64u;
    if (n >= batch || n == p->chunks - p->have_chunks - p->out_chunks || p->out_chunks == 0) {
        return 0;
    }
    uint32_t pause = p->srtt_us / 4u;
    return p->want_us + (pause > 500u ? pause : 500u);
}

/* First chunk that is neither here nor asked for; there is one. */
static uint32_t first_missing(const struct uw_pull *p)
{
    uint32_t w = p->base_word;
    while ((p->have[w] | p->out[w]) == UINT64_MAX) {
        w++;
    }
    uint64_t taken = p->have[w] | p->out[w];
    uint32_t bit = 0;
    while ((taken >> bit & 1u) != 0) {
        bit++;
    }
    return w * 64u + bit;
}

/* One round in eight is slow: queues drain, and loss by chance shows. A later one asks for more, to
 * find out whether the path has more. */
static float pace_gain(const struct uw_pull *p)
{
    return p->phase == 0 ? 0.6f : p->phase == PHASES / 2u ? 1.25f : 1.0f;
}

static uint32_t spread_for(const struct uw_pull *p, uint32_t n)
{
    float spread = 0.0f;
    if (p->starting) {
        spread = (float)n * (float)p->min_rtt_us / (2.0f * p->window);
    } else if (p->rate > 0.0f) {
        spread = (float)n / (pace_gain(p) * asking_rate(p));
    }
    return (uint32_t)(spread < SPREAD_MAX_US ? spread : SPREAD_MAX_US);
}

static void remember(struct uw_pull *p, const struct uw_want *want, uint32_t n, uint64_t now_us)
{
    p->log[want->seq % UW_PULL_WANTS] = (struct uw_want_log){
        .sent_us = now_us,
        .wanted = want->wanted,
        .base = want->base,
        .spread_us = want->spread_us,
        .first = p->tail,
        .delivered = p->have_chunks,
        .seq = want->seq,
        .chunks = (uint8_t)n,
        .used = true,
    };
    uint32_t rank = 0;
    for (uint32_t bit = 0; bit < 64u; bit++) {
        if ((want->wanted >> bit & 1u) == 0) {
            continue;
        }
        uint32_t chunk = want->base + bit;
        bit_set(p->out, chunk);
        p->asked[p->tail++ & (p->asked_max - 1u)] = (struct uw_asked){
            .due_us = now_us + (uint64_t)want->spread_us * rank / n,
            .chunk = chunk,
        };
        rank++;
        if (chunk < p->frontier) {
            p->again_n++;
        } else {
            p->frontier = chunk + 1u;
        }
    }
    p->out_chunks += n;
    p->want_us = now_us;
}

bool uw_pull_next(struct uw_pull *p, uint32_t room_chunks, uint64_t now_us, struct uw_want *want)
{
    if (!p->active) {
        return false;
    }
    expire(p, now_us);
    uint32_t n = allowance(p, room_chunks);
    if (n == 0 || now_us < due_us(p, n)) {
        return false;
    }
    uint32_t base = first_missing(p);
    uint32_t taken = 0;
    uint64_t wanted = 0;
    for (uint32_t bit = 0; bit < 64u && base + bit < p->chunks && taken < n; bit++) {
        if (!bit_at(p->have, base + bit) && !bit_at(p->out, base + bit)) {
            wanted |= (uint64_t)1 << bit;
            taken++;
        }
    }
    *want = (struct uw_want){
        .transfer = p->transfer,
        .seq = p->seq++,
        .chunk_n = p->chunk_n,
        .base = base,
        .wanted = wanted,
        .spread_us = spread_for(p, taken),
    };
    remember(p, want, taken, now_us);
    return true;
}

uint64_t uw_pull_next_us(const struct uw_pull *p, uint32_t room_chunks, uint64_t now_us)
{
    if (!p->active || uw_pull_complete(p)) {
        return UINT64_MAX;
    }
    uint64_t next = UINT64_MAX;
    if (p->head != p->tail) {
        next = p->asked[p->head & (p->asked_max - 1u)].due_us + patience_us(p);
    }
    uint32_t n = allowance(p, room_chunks);
    if (n != 0) {
        uint64_t due = due_us(p, n);
        next = due < next ? due : next;
    }
    return next > now_us ? next : now_us;
}
