/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/node.h - a node of a run: membership, pull gossip, guarded mixing
 *
 * A node communicates with its peers over one link. It finds them from seed addresses, detects
 * silent ones, serves its snapshot to peers that pull, pulls from one peer a round, and mixes
 * verified chunks into the parameters between training steps. Training never waits for the network.
 *
 *     uw_node_measure(&config, &bytes, &err);
 *     uw_node_bind(&node, &config, &arena, &err);
 *     for (;;) { next_us = uw_node_step(&node, now_us); ... wait until next_us or link->fd ... }
 *     for (;;) { ... one training step ...; uw_node_after_step(&node, &progress); }
 *     uw_node_leave(&node, now_us);
 *
 * The two loops may run in one thread or in two: they share a ring of chunks and a few atomics.
 *
 * Without a snapshot, for devices without memory for a second copy of the parameters: peers pull
 * params->x itself, except while a newcomer takes over a model. The training thread calls
 * uw_node_step between layers, never within an update. Each chunk is then consistent; a longer pull
 * may contain chunks of several steps, as a pull over several versions does. The version counts
 * rounds of T steps. Mixing is (1 - w) x + w s_peer. Mode gossip with rule none only.
 *
 * Units      bytes unless a name ends in _us (microseconds, monotonic) or _n (elements)
 * Memory     one arena; the link, parameters, snapshot, velocity and texts of the configuration
 *            are borrowed for the life of the node. No heap, no operating system
 * Blocking   never
 * Context    "network": the thread that calls uw_node_step; "training": the thread that calls
 *            uw_node_after_step. One thread per role
 */
#ifndef UWASA_NODE_H
#define UWASA_NODE_H

#include "uwasa/allreduce_steps.h"
#include "uwasa/arena.h"
#include "uwasa/cplusplus.h"
#include "uwasa/link.h"
#include "uwasa/mix.h"
#include "uwasa/node_check.h"
#include "uwasa/node_event.h"
#include "uwasa/node_mode.h"
#include "uwasa/node_parts.h"
#include "uwasa/node_sleep.h"
#include "uwasa/node_status.h"
#include "uwasa/params.h"
#include "uwasa/peer_schedule.h"
#include "uwasa/sample_pool.h"
#include "uwasa/status.h"
#include "uwasa/vitals.h"

UW_C_BEGIN

#define UW_NODE_SLICES_MAX 32u
#define UW_NODE_PULL_PEERS_MAX 8u

struct uw_node_gradients_config;    /* uwasa/node_gradients.h */
struct uw_secure_keys;              /* uwasa/secure_keys.h */
struct uw_node_config {
    const char *name;               /* unique in the run, 1 .. 31 bytes, printable without spaces */
    const char *run;                /* name of the run; nodes of another run are refused */
    const char *address;            /* own address for peers; NULL or "": peers use the source
                                       address of its messages */
    /* Further addresses at which this node can be reached, of its network interfaces; peers that do
     * not reach it where others see it try them in turn, such as those behind the same NAT. Called
     * with every hello. Writes up to cap_bytes, for each address a byte 4 or 6, the IP address and
     * the port, big-endian, and returns their bytes. NULL: none, and those of peers are ignored */
    uint32_t (*own_addresses)(void *arg, uint8_t *out, uint32_t cap_bytes);
    void *addresses_arg;
    const char *const *seeds;       /* addresses to dial until they answer; may include the own */
    uint32_t seeds_n;
    uint32_t incarnation;           /* grows with every start: seconds since 1970, a boot counter */
    bool vitals;                    /* send power and temperature to peers: 11 bytes more in a ping.
                                       The battery is sent whenever it is known */
    bool batteries_alike;           /* schedule random ignores peers' batteries; false: it draws by
                                       their charge (uwasa/peer_schedule.h) */
    struct uw_link *link;
    struct uw_secure_keys *keys;    /* of the link, not one of frames: the node takes lists of
                                       revoked devices and passes them on. NULL: it does not */
    struct uw_node_sleep sleep;     /* zeros: never sleeps. Modes gossip and broadcast only */

    const struct uw_params *params; /* uw_node_after_step mixes into x in place */
    struct uw_snapshot *snapshot;   /* published by uw_node_after_step, served to peers. NULL: see
                                       "Without a snapshot" */
    float *velocity;                /* [params->size_n]; only for rules that need it */
    const struct uw_node_image *image;      /* uwasa/node_image.h; needs a snapshot. NULL: training
                                       works in params->x */
    const struct uw_node_direct *direct;    /* uwasa/node_direct.h; NULL: averages use the link */
    bool newcomer;                  /* take over the model of the first peer that is ahead */
    uint32_t trained_steps;         /* of the checkpoint that it starts from: a peer that is ahead
                                       has made twice as many. 0: any that has mixed */

    const struct uw_node_parts *parts;      /* linked into the program; NULL: none, enough for
                                       gossip */
    enum uw_node_mode mode;
    enum uw_gossip_kind gossip;     /* of mode gossip; a node only pulls, uwasa/sim_world.h has the
                                       others */
    const char *cell;               /* name of the cell, at most 31 bytes; NULL or "": a cell of its
                                       own, or in mode auto the nodes nearby */
    uint32_t head_weight;           /* the node with the highest becomes head of the cell: mains
                                       power, a good link. 0: head only as the last resort, and
                                       never towards other cells */
    uint32_t near_us;               /* round-trip time that counts as near, before costs are known;
                                       0: 5 ms */
    uint32_t ranks_max;             /* most nodes of an average, 2 to UW_NODE_RANKS_MAX; fewer where
                                       messages are short, 46 at 256 bytes. Larger cells average in
                                       parts; for UW_NODE_ALLREDUCE a node takes a vector more if
                                       members_max is above. 0: 64 */
    uint32_t cell_first_n;          /* nodes that the first average waits for; 0: the live ones */
    bool together;                  /* all nodes start together and stay: averages wait for all live
                                       ones */
    const enum uw_allreduce_kind *algorithm;    /* NULL: the fastest for size and ranks */
    uint64_t gather_us;             /* longest wait of an average for its members; 0: 30 s */
    uint64_t round_us;              /* longest duration of an average; 0: 60 s */
    const struct uw_node_gradients_config *gradients;   /* average the gradients of every step, in
                                       mode allreduce with rule none; NULL: average parameters */
    bool agree;                     /* join an average over the whole run at the end */
    uint64_t agree_us;              /* longest wait of that average for others; 0: 10 s */
    float add_byte_s;               /* seconds to add one byte of a vector to another; 0: a guess */
    uint32_t scratch_n;             /* floats of memory for averages; more make averages of large
                                       vectors take fewer steps. 0: the minimum */
    float *spare;                   /* [uw_node_spare_n()]; NULL when that is 0 */
    struct uw_sample_pool *samples; /* bound; lent to nodes that lend as well
                                       (net/shuffle/shuffle.h). NULL: neither lend nor borrow */
    uint64_t loan_us;               /* term of a lease; 0: 30 s */

    const struct uw_mix_rule *rule;         /* NULL: uw_mix_none */
    struct uw_mix_constants constants;
    bool guard;                     /* refuse peers' models that are further away than usual */
    bool guard_averages;            /* with guard: also averages, but not of gradients, nor with a
                                       period below 5, nor while there is another cell. Without a
                                       reliable link it takes memory as the model */
    const struct uw_peer_schedule *schedule;    /* NULL: uw_peer_schedule_random */
    const struct uw_peer_graph *graph;      /* for uw_peer_schedule_graph; borrowed */
    uint32_t pulls_n;               /* pulls of T steps, each a round of the schedule, one after the
                                       other. Mode gossip only. 0: 1 */
    uint32_t period_steps;          /* T, minimum of local steps a round; 0: 10 */
    float period_share;             /* > 0: T adapts, up to period_steps (0: no limit), so that
                                       pulls take this share of the time; not in exact averages */
    uint32_t slices_n;              /* F, up to 32: a round pulls one of F slices; a newcomer pulls
                                       all. Mode gossip only. 0: 1 */
    uint32_t pull_peers;            /* peers that share the chunks of a round's pull; a newcomer
                                       pulls from one. Mode gossip, schedule random. 0: 1 */
    bool code;                      /* over a link of frames, request chunks in a lossless code, an
                                       eighth larger than a frame; not from peers without the code,
                                       nor where it does not shorten chunks enough */
    uint64_t seed;                  /* of peer choice and jitter; should differ between nodes, for
                                       example by a hash of the name */
    size_t window_bytes;            /* pulled data that may wait for the training thread, so most of
                                       what a local step mixes in; 0: 512 KiB, less for a small
                                       model */
    uint32_t chunk_least_n;         /* smallest chunk, in floats: peers whose link cannot carry it
                                       are not pulled from. Takes 2 bits of memory per that many
                                       parameters. 0: 8 */
    uint32_t serves_max;            /* pulls served at once; 0: members_max. Other peers retry. If
                                       below members_max, each may queue fewer requests */
    uint32_t members_max;           /* size of the member table, 2 or more, self included; 0: 32. In
                                       a larger run each node knows a slowly changing random subset
                                       and serves all; models spread through those who pull. Exact
                                       averages go by parts of the run; pairs and schedules other
                                       than random need all participants in the table */
    uint32_t membership_rate;       /* limit on hellos, pings and their answers, in bytes a second
                                       without the link's headers; more members get rarer pings. 0:
                                       4096, or a sixteenth of the link's rate if known and less.
                                       UDP and TCP do not know it: set this below 0.5 Mbit/s */
    uint64_t ping_us;               /* shortest interval of pings to a member; 0: 700 ms */
    uint64_t suspect_us;            /* shortest silence before a member is suspect; 0: 3 pings */
    uint64_t dead_us;               /* silence before a member is dead, never less than twice the
                                       silence of suspicion; 0: 3 suspect_us, at least 10 s */
    uint64_t pull_us;               /* longest pull, whatever earlier ones took; 0: 120 s */
    uint64_t pull_silence_us;       /* silence that ends a pull, at least 3 round trips; 0: 4 s */
    uint32_t release;               /* of the program, 0.1.0 as 0x000100, for others' status; 0: not
                                       reported */
    const char *kernels;            /* kernels in use, for status_client.h; NULL: not reported */
    struct uw_queries *queries;     /* uwasa/queries.h; NULL: no questions are answered */
    uint64_t poll_us;               /* interval at which the network polls for requests of training;
                                       0: 5 ms. May be long if uw_node_step follows uw_node_asks */
    void (*on_event)(void *arg, const struct uw_node_event *event);  /* network; may be NULL */
    void *event_arg;
};

/* Size of config.spare in floats: size_n for rules without before and after in modes that average,
 * 2 size_n for rules over pairs, else 0. */
uint32_t uw_node_spare_n(enum uw_node_mode mode, const struct uw_mix_rule *rule, uint32_t size_n);

#define UW_NODE_RANKS_MAX 256u
#define UW_NODE_RANKS_DEFAULT 64u
struct uw_node_state;               /* private; in the arena */

struct uw_node {
    struct uw_node_state *state;
};

/* Bytes that uw_node_bind allocates. May be called before the model is bound: it reads only size_n
 * and segments_n of params, and velocity and snapshot->data may still be NULL (on_event only if it
 * stays NULL). Takes 4 KB of stack on a Cortex-M, with exact averages about 12 KB more.
 *
 * Returns what uw_node_bind returns, except UW_ERR_NOMEM and UW_ERR_SEALED. */
int uw_node_measure(const struct uw_node_config *config, size_t *bytes, struct uw_error *err);

/* Set up the node. It sends nothing before the first uw_node_step.
 *
 *   err  gets a sentence that names the field, see uw_node_check; may be NULL
 *
 * Returns UW_OK, UW_ERR_INVALID (a name that is empty, too long or has odd characters, sizes, a
 * rule whose velocity or snapshot is missing, a part that the program lacks), UW_ERR_TOOBIG (the
 * link's messages are too small for the name and address), UW_ERR_NOMEM, UW_ERR_SEALED. */
int uw_node_bind(struct uw_node *n, const struct uw_node_config *config, struct uw_arena *arena,
                 struct uw_error *err);

/* The same for a node whose peers are exactly config.seeds. It draws one at random for each pull,
 * and neither sends nor answers pings: a board links no membership code, and an idle link carries
 * no bytes. Peers that list each other can pull from each other. Names, batteries and sleep windows
 * are not exchanged. After a failed pull from a seed it waits 2 s, then longer (back-off). A
 * newcomer takes over the first model that it receives. Mode gossip with schedule random only,
 * without averages, samples or sleep.
 *
 * Returns as above. UW_ERR_INVALID also for a configuration that the last sentence excludes, no
 * seeds, or more than members_max - 1. */
int uw_node_measure_listed(const struct uw_node_config *config, size_t *bytes,
                           struct uw_error *err);
int uw_node_bind_listed(struct uw_node *n, const struct uw_node_config *config,
                        struct uw_arena *arena, struct uw_error *err);

/* Context network. Receive, answer, send what is due. Bounded work per call. A call that comes late
 * by a ping interval or more, or a clock that jumps ahead, counts as sleep of this device: no peer
 * becomes suspect by it. If all calls come late, the device counts as busy instead. A clock that
 * goes back counts as standing still.
 * Returns the time of the next call (now_us: at once); call also when link->fd is readable. */
uint64_t uw_node_step(struct uw_node *n, uint64_t now_us);

/* Context training. Call after every local step. It mixes received chunks, ends the round after T
 * steps once its pull has ended, publishes the snapshot, and requests the next pull. The first call
 * publishes the initial weights; a newcomer publishes its own only after a round without a peer to
 * take a model from. With lr 0, rounds have no steps: they end with their pull and do not change
 * the velocity. Such calls bring nodes to consensus after training.
 *
 * Returns a set of enum uw_node_after, or UW_ERR_UNSUPPORTED (the snapshot has no data: the
 * model was planned without one). */
int uw_node_after_step(struct uw_node *n, const struct uw_node_progress *p);

/* Context training. Report progress to peers without a step; samples_per_s 0: training ended. */
void uw_node_tell(struct uw_node *n, const struct uw_node_progress *p);

/* Context training. Would uw_node_after_step, called after one more local step, read or change the
 * parameters or the velocity? While the answer is no, that step and earlier ones may be deferred.
 * Only chunks received in a concurrent uw_node_step can change a no to a yes. A yes may be a false
 * alarm. */
bool uw_node_touches(const struct uw_node *n);

/* Is a pull that uw_node_after_step requested not yet seen by uw_node_step? Both in one thread. */
bool uw_node_asks(const struct uw_node *n);

/* Context training. Make the next calls of uw_node_after_step, with lr 0, average exactly over all
 * reachable nodes that have finished too, in any mode. They return UW_NODE_AVERAGING meanwhile,
 * then UW_NODE_ROUND when the average is done, or 0 when there was no other node. */
void uw_node_agree(struct uw_node *n);

/* Context training. Request the parameters back while uw_node_after_step returns UW_NODE_AVERAGING.
 * It returns so until the current round is decided, at most. A group that averages gradients is
 * given up. */
void uw_node_recall(struct uw_node *n);

/* Context network. Send a goodbye to every live peer; later steps only answer. */
void uw_node_leave(struct uw_node *n, uint64_t now_us);

/* Context network. Do peers still need the outcome of the last average from this node? If so, keep
 * calling uw_node_step. */
bool uw_node_owes(const struct uw_node *n);

/* Context network. Does it have parameters for an average? While it does, uw_node_after_step finds
 * nothing new. */
bool uw_node_holds(const struct uw_node *n);

/* Context network. Copy the member table.
 *
 *   rows      [cap_n] written, the rows returned; may be NULL with cap_n 0
 *   counters  may be NULL
 *
 * Returns the number of rows written. */
uint32_t uw_node_status(const struct uw_node *n, uint64_t now_us, struct uw_node_member *rows,
                        uint32_t cap_n, struct uw_node_counters *counters);

UW_C_END
#endif
