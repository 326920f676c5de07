/* SPDX-License-Identifier: Apache-2.0
 *
 * node_pull.h - the pull of a round, between the files that make it
 *
 *     node_pull.c    rounds: begin, go on with another peer, end; what is asked, and what comes
 *     node_lanes.c   further peers at once (node_lanes.h), where that is wanted
 *
 * Blocking   never      Context  network thread
 */
#ifndef UW_NET_NODE_PULL_H
#define UW_NET_NODE_PULL_H

#include "node_state.h"

#define UW_NODE_AVOID_US 2000000u           /* who stopped in a pull is left alone for so long */
#define UW_NODE_PASSED_MOST 3u              /* peers a round passes over, and asks one more */
#define UW_NODE_VERSION_MIXED UINT32_MAX    /* chunks of more than one peer */

/* Floats of a coded chunk where a frame carries plain_n as they are: of trained weights so many
 * most often fit (tools/experiments/float_planes). And back. */
static inline uint32_t uw_node_wide_n(uint32_t plain_n)
{
    return plain_n + plain_n / 8u;
}

static inline uint32_t uw_node_plain_n(uint32_t wide_n)
{
    return (8u * wide_n + 8u) / 9u;
}

/* The largest chunk that is asked for and served. */
static inline uint32_t uw_node_most_n(const struct uw_node_state *s, bool coded)
{
    return !coded                                       ? uw_node_chunk_n(s)
           : s->config.code && s->config.link->frames   ? uw_node_wide_n(uw_node_chunk_n(s))
                                                        : 0;
}

/* node_codes.c, an optional part of a node */
struct uw_node_codes {
    struct uw_node_setup setup;
    /* Write the chunk of an item, whose floats are x, or its part that is next, and set item->more.
     * Returns the bytes or UW_ERR_TOOBIG. */
    int (*write)(struct uw_serve_item *item, const struct uw_data *d, const float *x, void *buf,
                 uint32_t cap_bytes);
    /* Parse what came of a coded pull of size_n floats: a datagram of type UW_WIRE_DATA or
     * UW_WIRE_DATA_CODED. Returns UW_OK or UW_ERR_CORRUPT. */
    int (*read)(const void *buf, uint32_t bytes, const struct uw_short_data *known, uint32_t size_n,
                struct uw_data *d);
    /* As uw_message_floats, of coded ones. */
    int (*floats)(const struct uw_data *d, float *out);
};

/* node_pull.c */

/* Begin the pull of a round from the member at this place; adopt: its model is taken over. */
void uw_node_pull_start(struct uw_node_state *s, uint32_t round, uint32_t place, bool adopt);

/* The pull is over; a cut one counts as such, and an event says why. */
void uw_node_pull_finish(struct uw_node_state *s, enum uw_gossip_end how);
void uw_node_pull_cut(struct uw_node_state *s, enum uw_node_why why);

/* Go on with another peer. Returns false when there is none; true also while that is not known. */
bool uw_node_pull_move(struct uw_node_state *s, enum uw_node_why why);

/* No pulls from a member for so long. */
void uw_node_avoid(struct uw_node_state *s, const struct uw_member *m, uint64_t us);

/* A member's chunk is refused: it is left alone for a while, and the pull is cut. */
void uw_node_pull_refuse(struct uw_node_state *s, struct uw_member *m,
                         enum uw_node_event_kind kind);

/* Longer than pulls take. */
uint64_t uw_node_pull_deadline_us(const struct uw_node_state *s);

/* How long a pull from this member outlives its silence: as configured, and some round trips where
 * those take long. */
uint64_t uw_node_pull_silence_us(const struct uw_node_state *s, const struct uw_pull *t,
                                 const struct uw_member *m);

/* What is known of the way to a member, in chunks of chunk_n. */
struct uw_path uw_node_pull_path(const struct uw_node_state *s, const struct uw_member *m,
                                 uint32_t chunk_n);

/* A number for this pull, another than its last. */
uint16_t uw_node_new_transfer(struct uw_node_state *s, const struct uw_pull *t);

/* A peer of the present pull refused it. */
void uw_node_pull_refused(struct uw_node_state *s, struct uw_member *m,
                          const uwasa_Refuse *refuse);

/* The present or last pull, or the part of it, from this member; NULL: from it there is none. */
struct uw_pull *uw_node_pull_of(struct uw_node_state *s, const struct uw_member *m);

/* Send the questions to this member, or NULL, that are due. */
void uw_node_pull_ask(struct uw_node_state *s, struct uw_pull *t, const struct uw_member *m);

/* When they are. */
uint64_t uw_node_pull_due_us(const struct uw_node_state *s, const struct uw_pull *t);

/* For how long to leave alone a member that shows what was mixed in before. */
uint64_t uw_node_stale_us(const struct uw_node_state *s, const struct uw_member *m);

#endif
