/* SPDX-License-Identifier: Apache-2.0
 *
 * Which way computes a dense layer: measured, kept in a file, and right whichever it is. */
#include "plan_fixture.h"

/* Either way of a dense layer, for every number of samples that both take. */
static void check_dense(const struct uw_dense *d, uint32_t batch_n, bool small)
{
    const struct uw_kernels *ref = &uw_kernels_ref;
    const struct uw_exec e = {.kernels = uw_cuda_kernels(gpu)}, plain = {.kernels = ref};
    size_t x_n = (size_t)batch_n * d->in, y_n = (size_t)batch_n * d->out;
    size_t w_n = (size_t)d->in * d->out;
    struct uw_dense_job j = {.part = UW_CONV2D_FW, .batch_n = batch_n, .a = x, .b = w, .out = y,
                             .bias = w};
    assert_true(x_n <= FLOATS && y_n <= FLOATS && w_n <= FLOATS);
    assert_int_equal(uw_dense_run(&e, d, &j, small), UW_OK);
    ref->dense_fw(&plain, d, batch_n, x, w, w, want);
    assert_near(y, y_n);
    j = (struct uw_dense_job){.part = UW_CONV2D_BW_INPUT, .batch_n = batch_n, .a = y, .b = w,
                              .out = dx, .accumulate = true};
    memcpy(want, dx, x_n * sizeof *want);
    ref->dense_bw_input(&plain, d, batch_n, y, w, want, true);
    assert_int_equal(uw_dense_run(&e, d, &j, small), UW_OK);
    assert_near(dx, x_n);
    j = (struct uw_dense_job){.part = UW_CONV2D_BW_PARAM, .batch_n = batch_n, .a = x, .b = y,
                              .out = dw, .keep = 0.5f, .scale = -0.01f, .dbias = dx};
    static float bias[FLOATS];
    memcpy(want, dw, w_n * sizeof *want);
    memcpy(bias, dx, d->out * sizeof *bias);
    ref->dense_bw_step(&plain, d, batch_n, x, y, 0.5f, -0.01f, want, bias, NULL, false);
    assert_int_equal(uw_dense_run(&e, d, &j, small), UW_OK);
    assert_near(dw, w_n);
    memcpy(want, bias, d->out * sizeof *bias);
    assert_near(dx, d->out);
}

static void test_dense_ways_match_ref_for_every_number_of_samples(void **state)
{
    (void)state;
    const struct uw_dense all[] = {{37, 10}, {64, 33}, {300, 5}, {8, 140}, {1, 1}};
    const uint32_t batch[] = {1, 2, 3, 4, 5, 8, 9, 16, 17, 64};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        for (size_t k = 0; k < sizeof batch / sizeof *batch; k++) {
            assert_true(uw_dense_small_takes(&all[i], batch[k]));
            check_dense(&all[i], batch[k], true);
            check_dense(&all[i], batch[k], false);
        }
        assert_false(uw_dense_small_takes(&all[i], 0));
        assert_false(uw_dense_small_takes(&all[i], 65));
    }
}

static void test_dense_choice_is_kept_and_covers_smaller_minibatches(void **state)
{
    (void)state;
    const struct uw_dense d = {20, 10};
    const struct uw_kernels *k = uw_cuda_kernels(gpu);
    for (int32_t way = 0; way < 2; way++) {
        for (uint32_t part = 0; part < UW_DENSE_PARTS; part++) {
            struct uw_cuda_choice c = {.part = UW_CONV2D_PARTS + part, .batch_n = 32,
                                       .shape = {d.in, d.out}, .algorithm = way};
            uw_cuda_choices_put(&gpu->products->choices, &c);
        }
        assert_int_equal(uw_cuda_choices_save(&gpu->products->choices), UW_OK);
        open_again();
        k = uw_cuda_kernels(gpu);
        assert_int_equal(k->dense_scratch_bytes(k, &d, 32, 1), 0);
        assert_int_equal(uw_dense_is_small(gpu, &d, 32, UW_CONV2D_BW_INPUT), way);
        assert_int_equal(uw_dense_is_small(gpu, &d, 12, UW_CONV2D_FW), way);
        assert_true(uw_dense_is_small(gpu, &d, 1, UW_CONV2D_FW));
        assert_false(uw_dense_is_small(gpu, &d, 33, UW_CONV2D_FW));
    }
    uw_cuda_choices_load(&gpu->products->choices, path, "another machine");
    const struct uw_dense fresh = {12, 7};
    (void)k->dense_scratch_bytes(k, &fresh, 8, 1);
    assert_int_equal(gpu->products->choices.n, UW_DENSE_PARTS);     /* measured */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_dense_ways_match_ref_for_every_number_of_samples,
                                        begin, end),
        cmocka_unit_test_setup_teardown(test_dense_choice_is_kept_and_covers_smaller_minibatches,
                                        begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
