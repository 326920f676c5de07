/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/node_parts.h - the optional parts of a node
 *
 * Gossip over UDP, TCP or a serial line needs none of them. A program lists the parts it uses in
 * uw_node_config.parts; a linker that collects unused sections drops the others.
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
struct uw_node_addresses;
struct uw_node_samples;
struct uw_node_casts;
struct uw_node_directs;
struct uw_node_answers;
struct uw_node_queries;
struct uw_node_frames;
struct uw_node_periods;
struct uw_node_sentences;
struct uw_node_sleeps;
struct uw_node_slices;
struct uw_node_lanes;
struct uw_node_codes;
struct uw_node_guards;
struct uw_node_revokes;

/* Exact averages: modes other than gossip, rules over pairs, gradients, uw_node_agree. */
extern const struct uw_node_averages uw_node_averages;

/* Several addresses of this node and of its peers: uw_node_config.own_addresses. */
extern const struct uw_node_addresses uw_node_addresses;

/* Exact averages between devices: uw_node_config.direct. */
extern const struct uw_node_directs uw_node_directs;

/* Averages by broadcast: mode UW_NODE_BROADCAST. */
extern const struct uw_node_casts uw_node_casts;

/* Samples lent to peers: uw_node_config.samples. */
extern const struct uw_node_samples uw_node_samples;

/* Answers to uwasa/status_client.h. */
extern const struct uw_node_answers uw_node_answers;

/* Answers to uwasa/query_client.h: uw_node_config.queries; needs uw_node_answers. */
extern const struct uw_node_queries uw_node_queries;

/* A period that adapts to the duration of pulls: uw_node_config.period_share. */
extern const struct uw_node_periods uw_node_periods;

/* Links with `frames` or `shared` set in struct uw_link. */
extern const struct uw_node_frames uw_node_frames;

/* Slices of the model: uw_node_config.slices_n. */
extern const struct uw_node_slices uw_node_slices;

/* Sleep of this node (uw_node_config.sleep) and of peers. A node without this part sends to
 * sleeping peers at any time. */
extern const struct uw_node_sleeps uw_node_sleeps;

/* Pulls from several peers at once: uw_node_config.pull_peers. */
extern const struct uw_node_lanes uw_node_lanes;

/* A lossless code for chunks on links of frames: uw_node_config.code. */
extern const struct uw_node_codes uw_node_codes;

/* Models that are far away are refused: uw_node_config.guard. */
extern const struct uw_node_guards uw_node_guards;

/* Lists of revoked devices are passed on: uw_node_config.keys. */
extern const struct uw_node_revokes uw_node_revokes;

/* The sentences of events. */
extern const struct uw_node_sentences uw_node_sentences;

struct uw_node_parts {
    const struct uw_node_averages *averages;    /* NULL: uw_node_bind rejects what needs it */
    const struct uw_node_addresses *addresses;  /* NULL: the same */
    const struct uw_node_casts *casts;          /* NULL: the same */
    const struct uw_node_directs *directs;      /* NULL: the same */
    const struct uw_node_samples *samples;      /* NULL: the same */
    const struct uw_node_answers *answers;      /* NULL: no answers */
    const struct uw_node_queries *queries;      /* NULL: as averages */
    const struct uw_node_periods *periods;      /* NULL: as averages */
    const struct uw_node_sleeps *sleeps;        /* NULL: the same */
    const struct uw_node_frames *frames;        /* NULL: the same */
    const struct uw_node_slices *slices;        /* NULL: the same */
    const struct uw_node_lanes *lanes;          /* NULL: the same */
    const struct uw_node_codes *codes;          /* NULL: the same */
    const struct uw_node_guards *guards;        /* NULL: as averages */
    const struct uw_node_revokes *revokes;      /* NULL: as averages */
    const struct uw_node_sentences *sentences;  /* NULL: struct uw_node_event.text is "" */
};

/* All parts. */
extern const struct uw_node_parts uw_node_parts_all;

UW_C_END
#endif
