/* SPDX-License-Identifier: Apache-2.0
 *
 * node_direct_priv.h - rounds that average between devices (uwasa/node_direct.h)
 *
 * The head decides whether a round is direct, from the last READY of each rank. If it is not, START
 * carries the reason, and each node with a device reports it to its user, once for each node and
 * reason. After a failed round every rank stores a checksum of its ranks; for some time rounds of
 * these ranks use the link. A node whose own device failed twice in a row reports for as long that
 * it cannot.
 *
 * A round that ends because a rank stopped or left, and reported it, has not failed. If a rank is
 * silent, its device may be the cause.
 *
 * Blocking   never      Context  network thread
 */
#ifndef UW_NET_NODE_DIRECT_PRIV_H
#define UW_NET_NODE_DIRECT_PRIV_H

#include "node_averages.h"

#include "uwasa/node_direct.h"
#include "uwasa/node_gradients.h"

/* Why a round cannot be direct; the values are part of the wire format. */
enum uw_node_direct_why {
    UW_DIRECT_CAN,
    UW_DIRECT_WAITS,                /* not now; passes by itself */
    UW_DIRECT_NONE,                 /* a node has no such device, */
    UW_DIRECT_VERSION,              /* another version of it, */
    UW_DIRECT_SHARED,               /* or shares it with another node */
    UW_DIRECT_NO_GROUP,             /* the head failed to create a group */
    UW_DIRECT_HEAD,                 /* the head is not a rank itself */
    UW_DIRECT_WHYS_N
};

/* OUT --begin--> IN_ROUND --commit--> JOINED --begin--> IN_ROUND; an abort leads OUT from both. */
enum uw_direct_place { UW_DIRECT_OUT, UW_DIRECT_IN_ROUND, UW_DIRECT_JOINED };

/* The known cause of an aborted round; RANK_QUIT takes precedence over OWN_DEVICE. */
enum uw_direct_end { UW_DIRECT_UNKNOWN, UW_DIRECT_OWN_DEVICE, UW_DIRECT_RANK_QUIT };

/* The last report of a member. */
struct uw_node_direct_seat {
    uint32_t id;                    /* 0: free */
    uint32_t reported;              /* bitmap by enum uw_node_direct_why: reported to the user */
    uint32_t version, holds;        /* holds: checksum of the id of the group it is in, 0: none */
    uint64_t device;
    uint32_t group, round, sum;     /* prepared: checksum of its average in that round */
};

struct uw_node_direct_state {
    const struct uw_node_direct *hooks;
    struct uw_node_direct_seat *seats;      /* [seats_max] */
    uint32_t seats_max;
    uint8_t chosen[UW_NODE_DIRECT_ID_BYTES];    /* head: the id of the round's group */
    enum uw_node_direct_why why;    /* head: why the round has none, ... */
    uint32_t whose;                 /* ... and because of which node */
    uint8_t offered[UW_NODE_DIRECT_ID_BYTES];   /* of the last START */
    uint8_t joined[UW_NODE_DIRECT_ID_BYTES];
    enum uw_direct_place place;     /* in the group `joined` */
    enum uw_direct_end end;         /* of the round */
    uint32_t set;                   /* checksum of the group's ranks */
    bool settles;                   /* the device held the values of x at the begin */
    uint8_t failures;               /* aborted rounds in a row */
    int failed;                     /* result of begin */
    uint32_t sum;                   /* checksum of the average, once the cell has the result */
    uint64_t began_us, limit_us, longest_us;
    uint32_t failed_set;            /* `set` of the last failed round: */
    uint64_t again_us, able_us;     /* it uses the link until then; this device until able_us */
    struct uw_overlap_whole whole;  /* averages gradients in the group of a committed round */
    struct uw_node_direct_part *buckets;    /* [buckets_n] */
};

/* Called by the other files of averages, only while s->cell->direct is set. */
struct uw_node_directs {
    struct uw_node_setup setup;     /* place: sets s->cell->direct, if the link is wide enough */
    /* Head. Should the round of this START be direct? */
    bool (*choose)(struct uw_node_scope *o, const struct uw_cell_message *start);
    /* Send a message with the fields for direct rounds. */
    void (*send)(struct uw_node_scope *o, uint16_t station, const struct uw_cell_message *m,
                 const uwasa_Cell *w);
    /* Read these fields of a message in s->buffer. Sets m->direct; may change m->status from
     * prepared to aborted. */
    void (*take)(struct uw_node_scope *o, uint32_t from, uint32_t bytes,
                 struct uw_cell_message *m);
    /* The cell's round begins, is under way, is decided. look returns UW_OK (done), UW_ERR_AGAIN,
     * or an error: the round must be given up. */
    void (*begin)(struct uw_node_scope *o);
    int (*look)(struct uw_node_scope *o);
    void (*decided)(struct uw_node_scope *o, bool commit, uint32_t culprit);
    /* Has the current round ended because a rank stopped or left: the culprit, or one that has
     * reported it? Otherwise devices may be the cause, and its ranks use the link for a while. */
    bool (*has_quit)(struct uw_node_state *s, uint32_t culprit);
    uint32_t (*progress)(const struct uw_node_state *s);
    /* The devices failed to average gradients in the group of a committed round; own: because of
     * this device. Rounds of these ranks use the link for a while. */
    void (*failed)(struct uw_node_state *s, bool own);
    /* Head: the last round used the link only until its devices are available, and they are now. */
    bool (*is_back)(const struct uw_node_state *s);
};

#endif
