/* SPDX-License-Identifier: Apache-2.0
 *
 * cell.h - agreement on exact averages: group, round, commit or abort
 *
 * A cell is a set of nodes with a fast link between them. Its head is the reachable node with the
 * highest weight, then with the lowest identity; every node computes it by itself. The head gathers
 * the nodes that are ready, chooses the ranks of a round, and decides it:
 *
 *     member                                head
 *     READY ------------------------------> gathers, for a limited time
 *     <------------------------------ START (group, round, algorithm, ranks)
 *     all-reduce among the ranks (allreduce.h), STATE running now and then
 *     STATE prepared ---------------------> when all are: committed
 *     <------------------ STATE committed or aborted
 *
 * A round is committed by all or by none: a prepared rank has the average, but keeps the old
 * parameters until the commit. If a rank dies, stalls or leaves, the round aborts and names it; the
 * others start again without it. If the head is lost, the next node polls all ranks (POLL): a
 * decision that any rank knows stands. Otherwise the round is committed if all remaining ranks are
 * prepared and are more than half, else aborted.
 *
 * Two nodes that do not hear each other are in no round together. A node reports in READY whom
 * others hear and it does not; and where a round stalls, the rank that is behind and the one that
 * it waits for are taken for such a pair for a while. The head, of those who hear most, leaves out
 * as few as it can, another one each time; who is left out is informed and goes on without.
 *
 * Rounds with a wary rank go by sweep, in which each rank judges what another one sends. No rank is
 * to blame for an average that is too far away, or a failure of a round between devices (direct).
 *
 * Nobody waits idle for long. While no START comes, the parameters are lent to training, and are
 * called for when the round begins. A rank that stalls makes the head poll, and is given up when it
 * is silent for longer than rounds take. A rank that stands still asks the head, which answers by a
 * poll. When it is silent, a rank without a result ends the round, and a rank with one asks the
 * others for the outcome; then the next one decides.
 *
 * A late node is left out, and is ready for the next round. A node for which the head has no place,
 * or which it avoids after an aborted round, is informed and goes on without; a node that cannot
 * follow a START goes on without, too. Patient cells and the run's last average avoid no node. A
 * new node is waited for only after its first round, so that joining delays nobody. A node whose
 * parameters have an rms of more than 32 times the median has diverged and is refused.
 * Messages may be lost, repeated, reordered. Requests are repeated until they are answered.
 *
 * Units      _us microseconds
 * Memory     tables from an arena; the member list is borrowed from one call to the next
 * Blocking   never      Context  network thread
 */
#ifndef UW_NET_CELL_H
#define UW_NET_CELL_H

#include "base/deadline.h"

#include "uwasa/allreduce_steps.h"
#include "uwasa/arena.h"

#include <stdbool.h>
#include <stdint.h>

#define UW_CELL_RANKS_MAX 256u
#define UW_CELL_NOBODY 0u           /* no identity */
#define UW_CELL_HINTS 6u            /* numbers of the owner that a head sends with a round */
#define UW_CELL_LOG 8u              /* stored decisions */
#define UW_CELL_DEAF_MAX 32u        /* nodes that a node says it does not hear */
#define UW_CELL_APART 8u            /* nodes with which it stalled a round, stored for a while */

enum uw_cell_act { UW_CELL_READY = 1, UW_CELL_START, UW_CELL_STATE, UW_CELL_POLL, UW_CELL_BUSY };

/* State of a round at a node. */
enum uw_cell_status {
    UW_CELL_UNKNOWN,                /* not a rank */
    UW_CELL_RUNNING,
    UW_CELL_PREPARED,               /* has the whole result */
    UW_CELL_COMMITTED,
    UW_CELL_ABORTED
};

struct uw_cell_message {
    enum uw_cell_act act;
    uint32_t group, round;
    enum uw_cell_status status;     /* state; ready: UW_CELL_ABORTED withdraws it */
    enum uw_allreduce_kind kind;    /* start; ready: sweep of a wary node */
    bool direct;                    /* start: average between the devices (node_direct.h) instead;
                                       state aborted: no rank is to blame */
    uint32_t step, waits_for;       /* state running: of the all-reduce; identity. start: unequal;
                                       state aborted, ids: step 0: it may be an accident */
    uint32_t culprit;               /* state aborted: an identity, or UW_CELL_NOBODY; to the head: a
                                       rank that the sender does not hear; of no group: receiver: it
                                       has diverged, head: it is avoided, another: a rank that it
                                       does not hear, nobody: no place is left */
    uint32_t incarnation, asks;     /* ready: the sender's; number of this wait. start, and state of
                                       no group: the receiver's wait that it answers; start 0: not
                                       known. Other state, not 0: is the head there? */
    float rms;                      /* ready: of its parameters */
    uint32_t chunk_n;               /* ready: config's; start: the minimum of all ranks */
    uint32_t stream_n;              /* as chunk_n; start: set by choose */
    float hints[UW_CELL_HINTS];     /* start */
    uint32_t ids_n;
    uint32_t ids[UW_CELL_RANKS_MAX];    /* start: the ranks in order; ready: of its last round;
                                           state aborted: two that do not hear each other */
    uint32_t deaf_n, deaf[UW_CELL_DEAF_MAX];    /* ready: nodes that others hear, but not it */
};

/* A node of the cell. */
struct uw_cell_member {
    uint32_t id;                    /* not 0 */
    uint32_t weight;                /* to be head */
    uint32_t deaf;                  /* nodes that others hear, but not it: fewer lead */
    uint32_t head;                  /* whom it follows; UW_CELL_NOBODY: not known */
    bool usable;                    /* can be reached now; ignored for this node */
};

enum uw_cell_state {
    UW_CELL_IDLE,
    UW_CELL_WAITING,                /* ready, not yet a rank of a round */
    UW_CELL_IN_ROUND,
    UW_CELL_HAS_RESULT
};

enum uw_cell_news_kind {
    UW_CELL_NEWS_HEAD,              /* id: the new head */
    UW_CELL_NEWS_LATE,              /* id: the round begins without it */
    UW_CELL_NEWS_COMMITTED,         /* ranks_n, duration_us */
    UW_CELL_NEWS_ABORTED,           /* id: the cause, this node if it withdraws; UW_CELL_NOBODY: not
                                       known */
    UW_CELL_NEWS_OUTLIER,           /* id: its parameters are far too large, and left out */
    UW_CELL_NEWS_FULL,              /* id: this node; the cell has ranks_max nodes already */
    UW_CELL_NEWS_UNABLE,            /* id: this node; it cannot average as the others do */
    UW_CELL_NEWS_APART,             /* id: a rank of the next round, which is without this node: the
                                       two do not hear each other */
    UW_CELL_NEWS_BROKEN,            /* id, other: a round stalled between them */
    UW_CELL_NEWS_TAKEN_OVER         /* id: the lost head; this node decides in its place */
};

struct uw_cell_news {
    enum uw_cell_news_kind kind;
    uint32_t id, other, ranks_n;
    uint64_t duration_us;
};

struct uw_cell_config {
    uint32_t self, incarnation;
    uint32_t series;                /* number of this cell at this node: groups must differ */
    uint32_t ranks_max;             /* 2 .. UW_CELL_RANKS_MAX */
    uint32_t chunk_n;               /* floats of this node's messages; 0: not sent */
    uint32_t stream_n;              /* memory for streamed parts (allreduce.h); 0: not supported */
    uint32_t first_n;               /* nodes that the first round waits for; 0: reachable ones */
    bool is_last;                   /* the run's last average: nodes may leave after a round */
    bool patient;                   /* rounds wait for slow and silent nodes, too */
    bool lasting;                   /* ranks stay together after a round: the next one does not wait
                                       for nodes that it left out */
    uint64_t gather_us, round_us;   /* longest wait for others to be ready; longest round */
    uint32_t tries_max;             /* aborted rounds before it goes on without; 0: 5 */
    void *arg;
    /* Send a message to a node; lost when it cannot be sent. */
    void (*send)(void *arg, uint32_t to, const struct uw_cell_message *m);
    /* Choose the algorithm for the ranks of a start, sweep if its kind says so. Set hints,
     * direct, and, from the memory stream_n, the size of segments. */
    enum uw_allreduce_kind (*choose)(void *arg, struct uw_cell_message *start);
    /* Begin a round: see group, round, kind, direct, ranks, ranks_n, rank of the cell. */
    void (*begin)(void *arg);
    /* The round is decided: use the average, or restore the parameters. culprit: as in uw_cell_news
     * of an abort. */
    void (*decided)(void *arg, bool commit, uint32_t culprit);
    /* There is no node to average with: go on without. */
    void (*give_up)(void *arg);
    /* The round does not begin soon: train on meanwhile. `begin` follows, and is done when the
     * parameters are back (uw_cell_hold); or give_up. NULL: wait. */
    void (*lend)(void *arg);
    /* Progress of the round: returns its step; sets the rank that it waits for, or UW_RANK_NONE. */
    uint32_t (*progress)(void *arg, uint32_t *waits_for);
    void (*report)(void *arg, const struct uw_cell_news *news);
    /* Write up to UW_CELL_DEAF_MAX identities of nodes that others hear, but not this one. Returns
     * their number. NULL: it hears all. */
    uint32_t (*deaf)(void *arg, uint32_t ids[UW_CELL_DEAF_MAX]);
};

/* A node as its head knows it. */
struct uw_cell_seat {
    uint32_t id, incarnation, asks;
    bool expected, ready, away;     /* expected: was a rank before; away: it withdrew since */
    bool ranked, gone;              /* a rank of the round; died or left in it */
    bool refused;                   /* this wait, because of culprit, see cell messages */
    uint32_t culprit;
    float rms;
    enum uw_cell_status status;
    bool direct, wary;              /* aborted, and no rank is to blame; ready by sweep */
    uint32_t step, waits_for;
    uint32_t chunk_n, stream_n;
    uint64_t since_us, ready_us;    /* ready since; last READY */
    uint64_t heard_us;              /* last message in this round */
    bool uninformed;                /* may not know the outcome */
    uint8_t strikes;
    uint32_t deaf[UW_CELL_RANKS_MAX / 32u];     /* bits of seats that it does not hear */
    uint32_t left_out;              /* rounds without it since its last one; it is waited for */
    uint32_t unheard;               /* the rank that it ended the round for; UW_CELL_NOBODY: none */
    uint64_t avoid_until_us;
};

struct uw_cell_head {
    struct uw_cell_seat *seats;     /* [ranks_max] */
    uint32_t seats_n;
    bool deciding, taken_over;      /* this node decides the current round */
    bool committed;                 /* the last round was: its group may continue */
    struct uw_cell_message start;   /* of the current or last round */
    uint32_t lost;                  /* the head that was lost */
    uint32_t counter;               /* of groups */
    uint64_t started_us, start_us;  /* begin of the current round; last START */
    uint64_t deadline_us;           /* of the round: then ranks are polled */
    uint64_t poll_us, again_us;     /* the first poll, the next one */
    uint64_t moved_us;              /* when `seen`, the progress of all ranks, last changed */
    uint64_t decided_us, informed_us;   /* the last decision; the last time it was sent */
    uint32_t polls, progress, seen;
    uint64_t progress_us, gap_us;   /* last progress; the longest time without, smoothed */
    struct uw_deadline spread;      /* time from the first to the last READY */
};

struct uw_cell {
    struct uw_cell_config config;
    const struct uw_cell_member *members;   /* [members_n], by identity, this node too */
    uint32_t members_n;
    uint64_t now_us;
    uint32_t head, reported_head;   /* elected now; last reported */
    enum uw_cell_state state;
    uint32_t asks;                  /* number of waits */
    uint64_t since_us, repeat_us;   /* begin of this state; next repetition of its message */
    uint32_t tries;                 /* aborted rounds since it is ready */
    bool lent;                      /* the parameters, to training */
    uint64_t held_us;               /* not lent since */
    struct uw_deadline waits, took; /* for START; from there to the commit */
    uint32_t step, asked;           /* of its all-reduce; how often it asked the decider, since: */
    uint64_t moved_us;              /* time of its last change, or of a message of the decider */
    float rms;                      /* of its parameters */
    uint32_t group, round, decider; /* decider: the group's head, or its successor */
    enum uw_allreduce_kind kind;
    bool direct, blameless;         /* blameless: it aborted the round, and nobody is to blame */
    float hints[UW_CELL_HINTS];
    uint32_t chunk_n, stream_n;
    uint32_t ranks_n, rank;
    uint32_t ranks[UW_CELL_RANKS_MAX];      /* identities of the round, or of the last one */
    bool met, wary, unequal;        /* was in one; set by owner; some ranks were not in the last */
    struct {
        uint32_t group, round, at;  /* at: number of earlier entries */
        bool committed;
    } log[UW_CELL_LOG];
    uint32_t log_n, noted_n;
    struct uw_cell_apart {
        uint32_t id;
        uint8_t strikes;
        uint64_t until_us;          /* not in one round with it before */
    } apart[UW_CELL_APART];
    struct uw_cell_head h;
};

/* Allocate the tables. Returns UW_OK or what uw_arena_take returns. */
int uw_cell_place(struct uw_cell *c, struct uw_arena *arena, const struct uw_cell_config *config);

/* Set the nodes of the cell; regroup, outside of a round: drop all state of others. */
void uw_cell_members(struct uw_cell *c, const struct uw_cell_member *members, uint32_t members_n);
void uw_cell_regroup(struct uw_cell *c, const struct uw_cell_member *members, uint32_t members_n,
                     uint64_t now_us);

/* A node died, left or restarted: the round that it is in cannot be completed. */
void uw_cell_gone(struct uw_cell *c, uint32_t id, uint64_t now_us);

/* Request an average of this node's parameters, which have that rms. Ends with `decided` (commit),
 * or with `give_up`; after `decided` without commit it is retried. */
void uw_cell_ask(struct uw_cell *c, float rms, uint64_t now_us);

/* The lent parameters are back. */
void uw_cell_hold(struct uw_cell *c, uint64_t now_us);
/* List up to UW_CELL_DEAF_MAX nodes that are in no round with this one: those of the callback deaf,
 * and those with which it stalled one. Returns their number. */
uint32_t uw_cell_deaf(const struct uw_cell *c, uint64_t now_us, uint32_t ids[UW_CELL_DEAF_MAX]);

/* Is a round known to be over, or was the group's last one later? */
bool uw_cell_is_over(const struct uw_cell *c, uint32_t group, uint32_t round);

/* The all-reduce of this round is done. */
void uw_cell_prepared(struct uw_cell *c, uint64_t now_us);

/* The average cannot be used; blameless: for a reason that is not this node's fault. */
void uw_cell_refuse(struct uw_cell *c, bool blameless, uint64_t now_us);

/* Withdraw this node's request; with a result it waits for the decision first, until the round's
 * deadline. leave: it makes none for a while. */
void uw_cell_withdraw(struct uw_cell *c, uint64_t now_us);
void uw_cell_leave(struct uw_cell *c, uint64_t now_us);

/* Handle a message of a node. */
void uw_cell_receive(struct uw_cell *c, uint32_t from, const struct uw_cell_message *m,
                     uint64_t now_us);

/* Has this node decided a round whose outcome other ranks may not know? With `is_last` it is sent
 * again for some seconds; without, they poll. */
bool uw_cell_owes(const struct uw_cell *c);

/* Do what is due. Returns the time of the next call if no message arrives. */
uint64_t uw_cell_run(struct uw_cell *c, uint64_t now_us);

#endif
