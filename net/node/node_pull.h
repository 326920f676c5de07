/* SPDX-License-Identifier: Apache-2.0
 *
 * node_pull.h - the pull of a round, between the files that make it
 *
 *     node_pick.c    the peer of a round
 *     node_pull.c    rounds: begin, go on with another peer, end; what is asked, and what comes
 *     node_lanes.c   further peers at once, and slices of the model: optional parts
 *
 * Blocking   never      Context  network thread
 */
#ifndef UW_NET_NODE_PULL_H
#define UW_NET_NODE_PULL_H

#include "node_state.h"

#define UW_NODE_AVOID_US 2000000u           /* who stopped in a pull is left alone for so long */
#define UW_NODE_PASSED_MOST 3u              /* peers a round passes over, and asks one more */
#define UW_NODE_VERSION_MIXED UINT32_MAX    /* chunks of more than one peer */

/* The largest chunk that the link carries now. */
static inline uint32_t uw_node_chunk_n(const struct uw_node_state *s)
{
    uint32_t head = uw_wire_data_bytes(s->config.link->frames), mtu = uw_node_mtu(s);
    uint32_t n = mtu > head ? (mtu - head) / 4u : 0;
    return n < s->chunk_n ? n : s->chunk_n;
}

/* How soon to try again what the link did not take: part of what a message takes. */
static inline uint32_t uw_node_retry_us(const struct uw_node_state *s)
{
    const struct uw_link *l = s->config.link;
    uint64_t rate = l->frames ? l->rate_bits_per_s : 0;
    uint64_t us = rate != 0 ? l->mtu_bytes * UINT64_C(1000000) / rate : 0;
    return us < 500u ? 500u : us < 1000000u ? (uint32_t)us : 1000000u;
}

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

/* Does a member's link carry chunks of chunk_n, and both links large enough ones for this node? */
static inline bool uw_node_carries(const struct uw_node_state *s, const struct uw_node_peer *peer,
                                   uint32_t chunk_n)
{
    uint32_t least_n = s->config.chunk_least_n;
    chunk_n = chunk_n > least_n ? chunk_n : least_n;
    uint32_t limit_n = peer->chunk_limit_n;
    return uw_node_chunk_n(s) >= least_n && (limit_n == 0 || limit_n >= chunk_n);
}

/* node_pick.c */

/* Put the member at this place into s->candidates, by identity. Returns where. */
uint32_t uw_node_list(struct uw_node_state *s, uint32_t place);

/* The place in the table of the one that a schedule names among those listed; 0: nobody now. */
uint32_t uw_node_pick_listed(struct uw_node_state *s, const struct uw_peer_schedule *schedule,
                             uint32_t round, float *weight);

/* Whom to pull from in a round: its place in the table, and its weight. 0: nobody; UW_NODE_LATER:
 * wait a little for somebody to appear.  adopt: set, its model is to be taken over */
#define UW_NODE_LATER UINT32_MAX
uint32_t uw_node_pick(struct uw_node_state *s, uint32_t round, bool *adopt, float *weight);

/* Any but one (or NULL) that can be pulled from now in chunks of chunk_n; 0: nobody. */
uint32_t uw_node_pick_any(struct uw_node_state *s, uint32_t round, bool newcomer,
                          uint32_t chunk_n, const struct uw_member *but);

/* Does it listen for about as long as a pull takes? Does anybody who can be pulled from? */
bool uw_node_is_awake(const struct uw_node_state *s, const struct uw_member *m);
bool uw_node_any_awake(struct uw_node_state *s);

/* node_pull.c */

/* Begin, go on with, or end the pull of a round: what is due at s->now_us. */
void uw_node_pull_step(struct uw_node_state *s);

/* A chunk arrived, maybe not ours. */
void uw_node_pull_data(struct uw_node_state *s, uint16_t station, const struct uw_data *d);

/* When uw_node_pull_step has something to do, if nothing arrives. */
uint64_t uw_node_pull_next_us(struct uw_node_state *s);

/* Leave a member, or NULL, alone for a while; each time twice as long. */
void uw_node_punish(struct uw_node_state *s, struct uw_member *m);

/* The peer of a lane; NULL: its place has another member now. */
static inline struct uw_member *uw_node_lane_member(const struct uw_node_state *s,
                                                    const struct uw_node_lane *lane)
{
    struct uw_member *m = &s->membership.members[lane->member];
    return m->id == lane->member_id ? m : NULL;
}

/* The member of the present or last pull; NULL: none, or its place has another now. */
struct uw_member *uw_node_pull_member(struct uw_node_state *s);

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

/* A peer of the present pull refused it. */
void uw_node_pull_refused(struct uw_node_state *s, struct uw_member *m,
                          const uwasa_Refuse *refuse);

/* The lane that pulls, or pulled last, from this member; NULL: none. */
struct uw_node_lane *uw_node_pull_of(struct uw_node_state *s, const struct uw_member *m);

/* Begin to pull from the member at this place, or go on with it instead of another one. */
void uw_node_lane_start(struct uw_node_state *s, struct uw_node_lane *lane, uint32_t place,
                        uint32_t chunk_n, bool coded);
void uw_node_lane_move(struct uw_node_state *s, struct uw_node_lane *lane, uint32_t place);

/* Remember for the next pull how fast its peer sends. */
void uw_node_lane_keep_rate(struct uw_node_state *s, const struct uw_node_lane *lane);

/* Send the questions to its peer that are due. */
void uw_node_pull_ask(struct uw_node_state *s, struct uw_node_lane *lane);

/* When they are. */
uint64_t uw_node_pull_due_us(const struct uw_node_state *s, const struct uw_pull *t);

/* For how long to leave alone a member that shows what was mixed in before. */
uint64_t uw_node_stale_us(const struct uw_node_state *s, const struct uw_member *m);

/* ---- slices of the parameters, one a round (uw_node_config.slices_n) ---- */

/* The slice of a round, as a node with this identity takes them: all within F rounds, and in the
 * next F begun anywhere. Else a schedule of F peers would bring each from one of them alone. */
static inline uint32_t uw_node_slice(uint32_t id, uint32_t round, uint32_t slices_n)
{
    return ((uint32_t)uw_rng_mix(id, round / slices_n) % slices_n + round % slices_n) % slices_n;
}

/* The chunks of a round, and which of its slices they are. */
struct uw_node_range {
    uint32_t at, from, n;
};

/* Which slice the pull that begins is of: all, for what a newcomer takes over or a cell from
 * another. */
void uw_node_pick_slice(struct uw_node_state *s);

/* The version of what a peer shows of which all these slices have been mixed in; 0: none, or of
 * what comes now there is some already.
 *   version  of what came so far, as in struct uw_node_pull */
static inline uint32_t uw_node_slices_known(uint32_t slices, uint32_t version,
                                            const struct uw_node_peer *peer)
{
    return version == 0 && (slices & ~peer->mixed_slices) == 0 ? peer->mixed_version : 0;
}

/* All of these slices was mixed in, and of one peer. */
static inline void uw_node_slices_mixed(uint32_t slices, uint32_t version,
                                        struct uw_node_peer *peer, uint64_t now_us)
{
    peer->mixed_slices = slices | (version == peer->mixed_version ? peer->mixed_slices : 0);
    peer->mixed_version = version;
    peer->mixed_ms = (uint32_t)(now_us / 1000u);
}

/* ---- a pull from several peers at once: an optional part (node_lanes.c) ----
 *
 * The chunks of a round are shared out: s->pull has the first share, and each further peer has a
 * lane with another. So every element is averaged once, with the value of one peer. A peer that
 * has sent its share takes half of what the slowest one still lacks. What a peer still owes goes
 * back to the pull when that peer falls silent, sleeps or refuses. When the pull's own peer stops,
 * a lane takes its place. The round ends when all shares have arrived, or were known from before.
 *
 * A share is a slice of the round's: the version of it that was mixed in is remembered as for
 * slices. Nothing is remembered of a share that was handed on. */

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
    /* The peer of a lane, maybe the pull's own, shows what was mixed in before. */
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
