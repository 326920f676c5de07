/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_draw.h"

#include "base/args.h"
#include "base/progress.h"
#include "links/link_cost.h"

#include "uwasa/board.h"
#include "uwasa/describe.h"
#include "uwasa/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEASURED_STEPS 15u
#define MEASURED_LEAST 3u           /* least number of steps ... */
#define MEASURED_US 300000u         /* ... after which no step begins later than this */

static void add_products(void *arg, const struct uw_layer_info *layer)
{
    uint64_t *sum = arg;
    *sum += layer->passes * layer->multiply_adds;
}

int uw_sim_fleet_draw(struct uw_sim_draw *d, const struct uw_sim_scenario *scenario,
                      const struct uw_job *job, uint64_t measured_us, struct uw_error *err)
{
    struct uw_sim_cost cost = {.measured_us = measured_us};
    const struct uw_visitor v = {.layer = add_products, .arg = &cost.multiply_adds};
    *d = (struct uw_sim_draw){.until_us = UINT64_MAX};
    int rc = uw_model_describe(&job->config, &v, err);
    cost.multiply_adds *= job->config.batch_n;
    return rc < 0 ? rc : uw_sim_draw_open(d, scenario, &cost, err);
}

void uw_sim_fleet_start(struct uw_sim_fleet *f, double seconds, uint64_t seed)
{
    struct uw_rng rng;
    uw_rng_seed(&rng, seed);
    for (uint32_t i = 0; i < f->devices_n; i++) {
        struct uw_sim_device *v = &f->devices[i];
        double within_us = seconds >= 0.0 ? seconds * 1e6 : (double)v->step_us;
        v->start_us = (uint64_t)(within_us * (double)uw_rng_uniform(&rng));
    }
}

/* ---- what was drawn, as a table and as an event ---- */

enum unit { BITS, SECONDS, STEP_SECONDS, SHARE };

struct column {
    const char *name, *key;         /* in the table, in events */
    enum unit unit;
};

enum { UP, DOWN, LATENCY, STEP, THERE, COLUMNS };

static const struct column columns[COLUMNS] = {
    {"up", "up", BITS}, {"down", "down", BITS}, {"latency", "latency", SECONDS},
    {"step", "step_seconds", STEP_SECONDS}, {"there", "there", SHARE}};

#define CELL_COLUMNS 4u

static const struct column cell_columns[CELL_COLUMNS] = {
    {"inside", "bandwidth", BITS}, {"latency", "latency", SECONDS},
    {"out", "out_bandwidth", BITS}, {"latency out", "out_latency", SECONDS}};

/* What to show, and buffers for a value of each device or cell. */
struct show {
    const struct uw_sim_draw *d;
    bool radio;                     /* it has its own rate and no latency */
    bool print;
    double *scratch;                /* [devices_n]: a cell has a device at least */
    uint32_t *sizes;                /* [cells_n] */
};

/* End of the period for which the devices' share of presence is reported. */
static uint64_t horizon_us(const struct uw_sim_draw *d)
{
    uint64_t last_us = 0;
    for (uint32_t i = 0; i < d->fleet.devices_n; i++) {
        const struct uw_sim_device *v = &d->fleet.devices[i];
        if (v->absences_n != 0 && v->absences[v->absences_n - 1u].to_us > last_us) {
            last_us = v->absences[v->absences_n - 1u].to_us;
        }
    }
    return d->until_us != UINT64_MAX ? d->until_us : last_us;
}

static double rate_or_all(uint64_t bits_per_s)
{
    return bits_per_s != 0 ? (double)bits_per_s : HUGE_VAL;
}

static double device_value(const struct uw_sim_draw *d, uint32_t i, int column, uint64_t end_us)
{
    const struct uw_sim_device *v = &d->fleet.devices[i];
    return column == UP        ? rate_or_all(v->up_bits_per_s)
           : column == DOWN    ? rate_or_all(v->down_bits_per_s)
           : column == LATENCY ? 2e-6 * (double)v->latency_us
           : column == STEP    ? 1e-6 * (double)v->step_us
                               : uw_sim_draw_there(d, i, end_us);
}

static double cell_value(const struct uw_sim_cell *c, uint32_t column)
{
    return column == 0   ? rate_or_all(c->bits_per_s)
           : column == 1 ? 1e-6 * (double)c->latency_us
           : column == 2 ? rate_or_all(c->out_bits_per_s)
                         : 1e-6 * (double)c->out_latency_us;
}

/* Median and extremes of a column over the devices of a group. */
static struct uw_spread spread_of(const struct show *s, uint32_t group, int column)
{
    uint64_t end_us = column == THERE ? horizon_us(s->d) : 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->d->fleet.devices_n; i++) {
        if (s->d->group[i] == group) {
            s->scratch[n++] = device_value(s->d, i, column, end_us);
        }
    }
    return uw_spread_of(s->scratch, n);
}

static uint32_t stragglers_of(const struct uw_sim_draw *d, uint32_t group)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < d->fleet.devices_n; i++) {
        n += d->group[i] == group && d->straggler[i];
    }
    return n;
}

static const char *scaled(double x, const char *unit, char text[UW_TEXT_BYTES])
{
    static const struct {
        double from;
        const char *prefix;
    } scales[] = {{1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1.0, ""}, {1e-3, "m"}, {1e-6, "u"}};
    size_t i = 0;
    while (i + 1u < sizeof scales / sizeof scales[0] && x < scales[i].from * 0.9995) {
        i++;
    }
    if (x == 0.0) {
        snprintf(text, UW_TEXT_BYTES, "0 %s", unit);
    } else {
        snprintf(text, UW_TEXT_BYTES, "%.3g %s%s", x / scales[i].from, scales[i].prefix, unit);
    }
    return text;
}

static const char *value_text(double x, enum unit unit, char text[UW_TEXT_BYTES])
{
    if (unit == SHARE) {
        snprintf(text, UW_TEXT_BYTES, "%.1f %%", 100.0 * x);
    } else if (unit == STEP_SECONDS && x >= 1000.0) {
        snprintf(text, UW_TEXT_BYTES, "%.3g s", x);
    } else if (isinf(x)) {
        snprintf(text, UW_TEXT_BYTES, "unlimited");
    } else {
        scaled(x, unit == BITS ? "bit/s" : "s", text);
    }
    return text;
}

static void print_spread(const struct column *c, struct uw_spread e)
{
    char low[UW_TEXT_BYTES], median[UW_TEXT_BYTES], high[UW_TEXT_BYTES];
    printf("  %-12s %14s %14s %14s\n", c->name, value_text(e.low, c->unit, low),
           value_text(e.median, c->unit, median), value_text(e.high, c->unit, high));
}

/* 0: unlimited. */
static cJSON *as_number(double value)
{
    return cJSON_CreateNumber(isinf(value) ? 0.0 : value);
}

static void print_group(const struct uw_sim_group *group, uint32_t slow)
{
    printf("%s: %u nodes", group->name, (unsigned)group->count);
    if (group->kind != NULL && group->step == UW_SIM_STEP_KIND) {
        printf(", as fast as %s", group->kind->name);
    } else if (group->step == UW_SIM_STEP_MEASURED) {
        printf(", as fast as this machine");
    }
    if (slow != 0) {
        printf(", %u of them stragglers", (unsigned)slow);
    }
    if (group->loss > 0.0) {
        printf(", %.3g %% of what they send is lost", 100.0 * group->loss);
    }
    if (group->attack != UW_SIM_HONEST) {
        printf(", attackers");
    }
    printf("\n");
}

static cJSON *show_group(const struct show *s, uint32_t g)
{
    const struct uw_sim_group *group = &s->d->scenario->groups[g];
    uint32_t slow = stragglers_of(s->d, g);
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "name", group->name);
    cJSON_AddNumberToObject(object, "nodes", group->count);
    cJSON_AddStringToObject(object, "step", group->step == UW_SIM_STEP_MEASURED  ? "measured"
                                            : group->step == UW_SIM_STEP_SECONDS ? "seconds"
                                                                                 : "device");
    if (group->kind != NULL) {
        cJSON_AddStringToObject(object, "device", group->kind->name);
    }
    UW_EVENT_NUMBERS(object, {"stragglers", slow}, {"loss", group->loss});
    if (s->print) {
        print_group(group, slow);
    }
    for (int c = s->radio ? STEP : UP; c < COLUMNS; c++) {
        const struct uw_spread e = spread_of(s, g, c);
        cJSON *array = cJSON_AddArrayToObject(object, columns[c].key);
        cJSON_AddItemToArray(array, as_number(e.low));
        cJSON_AddItemToArray(array, as_number(e.median));
        cJSON_AddItemToArray(array, as_number(e.high));
        if (s->print) {
            print_spread(&columns[c], e);
        }
    }
    return object;
}

static cJSON *cell_event(const struct uw_sim_cell *c, uint32_t nodes)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddNumberToObject(object, "nodes", nodes);
    cJSON_AddBoolToObject(object, "shared", c->shared);
    for (uint32_t i = 0; i < CELL_COLUMNS; i++) {
        cJSON_AddItemToObject(object, cell_columns[i].key, as_number(cell_value(c, i)));
    }
    return object;
}

static void print_cells(const struct show *s)
{
    const struct uw_sim_fleet *f = &s->d->fleet;
    uint32_t shared = 0, least = UINT32_MAX, most = 0;
    for (uint32_t cell = 0; cell < f->cells_n; cell++) {
        shared += f->cells[cell].shared;
        least = s->sizes[cell] < least ? s->sizes[cell] : least;
        most = s->sizes[cell] > most ? s->sizes[cell] : most;
    }
    if (f->cells_n == 0) {
        return;
    }
    printf("cells: %u of %u", (unsigned)f->cells_n, (unsigned)least);
    if (most != least) {
        printf(" to %u", (unsigned)most);
    }
    printf(" nodes");
    if (shared != 0) {
        printf(", %u of them with one channel for all inside", (unsigned)shared);
    }
    printf("\n");
    for (uint32_t i = 0; i < CELL_COLUMNS; i++) {
        for (uint32_t cell = 0; cell < f->cells_n; cell++) {
            s->scratch[cell] = cell_value(&f->cells[cell], i);
        }
        print_spread(&cell_columns[i], uw_spread_of(s->scratch, f->cells_n));
    }
}

static void print_absences(const struct uw_sim_draw *d)
{
    uint64_t first_us = uw_sim_fleet_first_away_us(&d->fleet);
    if (first_us != UINT64_MAX) {
        printf("the first absence begins after %.6g s\n", 1e-6 * (double)first_us);
    }
    if (d->until_us != UINT64_MAX) {
        printf("absences are drawn for %.6g s; from then on no device is away\n",
               1e-6 * (double)d->until_us);
    }
}

static void add_absences(cJSON *ev, const struct uw_sim_draw *d)
{
    uint64_t first_us = uw_sim_fleet_first_away_us(&d->fleet);
    if (first_us != UINT64_MAX) {
        cJSON_AddNumberToObject(ev, "first_absence", 1e-6 * (double)first_us);
    }
    if (d->until_us != UINT64_MAX) {
        cJSON_AddNumberToObject(ev, "absences_until", 1e-6 * (double)d->until_us);
    }
}

int uw_sim_fleet_show(struct uw_events *events, const struct uw_sim_draw *d, bool radio, bool print)
{
    const struct uw_sim_fleet *f = &d->fleet;
    struct show s = {.d = d, .radio = radio, .print = print};
    s.scratch = calloc((size_t)f->devices_n + f->cells_n, sizeof *s.scratch);
    if (s.scratch == NULL) {
        return UW_ERR_NOMEM;
    }
    s.sizes = (uint32_t *)(s.scratch + f->devices_n);
    uw_sim_fleet_count(f, s.sizes);
    if (print) {
        printf("%u nodes, drawn with seed %llu\n  %-12s %14s %14s %14s\n", (unsigned)f->devices_n,
               (unsigned long long)d->scenario->seed, "", "lowest", "median", "highest");
    }
    cJSON *ev = uw_event("fleet");
    UW_EVENT_NUMBERS(ev, {"nodes", f->devices_n}, {"seed", (double)d->scenario->seed});
    cJSON *groups = cJSON_AddArrayToObject(ev, "groups");
    for (uint32_t g = 0; g < d->scenario->groups_n; g++) {
        cJSON_AddItemToArray(groups, show_group(&s, g));
    }
    cJSON *cells = cJSON_AddArrayToObject(ev, "cells");
    for (uint32_t c = 0; c < f->cells_n; c++) {
        cJSON_AddItemToArray(cells, cell_event(&f->cells[c], s.sizes[c]));
    }
    if (print) {
        print_cells(&s);
        print_absences(d);
    }
    add_absences(ev, d);
    uw_events_put(events, ev);
    free(s.scratch);
    return UW_OK;
}

int uw_sim_time_step(struct uw_job *job, uint32_t n, uint64_t *took_us, struct uw_error *err)
{
    struct uw_step_result result;
    double us[MEASURED_STEPS];
    uint64_t first_us = uw_board_now_us(), start_us = first_us;
    uint32_t steps = 0;
    while (steps < MEASURED_LEAST ||
           (steps < MEASURED_STEPS && start_us - first_us < MEASURED_US)) {
        int rc = uw_model_train_step(&job->model, &(struct uw_minibatch){.n = n}, &result, err);
        if (rc < 0) {
            return rc;
        }
        uint64_t now_us = uw_board_now_us();
        us[steps++] = (double)(now_us - start_us);
        start_us = now_us;
    }
    *took_us = (uint64_t)uw_spread_of(us, steps).median;
    return UW_OK;
}

/* ---- the table of devices ---- */

static cJSON *device_event(const struct uw_sim_kind *k)
{
    cJSON *ev = uw_event("device");
    cJSON_AddStringToObject(ev, "name", k->name);
    cJSON_AddStringToObject(ev, "what", k->what);
    UW_EVENT_NUMBERS(ev, {"clock_hz", k->clock_hz}, {"per_cycle", k->per_cycle},
                     {"efficiency", k->efficiency}, {"multiply_adds_per_s", uw_sim_kind_rate(k)});
    cJSON_AddStringToObject(ev, "source", k->source);
    if (k->link_bits_per_s != 0) {
        cJSON_AddNumberToObject(ev, "bandwidth", (double)k->link_bits_per_s);
        cJSON_AddStringToObject(ev, "link_source", k->link_source);
    }
    return ev;
}

static void print_device(const struct uw_sim_kind *k)
{
    char clock[UW_TEXT_BYTES], rate[UW_TEXT_BYTES], link[UW_TEXT_BYTES] = "not known";
    if (k->link_bits_per_s != 0) {
        scaled((double)k->link_bits_per_s, "bit/s", link);
    }
    printf("%-19s %9s %8.4g %6.2g %9s  %10s  %s\n", k->name, scaled(k->clock_hz, "Hz", clock),
           k->per_cycle, k->efficiency, scaled(uw_sim_kind_rate(k), "", rate), link, k->what);
    printf("    %s\n", k->source);
    if (k->link_source != NULL) {
        printf("    link: %s\n", k->link_source);
    }
}

int uw_sim_print_devices(const char *json)
{
    struct uw_events events;
    struct uw_error err = {.text = ""};
    const struct uw_sim_kind *k;
    int rc = uw_events_open(&events, json, UW_EVENTS_TIMELESS, &err);
    bool quiet = rc == UW_OK && uw_events_take_stdout(&events);
    if (rc == UW_OK && !quiet) {
        printf("Assumptions: multiply-adds a second = clock x multiply-adds a cycle x efficiency\n"
               "%-19s %9s %8s %6s %9s  %10s\n", "", "clock", "a cycle", "eff.", "a second",
               "link");
    }
    for (uint32_t i = 0; rc == UW_OK && (k = uw_sim_kind_at(i)) != NULL; i++) {
        if (!quiet) {
            print_device(k);
        }
        uw_events_put(&events, device_event(k));
    }
    if (rc == UW_OK) {
        uw_events_put(&events, uw_event("done"));
        rc = uw_events_close(&events, &err);
    }
    return rc < 0 ? uw_cli_error("sim", UW_EXIT_FAILED, "%s", err.text) : UW_EXIT_DONE;
}

/* ---- a radio that all devices share ---- */

static double mean_loss(const struct uw_sim_scenario *s)
{
    double sum = 0.0, devices = 0.0;
    for (uint32_t g = 0; g < s->groups_n; g++) {
        sum += s->groups[g].count * s->groups[g].loss;
        devices += s->groups[g].count;
    }
    return devices > 0.0 ? sum / devices : 0.0;
}

struct uw_sim_radio uw_sim_radio_foresee(const struct uw_sim_options *o, uint32_t floats_n,
                                         uint64_t steps, double step_s)
{
    uint32_t slices = o->exchange.slices > 1u ? o->exchange.slices : 1u;
    double share = uw_exchange_share(&o->exchange);
    const struct uw_link_cost_config config = {
        .link = o->radio, .floats_n = (floats_n - 1u) / slices + 1u, .nodes_n = o->nodes,
        .loss = mean_loss(o->scenario), .share = share > 0.0 ? share : 1.0};
    struct uw_link_cost cost;
    uw_link_cost(&config, &cost);
    struct uw_sim_radio r = {.averages = o->exchange.mode.at == UW_NODE_BROADCAST};
    r.one_s = r.averages ? cost.average.seconds : cost.pull.seconds;
    r.round_s = r.averages ? cost.average.seconds : cost.round.seconds;
    double train_s = steps != UW_SIM_STEPS_ENDLESS ? (double)steps * step_s : o->virtual_seconds;
    train_s = o->virtual_seconds > 0.0 ? fmin(train_s, o->virtual_seconds) : train_s;
    double period_s = o->exchange.period.automatic ? cost.period_s : o->exchange.period.n * step_s;
    r.exchanges = floor(train_s / fmax(period_s, r.round_s)) * o->nodes;
    return r;
}

void uw_sim_radio_print(const struct uw_sim_options *o, const struct uw_sim_radio *r)
{
    const struct uw_radio_profile *p = &o->radio;
    char one[UW_TEXT_BYTES], round[UW_TEXT_BYTES];
    printf("%s: %.4g kbit/s, frames of %u bytes, one channel for all", o->link,
           1e-3 * (double)p->rate_bits_per_s, (unsigned)p->frame_bytes);
    if (p->duty_ppm != 0) {
        printf(", each sends for %.4g %% of the time at most", 1e-4 * p->duty_ppm);
    }
    if (r->averages) {
        printf("\nan average by broadcast takes %s: about %.0f in this run; see uwasa plan "
               "--link\n",
               uw_text_duration(r->one_s, one), r->exchanges / o->nodes);
    } else {
        printf("\none pull takes %s, one of every node %s: about %.0f pulls in this run; see uwasa "
               "plan --link\n", uw_text_duration(r->one_s, one),
               uw_text_duration(r->round_s, round), r->exchanges);
    }
}

void uw_sim_radio_print_none(const struct uw_sim_options *o, uint32_t floats_n)
{
    const struct uw_sim_radio r = uw_sim_radio_foresee(o, floats_n, 0, 0.0);
    char one[UW_TEXT_BYTES];
    printf("               nothing was exchanged: %s takes %s here, see uwasa plan --link %s\n",
           r.averages ? "an average" : "a pull", uw_text_duration(r.one_s, one), o->link);
}

void uw_sim_radio_put(cJSON *ev, const struct uw_sim_options *o, const struct uw_sim_radio *r)
{
    cJSON *at = cJSON_AddObjectToObject(ev, "radio");
    cJSON_AddStringToObject(at, "link", o->link);
    UW_EVENT_NUMBERS(at, {"bits_per_s", (double)o->radio.rate_bits_per_s},
                     {"frame_bytes", o->radio.frame_bytes}, {"duty", 1e-6 * o->radio.duty_ppm});
    cJSON_AddBoolToObject(at, "shared", o->radio.shared);
    UW_EVENT_NUMBERS(at, {"exchange_seconds", r->one_s}, {"round_seconds", r->round_s},
                     {"exchanges", r->exchanges});
}
