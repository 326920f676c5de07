/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/sim_scenario.h"

#include "uwasa/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIVE_PERCENT 1.6448536269514722     /* standard deviations below the median */
#define OF_ONE 4096u            /* limit of absences drawn for a device */
#define LINE_BYTES 160u         /* of a trace */
#define ALLOWED "needs node,from,to[,forgets]: a number from 0, seconds, later seconds, 0 or 1"

/* Properties drawn for a device, each from its own random stream. */
enum stream {
    STREAM_UP = 0x5ce90001,         /* far from the streams that a run uses with the same seed */
    STREAM_DOWN, STREAM_LATENCY, STREAM_SECONDS, STREAM_SPEED, STREAM_STRAGGLERS, STREAM_THERE,
    STREAM_CELL_BITS, STREAM_CELL_LATENCY, STREAM_OUT_BITS, STREAM_OUT_LATENCY
};

double uw_sim_sigma_of_decades(double decades)
{
    return decades * log(10.0) / (2.0 * FIVE_PERCENT);
}

/* The stream of device (cell, group) i. */
static struct uw_rng stream_of(uint64_t seed, enum stream stream, uint32_t i)
{
    struct uw_rng rng;
    uw_rng_seed(&rng, uw_rng_mix(uw_rng_mix(seed, (uint64_t)stream), i));
    return rng;
}

/* Uniform in [0, 1), 53 bits. */
static double uniform(struct uw_rng *rng)
{
    uint64_t high = uw_rng_u32(rng) >> 5;
    return (double)(high << 26 | uw_rng_u32(rng) >> 6) * 0x1p-53;
}

static double clamp(double x, double min, double max)
{
    return x < min ? min : x > max ? max : x;
}

static double draw(const struct uw_sim_spread *s, uint64_t seed, enum stream stream,
                   uint32_t i)
{
    struct uw_rng rng = stream_of(seed, stream, i);
    switch (s->kind) {
    case UW_SIM_UNIFORM:
        return s->a + (s->b - s->a) * uniform(&rng);
    case UW_SIM_LOG_NORMAL:
        return s->a * exp(s->b * (double)uw_rng_normal(&rng));
    case UW_SIM_VALUES:
        return s->value[uw_rng_below(&rng, s->values_n)];
    case UW_SIM_SAME:
        break;
    }
    return s->a;
}

/* Draw a rate; 0 means unlimited and stays 0. */
static uint64_t draw_bits(const struct uw_sim_spread *s, uint64_t seed, enum stream stream,
                          uint32_t i)
{
    double bits = draw(s, seed, stream, i);
    return bits == 0.0 ? 0 : (uint64_t)(clamp(bits, UW_SIM_BITS_MIN, UW_SIM_BITS_MAX) + 0.5);
}

static uint64_t draw_us(const struct uw_sim_spread *s, uint64_t seed, enum stream stream,
                        uint32_t i)
{
    return (uint64_t)(clamp(draw(s, seed, stream, i), 0.0, UW_SIM_LATENCY_MAX) * 1e6 + 0.5);
}

static uint64_t step_of(const struct uw_sim_group *g, const struct uw_sim_cost *cost,
                        double slower, uint64_t seed, uint32_t i)
{
    double s = g->step == UW_SIM_STEP_SECONDS ? draw(&g->seconds, seed, STREAM_SECONDS, i)
               : g->step == UW_SIM_STEP_KIND
                   ? (double)cost->multiply_adds / uw_sim_kind_rate(g->kind)
                   : (double)cost->measured_us * 1e-6;
    s *= slower / draw(&g->speed, seed, STREAM_SPEED, i);
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

/* Mark stragglers among count devices from `first` on. */
static void mark_stragglers(struct uw_sim_draw *d, const struct uw_sim_stragglers *s,
                            uint32_t stream_i, uint32_t first, uint32_t count)
{
    uint32_t slow_n = (uint32_t)(s->share * (double)count + 0.5);
    struct uw_rng rng = stream_of(d->scenario->seed, STREAM_STRAGGLERS, stream_i);
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
    *v = (struct uw_sim_device){.loss = (float)g->loss, .cell = UW_SIM_NO_CELL,
                                .attack = g->attack, .strength = g->strength};
    v->up_bits_per_s = draw_bits(&g->up, s->seed, STREAM_UP, i);
    v->down_bits_per_s = g->one_rate ? v->up_bits_per_s
                                     : draw_bits(&g->down, s->seed, STREAM_DOWN, i);
    v->latency_us = (draw_us(&g->latency, s->seed, STREAM_LATENCY, i) + 1u) / 2u;
    v->step_us = step_of(g, cost, d->straggler[i] ? all->factor : 1.0, s->seed, i);
}

/* ---- cells ---- */

/* Number of cells for `count` devices; 0: none, or sizes that do not add up. */
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

/* Set a cell's latency to the average of two of its devices outside of the cell. */
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
            .bits_per_s = draw_bits(&c->bits, seed, STREAM_CELL_BITS, cell),
            .latency_us = c->own_latency ? draw_us(&c->latency, seed, STREAM_CELL_LATENCY,
                                                   cell) : 0,
            .shared = c->shared,
            .out_bits_per_s = draw_bits(&c->out_bits, seed, STREAM_OUT_BITS, cell),
            .out_latency_us = draw_us(&c->out_latency, seed, STREAM_OUT_LATENCY, cell)};
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

/* ---- when devices are present ---- */

/* The absences of one device while they are drawn; adjacent ones are merged. */
struct list {
    struct uw_sim_draw *d;
    uint32_t first, room;
};

static uint64_t us(double seconds)
{
    double at = seconds < 0.0 ? 0.0 : seconds > UW_SIM_SECONDS_MAX ? UW_SIM_SECONDS_MAX : seconds;
    return (uint64_t)(at * 1e6 + 0.5);
}

static int make_room(struct uw_sim_draw *d)
{
    if (d->absences_n < d->absences_cap) {
        return UW_OK;
    }
    uint32_t cap = d->absences_cap != 0 ? 2u * d->absences_cap : 256u;
    struct uw_sim_absence *more = realloc(d->absences, cap * sizeof *more);
    if (more == NULL) {
        return UW_ERR_NOMEM;
    }
    d->absences = more;
    d->absences_cap = cap;
    return UW_OK;
}

/* Returns 1 if there is room for another one, else 0. */
static int add(struct list *l, uint64_t from_us, uint64_t to_us, bool forgets)
{
    struct uw_sim_draw *d = l->d;
    if (to_us <= from_us) {
        return 1;
    }
    if (d->absences_n > l->first && from_us <= d->absences[d->absences_n - 1u].to_us) {
        struct uw_sim_absence *last = &d->absences[d->absences_n - 1u];
        last->to_us = to_us > last->to_us ? to_us : last->to_us;
        last->forgets = last->forgets || forgets;
        return 1;
    }
    if (make_room(d) < 0) {
        return UW_ERR_NOMEM;
    }
    d->absences[d->absences_n++] =
        (struct uw_sim_absence){.from_us = from_us, .to_us = to_us, .forgets = forgets};
    return d->absences_n - l->first < l->room;
}

/* A device's phase in the period is drawn; it is present for the first `up` of the period. Absences
 * below 1 us are dropped, or a period might never end. */
static int draw_diurnal(struct list *l, const struct uw_sim_availability *v, struct uw_rng *rng)
{
    double ahead = v->spread * uniform(rng), away = v->up * v->period - ahead;
    int more = (1.0 - v->up) * v->period >= 1e-6;
    for (double day = 0.0; more > 0 && away + day * v->period < UW_SIM_SECONDS_MAX; day += 1.0) {
        double from = away + day * v->period;
        more = add(l, us(from), us(from + (1.0 - v->up) * v->period), false);
    }
    return more < 0 ? more : UW_OK;
}

static double exponential(double mean, struct uw_rng *rng)
{
    return -mean * log(1.0 - uniform(rng));
}

/* Memoryless, so the probability of presence is the same at the beginning as at any time. */
static int draw_churn(struct list *l, const struct uw_sim_availability *v, struct uw_rng *rng)
{
    bool there = uniform(rng) * (v->up + v->down) < v->up;
    double now = there ? exponential(v->up, rng) : 0.0;
    int more = 1;
    while (more > 0 && now < UW_SIM_SECONDS_MAX) {
        double back = now + exponential(v->down, rng);
        bool forgets = uniform(rng) < v->forgets;
        more = add(l, us(now), us(back), forgets);
        now = back + exponential(v->up, rng);
    }
    return more < 0 ? more : UW_OK;
}

/* The first line about that node, or a later one. */
static uint32_t first_line(const struct uw_sim_availability *v, uint32_t node)
{
    uint32_t low = 0, high = v->away_n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2u;
        if (v->away[middle].node < node) {
            low = middle + 1u;
        } else {
            high = middle;
        }
    }
    return low;
}

static int copy_trace(struct list *l, const struct uw_sim_availability *v, uint32_t node)
{
    int more = 1;
    l->room = UINT32_MAX;
    for (uint32_t i = first_line(v, node);
         more >= 0 && i < v->away_n && v->away[i].node == node; i++) {
        const struct uw_sim_absence *a = &v->away[i].absence;
        more = add(l, a->from_us, a->to_us, a->forgets);
    }
    return more < 0 ? more : UW_OK;
}

static int check_trace(const struct uw_sim_availability *v, uint32_t nodes, struct uw_error *err)
{
    for (uint32_t i = 0; i < v->away_n; i++) {
        if (v->away[i].node >= nodes) {
            return uw_error_set(err, UW_ERR_INVALID,
                                "line %u of the trace is about node %u, and there are 0 to %u",
                                (unsigned)v->away[i].line, (unsigned)v->away[i].node,
                                (unsigned)nodes - 1u);
        }
    }
    return UW_OK;
}

static int draw_one(struct uw_sim_draw *d, uint32_t i, uint32_t in_group)
{
    const struct uw_sim_availability *v = &d->scenario->groups[d->group[i]].there;
    struct uw_rng rng = stream_of(d->scenario->seed, STREAM_THERE, i);
    uint32_t share = UW_SIM_ABSENCES_MAX / d->fleet.devices_n + 1u;
    struct list l = {.d = d, .first = d->absences_n, .room = share < OF_ONE ? share : OF_ONE};
    int rc = UW_OK;
    switch (v->kind) {
    case UW_SIM_ALWAYS:
        break;
    case UW_SIM_DIURNAL:
        rc = draw_diurnal(&l, v, &rng);
        break;
    case UW_SIM_CHURN:
        rc = draw_churn(&l, v, &rng);
        break;
    case UW_SIM_TRACE:
        rc = copy_trace(&l, v, v->whole ? i : in_group);
        break;
    }
    struct uw_sim_device *device = &d->fleet.devices[i];
    device->absences_n = d->absences_n - l.first;
    if (rc == UW_OK && v->kind != UW_SIM_TRACE && device->absences_n != 0) {
        uint64_t last_us = d->absences[d->absences_n - 1u].to_us;
        d->until_us = last_us < d->until_us ? last_us : d->until_us;
    }
    return rc;
}

/* Draw the absences of all devices; the rest of their table is complete.
 * Returns UW_OK, UW_ERR_NOMEM, UW_ERR_INVALID with err filled. */
static int draw_absences(struct uw_sim_draw *d, struct uw_error *err)
{
    const struct uw_sim_scenario *s = d->scenario;
    for (uint32_t g = 0, first = 0; g < s->groups_n; g++) {
        const struct uw_sim_group *group = &s->groups[g];
        const struct uw_sim_availability *v = &group->there;
        int rc = check_trace(v, v->whole ? d->fleet.devices_n : group->count, err);
        for (uint32_t i = 0; rc == UW_OK && i < group->count; i++) {
            rc = draw_one(d, first + i, i);
        }
        if (rc < 0) {
            return rc == UW_ERR_NOMEM ? uw_error_set(err, rc, "out of memory") : rc;
        }
        first += group->count;
    }
    const struct uw_sim_absence *next = d->absences;        /* it moves no more */
    for (uint32_t i = 0; i < d->fleet.devices_n; i++) {
        struct uw_sim_device *device = &d->fleet.devices[i];
        device->absences = device->absences_n != 0 ? next : NULL;
        next += device->absences_n;
    }
    return UW_OK;
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
    rc = rc < 0 ? rc : draw_absences(d, err);
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

double uw_sim_draw_there(const struct uw_sim_draw *d, uint32_t i, uint64_t until_us)
{
    const struct uw_sim_device *v = &d->fleet.devices[i];
    uint64_t away_us = 0;
    for (uint32_t a = 0; a < v->absences_n && v->absences[a].from_us < until_us; a++) {
        uint64_t to_us = v->absences[a].to_us < until_us ? v->absences[a].to_us : until_us;
        away_us += to_us - v->absences[a].from_us;
    }
    return until_us != 0 ? 1.0 - (double)away_us / (double)until_us : 1.0;
}

/* ---- attacks ---- */

const char uw_sim_attacks[] = "none|sign_flip|scale|noise|old|little|labels";

bool uw_sim_attack_read(const char *text, enum uw_sim_attack *attack, float *strength)
{
    static const float usual[] = {0.0f, 1.0f, 10.0f, 1.0f, 0.0f, 1.5f, 0.0f};    /* 0: has none */
    size_t bytes = strcspn(text, ":");
    const char *word = uw_sim_attacks;
    char *end = NULL;
    uint32_t kind = 0;
    for (; strcspn(word, "|") != bytes || memcmp(word, text, bytes) != 0; kind++) {
        word += strcspn(word, "|");
        if (*word++ == '\0') {
            return false;
        }
    }
    double said = text[bytes] == ':' ? strtod(text + bytes + 1, &end) : (double)usual[kind];
    *attack = (enum uw_sim_attack)kind;
    *strength = (float)said;
    return text[bytes] == '\0' || (usual[kind] > 0.0f && end != text + bytes + 1 &&
                                   *end == '\0' && said > 0.0 && said <= 1e6);
}

/* ---- traces ---- */

static int by_node(const void *a, const void *b)
{
    const struct uw_sim_away *x = a, *y = b;
    if (x->node != y->node) {
        return x->node < y->node ? -1 : 1;
    }
    if (x->absence.from_us != y->absence.from_us) {
        return x->absence.from_us < y->absence.from_us ? -1 : 1;
    }
    return x->line < y->line ? -1 : x->line > y->line;
}

/* A number, and the comma or the end behind it. */
static bool read_field(const char **p, double max, double *value)
{
    char *end;
    *p += strspn(*p, " \t");
    if (strspn(*p, "0123456789.") == 0) {
        return false;
    }
    *value = strtod(*p, &end);
    end += strspn(end, " \t\r");
    bool more = *end == ',' && end[1] != '\0';
    *p = more ? end + 1 : end;
    return *value >= 0.0 && *value <= max && (more || *end == '\0');
}

static bool read_line(const char *p, struct uw_sim_away *a)
{
    double node, from, to, forgets = 0.0;
    if (!read_field(&p, 4294967294.0, &node) || !read_field(&p, UW_SIM_SECONDS_MAX, &from) ||
        !read_field(&p, UW_SIM_SECONDS_MAX, &to)) {
        return false;
    }
    if (*p != '\0' && (!read_field(&p, 1.0, &forgets) || *p != '\0')) {
        return false;
    }
    a->node = (uint32_t)node;
    a->absence = (struct uw_sim_absence){.from_us = (uint64_t)(from * 1e6 + 0.5),
                                         .to_us = (uint64_t)(to * 1e6 + 0.5),
                                         .forgets = forgets > 0.0};
    return floor(node) == node && (forgets == 0.0 || forgets == 1.0) &&
           a->absence.from_us < a->absence.to_us;
}

static int check_order(const char *file, const struct uw_sim_away *away, uint32_t n,
                       struct uw_error *err)
{
    for (uint32_t i = 1; i < n; i++) {
        if (away[i].node == away[i - 1u].node &&
            away[i].absence.from_us < away[i - 1u].absence.to_us) {
            return uw_error_set(err, UW_ERR_CORRUPT,
                                "%.140s:%u: node %u is away already, since line %u", file,
                                (unsigned)away[i].line, (unsigned)away[i].node,
                                (unsigned)away[i - 1u].line);
        }
    }
    return UW_OK;
}

static int read_lines(const char *file, const char *text, size_t text_bytes,
                      struct uw_sim_away *away, uint32_t *n, struct uw_error *err)
{
    uint32_t number = 0;
    for (size_t at = 0; at < text_bytes; number++) {
        const char *stop = memchr(text + at, '\n', text_bytes - at);
        size_t bytes = stop != NULL ? (size_t)(stop - (text + at)) : text_bytes - at;
        char line[LINE_BYTES];
        snprintf(line, sizeof line, "%.*s", (int)(bytes < LINE_BYTES ? bytes : LINE_BYTES),
                 text + at);
        at += bytes + 1u;
        const char *first = line + strspn(line, " \t\r");
        bool blank = bytes < LINE_BYTES && strlen(line) == bytes && *first == '\0';
        if (blank || *first == '#') {
            continue;
        }
        away[*n].line = number + 1u;
        if (strlen(line) != bytes || !read_line(line, &away[*n])) {
            return uw_error_set(err, UW_ERR_CORRUPT, "%.100s:%u: " ALLOWED, file,
                                (unsigned)number + 1u);
        }
        ++*n;
    }
    return UW_OK;
}

int uw_sim_trace_read(const char *file, const char *text, size_t text_bytes,
                      struct uw_sim_away **away, uint32_t *away_n, struct uw_error *err)
{
    size_t lines = 1;
    for (size_t i = 0; i < text_bytes; i++) {
        lines += text[i] == '\n';
    }
    *away_n = 0;
    *away = calloc(lines, sizeof **away);
    if (*away == NULL) {
        return uw_error_set(err, UW_ERR_NOMEM, "%.140s: out of memory", file);
    }
    int rc = read_lines(file, text, text_bytes, *away, away_n, err);
    if (rc == UW_OK) {
        qsort(*away, *away_n, sizeof **away, by_node);
        rc = check_order(file, *away, *away_n, err);
    }
    if (rc < 0 || *away_n == 0) {
        free(*away);
        *away = NULL;
        *away_n = 0;
    }
    return rc;
}
