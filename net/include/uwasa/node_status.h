/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/node_status.h - what a node reports: its training, its peers in the live view, counters
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
#define UW_NODE_NAME_BYTES 32u      /* a device's name with its NUL */
#define UW_NODE_KERNELS_BYTES 48u   /* what computes, with its NUL */

enum uw_member_state {
    UW_MEMBER_UNKNOWN,              /* known by name, never heard */
    UW_MEMBER_ALIVE,
    UW_MEMBER_SUSPECT,
    UW_MEMBER_DEAD,
    UW_MEMBER_LEFT
};

/* "alive", "suspect", ...; "unknown" for a number that is none. Static storage. */
const char *uw_member_state_name(enum uw_member_state state);

/* One row of the live view. Row 0 is the node itself. */
struct uw_node_member {
    char name[UW_NODE_NAME_BYTES];
    char address[UW_LINK_ADDRESS_BYTES];
    enum uw_member_state state;
    uint32_t incarnation;
    uint64_t silent_us;             /* since last heard; 0 for the node itself */
    uint32_t rtt_us;                /* 0: not measured */
    uint32_t step, rounds, version; /* as it last told; rounds: pulls that were mixed */
    float loss, accuracy, samples_per_s;
    uint64_t pulled_bytes;          /* payload it pulled in all, as it last told */
    uint64_t from_bytes;            /* payload this node pulled from it */
    uint32_t refused_n;             /* its chunks and pulls refused by this node */
    bool same_model;
    char cell[UW_NODE_NAME_BYTES];  /* that it averages with; "*": all; "": none */
    struct uw_vitals vitals;
};

struct uw_node_counters {
    uint64_t sent_bytes, received_bytes;    /* all this node handed to and got from the link */
    uint64_t pulled_bytes, served_bytes;    /* chunk payload */
    uint64_t membership_bytes;              /* of those sent: hellos, pings and their answers */
    uint64_t averaged_bytes;                /* sent for averages, payload */
    uint32_t averages_done, averages_cut;
    uint32_t pairs_half;                    /* that only one of the two sides has committed */
    uint64_t samples_in, samples_out;       /* borrowed and lent so far */
    uint64_t sample_bytes;                  /* of samples sent */
    uint32_t pulls_done, pulls_cut, pulls_refused;
    uint32_t pulls_stale;           /* what the peer shows was mixed in before: another was asked */
    uint32_t chunks_mixed;
    uint32_t period_steps;          /* T now; of many nodes together the sum */
    uint32_t refused_nonfinite, refused_outlier, refused_run, refused_model, refused_corrupt;
    uint32_t chunks_again;                  /* asked for a second time or more */
    uint32_t chunks_twice;                  /* arrived a second time or more */
    uint32_t unknown_messages;              /* of a later version, or none */
};

/* X(field) for each of them that adds up over nodes: all but period_steps. */
#define UW_NODE_COUNTERS(X)                                                                       \
    X(sent_bytes) X(received_bytes) X(pulled_bytes) X(served_bytes) X(membership_bytes)           \
    X(averaged_bytes) X(averages_done) X(averages_cut) X(pairs_half) X(samples_in) X(samples_out) \
    X(sample_bytes) X(pulls_done) X(pulls_cut) X(pulls_refused) X(pulls_stale) X(chunks_mixed)    \
    X(refused_nonfinite) X(refused_outlier) X(refused_run) X(refused_model) X(refused_corrupt)    \
    X(chunks_again) X(chunks_twice) X(unknown_messages)

/* What training reports after a step (uw_node_after_step of uwasa/node.h); loss, accuracy and speed
 * are for the live view. */
struct uw_node_progress {
    uint32_t step;                  /* training steps done so far */
    float lr;                       /* learning rate of that step; 0: no step was done */
    float step_loss;                /* of that step alone, before its update; 0: not known */
    float loss, accuracy;           /* to be shown; accuracy 0 .. 1, negative: not known */
    float samples_per_s;
    struct uw_vitals vitals;        /* see uw_node_config.vitals */
};

/* What uw_node_after_step did. */
enum uw_node_after {
    UW_NODE_MIXED = 1,              /* chunks were mixed into params->x */
    UW_NODE_ROUND = 2,              /* a round with a pull ended; velocity is updated */
    UW_NODE_AVERAGING = 8,          /* leave the parameters alone, call again soon with lr 0 */
    UW_NODE_RETREATED = 16,         /* a rule over pairs was given up: the rule is uw_mix_qg, the
                                       velocity its m, zero, and the steps' frozen momentum 0.9 */
    UW_NODE_ADOPTING = 4            /* a newcomer's model is half taken over: steps on it are
                                       wasted, call again a little later with lr 0 instead */
};

UW_C_END
#endif
