/* SPDX-License-Identifier: Apache-2.0 */
#include "step.h"

#include "uwasa/parts.h"

#include <math.h>

static int check(const struct uw_model *m, struct uw_error *err)
{
    return m->config.micro_n == m->config.batch_n
               ? UW_OK
               : uw_error_set(err, UW_ERR_INVALID,
                              "the spike guard needs whole minibatches, no micro-batches");
}

static double limit(const struct uw_spike_guard *g)
{
    return g->seen >= UW_SPIKE_WARMUP ? (double)g->factor * g->mean : (double)INFINITY;
}

static void take(struct uw_spike_guard *g, double loss, bool spike)
{
    if (spike) {
        g->skipped++;
        return;
    }
    g->seen += g->seen < UW_SPIKE_WARMUP ? 1 : 0;
    g->mean += (loss - g->mean) / g->seen;
}

static bool is_spike(struct uw_spike_guard *g, double loss)
{
    bool spike = loss > limit(g);
    take(g, loss, spike);
    return spike;
}

const struct uw_guarding uw_guarding = {.check = check, .limit = limit, .is_spike = is_spike,
                                        .take = take};
