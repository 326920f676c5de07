/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/allreduce_cost.h"

#include <stddef.h>

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

static uint32_t chunks_of(const struct uw_network_cost *c, uint32_t n)
{
    return n == 0 ? 0 : c->chunk_n == 0 ? 1 : (n - 1) / c->chunk_n + 1;
}

double uw_allreduce_wire_s(const struct uw_network_cost *c, uint32_t n)
{
    double each_s = c->access_s + c->head_bytes * c->byte_s;
    return chunks_of(c, n) * each_s + sizeof(float) * (double)n * c->byte_s;
}

/* The simulation of an algorithm; at: times at which ranks begin the current step. */
struct play {
    const struct uw_network_cost *c;
    enum uw_allreduce_kind kind;
    uint32_t p, n;
    const double *at;
    double medium_free;             /* time at which a shared medium is free */
};

/* Time for which a rank's message of n floats occupies the medium. */
static double wire_of(const struct play *y, uint32_t rank, uint32_t n)
{
    double slower = y->c->slower != NULL ? (double)y->c->slower[rank] : 1.0;
    return slower * uw_allreduce_wire_s(y->c, n);
}

static double control_s(const struct uw_network_cost *c)
{
    return c->access_s + c->head_bytes * c->byte_s;
}

static struct uw_allreduce_step step_of(const struct play *y, uint32_t rank, uint32_t k)
{
    return uw_allreduce_step(y->kind, y->p, rank, y->n, k);
}

/* Is a step's message gathered until it is complete, and the sent one held until its GOT? */
static bool is_gathered(const struct play *y, const struct uw_allreduce_step *s)
{
    return y->c->chunk_n != 0 && s->send_n > y->c->chunk_n && s->recv_n == s->send_n &&
           s->recv_at == s->send_at;
}

/* When a rank has room for the message of step k. */
static double place_at(const struct play *y, const struct uw_allreduce_step *s, uint32_t rank,
                       uint32_t k)
{
    double place = y->at[rank];
    if (k > 0 && is_gathered(y, s)) {
        const struct uw_allreduce_step last = step_of(y, rank, k - 1);
        if (is_gathered(y, &last)) {
            place = larger(place, y->at[last.to] + y->c->latency_s);
        }
    }
    return place;
}

/* When the message of step k has arrived at a rank, if every rank has its own medium. */
static double arrival(const struct play *y, const struct uw_allreduce_step *s, uint32_t rank,
                      uint32_t k)
{
    const struct uw_network_cost *c = y->c;
    double wire = wire_of(y, s->from, s->recv_n), first = y->at[s->from] + c->latency_s;
    double place = place_at(y, s, rank, k);
    if (c->early_n != 0 && s->recv_n > c->early_n) {
        double early = wire_of(y, s->from, c->early_n);
        if (first + early < place) {
            double sent = smaller(wire, early + 2.0 * c->latency_s);  /* until paused */
            double dropped = smaller(place - first - early, sent - early);
            return place + 2.0 * c->latency_s + wire - sent + dropped;
        }
        return larger(first, y->at[rank]) + wire;
    }
    return larger(first, place) + wire;
}

static double adding_s(const struct play *y, const struct uw_allreduce_step *s)
{
    return s->take != UW_TAKE_COPY ? sizeof(float) * (double)s->recv_n * y->c->reduce_s : 0.0;
}

/* When ranks complete step k: they have sent their message and received the other. */
static void play_step(const struct play *y, uint32_t k, double *next)
{
    for (uint32_t r = 0; r < y->p; r++) {
        const struct uw_allreduce_step s = step_of(y, r, k);
        next[r] = y->at[r] + (s.send_n > 0 ? wire_of(y, r, s.send_n) : 0.0);
        if (s.recv_n > 0) {
            next[r] = larger(next[r], arrival(y, &s, r, k) + adding_s(y, &s));
        }
    }
}

/* The rank after `last` by time, then by number. */
static uint32_t next_in_time(const struct play *y, uint32_t last)
{
    uint32_t found = UW_RANK_NONE;
    for (uint32_t r = 0; r < y->p; r++) {
        bool after = last == UW_RANK_NONE || y->at[r] > y->at[last] ||
                     (y->at[r] >= y->at[last] && r > last);
        if (after && (found == UW_RANK_NONE || y->at[r] < y->at[found])) {
            found = r;
        }
    }
    return found;
}

/* Number of ranks that this one received from, if step k is its last one; else 0. */
static uint32_t senders_if_last(const struct play *y, uint32_t rank, uint32_t k)
{
    uint32_t steps_n = uw_allreduce_steps_n(y->kind, y->p), senders = 0;
    for (uint32_t i = k + 1; i < steps_n; i++) {
        struct uw_allreduce_step s = step_of(y, rank, i);
        if (s.send_n > 0 || s.recv_n > 0) {
            return 0;
        }
    }
    if (y->kind == UW_ALLREDUCE_RING) {
        return 1;
    }
    for (uint32_t i = 0; i <= k; i++) {
        struct uw_allreduce_step s = step_of(y, rank, i);
        bool seen = s.recv_n == 0;
        for (uint32_t j = 0; j < i && !seen; j++) {
            struct uw_allreduce_step before = step_of(y, rank, j);
            seen = before.recv_n > 0 && before.from == s.from;
        }
        senders += seen ? 0 : 1;
    }
    return senders;
}

/* The same on a shared medium, with one message at a time: the first ready rank sends first. */
static void play_shared_step(struct play *y, uint32_t k, double *next)
{
    const struct uw_network_cost *c = y->c;
    uint32_t answers = 0;
    for (uint32_t r = 0; r < y->p; r++) {
        next[r] = y->at[r];
    }
    for (uint32_t i = 0, r = UW_RANK_NONE; i < y->p; i++) {
        r = next_in_time(y, r);
        const struct uw_allreduce_step out = step_of(y, r, k);
        if (out.send_n > 0) {
            const struct uw_allreduce_step in = step_of(y, out.to, k);
            y->medium_free = larger(y->medium_free, y->at[r]) + wire_of(y, r, out.send_n);
            next[out.to] = larger(next[out.to],
                                  y->medium_free + c->latency_s + adding_s(y, &in));
            answers += chunks_of(c, out.send_n) > 1 ? 1 : 0;
        }
    }
    for (uint32_t r = 0; r < y->p && c->chunk_n != 0; r++) {
        answers += step_of(y, r, k).from != UW_RANK_NONE ? senders_if_last(y, r, k) : 0;
    }
    y->medium_free += answers * control_s(c);
}

double uw_allreduce_seconds(enum uw_allreduce_kind kind, uint32_t p, uint32_t n,
                            const struct uw_network_cost *c, double *at)
{
    struct play y = {.c = c, .kind = kind, .p = p, .n = n, .at = at};
    double *next = at + p, last = 0.0;
    for (uint32_t r = 0; r < p; r++) {
        at[r] = 0.0;
    }
    for (uint32_t k = 0; k < uw_allreduce_steps_n(kind, p); k++) {
        if (c->shared) {
            play_shared_step(&y, k, next);
        } else {
            play_step(&y, k, next);
        }
        for (uint32_t r = 0; r < p; r++) {
            at[r] = next[r];
        }
    }
    for (uint32_t r = 0; r < p; r++) {
        last = larger(last, at[r]);
    }
    return last;
}

enum uw_allreduce_kind uw_allreduce_choose(uint32_t p, uint32_t n, bool same_bits,
                                           const struct uw_network_cost *c, double *at,
                                           double *seconds)
{
    enum uw_allreduce_kind best = UW_ALLREDUCE_TREE;
    double least = uw_allreduce_seconds(best, p, n, c, at);
    for (int i = UW_ALLREDUCE_DOUBLING; i < UW_ALLREDUCE_KINDS_N; i++) {
        enum uw_allreduce_kind kind = (enum uw_allreduce_kind)i;
        if (kind == UW_ALLREDUCE_SWEEP && same_bits) {
            continue;
        }
        double s = uw_allreduce_seconds(kind, p, n, c, at);
        if (s < least) {
            least = s;
            best = kind;
        }
    }
    if (seconds != NULL) {
        *seconds = least;
    }
    return best;
}
