/* SPDX-License-Identifier: Apache-2.0
 *
 * node_state.h - the state of struct uw_node, shared by the files of node/, node_parts/ and
 * node_exact/
 *
 *     node_bind.c    set-up: parts that a configuration needs, and memory; static peers
 *     node.c         the step
 *     node_recv.c    received messages; node_send.c: sent messages
 *     node_swim.c    discovery and membership
 *     node_pull.c    the pull of a round, and node_pick.c, its peer: node_pull.h
 *     node_event.c   events; node_status.c: the member table
 *     node_check.c   checks of a configuration
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

#define UW_NODE_POLL_US 5000u           /* poll interval for free slots and requests of training */
#define UW_NODE_BUFFER_MAX 16384u       /* largest message, on any link ... */
#define UW_NODE_PARTS_MAX (64u * 1024u + 64u)   /* ... except parts of averages */

enum uw_node_pull_for {
    UW_PULL_TO_MIX,
    UW_PULL_TO_ADOPT,               /* take the model over */
    UW_PULL_TO_BRIDGE               /* from another cell's head, for node_bridge.c */
};

/* The share of one peer in a round. */
struct uw_node_lane {
    struct uw_pull transfer;
    uint32_t member;                /* place in the table */
    uint32_t member_id;             /* guards against the place being reused */
    uint32_t version;               /* the oldest received; 0: none yet */
    uint32_t slices;                /* bitmap of the slices that are pulled */
    bool used;                      /* of a further peer: in this round, not complete */
};

/* The pull of the current or last round. */
struct uw_node_pull {
    struct uw_node_lane first;      /* its peer; others: struct uw_node_further */
    uint32_t round;
    enum uw_node_pull_for what_for;
    bool judged;                    /* its outlier was handled */
    uint8_t passed;                 /* stale peers skipped in this round */
    uint8_t plain_rounds;           /* next rounds without the code, which saved nothing */
    float weight;                   /* the peer's share by the schedule; 0: by the rule */
    uint32_t pending;               /* round that waits for a peer; 0: none */
    uint64_t bytes;
    uint64_t paused_us;             /* last check at which its peer slept; 0: awake */
    struct uw_deadline took;        /* durations of pulls */
    uint64_t turn_us;               /* the first pull is not before; 0: not drawn yet */
};

/* State of pulls from a member, by its place in the table. Zeroed for another member at that place;
 * after a restart of the member, the fields below the line are zeroed. */
struct uw_node_peer {
    uint64_t from_bytes;            /* pulled from it */
    uint32_t refused_n;
    float floats_per_us;            /* rate of the last pull from it */
    /* ---- */
    uint64_t avoid_until_us;        /* no pulls before */
    uint32_t mixed_ms;              /* when its parameters were last mixed in, wraps, ... */
    uint32_t mixed_version;         /* ... and their version; 0: none */
    uint32_t mixed_slices;          /* bitmap of the slices of it that were mixed in */
    uint16_t chunk_limit_n;         /* largest chunk that it sends; 0: no known limit */
    uint8_t limit_pulls : 7;        /* pulls with that limit, until larger chunks are tried */
    uint8_t far : 1;                /* its last model was refused, the first in a row */
    uint8_t strikes;                /* faults in a row, for the back-off */
};

/* The members of the run by identity, this device included. */
struct uw_node_candidates {
    uint32_t n;
    uint16_t *place;                /* [members_max] in the table */
    bool *usable;                   /* [members_max] can be pulled from now */
    uint8_t *weight;                /* [members_max] by their batteries */
    bool weighted;                  /* weights differ */
};

/* The body of the node's control messages. */
union uw_node_message {
    uwasa_Ping ping;                /* hello, ping, ack */
    uwasa_Want want;
    uwasa_Refuse refuse;
    uwasa_Goodbye goodbye;
};

/* Large fields last: boards access the others with short instructions. */
struct uw_node_state {
    struct uw_node_config config;
    bool started, left;
    bool blocked;                   /* the link returned UW_ERR_AGAIN */
    bool crowded;                   /* reported that the table is full */
    uint16_t late_station;          /* destination of `late` */
    uint32_t shown_version;
    uint32_t run;
    uint64_t model;
    uint32_t chunk_n;               /* largest chunk this link carries */
    uint32_t buffer_bytes;          /* largest message, a part of an average */
    /* Two clocks. The node's clock, now_us, stands still while the node sleeps or is stopped; pulls
     * and averages use it. The outer clock does not stop: the link, membership with all times in
     * struct uw_member, windows and leases use it. */
    uint64_t now_us, first_us;
    uint64_t outer_us;              /* the caller's time + clock_us; never goes back */
    uint64_t clock_us;
    uint64_t slept_us;              /* outer_us = now_us + slept_us */
    uint64_t promised_us;           /* outer: latest time of the next step */
    uint64_t awake_until_us;        /* outer: no sleep before */

    uint8_t *buffer;                /* [buffer_bytes] */
    uint8_t *in;                    /* the received message: in the link, or in the buffer */
    float *chunk;                   /* [chunk_n] of the snapshot to be sent; shares memory with
                                       `message` */
    union uw_node_message *message;     /* received or sent: a received one is handled before
                                       any message or chunk is sent */
    uint8_t *late;                  /* [buffer_bytes] waits for the link; NULL: such are lost */
    uint32_t late_bytes;            /* 0: none waits */
    uint64_t late_until_us;
    struct uw_node_limits limits;
    const struct uw_node_members *members;      /* the source of its peers */

    /* Of optional parts; NULL: not in use. */
    uint32_t keys_told;             /* changes_n of config.keys when lists were last sent to all */
    const struct uw_node_averages *averages;        /* and then the five below are set */
    struct uw_node_cell *cell;
    struct uw_node_bridge *bridge;
    struct uw_node_gradients *gradients;
    struct uw_node_pairs *pairs;
    struct uw_node_cost *cost;
    struct uw_node_further *further;    /* further peers of a pull; NULL: always one peer */
    struct uw_node_cast *cast;
    struct uw_node_shuffle *samples;
    struct uw_node_period *period;
    struct uw_node_sleeper *sleeper;
    uwasa_StatusReply *reply;       /* for answers */

    struct uw_node_quiet *quiet;    /* [UW_NODE_QUIETS]; NULL: no on_event */
    char *text;                     /* [UW_NODE_TEXT_BYTES]; NULL: no sentences */
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

/* This node has slept or was stopped for so long: its clock stood still. */
void uw_node_slept(struct uw_node_state *s, uint64_t slept_us);

/* node_recv.c */

/* Receive and handle up to `most` messages; returns their number. */
uint32_t uw_node_receive(struct uw_node_state *s, uint32_t most);

/* Send a refusal to a station; transfer: of the refused want, or 0. */
void uw_node_refuse(struct uw_node_state *s, uint16_t station, uwasa_Reason reason,
                    uint32_t transfer);

/* node_pick.c. The member with this identity, other than this node; NULL: not in the table. */
struct uw_member *uw_node_member(struct uw_node_state *s, uint32_t id);

/* node_send.c */

/* Send a control message. It is lost on error.
 * Returns UW_OK, UW_ERR_TOOBIG, or the link's error. */
int uw_node_send(struct uw_node_state *s, uint16_t station, enum uw_wire_type type,
                 const struct uw_message_form *form, const void *body);

int uw_node_send_buffer(struct uw_node_state *s, uint16_t station, uint32_t bytes);

/* Send the waiting message, if any. Returns whether none waits. */
bool uw_node_sent_late(struct uw_node_state *s);

/* Send up to `most` chunks that peers requested. */
void uw_node_serve_step(struct uw_node_state *s, uint32_t most);

/* Read published floats and their version: a copy of the snapshot, or, without one, the parameters
 * themselves, which training does not change meanwhile. NULL: not now. */
const float *uw_node_read_shown(struct uw_node_state *s, uint32_t offset_n, uint32_t count_n,
                                uint32_t *version);

static inline struct uw_node_peer *uw_node_peer(const struct uw_node_state *s,
                                                const struct uw_member *m)
{
    return &s->peers[m->place];
}

/* The largest message that the link carries now; may shrink. */
static inline uint32_t uw_node_mtu(const struct uw_node_state *s)
{
    uint32_t mtu = s->config.link->mtu_bytes;
    return mtu < s->buffer_bytes ? mtu : s->buffer_bytes;
}

/* node_status.c */

/* Fill the report of this device's training; of its averages: returns whether there are any. */
void uw_node_fill_progress(const struct uw_node_state *s, uwasa_Progress *p);
bool uw_node_fill_averaging(const struct uw_node_state *s, uwasa_Averaging *a);

void uw_node_fill_row(const struct uw_node_state *s, uint32_t place, uint64_t now_us,
                      uwasa_Row *row);

void uw_node_count(const struct uw_node_state *s, struct uw_node_counters *c);

/* node_event.c */

#define UW_NODE_QUIETS 12u

/* An event that is not reported again before until_us. */
struct uw_node_quiet {
    enum uw_node_event_kind kind;
    uint32_t key;
    uint64_t until_us;
};

/* Report an event whose sentence, if any, is in s->text. */
void uw_node_report(struct uw_node_state *s, struct uw_node_event *e);

/* Write the sentence of an event, and report it. */
void uw_node_event_report(struct uw_node_state *s, struct uw_node_event *e,
                          const struct uw_node_cause *c);

/* Should this event be reported? True once in ten seconds for each key, of versions once an hour;
 * false without on_event. */
bool uw_node_is_news(struct uw_node_state *s, enum uw_node_event_kind kind, uint32_t key);

/* The address that a member reports, or the link's address of it or of the station. */
const char *uw_node_address(struct uw_node_state *s, const struct uw_member *m, uint16_t station,
                            char seen[UW_LINK_ADDRESS_BYTES]);

/* As changed and forget of struct uw_membership_config; arg is the node's state. */
void uw_node_member_changed(void *arg, enum uw_node_event_kind kind, const struct uw_member *m,
                            uint64_t silent_us);
void uw_node_forget(void *arg, const struct uw_member *m, bool restarted);

/* Report an event of the current or last pull; m NULL: its peer is no longer in the table. */
void uw_node_event_pull(struct uw_node_state *s, const struct uw_member *m,
                         enum uw_node_event_kind kind, enum uw_node_why why);

/* Report a refused message of a station: WRONG_RUN to NAME_TAKEN, MEMBERS_FULL. */
void uw_node_event_refused(struct uw_node_state *s, enum uw_node_event_kind kind,
                            uint16_t station, const struct uw_node_cause *c);

/* node_swim.c */

#define UW_NODE_HEARS_MIN 40u   /* bytes; of frames of 51 */
#define UW_NODE_OTHERS 1u       /* records that every ping has, in turn */

/* Fill s->message, a hello, ping or ack, with the state of this device. */
void uw_node_fill_ping(struct uw_node_state *s, uint32_t seq);

#define UW_NODE_LEFT_OUT_MOST 11u       /* fields that a ping can omit: node_frames.c */

/* Defaults of timeouts. */
#define UW_NODE_PING_US 700000u
#define UW_NODE_SUSPECT_PINGS 3u        /* the silence after which a peer is suspected */
#define UW_NODE_DEAD_SUSPECTS 3u        /* times that silence, ... */
#define UW_NODE_DEAD_US 10000000u       /* ... and at least */
#define UW_NODE_PULL_US 120000000u
#define UW_NODE_PULL_SILENCE_US 4000000u
#define UW_NODE_SERVE_WINDOWS 4u

/* Set the silences of suspicion and death that are 0, from the interval of pings. */
void uw_node_default_silences(struct uw_node_config *c);

/* Time of so many bytes on a link; 0: not known. */
static inline uint64_t uw_node_rate_us(uint64_t rate_bits_per_s, uint64_t bytes)
{
    return rate_bits_per_s != 0 ? bytes * 8u * 1000000u / rate_bits_per_s : 0;
}

/* Additional time that a want may wait to be served on a link of frames of this rate. */
static inline uint64_t uw_node_serve_us(const struct uw_node_config *c, uint64_t rate_bits_per_s)
{
    return UW_NODE_SERVE_WINDOWS * uw_node_rate_us(rate_bits_per_s, c->window_bytes);
}

/* node_swim.c: limit of membership messages in thousandths of bytes a second: as configured, or a
 * share of a slow link's rate. */
uint64_t uw_node_membership_rate(const struct uw_node_config *c);

#endif
