/* SPDX-License-Identifier: Apache-2.0
 *
 * heading.h - which nodes of an exact average move against this one (private)
 *
 * All start from the last average. Let u be this node's movement since, and w that of the vector
 * that a rank of a sweep sends: the rank's heading is u . w / u . u. It is positive for who learns
 * the same, around 0 where data differ greatly, and far below for who shows an old model or learns
 * wrong labels. A rank whose mean over about the last five rounds is below -1 is refused, and below
 * -0.3 where half of the ranks or more are above 0.15.
 *
 * Nodes that were apart have no common start. Where half of the ranks or more were not in this
 * node's last round, after 8 rounds or more, or this node was not in the others', nobody is judged.
 * Where fewer come, no heading is learned, and four times the distance is accepted (guard.h).
 *
 * u . w is estimated from 1024 sums of the elements with pseudo-random signs, so that no vector has
 * to be kept; the error is about |u| |w| / 32.
 *
 * Memory     8 KiB and 32 bytes a rank, from an arena      Blocking  never
 * Context    network thread
 * Source     M. Charikar et al., "Finding Frequent Items in Data Streams" (count sketch), 2002;
 *            X. Cao et al., "FLTrust: Byzantine-robust Federated Learning via Trust
 *            Bootstrapping" (comparison with the own movement), 2021
 */
#ifndef UW_NET_HEADING_H
#define UW_NET_HEADING_H

#include "uwasa/arena.h"

#include <stdbool.h>
#include <stdint.h>

#define UW_HEADING_SUMS_N 1024u

/* A rank, by its id. */
struct uw_heading {
    uint32_t id;
    uint32_t rounds_n;              /* of the mean, at most those that it is over */
    float mean;                     /* of its headings */
    uint32_t round;                 /* the last one that it was in */
    uint32_t sent_n;                /* elements, in this round */
    double dot;                     /* u . what it sends */
};

struct uw_headings {
    uint32_t round;                 /* that were committed; 0: the start is not known */
    uint32_t met_n;                 /* ranks of this round */
    bool lenient;                   /* some were not in the last one: no heading is learned */
    float start[UW_HEADING_SUMS_N]; /* sums of the last average ... */
    float moved[UW_HEADING_SUMS_N]; /* ... and of u */
    double squares, dot_start;      /* u . u, u . start */
    float limit;                    /* of the means, for this round */
    uint32_t ranks_max;
    struct uw_heading of[];         /* [ranks_max] of this round's ranks, then of others */
};

/* Allocate it. *out: NULL while measuring. Returns UW_OK or what uw_arena_take returns. */
int uw_headings_place(struct uw_headings **out, struct uw_arena *arena, uint32_t ranks_max);

/* A round of ranks with ids [ids_n] begins, this node's being `own`. unequal: not all of them were
 * in the last round. Returns whether ranks are judged in it. */
bool uw_headings_meet(struct uw_headings *h, const uint32_t *ids, uint32_t ids_n, uint32_t own,
                      bool unequal);

/* Ranks will be judged by what they send in the round that begins, with this node's x [size_n]. */
void uw_headings_begin(struct uw_headings *h, const float *x, uint32_t size_n);

/* A rank sends n floats of its vector, of the elements from `at`. Returns whether it is one that
 * moves against this node, by the rounds before. */
bool uw_headings_oppose(struct uw_headings *h, uint32_t rank, uint32_t at, const float *floats,
                        uint32_t n);

/* The round has ended, and all of them go on from x [size_n]. */
void uw_headings_end(struct uw_headings *h, const float *x, uint32_t size_n);

#endif
