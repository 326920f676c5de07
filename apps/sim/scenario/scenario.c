/* SPDX-License-Identifier: Apache-2.0 */
#include "scenario_there.h"

#include <math.h>
#include <stdlib.h>

#define FIVE_PERCENT 1.6448536269514722     /* standard deviations below the median */

double uw_sim_sigma_of_decades(double decades)
{
    return decades * log(10.0) / (2.0 * FIVE_PERCENT);
}

struct uw_rng uw_sim_stream(uint64_t seed, enum uw_sim_stream stream, uint32_t i)
{
    struct uw_rng rng;
    uw_rng_seed(&rng, uw_rng_mix(uw_rng_mix(seed, (uint64_t)stream), i));
    return rng;
}

double uw_sim_uniform(struct uw_rng *rng)
{
    uint64_t high = uw_rng_u32(rng) >> 5;
    return (double)(high << 26 | uw_rng_u32(rng) >> 6) * 0x1p-53;
}

static double clamp(double x, double min, double max)
{
    return x < min ? min : x > max ? max : x;
}

static double draw(const struct uw_sim_spread *s, uint64_t seed, enum uw_sim_stream stream,
                   uint32_t i)
{
    struct uw_rng rng = uw_sim_stream(seed, stream, i);
    switch (s->kind) {
    case UW_SIM_UNIFORM:
        return s->a + (s->b - s->a) * uw_sim_uniform(&rng);
    case UW_SIM_LOG_NORMAL:
        return s->a * exp(s->b * (double)uw_rng_normal(&rng));
    case UW_SIM_VALUES:
        return s->value[uw_rng_below(&rng, s->values_n)];
    case UW_SIM_SAME:
        break;
    }
    return s->a;
}

/* 0 stays what it means: unlimited. */
static uint64_t draw_bits(const struct uw_sim_spread *s, uint64_t seed, enum uw_sim_stream stream,
                          uint32_t i)
{
    double bits = draw(s, seed, stream, i);
    return bits == 0.0 ? 0 : (uint64_t)(clamp(bits, UW_SIM_BITS_MIN, UW_SIM_BITS_MAX) + 0.5);
}

static uint64_t draw_us(const struct uw_sim_spread *s, uint64_t seed, enum uw_sim_stream stream,
                        uint32_t i)
{
    return (uint64_t)(clamp(draw(s, seed, stream, i), 0.0, UW_SIM_LATENCY_MAX) * 1e6 + 0.5);
}

static uint64_t step_of(const struct uw_sim_group *g, const struct uw_sim_cost *cost,
                        double slower, uint64_t seed, uint32_t i)
{
    double s = g->step == UW_SIM_STEP_SECONDS ? draw(&g->seconds, seed, UW_SIM_STREAM_SECONDS, i)
               : g->step == UW_SIM_STEP_KIND
                   ? (double)cost->multiply_adds / uw_sim_kind_rate(g->kind)
                   : (double)cost->measured_us * 1e-6;
    s *= slower / draw(&g->speed, seed, UW_SIM_STREAM_SPEED, i);
    return (uint64_t)(clamp(s, UW_SIM_STEP_MIN, UW_SIM_STEP_MAX) * 1e6 + 0.5);
}

uint32_t uw_sim_scenario_devices(const struct uw_sim_scenario *s)
{
    uint64_t n = 0;
    for (uint32_t g = 0; g < s->groups_n; g++) {
        n += s->groups[g].count;
    }
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

bool uw_sim_scenario_uses(const struct uw_sim_scenario *s, enum uw_sim_step_kind step)
{
    for (uint32_t g = 0; g < s->groups_n; g++) {
        if (s->groups[g].step == step) {
            return true;
        }
    }
    return false;
}

/* Mark who of count devices from `first` is slow. */
static void mark_stragglers(struct uw_sim_draw *d, const struct uw_sim_stragglers *s,
                            uint32_t stream_i, uint32_t first, uint32_t count)
{
    uint32_t slow_n = (uint32_t)(s->share * (double)count + 0.5);
    struct uw_rng rng = uw_sim_stream(d->scenario->seed, UW_SIM_STREAM_STRAGGLERS, stream_i);
    uint64_t key = (uint64_t)uw_rng_u32(&rng) << 32 | uw_rng_u32(&rng);
    for (uint32_t i = 0; i < count; i++) {
        d->straggler[first + i] = uw_rng_permute(key, count, i) < slow_n;
    }
}

static void draw_device(struct uw_sim_draw *d, const struct uw_sim_cost *cost, uint32_t i)
{
    const struct uw_sim_scenario *s = d->scenario;
    const struct uw_sim_group *g = &s->groups[d->group[i]];
    struct uw_sim_device *v = &d->fleet.devices[i];
    const struct uw_sim_stragglers *all = s->stragglers.share > 0.0 ? &s->stragglers
                                                                    : &g->stragglers;
    *v = (struct uw_sim_device){.loss = (float)g->loss, .cell = UW_SIM_NO_CELL};
    v->up_bits_per_s = draw_bits(&g->up, s->seed, UW_SIM_STREAM_UP, i);
    v->down_bits_per_s = g->one_rate ? v->up_bits_per_s
                                     : draw_bits(&g->down, s->seed, UW_SIM_STREAM_DOWN, i);
    v->latency_us = (draw_us(&g->latency, s->seed, UW_SIM_STREAM_LATENCY, i) + 1u) / 2u;
    v->step_us = step_of(g, cost, d->straggler[i] ? all->factor : 1.0, s->seed, i);
}

/* ---- cells ---- */

/* How many cells `count` devices make; 0: none, or sizes that are not theirs. */
static uint32_t cells_of(const struct uw_sim_cells *c, uint32_t count)
{
    if (c->nodes != 0) {
        return count / c->nodes + (count % c->nodes != 0);
    }
    if (c->sizes_n == 0) {
        return c->cells < count ? c->cells : count;
    }
    uint64_t sum = 0;
    for (uint32_t i = 0; i < c->sizes_n; i++) {
        sum += c->size[i];
    }
    return sum == count ? c->sizes_n : 0;
}

static uint32_t size_of(const struct uw_sim_cells *c, uint32_t count, uint32_t cells_n, uint32_t i)
{
    if (c->sizes_n != 0) {
        return c->size[i];
    }
    if (c->nodes != 0 && !c->in_turns) {
        uint32_t left = count - i * c->nodes;
        return left < c->nodes ? left : c->nodes;
    }
    return count / cells_n + (i < count % cells_n);
}

/* As far apart as two of its devices are outside, on average. */
static void copy_latency(struct uw_sim_fleet *f, const struct uw_sim_cells *c, uint32_t first,
                         uint32_t count, uint32_t cells_n)
{
    for (uint32_t i = first; i < first + count; i++) {
        f->cells[f->devices[i].cell].latency_us += 2u * f->devices[i].latency_us;
    }
    for (uint32_t k = 0; k < cells_n; k++) {
        f->cells[f->cells_n + k].latency_us /= size_of(c, count, cells_n, k);
    }
}

static uint32_t largest_of(const struct uw_sim_cells *c, uint32_t count)
{
    uint32_t n = cells_of(c, count), largest = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t size = size_of(c, count, n, i);
        largest = size > largest ? size : largest;
    }
    return largest;
}

uint32_t uw_sim_scenario_largest_cell(const struct uw_sim_scenario *s)
{
    uint32_t largest = largest_of(&s->cells, uw_sim_scenario_devices(s));
    for (uint32_t g = 0; g < s->groups_n; g++) {
        uint32_t n = largest_of(&s->groups[g].cells, s->groups[g].count);
        largest = n > largest ? n : largest;
    }
    return largest;
}

static int add_cells(struct uw_sim_draw *d, const struct uw_sim_cells *c, uint32_t first,
                     uint32_t count, struct uw_error *err)
{
    struct uw_sim_fleet *f = &d->fleet;
    uint64_t seed = d->scenario->seed;
    if (c->nodes == 0 && c->cells == 0 && c->sizes_n == 0) {
        return UW_OK;
    }
    uint32_t n = cells_of(c, count);
    if (n == 0) {
        return uw_error_set(err, UW_ERR_INVALID, "the sizes of the cells do not add up to %u nodes",
                            (unsigned)count);
    }
    for (uint32_t k = 0, at = first; k < n; k++) {
        uint32_t cell = f->cells_n + k, size = size_of(c, count, n, k);
        f->cells[cell] = (struct uw_sim_cell){
            .bits_per_s = draw_bits(&c->bits, seed, UW_SIM_STREAM_CELL_BITS, cell),
            .latency_us = c->own_latency ? draw_us(&c->latency, seed, UW_SIM_STREAM_CELL_LATENCY,
                                                   cell) : 0,
            .shared = c->shared,
            .out_bits_per_s = draw_bits(&c->out_bits, seed, UW_SIM_STREAM_OUT_BITS, cell),
            .out_latency_us = draw_us(&c->out_latency, seed, UW_SIM_STREAM_OUT_LATENCY, cell)};
        for (uint32_t i = 0; !c->in_turns && i < size; i++) {
            f->devices[at++].cell = cell;
        }
    }
    for (uint32_t i = 0; c->in_turns && i < count; i++) {
        f->devices[first + i].cell = f->cells_n + i % n;
    }
    if (!c->own_latency) {
        copy_latency(f, c, first, count, n);
    }
    f->cells_n += n;
    return UW_OK;
}

static int draw_cells(struct uw_sim_draw *d, struct uw_error *err)
{
    const struct uw_sim_scenario *s = d->scenario;
    int rc = add_cells(d, &s->cells, 0, d->fleet.devices_n, err);
    for (uint32_t g = 0, first = 0; rc == UW_OK && g < s->groups_n; g++) {
        rc = add_cells(d, &s->groups[g].cells, first, s->groups[g].count, err);
        first += s->groups[g].count;
    }
    return rc;
}

/* ---- all of it ---- */

static void draw_devices(struct uw_sim_draw *d, const struct uw_sim_cost *cost)
{
    const struct uw_sim_scenario *s = d->scenario;
    if (s->stragglers.share > 0.0) {
        mark_stragglers(d, &s->stragglers, UINT32_MAX, 0, d->fleet.devices_n);
    }
    for (uint32_t g = 0, first = 0; g < s->groups_n; g++) {
        const struct uw_sim_group *group = &s->groups[g];
        if (s->stragglers.share <= 0.0) {
            mark_stragglers(d, &group->stragglers, g, first, group->count);
        }
        for (uint32_t i = first; i < first + group->count; i++) {
            d->group[i] = g;
            draw_device(d, cost, i);
        }
        first += group->count;
    }
}

int uw_sim_draw_open(struct uw_sim_draw *d, const struct uw_sim_scenario *s,
                     const struct uw_sim_cost *cost, struct uw_error *err)
{
    uint32_t n = uw_sim_scenario_devices(s);
    *d = (struct uw_sim_draw){.scenario = s, .until_us = UINT64_MAX};
    d->fleet.devices_n = n;
    d->fleet.devices = calloc(n, sizeof *d->fleet.devices);
    d->fleet.cells = calloc(n, sizeof *d->fleet.cells);     /* a cell has a device at least */
    d->group = calloc(n, sizeof *d->group);
    d->straggler = calloc(n, sizeof *d->straggler);
    if (d->fleet.devices == NULL || d->fleet.cells == NULL || d->group == NULL ||
        d->straggler == NULL) {
        return uw_error_set(err, UW_ERR_NOMEM, "out of memory");
    }
    draw_devices(d, cost);
    int rc = draw_cells(d, err);
    rc = rc < 0 ? rc : uw_sim_draw_absences(d, err);
    return rc;
}

void uw_sim_draw_close(struct uw_sim_draw *d)
{
    free(d->fleet.devices);
    free(d->fleet.cells);
    free(d->group);
    free(d->straggler);
    free(d->absences);
    *d = (struct uw_sim_draw){.until_us = UINT64_MAX};
}
