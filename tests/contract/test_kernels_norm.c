/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel contract: normalization, activations and dropout. */
#include "test_kernels.h"

struct norm_case {
    uint32_t batch_n;
    struct uw_norm n;
};

/* Odd sizes around the lanes, one value alone, a single group, and more than one task. */
static const struct norm_case norm_cases[] = {
    {1, {1, 1, 1, 1e-5f, 0.1f}},   {1, {3, 1, 1, 1e-5f, 0.1f}},   {2, {4, 7, 2, 1e-3f, 0.3f}},
    {3, {6, 8, 3, 1e-5f, 0.1f}},   {2, {5, 9, 5, 1e-5f, 1.0f}},   {4, {2, 31, 1, 1e-5f, 0.1f}},
    {3, {10, 1, 1, 1e-5f, 0.1f}},  {2, {33, 700, 3, 1e-5f, 0.1f}}, {70, {300, 1, 1, 1e-5f, 0.1f}},
};
#define NORM_CASES_N (sizeof norm_cases / sizeof *norm_cases)

/* Naive mean and 1 / sqrt(variance + epsilon) of the values that `in` chooses. */
static void naive_stats(const struct norm_case *c, const float *x, bool batch, uint32_t sample,
                        uint32_t group, double *mean, double *variance, double *count)
{
    uint32_t width = c->n.channels / c->n.groups;
    *mean = *variance = *count = 0.0;
    for (int pass = 0; pass < 2; pass++) {
        double sum = 0.0;
        *count = 0.0;
        for (uint32_t s = 0; s < c->batch_n; s++)
        for (uint32_t ch = 0; ch < c->n.channels; ch++) {
            bool in = batch ? ch == group : s == sample && ch / width == group;
            for (uint32_t i = 0; in && i < c->n.inner; i++) {
                double v = (double)x[((size_t)s * c->n.channels + ch) * c->n.inner + i];
                sum += pass == 0 ? v : (v - *mean) * (v - *mean);
                *count += 1.0;
            }
        }
        *(pass == 0 ? mean : variance) = sum / *count;
    }
}

static void release(float **blocks, size_t blocks_n)
{
    for (size_t i = 0; i < blocks_n; i++) {
        uw_test_release(blocks[i]);
    }
}

static void check_batchnorm(const struct norm_case *c, uint32_t threads)
{
    const struct uw_norm_kernels *k = uw_test_table()->norm;
    const struct uw_norm *g = &c->n;
    size_t channels = g->channels, n = (size_t)c->batch_n * channels * g->inner;
    struct uw_test_exec e;
    uw_test_exec_begin(&e, threads, 0);
    float *x = uw_test_random_floats(n), *dy = uw_test_random_floats(n), *y = uw_test_floats(n);
    float *gamma = uw_test_random_floats(channels), *beta = uw_test_random_floats(channels);
    float *mean = uw_test_random_floats(channels), *var = uw_test_random_floats(channels);
    float *mean0 = uw_test_copy_floats(channels, mean), *var0 = uw_test_copy_floats(channels, var);
    float *stats = uw_test_floats(2 * channels), *sums = uw_test_floats(2 * channels);
    float *dx = uw_test_floats(n), *twice = uw_test_random_floats(n);
    float *before = uw_test_copy_floats(n, twice);
    assert_int_equal(k->batchnorm_stats(&e.exec, g, c->batch_n, x, stats, mean, var), UW_OK);
    assert_int_equal(k->batchnorm_fw(&e.exec, g, c->batch_n, x, stats, gamma, beta, y), UW_OK);
    assert_int_equal(k->batchnorm_bw_sums(&e.exec, g, c->batch_n, x, stats, dy, sums), UW_OK);
    assert_int_equal(k->batchnorm_bw_input(&e.exec, g, c->batch_n, x, stats, gamma, sums, dy, dx,
                                           false), UW_OK);
    assert_int_equal(k->batchnorm_bw_input(&e.exec, g, c->batch_n, x, stats, gamma, sums, dy,
                                           twice, true), UW_OK);
    for (uint32_t ch = 0; ch < channels; ch++) {
        double m, v, count, plain = 0.0, projected = 0.0;
        naive_stats(c, x, true, 0, ch, &m, &v, &count);
        double second = 1.0 / sqrt(v + (double)g->epsilon);
        uw_test_assert_near((double)stats[2 * ch], m, 1e-6);
        uw_test_assert_near((double)stats[2 * ch + 1], second, 1e-5 * second);
        double momentum = (double)g->momentum;
        uw_test_assert_near((double)mean[ch], (1 - momentum) * (double)mean0[ch] + momentum * m,
                            1e-6);
        double moved = count > 1 ? (1 - momentum) * (double)var0[ch] +
                                       momentum * v * count / (count - 1)
                                 : (double)var0[ch];
        uw_test_assert_near((double)var[ch], moved, 1e-6);
        for (size_t i = 0; i < n; i++) {
            if (i / g->inner % channels == ch) {
                double xhat = ((double)x[i] - m) * second;
                plain += (double)dy[i];
                projected += (double)dy[i] * xhat;
                uw_test_assert_near((double)y[i], (double)gamma[ch] * xhat + (double)beta[ch],
                                    1e-5 * (1.0 + fabs(xhat)));
            }
        }
        uw_test_assert_near((double)sums[ch], plain, 1e-5 * (1 + count / 10));
        uw_test_assert_near((double)sums[channels + ch], projected, 1e-5 * (1 + count / 10));
        for (size_t i = 0; i < n; i++) {
            if (i / g->inner % channels == ch) {
                double xhat = ((double)x[i] - m) * second;
                double want = (double)gamma[ch] * second *
                              ((double)dy[i] - plain / count - xhat * projected / count);
                uw_test_assert_near((double)dx[i], want, 2e-6 * (second + 10));
                uw_test_assert_near((double)twice[i], (double)before[i] + (double)dx[i], 1e-6 *
                                    (second + 10));
            }
        }
    }
    release((float *[]){x, dy, y, gamma, beta, mean, var, mean0, var0, stats, sums, dx, twice,
                        before}, 14);
    uw_test_exec_end(&e);
}

static void check_groupnorm(const struct norm_case *c, uint32_t threads)
{
    const struct uw_norm_kernels *k = uw_test_table()->norm;
    const struct uw_norm *g = &c->n;
    size_t channels = g->channels, n = (size_t)c->batch_n * channels * g->inner;
    size_t groups = (size_t)c->batch_n * g->groups, width = channels / g->groups;
    struct uw_test_exec e;
    uw_test_exec_begin(&e, threads, 0);
    float *x = uw_test_random_floats(n), *dy = uw_test_random_floats(n), *y = uw_test_floats(n);
    float *gamma = uw_test_random_floats(channels), *beta = uw_test_random_floats(channels);
    float *stats = uw_test_floats(2 * groups), *dx = uw_test_floats(n);
    float *dgamma = uw_test_floats(channels), *dbeta = uw_test_floats(channels);
    memset(dgamma, 0, channels * sizeof *dgamma);
    assert_int_equal(k->groupnorm_fw(&e.exec, g, c->batch_n, x, gamma, beta, y, NULL), UW_OK);
    float *y2 = uw_test_floats(n);
    assert_int_equal(k->groupnorm_fw(&e.exec, g, c->batch_n, x, gamma, beta, y2, stats), UW_OK);
    uw_test_assert_same_bits(n, y, y2);
    assert_int_equal(k->groupnorm_bw_input(&e.exec, g, c->batch_n, x, gamma, stats, dy, dx, false),
                     UW_OK);
    k->groupnorm_bw_param(&e.exec, g, c->batch_n, x, stats, dy, 2.0f, dgamma, NULL);
    memset(dbeta, 0, channels * sizeof *dbeta);
    k->groupnorm_bw_param(&e.exec, g, c->batch_n, x, stats, dy, 2.0f, NULL, dbeta);
    double *want_gamma = calloc(channels, sizeof *want_gamma);
    double *want_beta = calloc(channels, sizeof *want_beta);
    for (size_t q = 0; q < groups; q++) {
        double m, v, count, a = 0.0, b = 0.0;
        naive_stats(c, x, false, (uint32_t)(q / g->groups), (uint32_t)(q % g->groups), &m, &v,
                    &count);
        double second = 1.0 / sqrt(v + (double)g->epsilon);
        size_t first = q * width * g->inner;
        for (size_t i = first; i < first + width * g->inner; i++) {
            size_t ch = i / g->inner % channels;
            double xhat = ((double)x[i] - m) * second;
            uw_test_assert_near((double)y[i], (double)gamma[ch] * xhat + (double)beta[ch],
                                1e-5 * (1.0 + fabs(xhat)));
            a += (double)gamma[ch] * (double)dy[i];
            b += (double)gamma[ch] * (double)dy[i] * xhat;
            want_gamma[ch] += 2.0 * (double)dy[i] * xhat;
            want_beta[ch] += 2.0 * (double)dy[i];
        }
        for (size_t i = first; i < first + width * g->inner; i++) {
            double xhat = ((double)x[i] - m) * second;
            double want = second * ((double)gamma[i / g->inner % channels] * (double)dy[i] -
                                    a / count - xhat * b / count);
            uw_test_assert_near((double)dx[i], want, 2e-6 * (second + 10));
        }
    }
    for (size_t ch = 0; ch < channels; ch++) {
        double terms = (double)c->batch_n * (double)g->inner;
        uw_test_assert_near((double)dgamma[ch], want_gamma[ch], 1e-5 * (1 + terms / 10));
        uw_test_assert_near((double)dbeta[ch], want_beta[ch], 1e-5 * (1 + terms / 10));
    }
    free(want_gamma);
    free(want_beta);
    release((float *[]){x, dy, y, y2, gamma, beta, stats, dx, dgamma, dbeta}, 10);
    uw_test_exec_end(&e);
}

static void test_norm_odd_sizes_match_definition(void **state)
{
    (void)state;
    for (size_t i = 0; i < NORM_CASES_N; i++) {
        check_batchnorm(&norm_cases[i], 1 + (uint32_t)i % 3);
        check_groupnorm(&norm_cases[i], 1 + (uint32_t)i % 3);
    }
}

static void test_lrn_odd_sizes_match_definition_and_need_their_scratch(void **state)
{
    (void)state;
    const struct uw_norm_kernels *k = uw_test_table()->norm;
    static const struct uw_lrn cases[] = {{1, 1, 1, 0.5f, 0.75f, 1.0f}, {7, 17, 5, 2.0f, 0.75f, 1},
                                          {4, 16, 2, 1.0f, 0.5f, 2.0f}, {3, 33, 9, 3.0f, 1, 1}};
    for (size_t q = 0; q < sizeof cases / sizeof cases[0]; q++) {
        const struct uw_lrn *l = &cases[q];
        size_t n = (size_t)2 * l->channels * l->inner, inner = l->inner;
        struct uw_test_exec e;
        uw_test_exec_begin(&e, 3, k->lrn_scratch_bytes(l, 3));
        float *x = uw_test_random_floats(n), *dy = uw_test_random_floats(n);
        float *y = uw_test_floats(n), *dx = uw_test_floats(n);
        double *scale = calloc(n, sizeof *scale);
        assert_int_equal(k->lrn_fw(&e.exec, l, 2, x, y), UW_OK);
        assert_int_equal(k->lrn_bw_input(&e.exec, l, 2, x, dy, dx, false), UW_OK);
        for (size_t i = 0; i < n; i++) {
            double sum = 0.0;
            for (size_t j = 0; j < n; j++) {
                long gap = (long)(j / inner % l->channels) - (long)(i / inner % l->channels);
                bool in = j % inner == i % inner && j / inner / l->channels ==
                          i / inner / l->channels && gap >= -(long)(l->size / 2) &&
                          gap <= (long)(l->size - 1) / 2;
                sum += in ? (double)x[j] * (double)x[j] : 0.0;
            }
            scale[i] = (double)l->k + (double)l->alpha / l->size * sum;
            uw_test_assert_near((double)y[i], (double)x[i] * pow(scale[i], -(double)l->beta), 1e-6);
        }
        for (size_t i = 0; i < n; i++) {
            double want = (double)dy[i] * pow(scale[i], -(double)l->beta);
            for (size_t j = 0; j < n; j++) {
                long gap = (long)(i / inner % l->channels) - (long)(j / inner % l->channels);
                bool in = j % inner == i % inner && j / inner / l->channels ==
                          i / inner / l->channels && gap >= -(long)(l->size / 2) &&
                          gap <= (long)(l->size - 1) / 2;
                want -= in ? 2.0 * (double)(l->alpha * l->beta) / l->size * (double)x[i] *
                                 (double)dy[j] * (double)x[j] *
                                 pow(scale[j], -(double)l->beta - 1.0)
                           : 0.0;
            }
            uw_test_assert_near((double)dx[i], want, 5e-6);
        }
        float *twice = uw_test_copy_floats(n, dx);
        assert_int_equal(k->lrn_bw_input(&e.exec, l, 2, x, dy, twice, true), UW_OK);
        for (size_t i = 0; i < n; i++) {
            uw_test_assert_near((double)twice[i], 2.0 * (double)dx[i], 1e-6);
        }
        e.exec.scratch_bytes -= 1;
        assert_int_equal(k->lrn_bw_input(&e.exec, l, 2, x, dy, dx, false), UW_ERR_NOMEM);
        free(scale);
        release((float *[]){x, dy, y, dx, twice}, 5);
        uw_test_exec_end(&e);
    }
}

static double activation_of(const struct uw_activation *a, double x)
{
    switch (a->kind) {
    case UW_ACTIVATION_RELU6:
        return fmin(fmax(x, 0.0), 6.0);
    case UW_ACTIVATION_LEAKY_RELU:
        return x > 0.0 ? x : (double)a->slope * x;
    case UW_ACTIVATION_SIGMOID:
        return 1.0 / (1.0 + exp(-x));
    case UW_ACTIVATION_TANH:
        return tanh(x);
    case UW_ACTIVATION_GELU:
        return x * 0.5 * erfc(-x / sqrt(2.0));
    case UW_ACTIVATION_GELU_TANH:
        return 0.5 * x * (1.0 + tanh(sqrt(2.0 / acos(-1.0)) * (x + 0.044715 * x * x * x)));
    default:
        return x / (1.0 + exp(-x));
    }
}

/* Values, slopes (central differences), NaN, in place, accumulation, for every kind. */
static void test_activations_match_definition_in_place_and_keep_nan(void **state)
{
    (void)state;
    const struct uw_activation_kernels *k = uw_test_table()->activation;
    static const size_t sizes[] = {0, 1, 7, 8, 9, 33, 40001};
    for (uint32_t kind = 0; kind <= UW_ACTIVATION_SILU; kind++)
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        const struct uw_activation a = {(enum uw_activation_kind)kind, 0.2f};
        size_t n = sizes[s];
        struct uw_test_exec e;
        uw_test_exec_begin(&e, 3, 0);
        float *x = uw_test_random_floats(n), *dy = uw_test_random_floats(n);
        for (size_t i = 0; i < n; i++) {
            x[i] = i % 11 == 5 ? NAN : x[i] * (i % 3 == 0 ? 30.0f : 4.0f);
        }
        float *y = uw_test_floats(n), *dx = uw_test_floats(n), *same = uw_test_copy_floats(n, x);
        assert_int_equal(k->forward(&e.exec, &a, n, x, y), UW_OK);
        assert_int_equal(k->forward(&e.exec, &a, n, same, same), UW_OK);
        uw_test_assert_same_bits(n, y, same);
        const float *v = kind >= UW_ACTIVATION_GELU ? x : y;
        assert_int_equal(k->bw_input(&e.exec, &a, n, v, dy, dx, false), UW_OK);
        float *sum = uw_test_copy_floats(n, dx), *over = uw_test_copy_floats(n, dy);
        assert_int_equal(k->bw_input(&e.exec, &a, n, v, dy, sum, true), UW_OK);
        assert_int_equal(k->bw_input(&e.exec, &a, n, v, over, over, false), UW_OK);
        uw_test_assert_same_bits(n, dx, over);
        for (size_t i = 0; i < n; i++) {
            if (isnan(x[i])) {
                assert_true(isnan(y[i]));
                continue;
            }
            double want = activation_of(&a, (double)x[i]);
            uw_test_assert_near((double)y[i], want, 1e-6 * (1.0 + fabs((double)x[i])));
            double h = 1e-6, slope = (activation_of(&a, (double)x[i] + h) -
                                      activation_of(&a, (double)x[i] - h)) / (2 * h);
            bool kink = kind <= UW_ACTIVATION_LEAKY_RELU &&
                        (fabsf(x[i]) < 1e-5f || fabsf(x[i] - 6.0f) < 1e-5f);
            uw_test_assert_near(kink ? 0.0 : (double)dx[i], kink ? 0.0 : slope * (double)dy[i],
                                5e-6);
            uw_test_assert_near((double)sum[i], 2.0 * (double)dx[i], 1e-6);
        }
        release((float *[]){x, dy, y, dx, same, sum, over}, 7);
        uw_test_exec_end(&e);
    }
}

static void test_dropout_mask_depends_on_key_and_place_only(void **state)
{
    (void)state;
    const struct uw_activation_kernels *k = uw_test_table()->activation;
    enum { N = 100003 };
    struct uw_test_exec e;
    uw_test_exec_begin(&e, 3, 0);
    float *x = uw_test_floats(N), *y = uw_test_floats(N), *part = uw_test_floats(N);
    for (size_t i = 0; i < N; i++) {
        x[i] = 1.0f;
    }
    size_t kept = 0, both = 0;
    assert_int_equal(k->dropout(&e.exec, 42, 5, N, 0.25f, x, y, false), UW_OK);
    for (size_t at = 0; at < N;) { /* in pieces, in place, on one thread */
        size_t n = 1 + uw_test_below(30000);
        n = n < N - at ? n : N - at;
        memcpy(part + at, x + at, n * sizeof *x);
        e.exec.workers = NULL;
        assert_int_equal(k->dropout(&e.exec, 42, 5 + at, n, 0.25f, part + at, part + at, false),
                         UW_OK);
        at += n;
    }
    uw_test_assert_same_bits(N, y, part);
    assert_int_equal(k->dropout(&e.exec, 43, 5, N, 0.25f, x, part, false), UW_OK);
    for (size_t i = 0; i < N; i++) {
        assert_true(y[i] == 0.0f || y[i] == 1.0f / 0.75f);
        kept += y[i] != 0.0f;
        both += y[i] != 0.0f && part[i] != 0.0f;
    }
    assert_true(fabs((double)kept / N - 0.75) < 0.007);     /* 5 standard deviations */
    assert_true(fabs((double)both / N - 0.5625) < 0.008);   /* another key: independent */
    assert_int_equal(k->dropout(&e.exec, 42, 5, N, 0.25f, x, y, true), UW_OK);
    for (size_t i = 0; i < N; i++) {
        assert_true(y[i] == 0.0f || y[i] == 2.0f / 0.75f);
        x[i] = NAN;
    }
    assert_int_equal(k->dropout(&e.exec, 42, 5, N, 0.25f, x, y, false), UW_OK);
    for (size_t i = 0; i < N; i++) {
        assert_true(isnan(y[i]));
    }
    uw_test_release(x);
    uw_test_release(y);
    uw_test_release(part);
    uw_test_exec_end(&e);
}

const struct CMUnitTest uw_test_norm[] = {
    cmocka_unit_test(test_norm_odd_sizes_match_definition),
    cmocka_unit_test(test_lrn_odd_sizes_match_definition_and_need_their_scratch),
    cmocka_unit_test(test_activations_match_definition_in_place_and_keep_nan),
    cmocka_unit_test(test_dropout_mask_depends_on_key_and_place_only),
};
const size_t uw_test_norm_n = sizeof uw_test_norm / sizeof *uw_test_norm;
