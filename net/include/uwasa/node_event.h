/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/node_event.h - what a node tells of its run, one sentence each
 *
 * Memory     an event is valid during the callback only      Context  network
 */
#ifndef UWASA_NODE_EVENT_H
#define UWASA_NODE_EVENT_H

#include "uwasa/cplusplus.h"

#include <stdint.h>

UW_C_BEGIN

#define UW_NODE_TEXT_BYTES 256u     /* an event's sentence with its NUL */

/*        kind            name for scripts    what happened */
#define UW_NODE_EVENT_LIST(X)                                                                    \
    X(ALIVE, "alive")                       /* a member was heard for the first time */          \
    X(SUSPECT, "suspect")                   /* silent: no pulls go to it for now */              \
    X(DEAD, "dead")                         /* silent for long: looked for now and then */       \
    X(REJOINED, "rejoined")                 /* heard again */                                    \
    X(RESTARTED, "restarted")               /* came back with a newer incarnation */             \
    X(LEFT, "left")                         /* said goodbye */                                   \
    X(PULL_STARTED, "pull_started")                                                              \
    X(PULL_DONE, "pull_done")               /* every chunk arrived */                            \
    X(PULL_CUT, "pull_cut")                 /* ended early; what arrived stays mixed */          \
    X(PULL_REFUSED, "pull_refused")         /* the peer would not serve it */                    \
    X(PULL_MOVED, "pull_moved")             /* its peer is gone, another gives the rest */       \
    X(CHUNK_NONFINITE, "chunk_nonfinite")   /* a chunk with NaN or infinity was refused */       \
    X(CHUNK_OUTLIER, "chunk_outlier")       /* a chunk too far from ours was refused */          \
    X(AVERAGED, "averaged")                 /* the exact average of a cell is in */              \
    X(AVERAGE_CUT, "average_cut")           /* a round was given up; peer: whose fault */        \
    X(AVERAGE_LATE, "average_late")         /* a round begins without a member */                \
    X(AVERAGE_WAY, "average_way")           /* not between devices; peer: because of whom */    \
    X(GRADIENTS, "gradients")               /* a group averages every step's gradients */       \
    X(GRADIENTS_CUT, "gradients_cut")       /* it is given up; peer: because of whom */          \
    X(AVERAGE_OUTLIER, "average_outlier")   /* a member has diverged and is left out */          \
    X(HEAD, "head")                         /* who leads the cell's rounds */                    \
    X(CELL_ALONE, "cell_alone")             /* no other cell can be reached */                   \
    X(CELLS_MEET, "cells_meet")             /* the cell mixes with another, maybe again */       \
    X(HEAD_LOST, "head_lost")               /* this node decides in its place */                 \
    X(RETREAT, "retreat")                   /* pairs are given up for quasi-global momentum */   \
    X(ADOPTED, "adopted")                   /* a newcomer took over a peer's model */            \
    X(WRONG_RUN, "wrong_run")                                                                    \
    X(WRONG_MODEL, "wrong_model")                                                                \
    X(NAME_TAKEN, "name_taken")             /* two devices use one name */                       \
    X(MEMBERS_FULL, "members_full")         /* a new member was not entered */                   \
    X(SEED_FAILED, "seed_failed")           /* a seed address does not resolve; tried again */

enum uw_node_event_kind {
#define UW_NODE_EVENT_ENUM(kind, name) UW_NODE_##kind,
    UW_NODE_EVENT_LIST(UW_NODE_EVENT_ENUM)
#undef UW_NODE_EVENT_ENUM
    UW_NODE_EVENTS_N
};

/* Valid during the callback only. The kinds from WRONG_RUN to MEMBERS_FULL, which a peer can bring
 * about with every message, are reported at most every 10 s for a station. */
struct uw_node_event {
    enum uw_node_event_kind kind;
    const char *peer;               /* its name; "" when it has none yet */
    const char *address;
    uint16_t station;               /* of the link; UW_LINK_STATION_NONE when not known */
    const char *text;               /* a sentence: "peer b (10.0.0.9:4433) silent for 3.2 s: ...";
                                       "" in a program without uw_node_sentences */
    uint64_t now_us;
    uint64_t bytes;                 /* of a pull: payload that was new */
    uint64_t duration_us;           /* of a pull; of a silence */
    uint32_t chunks_n, chunks_total_n;  /* of a pull; nodes of an average, with those that
                                           sent nothing in one by broadcast */
};

/* Name of an event kind for scripts; "unknown" for a number that is none. Static storage. */
const char *uw_node_event_name(enum uw_node_event_kind kind);

UW_C_END
#endif
