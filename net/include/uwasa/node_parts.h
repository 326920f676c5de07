/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/node_parts.h - the parts of a node that a program may leave out
 *
 * Gossip over UDP, TCP or a line for two needs none of them. A program names those it wants in
 * uw_node_config.parts; what nobody names, a linker that collects unused sections leaves out of a
 * board's memory.
 *
 *     static const struct uw_node_parts parts = {.sentences = &uw_node_sentences};
 *     config.parts = &parts;
 *
 * Memory     borrowed by the node      Context  constants
 */
#ifndef UWASA_NODE_PARTS_H
#define UWASA_NODE_PARTS_H

#include "uwasa/cplusplus.h"

UW_C_BEGIN

struct uw_node_averages;        /* private */
struct uw_node_samples;
struct uw_node_casts;
struct uw_node_directs;
struct uw_node_answers;
struct uw_node_frames;
struct uw_node_periods;
struct uw_node_sentences;
struct uw_node_sleeps;
struct uw_node_slices;
struct uw_node_lanes;
struct uw_node_codes;

/* Exact averages: modes other than gossip, rules over pairs, gradients, uw_node_agree. */
extern const struct uw_node_averages uw_node_averages;

/* Exact averages that devices make among themselves: uw_node_config.direct. */
extern const struct uw_node_directs uw_node_directs;

/* Averages by broadcast: mode UW_NODE_BROADCAST. */
extern const struct uw_node_casts uw_node_casts;

/* Samples lent to others: uw_node_config.samples. */
extern const struct uw_node_samples uw_node_samples;

/* Answers to uwasa/status_client.h. */
extern const struct uw_node_answers uw_node_answers;

/* A period that follows from what pulls take: uw_node_config.period_share. */
extern const struct uw_node_periods uw_node_periods;

/* Links of frames, and those that all share: struct uw_link, frames and shared. */
extern const struct uw_node_frames uw_node_frames;

/* Slices of the model: uw_node_config.slices_n. */
extern const struct uw_node_slices uw_node_slices;

/* Windows outside of which this node sleeps, uw_node_config.sleep, and those of others: without
 * this part who sleeps is called, and pulled from, at any time, as if it did not. */
extern const struct uw_node_sleeps uw_node_sleeps;

/* A round's pull from several peers at once: uw_node_config.pull_peers. */
extern const struct uw_node_lanes uw_node_lanes;

/* A lossless code of chunks on links of frames: uw_node_config.code. */
extern const struct uw_node_codes uw_node_codes;

/* The sentences of events. */
extern const struct uw_node_sentences uw_node_sentences;

struct uw_node_parts {
    const struct uw_node_averages *averages;    /* NULL: uw_node_bind refuses what needs it */
    const struct uw_node_casts *casts;          /* NULL: the same */
    const struct uw_node_directs *directs;      /* NULL: the same */
    const struct uw_node_samples *samples;      /* NULL: the same */
    const struct uw_node_answers *answers;      /* NULL: nobody is answered */
    const struct uw_node_periods *periods;      /* NULL: as averages */
    const struct uw_node_sleeps *sleeps;        /* NULL: the same */
    const struct uw_node_frames *frames;        /* NULL: the same */
    const struct uw_node_slices *slices;        /* NULL: the same */
    const struct uw_node_lanes *lanes;          /* NULL: the same */
    const struct uw_node_codes *codes;          /* NULL: the same */
    const struct uw_node_sentences *sentences;  /* NULL: struct uw_node_event.text is "" */
};

/* Every part there is. */
extern const struct uw_node_parts uw_node_parts_all;

UW_C_END
#endif
