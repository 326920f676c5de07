/* SPDX-License-Identifier: Apache-2.0
 *
 * node_pull.h - the pull of a round, between the files that make it
 *
 *     node_pick.c    the peer of a round
 *     node_pull.c    rounds: begin, move to another peer, end; wants and chunks
 *     node_lanes.c   pulls from several peers, and slices of the model: optional parts
 *
 * Blocking   never      Context  network thread
 */
#ifndef UW_NET_NODE_PULL_H
#define UW_NET_NODE_PULL_H

#include "node_state.h"

#define UW_NODE_AVOID_US 2000000u           /* no pulls from a peer that stopped in one */
#define UW_NODE_PASSED_MOST 3u              /* stale peers that a round skips, at most */
#define UW_NODE_VERSION_MIXED UINT32_MAX    /* chunks of more than one peer */

/* The largest chunk that the link carries now. */
static inline uint32_t uw_node_chunk_n(const struct uw_node_state *s)
{
    uint32_t head = uw_wire_data_bytes(s->config.link->frames), mtu = uw_node_mtu(s);
    uint32_t n = mtu > head ? (mtu - head) / 4u : 0;
    return n < s->chunk_n ? n : s->chunk_n;
}

/* Time until the next try after UW_ERR_AGAIN: a fraction of a message's time. */
static inline uint32_t uw_node_retry_us(const struct uw_node_state *s)
{
    const struct uw_link *l = s->config.link;
    uint64_t rate = l->frames ? l->rate_bits_per_s : 0;
    uint64_t us = rate != 0 ? l->mtu_bytes * UINT64_C(1000000) / rate : 0;
    return us < 500u ? 500u : us < 1000000u ? (uint32_t)us : 1000000u;
}

/* Floats of a coded chunk if a frame carries plain_n plain ones: so many trained weights mostly fit
 * (tools/experiments/float_planes). And the inverse. */
static inline uint32_t uw_node_wide_n(uint32_t plain_n)
{
    return plain_n + plain_n / 8u;
}

static inline uint32_t uw_node_plain_n(uint32_t wide_n)
{
    return (8u * wide_n + 8u) / 9u;
}

/* The largest chunk of wants. */
static inline uint32_t uw_node_most_n(const struct uw_node_state *s, bool coded)
{
    return !coded                                       ? uw_node_chunk_n(s)
           : s->config.code && s->config.link->frames   ? uw_node_wide_n(uw_node_chunk_n(s))
                                                        : 0;
}

/* node_guard.c, an optional part of a node */
struct uw_node_guards {
    struct uw_node_setup setup;
    /* Allocate a further guard, which follows the first one: gossip/guard.h. */
    int (*place_follower)(const struct uw_node_state *s, struct uw_arena *arena,
                          struct uw_guard **out);
};

/* node_revokes.c, an optional part of a node. Only while config.keys is set. */
struct uw_node_revokes {
    struct uw_node_setup setup;
    void (*fill)(const struct uw_node_state *s, uwasa_Ping *ping);
    /* A ping tells which lists its sender has: send it newer ones. */
    void (*heard)(struct uw_node_state *s, uint16_t station, const uwasa_Ping *ping);
    void (*message)(struct uw_node_state *s, uint32_t bytes);   /* a list in s->in */
    void (*step)(struct uw_node_state *s);      /* send a list that is new to all members */
};

/* node_codes.c, an optional part of a node */
struct uw_node_codes {
    struct uw_node_setup setup;
    /* Write the chunk of an item, with floats x, or its next part, and set item->more.
     * Returns the bytes or UW_ERR_TOOBIG. */
    int (*write)(struct uw_serve_item *item, const struct uw_data *d, const float *x, void *buf,
                 uint32_t cap_bytes);
    /* Parse a datagram of type UW_WIRE_DATA or UW_WIRE_DATA_CODED of a coded pull of size_n floats.
     * Returns UW_OK or UW_ERR_CORRUPT. */
    int (*read)(const void *buf, uint32_t bytes, const struct uw_short_data *known, uint32_t size_n,
                struct uw_data *d);
    /* As uw_message_floats, for coded chunks. */
    int (*floats)(const struct uw_data *d, float *out);
};

/* Does a member's link carry chunks of chunk_n, and do both links carry chunk_least_n? */
static inline bool uw_node_carries(const struct uw_node_state *s, const struct uw_node_peer *peer,
                                   uint32_t chunk_n)
{
    uint32_t least_n = s->config.chunk_least_n;
    chunk_n = chunk_n > least_n ? chunk_n : least_n;
    uint32_t limit_n = peer->chunk_limit_n;
    return uw_node_chunk_n(s) >= least_n && (limit_n == 0 || limit_n >= chunk_n);
}

/* node_pick.c */

/* Insert the member at this place into s->candidates, by identity. Returns its index. */
uint32_t uw_node_list(struct uw_node_state *s, uint32_t place);

/* The place of the peer that a schedule picks of the candidates; 0: none. */
uint32_t uw_node_pick_listed(struct uw_node_state *s, const struct uw_peer_schedule *schedule,
                             uint32_t round, float *weight);

/* Pick the peer of a round: its place and its weight. 0: none; UW_NODE_LATER: wait for one.
 *   adopt  set to whether its model is taken over */
#define UW_NODE_LATER UINT32_MAX
uint32_t uw_node_pick(struct uw_node_state *s, uint32_t round, bool *adopt, float *weight);

/* Pick any usable peer for chunks of chunk_n except `but` (may be NULL); 0: none. */
uint32_t uw_node_pick_any(struct uw_node_state *s, uint32_t round, bool newcomer,
                          uint32_t chunk_n, const struct uw_member *but);

/* Is a member awake for about the time of a pull? Is any usable peer? */
bool uw_node_is_awake(const struct uw_node_state *s, const struct uw_member *m);
bool uw_node_any_awake(struct uw_node_state *s);

/* node_pull.c */

/* Begin, continue, or end the pull of a round, as due at s->now_us. */
void uw_node_pull_step(struct uw_node_state *s);

/* Handle a chunk, also one of no current pull. */
void uw_node_pull_data(struct uw_node_state *s, uint16_t station, const struct uw_data *d);

/* The next time at which uw_node_pull_step has work if no message arrives. */
uint64_t uw_node_pull_next_us(struct uw_node_state *s);

/* Avoid a member (may be NULL) for a while, each time twice as long. */
void uw_node_punish(struct uw_node_state *s, struct uw_member *m);

/* The peer of a lane; NULL: replaced in the table. */
static inline struct uw_member *uw_node_lane_member(const struct uw_node_state *s,
                                                    const struct uw_node_lane *lane)
{
    struct uw_member *m = &s->membership.members[lane->member];
    return m->id == lane->member_id ? m : NULL;
}

/* The peer of the current or last pull; NULL: none, or replaced in the table. */
struct uw_member *uw_node_pull_member(struct uw_node_state *s);

/* End the pull, count it as cut and report the reason. */
void uw_node_pull_cut(struct uw_node_state *s, enum uw_node_why why);

/* Do not pull from a member for so long. */
void uw_node_avoid(struct uw_node_state *s, const struct uw_member *m, uint64_t us);

/* The timeout of a pull. */
uint64_t uw_node_pull_deadline_us(const struct uw_node_state *s);

/* The silence that ends a pull from a member: as configured, or some round trips if longer. */
uint64_t uw_node_pull_silence_us(const struct uw_node_state *s, const struct uw_pull *t,
                                 const struct uw_member *m);

/* Handle a refusal by a peer of the current pull. */
void uw_node_pull_refused(struct uw_node_state *s, struct uw_member *m,
                          const uwasa_Refuse *refuse);

/* The lane of the current or last pull from this member; NULL: none. */
struct uw_node_lane *uw_node_pull_of(struct uw_node_state *s, const struct uw_member *m);

/* Begin to pull from the member at this place; or continue with it instead of another one. */
void uw_node_lane_start(struct uw_node_state *s, struct uw_node_lane *lane, uint32_t place,
                        uint32_t chunk_n, bool coded);
void uw_node_lane_move(struct uw_node_state *s, struct uw_node_lane *lane, uint32_t place);

/* Store the peer's send rate for the next pull. */
void uw_node_lane_keep_rate(struct uw_node_state *s, const struct uw_node_lane *lane);

/* Send the wants of a lane that are due. */
void uw_node_pull_ask(struct uw_node_state *s, struct uw_node_lane *lane);

/* How long to avoid a member whose version was mixed before. */
uint64_t uw_node_stale_us(const struct uw_node_state *s, const struct uw_member *m);

/* ---- slices of the parameters, one a round (uw_node_config.slices_n) ---- */

/* The slice of a round for a node with this identity: all slices in F rounds, each time from a
 * random start. Otherwise a schedule of F peers would pull each slice from the same peer. */
static inline uint32_t uw_node_slice(uint32_t id, uint32_t round, uint32_t slices_n)
{
    return ((uint32_t)uw_rng_mix(id, round / slices_n) % slices_n + round % slices_n) % slices_n;
}

/* The chunks of a round, and the slice that they belong to. */
struct uw_node_range {
    uint32_t at, from, n;
};

/* Set the slice of the pull that begins; all slices for a newcomer and for another cell's model. */
void uw_node_pick_slice(struct uw_node_state *s);

/* The version of a peer of which all these slices were mixed before; 0: none, or chunks of the
 * current pull have arrived.
 *   version  of the chunks so far, as in struct uw_node_pull */
static inline uint32_t uw_node_slices_known(uint32_t slices, uint32_t version,
                                            const struct uw_node_peer *peer)
{
    return version == 0 && (slices & ~peer->mixed_slices) == 0 ? peer->mixed_version : 0;
}

/* Store that all of these slices were mixed in, from one peer. */
static inline void uw_node_slices_mixed(uint32_t slices, uint32_t version,
                                        struct uw_node_peer *peer, uint64_t now_us)
{
    peer->mixed_slices = slices | (version == peer->mixed_version ? peer->mixed_slices : 0);
    peer->mixed_version = version;
    peer->mixed_ms = (uint32_t)(now_us / 1000u);
}

/* ---- a pull from several peers at once: an optional part (node_lanes.c) ----
 *
 * The chunks of a round are divided: s->pull has the first share, and each further peer has a lane
 * with another share. Every element is averaged once, with the value of one peer. A peer that has
 * sent its share takes over half of the slowest peer's missing chunks. The missing chunks of a peer
 * that is silent, sleeps or refuses return to the pull. When the pull's own peer stops, a lane
 * replaces it. The round ends when all shares have arrived, or were mixed before.
 *
 * A share is a slice of the round: its mixed version is stored as for slices, unless it moved to
 * another peer. */

struct uw_node_further {
    uint32_t n;                     /* lanes */
    uint32_t asked_n;               /* peers of this round beside the pull's; 0: one peer only */
    struct uw_node_lane *lane;      /* [n] */
};

/* All but setup only while s->further is set. */
struct uw_node_lanes {
    struct uw_node_setup setup;
    /* The pull of a round has begun: choose further peers and divide the chunks. */
    void (*began)(struct uw_node_state *s, const struct uw_node_range *all);
    /* Supervise all lanes, and send wants that are due. */
    void (*step)(struct uw_node_state *s);
    /* The pull's share is complete: are the others? If not, take over a part of one. */
    bool (*over)(struct uw_node_state *s);
    /* The pull's peer has stopped: continue with the peer of a lane.
     * Returns false when there is none. */
    bool (*take_over)(struct uw_node_state *s, enum uw_node_why why);
    /* The version of a lane's peer, maybe the pull's own, was mixed before. */
    void (*stale)(struct uw_node_state *s, struct uw_node_lane *lane);
    /* A lane's peer sent a chunk that is not finite; refused to serve. */
    void (*nonfinite)(struct uw_node_state *s, struct uw_node_lane *lane);
    void (*refused)(struct uw_node_state *s, struct uw_node_lane *lane, enum uw_node_why why);
    /* The pull has ended. */
    void (*stop)(struct uw_node_state *s);
};

static inline bool uw_node_pulls_from_many(const struct uw_node_state *s)
{
    return s->further != NULL && s->further->asked_n != 0;
}

/* The lane of a further peer; NULL: none pulls from this member. */
static inline struct uw_node_lane *uw_node_lane_of(const struct uw_node_state *s,
                                                   const struct uw_member *m)
{
    for (uint32_t i = 0; s->further != NULL && i < s->further->n; i++) {
        struct uw_node_lane *lane = &s->further->lane[i];
        if (lane->used && uw_node_lane_member(s, lane) == m && m != NULL) {
            return lane;
        }
    }
    return NULL;
}

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
