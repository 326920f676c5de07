/* SPDX-License-Identifier: Apache-2.0
 *
 * link_cost.h - what it costs to exchange a model over a link, before there is one
 *
 * A model's floats travel in data frames: over a link with frames of its own 8 bytes of head and 8
 * of authentication each, over DTLS what secure.h and the long head take, and as many floats as fit
 * the rest. For each 64 frames the receiver sends one want. What is lost, at random and each frame
 * for itself, is asked for and sent again: 1 / (1 - loss) frames on average.
 *
 * Repairs of an average end when they are three times the model, as nodes do it (cast.h): then it
 * is not exact. Of many nodes the worst one needs more repairs: from 2.8 times the model on, the
 * average may already be inexact.
 *
 * Left out: latency, collisions, membership's pings, time to compute.
 *
 * Units      seconds; a frame's airtime is without the time to get hold of the medium
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
    double share;                   /* of the time that all nodes together may send, above 0 */
};

/* On average, for all that take part together. */
struct uw_air {
    double data_frames, want_frames;
    double bytes;                   /* in the frames, heads included, the radio's own not */
    double airtime_s;
    double seconds;                 /* until it is done, with access and the duty cycle */
};

struct uw_link_cost {
    uint32_t chunk_n, chunks;       /* floats in a data frame; frames of a model */
    struct uw_air pull;             /* one node gets another's model, alone on the medium */
    struct uw_air round;            /* every node does, and each serves one */
    struct uw_air average;          /* every node sends its model once, to all, and all average;
                                       zeros where the link has no broadcasts */
    bool exact;                     /* average: the repairs that nodes make at most are enough */
    double period_s;                /* between a node's pulls: all send for the share of it, none
                                       more than the duty cycle allows */
};

void uw_link_cost(const struct uw_link_cost_config *config, struct uw_link_cost *cost);

/* The most floats of which a round takes so many seconds at most; 0: none do. */
uint32_t uw_link_cost_fits_n(const struct uw_link_cost_config *config, double seconds);

/* Seconds that this machine takes to add a byte of a vector to another, the best of some times.
 *   x  [n], n 2 or more; its second half is added to its first: zeros stay zeros */
double uw_add_time(float *x, uint32_t n);

#endif
