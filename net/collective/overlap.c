/* SPDX-License-Identifier: Apache-2.0 */
#include "overlap.h"

#include "base/bits.h"

#include <string.h>

#define PATIENCE_MIN_US 20000u

/* Steps of a fragment. */

void uw_overlap_set_sending(struct uw_overlap *o, uint32_t i)
{
    const struct uw_fragment *f = &o->fragments[i];
    bool now = (o->sending[i / 64u] >> (i % 64u) & 1u) != 0;
    if (now != (f->wanted != 0)) {
        uw_overlap_set_bit(o->sending, i, !now);
        o->waiting[f->to] += now ? UINT32_MAX : 1u;
    }
}

void uw_overlap_set_due(struct uw_overlap *o, struct uw_fragment *f)
{
    f->due_us = o->now_us + (o->patience_us << f->tries);
    o->due_us = f->due_us < o->due_us ? f->due_us : o->due_us;
}

static void trace(const struct uw_overlap *o, const struct uw_fragment *f, bool end)
{
    if (o->config.trace != NULL) {
        uint32_t i = (uint32_t)(f - o->fragments) - o->buckets[f->bucket].first;
        o->config.trace(o->config.arg, f->bucket, i, end, o->now_us);
    }
}

void uw_overlap_move(const struct uw_overlap *o, struct uw_fragment *f)
{
    if (!f->moved) {
        f->moved = true;
        trace(o, f, false);
    }
}

static void enter(struct uw_overlap *o, uint32_t i)
{
    struct uw_fragment *f = &o->fragments[i];
    struct uw_allreduce_step s = uw_overlap_step_at(o, f, f->k);
    f->have = f->out = f->wanted = f->sent = 0;
    f->got = false;
    f->tries = 0;
    f->to = (uint16_t)s.to;
    f->from = (uint16_t)s.from;
    f->wanted = (f->ahead & 1u) != 0 ? uw_overlap_chunks(o, s.send_n) : 0;
    uw_overlap_set_bit(o->asking, i, s.recv_n > 0);
    uw_overlap_set_sending(o, i);
    uw_overlap_set_due(o, f);
}

static bool is_over(const struct uw_overlap *o, const struct uw_fragment *f,
                    const struct uw_allreduce_step *s)
{
    bool delivered = s->send_n == 0 ||
                     (o->config.reliable ? f->sent == uw_overlap_chunks(o, s->send_n) : f->got);
    return delivered && f->have == uw_overlap_chunks(o, s->recv_n);
}

static void scale_owned(const struct uw_overlap *o, const struct uw_fragment *f)
{
    const struct uw_overlap_group *g = &o->group;
    uint32_t at;
    uint32_t n = !o->config.average ? 0
                                    : uw_allreduce_owned(o->config.kind, g->ranks, g->rank,
                                                         f->size_n, f->k, &at);
    float *x = n > 0 ? uw_overlap_gradient(o, f) + at : NULL;
    float share = 1.0f / (float)g->ranks;
    for (uint32_t i = 0; i < n; i++) {
        x[i] *= share;
    }
}

static void finish(struct uw_overlap *o, struct uw_fragment *f)
{
    struct uw_overlap_bucket *b = &o->buckets[f->bucket];
    f->running = false;
    o->running_n--;
    uw_overlap_move(o, f);
    trace(o, f, true);
    if (++b->done_n == b->fragments_n) {
        b->state = UW_OVERLAP_DONE;
    }
}

/* Go on as far as possible. */
void uw_overlap_advance(struct uw_overlap *o, uint32_t i)
{
    struct uw_fragment *f = &o->fragments[i];
    while (f->running) {
        if (f->k == o->steps_n) {
            finish(o, f);
            return;
        }
        struct uw_allreduce_step s = uw_overlap_step_at(o, f, f->k);
        if (!is_over(o, f, &s)) {
            return;
        }
        scale_owned(o, f);
        f->k++;
        o->advanced_n++;
        f->ahead >>= 1;
        uw_overlap_set_bit(o->asking, i, false);
        if (f->k < o->steps_n) {
            enter(o, i);
        }
    }
}

void uw_overlap_begin(struct uw_overlap *o, const struct uw_overlap_group *group, uint64_t now_us)
{
    uw_overlap_stop(o);
    o->group = *group;
    o->steps_n = uw_allreduce_steps_n(o->config.kind, group->ranks);
    o->active = true;
    o->now_us = now_us;
    o->patience_us = 4u * group->rtt_us + PATIENCE_MIN_US;
    for (uint32_t i = 0; i < o->config.buckets_n; i++) {
        o->buckets[i].state = UW_OVERLAP_IDLE;
        o->buckets[i].round = 0;
    }
    for (uint32_t i = 0; i < o->fragments_n; i++) {
        o->fragments[i].next = 0;
    }
    memset(o->blocked, 0, o->config.ranks_max * sizeof *o->blocked);
    o->runs = 0;
}

void uw_overlap_ready(struct uw_overlap *o, uint32_t bucket, float *x, uint64_t now_us)
{
    struct uw_overlap_bucket *b = &o->buckets[bucket];
    o->now_us = now_us;
    if (!o->active) {
        b->state = UW_OVERLAP_STOPPED;
        return;
    }
    b->x = x;
    b->round++;
    b->done_n = 0;
    b->state = UW_OVERLAP_RUNNING;
    if (o->group.whole != NULL) {
        o->running_n++;
        return;
    }
    o->running_n += b->fragments_n;
    for (uint32_t i = b->first; i < b->first + b->fragments_n; i++) {
        struct uw_fragment *f = &o->fragments[i];
        f->running = true;
        f->moved = false;
        f->k = 0;
        f->ahead = f->next;
        f->next = 0;
        if (o->steps_n > 0) {
            enter(o, i);
        }
        uw_overlap_advance(o, i);
    }
}

uint32_t uw_overlap_progress(const struct uw_overlap *o, uint32_t *waits_for)
{
    const struct uw_fragment *last = NULL;
    if (o->group.whole != NULL) {
        *waits_for = o->whole_begun ? (o->group.rank + 1u) % o->group.ranks : UW_RANK_NONE;
        return o->advanced_n;
    }
    for (uint32_t i = 0; i < o->fragments_n && o->running_n > 0; i++) {
        const struct uw_fragment *f = &o->fragments[i];
        last = f->running && (last == NULL || f->k < last->k) ? f : last;
    }
    *waits_for = UW_RANK_NONE;
    if (last != NULL) {
        struct uw_allreduce_step s = uw_overlap_step_at(o, last, last->k);
        *waits_for = last->have != uw_overlap_chunks(o, s.recv_n) ? s.from : s.to;
    }
    return o->advanced_n;
}

void uw_overlap_stop(struct uw_overlap *o)
{
    o->active = false;
    uw_overlap_stop_whole(o);
    o->out_chunks = o->running_n = 0;
    o->due_us = UINT64_MAX;
    for (uint32_t i = 0; i < o->config.buckets_n; i++) {
        struct uw_overlap_bucket *b = &o->buckets[i];
        b->state = b->state == UW_OVERLAP_RUNNING ? UW_OVERLAP_STOPPED : b->state;
    }
    for (uint32_t i = 0; i < o->fragments_n; i++) {
        o->fragments[i].running = false;
    }
    memset(o->asking, 0, o->words * sizeof *o->asking);
    memset(o->sending, 0, o->words * sizeof *o->sending);
    memset(o->owing, 0, o->words * sizeof *o->owing);
    memset(o->waiting, 0, o->config.ranks_max * sizeof *o->waiting);
}

/* What comes in. */

/* All of a message is here. */
static void answer_got(struct uw_overlap *o, uint32_t rank, uint32_t i, const struct uw_part *data)
{
    struct uw_fragment *f = &o->fragments[i];
    if (!o->config.reliable) {
        f->owed_round = data->round;
        f->owed_step = data->step;
        f->owed_to = (uint16_t)rank;
        uw_overlap_set_bit(o->owing, i, true);
    }
}

/* Data of the step at hand. */
static void arrive(struct uw_overlap *o, struct uw_fragment *f, const struct uw_part *p)
{
    struct uw_allreduce_step s = uw_overlap_step_at(o, f, f->k);
    uint32_t chunk_n = o->config.chunk_n;
    if (p->offset_n >= s.recv_n || p->offset_n % chunk_n != 0 ||
        p->count_n != uw_min_u32(chunk_n, s.recv_n - p->offset_n)) {
        return;
    }
    uint64_t bit = (uint64_t)1 << (p->offset_n / chunk_n);
    if ((f->have & bit) == 0) {
        float *x = uw_overlap_gradient(o, f) + s.recv_at + p->offset_n;
        if (s.take == UW_TAKE_COPY) {
            memcpy(x, p->floats, p->count_n * sizeof *x);
        } else {
            for (uint32_t i = 0; i < p->count_n; i++) {
                x[i] += p->floats[i];
            }
        }
        o->out_chunks -= (f->out & bit) != 0 ? 1 : 0;
        f->have |= bit;
        f->out &= ~bit;
        f->tries = 0;
        f->due_us = o->now_us + o->patience_us;
        uw_overlap_move(o, f);
    }
    if (f->have == uw_overlap_chunks(o, s.recv_n)) {
        answer_got(o, f->from, (uint32_t)(f - o->fragments), p);
    }
}

static void take_data(struct uw_overlap *o, uint32_t from, struct uw_fragment *f,
                      const struct uw_part *p)
{
    uint32_t round = o->buckets[f->bucket].round;
    if (p->round == round && f->running && p->step == f->k) {
        if (f->from == from) {
            arrive(o, f, p);
        }
    } else if (p->round < round || (p->round == round && (!f->running || p->step < f->k))) {
        answer_got(o, from, (uint32_t)(f - o->fragments), p);   /* the first one was lost */
    }
}

/* What was sent in the step at hand has arrived. */
static void deliver(struct uw_overlap *o, struct uw_fragment *f)
{
    f->got = true;
    f->wanted = 0;
    uw_overlap_set_sending(o, (uint32_t)(f - o->fragments));
}

/* What is asked for of a later step is remembered by a bit: all of it will be wanted. */
static void take_want(struct uw_overlap *o, uint32_t from, struct uw_fragment *f,
                      const struct uw_part *p)
{
    uint32_t round = o->buckets[f->bucket].round;
    bool next = p->round == round + 1u, now = p->round == round && f->running && p->step >= f->k;
    uint32_t j = now ? (uint32_t)p->step - f->k : p->step;
    struct uw_allreduce_step s = uw_overlap_step_at(o, f, p->step);
    if (s.to != from || j > 63u || p->want.chunk_n != o->config.chunk_n || p->want.base != 0) {
        return;
    }
    if ((next || (now && j > 0)) && from == f->to && f->running && f->sent != 0) {
        deliver(o, f);      /* it is further on: it has what was sent in this step */
    }
    if (next) {
        f->next |= (uint64_t)1 << j;
    } else if (now && j > 0) {
        f->ahead |= (uint64_t)1 << j;
    } else if (now && !f->got) {
        uint64_t left = uw_overlap_chunks(o, s.send_n) & ~(o->config.reliable ? f->sent : 0);
        f->wanted |= p->want.wanted & left;
        uw_overlap_set_sending(o, (uint32_t)(f - o->fragments));
    }
}

static void take_got(struct uw_overlap *o, uint32_t from, struct uw_fragment *f,
                     const struct uw_part *p)
{
    if (p->round == o->buckets[f->bucket].round && f->running && p->step == f->k &&
        f->to == from) {
        deliver(o, f);
    }
}

void uw_overlap_take(struct uw_overlap *o, uint32_t from, const struct uw_part *p, uint64_t now_us)
{
    if (!o->active || o->group.whole != NULL || p->group != o->group.group ||
        from >= o->group.ranks || from == o->group.rank || p->op == 0 ||
        p->op > o->fragments_n || p->step >= o->steps_n) {
        return;
    }
    uint32_t i = p->op - 1u;
    struct uw_fragment *f = &o->fragments[i];
    o->now_us = now_us;
    switch (p->type) {
    case UW_PART_DATA: take_data(o, from, f, p); break;
    case UW_PART_WANT: take_want(o, from, f, p); break;
    case UW_PART_GOT: take_got(o, from, f, p); break;
    default: break;
    }
    uw_overlap_advance(o, i);
}
