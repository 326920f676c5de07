/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/node_status.h - status of a node: training progress, member table, counters
 *
 * Units      bytes; _us microseconds
 * Memory     plain values; uw_node_status of node.h fills them
 */
#ifndef UWASA_NODE_STATUS_H
#define UWASA_NODE_STATUS_H

#include "uwasa/cplusplus.h"
#include "uwasa/link.h"
#include "uwasa/vitals.h"

#include <stdbool.h>
#include <stdint.h>

UW_C_BEGIN

#define UW_NODE_MEMBERS_MAX 4096u   /* of the table */
#define UW_NODE_MEMBERS_DEFAULT 32u
#define UW_NODE_NAME_BYTES 32u      /* a device's name with its NUL */
#define UW_NODE_KERNELS_BYTES 48u   /* name of the kernels with its NUL */

enum uw_member_state {
    UW_MEMBER_UNKNOWN,              /* known from others, no message received */
    UW_MEMBER_ALIVE,
    UW_MEMBER_SUSPECT,
    UW_MEMBER_DEAD,
    UW_MEMBER_LEFT
};

/* Name of a state: "alive", "suspect", ...; "unknown" for other numbers. Static storage. */
const char *uw_member_state_name(enum uw_member_state state);

/* A row of the member table. Row 0 is the node itself. */
struct uw_node_member {
    char name[UW_NODE_NAME_BYTES];
    char address[UW_LINK_ADDRESS_BYTES];
    enum uw_member_state state;
    uint32_t incarnation;
    uint64_t silent_us;             /* since its last message; 0 for the node itself */
    uint32_t rtt_us;                /* 0: not measured */
    uint32_t step, rounds, version; /* as last reported; rounds: pulls that were mixed */
    float loss, accuracy, samples_per_s;
    uint64_t pulled_bytes;          /* payload of all its pulls, as last reported */
    uint64_t from_bytes;            /* payload that this node pulled from it */
    uint32_t refused_n;             /* its chunks and pulls that this node refused */
    bool same_model;
    char cell[UW_NODE_NAME_BYTES];  /* its cell; "*": all nodes; "": none */
    struct uw_vitals vitals;
    uint32_t release;               /* of its program: 0.1.0 is 0x000100; 0: not reported */
    uint32_t protocol;              /* of its averages; 0: it does not average */
    uint32_t still_s;               /* it stands still, see uw_node_progress; as last reported */
};

struct uw_node_counters {
    uint64_t sent_bytes, received_bytes;    /* through the link */
    uint64_t pulled_bytes, served_bytes;    /* chunk payload */
    uint64_t membership_bytes;              /* part of sent_bytes: hellos, pings, their answers */
    uint64_t averaged_bytes;                /* payload sent for averages */
    uint32_t averages_done, averages_cut;
    uint32_t pairs_half;                    /* committed by one of the two sides only */
    uint64_t samples_in, samples_out;       /* borrowed and lent */
    uint64_t sample_bytes;                  /* of samples sent */
    uint32_t pulls_done, pulls_cut, pulls_refused;
    uint32_t pulls_stale;           /* the peer's version was mixed before: another peer is asked */
    uint32_t chunks_mixed;
    uint32_t period_steps;          /* current T; summed when counters are */
    uint32_t refused_nonfinite, refused_outlier, refused_run, refused_model, refused_corrupt;
    uint32_t chunks_again;                  /* requested twice or more */
    uint32_t chunks_twice;                  /* received twice or more */
    uint32_t unknown_messages;              /* of a later version or malformed */
};

/* X(field) for each counter that is summed over nodes: all except period_steps. */
#define UW_NODE_COUNTERS(X)                                                                       \
    X(sent_bytes) X(received_bytes) X(pulled_bytes) X(served_bytes) X(membership_bytes)           \
    X(averaged_bytes) X(averages_done) X(averages_cut) X(pairs_half) X(samples_in) X(samples_out) \
    X(sample_bytes) X(pulls_done) X(pulls_cut) X(pulls_refused) X(pulls_stale) X(chunks_mixed)    \
    X(refused_nonfinite) X(refused_outlier) X(refused_run) X(refused_model) X(refused_corrupt)    \
    X(chunks_again) X(chunks_twice) X(unknown_messages)

/* Progress that training reports after a step (uw_node_after_step of uwasa/node.h). Loss, accuracy
 * and speed are for display. */
struct uw_node_progress {
    uint32_t step;                  /* training steps so far */
    float lr;                       /* learning rate of the step; 0: no step was done */
    float step_loss;                /* of the step alone, before its update; 0: not known */
    float loss, accuracy;           /* accuracy 0 .. 1, negative: not known */
    float samples_per_s;
    uint32_t period_steps;          /* T from the next step on; 0: unchanged. Not with
                                       uw_node_config.period_share */
    struct uw_vitals vitals;        /* see uw_node_config.vitals */
    uint32_t still_s;               /* seconds since the last step, if that is long for it; 0: it
                                       trains, or has ended */
};

/* Result of uw_node_after_step. */
enum uw_node_after {
    UW_NODE_MIXED = 1,              /* chunks were mixed into params->x */
    UW_NODE_ROUND = 2,              /* a round with a pull ended; velocity is updated */
    UW_NODE_AVERAGING = 8,          /* do not access the parameters; call again soon with lr 0 */
    UW_NODE_RETREATED = 16,         /* uw_mix_qg replaces a rule over pairs: its velocity m is zero,
                                       and the frozen momentum of local steps is 0.9 */
    UW_NODE_ADOPTING = 4            /* a newcomer has a part of a peer's model: do not train, call
                                       again a little later with lr 0 */
};

UW_C_END
#endif
