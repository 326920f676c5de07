/* SPDX-License-Identifier: Apache-2.0
 *
 * Sending: pushed chunks, chunks that are asked for, and copies for later questions.
 *
 * The rate of pushed messages is measured. The receiver of a message measures its fastest span: the
 * first chunks arrive as fast as the path allows, even if questions and answers slow down the rest.
 * It reports the rate with its GOT, and the sender pushes its next message at that rate, plus some
 * chunks at first, to detect a faster path. When much of a message is lost, the receiver asks for
 * the rest, and the sender pushes only first chunks for a while, which doubles with each such
 * message. */
#include "allreduce_priv.h"

#include "base/bits.h"

#include <string.h>

#define PUSH_CHUNKS UW_ALLREDUCE_PUSH_CHUNKS
#define SEND_RETRY_MAX_US 20000u
#define CHUNK_MAX_NS 1e11f
#define BURST_MIN 8u                /* enough to measure */
#define SPAN_US 2000u               /* shorter ones measure timers ... */
#define SPAN_CHUNKS 4u              /* ... and bursts of a queue */
#define LOSSY 8u                    /* if one chunk in so many is lost, asking is better */
#define FAILS 8u                    /* chunks missing before the last one, and a quarter */
#define WARY_MAX 6u
#define SLOW_US 2000u               /* of a chunk: on slower paths asking costs little */
#define OTHERS 8.0f                 /* chunks of others between two, on a shared channel */
#define MEASURED_MAX 4e9f
#define PUSH_GAIN 1.05f             /* faster than measured, so that it can grow */

/* ---- rates ---- */

/* The rate of pushes to a rank in floats a microsecond; 0: not known. */
static float rate_to(const struct uw_allreduce *a, uint32_t rank)
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
    return (struct uw_path){.rtt_us = (uint32_t)uw_min_u64(rtt_us, UINT32_MAX),
                            .floats_per_us = rate, .lossless = a->config.lossless};
}

/* Measure the span up to the last chunk, if it is long enough. Returns whether it is. */
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

/* Chunks read at one time arrived up to then: a span ends with them, or begins after them. */
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

/* Update a rate. One slower measurement at most halves it; a lower bound (no span was long enough)
 * can only raise it. */
static void merge(float *known, float rate, bool least)
{
    float lowest = least ? *known : *known / 2.0f;
    *known = rate > lowest && !(least && *known <= 0.0f) ? rate : lowest;
}

uint32_t uw_allreduce_measured(struct uw_allreduce *a)
{
    struct uw_allreduce_meter *m = &a->meter;
    uint32_t chunks = uw_chunks_in(a->step.recv_n, a->r.chunk_n);
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
    bool shared = may_lose && 2u * LOSSY * m->asked > chunks;   /* other ranks push as well */
    float rate = least > m->rate || shared ? least : m->rate;
    if (m->all_n == 0) {
        return UW_MEASURED_NOTHING;
    }
    merge(&a->ways[a->step.from].from, rate, m->rate <= 0.0f);
    uint32_t per_s = 1e6f * rate < MEASURED_MAX ? (uint32_t)(1e6f * rate) : (uint32_t)MEASURED_MAX;
    return (per_s | 3u) - (m->rate > 0.0f ? 1u : 0);
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

/* ---- sending ---- */

const float *uw_allreduce_copy(const struct uw_allreduce *a, uint32_t round, uint32_t k,
                               uint32_t *n)
{
    const struct uw_allreduce_kept *kept = &a->kept[round % 2];
    if (kept->round != round || k >= kept->steps_n || kept->message[k].n == 0) {
        return NULL;
    }
    *n = kept->message[k].n;
    return kept->x + kept->message[k].at;
}

int uw_allreduce_send(struct uw_allreduce *a, uint32_t rank, struct uw_part *p)
{
    p->group = a->r.group;
    return p->type == UW_PART_DATA ? a->config.send(a->config.arg, rank, p)
                                   : uw_part_post(&a->queue, rank, p);
}

/* The current push of a step; NULL: none. */
static struct uw_allreduce_out *push_of(struct uw_allreduce *a, uint32_t rank, uint32_t round,
                                        uint32_t k)
{
    for (uint32_t i = 0; i < a->out_n; i++) {
        struct uw_allreduce_out *o = &a->out[i];
        if (o->chunks != 0 && o->rank == rank && o->round == round && o->want.transfer == k) {
            return o;
        }
    }
    return NULL;
}

/* Continue a paused push at its pace, without making up for the pause. */
static void go_on(struct uw_allreduce *a, struct uw_allreduce_out *o)
{
    const uint64_t now_ns = a->now_us * 1000u;
    if (o->paused) {
        o->start_us = o->sent != 0 ? a->now_us : o->start_us;
        o->ahead = o->sent != 0 && o->ahead != 0 ? o->sent : o->ahead;
        a->pace_ns = uw_max_u64(a->pace_ns, now_ns);
    }
    o->paused = false;
}

/* The chunks of a want that no current push will send. */
static uint64_t not_coming(struct uw_allreduce *a, uint32_t rank, uint32_t round,
                           const struct uw_want *want)
{
    struct uw_allreduce_out *o = push_of(a, rank, round, want->transfer);
    if (o != NULL) {
        go_on(a, o);            /* a rank that asks has room */
    }
    if (o == NULL || o->want.wanted == 0) {
        return want->wanted;
    }
    uint32_t next = o->want.base + uw_lowest_bit(o->want.wanted);
    if (next <= want->base) {
        return 0;
    }
    return want->wanted & uw_low_mask(next - want->base);
}

void uw_allreduce_add_out(struct uw_allreduce *a, uint32_t rank, uint32_t round,
                    const struct uw_want *want)
{
    uint64_t wanted = not_coming(a, rank, round, want);
    if (a->out_n == UW_ALLREDUCE_OUT_MAX || wanted == 0) {
        return;     /* the rank asks again */
    }
    struct uw_allreduce_out *o = &a->out[a->out_n++];
    *o = (struct uw_allreduce_out){.rank = rank, .round = round, .want = *want,
                                   .start_us = a->now_us, .total = uw_bits_in(wanted)};
    o->want.wanted = wanted;
}

static void drop_out(struct uw_allreduce *a, uint32_t i)
{
    a->out_n--;
    memmove(&a->out[i], &a->out[i + 1], (a->out_n - i) * sizeof a->out[0]);
}

void uw_allreduce_steer(struct uw_allreduce *a, uint32_t rank, uint32_t round, uint32_t k,
                        enum uw_allreduce_steer how)
{
    struct uw_allreduce_out *o = push_of(a, rank, round, k);
    if (o == NULL) {
        return;
    }
    switch (how) {
    case UW_PUSH_PAUSE: o->paused = true; break;
    case UW_PUSH_GO_ON: go_on(a, o); break;
    default: drop_out(a, (uint32_t)(o - a->out)); break;
    }
}

/* Time of a chunk at the rate of its push. */
static uint64_t chunk_ns(const struct uw_allreduce *a, float floats_per_us)
{
    float ns = 1e3f * (float)a->r.chunk_n / (PUSH_GAIN * floats_per_us);
    return ns < CHUNK_MAX_NS ? (uint64_t)ns : (uint64_t)CHUNK_MAX_NS;
}

static uint64_t retry_us(const struct uw_allreduce *a)
{
    uint64_t half_us = a->r.floats_per_us > 0.0f ? chunk_ns(a, a->r.floats_per_us) / 2000u : 0;
    return a->now_us + uw_max_u64(uw_min_u64(half_us, SEND_RETRY_MAX_US), UW_PARTS_RETRY_US);
}

static uint64_t due_us(const struct uw_allreduce *a, const struct uw_allreduce_out *o)
{
    if (o->chunks != 0 && o->ahead == 0) {
        return uw_max_u64(a->pace_ns / 1000u, o->start_us);
    }
    if (o->chunks != 0) {
        uint32_t paced = o->sent > o->ahead ? o->sent - o->ahead : 0;
        return o->start_us + paced * chunk_ns(a, o->floats_per_us) / 1000u;
    }
    return o->start_us + (uint64_t)o->want.spread_us * o->sent / o->total;
}

/* The floats that a question asks for; NULL: no longer available. */
static const float *source_of(const struct uw_allreduce *a, const struct uw_allreduce_out *o,
                              uint32_t *n)
{
    uint32_t k = o->want.transfer;
    const float *copy = uw_allreduce_copy(a, o->round, k, n);
    if (copy != NULL || o->round != a->r.round || a->state == UW_ALLREDUCE_IDLE || k > a->k ||
        k >= a->steps_n) {
        return copy;
    }
    struct uw_allreduce_step s = uw_allreduce_step_at(a, k);
    *n = s.send_n;
    if (k == a->held) {
        return s.to == o->rank ? a->scratch : NULL;
    }
    return s.to == o->rank && !a->got[k] && a->r.x != NULL ? a->r.x + s.send_at : NULL;
}

/* Send the next chunk of a question. Returns false when the link is full. */
static bool send_chunk(struct uw_allreduce *a, struct uw_allreduce_out *o)
{
    uint32_t n = 0, chunk_n = a->r.chunk_n;
    const float *x = source_of(a, o, &n);
    uint32_t at = (o->want.base + uw_lowest_bit(o->want.wanted)) * chunk_n;
    if (x == NULL || at >= n) {
        o->want.wanted = 0;
        return true;
    }
    struct uw_part p = {.type = UW_PART_DATA, .round = o->round, .step = o->want.transfer,
                        .seq = o->want.seq, .offset_n = at, .count_n = uw_min_u32(chunk_n, n - at),
                        .floats = x + at, .reply = o->chunks != 0};
    if (uw_allreduce_send(a, o->rank, &p) == UW_ERR_AGAIN) {
        return false;
    }
    o->want.wanted &= o->want.wanted - 1u;
    if (o->sent++ == 0 && o->ahead != 0) {
        o->start_us = a->now_us;
    }
    if (o->chunks != 0) {
        a->pace_ns += o->ahead == 0 ? chunk_ns(a, o->floats_per_us) : 0;
        if (o->want.wanted == 0 && o->want.base + 64u < o->chunks) {
            o->want.base += 64u;
            o->want.wanted = uw_low_mask(o->chunks - o->want.base);
        }
    }
    return true;
}

/* Must a push wait for an earlier one? */
static bool waits_for_push(const struct uw_allreduce *a, uint32_t i)
{
    uint32_t j = 0;
    while (j < i && (a->out[j].chunks == 0 || a->out[j].paused)) {
        j++;
    }
    return j < i && a->out[i].chunks != 0;
}

/* Returns when the next chunk is due. */
static uint64_t send_data(struct uw_allreduce *a)
{
    uint64_t next_us = UINT64_MAX;
    uint32_t sent = 0;
    for (uint32_t i = 0; i < a->out_n;) {
        struct uw_allreduce_out *o = &a->out[i];
        bool room = true;
        uint32_t n;
        if (source_of(a, o, &n) == NULL) {
            drop_out(a, i);
            continue;
        }
        if (o->paused || waits_for_push(a, i)) {
            i++;
            continue;
        }
        while (room && o->want.wanted != 0 && due_us(a, o) <= a->now_us &&
               sent < UW_PARTS_SENT_MOST) {
            room = send_chunk(a, o);
            a->data_first = a->data_first && !room;
            sent++;
        }
        if (o->want.wanted == 0) {
            drop_out(a, i);
            continue;
        }
        uint64_t again_us = room ? due_us(a, o) : retry_us(a);
        next_us = uw_min_u64(next_us, again_us);
        i++;
    }
    return next_us;
}

/* On a full link questions and data take turns, so that neither starves the other. */
uint64_t uw_allreduce_send_out(struct uw_allreduce *a)
{
    uint64_t next_us = UINT64_MAX;
    uint32_t sent = a->data_first ? 0 : uw_part_flush(&a->queue);
    a->data_first = a->data_first || sent > 0;
    if (a->queue.n == 0 || a->data_first) {
        next_us = send_data(a);
    }
    sent = uw_part_flush(&a->queue);
    a->data_first = a->data_first || sent > 0;
    uint64_t again_us = a->queue.n > 0 ? retry_us(a) : UINT64_MAX;
    return uw_min_u64(next_us, again_us);
}

void uw_allreduce_keep(struct uw_allreduce *a, const struct uw_allreduce_step *s)
{
    struct uw_allreduce_kept *kept = &a->kept[a->r.round % 2];
    kept->message[a->k].n = 0;
    kept->steps_n = a->k + 1;
    if (s->send_n > 0 && s->send_n <= a->config.small_n &&
        s->send_n <= a->store_n - kept->used_n) {
        kept->message[a->k].at = kept->used_n;
        kept->message[a->k].n = s->send_n;
        kept->message[a->k].to = s->to;
        memcpy(kept->x + kept->used_n, a->r.x + s->send_at, s->send_n * sizeof(float));
        kept->used_n += s->send_n;
    }
}

/* Chunks that a push sends at once: as many as the path holds, to detect a faster path. */
static uint32_t burst(const struct uw_allreduce *a, float floats_per_us)
{
    float way = floats_per_us * (float)a->r.rtt_us / (float)a->r.chunk_n;
    if (a->r.floats_per_us > 0.0f) {
        return 0;
    }
    return a->r.rtt_us == 0 || way > (float)PUSH_CHUNKS ? PUSH_CHUNKS
           : way > (float)BURST_MIN                     ? (uint32_t)way
                                                        : BURST_MIN;
}

void uw_allreduce_push(struct uw_allreduce *a, const struct uw_allreduce_step *s, uint32_t k,
                       uint32_t base)
{
    uint32_t chunk_n = a->r.chunk_n;
    uint32_t chunks = uw_chunks_in(s->send_n, chunk_n);
    float floats_per_us = rate_to(a, s->to);
    bool whole = floats_per_us > 0.0f;
    if (s->to == UW_RANK_NONE || base >= chunks) {
        return;
    }
    uint32_t first = uw_min_u32(chunks - base, whole ? 64u : PUSH_CHUNKS), before = a->out_n;
    const struct uw_want want = {.transfer = (uint16_t)k, .chunk_n = chunk_n, .base = base,
                                 .wanted = uw_low_mask(first)};
    uw_allreduce_add_out(a, s->to, a->r.round, &want);
    if (whole && a->out_n > before) {
        a->out[before].chunks = chunks;
        a->out[before].floats_per_us = floats_per_us;
        a->out[before].ahead = burst(a, floats_per_us);
        if (a->out[before].ahead != 0 && a->push_us > a->now_us) {
            a->out[before].start_us = a->push_us;
        }
        a->pace_ns = uw_max_u64(a->pace_ns, a->out[before].start_us * 1000u);
    }
}

