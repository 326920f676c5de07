/* SPDX-License-Identifier: Apache-2.0
 *
 * What is told before the first step of a simulated run. */
#include "sim.h"
#include "base/args.h"

#include "uwasa/board.h"

#include <stdio.h>
#include <string.h>

static void add_work(cJSON *ev, const struct uw_sim_report *r)
{
    const struct uw_sim_options *o = r->o;
    if (o->exchange.period.automatic) {
        cJSON_AddStringToObject(ev, "period", "auto");
    } else {
        cJSON_AddNumberToObject(ev, "period", o->exchange.period.n);
    }
    cJSON_AddNumberToObject(ev, "batch", o->batch);
    cJSON_AddNumberToObject(ev, "lr", o->lr);
    cJSON_AddStringToObject(ev, "lr_schedule", o->lr_schedule);
    uw_event_float(ev, "momentum",
                   o->exchange.rule->frozen ? uw_exchange_momentum_qg(&o->exchange)
                   : o->exchange.momentum > 0.0 ? (float)o->exchange.momentum
                                                : 0.0f);
    cJSON_AddNumberToObject(ev, "weight_decay", o->weight_decay);
    cJSON_AddNumberToObject(ev, "steps",
                            r->steps != UW_SIM_STEPS_ENDLESS ? (double)r->steps : 0.0);
    cJSON_AddNumberToObject(ev, "steps_per_epoch", (double)r->per_epoch);
}

/* Nodes that average exactly with the first one. */
static uint32_t cell_nodes(const struct uw_world *w)
{
    const struct uw_sim_fleet *f = w->config.fleet;
    bool cells = w->config.node.mode == UW_NODE_HIERARCHICAL &&
                 f->devices[0].cell != UW_SIM_NO_CELL;
    uint32_t n = w->config.node.mode == UW_NODE_ALLREDUCE ? f->devices_n : 0;
    for (uint32_t i = 0; cells && i < f->devices_n; i++) {
        n += f->devices[i].cell == f->devices[0].cell;
    }
    return n;
}

/* What is told otherwise, or changes nothing that is told. */
static bool untold(const char *flag)
{
    static const char *const flags[] = {"json", "csv", "label", "config", "dry-run", "devices",
                                        "epochs", "profile", "threads", "per-node", "checkpoint",
                                        "checkpoint-seconds", "resume", "scenario", "advise",
                                        "advise-seconds", "advise-runs"};
    for (uint32_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        if (strcmp(flag, flags[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* The flags that the event does not have yet, as they were given or by default. */
static void add_other_flags(cJSON *ev, const struct uw_sim_options *o)
{
    for (uint32_t i = 0; i < uw_sim_flags.n; i++) {
        const struct uw_opt *row = &uw_sim_flags.row[i];
        const void *at = (const char *)o + row->offset;
        char key[40];
        uw_opt_key(row->name, key, sizeof key);
        if (untold(row->name) || cJSON_HasObjectItem(ev, key)) {
            continue;
        }
        if (row->kind == UW_OPT_TEXT || row->kind == UW_OPT_CHOICE) {
            const char *text = *(const char *const *)at;
            cJSON_AddStringToObject(ev, key, text != NULL ? text : "");
        } else if (row->kind == UW_OPT_FLAG) {
            cJSON_AddBoolToObject(ev, key, *(const bool *)at);
        } else if (row->kind == UW_OPT_U32 || row->kind == UW_OPT_BYTES_U32) {
            cJSON_AddNumberToObject(ev, key, *(const uint32_t *)at);
        } else if (row->kind == UW_OPT_U64 || row->kind == UW_OPT_BYTES) {
            cJSON_AddNumberToObject(ev, key, (double)*(const uint64_t *)at);
        } else if (row->kind == UW_OPT_REAL) {
            cJSON_AddNumberToObject(ev, key, *(const double *)at);
        }
    }
}

static const char *step_text(const struct uw_sim_fleet *f, char text[64])
{
    uint64_t least_us = UINT64_MAX, most_us = 0;
    for (uint32_t i = 0; i < f->devices_n; i++) {
        uint64_t us = f->devices[i].step_us;
        least_us = us < least_us ? us : least_us;
        most_us = us > most_us ? us : most_us;
    }
    if (least_us == most_us) {
        snprintf(text, 64, "a step takes %.6g s", (double)most_us / 1e6);
    } else {
        snprintf(text, 64, "a step takes %.6g to %.6g s", (double)least_us / 1e6,
                 (double)most_us / 1e6);
    }
    return text;
}

/* The flags as they are in force. */
void uw_sim_report_start(struct uw_sim_report *r, const struct uw_world *w, uint32_t params_n)
{
    const struct uw_sim_options *o = r->o;
    double resumed_s = (double)(w->now_us - w->start_us) / 1e6;
    cJSON *ev = uw_event("start");
    cJSON_AddNumberToObject(ev, "nodes", o->nodes);
    cJSON_AddStringToObject(ev, "model", o->model);
    cJSON_AddNumberToObject(ev, "parameters", params_n);
    if (o->label != NULL) {
        cJSON_AddStringToObject(ev, "label", o->label);
    }
    if (o->config != NULL) {
        cJSON_AddStringToObject(ev, "config", o->config);
    }
    cJSON_AddStringToObject(ev, "data", o->data);
    cJSON_AddStringToObject(ev, "skew", o->skew);
    cJSON_AddStringToObject(ev, "exchange", o->exchange.mode.word);
    cJSON_AddStringToObject(ev, "schedule", uw_exchange_peers(&o->exchange)->name);
    cJSON_AddStringToObject(ev, "momentum_rule", o->exchange.rule->name);
    cJSON_AddNumberToObject(ev, "cell_nodes", cell_nodes(w));
    add_work(ev, r);
    double step_s = (double)w->config.fleet->devices[0].step_us / 1e6;
    cJSON_AddNumberToObject(ev, "step_seconds", step_s);
    cJSON_AddNumberToObject(ev, "start_spread", o->start_spread >= 0.0 ? o->start_spread : step_s);
    cJSON_AddNumberToObject(ev, "bandwidth", (double)o->bandwidth);
    cJSON_AddNumberToObject(ev, "latency", o->latency);
    cJSON_AddNumberToObject(ev, "loss", o->loss);
    cJSON_AddStringToObject(ev, "algorithm",
                            o->algorithm.word != NULL ? o->algorithm.word : "auto");
    add_other_flags(ev, o);
    if (r->resumed) {
        cJSON_AddNumberToObject(ev, "resumed_at", resumed_s);
    }
    uw_events_put(&r->events, ev);
    if (r->resumed) {
        uw_progress_say(&r->progress, "%s: going on after %.6g s of virtual time", r->o->resume,
                        resumed_s);
    }
    char step[64], each[48];
    if (r->steps == UW_SIM_STEPS_ENDLESS) {
        snprintf(each, sizeof each, "%.6g virtual seconds", o->virtual_seconds);
    } else {
        snprintf(each, sizeof each, "%llu step%s each", (unsigned long long)r->steps,
                 r->steps == 1 ? "" : "s");
    }
    uw_progress_say(&r->progress, "%u nodes, %u parameters, %s, %s of virtual time",
                    (unsigned)o->nodes, (unsigned)params_n, each,
                    step_text(w->config.fleet, step));
    r->train_us = uw_board_now_us();
    (void)uw_progress_due(&r->progress, r->train_us);   /* the first steps tell little */
}
