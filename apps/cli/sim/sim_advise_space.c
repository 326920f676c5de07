/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_advise.h"

#include "sim_file.h"
#include "uwasa/sim_cost.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COSTLY 0.1              /* averages: share of the training that a longer period gives */
#define ENOUGH 0.98         /* of the best accuracy, when no target is given */
#define SAME 1e-9           /* of two times, or two accuracies */
#define COUNT(list) (sizeof (list) / sizeof (list)[0])

const uint32_t uw_advice_stage_tests[UW_ADVICE_STAGES] = {7u, 12u, UW_ADVICE_TESTS};

/* ---- families of candidates ---- */

static const uint32_t periods[] = {1, 5, 10, 20, 50, 100};

struct family {
    struct uw_choice mode;
    bool pairs;
    const struct uw_mix_rule *rules[4];     /* tried in this order; the rest NULL */
    const char *schedules[4];
};

static const struct family families[] = {
    {{"gossip", UW_NODE_GOSSIP}, false, {&uw_mix_qg, &uw_mix_none, &uw_mix_noloco},
     {"random", "exponential", "base2"}},
    {{"allreduce", UW_NODE_ALLREDUCE}, false, {&uw_mix_qg, &uw_mix_none, &uw_mix_slowmo}, {NULL}},
    {{"hierarchical", UW_NODE_HIERARCHICAL}, false, {&uw_mix_qg, &uw_mix_none, &uw_mix_slowmo},
     {"random"}},
    {{"auto", UW_NODE_AUTO}, false, {&uw_mix_qg, &uw_mix_none}, {"random"}},
    {{"gossip", UW_NODE_GOSSIP}, true, {&uw_mix_kgt}, {"matching", "base2"}},
};

static const struct family *family_of(const struct uw_advice_try *t)
{
    bool pairs = t->rule->over == UW_MIX_OVER_PAIRS;
    for (size_t i = 0; i < COUNT(families); i++) {
        if (families[i].pairs == pairs && families[i].mode.at == t->mode.at) {
            return &families[i];
        }
    }
    return NULL;                /* does not happen: every candidate has a family */
}

static bool is_formula(const struct uw_advice *a)
{
    return a->o->network.at == UW_WORLD_FORMULA;
}

/* Whether the scenario and the choices of the user allow this family. */
static bool admits(const struct uw_advice *a, const struct family *f)
{
    const struct uw_sim_options *o = a->o;
    const struct uw_advice_asked *asked = a->asked;
    uint32_t cell = uw_sim_scenario_largest_cell(&a->celled);
    bool finds = f->mode.at == UW_NODE_AUTO;
    if (asked->mode.word != NULL && asked->mode.at != f->mode.at) {
        return false;
    }
    if (f->mode.at == UW_NODE_HIERARCHICAL && cell >= o->nodes) {
        return false;
    }
    return !finds || (!is_formula(a) && (a->has_cells || asked->mode.word != NULL));
}

static bool admits_rule(const struct uw_advice *a, const struct family *f,
                        const struct uw_mix_rule *rule)
{
    const struct uw_mix_rule *asked = a->asked->rule;
    bool averages = f->mode.at != UW_NODE_GOSSIP;
    return (asked == NULL || asked == rule) &&
           !(rule->frozen && a->o->exchange.momentum == 0.0) &&
           !(a->o->pull_waits && (averages || rule != &uw_mix_none)) &&
           f->pairs == (rule->over == UW_MIX_OVER_PAIRS) &&
           !(f->pairs && averages) && !(rule->over == UW_MIX_OVER_AVERAGES && !averages);
}

static bool admits_peers(const struct uw_advice *a, const struct family *f,
                         const struct uw_peer_schedule *peers)
{
    const struct uw_peer_schedule *asked = a->asked->peers;
    return (asked == NULL || asked == peers) && (!f->pairs || peers->mutual);
}

/* ---- cost formulas ---- */

static double exact_s(const struct uw_advice *a, const struct uw_sim_fleet *fleet,
                      const uint32_t *members, uint32_t n, double bytes)
{
    struct uw_sim_path path = uw_sim_path_among(fleet, members, n);
    enum uw_sim_algorithm algorithm = (enum uw_sim_algorithm)a->o->algorithm.at;
    algorithm = algorithm == UW_SIM_AUTO ? uw_sim_cheapest(n, &path, bytes) : algorithm;
    return uw_sim_allreduce_s(algorithm, n, &path, bytes, NULL);
}

/* The cell of a device; if the fleet has none, neighbours form cells. */
static uint32_t cell_of(const struct uw_advice *a, const struct uw_sim_fleet *f, uint32_t device)
{
    return f->cells_n != 0 ? f->devices[device].cell : device / a->o->cell_nodes;
}

/* Time of an average in the slowest cell.
 *   members  [devices_n] written: the devices in cells, cell by cell
 *   ends     [devices_n + cells_n] written: the end of each cell in members */
static double cells_s(const struct uw_advice *a, const struct uw_sim_fleet *fleet,
                      uint32_t *members, uint32_t *ends, double bytes)
{
    uint32_t n = fleet->devices_n, first = 0;
    uint32_t cells = fleet->cells_n != 0 ? fleet->cells_n : (n - 1u) / a->o->cell_nodes + 1u;
    double most = 0.0;
    memset(ends, 0, cells * sizeof *ends);
    for (uint32_t i = 0; i < n; i++) {      /* sizes */
        uint32_t cell = cell_of(a, fleet, i);
        if (cell < cells) {
            ends[cell]++;
        }
    }
    for (uint32_t c = 0; c < cells; c++) {  /* beginnings */
        uint32_t size = ends[c];
        ends[c] = first;
        first += size;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t cell = cell_of(a, fleet, i);
        if (cell < cells) {
            members[ends[cell]++] = i;
        }
    }
    for (uint32_t c = 0, from = 0; c < cells; from = ends[c++]) {
        uint32_t size = ends[c] - from;
        double s = size > 1u ? exact_s(a, fleet, members + from, size, bytes) : 0.0;
        most = s > most ? s : most;
    }
    return most;
}

struct costs {
    double all_s, cells_s, pair_s;
};

static int count_costs(struct uw_advice *a, const struct uw_sim_fleet *fleet, double bytes,
                       struct costs *c)
{
    uint32_t n = fleet->devices_n;
    uint32_t *members = calloc(2u * (size_t)n + fleet->cells_n, sizeof *members);
    if (members == NULL) {
        return UW_ERR_NOMEM;
    }
    a->step_s = a->slowest_s = a->pull_s = c->pair_s = 0.0;
    for (uint32_t i = 0; i < n; i++) {
        struct uw_sim_path path = uw_sim_path_between(fleet, (i + 1u + n / 3u) % n, i);
        double step_s = (double)fleet->devices[i].step_us / 1e6;
        a->step_s += step_s / n;
        a->slowest_s = step_s > a->slowest_s ? step_s : a->slowest_s;
        a->pull_s += uw_sim_pull_s(&path, bytes, true) / n;
        c->pair_s += uw_sim_pull_s(&path, 2.0 * bytes, false) / n;
    }
    c->cells_s = cells_s(a, fleet, members, members + n, bytes);
    for (uint32_t i = 0; i < n; i++) {
        members[i] = i;
    }
    c->all_s = exact_s(a, fleet, members, n, bytes);
    free(members);
    return UW_OK;
}

/* ---- candidates ---- */

static bool same(const struct uw_advice_try *x, const struct uw_advice_try *y)
{
    return x->period == y->period && x->mode.at == y->mode.at && x->rule == y->rule &&
           x->peers == y->peers;
}

/* Add a candidate. Returns its index; UINT32_MAX: it exists already, or there is no room. */
static uint32_t add(struct uw_advice *a, const struct uw_advice_try *t)
{
    for (uint32_t i = 0; i < a->tries_n; i++) {
        if (same(&a->tries[i], t)) {
            return UINT32_MAX;
        }
    }
    if (a->tries_n == UW_ADVICE_MAX) {
        return UINT32_MAX;
    }
    a->tries[a->tries_n] = *t;
    return a->tries_n++;
}

static bool averages(const struct uw_advice_try *t)
{
    return t->mode.at != UW_NODE_GOSSIP;
}

/* Time of a round's steps; an average waits for the slowest node. */
static double steps_s(const struct uw_advice *a, const struct uw_advice_try *t)
{
    return t->period * (averages(t) ? a->slowest_s : a->step_s);
}

/* Estimate the times of a candidate. A pull runs in parallel with the steps. */
static void estimate(const struct uw_advice *a, struct uw_advice_try *t, double exchange_s)
{
    t->exchange_s = exchange_s;
    t->trains = averages(t) ? t->period * a->step_s / (steps_s(a, t) + exchange_s) : 1.0;
}

/* Rule out a candidate if the next longer period is certainly as good, or much better. */
static void rule_out_costly(const struct uw_advice *a, struct uw_advice_try *t,
                            const struct uw_advice_try *longer, double most)
{
    if (averages(t) && t->trains < COSTLY * most) {
        t->end = UW_ADVICE_COSTLY;
        snprintf(t->why, sizeof t->why, "averages of %.3g s would leave %.2g %% of the time to "
                 "training", t->exchange_s, 100.0 * t->trains);
    } else if (!averages(t) && longer != NULL && longer->period * a->step_s <= t->exchange_s) {
        t->end = UW_ADVICE_COSTLY;
        snprintf(t->why, sizeof t->why, "an exchange takes %.3g s, %u steps and more: like period "
                 "%u", t->exchange_s, (unsigned)longer->period, (unsigned)longer->period);
    }
}

/* How far a period is from the one at which exchanges and steps take equally long. */
static double distance_of(const struct uw_advice_try *list, uint32_t n, uint32_t i,
                          const struct uw_advice *a)
{
    uint32_t at = n - 1u;
    for (uint32_t k = n; k-- > 0;) {
        const struct uw_advice_try *t = &list[k];
        bool enough = averages(t) ? t->trains >= 0.5 * list[n - 1u].trains
                                  : t->period * a->step_s >= t->exchange_s;
        at = enough ? k : at;
    }
    return fabs(log((double)list[i].period / (double)list[at].period));
}

/* The periods with at least two rounds in a run; if there are none, the shortest. */
static uint32_t choose_periods(const struct uw_advice *a, uint32_t *list)
{
    uint32_t n = 0;
    if (a->asked->period != 0) {
        list[0] = a->asked->period;
        return 1;
    }
    for (size_t i = 0; i < COUNT(periods); i++) {
        if (n == 0 || 2.0 * periods[i] * a->step_s <= a->length_s) {
            list[n++] = periods[i];
        }
    }
    return n;
}

/* The first candidate of a family, without a period. Returns whether it has one. */
static bool first_of(const struct uw_advice *a, const struct family *f, struct uw_advice_try *t)
{
    const struct uw_mix_rule *rule = a->asked->rule;
    const struct uw_peer_schedule *peers = a->asked->peers;
    for (uint32_t i = 0; rule == NULL && i < COUNT(f->rules) && f->rules[i] != NULL; i++) {
        rule = admits_rule(a, f, f->rules[i]) ? f->rules[i] : NULL;
    }
    peers = f->schedules[0] == NULL ? NULL
            : peers == NULL         ? uw_peer_schedule_find(f->schedules[0])
                                    : peers;
    *t = (struct uw_advice_try){.mode = f->mode, .peers = peers, .rule = rule};
    return rule != NULL && admits(a, f) && admits_rule(a, f, rule) &&
           (peers == NULL || admits_peers(a, f, peers));
}

static void add_family(struct uw_advice *a, const struct family *f, double exchange_s)
{
    struct uw_advice_try first, list[COUNT(periods)];
    uint32_t period[COUNT(periods)], n = choose_periods(a, period);
    if (!first_of(a, f, &first)) {
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        list[i] = first;
        list[i].period = period[i];
        estimate(a, &list[i], exchange_s);
    }
    for (uint32_t i = 0; i < n; i++) {
        list[i].distance = distance_of(list, n, i, a);
        rule_out_costly(a, &list[i], i + 1u < n ? &list[i + 1u] : NULL, list[n - 1u].trains);
        (void)add(a, &list[i]);
    }
}

int uw_advice_first(const struct uw_advice *a, struct uw_advice_try *t, struct uw_error *err)
{
    for (size_t i = 0; i < COUNT(families); i++) {
        if (first_of(a, &families[i], t)) {
            t->period = a->asked->period != 0 ? a->asked->period : a->o->exchange.period.n;
            return UW_OK;
        }
    }
    return uw_error_set(err, UW_ERR_INVALID, "--advise: nothing is left to try of what the flags "
                        "--exchange, --schedule, --momentum-rule and --momentum fix");
}

static int by_distance(const void *x, const void *y)
{
    const struct uw_advice_try *a = x, *b = y;
    return (a->distance > b->distance) - (a->distance < b->distance);
}

/* Sort by distance; of equals the family that is first in the list comes first. */
static void sort_tries(struct uw_advice *a)
{
    for (uint32_t i = 0; i < a->tries_n; i++) {
        a->tries[i].distance += 1e-6 * i;
    }
    qsort(a->tries, a->tries_n, sizeof *a->tries, by_distance);
}

int uw_advice_open_space(struct uw_advice *a, const struct uw_sim_fleet *fleet, double model_bytes,
                         struct uw_error *err)
{
    struct costs c;
    if (count_costs(a, fleet, model_bytes, &c) < 0) {
        return uw_error_set(err, UW_ERR_NOMEM, "out of memory");
    }
    for (size_t i = 0; i < COUNT(families); i++) {
        const struct family *f = &families[i];
        double s = f->pairs                              ? c.pair_s
                   : f->mode.at == UW_NODE_ALLREDUCE     ? c.all_s
                   : f->mode.at == UW_NODE_GOSSIP        ? a->pull_s
                                                         : c.cells_s;
        add_family(a, f, s);
    }
    sort_tries(a);
    return UW_OK;
}

static bool fits(const struct uw_advice *a, const struct uw_advice_try *t)
{
    return 2.0 * (steps_s(a, t) + (averages(t) ? t->exchange_s : 0.0)) <= a->length_s;
}

static double first_exchange_s(const struct uw_advice *a, const struct uw_advice_try *t)
{
    return steps_s(a, t) + t->exchange_s;
}

bool uw_advice_exchanges_by(const struct uw_advice *a, const struct uw_advice_try *t,
                            double seconds)
{
    return first_exchange_s(a, t) <= seconds;
}

double uw_advice_least(const struct uw_advice *a, double share)
{
    double first_s = INFINITY;
    for (uint32_t i = 0; i < a->tries_n; i++) {
        double s = first_exchange_s(a, &a->tries[i]);
        first_s = a->tries[i].end == UW_ADVICE_RAN && s < first_s ? s : first_s;
    }
    return first_s < INFINITY ? fmax(first_s, share * a->wanted_s) : 0.0;
}

void uw_advice_rule_out(struct uw_advice *a)
{
    bool some = false;
    for (uint32_t i = 0; i < a->tries_n; i++) {
        some = some || (a->tries[i].end == UW_ADVICE_RAN && fits(a, &a->tries[i]));
    }
    for (uint32_t i = 0; some && i < a->tries_n; i++) {
        struct uw_advice_try *t = &a->tries[i];
        if (t->end == UW_ADVICE_RAN && !fits(a, t)) {
            t->end = UW_ADVICE_COSTLY;
            snprintf(t->why, sizeof t->why, "two rounds of %u steps and an exchange of %.3g s are "
                     "longer than %.3g s", (unsigned)t->period, t->exchange_s, a->length_s);
        }
    }
}

static void vary_with(struct uw_advice *a, const struct uw_advice_try *t, uint32_t *list,
                      uint32_t *n, uint32_t max)
{
    uint32_t i = *n < max && fits(a, t) ? add(a, t) : UINT32_MAX;
    if (i != UINT32_MAX) {
        list[(*n)++] = i;
    }
}

void uw_advice_vary(struct uw_advice *a, uint32_t of, uint32_t *list, uint32_t *n, uint32_t max)
{
    const struct uw_advice_try from = a->tries[of];
    const struct family *f = family_of(&from);
    struct uw_advice_try t = {.mode = from.mode, .peers = from.peers,
                              .rule = from.rule, .period = from.period,
                              .exchange_s = from.exchange_s, .trains = from.trains};
    for (uint32_t i = 0; i < COUNT(f->rules) && f->rules[i] != NULL; i++) {
        t.rule = f->rules[i];
        if (admits_rule(a, f, t.rule)) {
            vary_with(a, &t, list, n, max);
        }
    }
    t.rule = from.rule;
    for (uint32_t i = 0; i < COUNT(f->schedules) && f->schedules[i] != NULL; i++) {
        t.peers = uw_peer_schedule_find(f->schedules[i]);
        if (admits_peers(a, f, t.peers)) {
            vary_with(a, &t, list, n, max);
        }
    }
    t.peers = from.peers;
    uint32_t period[COUNT(periods)], periods_n = choose_periods(a, period);
    for (uint32_t i = 0; i < periods_n; i++) {
        bool near = (i > 0 && period[i - 1u] == from.period) ||
                    (i + 1u < periods_n && period[i + 1u] == from.period);
        if (near) {
            t.period = period[i];
            estimate(a, &t, from.exchange_s);
            vary_with(a, &t, list, n, max);
        }
    }
}

void uw_advice_options(const struct uw_advice *a, const struct uw_advice_try *t,
                       struct uw_sim_options *o)
{
    bool celled = t->mode.at == UW_NODE_HIERARCHICAL && !a->has_cells;
    *o = *a->o;
    o->exchange.mode = t->mode;
    o->exchange.peers = t->peers != NULL ? t->peers : &uw_peer_schedule_random;
    o->exchange.rule = t->rule;
    o->exchange.period.n = t->period;
    o->algorithm = averages(t) ? o->algorithm : (struct uw_choice){NULL, UW_SIM_AUTO};
    o->scenario = celled ? &a->celled : o->scenario;
    o->steps = 0;
    o->epochs = 0;
    o->virtual_seconds = a->length_s * (1.0 + 1e-9);    /* the last test is due before */
    o->json = o->csv = o->checkpoint = o->resume = NULL;
    o->timeline = 0.0;
}

/* ---- curves ---- */

static void put_at(struct uw_advice_try *t, uint32_t at, double accuracy, double mean_model,
                   double bytes)
{
    t->accuracy[at] = accuracy;
    t->mean_model[at] = mean_model;
    t->bytes[at] = bytes;
    t->tests = t->tests > at ? t->tests : at;
}

void uw_advice_fill(struct uw_advice_try *t, uint32_t *at, uint32_t most)
{
    for (; *at < most; ++*at) {
        put_at(t, *at + 1u, t->accuracy[*at], t->mean_model[*at], t->bytes[*at]);
    }
}

double uw_advice_time(const struct uw_advice *a, uint32_t k)
{
    double share = (double)k / UW_ADVICE_TESTS;
    return share * share * a->length_s;
}

void uw_advice_put(const struct uw_advice *a, struct uw_advice_try *t,
                   const struct uw_sim_moment *m, uint32_t *at, uint32_t most)
{
    uint32_t k = *at;
    while (k < most && uw_advice_time(a, k + 1u) <= m->virtual_seconds) {
        k++;
    }
    if (k == *at) {
        return;
    }
    bool past = k < UW_ADVICE_TESTS && uw_advice_time(a, k + 1u) <= m->virtual_seconds;
    uw_advice_fill(t, at, past ? k : k - 1u);   /* past the end there is no value */
    if (!past) {
        put_at(t, ++*at, m->score->accuracy, m->score->mean_model_accuracy,
               m->bytes_sent / a->o->nodes);
    }
}

double uw_advice_reached(const struct uw_advice *a, const struct uw_advice_try *t, double accuracy,
                         uint32_t tests)
{
    uint32_t k = 1;
    while (k <= tests && t->accuracy[k] < accuracy) {
        k++;
    }
    if (k > tests) {
        return -1.0;
    }
    double before = t->accuracy[k - 1u], step = t->accuracy[k] - before;
    double from_s = uw_advice_time(a, k - 1u), to_s = uw_advice_time(a, k);
    double share = before >= accuracy ? 0.0 : step > 0.0 ? (accuracy - before) / step : 1.0;
    return from_s + (to_s - from_s) * share;
}

/* ---- which is better ---- */

uint32_t uw_advice_judged(const struct uw_advice_try *t)
{
    for (uint32_t i = UW_ADVICE_STAGES; i-- > 0;) {
        if (t->end == UW_ADVICE_RAN && t->tests >= uw_advice_stage_tests[i]) {
            return uw_advice_stage_tests[i];
        }
    }
    return 0;
}

/* The target for candidates with so many tests: what the user asked for if one of them reaches it,
 * else 98 % of the best accuracy. 0: no candidate has so many. */
static double target_of(const struct uw_advice *a, uint32_t tests)
{
    double best = 0.0, asked = a->o->until_accuracy;
    for (uint32_t i = 0; i < a->tries_n; i++) {
        const struct uw_advice_try *t = &a->tries[i];
        for (uint32_t k = 1; uw_advice_judged(t) >= tests && k <= tests; k++) {
            bool counts = k == tests || (asked > 0.0 && t->accuracy[k] >= asked);
            best = counts && t->accuracy[k] > best ? t->accuracy[k] : best;
        }
    }
    return asked > 0.0 && best >= asked ? asked : ENOUGH * best;
}

/* Returns below 0 if `one` is better than `other`. */
static int compare(const struct uw_advice *a, uint32_t one, uint32_t other, double target,
                   uint32_t tests)
{
    const struct uw_advice_try *x = &a->tries[one], *y = &a->tries[other];
    double tx = uw_advice_reached(a, x, target, tests), ty = uw_advice_reached(a, y, target, tests);
    double ax = x->accuracy[tests], ay = y->accuracy[tests];
    if ((tx < 0.0) != (ty < 0.0)) {
        return tx < 0.0 ? 1 : -1;
    }
    if (tx >= 0.0 && fabs(tx - ty) > SAME) {
        return tx < ty ? -1 : 1;
    }
    if (fabs(ax - ay) > SAME) {
        return ax > ay ? -1 : 1;
    }
    return (x->bytes[tests] > y->bytes[tests]) - (x->bytes[tests] < y->bytes[tests]);
}

/* Stable: of equals the first one wins. */
static void sort(const struct uw_advice *a, uint32_t *list, uint32_t n, uint32_t tests)
{
    double target = target_of(a, tests);
    for (uint32_t i = 1; i < n; i++) {
        uint32_t one = list[i], k = i;
        for (; k > 0 && compare(a, one, list[k - 1u], target, tests) < 0; k--) {
            list[k] = list[k - 1u];
        }
        list[k] = one;
    }
}

uint32_t uw_advice_rank(const struct uw_advice *a, uint32_t tests, uint32_t *list)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->tries_n; i++) {
        if (uw_advice_judged(&a->tries[i]) >= tests) {
            list[n++] = i;
        }
    }
    sort(a, list, n, tests);
    return n;
}

/* Append the candidates of one kind to a->order, which has n. */
static uint32_t add_order(struct uw_advice *a, uint32_t n, uint32_t tests,
                          enum uw_advice_end end)
{
    uint32_t first = n;
    for (uint32_t i = 0; i < a->tries_n; i++) {
        const struct uw_advice_try *t = &a->tries[i];
        if (t->end == end && uw_advice_judged(t) == tests) {
            a->order[n++] = i;
        }
    }
    if (tests != 0) {
        sort(a, a->order + first, n - first, tests);
    }
    return n;
}

void uw_advice_order(struct uw_advice *a)
{
    uint32_t n = 0;
    for (uint32_t i = UW_ADVICE_STAGES; i-- > 0;) {
        n = add_order(a, n, uw_advice_stage_tests[i], UW_ADVICE_RAN);
    }
    a->target = n != 0 ? target_of(a, uw_advice_judged(&a->tries[a->order[0]])) : 0.0;
    n = add_order(a, n, 0, UW_ADVICE_FAILED);
    n = add_order(a, n, 0, UW_ADVICE_COSTLY);
    (void)add_order(a, n, 0, UW_ADVICE_RAN);
}
