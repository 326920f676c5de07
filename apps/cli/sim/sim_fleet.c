/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_fleet.h"

#include "base/args.h"
#include "base/events.h"
#include "base/progress.h"

#include "uwasa/board.h"
#include "uwasa/describe.h"
#include "uwasa/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEASURED_STEPS 15u
#define MEASURED_LEAST 3u           /* steps, of those that take long ... */
#define MEASURED_US 300000u         /* ... and no further one begins so late */

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

/* ---- a dry run ---- */

/* Lowest, median, highest of a value over the devices of a group. */
struct extent {
    double low, median, high;
};

enum column { COLUMN_UP, COLUMN_DOWN, COLUMN_LATENCY, COLUMN_STEP, COLUMN_THERE, COLUMNS };

static const char *const column_names[] = {"up", "down", "latency", "step", "there"};
static const char *const column_keys[] = {"up", "down", "latency", "step_seconds", "there"};

/* A radio has its own rate and no latency. */
static int first_column(bool radio)
{
    return radio ? COLUMN_STEP : COLUMN_UP;
}

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Until when the share of time that devices are there is told. */
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

/* Seconds, bits a second, a share. */
static double value_of(const struct uw_sim_draw *d, uint32_t i, enum column column, uint64_t end_us)
{
    const struct uw_sim_device *v = &d->fleet.devices[i];
    switch (column) {
    case COLUMN_UP:
        return rate_or_all(v->up_bits_per_s);
    case COLUMN_DOWN:
        return rate_or_all(v->down_bits_per_s);
    case COLUMN_LATENCY:
        return 2e-6 * (double)v->latency_us;
    case COLUMN_STEP:
        return 1e-6 * (double)v->step_us;
    case COLUMN_THERE:
    case COLUMNS:
        break;
    }
    return uw_sim_draw_there(d, i, end_us);
}

static struct extent extent(double *x, uint32_t n)
{
    qsort(x, n, sizeof *x, by_size);
    double median = n % 2u != 0 ? x[n / 2u] : 0.5 * (x[n / 2u - 1u] + x[n / 2u]);
    return (struct extent){x[0], median, x[n - 1u]};
}

static struct extent extent_of(const struct uw_sim_draw *d, uint32_t group, enum column column,
                               double *scratch)
{
    uint64_t end_us = column == COLUMN_THERE ? horizon_us(d) : 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < d->fleet.devices_n; i++) {
        if (d->group[i] == group) {
            scratch[n++] = value_of(d, i, column, end_us);
        }
    }
    return extent(scratch, n);
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

static const char *value_text(double x, enum column column, char text[UW_TEXT_BYTES])
{
    if (column == COLUMN_THERE) {
        snprintf(text, UW_TEXT_BYTES, "%.1f %%", 100.0 * x);
        return text;
    }
    if (column == COLUMN_LATENCY || (column == COLUMN_STEP && x < 1000.0)) {
        return scaled(x, "s", text);
    }
    if (column == COLUMN_STEP) {
        snprintf(text, UW_TEXT_BYTES, "%.3g s", x);
        return text;
    }
    if (isinf(x)) {
        snprintf(text, UW_TEXT_BYTES, "unlimited");
        return text;
    }
    return scaled(x, "bit/s", text);
}

static void print_extent(const char *name, struct extent e, enum column column)
{
    char low[UW_TEXT_BYTES], median[UW_TEXT_BYTES], high[UW_TEXT_BYTES];
    printf("  %-12s %14s %14s %14s\n", name, value_text(e.low, column, low),
           value_text(e.median, column, median),
           value_text(e.high, column, high));
}

static void print_group(const struct uw_sim_draw *d, uint32_t g, bool radio, double *scratch)
{
    const struct uw_sim_group *group = &d->scenario->groups[g];
    uint32_t slow = stragglers_of(d, g);
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
    printf("\n");
    for (int c = first_column(radio); c < COLUMNS; c++) {
        print_extent(column_names[c], extent_of(d, g, (enum column)c, scratch), (enum column)c);
    }
}

/* Room for a value of each device, and the sizes of the cells, [cells_n], behind it; from the heap.
 * NULL: there is no memory. */
static double *scratch_of(const struct uw_sim_fleet *f, uint32_t **sizes)
{
    double *scratch = calloc((size_t)f->devices_n + f->cells_n, sizeof *scratch);
    if (scratch != NULL) {
        *sizes = (uint32_t *)(scratch + f->devices_n);
        uw_sim_fleet_count(f, *sizes);
    }
    return scratch;
}

static void print_cells(const struct uw_sim_draw *d, const uint32_t *sizes, double *scratch)
{
    static const char *const names[] = {"inside", "latency", "out", "latency out"};
    const struct uw_sim_fleet *f = &d->fleet;
    uint32_t shared = 0, least = UINT32_MAX, most = 0;
    for (uint32_t cell = 0; cell < f->cells_n; cell++) {
        shared += f->cells[cell].shared;
        least = sizes[cell] < least ? sizes[cell] : least;
        most = sizes[cell] > most ? sizes[cell] : most;
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
    for (int row = 0; row < 4; row++) {
        for (uint32_t cell = 0; cell < f->cells_n; cell++) {
            const struct uw_sim_cell *c = &f->cells[cell];
            scratch[cell] = row == 0   ? rate_or_all(c->bits_per_s)
                            : row == 1 ? 1e-6 * (double)c->latency_us
                            : row == 2 ? rate_or_all(c->out_bits_per_s)
                                       : 1e-6 * (double)c->out_latency_us;
        }
        print_extent(names[row], extent(scratch, f->cells_n),
                     row % 2 == 0 ? COLUMN_UP : COLUMN_LATENCY);
    }
}

int uw_sim_fleet_print(const struct uw_sim_draw *d, bool radio)
{
    uint32_t *sizes;
    double *scratch = scratch_of(&d->fleet, &sizes);
    if (scratch == NULL) {
        return UW_ERR_NOMEM;
    }
    printf("%u nodes, drawn with seed %llu\n  %-12s %14s %14s %14s\n",
           (unsigned)d->fleet.devices_n, (unsigned long long)d->scenario->seed, "", "lowest",
           "median", "highest");
    for (uint32_t g = 0; g < d->scenario->groups_n; g++) {
        print_group(d, g, radio, scratch);
    }
    print_cells(d, sizes, scratch);
    uint64_t first_us = uw_sim_fleet_first_away_us(&d->fleet);
    if (first_us != UINT64_MAX) {
        printf("the first absence begins after %.6g s\n", 1e-6 * (double)first_us);
    }
    if (d->until_us != UINT64_MAX) {
        printf("absences are drawn for %.6g s; from then on all are there\n",
               1e-6 * (double)d->until_us);
    }
    free(scratch);
    return UW_OK;
}

/* ---- the same as an event ---- */

static void add_extent(cJSON *object, const char *key, struct extent e)
{
    const double value[] = {e.low, e.median, e.high};
    cJSON *array = cJSON_AddArrayToObject(object, key);
    for (size_t i = 0; i < sizeof value / sizeof value[0]; i++) {
        cJSON_AddItemToArray(array, cJSON_CreateNumber(isinf(value[i]) ? 0.0 : value[i]));
    }
}

static cJSON *group_event(const struct uw_sim_draw *d, uint32_t g, bool radio, double *scratch)
{
    const struct uw_sim_group *group = &d->scenario->groups[g];
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "name", group->name);
    cJSON_AddNumberToObject(object, "nodes", group->count);
    cJSON_AddStringToObject(object, "step", group->step == UW_SIM_STEP_MEASURED  ? "measured"
                                            : group->step == UW_SIM_STEP_SECONDS ? "seconds"
                                                                                 : "device");
    if (group->kind != NULL) {
        cJSON_AddStringToObject(object, "device", group->kind->name);
    }
    cJSON_AddNumberToObject(object, "stragglers", stragglers_of(d, g));
    cJSON_AddNumberToObject(object, "loss", group->loss);
    for (int c = first_column(radio); c < COLUMNS; c++) {
        add_extent(object, column_keys[c], extent_of(d, g, (enum column)c, scratch));
    }
    return object;
}

static cJSON *cell_event(const struct uw_sim_cell *c, uint32_t nodes)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddNumberToObject(object, "nodes", nodes);
    cJSON_AddBoolToObject(object, "shared", c->shared);
    cJSON_AddNumberToObject(object, "bandwidth", (double)c->bits_per_s);
    cJSON_AddNumberToObject(object, "latency", 1e-6 * (double)c->latency_us);
    cJSON_AddNumberToObject(object, "out_bandwidth", (double)c->out_bits_per_s);
    cJSON_AddNumberToObject(object, "out_latency", 1e-6 * (double)c->out_latency_us);
    return object;
}

int uw_sim_fleet_put(struct uw_events *events, const struct uw_sim_draw *d, bool radio)
{
    uint32_t *sizes;
    double *scratch = scratch_of(&d->fleet, &sizes);
    if (scratch == NULL) {
        return UW_ERR_NOMEM;
    }
    cJSON *ev = uw_event("fleet");
    cJSON_AddNumberToObject(ev, "nodes", d->fleet.devices_n);
    cJSON_AddNumberToObject(ev, "seed", (double)d->scenario->seed);
    cJSON *groups = cJSON_AddArrayToObject(ev, "groups");
    for (uint32_t g = 0; g < d->scenario->groups_n; g++) {
        cJSON_AddItemToArray(groups, group_event(d, g, radio, scratch));
    }
    cJSON *cells = cJSON_AddArrayToObject(ev, "cells");
    for (uint32_t c = 0; c < d->fleet.cells_n; c++) {
        cJSON_AddItemToArray(cells, cell_event(&d->fleet.cells[c], sizes[c]));
    }
    uint64_t first_us = uw_sim_fleet_first_away_us(&d->fleet);
    if (first_us != UINT64_MAX) {
        cJSON_AddNumberToObject(ev, "first_absence", 1e-6 * (double)first_us);
    }
    if (d->until_us != UINT64_MAX) {
        cJSON_AddNumberToObject(ev, "absences_until", 1e-6 * (double)d->until_us);
    }
    uw_events_put(events, ev);
    free(scratch);
    return UW_OK;
}

static int by_time(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

int uw_sim_time_step(struct uw_job *job, uint32_t n, uint64_t *took_us, struct uw_error *err)
{
    struct uw_step_result result;
    uint64_t us[MEASURED_STEPS], first_us = uw_board_now_us(), start_us = first_us;
    uint32_t steps = 0;
    while (steps < MEASURED_LEAST ||
           (steps < MEASURED_STEPS && start_us - first_us < MEASURED_US)) {
        int rc = uw_model_train_step(&job->model, &(struct uw_minibatch){.n = n}, &result, err);
        if (rc < 0) {
            return rc;
        }
        us[steps] = uw_board_now_us() - start_us;
        start_us += us[steps++];
    }
    qsort(us, steps, sizeof us[0], by_time);
    *took_us = us[steps / 2u];
    return UW_OK;
}

/* ---- the table of devices ---- */

static cJSON *device_event(const struct uw_sim_kind *k)
{
    cJSON *ev = uw_event("device");
    cJSON_AddStringToObject(ev, "name", k->name);
    cJSON_AddStringToObject(ev, "what", k->what);
    cJSON_AddNumberToObject(ev, "clock_hz", k->clock_hz);
    cJSON_AddNumberToObject(ev, "per_cycle", k->per_cycle);
    cJSON_AddNumberToObject(ev, "efficiency", k->efficiency);
    cJSON_AddNumberToObject(ev, "multiply_adds_per_s", uw_sim_kind_rate(k));
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
    int rc = uw_events_open(&events, json, &err);
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
