/* SPDX-License-Identifier: Apache-2.0
 *
 * node_state.h - what is behind struct uw_node, shared by the files node*.c
 *
 *     node_bind.c    set-up: what a configuration needs, and the memory
 *     node.c         the step
 *     node_mtu.c     what a link must carry
 *     node_ping.c    membership's messages
 *     node_recv.c    what to do with each message
 *     node_pull.c    the pull of a round; node_pick.c whom from; node_serve.c others' pulls
 *     node_event.c   events
 *     node_status.c  the member table, for this program
 *
 * and of its optional parts (node_parts.h)
 *
 *     node_averages.c     exact averages, with node_cell.c, node_bridge.c between cells,
 *                         node_cost.c, node_near.c, node_pairs.c, node_gradients*.c, node_news.c
 *     node_answers.c      the member table over the wire
 *     node_sentences.c    of events
 *     node_shuffle.c      samples lent to others
 */
#ifndef UW_NET_NODE_STATE_H
#define UW_NET_NODE_STATE_H

#include "deadline.h"
#include "gossip.h"
#include "membership.h"
#include "message.h"
#include "node_parts.h"
#include "transfer.h"

#include "uwasa/node.h"

struct uw_node_bridge;
struct uw_node_cell;
struct uw_node_cost;
struct uw_node_gradients;
struct uw_node_pairs;
struct uw_node_shuffle;

#define UW_NODE_QUIETS 16u
#define UW_NODE_POLL_US 5000u           /* how soon a freed slot, or what training did, is seen */
#define UW_NODE_OTHERS 1u               /* records that every ping has, in turn */
#define UW_NODE_BUFFER_MAX 16384u       /* largest message, whatever the link could carry ... */
#define UW_NODE_PARTS_MAX (64u * 1024u + 64u)   /* ... but parts of averages, which
                                                   no datagram could carry */

/* The pull of the present round, or of the last one. */
struct uw_node_pull {
    struct uw_pull transfer;
    uint32_t round;
    uint32_t member;                /* place in the table */
    uint32_t member_id;             /* guards against the place being reused */
    bool adopt, judged;             /* judged: its outlier has been dealt with */
    bool bridge;                    /* of another cell's head, for node_bridge.c */
    uint32_t passed;                /* peers that had nothing new for this round */
    float weight;                   /* the peer's share as the schedule says it; 0: the rule's */
    uint32_t version;               /* the oldest that came of what the peer shows; 0: none yet */
    uint64_t bytes;
    uint32_t pending;               /* round that waits for somebody to appear; 0: none */
    struct uw_deadline took;        /* pulls */
};

/* The members of the run by identity, this device too. */
struct uw_node_candidates {
    uint32_t n;
    uint32_t *place;                /* [members_max] in the table */
    bool *usable;                   /* [members_max] may be pulled from now */
};

/* A control message of the node itself. */
struct uw_node_message {
    enum uw_wire_type type;
    union {
        uwasa_Ping ping;            /* hello, ping, ack */
        uwasa_Want want;
        uwasa_Refuse refuse;
        uwasa_Goodbye goodbye;
    };
};

struct uw_node_state {
    struct uw_node_config config;
    uint32_t run;
    uint64_t model;
    uint32_t chunk_n;               /* largest chunk this link carries */
    uint32_t buffer_bytes;          /* largest message, a part of an average */
    uint64_t now_us, first_us;
    uint64_t promised_us;           /* the next step comes then, or sooner */
    uint64_t clock_us;              /* now_us is the caller's time and this, and never goes back */
    bool started, left;
    uint32_t shown_version;

    struct uw_membership membership;
    struct uw_gossip gossip;
    struct uw_node_pull pull;
    struct uw_serve serve;
    struct uw_rng rng;
    bool blocked;                   /* the link takes no more for now */

    /* Of optional parts; NULL: this node does without. */
    const struct uw_node_averages *averages;        /* and then the five below are set */
    struct uw_node_cell *cell;
    struct uw_node_bridge *bridge;
    struct uw_node_gradients *gradients;
    struct uw_node_pairs *pairs;
    struct uw_node_cost *cost;
    struct uw_node_shuffle *samples;
    uwasa_StatusReply *reply;       /* for answers */

    uint8_t *buffer;                /* [buffer_bytes] */
    float *chunk;                   /* [chunk_n] */
    struct uw_node_candidates candidates;
    struct uw_node_message *message;    /* that came in, or goes out: what came in is read
                                       before anything goes out */
    struct uw_node_counters counters;
    struct {
        enum uw_node_event_kind kind;
        uint32_t key;
        uint64_t until_us;
    } quiet[UW_NODE_QUIETS];
    char *text;                     /* [UW_NODE_TEXT_BYTES]; NULL: nobody writes sentences */
};

/* node.c */

/* Send s->message. Returns UW_OK, UW_ERR_TOOBIG, or what the link says; what was not sent is lost,
 * as on the wire. */
int uw_node_send(struct uw_node_state *s, uint16_t station);

/* The same of any control message. */
int uw_node_send_body(struct uw_node_state *s, uint16_t station, enum uw_wire_type type,
                      const struct uw_message_form *form, const void *body);

/* node_mtu.c */

/* Can pings carry all that this device may come to tell? Returns UW_OK or UW_ERR_TOOBIG. */
int uw_node_check_mtu(struct uw_node_state *s, struct uw_error *err);

/* node_ping.c */

/* Make s->message a hello, ping or ack with news of this device, of others, and records of so many
 * others of whom there is none. */
void uw_node_fill_ping(struct uw_node_state *s, enum uw_wire_type type, uint32_t seq,
                       uint32_t others);

/* Send it, with as many of the others as fit. */
void uw_node_send_ping(struct uw_node_state *s, uint16_t station);

/* Call members and seeds that are due. */
void uw_node_call_members(struct uw_node_state *s);

/* node_recv.c */

/* Take up to `most` messages; returns how many there were. */
uint32_t uw_node_receive(struct uw_node_state *s, uint32_t most);

/* As struct uw_membership_config.spares; arg is the node's state. */
bool uw_node_spares(void *arg, const struct uw_member *m);

/* Tell a station why it is not served; transfer: of the want that is refused, or 0. */
void uw_node_refuse(struct uw_node_state *s, uint16_t station, uwasa_Reason reason,
                    uint32_t transfer);

/* node_pull.c */

/* Begin, go on with, or end the pull of a round: what is due at s->now_us. */
void uw_node_pull_step(struct uw_node_state *s);

/* A chunk arrived, maybe not ours. */
void uw_node_pull_data(struct uw_node_state *s, uint16_t station, const struct uw_data *d);

/* The peer of the present pull refused it. */
void uw_node_pull_refused(struct uw_node_state *s, const uwasa_Refuse *refuse);

/* When uw_node_pull_step has something to do, if nothing arrives. */
uint64_t uw_node_pull_next_us(const struct uw_node_state *s);

/* The member of the present or last pull; NULL: none, or its place has another now. */
struct uw_member *uw_node_pull_member(struct uw_node_state *s);

/* node_serve.c */

/* Send up to `most` chunks that others asked for. */
void uw_node_serve_step(struct uw_node_state *s, uint32_t most);

/* node_pick.c */

/* Whom to pull from in a round: its place in the table, and its weight in what comes of it. 0: from
 * nobody; UW_NODE_LATER: wait a little for somebody to appear.
 *   adopt  set: its model is to be taken over */
#define UW_NODE_LATER UINT32_MAX
uint32_t uw_node_pick(struct uw_node_state *s, uint32_t round, bool *adopt, float *weight);

/* Any that can be pulled from now in chunks of chunk_n; 0: nobody. */
uint32_t uw_node_pick_any(struct uw_node_state *s, uint32_t round, bool newcomer,
                          uint32_t chunk_n);

/* Does a member's link carry chunks of chunk_n, and large enough ones for this node? */
static inline bool uw_node_carries(const struct uw_node_state *s, const struct uw_member *m,
                                   uint32_t chunk_n)
{
    uint32_t least_n = s->config.chunk_least_n;
    return m->chunk_limit_n == 0 || m->chunk_limit_n >= (chunk_n > least_n ? chunk_n : least_n);
}

/* node_event.c */

/* Tell of an event whose sentence is in s->text, or needs none. */
void uw_node_report(struct uw_node_state *s, struct uw_node_event *e);

/* Is this worth telling? True the first time for a key, then once in ten seconds. */
bool uw_node_is_news(struct uw_node_state *s, enum uw_node_event_kind kind, uint32_t key);

/* The address a member gave, or the one that it, or the station, is seen at. */
const char *uw_node_address(struct uw_node_state *s, const struct uw_member *m, uint16_t station,
                            char seen[UW_LINK_ADDRESS_BYTES]);

/* As struct uw_membership_config.changed; arg is the node's state. */
void uw_node_member_changed(void *arg, enum uw_node_event_kind kind, const struct uw_member *m,
                            uint64_t silent_us);

/* About the pull in s->pull. why: what a cut, a move or a refusal was caused by. */
void uw_node_tell_pull(struct uw_node_state *s, enum uw_node_event_kind kind, enum uw_node_why why);

/* About a station or member, WRONG_RUN or MEMBERS_FULL; m may be NULL. */
void uw_node_tell_refused(struct uw_node_state *s, enum uw_node_event_kind kind, uint16_t station,
                          const struct uw_member *m);

/* A member trains another model, of this hash. */
void uw_node_tell_wrong_model(struct uw_node_state *s, uint16_t station, const struct uw_member *m,
                              uint64_t hash);

/* Two devices use one name: this one's own, or a member's. */
void uw_node_tell_name_taken(struct uw_node_state *s, uint16_t station, const struct uw_member *m,
                             bool own);

/* node_status.c */

/* What this device tells of its training. */
void uw_node_fill_progress(const struct uw_node_state *s, uwasa_Progress *p);

/* The counters with what is counted elsewhere. */
void uw_node_count(const struct uw_node_state *s, struct uw_node_counters *c);

#endif
