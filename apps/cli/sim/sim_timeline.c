/* SPDX-License-Identifier: Apache-2.0 */
#include "sim.h"

#include <string.h>

#define NAME "node"             /* sim_world.h: node 7 is "node7" */

/* The place of a node by its name; -1 when it is not known. */
static int place_of(const char *name)
{
    int place = 0;
    if (strncmp(name, NAME, sizeof NAME - 1u) != 0) {
        return -1;
    }
    const char *digit = name + sizeof NAME - 1u;
    if (*digit == '\0') {
        return -1;
    }
    for (; *digit != '\0'; digit++) {
        if (*digit < '0' || *digit > '9' || place > 1000000) {
            return -1;
        }
        place = 10 * place + (*digit - '0');
    }
    return place;
}

static double virtual_s(const struct uw_world *w, uint64_t us)
{
    return us > w->start_us ? (double)(us - w->start_us) / 1e6 : 0.0;
}

void uw_sim_timeline_event(void *arg, uint32_t node, const struct uw_node_event *event)
{
    const struct uw_sim_timeline *t = arg;
    struct uw_sim_report *r = t->report;
    bool pull = event->kind == UW_NODE_PULL_DONE || event->kind == UW_NODE_PULL_CUT;
    bool average = event->kind == UW_NODE_AVERAGED || event->kind == UW_NODE_AVERAGE_CUT;
    if ((!pull && !average) || t->world->start_us == 0) {
        return;
    }
    double from = virtual_s(t->world, event->now_us - event->duration_us);
    if (from > r->o->timeline || r->exchanges_told == UW_SIM_TIMELINE_MAX) {
        r->exchanges_untold++;
        return;
    }
    r->exchanges_told++;
    int peer = place_of(event->peer);
    bool pair = average && r->o->exchange.rule->over == UW_MIX_OVER_PAIRS &&
                event->chunks_n == 2u && peer >= 0;
    cJSON *ev = uw_event("exchange");
    cJSON_AddStringToObject(ev, "kind", pull ? "pull" : pair ? "pair" : "average");
    cJSON_AddNumberToObject(ev, "node", node);
    if (average && !pair) {
        cJSON_AddNumberToObject(ev, "nodes", event->chunks_n);
    } else if (peer >= 0) {
        cJSON_AddNumberToObject(ev, "peer", peer);
    }
    cJSON_AddNumberToObject(ev, "from_seconds", from);
    cJSON_AddNumberToObject(ev, "to_seconds", virtual_s(t->world, event->now_us));
    cJSON_AddNumberToObject(ev, "bytes", (double)event->bytes);
    cJSON_AddBoolToObject(ev, "ok", event->kind == UW_NODE_PULL_DONE ||
                                        event->kind == UW_NODE_AVERAGED);
    uw_events_put(&r->events, ev);
}

void uw_sim_timeline_step(struct uw_sim_report *r, const struct uw_world *w, uint32_t node,
                          uint64_t step)
{
    double now = virtual_s(w, w->now_us);
    if (now > r->o->timeline || r->steps_told == UW_SIM_TIMELINE_MAX) {
        return;
    }
    r->steps_told++;
    cJSON *ev = uw_event("step");
    cJSON_AddNumberToObject(ev, "node", node);
    cJSON_AddNumberToObject(ev, "step", (double)step);
    cJSON_AddNumberToObject(ev, "virtual_seconds", now);
    uw_events_put(&r->events, ev);
}
