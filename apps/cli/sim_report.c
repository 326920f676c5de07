/* SPDX-License-Identifier: Apache-2.0 */
#include "args.h"
#include "sim.h"

#include "uwasa/board.h"

#include <stdio.h>

static double virtual_s(const struct uw_world *w)
{
    return (double)(w->now_us - w->start_us) / 1e6;
}

static double seconds(const struct uw_sim_report *r)
{
    return (double)(uw_board_now_us() - r->start_us) / 1e6;
}

/* Nodes that average exactly with the first one. */
static uint32_t cell_nodes(const struct uw_world *w)
{
    const struct uw_sim_fleet *f = w->config.fleet;
    uint32_t n = w->config.node.mode == UW_NODE_ALLREDUCE ? f->devices_n : 0;
    for (uint32_t i = 0; f->devices[0].cell != UW_SIM_NO_CELL && i < f->devices_n; i++) {
        n += f->devices[i].cell == f->devices[0].cell;
    }
    return n;
}

void uw_sim_report_start(struct uw_sim_report *r, const struct uw_world *w, uint32_t params_n)
{
    const struct uw_sim_options *o = r->o;
    cJSON *ev = uw_event("start");
    cJSON_AddNumberToObject(ev, "nodes", o->nodes);
    cJSON_AddStringToObject(ev, "model", o->model);
    cJSON_AddNumberToObject(ev, "parameters", params_n);
    cJSON_AddStringToObject(ev, "data", o->data);
    cJSON_AddStringToObject(ev, "skew", o->skew);
    cJSON_AddStringToObject(ev, "exchange", o->exchange);
    cJSON_AddStringToObject(ev, "schedule", o->schedule);
    cJSON_AddStringToObject(ev, "momentum_rule", o->momentum_rule);
    cJSON_AddNumberToObject(ev, "cell_nodes", cell_nodes(w));
    cJSON_AddNumberToObject(ev, "period", o->period);
    cJSON_AddNumberToObject(ev, "batch", o->batch);
    cJSON_AddNumberToObject(ev, "lr", o->lr);
    cJSON_AddStringToObject(ev, "lr_schedule", o->lr_schedule);
    cJSON_AddNumberToObject(ev, "steps", (double)r->steps);
    cJSON_AddNumberToObject(ev, "steps_per_epoch", (double)r->per_epoch);
    cJSON_AddNumberToObject(ev, "step_seconds", (double)w->config.fleet->devices[0].step_us / 1e6);
    cJSON_AddNumberToObject(ev, "bandwidth", (double)o->bandwidth);
    cJSON_AddNumberToObject(ev, "latency", o->latency);
    cJSON_AddNumberToObject(ev, "seed", (double)o->seed);
    uw_events_put(&r->events, ev);
    uw_progress_say(&r->progress,
                    "%u nodes, %u parameters, %llu steps each, a step takes %.6g s of virtual time",
                    (unsigned)o->nodes, (unsigned)params_n, (unsigned long long)r->steps,
                    (double)w->config.fleet->devices[0].step_us / 1e6);
}

void uw_sim_report_step(struct uw_sim_report *r, const struct uw_world *w, uint64_t step,
                        const struct uw_sim_score *score)
{
    char eta[UW_TEXT_BYTES], known[64] = "";
    if (!uw_progress_due(&r->progress, uw_board_now_us())) {
        return;
    }
    if (score != NULL) {
        snprintf(known, sizeof known, "accuracy %.2f %% (%.2f to %.2f)  ", 100.0 * score->accuracy,
                 100.0 * score->worst, 100.0 * score->best);
    }
    double left = step != 0 ? seconds(r) * (double)(r->steps - step) / (double)step : -1.0;
    uw_progress_show(&r->progress, "step %llu/%llu  virtual %.2f s  %sETA %s",
                     (unsigned long long)step, (unsigned long long)r->steps, virtual_s(w), known,
                     uw_text_time(left, eta));
}

/* What a test and the end have in common. */
static void add_state(cJSON *ev, const struct uw_sim_report *r, const struct uw_world *w,
                      uint64_t step, const struct uw_sim_score *s)
{
    cJSON_AddNumberToObject(ev, "epochs", (double)step / (double)r->per_epoch);
    cJSON_AddNumberToObject(ev, "steps", (double)step);
    cJSON_AddNumberToObject(ev, "virtual_seconds", virtual_s(w));
    cJSON_AddNumberToObject(ev, "test_accuracy", s->accuracy);
    cJSON_AddNumberToObject(ev, "worst_accuracy", s->worst);
    cJSON_AddNumberToObject(ev, "best_accuracy", s->best);
    cJSON_AddNumberToObject(ev, "mean_model_accuracy", s->mean_model_accuracy);
    cJSON_AddNumberToObject(ev, "test_loss", s->loss);
    cJSON_AddNumberToObject(ev, "bytes_sent", (double)uw_world_sent_bytes(w));
}

void uw_sim_report_eval(struct uw_sim_report *r, const struct uw_world *w, uint64_t step,
                        const struct uw_sim_score *s)
{
    cJSON *ev = uw_event("eval");
    add_state(ev, r, w, step, s);
    uw_events_put(&r->events, ev);
    uw_progress_say(&r->progress,
                    "epoch %llu  virtual %.2f s  test accuracy %.2f %% (%.2f to %.2f), of the mean "
                    "model %.2f %%",
                    (unsigned long long)(step / r->per_epoch), virtual_s(w), 100.0 * s->accuracy,
                    100.0 * s->worst, 100.0 * s->best, 100.0 * s->mean_model_accuracy);
}

void uw_sim_report_done(struct uw_sim_report *r, const struct uw_world *w, uint64_t step,
                        const struct uw_sim_score *s)
{
    struct uw_node_counters c = uw_world_counters(w);
    double sent = (double)uw_world_sent_bytes(w);
    cJSON *ev = uw_event("done");
    char text[UW_TEXT_BYTES];
    add_state(ev, r, w, step, s);
    cJSON_AddNumberToObject(ev, "nodes", r->o->nodes);
    cJSON_AddNumberToObject(ev, "pulls_done", c.pulls_done);
    cJSON_AddNumberToObject(ev, "pulls_cut", c.pulls_cut);
    cJSON_AddNumberToObject(ev, "averages_done", c.averages_done);
    cJSON_AddNumberToObject(ev, "averages_cut", c.averages_cut);
    cJSON_AddNumberToObject(ev, "pairs_half", c.pairs_half);
    cJSON_AddNumberToObject(ev, "seconds", seconds(r));
    bool quiet = uw_events_take_stdout(&r->events);
    uw_events_put(&r->events, ev);
    uw_progress_clear(&r->progress);
    if (quiet) {
        return;
    }
    printf("test accuracy  %.2f %%, mean of %u nodes (%.2f to %.2f)\n", 100.0 * s->accuracy,
           (unsigned)r->o->nodes, 100.0 * s->worst, 100.0 * s->best);
    printf("mean model     %.2f %%\n", 100.0 * s->mean_model_accuracy);
    printf("virtual time   %.3f s, %llu steps each\n", virtual_s(w), (unsigned long long)step);
    printf("sent           %s", uw_text_bytes(sent, text));
    printf(", %s a node\n", uw_text_bytes(sent / (double)r->o->nodes, text));
    if (c.pulls_done + c.pulls_cut != 0) {
        printf("pulls          %u whole, %u cut\n", (unsigned)c.pulls_done,
               (unsigned)c.pulls_cut);
    }
    if (c.averages_done + c.averages_cut != 0) {
        printf("averages       %u taken, %u given up\n", (unsigned)c.averages_done,
               (unsigned)c.averages_cut);
    }
}
