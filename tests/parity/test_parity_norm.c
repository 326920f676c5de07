/* SPDX-License-Identifier: Apache-2.0
 *
 * Normalization and activations, forward and backward, give what PyTorch gives, on every backend
 * of this build. */
#include "test_support.h"

#include "kernel_case.h"

#include "uwasa/backends.h"
#include "uwasa/status.h"

#define RELATIVE 1e-4

#define VECTORS "norm.txt"

static struct uw_norm norm_of(const struct vector_case *c)
{
    return (struct uw_norm){.channels = vector_int(c, "channels"), .inner = vector_int(c, "inner"),
                            .groups = 1, .epsilon = vector_real(c, "epsilon")};
}

static void check_batchnorm(const struct vector_case *c, const struct uw_kernels *k)
{
    struct uw_norm g = norm_of(c);
    uint32_t batch_n = vector_int(c, "batch_n");
    bool training = vector_int(c, "training") != 0, affine = vector_int(c, "affine") != 0;
    size_t n = (size_t)batch_n * g.channels * g.inner, channels = g.channels;
    struct uw_exec e = {.kernels = k};
    g.momentum = vector_real(c, "momentum");
    float *x = filled(n, 1, 1), *dy = filled(n, 4, 1), *y = uw_test_floats(n);
    float *dx = uw_test_floats(n), *w = filled(channels, 2, 1), *b = filled(channels, 3, 1);
    float *mean = filled(channels, 5, 1), *var = filled(channels, 6, 1);
    float *stats = uw_test_floats(2 * channels), *sums = uw_test_floats(2 * channels);
    for (size_t i = 0; i < channels; i++) {
        var[i] = fabsf(var[i]) + 0.5f;
    }
    assert_int_equal(training ? k->norm->batchnorm_stats(&e, &g, batch_n, x, stats, mean, var)
                              : k->norm->batchnorm_running(&e, &g, mean, var, stats), UW_OK);
    assert_int_equal(k->norm->batchnorm_fw(&e, &g, batch_n, x, stats, affine ? w : NULL,
                                           affine ? b : NULL, y), UW_OK);
    assert_int_equal(k->norm->batchnorm_bw_sums(&e, &g, batch_n, x, stats, NULL, NULL, dy,
                                                sums), UW_OK);
    assert_int_equal(k->norm->batchnorm_bw_input(&e, &g, batch_n, x, stats, affine ? w : NULL,
                                                 NULL, training ? sums : NULL, dy, dx, false),
                     UW_OK);
    vector_expect(c, "y", k->name, y, RELATIVE);
    vector_expect(c, "dx", k->name, dx, RELATIVE);
    vector_expect(c, "running_mean", k->name, mean, RELATIVE);
    vector_expect(c, "running_var", k->name, var, RELATIVE);
    if (affine) {
        vector_expect(c, "db", k->name, sums, RELATIVE);
        vector_expect(c, "dw", k->name, sums + channels, RELATIVE);
    }
    release((float *[]){x, dy, y, dx, w, b, mean, var, stats, sums}, 10);
}

static void check_groupnorm(const struct vector_case *c, const struct uw_kernels *k)
{
    struct uw_norm g = norm_of(c);
    uint32_t batch_n = vector_int(c, "batch_n");
    bool affine = vector_int(c, "affine") != 0;
    size_t n = (size_t)batch_n * g.channels * g.inner, channels = g.channels;
    struct uw_exec e = {.kernels = k};
    g.groups = vector_int(c, "groups");
    float *x = filled(n, 1, 1), *dy = filled(n, 4, 1), *y = uw_test_floats(n);
    float *dx = uw_test_floats(n), *w = filled(channels, 2, 1), *b = filled(channels, 3, 1);
    float *stats = uw_test_floats((size_t)batch_n * g.groups * 2);
    float *dw = zeroed(channels), *db = zeroed(channels);
    const float *gamma = affine ? w : NULL;
    assert_int_equal(k->norm->groupnorm_fw(&e, &g, batch_n, x, gamma, affine ? b : NULL, y, stats),
                     UW_OK);
    assert_int_equal(k->norm->groupnorm_bw_input(&e, &g, batch_n, x, gamma, stats, dy, dx, false),
                     UW_OK);
    assert_int_equal(k->norm->groupnorm_bw_param(&e, &g, batch_n, x, stats, dy, 1.0f, dw, db),
                     UW_OK);
    vector_expect(c, "y", k->name, y, RELATIVE);
    vector_expect(c, "dx", k->name, dx, RELATIVE);
    if (affine) {
        vector_expect(c, "dw", k->name, dw, RELATIVE);
        vector_expect(c, "db", k->name, db, RELATIVE);
    }
    release((float *[]){x, dy, y, dx, w, b, stats, dw, db}, 9);
}

static void check_lrn(const struct vector_case *c, const struct uw_kernels *k)
{
    const struct uw_lrn l = {.channels = vector_int(c, "channels"),
                             .inner = vector_int(c, "inner"), .size = vector_int(c, "size"),
                             .alpha = vector_real(c, "alpha"), .beta = vector_real(c, "beta"),
                             .k = vector_real(c, "k")};
    uint32_t batch_n = vector_int(c, "batch_n");
    size_t n = (size_t)batch_n * l.channels * l.inner;
    size_t bytes = k->norm->lrn_scratch_bytes(&l, 1);
    void *scratch = uw_test_block(bytes);
    struct uw_exec e = {.kernels = k, .scratch = scratch, .scratch_bytes = bytes};
    float *x = filled(n, 1, 3), *dy = filled(n, 4, 1);
    float *y = uw_test_floats(n), *dx = uw_test_floats(n);
    assert_int_equal(k->norm->lrn_fw(&e, &l, batch_n, x, y), UW_OK);
    assert_int_equal(k->norm->lrn_bw_input(&e, &l, batch_n, x, dy, dx, false), UW_OK);
    vector_expect(c, "y", k->name, y, RELATIVE);
    vector_expect(c, "dx", k->name, dx, RELATIVE);
    release((float *[]){x, dy, y, dx}, 4);
    uw_test_release(scratch);
}

static void check_activation(const struct vector_case *c, const struct uw_kernels *k)
{
    const struct uw_activation a = {.kind = (enum uw_activation_kind)vector_int(c, "function"),
                                    .slope = vector_real(c, "slope")};
    size_t n = vector_int(c, "n");
    bool from_x = a.kind >= UW_ACTIVATION_GELU;
    struct uw_exec e = {.kernels = k};
    float *x = filled(n, 1, vector_real(c, "scale")), *dy = filled(n, 4, 1);
    float *y = uw_test_floats(n), *dx = uw_test_floats(n);
    assert_int_equal(k->activation->forward(&e, &a, n, x, y), UW_OK);
    assert_int_equal(k->activation->bw_input(&e, &a, n, from_x ? x : y, dy, dx, false), UW_OK);
    vector_expect(c, "y", k->name, y, RELATIVE);
    vector_expect(c, "dx", k->name, dx, RELATIVE);
    release((float *[]){x, dy, y, dx}, 4);
}

static void test_batchnorm_every_option_matches_pytorch(void **state)
{
    (void)state;
    each_case(VECTORS, "batchnorm", check_batchnorm);
}

static void test_groupnorm_and_layernorm_match_pytorch(void **state)
{
    (void)state;
    each_case(VECTORS, "groupnorm", check_groupnorm);
}

static void test_lrn_every_option_matches_pytorch(void **state)
{
    (void)state;
    each_case(VECTORS, "lrn", check_lrn);
}

static void test_activations_match_pytorch(void **state)
{
    (void)state;
    each_case(VECTORS, "activation", check_activation);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batchnorm_every_option_matches_pytorch),
        cmocka_unit_test(test_groupnorm_and_layernorm_match_pytorch),
        cmocka_unit_test(test_lrn_every_option_matches_pytorch),
        cmocka_unit_test(test_activations_match_pytorch),
    };
    return cmocka_run_group_tests_name("parity_norm", tests, NULL, NULL);
}
