/* SPDX-License-Identifier: Apache-2.0
 *
 * node_direct_priv.h - rounds between devices (uwasa/node_direct.h): which, and how they end
 *
 * Every member remembers the members of the last such round that failed, and for how long they go
 * another way; one whose own device failed twice in a row reports that it cannot for as long. The
 * head chooses by what the last READY of each holds. What stands in the way, if anything does, it
 * sends in START, and each node with a device reports to its user, once of each node and reason.
 *
 * A round has not failed that ended since a rank stopped, or left, and reported it. Where one is
 * silent its device may be why.
 *
 * Blocking   never      Context  network thread
 */
#ifndef UW_NET_NODE_DIRECT_PRIV_H
#define UW_NET_NODE_DIRECT_PRIV_H

#include "node_averages.h"

#include "uwasa/node_direct.h"
#include "uwasa/node_gradients.h"

/* What stands in the way of a round between devices: numbers of the wire. */
enum uw_node_direct_why {
    UW_DIRECT_CAN,
    UW_DIRECT_WAITS,                /* not now: it will be otherwise by itself */
    UW_DIRECT_NONE,                 /* a node has no such device */
    UW_DIRECT_VERSION,              /* it has another version */
    UW_DIRECT_SHARED,               /* it shares the device with another */
    UW_DIRECT_NO_GROUP,             /* the head can make no group */
    UW_DIRECT_HEAD,                 /* the head leads those that average, and does not itself */
    UW_DIRECT_WHYS_N
};

/* OUT --begin--> IN_ROUND --commit--> JOINED --begin--> IN_ROUND; an abort leads OUT from both. */
enum uw_direct_place { UW_DIRECT_OUT, UW_DIRECT_IN_ROUND, UW_DIRECT_JOINED };

/* Why a round ended before its time, as far as is known; a rank that quit outdoes a device. */
enum uw_direct_end { UW_DIRECT_UNKNOWN, UW_DIRECT_OWN_DEVICE, UW_DIRECT_RANK_QUIT };

/* What a member reported last. */
struct uw_node_direct_seat {
    uint32_t id;                    /* 0: the place is free */
    uint32_t reported;              /* of it: bits of enum uw_node_direct_why */
    uint32_t version, holds;        /* holds: a checksum of a group's identity, 0: of none */
    uint64_t device;
    uint32_t group, round, sum;     /* prepared: the checksum of its average */
};

struct uw_node_direct_state {
    const struct uw_node_direct *hooks;
    struct uw_node_direct_seat *seats;      /* [seats_max] */
    uint32_t seats_max;
    uint8_t chosen[UW_NODE_DIRECT_ID_BYTES];    /* of this head's round */
    enum uw_node_direct_why why;    /* it has none, and whose device is why */
    uint32_t whose;
    uint8_t offered[UW_NODE_DIRECT_ID_BYTES];   /* of the START that came last */
    uint8_t joined[UW_NODE_DIRECT_ID_BYTES];
    enum uw_direct_place place;     /* in the group `joined` */
    enum uw_direct_end end;         /* of the round */
    uint32_t set;                   /* checksum of the group's ranks */
    bool settles;                   /* the device holds what x did */
    uint8_t failures;               /* aborted rounds in a row */
    int failed;                     /* what begin returned */
    uint32_t sum;                   /* of the average; valid once the cell has the result */
    uint64_t began_us, limit_us, longest_us;
    uint32_t failed_set;            /* of the last aborted round */
    uint64_t again_us, able_us;     /* those not before; this device not before */
    struct uw_overlap_whole whole;  /* averages a step's gradients, of a group that counts */
    struct uw_node_direct_part *buckets;    /* [buckets_n] */
};

/* What the rest of averages calls; only while s->cell->direct is set. */
struct uw_node_directs {
    struct uw_node_setup setup;     /* place: sets s->cell->direct, if the link is wide enough */
    /* Head. Is this START's round to be direct? */
    bool (*choose)(struct uw_node_scope *o, const struct uw_cell_message *start);
    /* Send a message with what belongs to it. */
    void (*send)(struct uw_node_scope *o, uint16_t station, const struct uw_cell_message *m,
                 const uwasa_Cell *w);
    /* Read from s->buffer what came with one; sets m->direct, may turn prepared into aborted. */
    void (*take)(struct uw_node_scope *o, uint32_t from, uint32_t bytes,
                 struct uw_cell_message *m);
    /* The cell's round begins, is under way, is decided. look: returns UW_OK once it is done,
     * UW_ERR_AGAIN, or an error: it is to be given up. */
    void (*begin)(struct uw_node_scope *o);
    int (*look)(struct uw_node_scope *o);
    void (*decided)(struct uw_node_scope *o, bool commit, uint32_t culprit);
    /* Has the round at hand ended because a rank takes no part any more, the culprit or one that
     * has reported it? Else devices may be why, and its members go another way for a while. */
    bool (*has_quit)(struct uw_node_state *s, uint32_t culprit);
    uint32_t (*progress)(const struct uw_node_state *s);
    /* Gradients of the group that a round made which counts could not be averaged; own: this device
     * is why. Others go another way for now. */
    void (*failed)(struct uw_node_state *s, bool own);
    /* Head: the last round only had to wait for a device, and needs to no more. */
    bool (*is_back)(const struct uw_node_state *s);
};

#endif
