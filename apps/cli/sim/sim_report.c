/* SPDX-License-Identifier: Apache-2.0 */
#include "sim.h"
#include "sim_radio.h"
#include "base/args.h"

#include "uwasa/board.h"

#include <stdio.h>
#include <string.h>

#define COLUMNS 79u             /* of a live line, on a terminal of 80 */

static double virtual_s(const struct uw_world *w)
{
    return (double)(w->now_us - w->start_us) / 1e6;
}

/* Since start_us, of this process's clock. */
static double seconds(uint64_t start_us)
{
    return (double)(uw_board_now_us() - start_us) / 1e6;
}

int uw_sim_report_open(struct uw_sim_report *r, struct uw_error *err)
{
    int rc = uw_events_open_again(&r->events, r->o->json, err);
    rc = rc < 0 ? rc : uw_sim_csv_open(r, err);
    if (rc == UW_OK && !r->resumed) {
        uw_events_empty(&r->events);
    }
    return rc;
}

int uw_sim_report_close(struct uw_sim_report *r, struct uw_error *err)
{
    int rc = uw_events_close(&r->events, err);
    int csv_rc = uw_sim_csv_close(r, rc < 0 ? NULL : err);
    return rc < 0 ? rc : csv_rc;
}

/* ---- on the way ---- */

void uw_sim_report_trained(struct uw_sim_report *r, const struct uw_world *w, uint32_t node,
                           uint64_t step)
{
    r->node_steps++;
    if (r->o->timeline > 0.0) {
        uw_sim_timeline_step(r, w, node, step);
    }
}

/* "9.5", "950", "9.5k", "950k", "9.5M" */
static const char *short_count(double n, char text[UW_TEXT_BYTES])
{
    const char *unit = n >= 999500.0 ? "M" : n >= 999.5 ? "k" : "";
    double of = n >= 999500.0 ? n / 1e6 : n >= 999.5 ? n / 1e3 : n;
    snprintf(text, UW_TEXT_BYTES, of < 9.95 ? "%.1f%s" : "%.0f%s", of, unit);
    return text;
}

/* As much of it as a terminal has room for: the total of steps is shortened first. Steps are the
 * mean of the nodes, as in the ETA; who sleeps for long may have done none. */
static void write_line(char *line, size_t line_bytes, const struct uw_sim_report *r,
                       const struct uw_world *w, uint64_t step, const char *rest)
{
    char whole[32], brief[UW_TEXT_BYTES + 1], slowest[40] = "", count[UW_TEXT_BYTES];
    double at = virtual_s(w);
    uint64_t mean = r->node_steps / r->o->nodes;
    if (mean > step + step / 10u + 1u) {
        snprintf(slowest, sizeof slowest, ", slowest %llu", (unsigned long long)step);
    }
    bool endless = r->steps == UW_SIM_STEPS_ENDLESS;
    whole[0] = brief[0] = '\0';
    if (!endless) {
        snprintf(whole, sizeof whole, "/%llu", (unsigned long long)r->steps);
        snprintf(brief, sizeof brief, "/%s", short_count((double)r->steps, count));
    }
    const char *total[] = {whole, brief, brief, brief};
    for (int tries = 0; tries < 4; tries++) {
        int n = snprintf(line, line_bytes, "%u nodes  step %llu%s%s  %s%.*f s  %s",
                         (unsigned)r->o->nodes, (unsigned long long)mean, total[tries],
                         tries < 3 ? slowest : "", tries < 2 ? "virtual " : "",
                         at < 100.0 ? 2 : at < 10000.0 ? 1 : 0, at, rest);
        if (n >= 0 && (unsigned)n <= COLUMNS) {
            break;
        }
    }
}

static double share_of(const struct uw_sim_report *r, double steps, double virtual_seconds)
{
    double limit = r->trial != NULL ? r->trial->whole_s : r->o->virtual_seconds;
    double by_steps = r->steps != UW_SIM_STEPS_ENDLESS ? steps / (double)r->steps : 0.0;
    double by_time = limit > 0.0 ? virtual_seconds / limit : 0.0;
    double share = by_steps > by_time ? by_steps : by_time;
    return share < 1.0 ? share : 1.0;
}

double uw_sim_report_share(const struct uw_sim_report *r, const struct uw_world *w, double steps)
{
    return share_of(r, steps, virtual_s(w));
}

/* What a run that goes on had behind it when this process began. */
static double resumed_share(const struct uw_sim_report *r, const struct uw_world *w)
{
    double steps = (double)r->resumed_steps / (double)r->o->nodes;
    return r->resumed ? share_of(r, steps, (double)w->config.past.trained_us / 1e6) : 0.0;
}

/* What is left is counted in steps of all nodes: they take the time here, and in the end only
 * slow nodes have some left. */
bool uw_sim_report_step(struct uw_sim_report *r, const struct uw_world *w, uint64_t step,
                        const struct uw_sim_score *score)
{
    char eta[UW_TEXT_BYTES], speed[UW_TEXT_BYTES], known[32] = "", rest[96], line[192];
    if (r->trial != NULL) {
        return r->trial->on_step(r->trial, virtual_s(w));
    }
    if (!uw_progress_due(&r->progress, uw_board_now_us())) {
        return true;
    }
    if (score != NULL) {
        snprintf(known, sizeof known, "accuracy %.1f %%  ", 100.0 * score->accuracy);
    }
    double took = seconds(r->train_us), done = (double)(r->node_steps - r->resumed_steps);
    double nodes = r->o->nodes, share = uw_sim_report_share(r, w, (double)r->node_steps / nodes);
    double before = resumed_share(r, w);
    short_count(took > 0.0 ? done / took : 0.0, speed);
    uw_text_time(share > before ? took * (1.0 - share) / (share - before) : -1.0, eta);
    snprintf(rest, sizeof rest, "%s%s node-steps/s  ETA %s", known, speed, eta);
    write_line(line, sizeof line, r, w, step, rest);
    uw_progress_show(&r->progress, "%s", line);
    return true;
}

/* Multiples of what makes a test due. */
struct multiples {
    uint64_t epoch, steps, seconds;
};

static struct multiples passed(const struct uw_sim_report *r, const struct uw_world *w,
                               uint64_t step)
{
    const struct uw_sim_options *o = r->o;
    return (struct multiples){
        .epoch = o->eval_epochs != 0 ? step / r->per_epoch / o->eval_epochs : 0,
        .steps = o->eval_steps != 0 ? step / o->eval_steps : 0,
        .seconds = o->eval_seconds > 0.0 ? (uint64_t)(virtual_s(w) / o->eval_seconds) : 0};
}

bool uw_sim_report_near(const struct uw_sim_report *r, const struct uw_world *w, uint64_t step)
{
    if (r->trial != NULL) {
        return virtual_s(w) >= r->trial->next_s;
    }
    const struct multiples m = passed(r, w, step);
    return (m.epoch > r->epoch && step % (r->per_epoch * r->o->eval_epochs) == 0) ||
           (m.steps > r->eval_steps && step % r->o->eval_steps == 0) || m.seconds > r->evals;
}

bool uw_sim_report_due(struct uw_sim_report *r, const struct uw_world *w, uint64_t step)
{
    if (r->trial != NULL) {
        return uw_sim_report_near(r, w, step);
    }
    const struct multiples m = passed(r, w, step);
    bool due = m.epoch > r->epoch || m.steps > r->eval_steps || m.seconds > r->evals;
    r->epoch = m.epoch;
    r->eval_steps = m.steps;
    r->evals = m.seconds;
    return due;
}

uint32_t uw_sim_report_dues(const struct uw_sim_report *r, const struct uw_world *w, uint64_t step)
{
    const struct multiples m = passed(r, w, step);
    return (m.epoch > r->epoch ? 1u : 0u) | (m.steps > r->eval_steps ? 2u : 0u) |
           (m.seconds > r->evals ? 4u : 0u);
}

void uw_sim_report_go_on(struct uw_sim_report *r, const struct uw_world *w, uint64_t step)
{
    const struct multiples m = passed(r, w, step);
    if (!r->resumed) {
        return;
    }
    r->epoch = m.epoch - ((r->due & 1u) != 0 && m.epoch != 0 ? 1u : 0u);
    r->eval_steps = m.steps - ((r->due & 2u) != 0 && m.steps != 0 ? 1u : 0u);
    r->evals = m.seconds - ((r->due & 4u) != 0 && m.seconds != 0 ? 1u : 0u);
}

static struct uw_sim_moment moment_of(const struct uw_sim_report *r, const struct uw_world *w,
                                      uint64_t step, const struct uw_sim_score *s)
{
    return (struct uw_sim_moment){.epochs = (double)step / (double)r->per_epoch,
                                  .virtual_seconds = virtual_s(w),
                                  .bytes_sent = (double)uw_world_sent_bytes(w),
                                  .step = step,
                                  .score = s};
}

/* What a test and the end have in common. */
static void put_state(struct uw_sim_report *r, cJSON *ev, const struct uw_world *w, uint64_t step,
                      const struct uw_sim_score *s)
{
    const struct uw_sim_moment m = moment_of(r, w, step, s);
    cJSON_AddNumberToObject(ev, "epochs", m.epochs);
    cJSON_AddNumberToObject(ev, "steps", (double)step);
    cJSON_AddNumberToObject(ev, "virtual_seconds", m.virtual_seconds);
    cJSON_AddNumberToObject(ev, "test_accuracy", s->accuracy);
    cJSON_AddNumberToObject(ev, "worst_accuracy", s->worst);
    cJSON_AddNumberToObject(ev, "lower_quartile_accuracy", s->lower_quartile);
    cJSON_AddNumberToObject(ev, "upper_quartile_accuracy", s->upper_quartile);
    cJSON_AddNumberToObject(ev, "best_accuracy", s->best);
    cJSON_AddNumberToObject(ev, "mean_model_accuracy", s->mean_model_accuracy);
    cJSON_AddNumberToObject(ev, "test_loss", s->loss);
    cJSON_AddNumberToObject(ev, "bytes_sent", m.bytes_sent);
    cJSON_AddNumberToObject(ev, "consensus_distance", s->consensus_distance);
    cJSON_AddNumberToObject(ev, "eval_nodes", s->nodes);
    if (r->o->per_node) {
        cJSON_AddItemToObject(ev, "accuracies",
                              cJSON_CreateDoubleArray(s->accuracies, (int)s->nodes));
    }
    uw_sim_csv_put(r, &m);
}

bool uw_sim_report_eval(struct uw_sim_report *r, const struct uw_world *w, uint64_t step,
                        const struct uw_sim_score *s)
{
    if (r->trial != NULL) {
        const struct uw_sim_moment m = moment_of(r, w, step, s);
        return r->trial->on_test(r->trial, &m);
    }
    cJSON *ev = uw_event("eval");
    put_state(r, ev, w, step, s);
    uw_events_put(&r->events, ev);
    uw_progress_say(&r->progress,
                    "epoch %.4g  %.2f s  test accuracy %.2f %% (%.2f to %.2f), mean model %.2f %%",
                    (double)step / (double)r->per_epoch, virtual_s(w), 100.0 * s->accuracy,
                    100.0 * s->worst, 100.0 * s->best, 100.0 * s->mean_model_accuracy);
    return true;
}

void uw_sim_report_last_test(struct uw_sim_report *r)
{
    if (uw_progress_due(&r->progress, uw_board_now_us()) || r->progress.terminal) {
        uw_progress_show(&r->progress, "%u nodes  the steps are done, the last test takes all "
                         "samples", (unsigned)r->o->nodes);
    }
}

void uw_sim_report_absences(struct uw_sim_report *r, const struct uw_world *w,
                            const struct uw_sim_draw *d)
{
    uint64_t took_us = w->now_us - w->start_us, first_us = uw_sim_fleet_first_away_us(&d->fleet);
    if (first_us != UINT64_MAX && first_us >= took_us) {
        uw_progress_say(&r->progress, "nobody was away: the first absence begins after %.6g s, and "
                        "the run took %.6g s", 1e-6 * (double)first_us, 1e-6 * (double)took_us);
    }
    if (took_us > d->until_us) {
        uw_progress_say(&r->progress, "absences were drawn for %.6g s only: then all were there",
                        1e-6 * (double)d->until_us);
    }
}

void uw_sim_report_stopped(struct uw_sim_report *r, const struct uw_world *w, uint64_t step,
                           const struct uw_sim_score *s)
{
    cJSON *ev = uw_event("stopped");
    cJSON_AddNumberToObject(ev, "epochs", (double)step / (double)r->per_epoch);
    cJSON_AddNumberToObject(ev, "steps", (double)step);
    cJSON_AddNumberToObject(ev, "node_steps", (double)r->node_steps);
    cJSON_AddNumberToObject(ev, "virtual_seconds", virtual_s(w));
    cJSON_AddNumberToObject(ev, "bytes_sent", (double)uw_world_sent_bytes(w));
    if (s != NULL) {        /* of the last test */
        cJSON_AddNumberToObject(ev, "test_accuracy", s->accuracy);
        cJSON_AddNumberToObject(ev, "mean_model_accuracy", s->mean_model_accuracy);
    }
    cJSON_AddNumberToObject(ev, "seconds", seconds(r->start_us));
    uw_events_put(&r->events, ev);
}

/* Of a radio. */
static void put_air(cJSON *ev, const struct uw_world *w)
{
    uint64_t busy_us, frames_n;
    if (w->config.radio != NULL) {
        uw_world_air(w, &busy_us, &frames_n);
        cJSON_AddNumberToObject(ev, "air_seconds", 1e-6 * (double)busy_us);
        cJSON_AddNumberToObject(ev, "air_frames", (double)frames_n);
    }
}

/* Over a radio also that there were none: they may take longer than the run. */
static void print_exchanges(const struct uw_sim_report *r, const struct uw_world *w,
                            const struct uw_node_counters *c)
{
    bool radio = w->config.radio != NULL, averages = w->config.node.mode == UW_NODE_BROADCAST;
    if (c->pulls_done + c->pulls_cut != 0 || (radio && !averages)) {
        printf("pulls          %u whole, %u cut, %u of nothing new\n", (unsigned)c->pulls_done,
               (unsigned)c->pulls_cut, (unsigned)c->pulls_stale);
    }
    if (r->o->exchange.period.automatic) {
        printf("period         %.1f steps at the end, mean of all nodes\n",
               (double)c->period_steps / r->o->nodes);
    }
    if (c->averages_done + c->averages_cut != 0 || (radio && averages)) {
        printf("averages       %u taken, %u given up\n", (unsigned)c->averages_done,
               (unsigned)c->averages_cut);
    }
    if (radio && c->pulls_done + c->averages_done == 0) {
        uw_sim_radio_print_none(r->o, w->config.params->size_n);
    }
}

void uw_sim_report_done(struct uw_sim_report *r, const struct uw_world *w, uint64_t step,
                        const struct uw_sim_score *s)
{
    struct uw_node_counters c = uw_world_counters(w);
    double sent = (double)uw_world_sent_bytes(w);
    cJSON *ev = uw_event("done");
    char text[UW_TEXT_BYTES];
    put_state(r, ev, w, step, s);
    put_air(ev, w);
    cJSON_AddNumberToObject(ev, "nodes", r->o->nodes);
    cJSON_AddNumberToObject(ev, "pulls_done", c.pulls_done);
    cJSON_AddNumberToObject(ev, "pulls_cut", c.pulls_cut);
    cJSON_AddNumberToObject(ev, "pulls_stale", c.pulls_stale);
    if (r->o->exchange.period.automatic) {
        cJSON_AddNumberToObject(ev, "period_steps", (double)c.period_steps / r->o->nodes);
    }
    cJSON_AddNumberToObject(ev, "averages_done", c.averages_done);
    cJSON_AddNumberToObject(ev, "averages_cut", c.averages_cut);
    cJSON_AddNumberToObject(ev, "pairs_half", c.pairs_half);
    if (r->o->timeline > 0.0) {
        cJSON_AddNumberToObject(ev, "exchanges_told", r->exchanges_told);
        cJSON_AddNumberToObject(ev, "exchanges_untold", r->exchanges_untold);
    }
    cJSON_AddNumberToObject(ev, "seconds", seconds(r->start_us));
    bool quiet = uw_events_take_stdout(&r->events);
    uw_events_put(&r->events, ev);
    uw_progress_clear(&r->progress);
    if (quiet) {
        return;
    }
    printf("test accuracy  %.2f %%, mean of %u nodes", 100.0 * s->accuracy, (unsigned)s->nodes);
    if (s->nodes < r->o->nodes) {
        printf(" of %u", (unsigned)r->o->nodes);
    }
    printf(" (%.2f to %.2f)\n", 100.0 * s->worst, 100.0 * s->best);
    printf("mean model     %.2f %%\n", 100.0 * s->mean_model_accuracy);
    printf("virtual time   %.3f s, %llu step%s each\n", virtual_s(w), (unsigned long long)step,
           step == 1 ? "" : "s");
    printf("sent           %s", uw_text_bytes(sent, text));
    printf(", %s a node\n", uw_text_bytes(sent / (double)r->o->nodes, text));
    print_exchanges(r, w, &c);
}
