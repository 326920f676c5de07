/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/mix.h - mixing rules: what a round of gossip does to the parameters
 *
 * A round is: publish a snapshot, train T local steps, meanwhile mix in the chunks of one peer's
 * snapshot as they arrive, end the round. Every rule here is elementwise, so a round needs no
 * second model: chunks are mixed in place, and the end streams once over the vectors.
 *
 *     x = (1 - w) x + w s_peer                     for every chunk, by all rules
 *     end(rule)                                    once a round, see below
 *
 * Units      _n counts floats
 * Memory     vectors are the model's
 * Blocking   until computed      Context  training thread
 * Source     Lin et al., "Quasi-Global Momentum", 2021; its form for T local steps
 */
#ifndef UWASA_MIX_H
#define UWASA_MIX_H

#include <stdbool.h>
#include <stdint.h>

struct uw_mix_constants {
    float weight;       /* w, the peer's share; 0: 0.5 */
    float beta;         /* how much of the velocity survives a round; 0: 0.9 */
    float mu;           /* how much of the round's displacement enters it; 0: 0.1 */
};

struct uw_mix_rule {
    const char *name;               /* "none", "qg" */
    bool velocity;                  /* needs a velocity vector [size_n] */
    /* (optional: NULL means the rule has nothing to do) End a round over n elements.
     *   s       [n] own snapshot at the round's start
     *   x       [n] parameters now: local steps and mixing are in them; the rule may change them
     *   m       [n] velocity, updated
     *   lr_sum  learning rates of the round's local steps, summed: lr * T; > 0 */
    void (*end)(const struct uw_mix_constants *c, uint32_t n, const float *s, float *x, float *m,
                float lr_sum);
};

/* Plain averaging: the end of a round does nothing. */
extern const struct uw_mix_rule uw_mix_none;

/* Quasi-global momentum, m = beta m + mu (s - x) / lr_sum. The local steps between are
 * x -= lr (g + beta m) with m frozen: struct uw_sgd with frozen = true, momentum = beta. */
extern const struct uw_mix_rule uw_mix_qg;

/* Rule by name; NULL when there is none. */
const struct uw_mix_rule *uw_mix_find(const char *name);

/* x = (1 - weight) x + weight s over n elements. weight 1 copies, whatever x holds. */
void uw_mix_chunk(float weight, uint32_t n, const float *s, float *x);

#endif
