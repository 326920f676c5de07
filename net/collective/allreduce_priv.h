/* SPDX-License-Identifier: Apache-2.0
 *
 * allreduce_priv.h - functions that the files of the engine share: allreduce.c has the steps,
 * questions, and early data; allreduce_serve.c sends what is pushed or asked for, and measures;
 * allreduce_stream.c has streamed rounds
 *
 * Blocking   never      Context  network thread
 */
#ifndef UW_NET_ALLREDUCE_PRIV_H
#define UW_NET_ALLREDUCE_PRIV_H

#include "allreduce.h"

static inline struct uw_allreduce_step uw_allreduce_step_at(const struct uw_allreduce *a,
                                                            uint32_t k)
{
    return uw_allreduce_step(a->r.kind, a->r.ranks, a->r.rank, a->r.size_n, k);
}

static inline float uw_allreduce_share_of(const struct uw_allreduce *a, uint32_t size_n, uint32_t k)
{
    const struct uw_allreduce_round *r = &a->r;
    return r->average ? uw_allreduce_share(r->kind, r->ranks, r->rank, size_n, k) : 1.0f;
}

static inline bool uw_allreduce_streams(const struct uw_allreduce *a)
{
    return a->r.segment_n != 0;
}

/* The step with the weight that the round gives to these floats for x. */
static inline struct uw_allreduce_step uw_allreduce_judged(const struct uw_allreduce *a,
                                                           const struct uw_allreduce_step *s,
                                                           const float *floats, const float *x,
                                                           uint32_t n)
{
    struct uw_allreduce_step judged = *s;
    if (s->take == UW_TAKE_MIX && a->r.judge != NULL) {
        judged.weight *= a->r.judge(a->config.arg, s->from, (uint32_t)(x - a->r.x), floats, x, n);
    }
    return judged;
}

/* Streamed rounds. */
void uw_allreduce_stream_begin(struct uw_allreduce *a);
int uw_allreduce_stream_take(struct uw_allreduce *a, uint32_t from, const struct uw_part *p);
uint64_t uw_allreduce_stream_run(struct uw_allreduce *a);

/* Send one message of this group, or queue it. */
int uw_allreduce_send(struct uw_allreduce *a, uint32_t rank, struct uw_part *p);

/* Keep a copy of the current step's message, if it is small and there is room. */
void uw_allreduce_keep(struct uw_allreduce *a, const struct uw_allreduce_step *s);

/* The copy of the message of a step and its size; NULL: none. */
const float *uw_allreduce_copy(const struct uw_allreduce *a, uint32_t round, uint32_t k,
                               uint32_t *n);

/* Push the message of step k from chunk `base` on, or its first chunks only. */
void uw_allreduce_push(struct uw_allreduce *a, const struct uw_allreduce_step *s, uint32_t k,
                       uint32_t base);

/* A rank has no room yet for a pushed message; has room now; asks for the rest itself. */
enum uw_allreduce_steer { UW_PUSH_PAUSE, UW_PUSH_GO_ON, UW_PUSH_STOP };
void uw_allreduce_steer(struct uw_allreduce *a, uint32_t rank, uint32_t round, uint32_t k,
                        enum uw_allreduce_steer how);

/* Start measuring the step's message; whole: it is pushed as a whole. Returns the known path for
 * its pull. */
struct uw_path uw_allreduce_meter_start(struct uw_allreduce *a, bool whole);

/* n floats of it have arrived. */
void uw_allreduce_meter_add(struct uw_allreduce *a, uint32_t n);

/* All of it has arrived: its measured speed, for a GOT, in floats a second; odd: a lower bound. */
#define UW_MEASURED_NOTHING 0u
#define UW_MEASURED_LOSS 1u         /* too much of it was lost */
uint32_t uw_allreduce_measured(struct uw_allreduce *a);

/* Are pushed messages lost so often that asking is better? */
bool uw_allreduce_push_fails(struct uw_allreduce *a);

/* Handle a rank's measurement. */
void uw_allreduce_learn(struct uw_allreduce *a, uint32_t rank, uint32_t measured);

/* Queue chunks that a rank asks for. */
void uw_allreduce_add_out(struct uw_allreduce *a, uint32_t rank, uint32_t round,
                          const struct uw_want *want);

/* Send queued chunks that are due. Returns when the next one is. */
uint64_t uw_allreduce_send_out(struct uw_allreduce *a);

#endif
