/* SPDX-License-Identifier: Apache-2.0
 *
 * cast.h - broadcast averaging in a radio cell: each node sends its parameters once, to all
 *
 * On a shared medium N pulls cost the airtime of N models. When each of N nodes sends its own model
 * once to all, that costs the same, and each node has received all others. It mixes
 * x += (s_j - s) / N for every other node j, chunk by chunk as they arrive. The result is the exact
 * mean of the N snapshots, in place and without a second vector. A lost chunk is asked for and sent
 * again, to all, because others may have lost it as well. Chunks that are still missing when the
 * turn ends leave a gossip step with smaller weights.
 *
 * There is no leader. A node's pass begins when no other pass is under way, in an order that
 * changes with each turn. After a pass, and after its repairs, each other node has a moment to ask
 * for chunks, so that all requests are known before the first is served. Turns are numbered. A node
 * that is behind takes over the number it receives, and takes part with the steps it has done, so
 * that nodes come into step. A silent node is waited for as long as configured. Training goes on
 * all the time; only the snapshot is kept until the turn is over.
 *
 * Repairs of a turn are limited to three times the size of a pass, which is enough for seven
 * receivers at 40 % loss. Only the owner of a chunk can send it again: the others have mixed it and
 * not kept it.
 *
 * Views    A node averages those that it sees, in chunks as large as its link allows. Others may
 *          see more nodes or fewer. A chunk holds four bits of its sender's view in turn. A mean
 *          counts as exact when the views of all its nodes are equal. Within a turn a sender's
 *          chunks have one size, and the last one overlaps the one before. So each chunk shows its
 *          place, and a link that has become narrower goes on in the next turn. A node that cannot
 *          receive such large chunks asks for all of them in smaller ones, and gets smaller ones
 *          for a number of turns
 * Pace     On a link of unknown rate a node waits between chunks, longer when others report more
 *          loss
 *
 * Units      _us microseconds; chunks are numbered from 0
 * Memory     tables come from an arena
 * Blocking   never      Context  network thread
 * Source     the sum over a cell of one multicast each: all-gather of S parameters of N nodes
 */
#ifndef UW_NET_CAST_H
#define UW_NET_CAST_H

#include "wire/message.h"

#include "uwasa/arena.h"

#include <stdbool.h>
#include <stdint.h>

#define UW_CAST_ASKS_MAX 20u        /* in a row in vain */

struct uw_cast_pace {
    uint32_t us, least_us, most_us;
    uint16_t usual, before;         /* lost, in thousandths: as ever, and at the pace before */
    bool slowed;
};

struct uw_cast_peer {
    uint32_t *have;                 /* [words] */
    uint32_t id, have_n;
    uint32_t chunk_n;               /* of its chunks in this turn; 0: none was received */
    uint32_t end;                   /* one past the last chunk received in its pass */
    uint32_t order;                 /* whose pass comes first, among all */
    uint64_t received_us;           /* its last chunk in this turn; 0: none */
    uint64_t ask_us;                /* it is not asked before */
    uint8_t asks;                   /* in a row in vain */
    bool over;                      /* no more is to be had of it in this turn */
    bool gone;                      /* given up */
};

struct uw_cast {
    struct uw_cast_peer *peers;     /* [peers_max] */
    uint32_t *todo;                 /* [words] chunks to send */
    uint32_t peers_n, peers_max;
    uint32_t size_n, most_n, least_n, words;    /* floats in a chunk */
    uint32_t chunk_n, chunks;       /* this node's, in this turn */
    uint32_t view;                  /* a checksum of who takes part */
    uint32_t chunk_us;              /* that a chunk takes on the air */
    struct uw_cast_pace pace;       /* this node's, between chunks */
    uint64_t paced_us;              /* when the next chunk would be due */
    uint64_t patience_us;           /* for who sends nothing */
    uint32_t order;                 /* of this node's pass */
    uint32_t at, todo_n, repairs_left;
    uint32_t wanted_n;              /* chunks that had to be sent again */
    uint8_t turn, ahead;            /* ahead: somebody else's turn, if is_ahead */
    bool active, passed, is_ahead;
    bool sharing;                   /* the snapshot is still what this turn shows */
    uint64_t began_us, active_us;   /* the last of anybody's chunks */
    uint64_t busy_us;               /* somebody's pass lasts until then at least */
    uint64_t air_us;                /* anybody's last chunk, whose: last_id, 0: this node's */
    uint32_t last_id;
    uint64_t wanted_us;             /* the last question to this node */
    uint64_t asking_us;             /* this node asks nobody before */
    bool repairing;                 /* in the middle of it */
    bool ends;                      /* the end is to be sent: there are no more repairs */
    bool differs;                   /* somebody's view is not this node's */
    bool lossy;                     /* this node asked, or was asked */
    uint32_t limit_n, limit_turns;  /* somebody takes chunks so large at most, for so many turns */
    uint64_t limited_us;            /* when that was learned in this turn */
};

/* Take tables for vectors of size_n floats in chunks of least_n to most_n, and so many other nodes:
 * a bit for each of them and least_n floats.
 *   chunk_us  that a chunk takes on the air; 0: not known, the pace follows from what is lost
 * Returns UW_OK or what uw_arena_take returns. */
int uw_cast_place(struct uw_cast *c, struct uw_arena *arena, uint32_t size_n, uint32_t least_n,
                  uint32_t most_n, uint32_t peers_max, uint32_t chunk_us);

/* Begin the next turn with these other nodes; the snapshot is new.
 *   self_id, ids  [n] identities, n at most peers_max
 *   chunk_n       of this node's chunks, least_n to most_n */
void uw_cast_begin(struct uw_cast *c, uint32_t self_id, const uint32_t *ids, uint32_t n,
                   uint32_t chunk_n, uint64_t now_us);

/* Where a chunk begins in the vector, and how many floats it has. */
static inline uint32_t uw_cast_offset(const struct uw_cast *c, uint32_t chunk)
{
    return chunk + 1u == c->chunks ? c->size_n - c->chunk_n : chunk * c->chunk_n;
}

/* Four bits of this node's view, that go with a chunk. */
static inline uint8_t uw_cast_tag(const struct uw_cast *c, uint32_t chunk)
{
    return (uint8_t)(c->view >> 4u * (chunk % 8u) & 15u);
}

/* Each node's share of the mean. */
static inline float uw_cast_weight(const struct uw_cast *c)
{
    return 1.0f / (float)(c->peers_n + 1u);
}

/* The chunk to send now; the number of chunks there are: the end, no more repairs follow. It
 * stays until uw_cast_sent.
 * Returns false when there is none. */
bool uw_cast_next(struct uw_cast *c, uint64_t now_us, uint32_t *chunk);
void uw_cast_sent(struct uw_cast *c, uint32_t chunk, uint64_t now_us);

/* A chunk has come, or the end: is it to be mixed?
 *   skip_n  set on UW_OK: so many of its floats came with the chunk before
 * Returns UW_OK, UW_ERR_AGAIN (it is here already), UW_ERR_MISMATCH (of another turn, or of a node
 * that takes no part; or it is the end), UW_ERR_CORRUPT (there is no such chunk). */
int uw_cast_check(struct uw_cast *c, uint32_t id, const struct uw_cast_chunk *in, uint64_t now_us,
                  uint32_t *skip_n);

/* It was mixed. */
void uw_cast_arrived(struct uw_cast *c, uint32_t id, uint32_t chunk);

/* Others miss chunks base + i, bit i of wanted, of this node's; of chunk_n each, where who asks has
 * received none and does not know how large they are, or cannot receive any so large. */
void uw_cast_wanted(struct uw_cast *c, const struct uw_want *want, uint64_t now_us);

/* What to ask of whom: up to most sets of chunks of one node.
 * Returns how many, 0: nothing now. */
uint32_t uw_cast_ask(struct uw_cast *c, uint64_t now_us, uint32_t most, uint32_t *id,
                     struct uw_want *wants);

/* The question could not be sent: ask again in a moment. */
void uw_cast_unask(struct uw_cast *c, uint32_t id, uint64_t now_us);

/* Nothing more is to be had of this node in this turn: it is gone, was started anew, or sends
 * nonsense. */
void uw_cast_give_up(struct uw_cast *c, uint32_t id);

/* No more chunks of this turn can be sent: the link is narrower now. Others are sent the end. */
void uw_cast_narrowed(struct uw_cast *c);

/* Was a peer asked in vain in the turn that ended, and sent nothing? */
static inline bool uw_cast_is_mute(const struct uw_cast_peer *p)
{
    return p->received_us == 0 && !p->gone && p->asks == UW_CAST_ASKS_MAX;
}

/* Is the turn over? Then it has ended: what others still miss of it is sent until the snapshot
 * changes. */
bool uw_cast_over(struct uw_cast *c, uint64_t now_us);

/* Did everything of everybody come, and are all views this node's? */
bool uw_cast_is_exact(const struct uw_cast *c);

/* When there is something to do, if nothing arrives. */
uint64_t uw_cast_next_us(const struct uw_cast *c, uint64_t now_us);

/* How fast to send to all: nobody acknowledges a broadcast; what was lost is known when others ask
 * for it again. Where more is lost than used to be, chunks follow each other more slowly; where
 * that did not help, it is the channel that loses them, and the pace goes back. Else it becomes a
 * little faster with each turn.
 *   us  as the link has it; or, if the pace adapts, that to begin with, which it stays within an
 *       eighth and eight times of */
void uw_cast_pace_init(struct uw_cast_pace *p, uint32_t us, bool adapts);

/* Of so many chunks, 1 or more, so many were asked for again. */
void uw_cast_pace_learn(struct uw_cast_pace *p, uint32_t chunks, uint32_t again);

#endif
