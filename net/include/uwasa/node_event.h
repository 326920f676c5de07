/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/node_event.h - the events that a node reports, each with a sentence
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
    X(ALIVE, "alive")                       /* the first message of a member arrived */          \
    X(SUSPECT, "suspect")                   /* silent: no more pulls from it */                  \
    X(DEAD, "dead")                         /* silent for long: rarely pinged */                 \
    X(REJOINED, "rejoined")                 /* answers again */                                  \
    X(RESTARTED, "restarted")               /* returned with a newer incarnation */              \
    X(LEFT, "left")                         /* sent a goodbye */                                 \
    X(PULL_STARTED, "pull_started")                                                              \
    X(PULL_DONE, "pull_done")               /* every chunk arrived */                            \
    X(PULL_CUT, "pull_cut")                 /* ended early; received chunks stay mixed */        \
    X(PULL_REFUSED, "pull_refused")         /* the peer refused to serve it */                   \
    X(PULL_MOVED, "pull_moved")             /* the peer is lost, another one serves the rest */  \
    X(CHUNK_NONFINITE, "chunk_nonfinite")   /* a chunk with NaN or infinity was refused */       \
    X(CHUNK_OUTLIER, "chunk_outlier")       /* a chunk too far from ours was refused */          \
    X(AVERAGED, "averaged")                 /* an exact average of a cell was committed */       \
    X(AVERAGE_CUT, "average_cut")           /* a round was aborted; peer: the cause */           \
    X(AVERAGE_LATE, "average_late")         /* a round begins without a member */                \
    X(AVERAGE_WAY, "average_way")           /* averages use the link; peer: the cause */         \
    X(GRADIENTS, "gradients")               /* a group averages every step's gradients */        \
    X(GRADIENTS_CUT, "gradients_cut")       /* that group is given up; peer: the cause */        \
    X(AVERAGE_OUTLIER, "average_outlier")   /* a member has diverged and is excluded */          \
    X(APART, "apart")                       /* this node, or two others, do not hear each other: \
                                               they are in no average together */                \
    X(HEAD, "head")                         /* the cell has a new head */                        \
    X(CELL_ALONE, "cell_alone")             /* no other cell can be reached */                   \
    X(CELLS_MEET, "cells_meet")             /* the cell mixes with another one */                \
    X(HEAD_LOST, "head_lost")               /* this node decides instead of the head */          \
    X(RETREAT, "retreat")                   /* quasi-global momentum replaces pairs */           \
    X(ADOPTED, "adopted")                   /* a newcomer took over a peer's model */            \
    X(WRONG_RUN, "wrong_run")                                                                    \
    X(WRONG_MODEL, "wrong_model")                                                                \
    X(WRONG_VERSION, "wrong_version")       /* of the protocol; once an hour for each peer */    \
    X(NAME_TAKEN, "name_taken")             /* two devices use one name */                       \
    X(MEMBERS_FULL, "members_full")         /* the run has more nodes than the table; once */    \
    X(SEED_FAILED, "seed_failed")           /* a seed address does not resolve; tried again */

enum uw_node_event_kind {
#define UW_NODE_EVENT_ENUM(kind, name) UW_NODE_##kind,
    UW_NODE_EVENT_LIST(UW_NODE_EVENT_ENUM)
#undef UW_NODE_EVENT_ENUM
    UW_NODE_EVENTS_N
};

/* The kinds from WRONG_RUN to NAME_TAKEN, which any message of a peer can cause, are reported at
 * most every 10 s for a station. */
struct uw_node_event {
    enum uw_node_event_kind kind;
    const char *peer;               /* its name; "" when not known */
    const char *address;
    uint16_t station;               /* of the link; UW_LINK_STATION_NONE when not known */
    const char *text;               /* a sentence: "peer b (10.0.0.9:4433) silent for 3.2 s: ...";
                                       "" in a program without uw_node_sentences */
    uint64_t now_us;
    uint64_t bytes;                 /* payload of a pull without duplicates */
    uint64_t duration_us;           /* of a pull; of a silence */
    uint32_t chunks_n, chunks_total_n;  /* of a pull; nodes of an average, in mode broadcast with
                                           those that sent nothing */
};

/* Name of an event kind for scripts; "unknown" for a number that is none. Static storage. */
const char *uw_node_event_name(enum uw_node_event_kind kind);

UW_C_END
#endif
