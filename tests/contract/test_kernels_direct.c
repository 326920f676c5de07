/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel contract: depthwise convolution, planes around the width of a vector, alone and several
 * in a run. */
#include "test_kernels_conv.h"

#define shape uw_test_conv_shape
#define check_shape uw_test_conv_check

static void test_depthwise_planes_around_a_vector_match_twin(void **state)
{
    (void)state;
    const uint32_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33};
    for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (uint32_t stride = 1; stride <= 2; stride++) {
            uint32_t n = sizes[i], batch_n = 1 + (i + stride) % 4, threads = 1 + i % 2;
            check_shape(shape(3, 3, n, n, 3, 3, stride, 1, 1, 3), batch_n, threads);
            check_shape(shape(2, 2, n, n + 1, 5, 5, stride, 2, 1, 2), batch_n, threads);
            check_shape(shape(2, 2, n + 4, n + 2, 3, 3, stride, 0, 1, 2), batch_n, threads);
            check_shape(shape(2, 2, n, n, 2, 3, stride, 2, 1, 2), batch_n, threads);
        }
    }
}

/* Runs of several images, and a last one that is shorter. */
static void test_depthwise_runs_of_images_match_twin(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 20; n += n < 10 ? 1 : 3) {
        uint32_t stride = 1 + n % 2, images = 2048 / ((n + 1) * (n + 1)) + 2;
        uint32_t batch_n = images < 60 ? images : 60;
        check_shape(shape(3, 3, n, n, 3, 3, stride, 1, 1, 3), batch_n, 2);
        check_shape(shape(2, 4, n, n, 3, 3, 3 - stride, 1, 1, 2), batch_n + 3, 1);
    }
}

static void compute(const struct uw_test_conv *t, uint32_t threads, float *y, float *dx, float *dw)
{
    const struct uw_kernels *k = uw_test_table();
    struct uw_test_exec e;
    uw_test_exec_begin(&e, threads, k->conv2d_scratch_bytes(k, &t->c, t->batch_n, threads));
    assert_int_equal(k->conv2d_fw(&e.exec, &t->c, t->batch_n, t->x, t->w, t->b, y, false), UW_OK);
    assert_int_equal(k->conv2d_bw_input(&e.exec, &t->c, t->batch_n, t->dy, t->w, dx, false),
                     UW_OK);
    assert_int_equal(k->conv2d_bw_param(&e.exec, &t->c, t->batch_n, t->x, t->dy, 1.0f, dw, NULL),
                     UW_OK);
    uw_test_exec_end(&e);
}

static void test_depthwise_threads_give_the_same_bits(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        struct uw_conv2d c = shape(7, 7, 4u << i, 4u << i, 3, 3, 1 + i % 2, 1, 1, 7);
        struct uw_test_conv t;
        uw_test_conv_begin(&t, &c, 21);
        float *y[2], *dx[2], *dw[2];
        for (uint32_t way = 0; way < 2; way++) {
            y[way] = uw_test_floats(t.y_n);
            dx[way] = uw_test_floats(t.x_n);
            dw[way] = uw_test_copy_floats(t.w_n, t.w);
            compute(&t, way == 0 ? 1 : 4, y[way], dx[way], dw[way]);
        }
        uw_test_assert_same_bits(t.y_n, y[0], y[1]);
        uw_test_assert_same_bits(t.x_n, dx[0], dx[1]);
        uw_test_assert_same_bits(t.w_n, dw[0], dw[1]);
        for (uint32_t way = 0; way < 2; way++) {
            uw_test_release(y[way]);
            uw_test_release(dx[way]);
            uw_test_release(dw[way]);
        }
        uw_test_conv_end(&t);
    }
}

/* One NaN in image 1, channel 1, in its last column: the neighbours in a run stay clean. */
static void test_depthwise_nan_stays_in_its_windows(void **state)
{
    (void)state;
    for (uint32_t size = 2; size <= 18; size += 2) {
        for (uint32_t stride = 1; stride <= 2; stride++) {
            struct uw_conv2d c = shape(3, 3, size, size, 3, 3, stride, 1, 1, 3);
            struct uw_test_conv t;
            uw_test_conv_begin(&t, &c, 3);
            float *y = uw_test_floats(t.y_n), *dx = uw_test_floats(t.x_n);
            float *dw = uw_test_copy_floats(t.w_n, t.w);
            uint32_t row = size / 2, out_hw = c.out_h * c.out_w, hw = size * size;
            t.x[4 * hw + row * size + size - 1] = NAN;
            t.dy[4 * out_hw + row / stride * c.out_w + c.out_w - 1] = NAN;
            compute(&t, 1, y, dx, dw);
            for (uint32_t i = 0; i < t.y_n; i++) {
                int h = (int)(i % out_hw / c.out_w * stride), w = (int)(i % c.out_w * stride);
                bool sees = i / out_hw == 4 && abs(h - (int)row) <= 1 &&
                            abs(w - (int)size + 1) <= 1;
                assert_int_equal(isnan(y[i]) != 0, sees);
            }
            for (uint32_t i = 0; i < t.x_n; i++) {
                int h = (int)(i % hw / size), w = (int)(i % size);
                bool sees = i / hw == 4 && abs(h - (int)(row / stride * stride)) <= 1 &&
                            abs(w - (int)((c.out_w - 1) * stride)) <= 1;
                assert_int_equal(isnan(dx[i]) != 0, sees);
            }
            uw_test_release(dw);
            uw_test_release(dx);
            uw_test_release(y);
            uw_test_conv_end(&t);
        }
    }
}

static void test_depthwise_scratch_covers_smaller_batches(void **state)
{
    (void)state;
    const struct uw_kernels *k = uw_test_table();
    uint32_t each = uw_test_slow() ? 37 : 1; /* a GPU's table measures every batch size */
    for (uint32_t size = 2; size <= 40; size += 6) {
        for (uint32_t stride = 1; stride <= 3; stride++) {
            struct uw_conv2d c = shape(4, 4, size, size, 3, 3, stride, 1, 1, 4);
            size_t bytes = k->conv2d_scratch_bytes(k, &c, 300, 2);
            for (uint32_t batch_n = 1; batch_n < 300; batch_n += each) {
                assert_true(k->conv2d_scratch_bytes(k, &c, batch_n, 2) <= bytes);
            }
        }
    }
}

const struct CMUnitTest uw_test_direct[] = {
    cmocka_unit_test(test_depthwise_planes_around_a_vector_match_twin),
    cmocka_unit_test(test_depthwise_runs_of_images_match_twin),
    cmocka_unit_test(test_depthwise_threads_give_the_same_bits),
    cmocka_unit_test(test_depthwise_nan_stays_in_its_windows),
    cmocka_unit_test(test_depthwise_scratch_covers_smaller_batches),
};
const size_t uw_test_direct_n = sizeof uw_test_direct / sizeof *uw_test_direct;
