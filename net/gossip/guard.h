/* SPDX-License-Identifier: Apache-2.0
 *
 * guard.h - bounds what a peer that has the key can do to this node's model in gossip (private)
 *
 * Of each segment it knows how far peers' models usually are, as rms: at first twice this node's
 * own movement, later 1.1 times as much after a pull that is further away and 0.85 times after a
 * nearer one, so that a good third of the pulls are nearer. A pull that is 4 times as far, the
 * first one 5 times, is refused, from an eighth of the model on. A chunk that is more than 5
 * times as far moves its elements 5 times as far. Two refused pulls in a row may mean that this
 * node is the one apart: then the nearer one becomes usual. Until it is known what is usual, in
 * the first round, a node that trains mixes nothing.
 *
 * Memory     12 bytes a segment, from an arena      Blocking   never      Context  training thread
 */
#ifndef UW_NET_GUARD_H
#define UW_NET_GUARD_H

#include "gossip/gossip.h"

struct uw_usual {
    float rms;                      /* 0: not known yet */
    float squares;                  /* sum over this round's pull ... */
    uint32_t n;                     /* ... and its elements */
};

struct uw_distances {
    struct uw_guard base;
    bool learned;                   /* from a pull, what is usual */
    float squares, usual_squares;   /* sums over this round's pull, and of what is usual */
    uint32_t n;                     /* its elements */
    float ratio;                    /* of the pull before */
    struct uw_usual usual[];        /* [segments_n] */
};

/* Allocate it. *out: NULL while measuring. Returns UW_OK or what uw_arena_take returns. */
int uw_distances_place(struct uw_distances **out, struct uw_arena *arena, uint32_t segments_n);

#endif
