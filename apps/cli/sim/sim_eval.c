/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_run.h"
#include "job/job_score.h"

#include "uwasa/board.h"

#include <math.h>
#include <stdlib.h>

#define LOOK_US 20000u
#define BLOCK_N 512u                /* parameters summed at a time, to stay in the cache */
#define RANGE_N 16384u              /* parameters per task of the mean model */

static bool is_honest(const struct uw_sim_fleet *f, uint32_t i)
{
    return f->devices[i].attack == UW_SIM_HONEST;
}

static uint32_t count_honest(const struct uw_sim_fleet *f)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->devices_n; i++) {
        n += is_honest(f, i);
    }
    return n;
}

/* The honest node with so many honest ones before it. */
static uint32_t honest_at(const struct uw_sim_fleet *f, uint32_t before)
{
    uint32_t i = 0;
    while (before != 0 || !is_honest(f, i)) {
        before -= is_honest(f, i);
        i++;
    }
    return i;
}

int uw_sim_open_eval(struct uw_sim *s)
{
    uint32_t nodes = count_honest(&s->draw.fleet);
    uint32_t n = s->o->eval_nodes < nodes ? s->o->eval_nodes : nodes;
    struct uw_rng rng;
    if (nodes == 0) {
        return uw_error_set(&s->err, UW_ERR_INVALID, "all nodes attack: none is left to test");
    }
    s->tested = calloc(n, sizeof *s->tested);
    s->mean = calloc(s->jobs[0].model.params.size_n, sizeof *s->mean);
    s->accuracies = calloc(n, sizeof *s->accuracies);
    if (s->tested == NULL || s->mean == NULL || s->accuracies == NULL) {
        return uw_error_set(&s->err, UW_ERR_NOMEM, "out of memory");
    }
    uw_rng_seed(&rng, uw_rng_mix(s->o->seed, UINT64_MAX));
    for (uint32_t i = 0; i < n; i++) {      /* one of each of n equal parts */
        uint32_t from = (uint32_t)((uint64_t)i * nodes / n);
        uint32_t to = (uint32_t)((i + 1ull) * nodes / n);
        s->tested[i] = honest_at(&s->draw.fleet, from + uw_rng_below(&rng, to - from));
    }
    s->tested_n = n;
    return UW_OK;
}

void uw_sim_close_eval(struct uw_sim *s)
{
    free(s->tested);
    free(s->mean);
    free(s->accuracies);
    s->tested = NULL;
    s->mean = NULL;
    s->accuracies = NULL;
}

bool uw_sim_looks(uint64_t *next_us)
{
    uint64_t now_us = uw_board_now_us();
    bool looks = now_us >= *next_us;
    *next_us = looks ? now_us + LOOK_US : *next_us;
    return looks;
}

/* ---- the mean of all, and how far they are from it ---- */

/* n <= BLOCK_N. Sums floats as doubles, so that identical models have distance 0. */
static void mean_block(const struct uw_world *w, uint32_t from, uint32_t n, float *mean,
                       struct uw_sim_apart *sums)
{
    uint32_t nodes = w->config.fleet->devices_n, honest_n = count_honest(w->config.fleet);
    double sum[BLOCK_N] = {0.0};
    for (uint32_t i = 0; i < nodes; i++) {
        if (!is_honest(w->config.fleet, i)) {
            continue;
        }
        const float *x = uw_world_model(w, &w->nodes[i]) + from;
        for (uint32_t k = 0; k < n; k++) {
            sum[k] += (double)x[k];
        }
    }
    for (uint32_t k = 0; k < n; k++) {
        sum[k] /= honest_n;
        sums->length += sum[k] * sum[k];
        mean[k] = (float)sum[k];
    }
    for (uint32_t i = 0; i < nodes; i++) {
        if (!is_honest(w->config.fleet, i)) {
            continue;
        }
        const float *x = uw_world_model(w, &w->nodes[i]) + from;
        for (uint32_t k = 0; k < n; k++) {
            double d = (double)x[k] - sum[k];
            sums->apart += d * d;
        }
    }
}

void uw_sim_mean_model(const struct uw_world *w, uint32_t from, uint32_t n, float *mean,
                       struct uw_sim_apart *sums)
{
    for (uint32_t at = 0; at < n; at += BLOCK_N) {
        mean_block(w, from + at, n - at < BLOCK_N ? n - at : BLOCK_N, mean + at, sums);
    }
}

struct range {
    struct uw_future future;
    struct uw_sim *s;
    uint32_t first, n;
    struct uw_sim_apart sums;
};

static void mean_range(struct uw_future *f, uint32_t thread)
{
    struct range *r = (struct range *)f;
    struct uw_sim_profile *p = &r->s->profile;
    uint64_t from_ns = uw_sim_profile_now(p);
    uw_sim_mean_model(&r->s->world, r->first, r->n, r->s->mean + r->first, &r->sums);
    p->threads[thread].tests_ns += uw_sim_profile_now(p) - from_ns;
}

static int take_mean(struct uw_sim *s, double *consensus_distance)
{
    uint32_t size_n = s->jobs[0].model.params.size_n;
    uint32_t ranges_n = (size_n + RANGE_N - 1u) / RANGE_N;
    struct range *ranges = calloc(ranges_n, sizeof *ranges);
    struct uw_sim_apart all = {0.0, 0.0};
    if (ranges == NULL) {
        return uw_error_set(&s->err, UW_ERR_NOMEM, "out of memory");
    }
    for (uint32_t i = 0; i < ranges_n; i++) {
        uint32_t left = size_n - i * RANGE_N;
        ranges[i] = (struct range){.future.run = mean_range, .s = s, .first = i * RANGE_N,
                                   .n = left < RANGE_N ? left : RANGE_N};
        uw_futures_submit(s->futures, &ranges[i].future);
    }
    for (uint32_t i = 0; i < ranges_n; i++) {
        uw_futures_await(s->futures, &ranges[i].future);
        all.apart += ranges[i].sums.apart;
        all.length += ranges[i].sums.length;
    }
    free(ranges);
    double honest = count_honest(&s->draw.fleet);
    *consensus_distance = all.length > 0.0 ? sqrt(all.apart / honest / all.length) : 0.0;
    return UW_OK;
}

/* ---- tests ---- */

/* Interpolates linearly. */
static double quantile(const double *sorted, uint32_t n, double q)
{
    double at = q * (double)(n - 1u);
    uint32_t below = (uint32_t)at;
    uint32_t above = below + 1u < n ? below + 1u : below;
    return sorted[below] + (at - (double)below) * (sorted[above] - sorted[below]);
}

/* Fill mean, quartiles and extremes from s->accuracies. Returns UW_OK or UW_ERR_NOMEM. */
static int spread_score(struct uw_sim_score *s)
{
    uint32_t nodes = s->nodes;
    double *sorted = malloc(nodes * sizeof *sorted);
    if (sorted == NULL) {
        return UW_ERR_NOMEM;
    }
    double sum = 0.0;
    for (uint32_t i = 0; i < nodes; i++) {
        sorted[i] = s->accuracies[i];
        sum += sorted[i];
    }
    const struct uw_spread spread = uw_spread_of(sorted, nodes);
    s->accuracy = sum / nodes;
    s->worst = spread.low;
    s->lower_quartile = quantile(sorted, nodes, 0.25);
    s->upper_quartile = quantile(sorted, nodes, 0.75);
    s->best = spread.high;
    free(sorted);
    return UW_OK;
}

struct test {
    struct uw_future future;
    struct uw_sim *s;
    float *x;
    uint32_t limit;
    int rc;
    struct uw_score score;
    uint64_t look_us;               /* time of the next check for a stop */
};

static bool stop_is_near(void *arg)
{
    struct test *t = arg;
    return uw_sim_looks(&t->look_us) && uw_stop_near();
}

static void run_test(struct uw_future *f, uint32_t thread)
{
    struct test *t = (struct test *)f;
    struct uw_job *job = &t->s->jobs[thread];
    struct uw_sim_profile *p = &t->s->profile;
    uint64_t from_ns = uw_sim_profile_now(p);
    struct uw_replica r = uw_model_replica(&job->model);
    r.x = t->x;
    t->rc = uw_model_use(&job->model, &r);
    if (t->rc == UW_OK) {
        t->rc = uw_job_evaluate(job, &t->s->in->tests.base, t->limit, stop_is_near, t, &t->score);
    }
    p->threads[thread].tests_ns += uw_sim_profile_now(p) - from_ns;
}

/* The first test is the mean model's. */
static int sum_up(struct uw_sim *s, struct test *tests, struct uw_sim_score *score)
{
    int rc = UW_OK;
    for (uint32_t i = 0; i <= s->tested_n; i++) {
        uw_futures_await(s->futures, &tests[i].future);
        rc = rc < 0 ? rc : tests[i].rc;
    }
    for (uint32_t i = 0; rc == UW_OK && i < s->tested_n; i++) {
        score->accuracies[i] = tests[i + 1u].score.accuracy;
        score->loss += tests[i + 1u].score.loss / s->tested_n;
    }
    score->mean_model_accuracy = tests[0].score.accuracy;
    return rc < 0 ? rc : spread_score(score);
}

static int run_tests(struct uw_sim *s, uint32_t limit, struct uw_sim_score *score)
{
    struct test *tests = calloc(s->tested_n + 1u, sizeof *tests);
    if (tests == NULL) {
        return uw_error_set(&s->err, UW_ERR_NOMEM, "out of memory");
    }
    for (uint32_t i = 0; i <= s->tested_n; i++) {
        tests[i] = (struct test){.future.run = run_test, .s = s, .limit = limit, .x = s->mean};
        if (i > 0) {
            tests[i].x = uw_world_model(&s->world, &s->world.nodes[s->tested[i - 1u]]);
        }
        uw_futures_submit(s->futures, &tests[i].future);
    }
    int rc = sum_up(s, tests, score);
    free(tests);
    if (rc < 0 && rc != UW_ERR_AGAIN) {
        return uw_error_set(&s->err, rc, "%.120s: test set: %s", s->o->data, uw_status_text(rc));
    }
    if (rc == UW_OK && !isfinite(score->loss)) {
        return uw_error_set(&s->err, UW_ERR_NONFINITE,
                            "the test loss is NaN or infinite; a lower --lr may help");
    }
    return rc;
}

int uw_sim_evaluate(struct uw_sim *s, uint32_t limit)
{
    struct uw_sim_score score = {.accuracies = s->accuracies, .nodes = s->tested_n};
    uw_sim_catch_up(s);
    int rc = take_mean(s, &score.consensus_distance);
    rc = rc < 0 ? rc : run_tests(s, limit, &score);
    if (rc == UW_OK) {
        s->score = score;
        s->scored = true;
    }
    return rc;
}
