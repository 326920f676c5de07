/* SPDX-License-Identifier: Apache-2.0 */
#include "period_said.h"

#include "base/args.h"

#include "uwasa/mix.h"

#include <stddef.h>
#include <string.h>

bool uw_period_pulls(const char *exchange, const char *rule)
{
    return (strcmp(exchange, "gossip") == 0 || strcmp(exchange, "broadcast") == 0) &&
           uw_mix_find(rule)->over != UW_MIX_OVER_PAIRS;
}

const char *uw_period_wrong(const struct uw_period_said *said, const char **sentence)
{
    bool pulls = uw_period_pulls(said->exchange, said->rule);
    if (said->period == UW_AUTO && !pulls) {
        *sentence = "auto is for exchange gossip or broadcast, and not for kgt";
        return "period";
    }
    if (said->period != UW_AUTO && said->share > 0.0) {
        *sentence = "needs period auto";
        return "share";
    }
    if (said->slices > 1u && (!pulls || strcmp(said->exchange, "gossip") != 0)) {
        *sentence = "more than 1 are for exchange gossip, and not for kgt";
        return "slices";
    }
    return NULL;
}
