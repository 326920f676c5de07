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
 * that is behind takes over the number it receives and takes part at once, with the steps it has
 * done, so that nodes become synchronous. A silent node is waited for as long as configured.
 * Training continues; only the snapshot is kept until the turn is over.
 *
 * Repairs of a turn are limited to three times the size of a pass, which is enough for seven
 * receivers at 40 % loss. Only the owner of a chunk can send it again: the others have mixed it
 * without keeping a copy.
 *
 * Views    A node averages the nodes in its view. Others may see more nodes or fewer. Each chunk
 *          holds four bits, in turn, of a checksum of its sender's view. A mean counts as exact
 *          when the views of all its nodes are equal
 * Sizes    A sender's chunks are as large as its link allows, of one size within a turn; the last
 *          one overlaps the one before. So each chunk shows its place. A link that has become
 *          narrower continues in the next turn. A node that cannot receive such large chunks asks
 *          for smaller ones, and gets them for a number of turns
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

#define UW_CAST_ASKS_MAX 20u        /* questions in a row without an answer */

struct uw_cast_pace {
    uint32_t us, least_us, most_us;
    uint16_t usual, before;         /* loss in thousandths: usual, and before the last change */
    bool slowed;
};

struct uw_cast_peer {
    uint32_t *have;                 /* [words] */
    uint32_t id, have_n;
    uint32_t chunk_n;               /* of its chunks in this turn; 0: none was received */
    uint32_t end;                   /* one past the last chunk received in its pass */
    uint32_t order;                 /* of its pass; the lowest goes first */
    uint64_t received_us;           /* its last chunk in this turn; 0: none */
    uint64_t ask_us;                /* it is not asked before */
    uint8_t asks;                   /* in a row without an answer */
    bool over;                      /* it sends no more in this turn */
    bool gone;                      /* given up */
};

struct uw_cast {
    struct uw_cast_peer *peers;     /* [peers_max] */
    uint32_t *todo;                 /* [words] chunks to send */
    uint32_t peers_n, peers_max;
    uint32_t size_n, most_n, least_n, words;    /* floats in a chunk */
    uint32_t chunk_n, chunks;       /* this node's, in this turn */
    uint32_t view;                  /* checksum of the nodes that take part */
    uint32_t chunk_us;              /* air time of a chunk */
    struct uw_cast_pace pace;       /* this node's, between chunks */
    uint64_t paced_us;              /* when the next chunk would be due */
    uint64_t patience_us;           /* wait for a silent node */
    uint32_t order;                 /* of this node's pass */
    uint32_t at, todo_n, repairs_left;
    uint32_t wanted_n;              /* chunks that had to be sent again */
    uint8_t turn, ahead;            /* ahead: another node's turn, if is_ahead */
    bool active, passed, is_ahead;
    bool sharing;                   /* the snapshot is still that of this turn */
    uint64_t began_us, active_us;   /* active_us: the last chunk of any node */
    uint64_t busy_us;               /* another node's pass lasts until then at least */
    uint64_t air_us;                /* the last chunk of any node, last_id; 0: of this node */
    uint32_t last_id;
    uint64_t wanted_us;             /* the last question to this node */
    uint64_t asking_us;             /* this node asks no node before */
    bool repairing;                 /* repairs are under way */
    bool ends;                      /* the end has to be sent: there are no more repairs */
    bool differs;                   /* another node's view differs from this node's */
    bool lossy;                     /* this node asked, or was asked */
    uint32_t limit_n, limit_turns;  /* largest chunk that all can receive, for so many turns */
    uint64_t limited_us;            /* when this was learned in this turn */
};

/* Allocate tables for vectors of size_n floats in chunks of least_n to most_n, and peers_max other
 * nodes: one bit for each node and least_n floats.
 *   chunk_us  air time of a chunk; 0: not known, the pace follows the loss
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

/* The four bits of this node's view that are sent with a chunk. */
static inline uint8_t uw_cast_tag(const struct uw_cast *c, uint32_t chunk)
{
    return (uint8_t)(c->view >> 4u * (chunk % 8u) & 15u);
}

/* Each node's share of the mean. */
static inline float uw_cast_weight(const struct uw_cast *c)
{
    return 1.0f / (float)(c->peers_n + 1u);
}

/* Get the chunk to send now; the number of chunks means the end: no more repairs follow. It is
 * returned again until uw_cast_sent.
 * Returns false when there is none. */
bool uw_cast_next(struct uw_cast *c, uint64_t now_us, uint32_t *chunk);
void uw_cast_sent(struct uw_cast *c, uint32_t chunk, uint64_t now_us);

/* A chunk, or the end, was received: should it be mixed?
 *   skip_n  set on UW_OK: its first floats that were part of the chunk before
 * Returns UW_OK, UW_ERR_AGAIN (it has arrived before), UW_ERR_MISMATCH (of another turn, or of a
 * node that takes no part; or it is the end), UW_ERR_CORRUPT (no such chunk). */
int uw_cast_check(struct uw_cast *c, uint32_t id, const struct uw_cast_chunk *in, uint64_t now_us,
                  uint32_t *skip_n);

/* The chunk was mixed. */
void uw_cast_arrived(struct uw_cast *c, uint32_t id, uint32_t chunk);

/* A node asks for this node's chunks base + i, bit i of wanted. They have chunk_n floats each if it
 * has received none, and does not know their size, or cannot receive such large ones. */
void uw_cast_wanted(struct uw_cast *c, const struct uw_want *want, uint64_t now_us);

/* Get the next questions: up to `most` wants for one node.
 * Returns how many; 0: none now. */
uint32_t uw_cast_ask(struct uw_cast *c, uint64_t now_us, uint32_t most, uint32_t *id,
                     struct uw_want *wants);

/* The questions could not be sent: ask again in a moment. */
void uw_cast_unask(struct uw_cast *c, uint32_t id, uint64_t now_us);

/* Expect no more of this node in this turn: it is gone, has restarted, or sends invalid chunks. */
void uw_cast_give_up(struct uw_cast *c, uint32_t id);

/* No more chunks of this turn can be sent: the link is narrower now. Others are sent the end. */
void uw_cast_narrowed(struct uw_cast *c);

/* Did a peer send nothing in the turn that ended, although it was asked? */
static inline bool uw_cast_is_mute(const struct uw_cast_peer *p)
{
    return p->received_us == 0 && !p->gone && p->asks == UW_CAST_ASKS_MAX;
}

/* Is the turn over? Then it ends; chunks that others still miss are sent until the snapshot
 * changes. */
bool uw_cast_over(struct uw_cast *c, uint64_t now_us);

/* Have all chunks of all nodes arrived, and are all views equal to this node's? */
bool uw_cast_is_exact(const struct uw_cast *c);

/* The time of the next work if no message arrives. */
uint64_t uw_cast_next_us(const struct uw_cast *c, uint64_t now_us);

/* The pace of chunks. Broadcasts are not acknowledged: loss is known when others ask again. When
 * more is lost than usual, the pace becomes slower. If that does not help, the loss is that of the
 * channel, and the pace returns. Otherwise it becomes a little faster with each turn.
 *   us  the link's pace; if it adapts, the first pace, with limits of an eighth and eight times */
void uw_cast_pace_init(struct uw_cast_pace *p, uint32_t us, bool adapts);

/* Of `chunks` chunks, 1 or more, `again` were asked for again. */
void uw_cast_pace_learn(struct uw_cast_pace *p, uint32_t chunks, uint32_t again);

#endif
