/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/mix.h - mixing rules: what a round of averaging does to parameters and velocity
 *
 * A round starts with a snapshot s of the parameters x, trains T local steps, mixes x with other
 * nodes' parameters, and ends. Every rule here is elementwise, so that a round needs no second
 * model: chunks are mixed in place as they arrive, and the end streams once over the vectors.
 *
 *     gossip         x += w (s_peer - s) for every chunk; then end
 *     average        before; x becomes the exact mean over the nodes, in place; after. The vector
 *                    that held s may have been lent to the averaging: rules that have no before
 *                    and after need s kept elsewhere, one vector more, and end
 *     pairs          x and z of a partner, both sides or none: pair for every chunk, with the
 *                    partner's or with the mean of both
 *
 * What the rules compute, L the round's learning rates summed (lr T when lr is constant):
 *
 *     none     nothing
 *     qg       m = beta (1 - mu a) m + mu (s - x) / L                    beta 0.9   mu 0.1
 *     noloco   m = beta m + mu (x - s);  x = s + m                       beta 0.5   mu 0.7
 *     slowmo   m = beta m + (s - x) / L;  x = s - mu L m                 beta 0.5   mu 1
 *     diloco   d = s - x;  m = beta m + d;  x = s - mu (d + beta m)      beta 0.9   mu 0.7
 *     kgt      z = (s - x) / L;  m += w (z_peer - z);  x = (1 - w) x + w x_peer
 *
 * qg's s - x holds what m itself has moved. Where nodes mix that is right: what comes from others
 * takes back what they do not confirm. A node alone, a = 1, leaves it out: its m would grow to ten
 * times its own gradient, and nodes that seldom mix would drift apart (uw_mix_recent).
 *
 * qg and kgt also guide the local steps, x -= lr (g + b m) with m frozen and b = beta for qg, 1
 * for kgt: struct uw_sgd with frozen = true, momentum = b. The sum of kgt's m over all nodes stays
 * zero, because what a pair's one side adds the other takes away; that is what makes it find the
 * optimum of all data whatever each node holds, and why a half-done pair does harm.
 *
 * Units      _n counts floats
 * Memory     vectors are the model's; none may overlap another
 * Blocking   until computed      Context  training thread
 * Source     T. Lin et al., "Quasi-Global Momentum", 2021 (qg), its form for T local steps;
 *            "NoLoCo", 2025 (noloco), with its two averages, of x - s and of s, added up to the one
 *            of x; J. Wang et al., "SlowMo", 2020 (slowmo), whose u is T m; A. Douillard et al.,
 *            "DiLoCo", 2023 (diloco), Nesterov's momentum outside; Y. Liu et al., "Decentralized
 *            gradient tracking with local steps", 2023 (kgt), whose c is m
 */
#ifndef UWASA_MIX_H
#define UWASA_MIX_H

#include "uwasa/cplusplus.h"
#include "uwasa/params.h"

#include <stdbool.h>
#include <stdint.h>

UW_C_BEGIN

/* 0: the rule's own, see above. */
struct uw_mix_constants {
    float weight;       /* w, the peer's share; 0: 0.5 */
    float beta;         /* how much of the velocity survives a round */
    float mu;           /* how much of the round's displacement enters it, or is taken over */
};

/* What a rule may be used with. */
enum uw_mix_over {
    UW_MIX_OVER_ANY,                /* gossip and averages */
    UW_MIX_OVER_AVERAGES,           /* nodes start each round with the same parameters */
    UW_MIX_OVER_PAIRS
};

struct uw_mix_rule {
    const char *name;               /* "none", "qg", ... */
    enum uw_mix_over over;
    bool velocity;                  /* needs a velocity vector [size_n], zero at first */
    bool frozen;                    /* which the local steps use but do not change */

    /* (optional: NULL means the rule has nothing to do) End a round over n elements.
     *   s       [n] own parameters at the round's start
     *   x       [n] parameters now: local steps and mixing are in them; the rule may change them
     *   m       [n] velocity, updated
     *   lr_sum  learning rates of the round's local steps, summed: lr * T; > 0
     *   alone   a: 0 for a node that mixes to 1 for one that does not */
    void (*end)(const struct uw_mix_constants *c, uint32_t n, const float *s, float *x, float *m,
                float lr_sum, float alone);

    /* (optional, both or none: NULL means only end does, if there is one) The same in two parts,
     * the first without x, the second without s. Between them m is no velocity: when the average
     * fails, `after` with the x that is there instead. Constants and lr_sum must be the same.
     * Rounds like s and x, which are larger than what remains of them: see test_mix_rules.c. */
    void (*before)(const struct uw_mix_constants *c, uint32_t n, const float *s, float *m,
                   float lr_sum, float alone);
    void (*after)(const struct uw_mix_constants *c, uint32_t n, const float *x, float *m,
                  float lr_sum);

    /* (optional: NULL means the rule is not for pairs) Mix n elements with a partner that does the
     * same with ours, the same weight, and will not be cut off from doing so.
     *   weight          the partner's share; with the mean of both sides in place of the partner's
     *                   x and z, twice that share
     *   z, z_peer       [n] own and the partner's mean gradient of the round
     *   x_peer          [n] the partner's parameters when it computed z_peer */
    void (*pair)(float weight, uint32_t n, const float *z, float *x, float *m,
                 const float *x_peer, const float *z_peer);
};

/* Plain averaging: the end of a round does nothing. */
extern const struct uw_mix_rule uw_mix_none;

/* Quasi-global momentum. */
extern const struct uw_mix_rule uw_mix_qg;

/* Outer momentum over gossip. */
extern const struct uw_mix_rule uw_mix_noloco;

/* Outer momentum over exact averages. */
extern const struct uw_mix_rule uw_mix_slowmo;
extern const struct uw_mix_rule uw_mix_diloco;

/* Gradient tracking over committed pairs. */
extern const struct uw_mix_rule uw_mix_kgt;

/* Rule by name; NULL when there is none. */
const struct uw_mix_rule *uw_mix_find(const char *name);

/* Models mixed in within the velocity's memory, after one more round: beta recent + mixed.
 *   recent  after the round before; UW_MIX_RECENT_FIRST at first
 *   mixed   shares of a model mixed in during the round, summed; counts as 1 at most */
#define UW_MIX_RECENT_FIRST 1.0f
float uw_mix_recent(const struct uw_mix_constants *c, float recent, float mixed);

/* rule->end, if there is one, over all parameters but running statistics: these stay as they were
 * mixed, since a variance that momentum carries on might fall below zero.
 *
 *   s  [p->size_n] own parameters at the round's start
 *   m  [p->size_n] velocity, NULL if the rule has none
 *   recent  see uw_mix_recent; a = 1 - recent, 0 at least */
void uw_mix_end(const struct uw_mix_rule *rule, const struct uw_mix_constants *c,
                const struct uw_params *p, const float *s, float *m, float lr_sum, float recent);

/* The same for rule->before and rule->after. */
void uw_mix_before(const struct uw_mix_rule *rule, const struct uw_mix_constants *c,
                   const struct uw_params *p, const float *s, float *m, float lr_sum, float recent);
void uw_mix_after(const struct uw_mix_rule *rule, const struct uw_mix_constants *c,
                  const struct uw_params *p, float *m, float lr_sum);

/* What the two sides of a pair average: the parameters and the round's mean gradient, which is zero
 * for running statistics.
 *
 *   s  [p->size_n]    own parameters at the round's start
 *   v  [2 p->size_n]  written: x, then z */
void uw_mix_pair_vector(const struct uw_params *p, const float *s, float lr_sum, float *v);

/* rule->pair over all parameters, from the mean of both sides' vectors; s, p->x and lr_sum are
 * still those that this side's was made of.
 *
 *   weight  the partner's share, the same on both sides; 0: 0.5
 *   v       [2 p->size_n] the mean
 *   m       [p->size_n] velocity, updated */
void uw_mix_pair(const struct uw_mix_rule *rule, float weight, const struct uw_params *p,
                 const float *s, const float *v, float *m, float lr_sum);

/* x = (1 - weight) x + weight s over n elements. weight 1 copies, whatever x holds. */
void uw_mix_chunk(float weight, uint32_t n, const float *s, float *x);

/* Mix a chunk that was pulled while training went on: x += weight (s_peer - s), so that what was
 * learned since s stays whole, however long the pull took; (1 - weight) x + weight s_peer would
 * undo a share of it. Running statistics, which must not fall below zero, are mixed that way all
 * the same.
 *
 *   at_n, n  place and length of the chunk in p->x
 *   s        [p->size_n] own parameters when the pull began
 *   s_peer   [n] the peer's
 *
 * Source: S. Shen et al., "Computation and Communication Decoupled SGD", 2019. */
void uw_mix_pulled(float weight, const struct uw_params *p, uint32_t at_n, uint32_t n,
                   const float *s, const float *s_peer);

/* Add what another model brings to a cell's, however long ago the difference was taken:
 * x += c d. A variance's d takes half of x at most: the cell's may have fallen meanwhile by more
 * than the difference knows, and below zero it has no root. Of x handed in for c ranks it may be
 * below zero all the same, and hardly ever the mean of all (uw_mix_settle).
 *
 *   at_n, n  place and length of d in p->x
 *   d        [n] s_peer - s, or what uw_mix_from_cell made of it */
void uw_mix_carried(float c, const struct uw_params *p, uint32_t at_n, uint32_t n, const float *d);

/* After an average in which somebody handed in more than its own x: a variance below zero changes
 * its sign. So it does for all who have the same average. Returns whether any did. */
bool uw_mix_settle(const struct uw_params *p);

/* What a displacement of x within a round comes to after many rounds under a rule over averages,
 * whose momentum carries it on: mu / (1 - beta), 2 for slowmo and 7 for diloco as they are. What a
 * cell takes from another is divided by it, or it would swing ever further. 1 at least, and for
 * other rules. */
float uw_mix_gain(const struct uw_mix_rule *rule, const struct uw_mix_constants *c);

/* What a cell takes from another, in place of the difference: weight d, and of what is under the
 * rule, all but running statistics, that divided by uw_mix_gain.
 *
 *   at_n, n  place and length of d in p->x
 *   d        [n] s_peer - s; written */
void uw_mix_from_cell(const struct uw_mix_rule *rule, const struct uw_mix_constants *c,
                      float weight, const struct uw_params *p, uint32_t at_n, uint32_t n,
                      float *d);

/* The share of another cell's model in this cell's: weight, that of another node's, and of a
 * smaller cell 2 weight theirs_n / (ours_n + theirs_n), by the nodes in either. A larger one counts
 * no more than a node: it would swing under rules with outer momentum. */
float uw_mix_cell_weight(float weight, uint32_t ours_n, uint32_t theirs_n);

/* z = (s - x) / lr_sum over n elements: the mean gradient, corrections included, that led from s
 * to x. lr_sum 0, no steps: z = 0. */
void uw_mix_mean_gradient(uint32_t n, const float *s, const float *x, float lr_sum, float *z);

UW_C_END
#endif
