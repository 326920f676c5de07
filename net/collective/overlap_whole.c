/* SPDX-License-Identifier: Apache-2.0 */
#include "overlap.h"

#define EAGER_US 2000u              /* looked at again and again for so long, */
#define EAGER_POLL_US 20u
#define POLL_US 200u                /* then now and then */

static void trace_all(const struct uw_overlap *o, bool end)
{
    for (uint32_t i = 0; o->config.trace != NULL && i < o->config.buckets_n; i++) {
        o->config.trace(o->config.arg, i, 0, end, o->now_us);
    }
}

static void finish(struct uw_overlap *o)
{
    o->whole_begun = false;
    o->running_n = 0;
    o->advanced_n++;
    for (uint32_t i = 0; i < o->config.buckets_n; i++) {
        o->buckets[i].state = UW_OVERLAP_DONE;
    }
    trace_all(o, true);
}

uint64_t uw_overlap_run_whole(struct uw_overlap *o)
{
    const struct uw_overlap_whole *w = o->group.whole;
    int rc = UW_ERR_AGAIN;
    if (!o->active || o->whole_failed || o->running_n < o->config.buckets_n) {
        return UINT64_MAX;
    }
    if (!o->whole_begun) {
        o->whole_begun = true;
        o->whole_us = o->now_us;
        trace_all(o, false);
        rc = w->begin(w->arg);
        rc = rc == UW_OK ? UW_ERR_AGAIN : rc;
    }
    rc = rc == UW_ERR_AGAIN ? w->poll(w->arg) : rc;
    if (rc == UW_OK) {
        finish(o);
        return UINT64_MAX;
    }
    o->whole_failed = rc != UW_ERR_AGAIN;
    return o->now_us + (o->now_us < o->whole_us + EAGER_US ? EAGER_POLL_US : POLL_US);
}

void uw_overlap_stop_whole(struct uw_overlap *o)
{
    if (o->whole_begun) {
        o->group.whole->stop(o->group.whole->arg);
    }
    o->whole_begun = o->whole_failed = false;
}
