/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast messages come, and how fast they are pushed therefore. Who receives one measures the
 * fastest span of it: what is pushed at first comes as fast as the way takes it, also when the rest
 * is slowed down by questions and answers. It tells the sender with its GOT, and the sender pushes
 * its next message at that rate: what is on its way is what the way holds, and some chunks at first
 * that show whether it holds more. When much of a message gets lost the receiver asks for the rest,
 * and the sender pushes first chunks only for a while, the longer, the more often. */
#include "allreduce_priv.h"

#include "base/bits.h"

#define SPAN_US 2000u               /* shorter ones measure timers ... */
#define SPAN_CHUNKS 4u              /* ... and how a queue lets go of messages */
#define LOSSY 8u                    /* one chunk in so many is lost: questions do better */
#define FAILS 8u                    /* chunks missing before the last that came, and a quarter */
#define WARY_MAX 6u
#define SLOW_US 2000u               /* for a chunk: questions hold up little, and flood nothing */
#define OTHERS 8.0f                 /* chunks of others between two, on a channel for all */
#define MEASURED_MAX 4e9f

float uw_allreduce_rate_to(const struct uw_allreduce *a, uint32_t rank)
{
    if (a->r.floats_per_us > 0.0f || rank >= a->r.ranks) {
        return a->r.floats_per_us;
    }
    const struct uw_allreduce_way *w = &a->ways[rank];
    bool slow = w->to * (float)SLOW_US < (float)a->r.chunk_n;
    return w->pause == 0 && !slow ? w->to : 0.0f;
}

struct uw_path uw_allreduce_meter_start(struct uw_allreduce *a, bool whole)
{
    float known = whole && a->ways[a->step.from].wary == 0 ? a->ways[a->step.from].from : 0.0f;
    float rate = a->r.floats_per_us > 0.0f ? a->r.floats_per_us : known;
    uint64_t rtt_us = a->r.rtt_us;
    a->meter = (struct uw_allreduce_meter){.whole = whole};
    if (whole && a->r.floats_per_us <= 0.0f && rate > 0.0f) {
        rtt_us += (uint64_t)(OTHERS * (float)a->r.chunk_n / rate);
    }
    return (struct uw_path){.rtt_us = (uint32_t)(rtt_us < UINT32_MAX ? rtt_us : UINT32_MAX),
                            .floats_per_us = rate, .lossless = a->config.lossless};
}

/* The span up to the last chunk, if it is long enough. */
static bool end_span(struct uw_allreduce *a)
{
    struct uw_allreduce_meter *m = &a->meter;
    uint64_t span_us = m->last_us - m->from_us;
    if (span_us < SPAN_US || m->span_n < SPAN_CHUNKS * a->r.chunk_n) {
        return false;
    }
    float rate = (float)m->span_n / (float)span_us;
    m->rate = rate > m->rate ? rate : m->rate;
    return true;
}

/* What is read at one moment came before it: a span begins after that, or ends with it. */
void uw_allreduce_meter_add(struct uw_allreduce *a, uint32_t n)
{
    struct uw_allreduce_meter *m = &a->meter;
    if (m->first_us == 0) {
        m->first_us = m->from_us = m->last_us = a->now_us;
    }
    if (a->now_us > m->last_us) {
        if (end_span(a)) {
            m->from_us = m->last_us;
            m->span_n = 0;
        }
        m->last_us = a->now_us;
    }
    m->span_n += a->now_us > m->from_us ? n : 0;
    m->all_n += a->now_us > m->first_us ? n : 0;
}

bool uw_allreduce_push_fails(struct uw_allreduce *a)
{
    uint32_t missing = a->pull.coming > a->pull.have_chunks ? a->pull.coming - a->pull.have_chunks
                                                            : 0;
    return a->r.floats_per_us <= 0.0f && a->pull.pushed && !a->config.lossless &&
           !a->meter.stopped && missing >= FAILS && 4u * missing > a->pull.coming;
}

/* A way that is slower at one time does not count in full. What no span was long enough for only
 * goes up. */
static void merge(float *known, float rate, bool least)
{
    float lowest = least ? *known : *known / 2.0f;
    *known = rate > lowest && !(least && *known <= 0.0f) ? rate : lowest;
}

uint32_t uw_allreduce_measured(struct uw_allreduce *a)
{
    struct uw_allreduce_meter *m = &a->meter;
    uint32_t chunks = (a->step.recv_n - 1u) / a->r.chunk_n + 1u;
    uint64_t took_us = m->last_us - m->first_us;
    if (m->stopped) {
        return UW_MEASURED_NOTHING;
    }
    bool may_lose = m->whole && !a->config.lossless;
    if (may_lose && LOSSY * m->asked > chunks) {
        return UW_MEASURED_LOSS;
    }
    (void)end_span(a);
    float least = (float)m->all_n / (float)(took_us > SPAN_US ? took_us : SPAN_US);
    bool shared = may_lose && 2u * LOSSY * m->asked > chunks;   /* with others, who push as well */
    float rate = least > m->rate || shared ? least : m->rate;
    if (m->all_n == 0) {
        return UW_MEASURED_NOTHING;
    }
    merge(&a->ways[a->step.from].from, rate, m->rate <= 0.0f);
    uint32_t told = 1e6f * rate < MEASURED_MAX ? (uint32_t)(1e6f * rate) : (uint32_t)MEASURED_MAX;
    return (told | 3u) - (m->rate > 0.0f ? 1u : 0);
}

void uw_allreduce_learn(struct uw_allreduce *a, uint32_t rank, uint32_t measured)
{
    struct uw_allreduce_way *w = &a->ways[rank];
    bool least = (measured & 1u) != 0;
    float rate = 1e-6f * (float)measured;
    if (measured == UW_MEASURED_LOSS) {
        w->wary = (uint8_t)uw_min_u32(w->wary + 1u, WARY_MAX);
        w->pause = (uint8_t)((2u << w->wary) - 1u);
    } else if (measured != UW_MEASURED_NOTHING) {
        if (w->pause > 0) {
            w->pause--;
        } else if (w->wary > 0) {
            w->wary--;
        }
        merge(&w->to, rate, least);
    }
}
