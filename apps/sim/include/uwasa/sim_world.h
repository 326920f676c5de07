/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_world.h - the nodes of a simulated run on one virtual clock
 *
 * The nodes are the ones that ship: struct uw_node over the links of a simulated fleet. Two things
 * happen to a node: its network steps, when a message is there or it asked to be called, and its
 * training steps, which take as long as its device says. The world finds what comes next on the
 * clock, does the network itself and hands the training to the caller. It knows parameters as flat
 * vectors and nothing of models.
 *
 *     uw_world_open(&w, &config, &err);
 *     uw_world_meet(&w, limit_us);                     until the nodes know each other
 *     while ((n = uw_world_next(&w)) != NULL) {        without config.interrupts
 *         if (!n->waits) { ... train n->x one step ... } else { progress.lr = 0; }
 *         rc = uw_world_trained(&w, n, &progress, 0);  n->train_at_us = UINT64_MAX: no more
 *     }
 *     uw_world_close(&w);
 *
 * Many nodes' vectors fit no cache. So a caller may put steps off, and compute several of a node
 * one after the other: see uw_world_touches.
 *
 * Absences: while a device is away its node computes nothing and what is sent to it is lost; what
 * it had sent before arrives. A step under way ends so much later. A node that forgets is handed
 * out once when it returns, with `restarted` and `waits`: what the caller keeps for it starts anew
 * too, and uw_world_trained then sets the node up as a newcomer, with fresh parameters.
 *
 * Units      _us microseconds of virtual time, _n floats
 * Memory     open takes it all from the heap, in few large blocks; messages on their way take more
 *            as needed. The fleet is borrowed
 * Blocking   never; virtual time costs what there is to compute
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
    UW_WORLD_EVENTS,                /* the shipped protocols over simulated links */
    UW_WORLD_FORMULA                /* what exchanges cost by closed formulas */
};

struct uw_world_node {
    uint32_t place;                 /* 0 .. devices_n - 1; also its address */
    struct uw_params params;
    struct uw_snapshot snapshot;
    float *x, *velocity;            /* [size_n]; velocity NULL when the rule has none */
    uint64_t train_at_us;           /* when its local step is done; UINT64_MAX: it does none */
    bool waits;                     /* its parameters are being averaged, or a newcomer takes over
                                       others': no step was done */
    bool restarted;                 /* it has forgotten all: no step was done */
    uint32_t restarts;              /* how often so far */
    struct uw_node node;            /* of UW_WORLD_EVENTS */

    /* private */
    float *spare;
    bool averaging;                 /* x is in the hands of an average */
    struct uw_world *world;
};

/* What a run that goes on has behind it; zero: it begins. */
struct uw_world_past {
    uint64_t trained_us;            /* virtual time since training began */
    uint64_t sent_bytes;
    struct uw_node_counters counters;
    const uint64_t *left_us;        /* [devices_n] until a node's step ends; UINT64_MAX: it does no
                                       more. NULL: all steps begin; read by uw_world_meet */
};

struct uw_world_config {
    enum uw_world_network network;
    const struct uw_sim_fleet *fleet;
    const struct uw_params *params; /* layout and first values of every node's parameters */
    struct uw_node_config node;     /* what all nodes share; the world adds name, address, cell,
                                       link, vectors, seeds if NULL, and mixes seed and place.
                                       window_bytes 0: a model, 512 KiB at most, and 512 MiB for
                                       all nodes; of gossip a model at most; members_max is that
                                       below */
    uint32_t mtu_bytes;
    const struct uw_radio_profile *radio;   /* a channel that all devices share, in place of the
                                       fleet's rates and latencies, with frames, which mtu_bytes
                                       then follows. NULL: none. Borrowed */
    uint32_t members_max;           /* of a node's table. 0: all; of more than 64, for gossip by
                                       random choice and for cells, 32 or twice the largest cell */
    /* Of UW_WORLD_FORMULA, see uwasa/sim_cost.h. */
    enum uw_sim_algorithm algorithm;    /* of exact averages */
    uint64_t model_bytes;               /* of what is exchanged; 0: 4 a parameter */
    bool study_pull;                    /* a pull takes L + G/B, without a question */
    bool pull_waits;                    /* a node that pulls does no step meanwhile; for gossip
                                           without a momentum rule */
    /* What a node reports; may be NULL. Instead of node.on_event. */
    void (*on_event)(void *arg, uint32_t place, const struct uw_node_event *event);
    void *event_arg;
    /* In uw_world_next: uw_world_touches of a node became true. May be NULL. */
    void (*on_touch)(void *arg, uint32_t place);
    void *touch_arg;
    /* In uw_world_next of UW_WORLD_EVENTS, every so many events: it may go on for long before a
     * step ends. true: it returns NULL, and is called again to go on. May be NULL. */
    bool (*interrupts)(void *arg);
    void *interrupt_arg;
    struct uw_world_past past;
};

struct uw_world_ops;                /* private: a model of the network */

struct uw_world {
    struct uw_world_config config;  /* with what was 0 filled in */
    uint64_t now_us;
    uint64_t start_us;              /* when training began, of a run that goes on the first time */
    struct uw_world_node *nodes;    /* [fleet->devices_n] */

    /* private */
    const struct uw_world_ops *ops;
    void *state;                    /* of the model */
    float *vectors;                 /* of all nodes */
};

/* About how many bytes uw_world_open takes, with what is on its way at once; SIZE_MAX: more than
 * can be counted, or not a world. err may be NULL. */
size_t uw_world_measure(const struct uw_world_config *config, struct uw_error *err);

/* Set up the nodes with the same parameters and let none send yet.
 * Returns UW_OK, UW_ERR_NOMEM, UW_ERR_UNSUPPORTED (no such model of the network), UW_ERR_TOOBIG
 * (more than 65534 nodes of UW_WORLD_EVENTS), or what uw_node_bind returns; err filled. Close in
 * every case. */
int uw_world_open(struct uw_world *w, const struct uw_world_config *config, struct uw_error *err);

/* Run the network alone until every node has known all others as alive and with weights to show, or
 * half a table of them where not all fit, or limit_us have passed; training begins then, at
 * w->start_us. Returns UW_OK, UW_ERR_AGAIN (the limit came first), or what uw_node_after_step
 * returns. */
int uw_world_meet(struct uw_world *w, uint64_t limit_us);

/* Run the network up to the next end of a local step, or to where a node that waits may go on.
 * Returns the node; NULL: no node trains, or the caller has interrupted. */
struct uw_world_node *uw_world_next(struct uw_world *w);

/* Report that the step was done: as uw_node_after_step, whose answer it returns. The next one ends
 * pause_us later (0: as its device takes), or when an average that began with it lets it go on. */
int uw_world_trained(struct uw_world *w, struct uw_world_node *n,
                     const struct uw_node_progress *progress, uint64_t pause_us);

/* Will uw_world_trained at the end of the node's present step read or change its vectors? If not,
 * the step need not have been computed by then: what is put off is computed at once, before an end
 * of a step of which this is true, or before other code reads x. It may become true while the step
 * lasts, see on_touch; never false. */
bool uw_world_touches(const struct uw_world *w, const struct uw_world_node *n);

/* As uw_node_agree. */
void uw_world_agree(struct uw_world *w, struct uw_world_node *n);

/* A node's model as it is to be judged, [size_n]: x, and while x is being averaged in place what it
 * was before. */
float *uw_world_model(const struct uw_world *w, const struct uw_world_node *n);

/* Bytes that all nodes together have handed to their links since training began. */
uint64_t uw_world_sent_bytes(const struct uw_world *w);

/* Of config.radio, since the world was opened: how long it was on the air, how many frames. */
void uw_world_air(const struct uw_world *w, uint64_t *busy_us, uint64_t *frames_n);

/* Counters of all nodes, added up, those of nodes before a restart too. */
struct uw_node_counters uw_world_counters(const struct uw_world *w);

/* Safe on a zeroed struct and twice. */
void uw_world_close(struct uw_world *w);

UW_C_END
#endif
