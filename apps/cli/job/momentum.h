/* SPDX-License-Identifier: Apache-2.0
 *
 * momentum.h - the momentum of local steps under a mixing rule (uwasa/mix.h)
 *
 *     given < 0: nothing was given
 */
#ifndef UWASA_CLI_MOMENTUM_H
#define UWASA_CLI_MOMENTUM_H

#include "uwasa/mix.h"

/* Of quasi-global momentum, from the beginning or after a retreat. */
static inline float uw_momentum_qg(double given)
{
    return given >= 0.0 ? (float)given : 0.9f;
}

/* Of the steps: the tracker of a rule over pairs enters them whole. */
static inline float uw_momentum_steps(const struct uw_mix_rule *rule, double given)
{
    if (rule->over == UW_MIX_OVER_PAIRS) {
        return 1.0f;
    }
    return rule->frozen ? uw_momentum_qg(given) : given >= 0.0 ? (float)given : 0.0f;
}

/* beta of uw_mix_constants; 0: the rule's own. */
static inline float uw_momentum_beta(const struct uw_mix_rule *rule, double given)
{
    return rule->frozen ? uw_momentum_qg(given) : 0.0f;
}

#endif
