/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange.h"

#define SHARE 0.1               /* by default, with a period that adapts */

void uw_exchange_resolve(struct uw_exchange *x, const struct uw_mix_rule *own)
{
    x->rule = x->rule_word.word != NULL ? uw_mix_find(x->rule_word.word) : own;
    x->peers = x->peers_word.word != NULL ? uw_peer_schedule_find(x->peers_word.word) : NULL;
}

const char *uw_exchange_wrong(const struct uw_exchange *x, const char **sentence)
{
    if (!x->period.automatic && x->share > 0.0) {
        *sentence = "needs \"period\": \"auto\"";
        return "share";
    }
    if (x->rule->frozen && x->momentum == 0.0) {
        *sentence = "needs more than 0 by rule qg or kgt";
        return "momentum";
    }
    return NULL;
}

void uw_exchange_fill(const struct uw_exchange *x, struct uw_node_config *c)
{
    c->mode = (enum uw_node_mode)x->mode.at;
    c->rule = x->rule;
    c->schedule = x->peers;
    c->period_steps = x->period.n;
    c->period_share = (float)uw_exchange_share(x);
    c->slices_n = x->slices;
    c->guard = x->guard.at != UW_GUARD_OFF;
    c->guard_averages = x->guard.at == UW_GUARD_ALL;
    c->constants.beta = x->rule->frozen ? uw_exchange_momentum_qg(x) : 0.0f;    /* 0: its own */
}

const struct uw_peer_schedule *uw_exchange_peers(const struct uw_exchange *x)
{
    const char *own = x->rule->over == UW_MIX_OVER_PAIRS ? "matching" : "random";
    return x->peers != NULL ? x->peers : uw_peer_schedule_find(own);
}

double uw_exchange_share(const struct uw_exchange *x)
{
    return x->share > 0.0 ? x->share : x->period.automatic ? SHARE : 0.0;
}

float uw_exchange_momentum_qg(const struct uw_exchange *x)
{
    return x->momentum >= 0.0 ? (float)x->momentum : 0.9f;
}

float uw_exchange_momentum(const struct uw_exchange *x)
{
    return x->rule->over == UW_MIX_OVER_PAIRS ? 1.0f
           : x->rule->frozen                  ? uw_exchange_momentum_qg(x)
           : x->momentum >= 0.0               ? (float)x->momentum
                                              : 0.0f;
}
