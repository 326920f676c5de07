/* SPDX-License-Identifier: Apache-2.0
 *
 * node_state.h - what is behind struct uw_node, shared by the files node*.c
 *
 *     node_bind.c    set-up: what a configuration needs, and the memory
 *     node.c         the step
 *     node_recv.c    what to do with each message
 *     node_swim.c    peers that are found (node_swim.h); node_listed.c those of a list
 *     node_pull.c    the pull of a round (node_pull.h); node_pick.c whom from
 *     node_send.c    what goes out; node_event.c events (node_tell.h)
 *     node_status.c  the member table, for this program
 *
 * and of its optional parts (node_parts.h)
 *
 *     node_averages.c     exact averages, with node_cell.c, node_bridge.c between cells,
 *                         node_cost.c, node_near.c, node_pairs.c, node_gradients*.c, node_news.c
 *     node_answers.c      the member table over the wire; node_sentences.c of events
 *     node_shuffle.c      samples lent to others; node_slice.c slices of the model
 *     node_sleep.c        windows; node_frames.c, _limits.c frames; node_lanes.c many peers at once
 *     node_periods.c      a period that follows from pulls; node_codes.c chunks in a lossless code
 */
#ifndef UW_NET_NODE_STATE_H
#define UW_NET_NODE_STATE_H

#include "node_optional.h"
#include "base/deadline.h"
#include "gossip/gossip.h"
#include "membership/membership.h"
#include "transfer/transfer_serve.h"
#include "wire/message.h"

#include "uwasa/node.h"

struct uw_node_bridge;
struct uw_node_cast;
struct uw_node_cell;
struct uw_node_cost;
struct uw_node_further;
struct uw_node_gradients;
struct uw_node_pairs;
struct uw_node_period;
struct uw_node_quiet;
struct uw_node_shuffle;
struct uw_node_sleeper;

#define UW_NODE_POLL_US 5000u           /* how soon a freed slot, or what training did, is seen */
#define UW_NODE_BUFFER_MAX 16384u       /* largest message, whatever the link could carry ... */
#define UW_NODE_PARTS_MAX (64u * 1024u + 64u)   /* ... but parts of averages, which
                                                   no datagram could carry */

enum uw_node_pull_for {
    UW_PULL_TO_MIX,
    UW_PULL_TO_ADOPT,               /* its model is taken over */
    UW_PULL_TO_BRIDGE               /* of another cell's head, for node_bridge.c */
};

/* The pull of a round, the present or last one. */
struct uw_node_pull {
    struct uw_pull transfer;
    uint32_t round;
    uint32_t member;                /* place in the table */
    uint32_t member_id;             /* guards against the place being reused */
    enum uw_node_pull_for what_for;
    bool judged;                    /* its outlier has been dealt with */
    uint8_t passed;                 /* peers that had nothing new for this round */
    float weight;                   /* the peer's share as the schedule says it; 0: the rule's */
    uint32_t version;               /* the oldest that came of what the peer shows; 0: none yet */
    uint32_t slices;                /* a bit for each slice that is pulled, all: the model */
    uint64_t bytes;
    uint64_t paused_us;             /* its peer sleeps, and did when this was looked at; 0: no */
    uint8_t plain_rounds;           /* to come without the code, which did not pay */
    uint32_t pending;               /* round that waits for somebody to appear; 0: none */
    struct uw_deadline took;        /* pulls */
    uint64_t turn_us;               /* the first one is not before; 0: not drawn yet */
};

/* What pulls keep about a member, by its place in the table. Another one that takes the place finds
 * zeros; one that was started anew has what is above the line: its memory of us is gone, and so is
 * what we held against it. */
struct uw_node_peer {
    uint64_t from_bytes;            /* pulled from it */
    uint32_t refused_n;
    float floats_per_us;            /* rate of the last pull from it */
    /* ---- */
    uint64_t avoid_until_us;        /* no pulls before */
    uint32_t mixed_ms;              /* when its parameters were mixed in last, wraps, */
    uint32_t mixed_version;         /* and the latest of them; 0: none */
    uint32_t mixed_slices;          /* a bit for each slice of it that was mixed in */
    uint16_t chunk_limit_n;         /* largest chunk it sends; 0: not known to be small */
    uint8_t limit_pulls;            /* with chunks so small, until larger ones are tried */
    uint8_t strikes;                /* reasons to leave it alone */
};

/* The members of the run by identity, this device too. */
struct uw_node_candidates {
    uint32_t n;
    uint16_t *place;                /* [members_max] in the table */
    bool *usable;                   /* [members_max] may be pulled from now */
    uint8_t *weight;                /* [members_max] by their batteries */
    bool weighted;                  /* not all are alike */
};

/* The body of a control message of the node itself. */
union uw_node_message {
    uwasa_Ping ping;                /* hello, ping, ack */
    uwasa_Want want;
    uwasa_Refuse refuse;
    uwasa_Goodbye goodbye;
};

/* The largest at the end: boards reach what is before them with shorter instructions. */
struct uw_node_state {
    struct uw_node_config config;
    bool started, left;
    bool blocked;                   /* the link takes no more for now */
    uint32_t shown_version;
    uint32_t run;
    uint64_t model;
    uint32_t chunk_n;               /* largest chunk this link carries */
    uint32_t buffer_bytes;          /* largest message, a part of an average */
    /* Two clocks. The node's, now_us, stands still while the node sleeps or is stopped: all that is
     * under way goes by it. The outer one goes on: that of the link, of membership and of all times
     * in struct uw_member, of windows and of loans. */
    uint64_t now_us, first_us;
    uint64_t outer_us;              /* the caller's time and clock_us; never goes back */
    uint64_t clock_us;
    uint64_t slept_us;              /* outer_us is now_us and this */
    uint64_t promised_us;           /* outer: the next step comes then, or sooner */
    uint64_t awake_until_us;        /* outer: it does not fall asleep before */

    uint8_t *buffer;                /* [buffer_bytes] */
    uint8_t *in;                    /* the message that came in: the link's, or in the buffer */
    float *chunk;                   /* [chunk_n] of the snapshot on its way to the buffer; the
                                       memory of `message` */
    union uw_node_message *message;     /* that came in, or goes out: what came in is read
                                       before anything goes out, chunks too */
    uint8_t *late;                  /* [buffer_bytes] what the link did not take; NULL: lost */
    uint32_t late_bytes;            /* 0: none waits */
    uint64_t late_until_us;
    uint16_t late_station;
    struct uw_node_limits limits;
    const struct uw_node_members *members;      /* how it knows its peers */

    /* Of optional parts; NULL: this node does without. */
    const struct uw_node_averages *averages;        /* and then the five below are set */
    struct uw_node_cell *cell;
    struct uw_node_bridge *bridge;
    struct uw_node_gradients *gradients;
    struct uw_node_pairs *pairs;
    struct uw_node_cost *cost;
    struct uw_node_further *further;    /* peers of the same pull; NULL: it is always of one */
    struct uw_node_cast *cast;
    struct uw_node_shuffle *samples;
    struct uw_node_period *period;
    struct uw_node_sleeper *sleeper;
    uwasa_StatusReply *reply;       /* for answers */

    struct uw_node_quiet *quiet;    /* node_tell.h; NULL: nobody hears of events */
    char *text;                     /* [UW_NODE_TEXT_BYTES]; NULL: nobody writes sentences */
    struct uw_node_candidates candidates;
    struct uw_node_peer *peers;     /* [members_max] */
    struct uw_rng rng;
    struct uw_node_pull pull;
    struct uw_node_counters counters;
    struct uw_serve serve;
    struct uw_gossip gossip;
    struct uw_membership membership;
};

/* node.c */

/* This node slept, or was stopped, for so long: its clock stood still. */
void uw_node_slept(struct uw_node_state *s, uint64_t slept_us);

/* node_recv.c */

/* Take up to `most` messages; returns how many there were. */
uint32_t uw_node_receive(struct uw_node_state *s, uint32_t most);

/* Tell a station why it is not served; transfer: of the want that is refused, or 0. */
void uw_node_refuse(struct uw_node_state *s, uint16_t station, uwasa_Reason reason,
                    uint32_t transfer);

/* node_pull.c */

/* Begin, go on with, or end the pull of a round: what is due at s->now_us. */
void uw_node_pull_step(struct uw_node_state *s);

/* A chunk arrived, maybe not ours. */
void uw_node_pull_data(struct uw_node_state *s, uint16_t station, const struct uw_data *d);

/* When uw_node_pull_step has something to do, if nothing arrives. */
uint64_t uw_node_pull_next_us(struct uw_node_state *s);

/* Leave a member, or NULL, alone for a while; each time twice as long. */
void uw_node_punish(struct uw_node_state *s, struct uw_member *m);

/* The member of the present or last pull; NULL: none, or its place has another now. */
struct uw_member *uw_node_pull_member(struct uw_node_state *s);
struct uw_member *uw_node_member(struct uw_node_state *s, uint32_t id);     /* by identity */

/* node_send.c */

/* Send s->message. Returns UW_OK, UW_ERR_TOOBIG, or what the link says; not sent is lost. */
int uw_node_send(struct uw_node_state *s, uint16_t station, enum uw_wire_type type,
                 const struct uw_message_form *form);

/* The same of any control message. */
int uw_node_send_body(struct uw_node_state *s, uint16_t station, enum uw_wire_type type,
                      const struct uw_message_form *form, const void *body);

/* Send s->buffer. */
int uw_node_send_buffer(struct uw_node_state *s, uint16_t station, uint32_t bytes);

/* Is there no message that waits for the link? */
bool uw_node_sent_late(struct uw_node_state *s);

/* Send up to `most` chunks that others asked for. */
void uw_node_serve_step(struct uw_node_state *s, uint32_t most);

/* What others are shown, and its version: a copy of the snapshot's or, where there is none, of the
 * parameters themselves, which training leaves alone meanwhile. NULL: not now. */
const float *uw_node_look(struct uw_node_state *s, uint32_t offset_n, uint32_t count_n,
                          uint32_t *version);

/* node_pick.c */

/* Put the member at this place into s->candidates, by identity. Returns where. */
uint32_t uw_node_list(struct uw_node_state *s, uint32_t place);

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

static inline struct uw_node_peer *uw_node_peer(const struct uw_node_state *s,
                                                const struct uw_member *m)
{
    return &s->peers[m->place];
}

/* The largest message and chunk that the link carries now, maybe less than before. */
static inline uint32_t uw_node_mtu(const struct uw_node_state *s)
{
    uint32_t mtu = s->config.link->mtu_bytes;
    return mtu < s->buffer_bytes ? mtu : s->buffer_bytes;
}

static inline uint32_t uw_node_chunk_n(const struct uw_node_state *s)
{
    uint32_t head = uw_wire_data_bytes(s->config.link->frames), mtu = uw_node_mtu(s);
    uint32_t n = mtu > head ? (mtu - head) / 4u : 0;
    return n < s->chunk_n ? n : s->chunk_n;
}

/* Does a member's link carry chunks of chunk_n, and both links large enough ones for this node? */
static inline bool uw_node_carries(const struct uw_node_state *s, const struct uw_node_peer *peer,
                                   uint32_t chunk_n)
{
    uint32_t least_n = s->config.chunk_least_n;
    chunk_n = chunk_n > least_n ? chunk_n : least_n;
    uint32_t limit_n = peer->chunk_limit_n;
    return uw_node_chunk_n(s) >= least_n && (limit_n == 0 || limit_n >= chunk_n);
}

/* How soon to try again what the link did not take: part of what a message takes. */
static inline uint32_t uw_node_retry_us(const struct uw_node_state *s)
{
    const struct uw_link *l = s->config.link;
    uint64_t rate = l->frames ? l->rate_bits_per_s : 0;
    uint64_t us = rate != 0 ? l->mtu_bytes * UINT64_C(1000000) / rate : 0;
    return us < 500u ? 500u : us < 1000000u ? (uint32_t)us : 1000000u;
}

/* node_status.c */

/* What this device tells of its training; of its averages: returns whether there are any. */
void uw_node_fill_progress(const struct uw_node_state *s, uwasa_Progress *p);
bool uw_node_fill_averaging(const struct uw_node_state *s, uwasa_Averaging *a);

void uw_node_count(const struct uw_node_state *s, struct uw_node_counters *c);

#endif
