/* SPDX-License-Identifier: Apache-2.0 */
#include "part_queue.h"

#include "uwasa/mix.h"

#include <string.h>

/* ---- sending ---- */

int uw_part_send(const struct uw_part_sender *s, uint16_t to, const struct uw_part *p,
                 bool checked)
{
    uint8_t head[UW_PART_HEAD_BYTES];
    uint32_t body = p->count_n * (uint32_t)sizeof(float);
    if (p->type == UW_PART_DATA && !checked && uw_link_gathers(s->link) &&
        uw_part_head(p, s->run, head)) {
        int rc = uw_link_send_parts(s->link, to, head, sizeof head, p->floats, body, NULL);
        return rc < 0 ? rc : (int)(sizeof head + body);
    }
    int bytes = uw_part_encode(p, s->run, checked, s->scratch, s->scratch_bytes);
    int rc = bytes < 0 ? bytes : uw_link_send(s->link, to, s->scratch, (uint32_t)bytes);
    return rc < 0 ? rc : bytes;
}

/* ---- the queue ---- */

static bool alike(const struct uw_part *a, const struct uw_part *b)
{
    return a->type == b->type && a->round == b->round && a->step == b->step && a->op == b->op &&
           a->reply == b->reply;
}

int uw_part_post(struct uw_part_queue *q, uint32_t rank, const struct uw_part *p)
{
    int rc = q->n == 0 ? q->send(q->arg, rank, p) : UW_ERR_AGAIN;
    for (uint32_t i = 0; i < q->n; i++) {
        struct uw_part *o = &q->queued[i].part;
        if (q->queued[i].rank == rank && alike(o, p)) {
            bool measured = p->type == UW_PART_GOT && o->offset_n != 0;
            *o = measured ? *o : *p;
            return UW_OK;
        }
    }
    if (rc == UW_ERR_AGAIN && q->n < UW_PARTS_QUEUED_MAX) {
        q->queued[q->n].rank = rank;
        q->queued[q->n++].part = *p;
        return UW_OK;
    }
    return rc;
}

uint32_t uw_part_flush(struct uw_part_queue *q)
{
    uint32_t sent = 0;
    while (sent < q->n &&
           q->send(q->arg, q->queued[sent].rank, &q->queued[sent].part) != UW_ERR_AGAIN) {
        sent++;
    }
    q->n -= sent;
    memmove(&q->queued[0], &q->queued[sent], q->n * sizeof q->queued[0]);
    return sent;
}

/* ---- the store of early parts ---- */

static struct uw_part_kept kept_at(const struct uw_part_store *s, uint32_t at)
{
    struct uw_part_kept e;
    memcpy(&e, s->x + at, sizeof e);
    return e;
}

uint32_t uw_part_after(const struct uw_part_store *s, uint32_t at)
{
    return at + UW_PART_KEPT_HEAD_N + kept_at(s, at).count_n;
}

bool uw_part_keep(struct uw_part_store *s, uint32_t from, const struct uw_part *p, uint32_t room_n)
{
    const struct uw_part_kept e = {.round = p->round, .from = from, .offset_n = p->offset_n,
                                   .count_n = p->count_n, .step = p->step, .whole = p->reply};
    float *at = s->x + s->used_n;
    uint32_t end = s->used_n + UW_PART_KEPT_HEAD_N + p->count_n;
    if (end > room_n) {
        return false;
    }
    memcpy(at, &e, sizeof e);
    memcpy(at + UW_PART_KEPT_HEAD_N, p->floats, p->count_n * sizeof(float));
    s->used_n = end;
    s->parts_n++;
    return true;
}

uint32_t uw_part_find(const struct uw_part_store *s, uint32_t at, struct uw_part *p,
                      uint32_t *from)
{
    for (; s->parts_n > 0 && at < s->used_n; at = uw_part_after(s, at)) {
        struct uw_part_kept e = kept_at(s, at);
        if (e.round == p->round && e.step == p->step &&
            (p->offset_n == UW_PART_ANY || e.offset_n == p->offset_n)) {
            *p = (struct uw_part){.type = UW_PART_DATA, .group = s->group, .round = e.round,
                                  .step = e.step, .offset_n = e.offset_n, .count_n = e.count_n,
                                  .floats = s->x + at + UW_PART_KEPT_HEAD_N, .reply = e.whole};
            *from = e.from;
            return at;
        }
    }
    return s->used_n;
}

void uw_part_drop(struct uw_part_store *s, uint32_t at)
{
    struct uw_part_kept e = kept_at(s, at);
    e.round = 0;
    memcpy(s->x + at, &e, sizeof e);
    s->used_n = --s->parts_n > 0 ? s->used_n : 0;
}

void uw_part_tidy(struct uw_part_store *s, uint32_t round, uint32_t step)
{
    uint32_t n = 0;
    for (uint32_t at = 0, next; at < s->used_n; at = next) {
        struct uw_part_kept e = kept_at(s, at);
        next = uw_part_after(s, at);
        if (e.round > round || (e.round == round && e.step >= step)) {
            memmove(s->x + n, s->x + at, (next - at) * sizeof(float));
            n += next - at;
        } else if (e.round != 0) {
            s->parts_n--;
        }
    }
    s->used_n = n;
}

/* ---- arithmetic ---- */

/* The top bit is set if v is not finite. */
static inline uint32_t bad_bit(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return (bits & 0x7fffffffu) + 0x00800000u;
}

static uint32_t add(const float *restrict s, uint32_t n, float *restrict x)
{
    uint32_t bad = 0;
    for (uint32_t i = 0; i < n; i++) {
        x[i] += s[i];
        bad |= bad_bit(x[i]);
    }
    return bad;
}

static uint32_t add_and_scale(const float *restrict s, uint32_t n, float share, float *restrict x)
{
    uint32_t bad = 0;
    for (uint32_t i = 0; i < n; i++) {
        x[i] = (x[i] + s[i]) * share;
        bad |= bad_bit(x[i]);
    }
    return bad;
}

static uint32_t copy(const float *restrict s, uint32_t n, float *restrict x)
{
    uint32_t bad = 0;
    for (uint32_t i = 0; i < n; i++) {
        x[i] = s[i];
        bad |= bad_bit(x[i]);
    }
    return bad;
}

void uw_allreduce_apply(const struct uw_allreduce_step *s, float share, const float *floats,
                        uint32_t n, float *x, uint32_t *bad)
{
    switch (s->take) {
    case UW_TAKE_COPY: *bad |= copy(floats, n, x); break;
    case UW_TAKE_MIX:
        if (s->weight > 0.0f) {
            uw_mix_chunk(s->weight, n, floats, x);
        }
        for (uint32_t i = 0; i < n; i++) {
            *bad |= bad_bit(x[i]);
        }
        break;
    default: *bad |= share < 1.0f ? add_and_scale(floats, n, share, x) : add(floats, n, x); break;
    }
}

float uw_allreduce_share(enum uw_allreduce_kind kind, uint32_t ranks, uint32_t rank,
                         uint32_t size_n, uint32_t k)
{
    uint32_t at;
    bool owned = uw_allreduce_owned(kind, ranks, rank, size_n, k, &at) > 0;
    return owned ? 1.0f / (float)ranks : 1.0f;
}
