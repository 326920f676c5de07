/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer.h"

#include "base/backoff.h"
#include "base/bits.h"

#include <string.h>

#define PROBE_SLACK_US 2000u
#define PUSH_SLACK_US 2000u
#define LOSSLESS_PUSH_US 100000u
#define REORDER_MAX 256u
#define ASKED_MIN 16u
#define STEADY_LOW 4u                   /* chunks on their way when more are asked for */
#define WHOLE 2u                        /* part number of a whole chunk */
#define NEITHER 3u
#define STEADY_SILENCE 4u               /* times of a chunk without one: none is on its way */
#define REORDER_MIN 3u                  /* answers that may always overtake another */

/* of the path */
#define WINDOW_FIRST 4.0f           /* a board's receive queue holds about this many large frames */
#define WINDOW_MIN 4.0f
#define WINDOW_TELLING 16.0f         /* below, a rate that does not grow is ignored */
#define TIMEOUTS_FREE 3u            /* in a row that are ignored */
#define RTT_MAX_US 600000000u       /* longer times are not round trips */
#define RTO_UNKNOWN_US 300000u
#define LOSSLESS_US 1000000u
#define RTO_MIN_US 20000u
#define RTO_MAX_US 2000000u
#define RTO_SLACK_US 10000u
#define SLACK_US 5000.0f            /* accuracy of timers and threads */
#define SLACK_MAX_US 100000.0f
#define MIN_RTT_AGE_US 10000000u
#define LOSS_STEP (1.0f / 64.0f)
#define SLOW_HALF 16.0f             /* samples that weigh as much as the earlier value */
#define PHASES 8u
#define LOSS_MAX 0.8f
#define LOSS_START 0.1f            /* ends the start at the first round without growth */
#define SPREAD_MAX_US 500000.0f
#define STEADY_MAX_US 2000000000u   /* of what a link takes for all that is outstanding */
#define STEADY_RTO_CHUNKS 4u        /* an answer takes so long at least, ... */
#define STEADY_RTO_MOST 16u         /* ... and so many times longer at most */

int uw_pull_place(struct uw_pull *p, struct uw_arena *arena, uint32_t size_n, uint32_t least_n,
                  uint32_t window_chunks)
{
    *p = (struct uw_pull){0};
    p->words_max = size_n / least_n / 32u + 1u;
    p->asked_max = ASKED_MIN;
    while (p->asked_max < 65536u && p->asked_max / 4u < window_chunks) {
        p->asked_max *= 2u;
    }
    p->log_max = uw_min_u32(p->asked_max / 4u, UW_PULL_WANTS);
    const size_t bytes[4] = {uw_size_mul(p->words_max, sizeof *p->have),
                             uw_size_mul(p->words_max, sizeof *p->out),
                             uw_size_mul(p->asked_max, sizeof *p->asked),
                             p->log_max * sizeof *p->log};
    void *part[4];
    int rc = uw_arena_take_each(arena, 4, bytes, part);
    p->have = part[0];
    p->out = part[1];
    p->asked = part[2];
    p->log = part[3];
    return rc;
}

/* ---- the model of the path: see "Congestion" in transfer.h ---- */

static void set_to(struct uw_pull *p, float window)
{
    p->window = window < p->window_most ? window : p->window_most;
}

/* Reset the model to a known path. */
static void path_start(struct uw_pull *p, const struct uw_path *path)
{
    p->rate = p->plateau = p->loss = p->lately = 0.0f;
    p->phase = p->slow_from = p->slow_to = p->slow_n = p->slow_lost = 0;
    p->round = p->round_end = p->stale_rounds = 0;
    p->starting = true;
    p->window = path->floats_per_us / (float)p->chunk_n * (float)path->rtt_us * 0.5f + WINDOW_FIRST;
    float most = (float)(p->asked_max / 2u), room = (float)path->most_chunks;
    p->fits = room > 0.0f && room < most;
    p->window_most = p->fits ? room : most;
    p->chunk_us = path->chunk_us;
    set_to(p, p->chunk_us != 0 ? p->window_most : p->window);
    p->min_rtt_us = 0;
    p->lossless = path->lossless;
    p->srtt_us = uw_min_u32(path->rtt_us, RTT_MAX_US);
    p->rttvar_us = p->srtt_us / 2u;
    p->backoff = 0;
    memset(p->rates, 0, sizeof p->rates);
}

/* Round trips are RTT_MAX_US at most, so that sums of a few of them fit 32 bits. RFC 6298 for the
 * smoothed values. The smallest round trip expires, so that a longer route is detected. */
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

/* The rate of questions at which `rate` chunks arrive, in spite of random loss. */
static float asking_rate(const struct uw_pull *p)
{
    return p->rate / (1.0f - (p->loss < LOSS_MAX ? p->loss : LOSS_MAX));
}

static void set_window(struct uw_pull *p)
{
    if (p->chunk_us != 0) {
        return;
    }
    float slack = 4.0f * (float)p->rttvar_us;
    slack = SLACK_US + (slack < SLACK_MAX_US ? slack : SLACK_MAX_US);
    float target = asking_rate(p) * (2.0f * (float)p->min_rtt_us + slack) + WINDOW_FIRST;
    if (p->starting || p->window < target) {
        p->window += 1.0f;
    } else {
        p->window = target;
    }
    set_to(p, p->window);
}

/* A chunk of the question in the log arrived, rtt_us after its server should have sent it. */
static void path_answered(struct uw_pull *p, const struct uw_want_log *log, uint64_t rtt_us,
                          uint64_t now_us)
{
    learn_rtt(p, rtt_us < RTT_MAX_US ? (uint32_t)rtt_us : RTT_MAX_US, now_us);
    learn_rate(p, log, now_us);
    if ((int32_t)(p->overtaken - p->round_end) > 0) {
        end_round(p);
    }
    set_window(p);
}

/* Timeout of an answer. */
static uint32_t path_rto_us(const struct uw_pull *p)
{
    uint32_t doublings = p->backoff > TIMEOUTS_FREE ? p->backoff - TIMEOUTS_FREE : 0;
    if (p->lossless) {
        return LOSSLESS_US;
    }
    if (p->srtt_us == 0) {
        return (uint32_t)uw_backoff_after(RTO_UNKNOWN_US, doublings, 3);
    }
    uint32_t spread = 4u * p->rttvar_us;
    uint32_t rto = p->srtt_us + (spread > RTO_SLACK_US ? spread : RTO_SLACK_US);
    uint64_t chunks_us = (uint64_t)STEADY_RTO_CHUNKS * p->chunk_us;
    uint64_t most = uw_max_u64(STEADY_RTO_MOST * chunks_us, RTO_MAX_US);
    most = uw_max_u64(most, 2u * p->srtt_us);       /* no answer is faster */
    most = uw_min_u64(most, RTT_MAX_US);
    uint64_t us = uw_max_u64(rto, uw_max_u64(chunks_us, RTO_MIN_US));
    /* Other senders decide when the last outstanding chunk arrives; no pause exceeds this. */
    us = p->chunk_us != 0 ? uw_min_u64(us, STEADY_RTO_MOST * chunks_us) : us;
    return (uint32_t)uw_min_u64(uw_backoff_after(us, doublings, 7), most);
}

/* Random loss does not depend on the rate of questions; loss by a full queue does not occur in the
 * slow round. So the loss of the slow round is the random loss, which is compensated.
 *   lost  the chunk at the front of the queue: 1 or 0 */
static void path_ended(struct uw_pull *p, uint32_t lost)
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

/* One more timeout without any answer. */
static void path_timed_out(struct uw_pull *p)
{
    if (++p->backoff > TIMEOUTS_FREE && p->chunk_us == 0) {
        set_to(p, p->window / 2.0f > WINDOW_MIN ? p->window / 2.0f : WINDOW_MIN);
    }
}

/* One round in eight is slow: queues drain, and random loss can be measured. A later one asks for
 * more, to detect a faster path. */
static float pace_gain(const struct uw_pull *p)
{
    return p->phase == 0 ? 0.6f : p->phase == PHASES / 2u ? 1.25f : 1.0f;
}

/* Time over which n chunks are to be sent. */
static uint32_t path_spread_us(const struct uw_pull *p, uint32_t n)
{
    float spread = 0.0f;
    if (p->chunk_us != 0) {
        float measured = p->rate > 0.0f ? 1.0f / p->rate : 0.0f, least = (float)p->chunk_us;
        float us = (float)n * (measured > least ? measured : least);
        return us < (float)STEADY_MAX_US ? (uint32_t)us : STEADY_MAX_US;
    }
    if (p->fits) {
        return 0;       /* all outstanding chunks may arrive at once */
    }
    if (p->starting) {
        spread = (float)n * (float)p->min_rtt_us / (2.0f * p->window);
    } else if (p->rate > 0.0f) {
        spread = (float)n / (pace_gain(p) * asking_rate(p));
    }
    return (uint32_t)(spread < SPREAD_MAX_US ? spread : SPREAD_MAX_US);
}

/* ---- the pull ---- */

static uint32_t in_16us(uint64_t us)
{
    return (uint32_t)(us / 16u);
}

static uint64_t asked_due_us(const struct uw_asked *a, uint64_t now_us)
{
    int32_t ahead = (int32_t)(a->due - in_16us(now_us));
    return (now_us / 16u + (uint64_t)(int64_t)ahead) * 16u;
}

static uint32_t words_of(const struct uw_pull *p)
{
    return uw_set_words(p->chunks);
}

/* The n-th word, counted from the origin's. The origin's word is visited twice: its bits from the
 * origin on first, the others at the end. */
static uint32_t word_at(const struct uw_pull *p, uint32_t n)
{
    return (p->origin / 32u + n) % words_of(p);
}

static uint32_t not_yet(const struct uw_pull *p, uint32_t n)
{
    return n == 0 ? ((uint32_t)1 << (p->origin % 32u)) - 1u : 0;
}

void uw_pull_move(struct uw_pull *p, uint16_t transfer, const struct uw_path *path,
                  uint64_t now_us)
{
    p->transfer = transfer;
    p->first_seq = p->seq;
    p->out_chunks = 0;
    p->head = p->tail = p->overtaken = 0;
    p->progress_us = p->want_us = p->timeout_us = now_us;
    p->reorder = REORDER_MIN;
    memset(p->log, 0, p->log_max * sizeof *p->log);
    memset(p->out, 0, words_of(p) * sizeof *p->out);
    path_start(p, path);
}

void uw_pull_start(struct uw_pull *p, uint16_t transfer, uint32_t size_n, uint32_t chunk_n,
                   const struct uw_path *path, uint64_t now_us)
{
    p->active = true;
    p->coded = false;
    p->split_n = 0;
    p->size_n = size_n;
    p->chunk_n = chunk_n;
    p->chunks = uw_chunks_in(size_n, chunk_n);
    p->have_chunks = 0;
    p->base_word = p->frontier = 0;
    p->origin = p->origin_n < size_n ? p->origin_n / chunk_n : 0;
    p->started_us = now_us;
    p->pushed = false;
    memset(p->have, 0, words_of(p) * sizeof *p->have);
    if (p->chunks % 32u != 0) {
        p->have[words_of(p) - 1u] = UINT32_MAX << (p->chunks % 32u);    /* no such chunks */
    }
    uw_pull_move(p, transfer, path, now_us);
}

/* Skip complete words. */
static void pass_words(struct uw_pull *p)
{
    while (p->base_word < words_of(p) &&
           (p->have[word_at(p, p->base_word)] | not_yet(p, p->base_word)) == UINT32_MAX) {
        p->base_word++;
    }
}

void uw_pull_only(struct uw_pull *p, uint32_t from, uint32_t n)
{
    for (uint32_t chunk = 0; chunk < p->chunks; chunk++) {
        if (chunk - from >= n) {
            uw_set_add(p->have, chunk);
        }
    }
    p->have_chunks = p->chunks - n;
    if (p->origin - from >= n) {
        p->origin = from;
        p->base_word = 0;
    }
    pass_words(p);
}

/* Chunks moved between pulls were not delivered by the path: correct the counts of rates. */
static void count_given(struct uw_pull *p, uint32_t n)
{
    p->have_chunks += n;
    for (uint32_t i = 0; i < p->log_max; i++) {
        p->log[i].delivered += n;
    }
    p->base_word = 0;
    pass_words(p);
}

uint32_t uw_pull_give(struct uw_pull *p, struct uw_pull *to, uint32_t most, bool asked,
                      uint64_t now_us)
{
    uint32_t n = 0;
    if (to != NULL && uw_pull_complete(to)) {
        to->progress_us = now_us;
    }
    for (uint32_t chunk = p->chunks; chunk-- > 0 && n < most;) {
        bool out = uw_set_has(p->out, chunk);
        if (uw_set_has(p->have, chunk) || (out && !asked)) {
            continue;
        }
        if (out) {
            uw_set_remove(p->out, chunk);
            p->out_chunks--;
        }
        uw_set_add(p->have, chunk);
        if (to != NULL) {
            uw_set_remove(to->have, chunk);
        }
        for (uint32_t i = 0; to != NULL && p->coded && i < 2u; i++) {
            if (uw_set_has(p->parts, 2u * chunk + i)) {
                uw_set_add(to->parts, 2u * chunk + i);
            }
        }
        n++;
    }
    count_given(p, n);
    if (to != NULL) {
        count_given(to, 0u - n);
    }
    return n;
}

/* The first missing chunk from the origin on; `asked`: that is not asked for. There is one. */
static uint32_t first_missing(const struct uw_pull *p, bool asked)
{
    uint32_t taken;
    uint32_t n = p->base_word;
    for (;; n++) {
        uint32_t w = word_at(p, n);
        taken = p->have[w] | (asked ? p->out[w] : 0) | not_yet(p, n);
        if (taken != UINT32_MAX) {
            break;
        }
    }
    return word_at(p, n) * 32u + uw_lowest_bit(~taken);
}

void uw_pull_stop(struct uw_pull *p)
{
    if (p->active) {
        p->origin_n = uw_pull_complete(p) ? 0 : first_missing(p, false) * p->chunk_n;
    }
    p->active = false;
}

void uw_pull_paused(struct uw_pull *p, uint64_t paused_us)
{
    p->started_us += paused_us;
    p->progress_us += paused_us;
    for (uint32_t i = p->head; i != p->tail; i++) {
        p->asked[i & (p->asked_max - 1u)].due += in_16us(paused_us);
    }
    /* answers that waited meanwhile do not measure the path */
    memset(p->log, 0, p->log_max * sizeof *p->log);
}

void uw_pull_arrived(struct uw_pull *p, uint16_t seq, uint32_t offset_n, uint64_t now_us)
{
    uint32_t chunk = offset_n / p->chunk_n;
    uw_set_add(p->have, chunk);
    p->have_chunks++;
    if (uw_set_has(p->out, chunk)) {
        uw_set_remove(p->out, chunk);
        p->out_chunks--;
    }
    pass_words(p);
    p->progress_us = now_us;
    p->backoff = 0;
    if (p->pushed && seq == 0) {
        p->coming = chunk < p->coming ? p->coming : chunk + 1u;
        p->coming_us = now_us;
    }
    const struct uw_want_log *log = &p->log[seq & (p->log_max - 1u)];
    uint32_t bit = chunk - log->base;
    uint64_t upto = bit <= 63u ? log->wanted << (63u - bit) : 0;
    if (!log->used || log->seq != seq || upto >> 63 == 0) {
        return;     /* too old to learn from */
    }
    uint32_t rank = uw_bits_in(upto) - 1u;
    uint64_t due_us = log->sent_us + log->ahead_us + (uint64_t)log->spread_us * rank / log->chunks;
    uint32_t place = log->first + rank;
    if ((int32_t)(place + 1u - p->overtaken) > 0) {
        p->overtaken = place + 1u;
    } else if (p->overtaken - place > p->reorder) {
        p->reorder = p->overtaken - place < REORDER_MAX ? p->overtaken - place : REORDER_MAX;
    }
    path_answered(p, log, now_us > due_us ? now_us - due_us : 1u, now_us);
}

/* At the end there are no later answers that could overtake a lost one. Asking again early costs
 * little then; waiting would cost most of the time of a small pull on a lossy link. */
static uint32_t patience_us(const struct uw_pull *p)
{
    uint32_t rto = path_rto_us(p);
    if (p->lossless || p->srtt_us == 0 || p->backoff != 0 ||
        p->have_chunks + p->out_chunks < p->chunks || (float)p->out_chunks > p->window / 2.0f) {
        return rto;
    }
    return uw_min_u32(2u * (p->srtt_us + p->rttvar_us) + PROBE_SLACK_US, rto);
}

/* On a link that blocks its sender, a server with chunks to send does not pause. After a silence
 * all outstanding chunks, or the question, are lost. The delay of one chunk means nothing there. */
static uint64_t over_us(const struct uw_pull *p)
{
    return uw_max_u64(p->progress_us, p->want_us) + path_rto_us(p) +
           path_spread_us(p, STEADY_SILENCE);
}

/* Remove answered and lost chunks from the front of the queue. */
static void expire(struct uw_pull *p, uint64_t now_us)
{
    uint32_t rto = path_rto_us(p);
    uint32_t patience = patience_us(p);
    uint64_t over_at_us = over_us(p);
    bool late = false;
    for (; p->head != p->tail; p->head++) {
        const struct uw_asked *a = &p->asked[p->head & (p->asked_max - 1u)];
        if (!uw_set_has(p->out, a->chunk)) {
            path_ended(p, 0);
            continue;
        }
        bool timeout = now_us >= (p->chunk_us != 0 ? over_at_us
                                                   : asked_due_us(a, now_us) + patience);
        if (!timeout && (int32_t)(p->overtaken - p->head) <= (int32_t)p->reorder) {
            break;
        }
        uw_set_remove(p->out, a->chunk);
        p->out_chunks--;
        path_ended(p, 1);
        late = late || timeout;
    }
    /* Once per timeout without any answer, however many chunks are lost. */
    if (!late || now_us < p->progress_us + rto || now_us < p->timeout_us + rto) {
        return;
    }
    p->timeout_us = now_us;
    path_timed_out(p);
}

/* Chunks that may be asked for now. */
static uint32_t allowance(const struct uw_pull *p, uint32_t room_chunks)
{
    uint32_t limit = uw_min_u32((uint32_t)p->window, room_chunks);
    if (!p->active || limit <= p->out_chunks) {
        return 0;
    }
    uint32_t missing = p->chunks - p->have_chunks - p->out_chunks;
    uint32_t queue = p->asked_max - (p->tail - p->head);
    return uw_min_u32(uw_min_u32(limit - p->out_chunks, missing), uw_min_u32(queue, 64u));
}

/* When pushed chunks count as lost. To ask too early costs little: a server that still pushes does
 * not answer. */
static uint64_t overdue_us(const struct uw_pull *p)
{
    uint32_t patience = p->srtt_us != 0 ? p->srtt_us + PUSH_SLACK_US : path_rto_us(p);
    uint32_t least = p->lossless ? LOSSLESS_PUSH_US : 0;    /* early chunks may be dropped */
    return p->coming_us + uw_max_u32(patience, least);
}

/* Chunks before this one may be asked for. */
static uint32_t askable(const struct uw_pull *p, uint64_t now_us)
{
    if (!p->pushed || p->coming == p->chunks || now_us >= overdue_us(p)) {
        return p->chunks;
    }
    return p->coming > REORDER_MIN ? p->coming - REORDER_MIN : 0;
}

/* Small questions wait for a moment: one for each quarter of the window suffices. */
static uint64_t due_us(const struct uw_pull *p, uint32_t n, uint64_t now_us)
{
    if (p->chunk_us != 0) {
        bool asking = p->seq != 0 && p->want_us == now_us;      /* more in the same frame */
        return p->out_chunks <= STEADY_LOW || asking ? 0 : UINT64_MAX;
    }
    uint32_t batch = uw_min_u32((uint32_t)(p->window / 4.0f), 64u);
    if (n >= batch || n == p->chunks - p->have_chunks - p->out_chunks || p->out_chunks == 0) {
        return 0;
    }
    return p->want_us + uw_max_u32(p->srtt_us / 4u, 500u);
}

static void remember(struct uw_pull *p, const struct uw_want *want, uint32_t n, uint64_t now_us)
{
    uint32_t ahead_us = p->chunk_us != 0 ? path_spread_us(p, p->out_chunks) : 0;
    p->log[want->seq & (p->log_max - 1u)] = (struct uw_want_log){
        .sent_us = now_us, .ahead_us = ahead_us, .wanted = want->wanted, .base = want->base,
        .spread_us = want->spread_us, .first = p->tail, .delivered = p->have_chunks,
        .seq = want->seq, .chunks = (uint8_t)n, .used = true};
    uint64_t rest = want->wanted;
    for (uint32_t rank = 0; rank < n; rank++, rest &= rest - 1u) {
        uint32_t chunk = want->base + uw_lowest_bit(rest);
        uw_set_add(p->out, chunk);
        p->asked[p->tail++ & (p->asked_max - 1u)] = (struct uw_asked){
            .due = in_16us(now_us + ahead_us + (uint64_t)want->spread_us * rank / n),
            .chunk = chunk};
        uint32_t place = chunk - p->origin + (chunk < p->origin ? p->chunks : 0);
        if (place < p->frontier) {
            p->again_n++;
        } else {
            p->frontier = place + 1u;
        }
    }
    p->out_chunks += n;
    p->want_us = now_us;
}

void uw_pull_expect(struct uw_pull *p, uint32_t chunks, uint64_t now_us)
{
    chunks = uw_min_u32(uw_min_u32(chunks, 64u), p->chunks);
    const struct uw_want want = {.seq = p->seq++, .base = p->origin,
                                 .wanted = UINT64_MAX >> (64u - chunks)};
    remember(p, &want, chunks, now_us);
    p->log[want.seq & (p->log_max - 1u)].used = false;      /* its time is not known */
}

void uw_pull_pushed(struct uw_pull *p, uint64_t now_us)
{
    p->pushed = true;
    p->coming = 0;
    p->coming_us = now_us;
    p->seq = 1;     /* 0: no answer */
}

bool uw_pull_next(struct uw_pull *p, uint32_t room_chunks, uint64_t now_us, struct uw_want *want)
{
    if (!p->active) {
        return false;
    }
    expire(p, now_us);
    uint32_t n = allowance(p, room_chunks);
    if (n == 0 || now_us < due_us(p, n, now_us)) {
        return false;
    }
    uint32_t base = first_missing(p, true), end = askable(p, now_us);
    uint64_t wanted;
    if (base >= end) {
        return false;
    }
    n = uw_want_missing(p->have, p->out, base, end, n, &wanted);
    *want = (struct uw_want){
        .transfer = p->transfer, .seq = p->seq++, .base = base, .wanted = wanted,
        .chunk_n = p->chunk_n | (p->coded ? UW_WANT_CODED : 0), .spread_us = path_spread_us(p, n)};
    remember(p, want, n, now_us);
    if (p->chunk_us != 0) {
        want->spread_us = 0;        /* as fast as the link allows */
    }
    return true;
}

uint64_t uw_pull_next_us(const struct uw_pull *p, uint32_t room_chunks, uint64_t now_us)
{
    if (!p->active || uw_pull_complete(p)) {
        return UINT64_MAX;
    }
    uint64_t next = UINT64_MAX;
    if (p->head != p->tail) {
        const struct uw_asked *first = &p->asked[p->head & (p->asked_max - 1u)];
        next = p->chunk_us != 0 ? over_us(p) : asked_due_us(first, now_us) + patience_us(p);
    }
    uint32_t n = allowance(p, room_chunks);
    if (n != 0) {
        bool comes = p->pushed && first_missing(p, true) >= askable(p, now_us);
        next = uw_min_u64(next, comes ? overdue_us(p) : due_us(p, n, now_us));
    }
    return uw_max_u64(next, now_us);
}

/* ---- received chunks: whole, or in two parts (UW_WANT_CODED) ---- */

int uw_pull_place_parts(struct uw_pull *p, struct uw_arena *arena)
{
    void *part = NULL;
    int rc = uw_arena_take(arena, uw_size_mul(p->words_max, 2u * sizeof *p->parts), &part);
    p->parts = part;
    return rc;
}

void uw_pull_coded(struct uw_pull *p)
{
    p->coded = p->parts != NULL;
    if (p->coded) {
        memset(p->parts, 0, 2u * words_of(p) * sizeof *p->parts);
    }
}

/* The part of a chunk that these floats are. */
static uint32_t part_of(const struct uw_pull *p, uint32_t offset_n, uint32_t count_n)
{
    uint32_t at = offset_n % p->chunk_n, n = uw_min_u32(p->size_n - offset_n + at, p->chunk_n);
    uint32_t first_n = uw_first_part_n(n);
    if (at == 0 && count_n == n) {
        return WHOLE;
    }
    return !p->coded                                    ? NEITHER
           : at == 0 && count_n == first_n              ? 0
           : at == first_n && count_n == n - first_n    ? 1
                                                        : NEITHER;
}

int uw_pull_check(struct uw_pull *p, uint16_t transfer, uint32_t offset_n, uint32_t count_n)
{
    if (!p->active || transfer != p->transfer) {
        return UW_ERR_MISMATCH;
    }
    uint32_t part = offset_n < p->size_n ? part_of(p, offset_n, count_n) : NEITHER;
    if (part == NEITHER) {
        return UW_ERR_CORRUPT;
    }
    uint32_t chunk = offset_n / p->chunk_n;
    if (uw_set_has(p->have, chunk) ||
        (part != WHOLE && uw_set_has(p->parts, 2u * chunk + part))) {
        p->twice_n++;
        return UW_ERR_AGAIN;
    }
    return UW_OK;
}

uint32_t uw_pull_new(const struct uw_pull *p, uint32_t *offset_n, uint32_t *count_n)
{
    uint32_t chunk = *offset_n / p->chunk_n, first_n = uw_first_part_n(*count_n);
    if (!p->coded || part_of(p, *offset_n, *count_n) != WHOLE) {
        return 0;
    }
    if (uw_set_has(p->parts, 2u * chunk)) {
        *offset_n += first_n;
        *count_n -= first_n;
        return first_n;
    }
    *count_n = uw_set_has(p->parts, 2u * chunk + 1u) ? first_n : *count_n;
    return 0;
}

void uw_pull_took(struct uw_pull *p, uint16_t seq, uint32_t offset_n, uint32_t count_n,
                  uint64_t now_us)
{
    uint32_t part = part_of(p, offset_n, count_n), chunk = offset_n / p->chunk_n;
    if (part != WHOLE) {
        uw_set_add(p->parts, 2u * chunk + part);
        p->progress_us = now_us;
        p->backoff = 0;
        if (!uw_set_has(p->parts, 2u * chunk + 1u - part)) {
            return;
        }
        p->split_n++;
    }
    uw_pull_arrived(p, seq, chunk * p->chunk_n, now_us);
}
