/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/allreduce_cost.h"

#include <stddef.h>

static double larger(double a, double b)
{
    return a > b ? a : b;
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

/* When the message that a rank takes in step s has arrived; at: when ranks began the step. One that
 * comes early waits for those before it. */
static double arrival(const struct uw_network_cost *c, const struct uw_allreduce_step *s,
                      const double *at, uint32_t rank, double *medium_free)
{
    double wire = uw_allreduce_wire_s(c, s->recv_n), begin = at[s->from];
    if (!c->shared) {
        return larger(begin + c->latency_s, at[rank]) + wire;
    }
    double arrived = larger(*medium_free, begin) + wire;
    double told = chunks_of(c, s->recv_n) > 1 ? c->access_s + c->head_bytes * c->byte_s : 0.0;
    *medium_free = arrived + told;
    return arrived + c->latency_s;
}

/* When a rank is done with step s: its message is out, and what it waits for is in. */
static double end_of(const struct uw_network_cost *c, const struct uw_allreduce_step *s,
                     const double *at, uint32_t rank, double *medium_free)
{
    double end = at[rank];
    if (s->send_n > 0 && !c->shared) {
        end += uw_allreduce_wire_s(c, s->send_n);
    }
    if (s->recv_n > 0) {
        double adds = s->take != UW_TAKE_COPY ? sizeof(float) * (double)s->recv_n : 0.0;
        end = larger(end, arrival(c, s, at, rank, medium_free) + adds * c->reduce_s);
    }
    return end;
}

double uw_allreduce_seconds(enum uw_allreduce_kind kind, uint32_t p, uint32_t n,
                            const struct uw_network_cost *c, double *at)
{
    double *next = at + p, medium_free = 0.0, last = 0.0;
    for (uint32_t r = 0; r < p; r++) {
        at[r] = 0.0;
    }
    for (uint32_t k = 0; k < uw_allreduce_steps_n(kind, p); k++) {
        for (uint32_t r = 0; r < p; r++) {
            struct uw_allreduce_step s = uw_allreduce_step(kind, p, r, n, k);
            next[r] = end_of(c, &s, at, r, &medium_free);
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
