/* SPDX-License-Identifier: Apache-2.0
 *
 * guard.h - bounds what a peer that has the key can do to this node's model (private)
 *
 * Of each segment it knows how far peers' models usually are, as rms: at first twice this node's
 * own movement, later 1.1 times as much after a round that was further away and 0.85 times after a
 * nearer one, so that a good third of the rounds are nearer. What is 4 times as far, at first 5
 * times, is refused: a pull from an eighth of the model on; of several senders each chunk, by
 * itself (below an eighth of the model 5 times). In a pull, a chunk that is more than 5 times as
 * far moves its elements 5 times as far. Refusals in a row, of several senders of more than half,
 * may mean that this node is the one apart: then what is usual grows towards the nearer one, to
 * twice as much at most. Until it is
 * known what is usual, in the first round, a node that trains mixes no pull. Who shows one of the
 * last models again, to the bit but as another version, is refused for a while, too.
 *
 * In a sweep each chunk of a partner is judged so, and who moves against this node, by heading.h.
 * Of another exact average only the result is.
 *
 * Memory     12 bytes a segment, and heading.h, from an arena      Blocking   never
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
    bool of_many;                   /* of one of several senders, or their average */
    uint32_t rank;                  /* of an exact average; UW_GUARDED_RESULT: the average itself;
                                       UW_GUARDED_PULL: of a pull */
    const float *x, *own;           /* [count_n] */
};

/* Judges what a peer sends: gossip/guard.h. */
struct uw_guard {
    bool doubts;                    /* this node, and not the peer, may be the one apart */
    /* The share of a chunk's difference that is mixed; below 0: refuse it, of one sender all. */
    float (*share)(struct uw_guard *u, const struct uw_gossip *g, const struct uw_guarded *c);
    /* Before the parameters are published. */
    void (*publishes)(struct uw_guard *u, const struct uw_gossip *g);
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

struct uw_distances {
    struct uw_guard base;
    struct uw_headings *headings;   /* of exact averages; NULL: not judged */
    bool learned;                   /* from a round, what is usual */
    float squares, usual_squares;   /* sums over this round's pull, and of what is usual */
    uint32_t n, refused_n;          /* its elements; of several senders, those accepted, refused */
    float refused_ratio;            /* of the nearest one refused, of several senders; 0: none */
    float ratio;                    /* of the round before */
    uint32_t content;               /* checksum of the round's pull */
    uint32_t seen[UW_GUARD_SEEN], seen_n;   /* of the last pulls, in turn */
    struct uw_usual usual[];        /* [segments_n] */
};

/* Allocate it. ranks_max: of exact averages, or 0. *out: NULL while measuring. Returns UW_OK or
 * what uw_arena_take returns. */
int uw_distances_place(struct uw_distances **out, struct uw_arena *arena, uint32_t segments_n,
                       uint32_t ranks_max);

#endif
