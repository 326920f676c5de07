/* SPDX-License-Identifier: Apache-2.0
 *
 * node_state.h - what is behind struct uw_node, shared by the files node*.c
 *
 *     node.c         set-up, the step
 *     node_mtu.c     what a link must carry
 *     node_ping.c    membership's messages
 *     node_recv.c    what to do with each message
 *     node_bridge.c  between cells
 *     node_cell.c    exact averages; node_gradients*.c of every step's gradients
 *     node_cost.c    what averages cost
 *     node_near.c, node_pairs.c      cells that are found; committed pairs
 *     node_shuffle.c samples lent to others
 *     node_pull.c    whom to pull from, when to stop, serving others
 *     node_event.c   sentences
 *     node_status.c  the member table, for this program and over the wire
 */
#ifndef UW_NET_NODE_STATE_H
#define UW_NET_NODE_STATE_H

#include "deadline.h"
#include "gossip.h"
#include "membership.h"
#include "message.h"
#include "node_bridge.h"
#include "node_cell.h"
#include "node_gradients.h"
#include "node_cost.h"
#include "node_pairs.h"
#include "node_shuffle.h"
#include "transfer.h"

#include "uwasa/node.h"

#define UW_NODE_QUIETS 16u
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
    struct uw_node_cell cell;
    struct uw_node_bridge bridge;
    struct uw_node_gradients gradients;
    struct uw_node_pairs pairs;
    struct uw_node_cost cost;
    struct uw_node_shuffle samples;
    struct uw_rng rng;
    bool blocked;                   /* the link takes no more for now */

    uint8_t *buffer;                /* [buffer_bytes] */
    float *chunk;                   /* [chunk_n] */
    struct uw_node_candidates candidates;
    struct uw_message in, out;
    struct uw_node_counters counters;
    struct {
        enum uw_node_event_kind kind;
        uint32_t key;
        uint64_t until_us;
    } quiet[UW_NODE_QUIETS];
    char text[UW_NODE_TEXT_BYTES];
};

/* node.c */

/* Send s->out. Returns UW_OK, UW_ERR_TOOBIG, or what the link says; what was not sent is lost, as
 * on the wire. */
int uw_node_send(struct uw_node_state *s, uint16_t station);

/* node_mtu.c */

/* Can pings carry all that this device may come to tell? Returns UW_OK or UW_ERR_TOOBIG. */
int uw_node_check_mtu(struct uw_node_state *s, struct uw_error *err);

/* So many nodes can be named in the message that an average begins with. */
uint32_t uw_node_ranks_max(struct uw_node_state *s);

/* node_ping.c */

/* Make s->out a hello, ping or ack with news of this device, of others, and records of so many
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

/* Send up to `most` chunks that others asked for. */
void uw_node_serve_step(struct uw_node_state *s, uint32_t most);

/* The member of the present or last pull; NULL: none, or its place has another now. */
struct uw_member *uw_node_pull_member(struct uw_node_state *s);

/* node_near.c */

/* Find the cell of a node that was not given one: the nodes that are near, and those near to them.
 * Near is with whom an exact average costs a tenth of a round's training at most, and more where
 * nodes' samples differ, by round trip and rate of pulls, and who trains at the same pace, which
 * the first round tells; while a rate is not known, who is within config.near_us. They go by the
 * least identity among them, which each takes over from its neighbours while its owner is alive.
 * Returns when to look again. */
uint64_t uw_node_near_step(struct uw_node_state *s);

/* Training has handed its parameters over for an average; it has them back, averaged with others or
 * not. */
void uw_node_near_asked(struct uw_node_state *s);
void uw_node_near_back(struct uw_node_state *s, bool averaged);

/* The device has slept: nobody trained, nor waited. */
void uw_node_near_slept(struct uw_node_state *s, uint64_t slept_us);

/* node_cell.c */

/* Take the memory of exact averages. Returns UW_OK or what uw_arena_take returns. */
int uw_node_cell_place(struct uw_node_state *s, struct uw_arena *arena);

/* Gather, average, decide. Returns when it wants to run again, if nothing arrives. */
uint64_t uw_node_cell_step(struct uw_node_state *s);

/* The member table has changed. */
void uw_node_cell_stale(struct uw_node_state *s);

/* A member died, left or was started anew. */
void uw_node_cell_gone(struct uw_node_state *s, uint32_t id);

/* This node slept for so long. */
void uw_node_cell_slept(struct uw_node_state *s, uint64_t slept_us);

/* A message about a round; one of its parts, in s->buffer. */
void uw_node_cell_message(struct uw_node_state *s, uint16_t station, const uwasa_Cell *w);
void uw_node_cell_part(struct uw_node_state *s, uint16_t station, uint32_t bytes);

/* The member with that identity, other than this device; NULL: none. */
struct uw_member *uw_node_member(struct uw_node_state *s, uint32_t id);

/* Hand a part to a rank of the group that it names. As struct uw_allreduce_config's send. */
int uw_node_send_part(struct uw_node_state *s, uint32_t rank, const struct uw_part *part);

/* node_event.c */

/* UW_NODE_CELL_ALONE, UW_NODE_CELLS_MEET. */
void uw_node_tell_bridge(struct uw_node_state *s, enum uw_node_event_kind kind,
                         uint64_t silent_us);

/* There is no room for this node in its cell, or no way for it to take part. */
void uw_node_tell_full(struct uw_node_state *s);

/* News of a cell. */
void uw_node_tell_cell(struct uw_node_state *s, const struct uw_node_scope *o,
                       const struct uw_cell_news *news);

/* UW_NODE_GRADIENTS, UW_NODE_GRADIENTS_CUT. */
void uw_node_tell_gradients(struct uw_node_state *s, enum uw_node_event_kind kind);

/* As struct uw_membership_config.changed; arg is the node's state. */
void uw_node_member_changed(void *arg, enum uw_node_event_kind kind, const struct uw_member *m,
                            uint64_t silent_us);

/* About the pull in s->pull. why: what a cut, a move or a refusal was caused by. */
void uw_node_tell_pull(struct uw_node_state *s, enum uw_node_event_kind kind, const char *why);

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

/* Answer with rows of the member table, as many as fit, or with the counters after the last. */
void uw_node_send_status(struct uw_node_state *s, uint16_t station,
                         const uwasa_StatusRequest *request);

#endif
