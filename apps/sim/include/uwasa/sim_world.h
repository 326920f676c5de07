/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_world.h - the nodes of a simulated run on one virtual clock
 *
 * The nodes are real: struct uw_node over the links of a simulated fleet. A node has two kinds of
 * events: steps of its network, when a message has arrived or at a time that it chose, and training
 * steps, which take as long as the fleet says. The world finds the next event on the clock, steps
 * the network itself and returns to the caller for training. It sees parameters as flat vectors and
 * no models.
 *
 *     uw_world_open(&w, &config, &err);
 *     uw_world_meet(&w, limit_us);                     until the nodes know each other
 *     while ((n = uw_world_next(&w)) != NULL) {        without config.interrupts
 *         if (!n->waits) { ... train n->x one step ... } else { progress.lr = 0; }
 *         rc = uw_world_trained(&w, n, &progress, 0);  n->train_at_us = UINT64_MAX: no more
 *     }
 *     uw_world_close(&w);
 *
 * The vectors of many nodes do not fit a cache. So a caller may defer a node's training steps and
 * compute several of them in a row: see uw_world_touches.
 *
 * Absences: while a device is away, its node computes nothing and messages to it are lost; messages
 * that it sent before still arrive. A step that has begun ends later by that time. A node that
 * forgets is returned once when it comes back, with `restarted` and `waits`: the caller resets its
 * own data of the node, and uw_world_trained then makes it a newcomer with initial parameters.
 *
 * Units      _us microseconds of virtual time, _n floats
 * Memory     open takes it from the heap, in few large blocks; messages in flight take more as
 *            needed. The fleet is borrowed
 * Blocking   never waits for a clock
 * Context    one thread. The same configuration gives the same run, bit for bit
 */
#ifndef UWASA_SIM_WORLD_H
#define UWASA_SIM_WORLD_H

#include "uwasa/cplusplus.h"
#include "uwasa/node.h"
#include "uwasa/radio_profile.h"
#include "uwasa/sim_cost.h"
#include "uwasa/sim_fleet.h"

UW_C_BEGIN

enum uw_world_network {
    UW_WORLD_EVENTS,                /* the real protocols over simulated links */
    UW_WORLD_FORMULA                /* the cost of exchanges by formulas */
};

struct uw_world_node {
    uint32_t place;                 /* 0 .. devices_n - 1; also its address */
    struct uw_params params;
    struct uw_snapshot snapshot;
    float *x, *velocity;            /* [size_n]; velocity NULL when the rule has none */
    uint64_t train_at_us;           /* the end of its local step; UINT64_MAX: it does none */
    bool waits;                     /* its parameters are being averaged, or it is a newcomer that
                                       adopts those of others: no step was done */
    bool restarted;                 /* it has lost its state: no step was done */
    uint32_t restarts;              /* number of restarts so far */
    struct uw_node node;            /* of UW_WORLD_EVENTS */

    /* private */
    struct uw_params shown;         /* an attacker's; x NULL: it shows its own model */
    float *shown_velocity;
    float *spare;
    bool averaging;                 /* an average uses x */
    struct uw_world *world;
};

/* The past of a run that is continued; zero: a new run. */
struct uw_world_past {
    uint64_t trained_us;            /* virtual time since training began */
    uint64_t sent_bytes;
    struct uw_node_counters counters;
    const uint64_t *left_us;        /* [devices_n] time until a node's step ends; UINT64_MAX: it has
                                       none. NULL: all begin a step. Read by uw_world_meet */
};

struct uw_world_config {
    enum uw_world_network network;
    const struct uw_sim_fleet *fleet;
    const struct uw_params *params; /* layout and initial values of every node's parameters */
    struct uw_node_config node;     /* what all nodes share. The world sets name, address, cell,
                                       link, vectors, seeds if NULL, a seed from seed and place,
                                       and members_max (below). window_bytes 0: a model, at most
                                       512 KiB, and 512 MiB for all nodes; for gossip at most a
                                       model */
    uint32_t mtu_bytes;
    const struct uw_radio_profile *radio;   /* a channel with frames that all devices share, instead
                                       of the fleet's rates and latencies; it determines
                                       mtu_bytes. NULL: none. Borrowed */
    uint32_t members_max;           /* rows of a member table. 0: all nodes; if these are more than
                                       64, for gossip by random choice and for cells the larger
                                       of 32 and twice the largest cell */
    /* Of UW_WORLD_FORMULA, see uwasa/sim_cost.h. */
    enum uw_sim_algorithm algorithm;    /* of exact averages */
    uint64_t model_bytes;               /* size of an exchanged model; 0: 4 bytes a parameter */
    bool study_pull;                    /* a pull takes L + G/B, without a request */
    bool pull_waits;                    /* a node trains no step during its pull; for gossip
                                           without a momentum rule */
    /* Receives a node's events, instead of node.on_event. May be NULL. */
    void (*on_event)(void *arg, uint32_t place, const struct uw_node_event *event);
    void *event_arg;
    /* uw_world_next calls it when uw_world_touches of a node has become true. May be NULL. */
    void (*on_touch)(void *arg, uint32_t place);
    void *touch_arg;
    /* uw_world_next of UW_WORLD_EVENTS calls it regularly, as a step may take long. If it returns
     * true, uw_world_next returns NULL; call that again to continue. May be NULL. */
    bool (*interrupts)(void *arg);
    void *interrupt_arg;
    struct uw_world_past past;
};

struct uw_world_ops;                /* private: a model of the network */

struct uw_world {
    struct uw_world_config config;  /* with defaults instead of zeros */
    uint64_t now_us;
    uint64_t start_us;              /* start of training; of a continued run, the first one */
    struct uw_world_node *nodes;    /* [fleet->devices_n] */

    /* private */
    const struct uw_world_ops *ops;
    void *state;                    /* of the model of the network */
    float *vectors;                 /* of all nodes */
};

/* About how many bytes uw_world_open and the messages in flight take. SIZE_MAX: the number does not
 * fit, or the configuration is invalid. err may be NULL. */
size_t uw_world_measure(const struct uw_world_config *config, struct uw_error *err);

/* Set up the nodes with the same parameters. None sends anything yet.
 * Returns UW_OK, UW_ERR_NOMEM, UW_ERR_UNSUPPORTED (no such model of the network), UW_ERR_TOOBIG
 * (more than 65534 nodes of UW_WORLD_EVENTS), or what uw_node_bind returns; err filled. Close in
 * every case. */
int uw_world_open(struct uw_world *w, const struct uw_world_config *config, struct uw_error *err);

/* Run only the network until every node knows all others as alive and with a snapshot (half a
 * member table of them, if not all fit), or until limit_us have passed. Then training begins, at
 * w->start_us. Returns UW_OK, UW_ERR_AGAIN (limit_us passed first), or what uw_node_after_step
 * returns. */
int uw_world_meet(struct uw_world *w, uint64_t limit_us);

/* Run the network until a local step ends, or until a node that waits may continue.
 * Returns the node; NULL: no node trains, or config.interrupts returned true. */
struct uw_world_node *uw_world_next(struct uw_world *w);

/* Report that the step was done, like uw_node_after_step, whose result it returns. The next step
 * ends pause_us later (0: the device's time of a step), or when an average that began with this
 * step lets the node continue. */
int uw_world_trained(struct uw_world *w, struct uw_world_node *n,
                     const struct uw_node_progress *progress, uint64_t pause_us);

/* Whether uw_world_trained at the end of the node's current step will read or change its vectors.
 * If not, the step may be deferred: deferred steps must be computed before the end of a step for
 * which this is true, and before other code reads x. During a step it may become true (on_touch),
 * but not false. */
bool uw_world_touches(const struct uw_world *w, const struct uw_world_node *n);

/* As uw_node_agree. */
void uw_world_agree(struct uw_world *w, struct uw_world_node *n);

/* A node's model for tests, [size_n]: x, or while x is being averaged in place, its copy from
 * before the average. */
float *uw_world_model(const struct uw_world *w, const struct uw_world_node *n);

/* Bytes that all nodes have given to their links since training began. */
uint64_t uw_world_sent_bytes(const struct uw_world *w);

/* Of config.radio, since the world was opened: the time on the air, and the number of frames. */
void uw_world_air(const struct uw_world *w, uint64_t *busy_us, uint64_t *frames_n);

/* The sums of the counters of all nodes, including those before restarts. */
struct uw_node_counters uw_world_counters(const struct uw_world *w);

/* Safe on a zeroed struct and twice. */
void uw_world_close(struct uw_world *w);

UW_C_END
#endif
