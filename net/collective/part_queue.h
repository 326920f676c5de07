/* SPDX-License-Identifier: Apache-2.0
 *
 * part_queue.h - parts of exact averages (part.h): send them, queue them while the link is full,
 * store early ones until their step, add them up
 *
 * All engines use it, and ask for missing data in the same way. A rank that has reached a step and
 * misses data sends WANT, and sends it again after a pause that doubles (backoff.h). A rank that
 * does not know whether its message arrived sends the last chunk again; the receiver answers GOT. A
 * part without floats waits in the queue while the link is full. A full queue drops it. There is no
 * limit on time here: the caller has a deadline.
 *
 * Units      _n floats, _us microseconds
 * Memory     the caller's
 * Blocking   never      Context  network thread
 */
#ifndef UW_NET_PART_QUEUE_H
#define UW_NET_PART_QUEUE_H

#include "wire/part.h"

#include "uwasa/allreduce_steps.h"
#include "uwasa/link.h"

#include <stdbool.h>
#include <stdint.h>

#define UW_PARTS_QUEUED_MAX 16u
#define UW_PARTS_SENT_MOST 64u      /* data messages in one run of an engine */
#define UW_PARTS_RETRY_US 200u      /* after the link was full */
#define UW_PARTS_PATIENCE_US 20000u /* timeout, plus round trips */

/* Most doublings of the timeout: few on lossy links, where random losses end soon. */
static inline uint32_t uw_part_tries(bool lossless)
{
    return lossless ? 6u : 2u;
}

/* What a part needs to be sent over a link. */
struct uw_part_sender {
    struct uw_link *link;
    uint32_t run;
    void *scratch;                  /* [scratch_bytes] for links that do not gather */
    uint32_t scratch_bytes;
};

/* Send a part. Without a checksum, and if the link gathers, its floats are not copied.
 * Returns the message's bytes, UW_ERR_TOOBIG, or what the link returns. */
int uw_part_send(const struct uw_part_sender *s, uint16_t to, const struct uw_part *p,
                 bool checked);

/* Parts without floats that wait for room on the link, in order. */
struct uw_part_queue {
    /* Send one message to a rank. part->floats points into the vector or a copy.
     * Returns UW_OK, UW_ERR_AGAIN (no room now) or UW_ERR_NOTFOUND (the rank is not known yet: a
     * streamed round tries again); after any other error the message counts as lost. */
    int (*send)(void *arg, uint32_t rank, const struct uw_part *part);
    void *arg;
    struct {
        uint32_t rank;
        struct uw_part part;
    } queued[UW_PARTS_QUEUED_MAX];
    uint32_t n;
};

/* Send a part, or queue it unless an equal one is queued. Returns UW_OK or what send returns. */
int uw_part_post(struct uw_part_queue *q, uint32_t rank, const struct uw_part *p);

/* Send queued parts. Returns how many were sent. */
uint32_t uw_part_flush(struct uw_part_queue *q);

/* The header of a stored part; its floats follow. */
struct uw_part_kept {
    uint32_t round, from, offset_n, count_n;    /* round 0: dropped */
    uint16_t step;
    bool whole;                     /* of a message that is pushed as a whole */
};
#define UW_PART_KEPT_HEAD_N ((uint32_t)(sizeof(struct uw_part_kept) / sizeof(float)))

/* Data of one group that arrived before its step. */
struct uw_part_store {
    float *x;
    uint32_t group, used_n;
    uint32_t parts_n;               /* without dropped ones */
};

static inline void uw_part_store_clear(struct uw_part_store *s, uint32_t group)
{
    s->group = group;
    s->used_n = s->parts_n = 0;
}

/* Store a part, if it fits room_n floats of the store. Returns whether it does. */
bool uw_part_keep(struct uw_part_store *s, uint32_t from, const struct uw_part *p, uint32_t room_n);

/* Find the next part from place `at` on. Returns its place; used_n: none.
 *   p     in: round, step, and offset_n or UW_PART_ANY; out: the part
 *   from  set to its sender */
#define UW_PART_ANY UINT32_MAX
uint32_t uw_part_find(const struct uw_part_store *s, uint32_t at, struct uw_part *p,
                      uint32_t *from);

/* The place of the part after the one at `at`. */
uint32_t uw_part_after(const struct uw_part_store *s, uint32_t at);

/* Drop one; drop all before a step of a round. */
void uw_part_drop(struct uw_part_store *s, uint32_t at);
void uw_part_tidy(struct uw_part_store *s, uint32_t round, uint32_t step);

/* Apply received floats to x as the step says: copy, mix, or add and multiply by share.
 *   bad  top bit set: a value that was written is not finite */
void uw_allreduce_apply(const struct uw_allreduce_step *s, float share, const float *floats,
                        uint32_t n, float *x, uint32_t *bad);

/* The factor that makes an average of the sum that step k completes at a rank: 1 / ranks, or 1 when
 * step k completes none. The rank that completes a window scales what it receives in that step. */
float uw_allreduce_share(enum uw_allreduce_kind kind, uint32_t ranks, uint32_t rank,
                         uint32_t size_n, uint32_t k);

#endif
