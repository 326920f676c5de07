/* SPDX-License-Identifier: Apache-2.0
 *
 * cast.h - broadcast averaging in a radio cell: each node sends its parameters once, to all
 *
 * On a shared medium N pulls cost N models of airtime. So does every node sending its own once to
 * everybody, and then each has heard all: it mixes x += (s_j - s) / N for every other node j, chunk
 * by chunk as they arrive, which adds up to the exact mean of the N snapshots, in place and without
 * a second vector. What is lost is asked for and sent again, to all, because others may have lost
 * it as well; what is still missing when the turn ends leaves a gossip step with smaller weights.
 *
 * Nobody leads. A node's pass begins when nobody else's is under way, in an order that changes
 * with each turn. After a pass, and after its repairs, there is a pause in which each of the others
 * has a moment to ask, so that all wishes are known before the first is met. A turn is a number
 * that whoever is behind takes from whom it hears; it takes part with the steps that it has done,
 * so that nodes come into step. Who says nothing is waited for as long as configured; training goes
 * on all the time, only the snapshot stays as it is until the turn is over.
 *
 * The sum of all wishes for one turn is limited: repairs take at most half as much as the pass.
 * Where loss is so heavy that this is not enough, the next turn is worth more than the rest.
 *
 * Units      _us microseconds; chunks are numbered from 0
 * Memory     tables come from an arena
 * Blocking   never      Context  network thread
 * Source     the sum over a cell of one multicast each: all-gather of S parameters of N nodes
 */
#ifndef UW_NET_CAST_H
#define UW_NET_CAST_H

#include "transfer.h"

#include "uwasa/arena.h"

#include <stdbool.h>
#include <stdint.h>

struct uw_cast_peer {
    uint32_t *have;                 /* [words] */
    uint32_t id, have_n;
    uint32_t end;                   /* one past the last chunk that was heard in its pass */
    uint32_t order;                 /* whose pass comes first, among all */
    uint64_t heard_us;              /* its last chunk in this turn; 0: none */
    uint64_t ask_us;                /* it is not asked before */
    uint8_t asks;                   /* in a row in vain */
    bool over;                      /* no more is to be had of it in this turn */
    bool gone;                      /* given up */
};

struct uw_cast {
    struct uw_cast_peer *peers;     /* [peers_max] */
    uint32_t *todo;                 /* [words] chunks to send */
    uint32_t peers_n, peers_max;
    uint32_t size_n, chunk_n, chunks, words;
    uint32_t chunk_us;              /* that a chunk takes on the air */
    uint64_t patience_us;           /* for who says nothing */
    uint32_t order;                 /* of this node's pass */
    uint32_t at, todo_n, repairs_left;
    uint8_t turn, ahead;            /* ahead: somebody else's turn, if is_ahead */
    bool active, passed, is_ahead;
    bool sharing;                   /* what this turn shows is still there */
    uint64_t began_us, active_us;   /* the last of anybody's chunks */
    uint64_t busy_us;               /* somebody's pass lasts until then at least */
    uint64_t sent_us;               /* this node's last chunk */
    uint64_t repair_us;
    bool quits;
    bool ends;                      /* tells that there are no more repairs */
};

/* Take tables for vectors of up to size_n floats in chunks of chunk_n and so many other nodes.
 * Returns UW_OK or what uw_arena_take returns. */
int uw_cast_place(struct uw_cast *c, struct uw_arena *arena, uint32_t size_n, uint32_t chunk_n,
                  uint32_t peers_max);

/* Begin the next turn with these other nodes; the snapshot is new.
 *   self_id, ids  [n] identities, n at most peers_max */
void uw_cast_begin(struct uw_cast *c, uint32_t self_id, const uint32_t *ids, uint32_t n,
                   uint64_t now_us);

/* Each node's share of the mean. */
static inline float uw_cast_weight(const struct uw_cast *c)
{
    return 1.0f / (float)(c->peers_n + 1u);
}

/* The chunk to send now; the number of chunks there are: word that there are no more repairs. It
 * stays until uw_cast_sent.
 * Returns false when there is none. */
bool uw_cast_next(struct uw_cast *c, uint64_t now_us, uint32_t *chunk);
void uw_cast_sent(struct uw_cast *c, uint32_t chunk, uint64_t now_us);

/* A chunk has come, or the word: is it to be mixed?
 * Returns UW_OK, UW_ERR_AGAIN (it is here already), UW_ERR_MISMATCH (of another turn, or of a node
 * that takes no part; or it is the word), UW_ERR_CORRUPT (there is no such chunk). */
int uw_cast_check(struct uw_cast *c, uint32_t id, uint8_t turn, uint32_t chunk, uint64_t now_us);

/* It was mixed. */
void uw_cast_arrived(struct uw_cast *c, uint32_t id, uint32_t chunk);

/* Others miss chunks base + i, bit i of wanted, of this node's. */
void uw_cast_wanted(struct uw_cast *c, uint8_t turn, uint32_t base, uint64_t wanted,
                    uint64_t now_us);

/* What to ask of whom: up to most sets of chunks of one node.
 * Returns how many, 0: nothing now. */
uint32_t uw_cast_ask(struct uw_cast *c, uint64_t now_us, uint32_t most, uint32_t *id,
                     struct uw_want *wants);

/* The question could not be sent: ask again in a moment. */
void uw_cast_unask(struct uw_cast *c, uint32_t id, uint64_t now_us);

/* Nothing more is to be had of this node: it is gone, or sends nonsense. */
void uw_cast_give_up(struct uw_cast *c, uint32_t id);

/* Nothing can be sent any more: the turn is over with what has come. */
void uw_cast_quit(struct uw_cast *c);

/* Is the turn over? Then it has ended: what others still miss of it is sent until the snapshot
 * changes. */
bool uw_cast_over(struct uw_cast *c, uint64_t now_us);

/* Did everything of everybody come? */
bool uw_cast_is_exact(const struct uw_cast *c);

/* The snapshot is no more what this turn shows. */
static inline void uw_cast_stop_sharing(struct uw_cast *c)
{
    c->sharing = false;
}

/* This device slept for so long in the middle. */
void uw_cast_slept(struct uw_cast *c, uint64_t slept_us);

/* When there is something to do, if nothing arrives. */
uint64_t uw_cast_next_us(const struct uw_cast *c, uint64_t now_us);

#endif
