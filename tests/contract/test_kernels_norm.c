/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel contract: normalization, against its definitions in double. */
#include "test_kernels.h"

struct norm_case {
    struct uw_norm n;
    uint32_t batch_n, threads;
    bool affine;
    float *x, *dy, *gamma, *beta, *y, *dx, *stats;
    size_t all;
    struct uw_test_exec e;
};

static void open_norm(struct norm_case *t, struct uw_norm n, uint32_t batch_n, uint32_t way)
{
    *t = (struct norm_case){.n = n, .batch_n = batch_n, .affine = (way & 1u) != 0,
                            .threads = (way & 2u) != 0 ? 3 : 1};
    t->all = (size_t)batch_n * n.channels * n.inner;
    t->x = uw_test_random_floats(t->all);
    for (size_t i = 0; i < t->all; i++) {
        t->x[i] = 2.0f * t->x[i] + 3.0f;
    }
    t->dy = uw_test_random_floats(t->all);
    t->gamma = t->affine ? uw_test_random_floats(n.channels) : NULL;
    t->beta = t->affine ? uw_test_random_floats(n.channels) : NULL;
    t->y = uw_test_floats(t->all);
    t->dx = uw_test_floats(t->all);
    t->stats = uw_test_floats((size_t)2 * (n.groups != 0 ? batch_n * n.groups : n.channels));
    uw_test_exec_begin(&t->e, t->threads, 0);
}

static void close_norm(struct norm_case *t)
{
    if (t->affine) {
        uw_test_release(t->gamma);
        uw_test_release(t->beta);
    }
    float *const blocks[] = {t->x, t->dy, t->y, t->dx, t->stats};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        uw_test_release(blocks[i]);
    }
    uw_test_exec_end(&t->e);
}

static uint32_t channel_of(const struct norm_case *t, size_t i)
{
    return (uint32_t)(i / t->n.inner % t->n.channels);
}

/* Pair of statistics that element i belongs to. */
static size_t pair_of(const struct norm_case *t, size_t i)
{
    uint32_t channel = channel_of(t, i);
    if (t->n.groups == 0) {
        return channel;
    }
    size_t sample = i / ((size_t)t->n.channels * t->n.inner);
    return sample * t->n.groups + channel / (t->n.channels / t->n.groups);
}

static size_t pairs_n(const struct norm_case *t)
{
    return t->n.groups == 0 ? t->n.channels : (size_t)t->batch_n * t->n.groups;
}

static double gamma_of(const struct norm_case *t, size_t i)
{
    return t->affine ? (double)t->gamma[channel_of(t, i)] : 1.0;
}

static double beta_of(const struct norm_case *t, size_t i)
{
    return t->affine ? (double)t->beta[channel_of(t, i)] : 0.0;
}

static double xhat_of(const struct norm_case *t, size_t i)
{
    const float *stats = t->stats + 2 * pair_of(t, i);
    return ((double)t->x[i] - (double)stats[0]) * (double)stats[1];
}

/* Checks the statistics; *variance is that of pair 0. */
static void judge_stats(const struct norm_case *t, double *mean0, double *variance0)
{
    for (size_t p = 0; p < pairs_n(t); p++) {
        double sum = 0.0, spread = 0.0, count = 0.0;
        for (size_t i = 0; i < t->all; i++) {
            sum += pair_of(t, i) == p ? (double)t->x[i] : 0.0;
            count += pair_of(t, i) == p ? 1.0 : 0.0;
        }
        for (size_t i = 0; i < t->all; i++) {
            double d = (double)t->x[i] - sum / count;
            spread += pair_of(t, i) == p ? d * d : 0.0;
        }
        double second = 1.0 / sqrt(spread / count + (double)t->n.epsilon);
        uw_test_assert_near((double)t->stats[2 * p], sum / count, 5e-7);
        uw_test_assert_near((double)t->stats[2 * p + 1], second, 4e-7 * second);
        if (p == 0) {
            *mean0 = sum / count;
            *variance0 = spread / count;
        }
    }
}

/* What goes back through a ReLU that is part of the batch norm: where the output shows it open. */
static double open_dy(const struct norm_case *t, size_t i)
{
    bool open = t->n.ceiling == 0.0f || (t->y[i] > 0.0f && t->y[i] < t->n.ceiling);
    return open ? (double)t->dy[i] : 0.0;
}

static void judge_output(const struct norm_case *t)
{
    for (size_t i = 0; i < t->all; i++) {
        double want = gamma_of(t, i) * xhat_of(t, i) + beta_of(t, i);
        if (t->n.ceiling > 0.0f) {
            want = fmin(fmax(want, 0.0), (double)t->n.ceiling);
        }
        uw_test_assert_near((double)t->y[i], want, 1e-6 * (1.0 + fabs(xhat_of(t, i))));
    }
}

/* dx by the definition; the means of g * dy and g * dy * xhat run over the pair of i, and are 0
 * when the statistics are constants. before: what dx is added to. */
static void judge_gradient(const struct norm_case *t, bool constants, const float *before)
{
    size_t n = pairs_n(t);
    double *a = calloc(3 * n, sizeof *a), *b = a + n, *count = b + n;
    assert_non_null(a);
    for (size_t i = 0; i < t->all; i++) {
        size_t p = pair_of(t, i);
        a[p] += gamma_of(t, i) * open_dy(t, i);
        b[p] += gamma_of(t, i) * open_dy(t, i) * xhat_of(t, i);
        count[p] += 1.0;
    }
    for (size_t i = 0; i < t->all; i++) {
        size_t p = pair_of(t, i);
        double second = (double)t->stats[2 * p + 1];
        double d = gamma_of(t, i) * open_dy(t, i);
        d -= constants ? 0.0 : a[p] / count[p] + xhat_of(t, i) * b[p] / count[p];
        double want = second * d + (before != NULL ? (double)before[i] : 0.0);
        uw_test_assert_near((double)t->dx[i], want,
                            1e-6 * (second + 1.0) * (1.0 + fabs(xhat_of(t, i))));
    }
    free(a);
}

/* The slots that do two things give the bits of the two slots; dx holds before + gradient. */
static void judge_pairs(const struct norm_case *t, const float *sums, const float *before)
{
    const struct uw_norm_kernels *k = uw_test_table()->norm;
    size_t channels = t->n.channels;
    float *y = uw_test_floats(t->all), *stats = uw_test_floats(2 * channels);
    float *dx = uw_test_copy_floats(t->all, before), *both = uw_test_floats(2 * channels);
    float *mean = uw_test_random_floats(2 * channels), *var = mean + channels;
    float *same = uw_test_copy_floats(2 * channels, mean);
    assert_int_equal(k->batchnorm_stats_fw(&t->e.exec, &t->n, t->batch_n, t->x, stats, mean, var,
                                           t->gamma, t->beta, y), UW_OK);
    uw_test_assert_same_bits(t->all, t->y, y);
    uw_test_assert_same_bits(2 * channels, t->stats, stats);
    k->batchnorm_stats(&t->e.exec, &t->n, t->batch_n, t->x, stats, same, same + channels);
    uw_test_assert_same_bits(2 * channels, same, mean);
    assert_int_equal(k->batchnorm_bw_sums_input(&t->e.exec, &t->n, t->batch_n, t->x, t->stats,
                                                t->gamma, t->beta, t->dy, both, dx, true), UW_OK);
    uw_test_assert_same_bits(2 * channels, sums, both);
    uw_test_assert_same_bits(t->all, t->dx, dx);
    memcpy(dx, before, t->all * sizeof *dx);
    k->batchnorm_bw_sums_input(&t->e.exec, &t->n, t->batch_n, t->x, t->stats, t->gamma, t->beta,
                               t->dy, both, dx, false);
    uw_test_assert_same_bits(t->all, before, dx);
    float *const blocks[] = {y, stats, dx, both, mean, same};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        uw_test_release(blocks[i]);
    }
}

static void check_batchnorm(struct uw_norm n, uint32_t batch_n, uint32_t way)
{
    const struct uw_norm_kernels *k = uw_test_table()->norm;
    struct norm_case t;
    open_norm(&t, n, batch_n, way);
    float *mean = uw_test_random_floats(n.channels), *var = uw_test_random_floats(n.channels);
    float *sums = uw_test_floats((size_t)2 * n.channels);
    double mean0 = (double)mean[0], var0 = (double)var[0], count = (double)batch_n * n.inner;
    double want_mean, want_var, rate = (double)n.momentum;
    assert_int_equal(k->batchnorm_stats(&t.e.exec, &t.n, batch_n, t.x, t.stats, NULL, NULL),
                     UW_OK);
    judge_stats(&t, &want_mean, &want_var);
    assert_int_equal(k->batchnorm_stats(&t.e.exec, &t.n, batch_n, t.x, t.stats, mean, var), UW_OK);
    uw_test_assert_near((double)mean[0], mean0 + rate * (want_mean - mean0), 1e-6);
    want_var = count > 1.0 ? want_var * count / (count - 1.0) : var0;
    uw_test_assert_near((double)var[0], var0 + rate * (want_var - var0), 1e-6 * (1.0 + want_var));
    assert_int_equal(k->batchnorm_fw(&t.e.exec, &t.n, batch_n, t.x, t.stats, t.gamma, t.beta,
                                     t.y), UW_OK);
    judge_output(&t);
    assert_int_equal(k->batchnorm_bw_sums(&t.e.exec, &t.n, batch_n, t.x, t.stats, t.gamma,
                                          t.beta, t.dy, sums),
                     UW_OK);
    for (uint32_t c = 0; c < n.channels; c++) {
        struct uw_sum plain = {0}, projected = {0};
        for (size_t i = 0; i < t.all; i++) {
            if (channel_of(&t, i) == c) {
                uw_sum_add(&plain, open_dy(&t, i));
                uw_sum_add(&projected, open_dy(&t, i) * xhat_of(&t, i));
            }
        }
        uw_test_assert_sum(sums[c], &plain);
        uw_test_assert_sum(sums[n.channels + c], &projected);
    }
    assert_int_equal(k->batchnorm_bw_input(&t.e.exec, &t.n, batch_n, t.x, t.stats, t.gamma,
                                           t.beta, NULL, t.dy, t.dx, false), UW_OK);
    judge_gradient(&t, true, NULL);
    assert_int_equal(k->batchnorm_bw_input(&t.e.exec, &t.n, batch_n, t.x, t.stats, t.gamma,
                                           t.beta, sums, t.dy, t.dx, false), UW_OK);
    judge_gradient(&t, false, NULL);
    float *before = uw_test_copy_floats(t.all, t.dx);
    assert_int_equal(k->batchnorm_bw_input(&t.e.exec, &t.n, batch_n, t.x, t.stats, t.gamma,
                                           t.beta, sums, t.dy, t.dx, true), UW_OK);
    judge_gradient(&t, false, before);
    judge_pairs(&t, sums, before);
    uw_test_release(before);
    uw_test_release(sums);
    uw_test_release(mean);
    uw_test_release(var);
    close_norm(&t);
}

static const uint32_t inners[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 49, 130};
#define INNERS_N (sizeof inners / sizeof *inners)

static void test_batchnorm_matches_definition(void **state)
{
    (void)state;
    struct uw_norm n = {.epsilon = 1e-3f, .momentum = 0.25f};
    for (uint32_t i = 0; i < INNERS_N * 4; i++) {
        n.inner = inners[i / 4];
        n.channels = 1 + i % 5;
        n.ceiling = 0.0f;
        check_batchnorm(n, 2 + i % 3, i);
        check_batchnorm(n, 1, i);
        n.ceiling = i % 2 == 0 ? INFINITY : 0.5f;   /* with a ReLU */
        check_batchnorm(n, 2 + i % 3, i);
    }
    n.channels = 37;
    n.inner = 1;
    check_batchnorm(n, 33, 3);
    n.channels = 3;
    n.inner = 300;
    check_batchnorm(n, 60, 3);      /* more than one task */
    n.ceiling = 0.0f;
    check_batchnorm(n, 60, 3);
}

static void judge_weights(const struct norm_case *t)
{
    const struct uw_norm_kernels *k = uw_test_table()->norm;
    uint32_t c_n = t->n.channels;
    float *dgamma = uw_test_random_floats(c_n), *dbeta = uw_test_random_floats(c_n);
    float *gamma0 = uw_test_copy_floats(c_n, dgamma), *beta0 = uw_test_copy_floats(c_n, dbeta);
    float *only = uw_test_copy_floats(c_n, dgamma);
    assert_int_equal(k->groupnorm_bw_param(&t->e.exec, &t->n, t->batch_n, t->x, t->stats, t->dy,
                                           -0.5f, dgamma, dbeta), UW_OK);
    assert_int_equal(k->groupnorm_bw_param(&t->e.exec, &t->n, t->batch_n, t->x, t->stats, t->dy,
                                           -0.5f, only, NULL), UW_OK);
    uw_test_assert_same_bits(c_n, only, dgamma);
    for (uint32_t c = 0; c < c_n; c++) {
        struct uw_sum plain = {0}, projected = {0};
        uw_sum_add(&plain, (double)beta0[c]);
        uw_sum_add(&projected, (double)gamma0[c]);
        for (size_t i = 0; i < t->all; i++) {
            if (channel_of(t, i) == c) {
                uw_sum_add(&plain, -0.5 * (double)t->dy[i]);
                uw_sum_add(&projected, -0.5 * (double)t->dy[i] * xhat_of(t, i));
            }
        }
        uw_test_assert_sum(dgamma[c], &projected);
        uw_test_assert_sum(dbeta[c], &plain);
    }
    float *const blocks[] = {dgamma, dbeta, gamma0, beta0, only};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        uw_test_release(blocks[i]);
    }
}

static void check_groupnorm(struct uw_norm n, uint32_t batch_n, uint32_t way)
{
    const struct uw_norm_kernels *k = uw_test_table()->norm;
    struct norm_case t;
    double mean, variance;
    open_norm(&t, n, batch_n, way);
    assert_int_equal(k->groupnorm_fw(&t.e.exec, &t.n, batch_n, t.x, t.gamma, t.beta, t.y,
                                     t.stats), UW_OK);
    judge_stats(&t, &mean, &variance);
    judge_output(&t);
    float *again = uw_test_floats(t.all);
    assert_int_equal(k->groupnorm_fw(&t.e.exec, &t.n, batch_n, t.x, t.gamma, t.beta, again, NULL),
                     UW_OK);
    uw_test_assert_same_bits(t.all, again, t.y);
    assert_int_equal(k->groupnorm_bw_input(&t.e.exec, &t.n, batch_n, t.x, t.gamma, t.stats, t.dy,
                                           t.dx, false), UW_OK);
    judge_gradient(&t, false, NULL);
    memcpy(again, t.dx, t.all * sizeof *again);
    assert_int_equal(k->groupnorm_bw_input(&t.e.exec, &t.n, batch_n, t.x, t.gamma, t.stats, t.dy,
                                           t.dx, true), UW_OK);
    judge_gradient(&t, false, again);
    judge_weights(&t);
    uw_test_release(again);
    close_norm(&t);
}

static void test_groupnorm_and_layernorm_match_definition(void **state)
{
    (void)state;
    struct uw_norm n = {.epsilon = 1e-3f};
    for (uint32_t i = 0; i < INNERS_N * 4; i++) {
        n.inner = inners[i / 4];
        n.groups = 1 + i % 3;
        n.channels = n.groups * (1 + i % 2 + (n.inner == 1 ? 6 : 0));
        check_groupnorm(n, 1 + i % 3, i);
    }
    n.inner = n.groups = 1;         /* layer norm: rows around a vector and a strip */
    for (uint32_t channels = 4; channels <= 70; channels += channels < 36 ? 1 : 17) {
        n.channels = channels;
        check_groupnorm(n, 3, channels);
    }
    n.channels = 300;
    check_groupnorm(n, 70, 3);      /* more than one task */
}

static void test_norm_nan_stays_in_its_channel_or_group(void **state)
{
    (void)state;
    const struct uw_norm_kernels *k = uw_test_table()->norm;
    for (uint32_t way = 0; way < 4; way++) {
        struct norm_case t;
        uint32_t groups = (way & 1u) != 0 ? 3 : 0;
        open_norm(&t, (struct uw_norm){.channels = 3, .inner = (way & 2u) != 0 ? 11 : 1,
                                       .groups = groups, .epsilon = 1e-5f}, 2, 0);
        t.x[t.n.inner] = NAN;       /* sample 0, channel 1 */
        if (groups == 0) {
            k->batchnorm_stats(&t.e.exec, &t.n, 2, t.x, t.stats, NULL, NULL);
            k->batchnorm_fw(&t.e.exec, &t.n, 2, t.x, t.stats, NULL, NULL, t.y);
        } else {
            k->groupnorm_fw(&t.e.exec, &t.n, 2, t.x, NULL, NULL, t.y, t.stats);
        }
        for (size_t i = 0; i < t.all; i++) {
            assert_true((isnan(t.y[i]) != 0) == (pair_of(&t, i) == 1));
        }
        close_norm(&t);
    }
}

/* Of dy in the middle channel of three, or of x, so that dx is not finite there. */
static void test_batchnorm_tells_of_gradients_that_are_not_finite(void **state)
{
    (void)state;
    const struct uw_norm_kernels *k = uw_test_table()->norm;
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (uint32_t i = 0; i < INNERS_N * 3; i++) {
        struct norm_case t;
        open_norm(&t, (struct uw_norm){.channels = 3, .inner = inners[i / 3], .epsilon = 1e-5f}, 3,
                  3);
        k->batchnorm_stats(&t.e.exec, &t.n, 3, t.x, t.stats, NULL, NULL);
        size_t inner = t.n.inner, at = (size_t)(i % 3) * 3 * inner + inner + i % inner;
        float *of = (i & 1u) != 0 ? t.x : t.dy;
        float sums[6], before = of[at];
        for (uint32_t fault = 0; fault < 2; fault++) {
            of[at] = fault != 0 ? bad[i % 3] : before;
            assert_int_equal(k->batchnorm_bw_sums_input(&t.e.exec, &t.n, 3, t.x, t.stats, t.gamma,
                                                        t.beta, t.dy, sums, t.dx, false), UW_OK);
            for (uint32_t c = 0; c < 3; c++) {
                bool finite = isfinite(sums[c]) && isfinite(sums[3 + c]);
                assert_int_equal(finite, fault == 0 || c != 1);
            }
        }
        close_norm(&t);
    }
}

/* Sums that are finite of gradients that are: dx is too large. */
static void test_batchnorm_tells_of_gradients_that_overflow(void **state)
{
    (void)state;
    const struct uw_norm_kernels *k = uw_test_table()->norm;
    for (uint32_t i = 0; i < INNERS_N; i++) {
        struct norm_case t;
        open_norm(&t, (struct uw_norm){.channels = 2, .inner = inners[i], .epsilon = 1e-5f}, 2, 3);
        k->batchnorm_stats(&t.e.exec, &t.n, 2, t.x, t.stats, NULL, NULL);
        t.stats[3] = 1e20f;
        for (uint32_t s = 0; s < 2; s++) {
            for (size_t j = 0; j < t.n.inner; j++) {
                t.x[(s * 2 + 1) * t.n.inner + j] = t.stats[2];
                t.dy[(s * 2 + 1) * t.n.inner + j] = s == 0 ? 1e20f : -1e20f;
            }
        }
        float sums[4];
        k->batchnorm_bw_sums_input(&t.e.exec, &t.n, 2, t.x, t.stats, NULL, NULL, t.dy, sums, t.dx,
                                   false);
        assert_true(isfinite(sums[0]) && isfinite(sums[2]) && isfinite(sums[3]));
        assert_true(isnan(sums[1]));
        close_norm(&t);
    }
}

const struct CMUnitTest uw_test_norm[] = {
    cmocka_unit_test(test_batchnorm_tells_of_gradients_that_are_not_finite),
    cmocka_unit_test(test_batchnorm_tells_of_gradients_that_overflow),
    cmocka_unit_test(test_batchnorm_matches_definition),
    cmocka_unit_test(test_groupnorm_and_layernorm_match_definition),
    cmocka_unit_test(test_norm_nan_stays_in_its_channel_or_group),
};
const size_t uw_test_norm_n = sizeof uw_test_norm / sizeof *uw_test_norm;
