/* SPDX-License-Identifier: Apache-2.0
 *
 * cell.h - who averages exactly with whom, when, and whether it counts
 *
 * A cell is a set of nodes with a fast link among them. One of them is its head: of those that are
 * there the one with the highest weight, then with the lowest identity; everybody works that out
 * alone. The head gathers who is ready, names the ranks of a round, and decides it:
 *
 *     member                                head
 *     READY ------------------------------> gathers; does not wait for ever
 *     <------------------------------ START (group, round, algorithm, ranks)
 *     all-reduce among the ranks (allreduce.h), STATE running now and then
 *     STATE prepared ---------------------> when all are: committed
 *     <------------------ STATE committed or aborted
 *
 * A round counts for all or for nobody: who is prepared has the average, but uses it only once it
 * is committed; until then the old parameters are kept. A rank that dies, stalls or leaves aborts
 * the round and is named; the others begin anew without it. When the head vanishes, the next in the
 * group's order asks everybody (POLL): what anybody knows to be decided is decided; else the round
 * is committed when all who are left are prepared and are more than half, and aborted otherwise.
 *
 * A round between devices that fails (direct) is nobody's fault: the next one goes another way.
 *
 * Who is late is left out, and ready for the next round. Whom the head has no place for, or avoids
 * since it has just ended a round, is told so and goes on without; who cannot do what is asked
 * finds it out by itself. In patient cells and the run's last average nobody is avoided. Who is
 * new is waited for only after its first round, so that joining holds up nobody. One whose
 * parameters have an rms of more than 32 times the median is refused: it has diverged, and would
 * carry all others along.
 * Messages may be lost, repeated and reordered. Whatever asks is repeated until it is answered.
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

#define UW_CELL_RANKS_MAX 64u
#define UW_CELL_NOBODY 0u           /* no identity */
#define UW_CELL_HINTS 6u            /* numbers that a head tells with a round; the owner's */
#define UW_CELL_LOG 8u              /* decisions remembered */

enum uw_cell_act { UW_CELL_READY = 1, UW_CELL_START, UW_CELL_STATE, UW_CELL_POLL, UW_CELL_BUSY };

/* What a node says of a round. */
enum uw_cell_status {
    UW_CELL_UNKNOWN,                /* never took part */
    UW_CELL_RUNNING,
    UW_CELL_PREPARED,               /* has the whole result */
    UW_CELL_COMMITTED,
    UW_CELL_ABORTED
};

struct uw_cell_message {
    enum uw_cell_act act;
    uint32_t group, round;
    enum uw_cell_status status;     /* state; ready: UW_CELL_ABORTED takes it back */
    enum uw_allreduce_kind kind;    /* start */
    bool direct;                    /* start: not so, but between the devices (node_direct.h); state
                                       aborted: they are at fault */
    uint32_t step, waits_for;       /* state running: of the all-reduce; an identity */
    uint32_t culprit;               /* state aborted: an identity, or UW_CELL_NOBODY. Of no group,
                                       from the head: the receiver: it has diverged; the head: it
                                       avoids it; nobody: no place is left */
    uint32_t incarnation, asks;     /* ready: the sender's; which of its waits this is. start, and
                                       state of no group: which of the receiver's waits it answers;
                                       start 0: not known */
    float rms;                      /* ready: of what it hands in */
    uint32_t chunk_n;               /* ready: config's; start: the least of all ranks' */
    uint32_t stream_n;              /* as chunk_n; start: what choose makes of it */
    float hints[UW_CELL_HINTS];     /* start */
    uint32_t ids_n;
    uint32_t ids[UW_CELL_RANKS_MAX];    /* start: the ranks in order; ready: of its last round */
};

/* A node of the cell as this one sees it. */
struct uw_cell_member {
    uint32_t id;                    /* not 0 */
    uint32_t weight;                /* to be head */
    bool usable;                    /* can be reached now; that of this node is not looked at */
};

enum uw_cell_state {
    UW_CELL_IDLE,
    UW_CELL_WAITING,                /* ready, not yet named in a round */
    UW_CELL_IN_ROUND,
    UW_CELL_HAS_RESULT
};

enum uw_cell_news_kind {
    UW_CELL_NEWS_HEAD,              /* id: who is head now */
    UW_CELL_NEWS_LATE,              /* id: the round begins without it */
    UW_CELL_NEWS_COMMITTED,         /* ranks_n, duration_us */
    UW_CELL_NEWS_ABORTED,           /* id: whose fault, this node's if it withdraws; UW_CELL_NOBODY:
                                       not known */
    UW_CELL_NEWS_OUTLIER,           /* id: what it hands in is far too large, and left out */
    UW_CELL_NEWS_FULL,              /* id: itself; the cell has ranks_max nodes already */
    UW_CELL_NEWS_UNABLE,            /* id: itself; it cannot average as the others do */
    UW_CELL_NEWS_TAKEN_OVER         /* id: the head that vanished; this node decides in its place */
};

struct uw_cell_news {
    enum uw_cell_news_kind kind;
    uint32_t id, ranks_n;
    uint64_t duration_us;
};

struct uw_cell_config {
    uint32_t self, incarnation;
    uint32_t series;                /* of this cell among those of one node: groups must differ */
    uint32_t ranks_max;             /* 2 .. UW_CELL_RANKS_MAX */
    uint32_t chunk_n;               /* floats that fit a message of this node; 0: not told */
    uint32_t stream_n;              /* room for streamed parts (allreduce.h); 0: it cannot */
    uint32_t first_n;               /* nodes that the first round waits for; 0: those in sight */
    bool tells_all;                 /* the node may leave once a round is over */
    bool patient;                   /* rounds wait that long for slow and silent nodes too */
    uint64_t gather_us, round_us;   /* longest wait for others to be ready; longest round */
    uint32_t tries_max;             /* aborted rounds after which it goes on without; 0: 5 */
    void *arg;
    /* Hand a message to a node; lost when it cannot be sent. */
    void (*send)(void *arg, uint32_t to, const struct uw_cell_message *m);
    /* The algorithm for the ranks of a start, and what to tell them: hints, direct, and for the
     * room of stream_n the size of segments. */
    enum uw_allreduce_kind (*choose)(void *arg, struct uw_cell_message *start);
    /* A round begins: the fields group, round, kind, direct, ranks, ranks_n, rank of the cell say
     * which. */
    void (*begin)(void *arg);
    /* The round is over for this node: take the average, or put back what was. culprit: as in
     * uw_cell_news of an abort. */
    void (*decided)(void *arg, bool commit, uint32_t culprit);
    /* Nobody averages with this node now: go on without. */
    void (*give_up)(void *arg);
    /* How far the round is: its step, and the rank that it waits for or UW_RANK_NONE. */
    uint32_t (*progress)(void *arg, uint32_t *waits_for);
    void (*tell)(void *arg, const struct uw_cell_news *news);
};

/* What a head knows of a node. */
struct uw_cell_seat {
    uint32_t id, incarnation, asks;
    bool expected, ready;           /* expected: took part before */
    bool ranked, gone;              /* takes part in the round; died or left in it */
    bool refused;                   /* that wait of its, for culprit's sake, see cell messages */
    uint32_t culprit;
    float rms;
    enum uw_cell_status status;
    bool direct;                    /* aborted: its device was at fault */
    uint32_t step, waits_for;
    uint32_t chunk_n, stream_n;
    uint64_t since_us, ready_us;    /* ready since; said so last */
    uint64_t heard_us;              /* heard of in this round */
    bool untold;                    /* is not known to have heard how it ended */
    uint8_t strikes;
    uint64_t avoid_until_us;
};

struct uw_cell_head {
    struct uw_cell_seat *seats;     /* [ranks_max] */
    uint32_t seats_n;
    bool deciding, taken_over;      /* a round is under way that this node decides */
    bool committed;                 /* the last round was: its group may go on */
    struct uw_cell_message start;   /* of the round under way, or of the last one */
    uint32_t lost;                  /* taken over from */
    uint32_t counter;               /* of groups */
    uint64_t started_us, start_us;  /* the round under way; START was told last */
    uint64_t deadline_us, poll_us;
    uint64_t decided_us, told_us;   /* the last round */
    uint32_t polls, progress;
    struct uw_deadline spread, took;    /* between the first and the last who is ready; rounds */
};

struct uw_cell {
    struct uw_cell_config config;
    const struct uw_cell_member *members;   /* [members_n], by identity, this node too */
    uint32_t members_n;
    uint64_t now_us;
    uint32_t head, told_head;       /* elected now; as it was told */

    enum uw_cell_state state;
    uint32_t asks;                  /* times that it began to wait */
    uint64_t since_us, repeat_us;   /* waits or runs since; says so again then */
    uint32_t tries;                 /* rounds that were aborted since it is ready */
    float rms;                      /* of what it hands in */
    uint32_t group, round, decider; /* decider: the group's head, or who took over */
    enum uw_allreduce_kind kind;
    bool direct;
    float hints[UW_CELL_HINTS];
    uint32_t chunk_n, stream_n;
    uint32_t ranks_n, rank;
    uint32_t ranks[UW_CELL_RANKS_MAX];      /* identities of the round, or of the last one */
    bool met;                       /* it has been in a round */
    struct {
        uint32_t group, round, at;  /* at: how many were noted before it */
        bool committed;
    } log[UW_CELL_LOG];
    uint32_t log_n, noted_n;
    struct uw_cell_head h;
};

/* Take the tables. Returns UW_OK or what uw_arena_take returns. */
int uw_cell_place(struct uw_cell *c, struct uw_arena *arena, const struct uw_cell_config *config);

/* The nodes of the cell from now on. regroup, outside of a round: nothing of others is kept. */
void uw_cell_members(struct uw_cell *c, const struct uw_cell_member *members, uint32_t members_n);
void uw_cell_regroup(struct uw_cell *c, const struct uw_cell_member *members, uint32_t members_n,
                     uint64_t now_us);

/* A node died, left or was started anew: whatever it took part in is lost. */
void uw_cell_gone(struct uw_cell *c, uint32_t id, uint64_t now_us);

/* This node has parameters to average, with that rms. Ends in `decided` with true, or in `give_up`;
 * `decided` with false before means that it is tried again. */
void uw_cell_ask(struct uw_cell *c, float rms, uint64_t now_us);

/* Is it known that a round is over here, or the group's last one was a later one? */
bool uw_cell_is_over(const struct uw_cell *c, uint32_t group, uint32_t round);

/* The all-reduce of this round is done. */
void uw_cell_prepared(struct uw_cell *c, uint64_t now_us);

/* The average cannot be taken: it is not finite. */
void uw_cell_refuse(struct uw_cell *c, uint64_t now_us);

/* This node takes no part any more. While it has a result and has said so it waits for the
 * decision, until the deadline of a round. */
void uw_cell_withdraw(struct uw_cell *c, uint64_t now_us);

/* A message from a node. */
void uw_cell_receive(struct uw_cell *c, uint32_t from, const struct uw_cell_message *m,
                     uint64_t now_us);

/* This node has decided a round, and others may not have heard how. Those are told again for some
 * seconds, if the configuration has `tells_all`; else they ask. */
bool uw_cell_owes(const struct uw_cell *c);

/* Do what is due. Returns when it wants to run again, if nothing arrives. */
uint64_t uw_cell_run(struct uw_cell *c, uint64_t now_us);

#endif
