/* SPDX-License-Identifier: Apache-2.0 */
#include "node_work.h"

#include "uwasa/board.h"

#include <stdio.h>

int uw_node_trace_open(struct uw_node_work *r)
{
    if (r->o->trace == NULL) {
        return UW_OK;
    }
    char process[64];
    snprintf(process, sizeof process, "uwasa node %.31s", r->o->name);
    int rc = uw_trace_open(&r->trace, r->o->trace, process, &r->err);
    if (rc < 0) {
        return rc;
    }
    uw_trace_thread(&r->trace, UW_TRACE_COMPUTE, "training");
    uw_trace_thread(&r->trace, UW_TRACE_NETWORK, "network");
    return uw_trace_profile(&r->trace, &r->job.model, false, &r->err);
}

void uw_node_trace_part(struct uw_node_work *r, const char *what, uint64_t from_us,
                        uint64_t until_us)
{
    char name[32];
    snprintf(name, sizeof name, "step %llu", (unsigned long long)r->step);
    uw_trace_span(&r->trace, UW_TRACE_COMPUTE, what != NULL ? what : "step",
                  what != NULL ? what : name, from_us, until_us);
}

/* The layer that needs a bucket first. */
static const char *bucket_name(const struct uw_node_work *r, uint32_t bucket)
{
    const struct uw_model *m = &r->job.model;
    return m->config.def->layers[m->buckets[bucket].layer].name;
}

void uw_node_trace_ready(struct uw_node_work *r, uint32_t bucket)
{
    if (r->trace.text != NULL) {
        char name[UW_TRACE_NAME_BYTES];
        uint64_t now_us = uw_board_now_us();
        snprintf(name, sizeof name, "%.64s bucket ready", bucket_name(r, bucket));
        uw_trace_span(&r->trace, UW_TRACE_COMPUTE, "bucket", name, now_us, now_us);
    }
}

void uw_node_trace_fragment(void *arg, uint32_t bucket, uint32_t fragment, bool end,
                            uint64_t now_us)
{
    struct uw_node_work *r = arg;
    if (r->trace.text != NULL) {
        char name[UW_TRACE_NAME_BYTES];
        snprintf(name, sizeof name, "%.64s fragment %u",
                 bucket > 0 ? bucket_name(r, bucket - 1u) : "learning rate", (unsigned)fragment);
        uw_trace_async(&r->trace, "fragment", name, (uint64_t)bucket << 32 | fragment, end,
                       now_us);
    }
}

void uw_node_trace_event(struct uw_node_work *r, const struct uw_node_event *event)
{
    if (r->trace.text == NULL) {
        return;
    }
    bool average = event->kind == UW_NODE_AVERAGED || event->kind == UW_NODE_AVERAGE_CUT;
    bool pull = event->kind == UW_NODE_PULL_DONE || event->kind == UW_NODE_PULL_CUT;
    uint64_t since_us = event->now_us - event->duration_us;
    char name[UW_TRACE_NAME_BYTES];
    if (average) {
        snprintf(name, sizeof name, "%s over %u nodes", uw_node_event_name(event->kind),
                 (unsigned)event->chunks_n);
        uw_trace_span(&r->trace, UW_TRACE_NETWORK, "average", name, since_us, event->now_us);
    } else if (pull) {
        r->pulls_traced++;
        snprintf(name, sizeof name, "%s %.31s", uw_node_event_name(event->kind), event->peer);
        uw_trace_async(&r->trace, "pull", name, r->pulls_traced, false, since_us);
        uw_trace_async(&r->trace, "pull", name, r->pulls_traced, true, event->now_us);
    }
}
