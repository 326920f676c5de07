/* SPDX-License-Identifier: Apache-2.0
 *
 * Errors of an autoencoder, and their threshold. */
#include "test_support.h"

#include "model_fixture.h"

#include "uwasa/anomaly.h"

static const struct uw_layer_def layers[] = {DENSE("d", 2)};
static const struct uw_loss_def loss = {.kind = UW_LOSS_MSE, .target = UW_TARGET_INPUT};
static const struct uw_model_def twice = {"twice", 2, 0, 0, layers, 1, &loss, 1};
static const struct uw_model_def classes = {"classes", 2, 0, 0, layers, 1, NULL, 0};

/* A model that gives twice its input: the error of x is the mean of its squares. */
static void test_anomaly_error_is_that_of_the_sample_in_every_mode(void **state)
{
    (void)state;
    static const enum uw_plan_mode modes[] = {UW_PLAN_IMMEDIATE, UW_PLAN_FULL, UW_PLAN_INFERENCE};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        struct fixture f;
        float error = -1.0f;
        open_model(&f, &twice, 4, modes[i], false);
        memcpy(f.m.params.x, (const float[]){2, 0, 0, 2, 0, 0}, 6 * sizeof(float));
        assert_int_equal(uw_anomaly_error(&f.m, (const float[]){1.0f, 3.0f}, &error), UW_OK);
        assert_true(fabsf(error - 5.0f) < 1e-6f);
        assert_int_equal(uw_anomaly_found(&f.m, (const float[]){1, 3}, &error), UW_ERR_NOTFOUND);
        f.m.anomaly_threshold = 5.0f;
        assert_int_equal(uw_anomaly_found(&f.m, (const float[]){1.0f, 3.0f}, &error), 0);
        assert_int_equal(uw_anomaly_found(&f.m, (const float[]){1.0f, 3.1f}, &error), 1);
        assert_int_equal(uw_anomaly_found(&f.m, (const float[]){NAN, 0.0f}, &error), 1);
        assert_int_equal(uw_anomaly_found(&f.m, (const float[]){1e30f, 0.0f}, &error), 1);
        close_model(&f);
    }
    struct fixture f;
    float error;
    open_model(&f, &classes, 1, UW_PLAN_INFERENCE, false);
    assert_int_equal(uw_anomaly_error(&f.m, (const float[]){0, 0}, &error), UW_ERR_INVALID);
    close_model(&f);
}

/* Numbers of numpy.percentile. */
static void test_anomaly_percentile_is_numpys(void **state)
{
    (void)state;
    static const float values[] = {3.0f, 1.0f, 2.0f, 10.0f, 4.0f, 4.0f, 0.5f};
    static const double percentiles[] = {0, 10, 25, 50, 90, 99, 100};
    static const float wants[] = {0.5f, 0.8f, 1.5f, 3.0f, 6.4f, 9.64f, 10.0f};
    for (size_t i = 0; i < sizeof wants / sizeof wants[0]; i++) {
        float x[7];
        memcpy(x, values, sizeof x);
        float got = uw_anomaly_percentile(x, 7, percentiles[i]);
        if (!(fabsf(got - wants[i]) < 1e-5f)) {
            fail_msg("percentile %g is %g, not %g", percentiles[i], (double)got,
                     (double)wants[i]);
        }
        for (uint32_t k = 1; k < 7; k++) {
            assert_true(x[k - 1] <= x[k]);
        }
    }
    float one = 2.0f;
    assert_true(uw_anomaly_percentile(&one, 1, 37.0) == 2.0f);
    assert_true(uw_anomaly_percentile(NULL, 0, 37.0) == 0.0f);
}

static void test_anomaly_percentile_sorts_any_number(void **state)
{
    (void)state;
    struct uw_rng r;
    uw_rng_seed(&r, uw_test_seed(1));
    for (uint32_t n = 1; n <= 70; n++) {
        float *x = uw_test_floats(n);
        double sum = 0.0, again = 0.0;
        for (uint32_t i = 0; i < n; i++) {
            x[i] = floorf(10.0f * uw_rng_uniform(&r));
            sum += (double)x[i];
        }
        uw_anomaly_percentile(x, n, 50.0);
        for (uint32_t i = 0; i < n; i++) {
            again += (double)x[i];
            assert_true(i == 0 || x[i - 1] <= x[i]);
        }
        assert_true(sum == again);
        uw_test_release(x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_anomaly_error_is_that_of_the_sample_in_every_mode),
        cmocka_unit_test(test_anomaly_percentile_is_numpys),
        cmocka_unit_test(test_anomaly_percentile_sorts_any_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
