/* SPDX-License-Identifier: Apache-2.0
 *
 * link_cost.h - estimate the cost of exchanging a model over a link
 *
 * A model's floats are sent in data frames. On a link of frames each has 8 bytes of header and 8 of
 * authentication; over DTLS, the overhead of secure.h and the long header. The rest holds floats.
 * For each 64 frames the receiver sends one want. Frames are lost at random, independently of each
 * other, and requested again: 1 / (1 - loss) frames on average.
 *
 * Nodes stop repairing an average when repairs reach three times the model (cast.h); it is then not
 * exact. The worst of many nodes needs more repairs than the average one, so from 2.8 times the
 * model on the average may already be inexact.
 *
 * Not included: latency, collisions, membership's pings, computation.
 *
 * Units      seconds; a frame's airtime excludes the time to access the medium
 * Memory     the caller's      Blocking  never, but uw_add_time measures      Context  any thread
 */
#ifndef UWASA_CLI_LINK_COST_H
#define UWASA_CLI_LINK_COST_H

#include "uwasa/radio_profile.h"

struct uw_link_cost_config {
    struct uw_radio_profile link;
    uint32_t floats_n;              /* of the model, 1 or more */
    uint32_t nodes_n;               /* in range of each other, 2 or more */
    double loss;                    /* of a frame, below 1 */
    double share;                   /* of the time in which all nodes together may send, above 0 */
};

/* Expected cost, of all participants together. */
struct uw_air {
    double data_frames, want_frames;
    double bytes;                   /* in frames, with headers except the radio's own */
    double airtime_s;
    double seconds;                 /* duration, with medium access and duty cycle */
};

struct uw_link_cost {
    uint32_t chunk_n, chunks;       /* floats per data frame; data frames per model */
    struct uw_air pull;             /* one node pulls a model, alone on the medium */
    struct uw_air round;            /* every node pulls, and each serves one other */
    struct uw_air average;          /* every node broadcasts its model once, and all average;
                                       zeros if the link has no broadcasts */
    bool exact;                     /* average: the repairs that nodes allow are enough */
    double period_s;                /* time between a node's pulls that keeps to the share and to
                                       the duty cycle */
};

void uw_link_cost(const struct uw_link_cost_config *config, struct uw_link_cost *cost);

/* The largest number of floats for which a round takes at most so many seconds; 0: none. */
uint32_t uw_link_cost_fits_n(const struct uw_link_cost_config *config, double seconds);

/* Measure the seconds per byte that this machine takes to add two vectors, best of several runs.
 *   x  [n], n 2 or more; its second half is added to its first: zeros stay zeros */
double uw_add_time(float *x, uint32_t n);

#endif
