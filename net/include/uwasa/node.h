/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/node.h - one device's place in a run: membership, pull gossip, guarded mixing
 *
 * A node speaks to its peers over one link. It finds them from seed addresses, notices who is
 * silent, serves its own snapshot to whoever pulls, pulls one peer a round, and mixes verified
 * chunks into the parameters between training steps. Training never waits for it.
 *
 *     uw_node_measure(&config, &bytes, &err);
 *     uw_node_bind(&node, &config, &arena, &err);
 *     for (;;) { next_us = uw_node_step(&node, now_us); ... wait until next_us or link->fd ... }
 *     for (;;) { ... one training step ...; uw_node_after_step(&node, &progress); }
 *     uw_node_leave(&node, now_us);
 *
 * The two loops may be two threads or one: a ring of chunks and a few atomics are between them.
 *
 * Without a snapshot, for a device without room for a second copy of its parameters: peers get
 * params->x as it is, and nothing while another's model is taken over. Then the training thread
 * calls uw_node_step, between layers and never within an update: each chunk is of one moment, and
 * a longer pull has chunks of several steps, as one over several versions has too. The version
 * counts rounds of T steps. Mixed is (1 - w) x + w s_peer. Of mode gossip by rule none only.
 *
 * Units      bytes unless a name ends in _us (microseconds, monotonic) or _n (elements)
 * Memory     one arena; the link, parameters, snapshot, velocity and texts of the configuration
 *            are borrowed until the node is no longer used. No heap, no operating system
 * Blocking   never
 * Context    "network": the thread that calls uw_node_step; "training": the one that calls
 *            uw_node_after_step; never two at once in the same role
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
struct uw_node_config {
    const char *name;               /* unique in the run, 1 .. 31 bytes, printable without spaces */
    const char *run;                /* name of the run; nodes of another run are refused */
    const char *address;            /* how others reach this node; NULL or "": as they see us */
    const char *const *seeds;       /* addresses to dial until they answer; own one is harmless */
    uint32_t seeds_n;
    uint32_t incarnation;           /* grows with every start: seconds since 1970, a boot counter */
    bool vitals;                    /* tell others the device's power and temperature: 11 bytes more
                                       in a ping. Its battery is told whenever it is known */
    bool batteries_alike;           /* schedule random draws peers without regard to batteries; else
                                       by their charge: uwasa/peer_schedule.h */
    struct uw_link *link;
    struct uw_node_sleep sleep;     /* zeros: it listens always. For gossip and broadcasts */

    const struct uw_params *params; /* x is mixed in place by uw_node_after_step */
    struct uw_snapshot *snapshot;   /* published by uw_node_after_step, served to peers. NULL: see
                                       "Without a snapshot" */
    float *velocity;                /* [params->size_n]; only for rules that need it */
    const struct uw_node_image *image;      /* NULL: training works in params->x; else see
                                       uwasa/node_image.h. Needs a snapshot */
    const struct uw_node_direct *direct;    /* uwasa/node_direct.h; NULL: all over the link */
    bool newcomer;                  /* take over the model of the first peer that is further on */

    const struct uw_node_parts *parts;      /* that the program has; NULL: none, which is enough
                                       for gossip */
    enum uw_node_mode mode;
    const char *cell;               /* its name, at most 31 bytes; NULL or "": this node alone, or
                                       in mode auto the nodes that are near */
    uint32_t head_weight;           /* the highest leads its cell: mains power, a good link. 0: only
                                       when there is no other, and never towards other cells */
    uint32_t near_us;               /* round trip of who is near, before costs are known; 0: 5 ms */
    uint32_t cell_first_n;          /* nodes that the first average waits for; 0: those in sight */
    bool together;                  /* all start together and stay: averages wait for who lives */
    const enum uw_allreduce_kind *algorithm;    /* NULL: the fastest for size and ranks */
    uint64_t gather_us;             /* an average waits for members so long at most; 0: 30 s */
    uint64_t round_us;              /* and takes so long at most; 0: 60 s */
    const struct uw_node_gradients_config *gradients;   /* NULL: parameters are averaged; else the
                                       gradients of every step, in mode allreduce, by rule none */
    bool agree;                     /* take part in an average over the run at the end */
    uint64_t agree_us;              /* which waits for others so long at most; 0: 10 s */
    float add_byte_s;               /* seconds to add a byte of a vector to another; 0: a guess */
    uint32_t scratch_n;             /* floats lent to averages: the more, the larger the vectors
                                       that are averaged in few steps; 0: as few as will do */
    float *spare;                   /* [uw_node_spare_n()]; NULL when that is 0 */
    struct uw_sample_pool *samples; /* bound; lent to nodes that lend as well
                                       (net/shuffle/shuffle.h). NULL: no sample of this node leaves
                                       it, and none is taken */
    uint64_t loan_us;               /* a loan's term; 0: 30 s */

    const struct uw_mix_rule *rule;         /* NULL: uw_mix_none */
    struct uw_mix_constants constants;
    const struct uw_peer_schedule *schedule;    /* NULL: uw_peer_schedule_random */
    uint32_t period_steps;          /* T, local steps a round at least; 0: 10 */
    float period_share;             /* above 0: T follows, up to period_steps (0: any), so that
                                       pulls take this share of the time; not in exact averages */
    uint32_t slices_n;              /* F, up to 32: a round pulls one of F slices, all in F rounds;
                                       a newcomer takes all. Mode gossip alone. 0: 1 */
    uint32_t pull_peers;            /* that a round asks at once, each for its share of the chunks;
                                       a newcomer asks one. Mode gossip, random schedule. 0: 1 */
    bool code;                      /* pulls over a link of frames ask for chunks in a lossless
                                       code, an eighth larger than frames carry; not of who does
                                       not have it, nor where chunks do not get so much shorter */
    uint64_t seed;                  /* of peer choice and jitter; mix in the name's hash or so */
    size_t window_bytes;            /* chunks that may wait for the training thread; 0: 512 KiB,
                                       less of a small model. A pull moves at most this a step */
    uint32_t chunk_least_n;         /* floats: whose link carries no chunks so large is not pulled
                                       from. Takes 2 bits per that many parameters. 0: 8 */
    uint32_t serves_max;            /* nodes served at once; 0: members_max. Others ask again. Less
                                       than members_max: with fewer questions each */
    uint32_t members_max;           /* 2 or more, self included; 0: 32. A run may have more nodes:
                                       each then knows a random choice of them that slowly changes,
                                       answers and serves all, and what one learns spreads through
                                       those who pull from it. Exact averages, pairs and schedules
                                       other than random need all that take part in the table */
    uint32_t membership_rate;       /* bytes a second, without the link's own headers, that hellos,
                                       pings and their answers may cost this node however many
                                       members it knows; 0: 4096, or a sixteenth of the link's rate
                                       where it tells one and that is less. UDP and TCP tell none:
                                       give it below half a megabit. More members: rarer pings */
    uint64_t ping_us;               /* the closest pings of a member; 0: 700 ms */
    uint64_t suspect_us;            /* shortest silence to suspect; 0: 3 pings */
    uint64_t dead_us;               /* silence to give up, 0: 10 s */
    uint64_t pull_us;               /* longest pull whatever the history says; 0: 120 s */
    uint64_t pull_silence_us;       /* a pull outlives so much, and 3 round trips; 0: 4 s */
    const char *kernels;            /* that train here: for status_client.h. NULL: not told */
    uint64_t poll_us;               /* how soon what training asks for is noticed; 0: 5 ms. May be
                                       long where uw_node_step follows whenever uw_node_asks */
    void (*on_event)(void *arg, const struct uw_node_event *event);  /* network; may be NULL */
    void *event_arg;
};

/* Floats of config.spare: size_n for rules without before and after in modes that average, 2 size_n
 * for rules over pairs, else 0. */
uint32_t uw_node_spare_n(enum uw_node_mode mode, const struct uw_mix_rule *rule, uint32_t size_n);

#define UW_NODE_RANKS_MAX 64u       /* ranks of an average; 46 where messages have 256 bytes */
struct uw_node_state;               /* private; in the arena */

struct uw_node {
    struct uw_node_state *state;
};

/* Bytes uw_node_bind takes from an arena. Of params only size_n and segments_n are read, so this
 * may come before the model is bound; velocity and snapshot->data may still be NULL, on_event only
 * if it stays so. Takes 4 KB of stack on a Cortex-M, with exact averages about 12 KB more.
 *
 * Returns what uw_node_bind returns, except UW_ERR_NOMEM and UW_ERR_SEALED. */
int uw_node_measure(const struct uw_node_config *config, size_t *bytes, struct uw_error *err);

/* Set the node up. Nothing is sent before the first uw_node_step.
 *
 *   err  may be NULL; else a sentence that names the field, as uw_node_check finds it
 *
 * Returns UW_OK, UW_ERR_INVALID (a name that is empty, too long or has odd characters, sizes, a
 * rule whose velocity or snapshot is missing, a part that the program lacks), UW_ERR_TOOBIG (the
 * link's messages are too small for the name and address), UW_ERR_NOMEM, UW_ERR_SEALED. */
int uw_node_bind(struct uw_node *n, const struct uw_node_config *config, struct uw_arena *arena,
                 struct uw_error *err);

/* The same for a node whose peers are config.seeds and nobody else: it pulls from them in turn by
 * chance, pings nobody and answers no ping, so that a board links nothing of membership, and on a
 * link that costs by the byte silence is free. Whom it lists lists it too, or does not pull from
 * it; names, batteries and windows of sleep are not told. A seed that answers no pull is asked
 * again after 2 s, then less and less often. A newcomer takes over the first model that it is
 * given. For mode gossip by schedule random, without averages, samples or sleep.
 *
 * Returns as those above. UW_ERR_INVALID also for what the last sentence excludes, no seeds, or
 * more than members_max - 1. */
int uw_node_measure_listed(const struct uw_node_config *config, size_t *bytes,
                           struct uw_error *err);
int uw_node_bind_listed(struct uw_node *n, const struct uw_node_config *config,
                        struct uw_arena *arena, struct uw_error *err);

/* Context network. Take what has arrived, answer, do what is due. Bounded work per call. A clock
 * that leaps ahead counts as sleep, and so does a step that comes later than it wants by a ping or
 * more: nobody is blamed for it. Where all come late the device is taken to be busy. A clock that
 * goes back is taken to stand still in between.
 * Returns when it wants to run again (now_us: at once), also after link->fd becomes readable. */
uint64_t uw_node_step(struct uw_node *n, uint64_t now_us);

/* Context training. Call after every local step: mixes the chunks that have arrived, ends the
 * round when T steps are done and its pull has ended, publishes the snapshot, asks for the next
 * pull. The first call publishes the starting weights; a newcomer shows its own only after a
 * round in which it found nobody to adopt from. With lr 0 rounds have no steps: they end when their
 * pull does, and leave the velocity alone; such calls bring nodes to consensus after training.
 *
 * Returns a set of enum uw_node_after, or UW_ERR_UNSUPPORTED (the snapshot has no data: the
 * model was planned without one). */
int uw_node_after_step(struct uw_node *n, const struct uw_node_progress *p);

/* Context training. Only tell others how training stands; samples_per_s 0: it ended. */
void uw_node_tell(struct uw_node *n, const struct uw_node_progress *p);

/* Context training. Would uw_node_after_step look at the parameters or change them or the velocity,
 * were it called now after one more local step? While it would not, that step and those before it
 * may be computed later; only what arrives in uw_node_step, which may run meanwhile, can make a no
 * a yes: to mix what has come. May say yes without need. */
bool uw_node_touches(const struct uw_node *n);

/* Has uw_node_after_step asked for a pull that uw_node_step has not seen? One thread for both. */
bool uw_node_asks(const struct uw_node *n);

/* Context training. The next calls of uw_node_after_step, with lr 0, average exactly with all other
 * nodes that can be reached and have finished too, whatever the mode: UW_NODE_AVERAGING while it
 * lasts, then UW_NODE_ROUND when it is done, or 0 when there was nobody. */
void uw_node_agree(struct uw_node *n);

/* Context training. Ask for the parameters back while uw_node_after_step says UW_NODE_AVERAGING: it
 * says so a little longer, at most until the round that is under way is decided. A group that
 * averages gradients is given up. */
void uw_node_recall(struct uw_node *n);

/* Context network. Say goodbye to every live peer; later steps only answer. */
void uw_node_leave(struct uw_node *n, uint64_t now_us);

/* Context network. Do others wait to hear how the last average ended? It stays then. */
bool uw_node_owes(const struct uw_node *n);

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
