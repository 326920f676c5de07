/* SPDX-License-Identifier: Apache-2.0
 *
 * guard.h - bounds what a peer that has the key can do to this node's model (private)
 *
 * Of each segment it knows how far peers' models usually are, as rms: at first twice this node's
 * own movement, later 1.1 times as much after a round that was further away and 0.85 times after a
 * nearer one, so that a good third of the rounds are nearer. What is 4 times as far, at first 5
 * times, is refused: a pull from an eighth of the model on; of several senders each chunk, by
 * itself (below an eighth of the model 5 times). In a pull, a chunk that is more than 5 times as
 * far moves its elements 5 times as far. The broadcasts of a sender in a round are refused at 6
 * times, and so is the sender's next round until its sum is near. Of pulls and broadcasts, twice
 * the way that this node has gone by itself while it waited for them is as usual. Refusals in a
 * row, of several senders of more than half, may mean that this node is the one apart: then what is
 * usual grows towards the nearer one, to twice as much at most, but not of pulls between cells.
 * Until it is known what is usual, in the first round, a node that trains mixes no pull. Who shows
 * one of the last models again, to the bit but as another version, is refused for a while, too; who
 * broadcasts the model of the round before, if it is further away than usual.
 *
 * In a sweep each chunk of a partner is judged so, and who moves against this node, by heading.h.
 * Of another exact average only the result is.
 *
 * Memory     12 bytes a segment, 28 a sender of broadcasts, and heading.h, from an arena
 * Blocking   never
 * Context    training thread; the network thread during an exact average
 */
#ifndef UW_NET_GUARD_H
#define UW_NET_GUARD_H

#include "gossip/gossip.h"
#include "gossip/heading.h"

#define UW_GUARDED_PULL UINT32_MAX
#define UW_GUARDED_RESULT (UINT32_MAX - 1u)

/* What a peer sent, beside this node's own parameters. */
struct uw_guarded {
    uint32_t offset_n, count_n;
    uint32_t from_id;               /* the sender, in a pull from several or a broadcast; or 0 */
    uint32_t rank;                  /* of an exact average; UW_GUARDED_RESULT: the average itself;
                                       UW_GUARDED_PULL: of a pull */
    float weight;                   /* with which it would be mixed */
    const float *x, *own;           /* [count_n] */
};

/* Judges what a peer sends: gossip/guard.h. */
struct uw_guard {
    bool doubts;                    /* this node, and not the peer, may be the one apart */
    /* The share of a chunk's difference that is mixed; below 0: refuse it, of one sender all. */
    float (*share)(struct uw_guard *u, const struct uw_gossip *g, const struct uw_guarded *c);
    /* Before the parameters are published. */
    void (*publishes)(struct uw_guard *u, const struct uw_gossip *g);
    /* Instead, of a guard that does not know of movement: what is usual at first is its. */
    void (*follows)(struct uw_guard *u, const struct uw_guard *other, const struct uw_gossip *g);
    /* An average that was not judged: what is usual at first counts from here. */
    void (*begins)(struct uw_guard *u, const struct uw_gossip *g);
    /* An exact average begins: uw_headings_meet. Returns whether it is judged. */
    bool (*averages)(struct uw_guard *u, const struct uw_gossip *g, const uint32_t *ids,
                     uint32_t ids_n, uint32_t own, bool unequal);
    /* It was committed. */
    void (*averaged)(struct uw_guard *u, const struct uw_gossip *g);
    /* The round's pull, or average, has ended. Returns whether the pull repeated an earlier one, to
     * the bit: its sender does not train. */
    bool (*ends)(struct uw_guard *u, const struct uw_gossip *g, bool refused);
};

#define UW_GUARD_SEEN 8u

struct uw_usual {
    float rms;                      /* 0: not known yet */
    float squares;                  /* sum over this round ... */
    uint32_t n;                     /* ... and its elements */
};

/* A sender of broadcasts. */
struct uw_sender {
    uint32_t id, n;                 /* elements, in this round */
    float squares, usual_squares;   /* sums over them */
    uint32_t offset_n, content;     /* of one chunk, and its checksum; 0: not known */
    bool repeats;                   /* that chunk was the same in the last two rounds */
    bool far;                       /* it was, the last time that it was known */
    bool seen, refused;             /* in this round: that chunk was compared; the sender refused */
};

struct uw_distances {
    struct uw_guard base;
    struct uw_sender *senders;      /* [senders_max] of broadcasts; NULL: of none */
    uint32_t senders_max;
    struct uw_headings *headings;   /* of exact averages; NULL: not judged */
    bool learned;                   /* from a round, what is usual */
    bool follower;                  /* of another guard, which knows of this node's movement */
    float squares, usual_squares;   /* sums over this round's pull, and of what is usual */
    bool mixes;                     /* a round's pull was judged since the last publish */
    float moves, moved;             /* twice the norm of its own steps between the last two
                                       publishes; from the second after such a round until now */
    float mixed_squares;            /* of what was mixed since the last publish */
    uint32_t n, refused_n;          /* its elements; of several senders, those accepted, refused */
    float refused_ratio;            /* of the nearest one refused, of several senders; 0: none */
    float ratio;                    /* of the round before */
    uint32_t content;               /* checksum of the round's pull */
    uint32_t seen[UW_GUARD_SEEN], seen_n;   /* of the last pulls, in turn */
    struct uw_usual usual[];        /* [segments_n] */
};

/* Allocate it. ranks_max: of exact averages, or 0; senders_max: of broadcasts, or 0. *out: NULL
 * while measuring. Returns UW_OK or what uw_arena_take returns. */
int uw_distances_place(struct uw_distances **out, struct uw_arena *arena, uint32_t segments_n,
                       uint32_t ranks_max, uint32_t senders_max);

#endif
