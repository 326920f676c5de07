/* SPDX-License-Identifier: Apache-2.0
 *
 * A round over links that lose nothing and keep the order: chunks go out as soon as their floats
 * are final, and are taken in as they come; nobody asks and nobody answers. A rank receives step by
 * step, and sends a few steps ahead of that: what no longer waits for anything to arrive. A chunk
 * that would overwrite what is still to be sent has to wait.
 *
 * Large vectors are worked in segments, one round of steps each, so that what is added up is handed
 * on while it is still in a cache. ABREAST of them take turns, step by step: while one waits for
 * its peer, the other has something to send. */
#include "allreduce_priv.h"

#include "base/bits.h"
#include "uwasa/mix.h"

#include <string.h>

#define ABREAST 2u
#define BURST_CHUNKS 2u             /* sent in one run, while something is to be received */
#define SEND_RETRY_US 100u
#define STEPS_MAX 65535u            /* what a message can say */

/* Where a step of the round belongs. */
struct place {
    uint32_t at, n;             /* the segment */
    uint32_t k;                 /* step of its own */
    uint32_t abreast;           /* segments worked in turns: its step before this one lies so many
                                   steps of the round back */
};

static struct place place_of(const struct uw_allreduce *a, uint32_t k)
{
    const struct uw_allreduce_stream *t = &a->stream;
    uint32_t row = k / (a->steps_n * ABREAST) * ABREAST, turn = k % (a->steps_n * ABREAST);
    uint32_t abreast = uw_min_u32(ABREAST, t->steps_n / a->steps_n - row);
    uint32_t at = (row + turn % abreast) * t->segment_n;
    return (struct place){.at = at, .n = uw_min_u32(t->segment_n, a->r.size_n - at),
                          .k = turn / abreast, .abreast = abreast};
}

static struct uw_allreduce_step step_at(const struct uw_allreduce *a, uint32_t k)
{
    struct place p = place_of(a, k);
    struct uw_allreduce_step s = uw_allreduce_step(a->r.kind, a->r.ranks, a->r.rank, p.n, p.k);
    s.send_at += p.at;
    s.recv_at += p.at;
    return s;
}

/* What the sum that a step completes is multiplied by. */
static float share_at(const struct uw_allreduce *a, uint32_t k)
{
    struct place p = place_of(a, k);
    uint32_t at;
    bool owned = a->r.average &&
                 uw_allreduce_owned(a->r.kind, a->r.ranks, a->r.rank, p.n, p.k, &at) > 0;
    return owned ? 1.0f / (float)a->r.ranks : 1.0f;
}

static void load_recv(struct uw_allreduce *a)
{
    struct uw_allreduce_stream *t = &a->stream;
    t->taken_n = 0;
    if (t->recv_k < t->steps_n) {
        t->recv = step_at(a, t->recv_k);
        t->share = share_at(a, t->recv_k);
    }
}

static void load_send(struct uw_allreduce *a)
{
    struct uw_allreduce_stream *t = &a->stream;
    t->sent_n = 0;
    if (t->send_k < t->steps_n) {
        t->send = step_at(a, t->send_k);
    }
}

/* On to the next steps as far as what was sent and taken allows. */
static void advance(struct uw_allreduce *a)
{
    struct uw_allreduce_stream *t = &a->stream;
    for (bool moved = true; moved;) {
        moved = false;
        if (t->send_k < t->recv_k + ABREAST && t->send_k < t->steps_n &&
            t->sent_n == t->send.send_n) {
            t->send_k++;
            load_send(a);
            moved = true;
        }
        if (t->recv_k < t->send_k && t->taken_n == t->recv.recv_n) {
            t->recv_k++;
            load_recv(a);
            moved = true;
        }
        if (t->recv_k == t->steps_n) {
            a->state = UW_ALLREDUCE_DONE;
            return;
        }
    }
}

void uw_allreduce_stream_begin(struct uw_allreduce *a)
{
    struct uw_allreduce_stream *t = &a->stream;
    uint32_t segment_n = a->config.segment_n;
    uint32_t most = a->steps_n > 0 ? STEPS_MAX / a->steps_n : 1;
    if (segment_n == 0 || segment_n >= a->r.size_n) {
        segment_n = a->r.size_n > 0 ? a->r.size_n : 1;
    }
    if ((a->r.size_n - 1u) / segment_n >= most) {
        segment_n = a->r.size_n / most + 1u;
    }
    uint32_t segments = a->r.size_n > 0 ? (a->r.size_n - 1u) / segment_n + 1u : 1;
    *t = (struct uw_allreduce_stream){.segment_n = segment_n,
                                      .steps_n = segments * a->steps_n};
    if (a->steps_n == 0) {
        a->state = UW_ALLREDUCE_DONE;
        return;
    }
    load_send(a);
    load_recv(a);
    advance(a);
}

static void add(const float *restrict s, uint32_t n, float *restrict x)
{
    for (uint32_t i = 0; i < n; i++) {
        x[i] += s[i];
    }
}

static void add_and_scale(const float *restrict s, uint32_t n, float share, float *restrict x)
{
    for (uint32_t i = 0; i < n; i++) {
        x[i] = (x[i] + s[i]) * share;
    }
}

static void apply(const struct uw_allreduce_stream *t, const float *s, uint32_t n, float *x)
{
    if (t->recv.take == UW_TAKE_COPY) {
        memcpy(x, s, n * sizeof(float));
    } else if (t->recv.take == UW_TAKE_MIX) {
        uw_mix_chunk(t->recv.weight, n, s, x);
    } else if (t->share < 1.0f) {
        add_and_scale(s, n, t->share, x);
    } else {
        add(s, n, x);
    }
}

/* Would floats from `at` on overwrite what this step still has to send? */
static bool is_unsent(const struct uw_allreduce_stream *t, uint32_t at, uint32_t n)
{
    uint32_t from = t->send.send_at + t->sent_n, to = t->send.send_at + t->send.send_n;
    return t->send_k == t->recv_k && at < to && at + n > from;
}

int uw_allreduce_stream_take(struct uw_allreduce *a, uint32_t from, const struct uw_part *p)
{
    struct uw_allreduce_stream *t = &a->stream;
    if (p->type != UW_PART_DATA) {
        return UW_OK;
    }
    if (p->round > a->r.round) {
        return UW_ERR_AGAIN;
    }
    if (p->round < a->r.round || a->state != UW_ALLREDUCE_RUNNING || p->step < t->recv_k) {
        return UW_OK;
    }
    if (p->step > t->recv_k) {
        return UW_ERR_AGAIN;
    }
    if (from != t->recv.from || p->offset_n != t->taken_n ||
        p->count_n > t->recv.recv_n - t->taken_n) {
        return UW_ERR_CORRUPT;
    }
    uint32_t at = t->recv.recv_at + t->taken_n;
    if (is_unsent(t, at, p->count_n)) {
        return UW_ERR_AGAIN;
    }
    apply(t, p->floats, p->count_n, a->r.x + at);
    t->taken_n += p->count_n;
    advance(a);
    return UW_OK;
}

/* Floats of the step to send that are final, from the first unsent one on. */
static uint32_t final_n(const struct uw_allreduce *a)
{
    const struct uw_allreduce_stream *t = &a->stream;
    uint32_t left = t->send.send_n - t->sent_n, at = t->send.send_at + t->sent_n;
    struct place p = place_of(a, t->send_k);
    uint32_t before = p.k > 0 ? t->send_k - p.abreast : 0;  /* the step that this one builds on */
    if (p.k == 0 || before < t->recv_k) {
        return left;
    }
    if (before > t->recv_k) {
        return 0;
    }
    uint32_t from = t->recv.recv_at + t->taken_n, to = t->recv.recv_at + t->recv.recv_n;
    if (at >= to || at + left <= from) {
        return left;
    }
    return at < from ? from - at : 0;
}

uint64_t uw_allreduce_stream_run(struct uw_allreduce *a)
{
    struct uw_allreduce_stream *t = &a->stream;
    advance(a);
    for (uint32_t burst = 0; a->state == UW_ALLREDUCE_RUNNING; burst++) {
        if (t->send_k == t->steps_n) {
            return UINT64_MAX;
        }
        uint32_t n = uw_min_u32(a->config.chunk_n, t->send.send_n - t->sent_n);
        if (n == 0 || n > final_n(a)) {
            return UINT64_MAX;
        }
        if (burst >= BURST_CHUNKS && t->recv_k < t->steps_n && t->taken_n < t->recv.recv_n) {
            return a->now_us;
        }
        struct uw_part p = {.type = UW_PART_DATA, .round = a->r.round,
                            .step = (uint16_t)t->send_k, .offset_n = t->sent_n, .count_n = n,
                            .floats = a->r.x + t->send.send_at + t->sent_n};
        if (uw_allreduce_send(a, t->send.to, &p) == UW_ERR_AGAIN) {
            return a->now_us + SEND_RETRY_US;
        }
        t->sent_n += n;
        advance(a);
    }
    return UINT64_MAX;
}
