/* SPDX-License-Identifier: Apache-2.0
 *
 * allreduce_inner.h - what the parts of the engine call of each other: allreduce.c goes from step
 * to step, _serve.c hands over what is pushed or asked for, _ask.c asks, _early.c keeps what comes
 * too soon, _rate.c measures; _stream.c is a round over reliable links
 *
 * Blocking   never      Context  network thread
 */
#ifndef UW_NET_ALLREDUCE_INNER_H
#define UW_NET_ALLREDUCE_INNER_H

#include "allreduce.h"

static inline struct uw_allreduce_step uw_allreduce_step_at(const struct uw_allreduce *a,
                                                            uint32_t k)
{
    return uw_allreduce_step(a->r.kind, a->r.ranks, a->r.rank, a->r.size_n, k);
}

static inline bool uw_allreduce_is_small(const struct uw_allreduce *a, uint32_t n)
{
    return n <= a->config.small_n;
}

/* A round over reliable links. */
void uw_allreduce_stream_begin(struct uw_allreduce *a);
int uw_allreduce_stream_take(struct uw_allreduce *a, uint32_t from, const struct uw_part *p);
uint64_t uw_allreduce_stream_run(struct uw_allreduce *a);

/* Hand one message to the link. One without floats waits when the link has no room now, and is lost
 * when too many do. */
int uw_allreduce_send(struct uw_allreduce *a, uint32_t rank, struct uw_part *p);

/* Keep a copy of what the step at hand sends, if it is small and there is room. */
void uw_allreduce_keep(struct uw_allreduce *a, const struct uw_allreduce_step *s);

/* The copy of what was sent in a step and its size, or NULL. */
const float *uw_allreduce_copy(const struct uw_allreduce *a, uint32_t round, uint32_t k,
                               uint32_t *n);

/* Tell a rank something of a step; that this one is done with a round (reply: and they?). */
void uw_allreduce_tell(struct uw_allreduce *a, uint32_t rank, enum uw_part_type type,
                       uint32_t round, uint32_t step);
void uw_allreduce_tell_done(struct uw_allreduce *a, uint32_t rank, uint32_t round, bool reply);

/* Ask for what does not come by itself. Returns when to ask again. */
uint64_t uw_allreduce_ask(struct uw_allreduce *a);

/* What was asked for comes, or who was asked waits: from now on be as patient as that took. */
void uw_allreduce_answered(struct uw_allreduce *a);

/* Send the last chunk of the message that is held again: whoever has all of it answers with GOT.
 * Ask those whose DONE is missing for it. Both return when to do so again. */
uint64_t uw_allreduce_nudge_for_got(struct uw_allreduce *a);
uint64_t uw_allreduce_nudge_for_done(struct uw_allreduce *a);

/* Ever more seldom: the network may be slower than anybody thought. */
void uw_allreduce_nudge_later(struct uw_allreduce *a);

/* Keep a chunk that came early; without room for it its sender is told to stop. */
void uw_allreduce_store_early(struct uw_allreduce *a, uint32_t from, const struct uw_part *p);

/* Forget what came early and is not early any more. */
void uw_allreduce_tidy_early(struct uw_allreduce *a);

/* Send the message of step k unasked from a chunk on, or its first chunks. */
void uw_allreduce_push(struct uw_allreduce *a, const struct uw_allreduce_step *s, uint32_t k,
                       uint32_t base);

/* A rank has no place yet for what is pushed, or has one now; it asks for the rest itself. */
void uw_allreduce_pause_push(struct uw_allreduce *a, uint32_t rank, uint32_t round, uint32_t k,
                             bool pause);

/* Floats a microsecond that are pushed to a rank; 0: not known. */
float uw_allreduce_rate_to(const struct uw_allreduce *a, uint32_t rank);

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

/* A rank tells what it measured. */
void uw_allreduce_learn(struct uw_allreduce *a, uint32_t rank, uint32_t measured);

void uw_allreduce_stop_push(struct uw_allreduce *a, uint32_t rank, uint32_t round, uint32_t k);

/* Queue what a rank asks for. */
void uw_allreduce_add_out(struct uw_allreduce *a, uint32_t rank, uint32_t round,
                          const struct uw_want *want);

/* Send what is queued and due. Returns when the next chunk is. */
uint64_t uw_allreduce_send_out(struct uw_allreduce *a);

#endif
