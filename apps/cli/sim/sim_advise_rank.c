/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_advise.h"

#include <math.h>

#define ENOUGH 0.98         /* of the best accuracy, when no target is given */
#define SAME 1e-9           /* of two times, or two accuracies */

const uint32_t uw_advice_stage_tests[UW_ADVICE_STAGES] = {7u, 12u, UW_ADVICE_TESTS};

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
    uw_advice_fill(t, at, past ? k : k - 1u);   /* past the end: what was there is not known */
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

/* ---- who is better ---- */

uint32_t uw_advice_judged(const struct uw_advice_try *t)
{
    for (uint32_t i = UW_ADVICE_STAGES; i-- > 0;) {
        if (t->end == UW_ADVICE_RAN && t->tests >= uw_advice_stage_tests[i]) {
            return uw_advice_stage_tests[i];
        }
    }
    return 0;
}

double uw_advice_target(const struct uw_advice *a, uint32_t tests)
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

/* Below 0: x is the better one. */
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
    double target = uw_advice_target(a, tests);
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

/* Those of one kind, after the n in a->order. */
static uint32_t add(struct uw_advice *a, uint32_t n, uint32_t tests, enum uw_advice_end end)
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
        n = add(a, n, uw_advice_stage_tests[i], UW_ADVICE_RAN);
    }
    a->target = n != 0 ? uw_advice_target(a, uw_advice_judged(&a->tries[a->order[0]])) : 0.0;
    n = add(a, n, 0, UW_ADVICE_FAILED);
    n = add(a, n, 0, UW_ADVICE_COSTLY);
    (void)add(a, n, 0, UW_ADVICE_RAN);
}
