/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/mix.h - mixing rules: how a round of averaging changes parameters and velocity
 *
 * A round starts with a snapshot s of the parameters x, trains T local steps, mixes x with other
 * nodes' parameters, and ends. Every rule is elementwise and needs no second model: chunks are
 * mixed in place as they arrive, and the end of a round streams once over the vectors.
 *
 *     gossip         x += w (s_peer - s) for every chunk; then end
 *     average        before; x becomes the exact mean over the nodes, in place; after. Between the
 *                    two the vector s may be used by the average. Rules without before and after
 *                    keep s in one more vector, and use end
 *     pairs          x and z of a partner, on both sides or on none: pair for every chunk, with the
 *                    partner's values or with the mean of both
 *
 * The rules, with L the sum of the round's learning rates (lr T when lr is constant):
 *
 *     none     nothing
 *     qg       m = beta (1 - mu a) m + mu (s - x) / L                    beta 0.9   mu 0.1
 *     noloco   m = beta m + mu (x - s);  x = s + m                       beta 0.5   mu 0.7
 *     slowmo   m = beta m + (s - x) / L;  x = s - mu L m                 beta 0.5   mu 1
 *     diloco   d = s - x;  m = beta m + d;  x = s - mu (d + beta m)      beta 0.9   mu 0.7
 *     kgt      z = (s - x) / L;  m += w (z_peer - z);  x = (1 - w) x + w x_peer
 *     updates  z = (s - x) / L;  x += w L (z - z_peer)
 *
 * slowmo and diloco need the same s on all nodes: an average of nodes that were not all in the one
 * before is a plain one, and m stays; otherwise their differences would grow.
 *
 * For qg, s - x includes the movement that m itself caused. Mixing corrects it: peers' models
 * cancel what they do not confirm. A node that does not mix (a = 1) leaves it out; otherwise its m
 * grows to ten times its gradient, and nodes that seldom mix drift apart (uw_mix_recent).
 *
 * qg and kgt also change the local steps to x -= lr (g + b m), with m frozen, b = beta for qg and
 * b = 1 for kgt: struct uw_sgd with frozen = true, momentum = b. The sum of kgt's m over all nodes
 * stays zero, because one side of a pair adds what the other subtracts. Therefore kgt converges to
 * the optimum of all data however it is distributed, and a pair must not be committed by one side
 * only.
 *
 * updates exchanges what the steps have changed, and no parameters: as both sides then have changed
 * by the mean of both, models that differ stay apart.
 *
 * Units      _n counts floats
 * Memory     vectors are the model's; none may overlap another
 * Blocking   until computed      Context  training thread
 * Source     T. Lin et al., "Quasi-Global Momentum", 2021 (qg), in the form for T local steps;
 *            "NoLoCo", 2025 (noloco), with its averages of x - s and of s combined to one of x;
 *            J. Wang et al., "SlowMo", 2020 (slowmo), whose u is T m; A. Douillard et al.,
 *            "DiLoCo", 2023 (diloco), outer Nesterov momentum; Y. Liu et al., "Decentralized
 *            gradient tracking with local steps", 2023 (kgt), whose c is m; J. Daily et al.,
 *            "GossipGraD", 2018 (updates)
 */
#ifndef UWASA_MIX_H
#define UWASA_MIX_H

#include "uwasa/cplusplus.h"
#include "uwasa/params.h"

#include <stdbool.h>
#include <stdint.h>

UW_C_BEGIN

/* 0: the rule's default, see above. */
struct uw_mix_constants {
    float weight;       /* w, the peer's share; 0: 0.5 */
    float beta;         /* decay of the velocity per round */
    float mu;           /* factor of the round's displacement */
};

/* The exchanges that a rule works with. */
enum uw_mix_over {
    UW_MIX_OVER_ANY,                /* gossip and averages */
    UW_MIX_OVER_AVERAGES,           /* nodes start each round with the same parameters */
    UW_MIX_OVER_PAIRS
};

struct uw_mix_rule {
    const char *name;               /* "none", "qg", ...; its first 8 letters differ from others' */
    enum uw_mix_over over;
    bool velocity;                  /* needs a velocity vector [size_n], initially zero */
    bool frozen;                    /* the local steps read the velocity but do not change it */
    struct uw_mix_constants own;    /* defaults of beta and mu */

    /* (optional: NULL means no work) End a round over n elements.
     *   s       [n] own parameters at the round's start
     *   x       [n] parameters after local steps and mixing; may be changed
     *   m       [n] velocity, updated
     *   lr_sum  L > 0, the sum of the learning rates of the round's local steps
     *   alone   a: from 0 for a node that mixes to 1 for a node that does not */
    void (*end)(const struct uw_mix_constants *c, uint32_t n, const float *s, float *x, float *m,
                float lr_sum, float alone);

    /* (optional, both or none: NULL means that end does the work) The same in two parts, the first
     * without x, the second without s. Between them m holds no velocity: when the average fails,
     * call `after` with the current x. Constants and lr_sum must be the same in both calls. The
     * rounding error is relative to s and x, not to their smaller difference: test_mix_rules.c. */
    void (*before)(const struct uw_mix_constants *c, uint32_t n, const float *s, float *m,
                   float lr_sum, float alone);
    void (*after)(const struct uw_mix_constants *c, uint32_t n, const float *x, float *m,
                  float lr_sum);

    /* (optional: NULL means the rule is not for pairs) Mix n elements with those of a partner that
     * is committed to do the same with the same weight.
     *   weight          the partner's share; twice that share if x_peer and z_peer are the mean of
     *                   both sides
     *   z, z_peer       [n] own and the partner's mean gradient of the round
     *   x_peer          [n] the partner's parameters when it computed z_peer
     *   lr_sum          L of this side */
    void (*pair)(float weight, uint32_t n, const float *z, float *x, float *m,
                 const float *x_peer, const float *z_peer, float lr_sum);
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

/* The mean of both sides' updates, over committed pairs. Its velocity stays zero. */
extern const struct uw_mix_rule uw_mix_updates;

/* All of them, then NULL. */
extern const struct uw_mix_rule *const uw_mix_rules[];

/* Find a rule by name; NULL for an unknown name. */
const struct uw_mix_rule *uw_mix_find(const char *name);

/* Decaying count of models mixed in, updated for one round: beta recent + mixed.
 *   recent  value after the previous round; UW_MIX_RECENT_FIRST initially
 *   mixed   sum of the shares of a model mixed in during the round; clamped to 1 */
#define UW_MIX_RECENT_FIRST 1.0f
float uw_mix_recent(const struct uw_mix_constants *c, float recent, float mixed);

/* Call rule->end, if any, over all parameters except running statistics: momentum could make a
 * variance negative.
 *
 *   s  [p->size_n] own parameters at the round's start
 *   m  [p->size_n] velocity, NULL if the rule has none
 *   recent  see uw_mix_recent; a = max(0, 1 - recent) */
void uw_mix_end(const struct uw_mix_rule *rule, const struct uw_mix_constants *c,
                const struct uw_params *p, const float *s, float *m, float lr_sum, float recent);

/* The same for rule->before and rule->after. */
void uw_mix_before(const struct uw_mix_rule *rule, const struct uw_mix_constants *c,
                   const struct uw_params *p, const float *s, float *m, float lr_sum, float recent);
void uw_mix_after(const struct uw_mix_rule *rule, const struct uw_mix_constants *c,
                  const struct uw_params *p, float *m, float lr_sum);

/* Fill the vector that the two sides of a pair average: the parameters and the round's mean
 * gradient, which is zero for running statistics.
 *
 *   s  [p->size_n]    own parameters at the round's start
 *   v  [2 p->size_n]  written: x, then z */
void uw_mix_pair_vector(const struct uw_params *p, const float *s, float lr_sum, float *v);

/* Call rule->pair over all parameters with the mean of both sides' vectors; running statistics are
 * mixed as they are. s, p->x and lr_sum are those of uw_mix_pair_vector.
 *
 *   weight  the partner's share, the same on both sides; 0: 0.5
 *   v       [2 p->size_n] the mean
 *   m       [p->size_n] velocity, updated */
void uw_mix_pair(const struct uw_mix_rule *rule, float weight, const struct uw_params *p,
                 const float *s, const float *v, float *m, float lr_sum);

/* x = (1 - weight) x + weight s over n elements. weight 1 copies, also over NaN. */
void uw_mix_chunk(float weight, uint32_t n, const float *s, float *x);

/* Mix a chunk pulled during training: x += weight (s_peer - s). This keeps all progress since s,
 * however long the pull took; (1 - weight) x + weight s_peer would undo a part of it. Running
 * statistics use the latter form, because they must not become negative.
 *
 *   at_n, n  place and length of the chunk in p->x
 *   s        [p->size_n] own parameters when the pull began
 *   s_peer   [n] the peer's
 *
 * Source: S. Shen et al., "Computation and Communication Decoupled SGD", 2019. */
void uw_mix_pulled(float weight, const struct uw_params *p, uint32_t at_n, uint32_t n,
                   const float *s, const float *s_peer);

/* Add the difference to another cell's model, which may be old, to this cell's: x += c d. For a
 * variance, d removes at most half of x, because x may have become smaller since d was computed. An
 * x that stands for c ranks of an average may still become negative, the mean of all ranks hardly
 * ever does (uw_mix_settle).
 *
 *   at_n, n  place and length of d in p->x
 *   d        [n] s_peer - s, or what uw_mix_from_cell made of it */
void uw_mix_carried(float c, const struct uw_params *p, uint32_t at_n, uint32_t n, const float *d);

/* Change the sign of negative variances, after an average in which a rank used uw_mix_carried. All
 * ranks of the average get the same result. Returns whether there was one. */
bool uw_mix_settle(const struct uw_params *p);

/* Gain of outer momentum: the sum over all later rounds of a displacement of x in one round,
 * mu / (1 - beta); 2 for slowmo and 7 for diloco by default. The displacement that a cell takes
 * from another is divided by it, to prevent growing oscillation. At least 1; 1 for other rules. */
float uw_mix_gain(const struct uw_mix_rule *rule, const struct uw_mix_constants *c);

/* Scale a difference to another cell's model: d = weight d, divided by uw_mix_gain except for
 * running statistics.
 *
 *   at_n, n  place and length of d in p->x
 *   d        [n] s_peer - s; written */
void uw_mix_from_cell(const struct uw_mix_rule *rule, const struct uw_mix_constants *c,
                      float weight, const struct uw_params *p, uint32_t at_n, uint32_t n,
                      float *d);

/* The share of another cell's model in this cell's: weight, or for a smaller cell
 * 2 weight theirs_n / (ours_n + theirs_n), by the number of nodes in each. A larger cell gets no
 * more than weight: under rules with outer momentum the model would oscillate. */
float uw_mix_cell_weight(float weight, uint32_t ours_n, uint32_t theirs_n);

/* z = (s - x) / lr_sum over n elements: the mean gradient of the steps from s to x, corrections
 * included. z = 0 if lr_sum is 0 (no steps). */
void uw_mix_mean_gradient(uint32_t n, const float *s, const float *x, float lr_sum, float *z);

UW_C_END
#endif
