/* SPDX-License-Identifier: Apache-2.0
 *
 * allreduce_priv.h - what the files of the engine call of each other: allreduce.c goes from step to
 * step, asks, and keeps what comes too soon; allreduce_serve.c hands over what is pushed or asked
 * for, and measures; allreduce_stream.c is a streamed round
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

/* A streamed round. */
void uw_allreduce_stream_begin(struct uw_allreduce *a);
int uw_allreduce_stream_take(struct uw_allreduce *a, uint32_t from, const struct uw_part *p);
uint64_t uw_allreduce_stream_run(struct uw_allreduce *a);

/* Hand one message of this group to the link, or queue it. */
int uw_allreduce_send(struct uw_allreduce *a, uint32_t rank, struct uw_part *p);

/* Keep a copy of what the step at hand sends, if it is small and there is room. */
void uw_allreduce_keep(struct uw_allreduce *a, const struct uw_allreduce_step *s);

/* The copy of what was sent in a step and its size, or NULL. */
const float *uw_allreduce_copy(const struct uw_allreduce *a, uint32_t round, uint32_t k,
                               uint32_t *n);

/* Send the message of step k unasked from a chunk on, or its first chunks. */
void uw_allreduce_push(struct uw_allreduce *a, const struct uw_allreduce_step *s, uint32_t k,
                       uint32_t base);

/* A rank has no place yet for what is pushed; has one now; asks for the rest itself. */
enum uw_allreduce_steer { UW_PUSH_PAUSE, UW_PUSH_GO_ON, UW_PUSH_STOP };
void uw_allreduce_steer(struct uw_allreduce *a, uint32_t rank, uint32_t round, uint32_t k,
                        enum uw_allreduce_steer how);

/* What a pull of the step's message begins with; whole: all of it comes by itself. */
struct uw_path uw_allreduce_meter_start(struct uw_allreduce *a, bool whole);

/* So many floats of it have come. */
void uw_allreduce_meter_add(struct uw_allreduce *a, uint32_t n);

/* All of it is here: how fast it came, for a GOT. Floats a second, odd: no less than that. */
#define UW_MEASURED_NOTHING 0u
#define UW_MEASURED_LOSS 1u         /* too much of it got lost */
uint32_t uw_allreduce_measured(struct uw_allreduce *a);

/* What is pushed gets lost on the way: better to ask for it. */
bool uw_allreduce_push_fails(struct uw_allreduce *a);

/* A rank reports what it measured. */
void uw_allreduce_learn(struct uw_allreduce *a, uint32_t rank, uint32_t measured);

/* Queue what a rank asks for. */
void uw_allreduce_add_out(struct uw_allreduce *a, uint32_t rank, uint32_t round,
                          const struct uw_want *want);

/* Send what is queued and due. Returns when the next chunk is. */
uint64_t uw_allreduce_send_out(struct uw_allreduce *a);

#endif
