/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer_path.h"

#include "base/backoff.h"

#include <string.h>

#define WINDOW_FIRST 4.0f           /* a board's receive queue holds about this many large frames */
#define WINDOW_MIN 4.0f
#define WINDOW_TELLING 16.0f         /* below, a rate that does not grow is chance */
#define TIMEOUTS_FREE 3u            /* in a row, before they mean more than bad luck */
#define RTT_MAX_US 600000000u       /* nothing that takes longer is a round trip */
#define RTO_UNKNOWN_US 300000u
#define LOSSLESS_US 1000000u
#define RTO_MIN_US 20000u
#define RTO_MAX_US 2000000u
#define RTO_SLACK_US 10000u
#define SLACK_US 5000.0f            /* timers and threads are no better than a few milliseconds */
#define SLACK_MAX_US 100000.0f
#define MIN_RTT_AGE_US 10000000u
#define LOSS_STEP (1.0f / 64.0f)
#define SLOW_HALF 16.0f             /* samples that weigh as much as what was known before */
#define PHASES 8u
#define LOSS_MAX 0.8f
#define LOSS_START 0.1f            /* ends the start at the first round without growth */
#define SPREAD_MAX_US 500000.0f
#define STEADY_MAX_US 2000000000u   /* of what a link takes for all that is outstanding */
#define STEADY_RTO_CHUNKS 4u        /* an answer takes so long at least, ... */
#define STEADY_RTO_MOST 16u         /* ... and so many times longer at most */

static void set_to(struct uw_pull *p, float window)
{
    p->window = window < p->window_most ? window : p->window_most;
}

void uw_path_start(struct uw_pull *p, const struct uw_path *path)
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

/* Round trips are RTT_MAX_US at most, so that sums of a few of them fit 32 bits.
 * RFC 6298 for the smoothed values; the smallest ages, so that a longer route is believed. */
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
    if (p->reorder > UW_PATH_REORDER_MIN) {
        p->reorder -= (p->reorder - UW_PATH_REORDER_MIN + 7u) / 8u;
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

void uw_path_answered(struct uw_pull *p, const struct uw_want_log *log, uint64_t rtt_us,
                      uint64_t now_us)
{
    learn_rtt(p, rtt_us < RTT_MAX_US ? (uint32_t)rtt_us : RTT_MAX_US, now_us);
    learn_rate(p, log, now_us);
    if ((int32_t)(p->overtaken - p->round_end) > 0) {
        end_round(p);
    }
    set_window(p);
}

uint32_t uw_path_rto_us(const struct uw_pull *p)
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
    uint64_t least = chunks_us > RTO_MIN_US ? chunks_us : RTO_MIN_US;
    uint64_t most = STEADY_RTO_MOST * chunks_us > RTO_MAX_US ? STEADY_RTO_MOST * chunks_us
                                                             : RTO_MAX_US;
    most = most > 2u * p->srtt_us ? most : 2u * p->srtt_us;     /* no answer comes sooner */
    most = uw_min_u64(most, RTT_MAX_US);
    uint64_t us = rto > least ? rto : least;
    /* How late the last of all that is outstanding comes others decide: no pause takes so long. */
    us = p->chunk_us != 0 ? uw_min_u64(us, STEADY_RTO_MOST * chunks_us) : us;
    return (uint32_t)uw_min_u64(uw_backoff_after(us, doublings, 7), most);
}

/* What was asked in the slow round tells loss by chance, which does not care how fast we ask, from
 * loss by a full queue, which the slow round does not see: only the first is made up for by asking
 * more. */
void uw_path_ended(struct uw_pull *p, uint32_t lost)
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

void uw_path_timed_out(struct uw_pull *p)
{
    if (++p->backoff > TIMEOUTS_FREE && p->chunk_us == 0) {
        set_to(p, p->window / 2.0f > WINDOW_MIN ? p->window / 2.0f : WINDOW_MIN);
    }
}

/* One round in eight is slow: queues drain, and loss by chance shows. A later one asks for more, to
 * find out whether the path has more. */
static float pace_gain(const struct uw_pull *p)
{
    return p->phase == 0 ? 0.6f : p->phase == PHASES / 2u ? 1.25f : 1.0f;
}

uint32_t uw_path_spread_us(const struct uw_pull *p, uint32_t n)
{
    float spread = 0.0f;
    if (p->chunk_us != 0) {
        float measured = p->rate > 0.0f ? 1.0f / p->rate : 0.0f, least = (float)p->chunk_us;
        float us = (float)n * (measured > least ? measured : least);
        return us < (float)STEADY_MAX_US ? (uint32_t)us : STEADY_MAX_US;
    }
    if (p->fits) {
        return 0;       /* all that is outstanding may come at once */
    }
    if (p->starting) {
        spread = (float)n * (float)p->min_rtt_us / (2.0f * p->window);
    } else if (p->rate > 0.0f) {
        spread = (float)n / (pace_gain(p) * asking_rate(p));
    }
    return (uint32_t)(spread < SPREAD_MAX_US ? spread : SPREAD_MAX_US);
}
