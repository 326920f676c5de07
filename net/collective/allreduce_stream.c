/* SPDX-License-Identifier: Apache-2.0
 *
 * A streamed round, over links that lose nothing and keep the order. A rank sends each part as soon
 * as its floats are final and applies each part when it arrives; there are no requests and no
 * answers. A rank receives step by step. It sends up to a few steps ahead, as long as the data does
 * not depend on what has not arrived. A part that arrives before its step, or that would overwrite
 * unsent data, is stored, or left to the caller. A rank can be at most two rows of segments ahead
 * of the others, so the memory for early parts is bounded.
 *
 * A large vector is divided into segments, each with its own steps, so that a sum is sent while it
 * is still in a cache. ABREAST segments form a row and take turns, step by step: while one waits
 * for its peer, the other has data to send. */
#include "allreduce_priv.h"

#include "base/bits.h"

#include <string.h>

#define ABREAST 2u
#define BURST_CHUNKS 2u             /* sent in one run, while something is to be received */
#define SEND_RETRY_US 100u
#define UNKNOWN_RETRY_US 1000u      /* the rank's station is not known yet */
#define STEPS_MAX 65535u            /* a part has 16 bits for its step */

/* A message of a step is sent in parts of UW_ALLREDUCE_PART_N floats. With their head they fit the
 * 65483 bytes that a packet of a TCP connection holds at most (loopback, segmentation offload).
 * Parts of 64 KiB would each need a second packet for the last bytes. */
#define PARTS_LEAST 4u
#define SEGMENT_LEAST_N 64u

/* Measured. Kinds that send a whole segment in every step need two for each step. */
uint32_t uw_allreduce_ahead_segments(enum uw_allreduce_kind kind, uint32_t ranks)
{
    bool windows = kind == UW_ALLREDUCE_HALVING || kind == UW_ALLREDUCE_RING;
    return windows ? 4u : 2u * uw_log2_up(ranks) + 2u;
}

uint32_t uw_allreduce_segment_n(enum uw_allreduce_kind kind, uint32_t ranks, uint32_t room_n)
{
    uint32_t most_n = room_n / (uw_allreduce_ahead_segments(kind, ranks) + 1u);
    uint64_t n = uw_min_u64((uint64_t)UW_ALLREDUCE_PART_N * uw_max_u32(ranks, PARTS_LEAST), most_n);
    return n >= SEGMENT_LEAST_N ? (uint32_t)n : 0;
}

/* The segment and the step within it that a step of the round stands for. */
struct place {
    uint32_t at, n;             /* the segment */
    uint32_t k;                 /* step of the segment */
    uint32_t abreast;           /* segments in the row: the segment's previous step is so many steps
                                   of the round earlier */
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

static void load_recv(struct uw_allreduce *a)
{
    struct uw_allreduce_stream *t = &a->stream;
    t->taken_n = 0;
    if (t->recv_k < t->steps_n) {
        t->recv = step_at(a, t->recv_k);
        struct place p = place_of(a, t->recv_k);
        t->share = uw_allreduce_share_of(a, p.n, p.k);
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

/* Go on to the next steps as far as the parts sent and received allow. */
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

/* Would n floats at `at` overwrite data that this step has not sent yet? */
static bool is_unsent(const struct uw_allreduce_stream *t, uint32_t at, uint32_t n)
{
    uint32_t from = t->send.send_at + t->sent_n, to = t->send.send_at + t->send.send_n;
    return t->send_k == t->recv_k && at < to && at + n > from;
}

/* ---- early parts ---- */

void uw_allreduce_keep_ahead(struct uw_allreduce *a, const struct uw_part *p)
{
    bool runs = a->state == UW_ALLREDUCE_RUNNING;
    /* In a round that is not streamed the store holds data that others may still request. */
    bool free = uw_allreduce_streams(a) || a->state == UW_ALLREDUCE_IDLE || a->r.x == NULL;
    if (free && (!runs || a->r.group == p->group)) {
        if (a->early.group != p->group) {
            uw_part_store_clear(&a->early, p->group);
            a->kept[0].steps_n = a->kept[1].steps_n = 0;
        }
        if (uw_part_keep(&a->early, UW_RANK_NONE, p, uw_allreduce_ahead_n(a))) {
            return;
        }
        if (a->r.group == p->group) {
            uw_part_tidy(&a->early, a->r.round, runs ? a->stream.recv_k : 0);
        }
        if (uw_part_keep(&a->early, UW_RANK_NONE, p, uw_allreduce_ahead_n(a))) {
            return;
        }
    }
    a->lost_group = p->group;
    a->lost_round = p->round;
}

static bool is_lost(const struct uw_allreduce *a)
{
    return a->lost_group == a->r.group && a->lost_round == a->r.round;
}

static int fail(struct uw_allreduce *a)
{
    a->state = UW_ALLREDUCE_FAILED;
    return UW_ERR_CORRUPT;
}

/* Store an early part, of this round or the next. */
static int wait_with(struct uw_allreduce *a, const struct uw_part *p)
{
    if (a->config.streams_only) {
        return UW_ERR_AGAIN;
    }
    uw_allreduce_keep_ahead(a, p);
    return is_lost(a) ? fail(a) : UW_OK;
}

/* Find the next part of the current step. Returns false when it is not stored. */
static bool find(const struct uw_allreduce *a, uint32_t *at, struct uw_part *p)
{
    const struct uw_allreduce_stream *t = &a->stream;
    uint32_t from;
    *p = (struct uw_part){.round = a->r.round, .step = (uint16_t)t->recv_k,
                          .offset_n = t->taken_n};
    *at = uw_part_find(&a->early, 0, p, &from);
    return *at < a->early.used_n;
}

static int arrive(struct uw_allreduce *a, const float *floats, uint32_t n)
{
    struct uw_allreduce_stream *t = &a->stream;
    uint32_t at = t->recv.recv_at + t->taken_n;
    if (n > t->recv.recv_n - t->taken_n) {
        return fail(a);
    }
    if (is_unsent(t, at, n)) {
        return UW_ERR_AGAIN;
    }
    const struct uw_allreduce_step s = uw_allreduce_judged(a, &t->recv, floats, a->r.x + at, n);
    uw_allreduce_apply(&s, t->share, floats, n, a->r.x + at, &a->bad);
    t->taken_n += n;
    advance(a);
    return UW_OK;
}

static void take_kept(struct uw_allreduce *a)
{
    struct uw_part p;
    uint32_t at;
    while (a->state == UW_ALLREDUCE_RUNNING && find(a, &at, &p) &&
           arrive(a, p.floats, p.count_n) == UW_OK) {
        uw_part_drop(&a->early, at);
    }
}

void uw_allreduce_stream_begin(struct uw_allreduce *a)
{
    struct uw_allreduce_stream *t = &a->stream;
    uint32_t segment_n = a->r.segment_n;
    uint32_t most = a->steps_n > 0 ? STEPS_MAX / a->steps_n : 1;
    if (segment_n >= a->r.size_n) {
        segment_n = uw_max_u32(a->r.size_n, 1);
    }
    if (uw_chunks_in(a->r.size_n, segment_n) > most) {
        segment_n = a->r.size_n / most + 1u;
    }
    uint32_t segments = uw_max_u32(uw_chunks_in(a->r.size_n, segment_n), 1);
    *t = (struct uw_allreduce_stream){.segment_n = segment_n,
                                      .steps_n = segments * a->steps_n};
    if (a->steps_n == 0) {
        a->state = UW_ALLREDUCE_DONE;
        return;
    }
    load_send(a);
    load_recv(a);
    advance(a);
    if (!a->config.streams_only) {
        a->state = is_lost(a) ? UW_ALLREDUCE_FAILED : a->state;
        if (a->early.group != a->r.group) {
            uw_part_store_clear(&a->early, a->r.group);
        }
        uw_part_tidy(&a->early, a->r.round, 0);
        take_kept(a);
    }
}

int uw_allreduce_stream_take(struct uw_allreduce *a, uint32_t from, const struct uw_part *p)
{
    struct uw_allreduce_stream *t = &a->stream;
    bool now = p->round == a->r.round;
    if (now && a->state == UW_ALLREDUCE_FAILED) {
        return UW_ERR_CORRUPT;
    }
    if (p->type != UW_PART_DATA || p->round < a->r.round ||
        (now && (a->state != UW_ALLREDUCE_RUNNING || p->step < t->recv_k))) {
        return UW_OK;
    }
    if (p->round > a->r.round || p->step > t->recv_k) {
        return wait_with(a, p);
    }
    struct uw_part next;
    uint32_t at;
    bool behind = p->offset_n > t->taken_n && find(a, &at, &next);
    if (from != t->recv.from || (p->offset_n != t->taken_n && !behind)) {
        return fail(a);
    }
    int rc = behind ? UW_ERR_AGAIN : arrive(a, p->floats, p->count_n);
    if (rc == UW_ERR_AGAIN) {
        return wait_with(a, p);
    }
    take_kept(a);
    return rc;
}

/* Number of floats, from the first unsent one on, that are final. */
static uint32_t final_n(const struct uw_allreduce *a)
{
    const struct uw_allreduce_stream *t = &a->stream;
    uint32_t left = t->send.send_n - t->sent_n, at = t->send.send_at + t->sent_n;
    struct place p = place_of(a, t->send_k);
    uint32_t before = p.k > 0 ? t->send_k - p.abreast : 0;  /* the step that this depends on */
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
    take_kept(a);
    for (uint32_t burst = 0; a->state == UW_ALLREDUCE_RUNNING; burst++) {
        if (t->send_k == t->steps_n) {
            return UINT64_MAX;
        }
        uint32_t n = uw_min_u32(a->r.chunk_n, t->send.send_n - t->sent_n);
        if (n == 0 || n > final_n(a)) {
            return UINT64_MAX;
        }
        if (burst >= BURST_CHUNKS && t->recv_k < t->steps_n && t->taken_n < t->recv.recv_n) {
            return a->now_us;
        }
        struct uw_part p = {.type = UW_PART_DATA, .round = a->r.round,
                            .step = (uint16_t)t->send_k, .seq = UW_PART_STREAMED,
                            .offset_n = t->sent_n, .count_n = n,
                            .floats = a->r.x + t->send.send_at + t->sent_n};
        int rc = uw_allreduce_send(a, t->send.to, &p);
        if (rc == UW_ERR_AGAIN || rc == UW_ERR_NOTFOUND) {
            return a->now_us + (rc == UW_ERR_AGAIN ? SEND_RETRY_US : UNKNOWN_RETRY_US);
        }
        if (rc < 0) {
            (void)fail(a);
            break;
        }
        t->sent_n += n;
        advance(a);
        take_kept(a);
    }
    return UINT64_MAX;
}
