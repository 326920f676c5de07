/* SPDX-License-Identifier: Apache-2.0
 *
 * node_state.h - what is behind struct uw_node, shared by the files of node/, node_parts/ and
 * node_exact/
 *
 *     node_bind.c    set-up: what a configuration needs, and the memory; peers of a list
 *     node.c         the step
 *     node_recv.c    messages that arrive; node_send.c: messages that are sent
 *     node_swim.c    peers that are found
 *     node_pull.c    the pull of a round, and node_pick.c, its peer: node_pull.h
 *     node_event.c   events; node_status.c: the member table
 *     node_check.c   what is wrong with a configuration
 *
 * and by its optional parts: node_optional.h
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

#define UW_NODE_POLL_US 5000u           /* how soon a freed slot, or what training did, is seen */
#define UW_NODE_BUFFER_MAX 16384u       /* largest message, whatever the link could carry ... */
#define UW_NODE_PARTS_MAX (64u * 1024u + 64u)   /* ... but parts of averages, which
                                                   no datagram could carry */

enum uw_node_pull_for {
    UW_PULL_TO_MIX,
    UW_PULL_TO_ADOPT,               /* its model is taken over */
    UW_PULL_TO_BRIDGE               /* of another cell's head, for node_bridge.c */
};

/* What one peer gives of a round. */
struct uw_node_lane {
    struct uw_pull transfer;
    uint32_t member;                /* place in the table */
    uint32_t member_id;             /* guards against the place being reused */
    uint32_t version;               /* the oldest that arrived; 0: none yet */
    uint32_t slices;                /* a bit for each slice that is pulled, all: the model */
    bool used;                      /* of a further peer: in this round, and not done */
};

/* The pull of a round, the present or last one. */
struct uw_node_pull {
    struct uw_node_lane first;      /* its peer; others: struct uw_node_further */
    uint32_t round;
    enum uw_node_pull_for what_for;
    bool judged;                    /* its outlier has been dealt with */
    uint8_t passed;                 /* peers that had nothing new for this round */
    uint8_t plain_rounds;           /* to come without the code, which did not pay */
    float weight;                   /* the peer's share by the schedule; 0: by the rule */
    uint32_t pending;               /* round that waits for a peer to appear; 0: none */
    uint64_t bytes;
    uint64_t paused_us;             /* its peer sleeps, and did when this was looked at; 0: no */
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
    uint16_t late_station;          /* of what is in `late` */
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

/* node_pick.c. The member with this identity, other than this node; NULL: not in the table. */
struct uw_member *uw_node_member(struct uw_node_state *s, uint32_t id);

/* node_send.c */

/* Send a control message. What is not sent is lost.
 * Returns UW_OK, UW_ERR_TOOBIG, or what the link says. */
int uw_node_send(struct uw_node_state *s, uint16_t station, enum uw_wire_type type,
                 const struct uw_message_form *form, const void *body);

/* Send s->buffer. */
int uw_node_send_buffer(struct uw_node_state *s, uint16_t station, uint32_t bytes);

/* Is there no message that waits for the link? */
bool uw_node_sent_late(struct uw_node_state *s);

/* Send up to `most` chunks that others asked for. */
void uw_node_serve_step(struct uw_node_state *s, uint32_t most);

/* What others are shown, and its version: a copy of the snapshot's or, where there is none, of the
 * parameters themselves, which training leaves alone meanwhile. NULL: not now. */
const float *uw_node_read_shown(struct uw_node_state *s, uint32_t offset_n, uint32_t count_n,
                                uint32_t *version);

static inline struct uw_node_peer *uw_node_peer(const struct uw_node_state *s,
                                                const struct uw_member *m)
{
    return &s->peers[m->place];
}

/* The largest message that the link carries now, maybe less than before. */
static inline uint32_t uw_node_mtu(const struct uw_node_state *s)
{
    uint32_t mtu = s->config.link->mtu_bytes;
    return mtu < s->buffer_bytes ? mtu : s->buffer_bytes;
}

/* node_status.c */

/* What this device reports of its training, and of its averages: returns whether there are any. */
void uw_node_fill_progress(const struct uw_node_state *s, uwasa_Progress *p);
bool uw_node_fill_averaging(const struct uw_node_state *s, uwasa_Averaging *a);

/* A row of the member table: the live view. */
void uw_node_fill_row(const struct uw_node_state *s, uint32_t place, uint64_t now_us,
                      uwasa_Row *row);

void uw_node_count(const struct uw_node_state *s, struct uw_node_counters *c);

/* node_event.c */

#define UW_NODE_QUIETS 12u

/* An event that is not reported again before. */
struct uw_node_quiet {
    enum uw_node_event_kind kind;
    uint32_t key;
    uint64_t until_us;
};

/* Report an event whose sentence is in s->text, or which needs none. */
void uw_node_report(struct uw_node_state *s, struct uw_node_event *e);

/* Write its sentence as well. */
void uw_node_event_report(struct uw_node_state *s, struct uw_node_event *e,
                          const struct uw_node_cause *c);

/* Is this to be reported? True the first time for a key, then once in ten seconds; never where
 * the program has no on_event. */
bool uw_node_is_news(struct uw_node_state *s, enum uw_node_event_kind kind, uint32_t key);

/* The address that a member gave, or the one that it, or the station, is seen at. */
const char *uw_node_address(struct uw_node_state *s, const struct uw_member *m, uint16_t station,
                            char seen[UW_LINK_ADDRESS_BYTES]);

/* As changed and forget of struct uw_membership_config; arg is the node's state. */
void uw_node_member_changed(void *arg, enum uw_node_event_kind kind, const struct uw_member *m,
                            uint64_t silent_us);
void uw_node_forget(void *arg, const struct uw_member *m, bool restarted);

/* The present or last pull, and its peer; m NULL: the peer is no longer in the table. */
void uw_node_event_pull(struct uw_node_state *s, const struct uw_member *m,
                         enum uw_node_event_kind kind, enum uw_node_why why);

/* A message from a station was refused: WRONG_RUN to MEMBERS_FULL. */
void uw_node_event_refused(struct uw_node_state *s, enum uw_node_event_kind kind,
                            uint16_t station, const struct uw_node_cause *c);

/* node_swim.c */

#define UW_NODE_HEARS_MIN 40u   /* bytes; of frames of 51 */
#define UW_NODE_OTHERS 1u       /* records that every ping has, in turn */

/* Make s->message a hello, ping or ack with news of this device. */
void uw_node_fill_ping(struct uw_node_state *s, uint32_t seq);

/* Send one with news of this device, and as many as fit of news of others and of
 * records of so many others of whom there is none. */
void uw_node_ping(struct uw_node_state *s, uint16_t station, enum uw_wire_type type, uint32_t seq,
                  uint32_t others);

#define UW_NODE_LEFT_OUT_MOST 11u       /* things, one after the other: node_frames.c */

/* How long a node waits at least where its configuration does not say. */
#define UW_NODE_PING_US 700000u
#define UW_NODE_DEAD_US 10000000u
#define UW_NODE_PULL_US 120000000u
#define UW_NODE_PULL_SILENCE_US 4000000u
#define UW_NODE_SERVE_WINDOWS 4u

/* How long a link takes for so many bytes; 0: not known. */
static inline uint64_t uw_node_rate_us(uint64_t rate_bits_per_s, uint64_t bytes)
{
    return rate_bits_per_s != 0 ? bytes * 8u * 1000000u / rate_bits_per_s : 0;
}

/* How much longer a question may wait to be served, on a link of frames of this rate. */
static inline uint64_t uw_node_serve_us(const struct uw_node_config *c, uint64_t rate_bits_per_s)
{
    return UW_NODE_SERVE_WINDOWS * uw_node_rate_us(rate_bits_per_s, c->window_bytes);
}

/* node_swim.c: what membership may cost, in thousandths of bytes a second: as configured, or a
 * share of a thin link. */
uint64_t uw_node_membership_rate(const struct uw_node_config *c);

#endif
