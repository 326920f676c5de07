/* SPDX-License-Identifier: Apache-2.0
 *
 * node_lanes.h - a round's pull from several peers at once: an optional part of a node
 * (node_parts.h)
 *
 * The chunks of a round are shared out: the pull in s->pull has the first share and each further
 * peer a lane with another, so that every element is still averaged with one peer's, once. Who is
 * done with its share takes half of what the slowest lacks; what a peer still owes that falls
 * silent, sleeps or refuses goes back to the pull, and when its own peer stops, a lane's goes on in
 * its place. The round ends when all shares are here, or known from before.
 *
 * A share is a slice of the round's (node_slice.h): of which version a peer's was mixed in is
 * remembered as for those. Of a share that was passed on nothing is.
 *
 * Memory     an arena's      Blocking  never      Context  network thread
 */
#ifndef UW_NET_NODE_LANES_H
#define UW_NET_NODE_LANES_H

#include "node_pull.h"
#include "node_slice.h"

/* What one further peer gives; the fields as in struct uw_node_pull. */
struct uw_node_lane {
    struct uw_pull transfer;
    uint32_t member, member_id;
    uint32_t version, slices;
    bool used;                      /* in this round, and not done */
};

struct uw_node_further {
    uint32_t n;                     /* lanes */
    uint32_t asked_n;               /* peers of this round beside the pull's; 0: it is of one */
    struct uw_node_lane *lane;      /* [n] */
};

/* All but setup only while s->further is set. */
struct uw_node_lanes {
    struct uw_node_setup setup;
    /* The pull of a round has begun, of these chunks: choose further peers and share them out. */
    void (*began)(struct uw_node_state *s, const struct uw_node_range *all);
    /* Look after all lanes, and ask what is due. */
    void (*step)(struct uw_node_state *s);
    /* The pull has its share: is everything else here too? If not it helps. */
    bool (*over)(struct uw_node_state *s);
    /* The pull's peer has stopped: a lane's goes on with what is missing.
     * Returns false when there is none. */
    bool (*take_over)(struct uw_node_state *s, enum uw_node_why why);
    /* A lane's peer, or with NULL the pull's own, shows what was mixed in before. */
    void (*stale)(struct uw_node_state *s, struct uw_node_lane *lane);
    /* A lane's peer sent a chunk that is not finite; does not serve. */
    void (*nonfinite)(struct uw_node_state *s, struct uw_node_lane *lane);
    void (*refused)(struct uw_node_state *s, struct uw_node_lane *lane, enum uw_node_why why);
    /* The pull is over. */
    void (*stop)(struct uw_node_state *s);
};

/* Is the present pull of several peers? */
static inline bool uw_node_pulls_from_many(const struct uw_node_state *s)
{
    return s->further != NULL && s->further->asked_n != 0;
}

/* The lane that pulls from a member; NULL: none. */
static inline struct uw_node_lane *uw_node_lane_of(const struct uw_node_state *s,
                                                   const struct uw_member *m)
{
    for (uint32_t i = 0; s->further != NULL && i < s->further->n; i++) {
        struct uw_node_lane *lane = &s->further->lane[i];
        if (lane->used && &s->membership.members[lane->member] == m && m->id == lane->member_id) {
            return lane;
        }
    }
    return NULL;
}

/* Chunks that the lanes' peers still owe. */
static inline uint32_t uw_node_lanes_missing(const struct uw_node_state *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; s->further != NULL && i < s->further->n; i++) {
        const struct uw_node_lane *lane = &s->further->lane[i];
        n += lane->used ? lane->transfer.chunks - lane->transfer.have_chunks : 0;
    }
    return n;
}

#endif
