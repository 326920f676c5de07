/* SPDX-License-Identifier: Apache-2.0
 *
 * What an overlap sends: answers, questions, then the chunks that go first. */
#include "overlap.h"

#include "base/bits.h"

#define SEND_MOST 64u               /* messages in one run */
#define SEND_RETRY_US 200u
#define TRIES_MAX 2u                /* times two the patience, on a link that loses messages */
#define TRIES_RELIABLE_MAX 6u
#define NONE UINT32_MAX

/* The first one from i on; NONE: there is none. */
static uint32_t next_bit(const struct uw_overlap *o, const uint64_t *words, uint32_t i)
{
    for (uint32_t w = i / 64u; w < o->words; w++) {
        uint64_t bits = words[w] & (w == i / 64u ? UINT64_MAX << (i % 64u) : UINT64_MAX);
        if (bits != 0) {
            return w * 64u + uw_lowest_bit(bits);
        }
    }
    return NONE;
}

static bool hand_over(struct uw_overlap *o, uint32_t i, uint32_t rank, struct uw_part *p)
{
    p->group = o->group.group;
    p->op = (uint16_t)(i + 1u);
    if (o->config.send(o->config.arg, rank, p) != UW_ERR_AGAIN) {
        return true;
    }
    o->blocked[rank] = o->runs;
    o->refused = true;
    return false;
}

/* Say what is all here. */
static void answer(struct uw_overlap *o)
{
    for (uint32_t i = next_bit(o, o->owing, 0); i != NONE; i = next_bit(o, o->owing, i + 1)) {
        const struct uw_fragment *f = &o->fragments[i];
        struct uw_part p = {.type = UW_PART_GOT, .round = f->owed_round, .step = f->owed_step};
        if (o->blocked[f->owed_to] != o->runs && hand_over(o, i, f->owed_to, &p)) {
            uw_overlap_set_bit(o->owing, i, false);
        }
    }
}

/* The lowest bits of a set, at most `most`. */
static uint64_t lowest(uint64_t set, uint32_t most)
{
    uint64_t rest = set;
    for (; rest != 0 && most > 0; most--) {
        rest &= rest - 1u;
    }
    return set & ~rest;
}

/* Ask for what this rank can take now, as far as the window goes. */
static void ask(struct uw_overlap *o)
{
    uint32_t window = o->config.window_chunks;
    for (uint32_t i = next_bit(o, o->asking, 0); i != NONE; i = next_bit(o, o->asking, i + 1)) {
        struct uw_fragment *f = &o->fragments[i];
        if (o->blocked[f->from] == o->runs) {
            continue;
        }
        struct uw_allreduce_step s = uw_overlap_step_at(o, f, f->k);
        uint64_t missing = uw_overlap_chunks(o, s.recv_n) & ~f->have & ~f->out;
        uint32_t room = window == 0 ? 64u : window > o->out_chunks ? window - o->out_chunks : 0;
        struct uw_part p = {.type = UW_PART_WANT, .round = o->buckets[f->bucket].round,
                            .step = f->k,
                            .want = {.transfer = f->k, .chunk_n = o->config.chunk_n,
                                     .wanted = lowest(missing, room)}};
        if (missing != 0 && room == 0) {
            return;
        }
        if (missing != 0 && !hand_over(o, i, f->from, &p)) {
            continue;
        }
        f->out |= p.want.wanted;
        o->out_chunks += uw_bits_in(p.want.wanted);
        uw_overlap_set_bit(o->asking, i, missing != p.want.wanted);
        uw_overlap_set_due(o, f);
    }
}

/* Are there chunks for a rank that may take some? */
static bool any_open(const struct uw_overlap *o)
{
    bool open = false;
    for (uint32_t rank = 0; rank < o->group.ranks && !open; rank++) {
        open = o->waiting[rank] > 0 && o->blocked[rank] != o->runs;
    }
    return open;
}

/* Send the next chunk of the first fragment that has one for a rank that takes it. Returns false
 * when there is none. */
static bool send_next(struct uw_overlap *o)
{
    for (uint32_t i = 0; any_open(o); i++) {
        i = next_bit(o, o->sending, i);
        struct uw_fragment *f = &o->fragments[i];
        if (o->blocked[f->to] == o->runs) {
            continue;
        }
        struct uw_allreduce_step s = uw_overlap_step_at(o, f, f->k);
        uint32_t chunk = uw_lowest_bit(f->wanted), at = chunk * o->config.chunk_n;
        struct uw_part p = {.type = UW_PART_DATA, .round = o->buckets[f->bucket].round,
                            .step = f->k, .offset_n = at,
                            .count_n = uw_min_u32(o->config.chunk_n, s.send_n - at),
                            .floats = uw_overlap_gradient(o, f) + s.send_at + at};
        if (!hand_over(o, i, f->to, &p)) {
            continue;
        }
        f->wanted &= f->wanted - 1u;
        f->sent |= (uint64_t)1 << chunk;
        uw_overlap_set_sending(o, i);
        uw_overlap_move(o, f);
        uw_overlap_advance(o, i);
        return true;
    }
    return false;
}

/* Nothing has come for long. */
static void lose_patience(struct uw_overlap *o, uint32_t i)
{
    struct uw_fragment *f = &o->fragments[i];
    struct uw_allreduce_step s = uw_overlap_step_at(o, f, f->k);
    f->tries = (uint8_t)uw_min_u32(f->tries + 1u,
                                   o->config.reliable ? TRIES_RELIABLE_MAX : TRIES_MAX);
    if (f->have != uw_overlap_chunks(o, s.recv_n)) {
        o->out_chunks -= uw_bits_in(f->out);
        f->out = 0;
        uw_overlap_set_bit(o->asking, i, true);
    }
    if (!o->config.reliable && !f->got && f->wanted == 0 && f->sent != 0) {
        uint32_t last = (s.send_n - 1u) / o->config.chunk_n;    /* it is answered with GOT */
        f->wanted = (uint64_t)1 << last;
        uw_overlap_set_sending(o, i);
    }
}

static void check_due(struct uw_overlap *o)
{
    if (o->now_us < o->due_us) {
        return;
    }
    o->due_us = UINT64_MAX;
    for (uint32_t i = 0; i < o->fragments_n && o->running_n > 0; i++) {
        struct uw_fragment *f = &o->fragments[i];
        if (!f->running) {
            continue;
        }
        if (f->due_us <= o->now_us) {
            lose_patience(o, i);
            uw_overlap_set_due(o, f);
        }
        o->due_us = f->due_us < o->due_us ? f->due_us : o->due_us;
    }
}

uint64_t uw_overlap_run(struct uw_overlap *o, uint64_t now_us)
{
    if (!o->active) {
        return UINT64_MAX;
    }
    o->now_us = now_us;
    o->runs++;
    o->refused = false;
    if (o->group.whole != NULL) {
        return uw_overlap_run_whole(o);
    }
    check_due(o);
    answer(o);
    ask(o);
    for (uint32_t sent = 0; send_next(o); sent++) {
        if (sent == SEND_MOST) {
            return now_us;
        }
        ask(o);
    }
    uint64_t again_us = o->refused ? now_us + SEND_RETRY_US : UINT64_MAX;
    return again_us < o->due_us ? again_us : o->due_us;
}
