/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel contract: convolution, its parts against the definition in double, and against each
 * other: for any x, w, dy  <conv(x, w), dy> = <x, bw_input(dy, w)> = <w, bw_param(x, dy)>. */
#include "test_kernels_conv.h"

#define shape uw_test_conv_shape
#define check_shape uw_test_conv_check

static void test_conv2d_every_option_matches_twin(void **state)
{
    (void)state;
    check_shape(shape(1, 6, 28, 28, 5, 5, 1, 2, 1, 1), 2, 1);
    check_shape(shape(6, 16, 14, 14, 5, 5, 1, 0, 1, 1), 3, 1);
    check_shape(shape(3, 7, 9, 11, 3, 3, 2, 1, 1, 1), 2, 1);
    check_shape(shape(4, 8, 10, 9, 3, 3, 1, 2, 2, 1), 2, 3);
    check_shape(shape(8, 6, 7, 7, 3, 3, 1, 1, 1, 2), 3, 1);
    check_shape(shape(6, 6, 8, 8, 3, 3, 1, 1, 1, 6), 2, 1);     /* depthwise */
    check_shape(shape(4, 12, 8, 8, 3, 3, 2, 1, 1, 4), 2, 3);    /* depthwise with multiplier */
    check_shape(shape(5, 9, 6, 6, 1, 1, 1, 0, 1, 1), 3, 1);
    check_shape(shape(5, 9, 7, 7, 1, 1, 2, 0, 1, 1), 3, 1);     /* pixels that no tap sees */
    check_shape(shape(3, 5, 12, 12, 4, 4, 4, 0, 1, 1), 2, 1);
    check_shape(shape(16, 20, 5, 5, 5, 5, 1, 0, 1, 1), 17, 3);  /* one output pixel an image */
    check_shape(shape(3, 4, 3, 3, 3, 3, 1, 4, 1, 1), 2, 1);     /* padding beyond the kernel */
    check_shape(shape(2, 3, 20, 20, 17, 17, 1, 0, 1, 1), 1, 1); /* kernel beyond the inner block */
    check_shape(shape(3, 4, 9, 9, 3, 3, 3, 2, 2, 1), 2, 1);
    check_shape(shape(3, 8, 1, 40, 1, 7, 1, 0, 1, 1), 2, 1);    /* one row: signals */
    check_shape(shape(20, 12, 32, 32, 3, 3, 1, 1, 1, 1), 2, 3); /* few outputs, large images */
    check_shape(shape(4, 4, 8, 8, 3, 3, 1, 1, 1, 1), 0, 1);     /* no sample */
    check_shape(shape(4, 4, 8, 8, 3, 3, 1, 1, 1, 4), 0, 1);
}

/* Kernels one pixel wide, which the packed slots apply to images of one row. */
static void test_conv2d_narrow_kernels_match_twin(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 40; i++) {
        uint32_t groups = 1 + uw_test_below(2), kernel = 2 + uw_test_below(5);
        uint32_t dilation = 1 + uw_test_below(3), out = 1 + uw_test_below(12);
        struct uw_conv2d c = shape(groups * (1 + uw_test_below(9)), groups * out,
                                   (kernel - 1) * dilation + 1 + uw_test_below(30),
                                   1 + uw_test_below(9), kernel, 1, 1 + uw_test_below(8) / 7, 0,
                                   dilation, groups);
        c.pad_h = uw_test_below(4);
        c.out_h = (c.in_h + 2 * c.pad_h - (kernel - 1) * dilation - 1) / c.stride_h + 1;
        c.out_h -= c.out_h > 1 && i % 8 == 0 ? 1 : 0;
        c.out_w -= c.out_w > 1 && i % 8 == 1 ? 1 : 0;
        check_shape(c, 1 + uw_test_below(4), 1 + uw_test_below(3));
    }
}

/* Taps that are not adjacent, with more channels than a panel of the weight gradient has columns:
 * sums in parts, and in place. */
static void test_conv2d_taps_apart_match_twin(void **state)
{
    (void)state;
    for (uint32_t dilation = 1; dilation <= 3; dilation++) {
        check_shape(shape(40, 24, 60, 5, 5, 1, 1, 0, dilation, 1), 4, 2);
        check_shape(shape(72, 20, 1, 70, 1, 3, 1, 0, dilation, 2), 3, 1);
        check_shape(shape(19, 9, 12, 13, 3, 4, 1, 2, dilation, 1), 2, 3);
    }
    check_shape(shape(130, 128, 1, 40, 1, 3, 1, 0, 4, 1), 2, 2);
}

/* Too thin for a register tile: depthwise, and one or two outputs. */
static void test_conv2d_thin_groups_match_twin(void **state)
{
    (void)state;
    for (uint32_t stride = 1; stride <= 4; stride++) {
        for (uint32_t dilation = 1; dilation <= 3; dilation++) {
            check_shape(shape(3, 3, 9, 10, 3, 3, stride, 2, dilation, 3), 2, 1);
            check_shape(shape(2, 6, 11, 9, 4, 2, stride, 0, dilation, 2), 3, 3);
            check_shape(shape(5, 1, 13, 8, 2, 2, stride, 1, dilation, 1), 1, 2);
        }
    }
    check_shape(shape(2, 2, 3, 40, 3, 33, 1, 4, 1, 2), 2, 1);   /* a long row of taps */
    check_shape(shape(2, 2, 5, 5, 1, 1, 2, 3, 1, 2), 2, 1);     /* pixels that are padding only */
    check_shape(shape(8, 8, 33, 31, 3, 3, 1, 1, 1, 8), 1, 3);
    struct uw_conv2d c = shape(2, 4, 6, 7, 3, 3, 2, 1, 1, 2);
    c.out_h--;          /* less than fits: a transposed convolution with output padding */
    c.out_w -= 2;
    check_shape(c, 2, 1);
    c = shape(4, 8, 6, 7, 3, 3, 1, 1, 2, 1);
    c.out_h--;
    check_shape(c, 2, 1);
    for (uint32_t i = 0; i < 60; i++) {
        uint32_t groups = 1 + uw_test_below(4), dilation = 1 + uw_test_below(3);
        uint32_t kh = 1 + uw_test_below(4), kw = 1 + uw_test_below(6);
        c = shape(groups, groups * (1 + uw_test_below(2)), (kh - 1) * dilation + 1 +
                  uw_test_below(9), (kw - 1) * dilation + 1 + uw_test_below(30), kh, kw,
                  1 + uw_test_below(4), uw_test_below(4), dilation, groups);
        c.stride_w = 1 + uw_test_below(3);
        c.out_w = (c.in_w + 2 * c.pad_w - (kw - 1) * dilation - 1) / c.stride_w + 1;
        check_shape(c, 1 + uw_test_below(3), 1 + uw_test_below(3));
    }
}

static void test_channels_are_added_and_summed_up(void **state)
{
    (void)state;
    const struct uw_kernels *k = uw_test_table();
    const size_t inner[] = {1, 3, 16, 17, 100};
    struct uw_exec e = {.kernels = k};
    for (size_t i = 0; i < sizeof inner / sizeof *inner; i++) {
        for (uint32_t batch_n = 0; batch_n < 3; batch_n++) {
            size_t n = 5 * batch_n * inner[i];
            float *b = uw_test_random_floats(5), *x = uw_test_random_floats(n);
            float *y = uw_test_copy_floats(n, x), *db = uw_test_copy_floats(5, b);
            assert_int_equal(k->add_channels(&e, batch_n, 5, inner[i], b, y), UW_OK);
            assert_int_equal(k->sum_channels(&e, batch_n, 5, inner[i], x, -0.5f, db), UW_OK);
            struct uw_sum sum[5] = {{0}};
            for (size_t at = 0; at < n; at++) {
                size_t c = at / inner[i] % 5;
                assert_true(y[at] == x[at] + b[c]);
                uw_sum_add(&sum[c], -0.5 * (double)x[at]);
            }
            for (size_t c = 0; c < 5; c++) {
                uw_sum_add(&sum[c], (double)b[c]);
                uw_test_assert_sum(db[c], &sum[c]);
            }
            uw_test_release(b);
            uw_test_release(x);
            uw_test_release(y);
            uw_test_release(db);
        }
    }
}

/* Pixels that lie in whole vectors: rows of 8, 16, .. and batches that leave a part of a panel. */
static void test_conv2d_rows_of_whole_vectors_match_twin(void **state)
{
    (void)state;
    for (uint32_t out = 3; out <= 30; out++) {
        uint32_t w = 8 * (1 + out % 5), h = 1 + out % 4, groups = 1 + out % 2;
        check_shape(shape(4, groups * out, h + 2, w + 2, 3, 3, 1, 0, 1, groups), 1 + out % 3,
                    1 + out % 2);
        check_shape(shape(3, out, h, w, 3, 3, 1, 1, 1, 1), 1 + out % 3, 1);
        check_shape(shape(2 + out % 3, out, h, w, 5, 5, 1, 4, 2, 1), 2, 3);
        check_shape(shape(3, out, 2 * h, 2 * w, 3, 3, 2, 1, 1, 1), 2, 1);
    }
    for (uint32_t out = 3; out <= 45; out += 7) {   /* 1x1: the image is read where it lies */
        check_shape(shape(5 + out, out, 4, 4, 1, 1, 1, 0, 1, 1), 1 + out % 5, 1 + out % 3);
        check_shape(shape(35, out, 2, 12, 1, 1, 1, 0, 1, 1), 5, 2);
        check_shape(shape(3 * 9, 3 * out, 8, 3, 1, 1, 1, 0, 1, 3), 2, 3);
    }
    check_shape(shape(300, 31, 8, 8, 1, 1, 1, 0, 1, 1), 3, 2);      /* several blocks */
    check_shape(shape(6, 4, 14, 14, 5, 5, 1, 0, 1, 1), 3, 2);       /* lines wider than pixels */
    check_shape(shape(20, 2, 13, 9, 3, 3, 1, 1, 1, 1), 4, 3);
    check_shape(shape(3, 30, 9, 13, 3, 3, 1, 1, 2, 1), 3, 2);
    check_shape(shape(2, 45, 3, 3, 3, 3, 1, 2, 1, 1), 5, 1);
    struct uw_conv2d c = shape(40, 16, 7, 16, 3, 3, 1, 1, 1, 1);    /* several blocks of taps */
    check_shape(c, 5, 3);
    c.stride_h = 2;
    c.out_h = 4;
    check_shape(c, 5, 1);
}

/* Strides and dilations with and without a common divisor: phases with some taps, and with none. */
static void test_conv2d_strides_match_twin(void **state)
{
    (void)state;
    for (uint32_t stride = 2; stride <= 6; stride++) {
        for (uint32_t dilation = 1; dilation <= 4; dilation++) {
            uint32_t kernel = 1 + (stride + dilation) % 5, size = (kernel - 1) * dilation + 1;
            check_shape(shape(7, 5, size + 13, size + 8 * stride, kernel, kernel, stride,
                              (stride + dilation) % 3, dilation, 1), 2, 1 + stride % 3);
        }
    }
    for (uint32_t size = 1; size <= 9; size++) {            /* some see one pixel, some less */
        check_shape(shape(20, 33, size, size, 1, 1, 2, 0, 1, 1), 4, 2);
        check_shape(shape(33, 20, size, size, 3, 3, 2, 1, 1, 1), 3, 3);
        check_shape(shape(4, 6, size, size, 2, 2, 3, 2, 1, 2), 3, 1);
    }
    check_shape(shape(270, 40, 14, 14, 1, 1, 2, 0, 1, 1), 3, 2);    /* several blocks of taps */
    check_shape(shape(40, 260, 8, 8, 3, 3, 2, 1, 1, 1), 3, 2);
    check_shape(shape(3, 4, 23, 24, 3, 3, 9, 1, 1, 1), 2, 1);       /* more phases than products */
    struct uw_conv2d c = shape(9, 8, 15, 17, 3, 4, 3, 1, 1, 1);
    c.out_h--;              /* less than fits: a transposed convolution with output padding */
    c.out_w -= 2;
    check_shape(c, 3, 2);
}

/* So little work that no side is packed: rows of pixels and numbers of channels around one and two
 * registers, rows of sums around their groups, padding wider than the kernel reaches. */
static void test_conv2d_small_work_matches_twin(void **state)
{
    (void)state;
    const uint32_t channels[] = {3, 6, 7, 8, 9, 15, 16, 17, 33};
    for (uint32_t w = 1; w <= 35; w += w < 18 ? 1 : 4) {
        uint32_t kernel = w < 3 ? 1 : w < 5 ? 3 : 1 + 2 * (w % 3);
        uint32_t out = channels[uw_test_below(9)], in = 1 + uw_test_below(9);
        check_shape(shape(in, out, kernel + 2, w, kernel, kernel, 1, 0, 1, 1), 1, 1);
        check_shape(shape(in, out, kernel + 3, w, kernel, kernel, 1, kernel / 2, 1, 1), 2, 3);
        check_shape(shape(2, out, 5, w + 4, 3, 3, 2, w % 3, 1, 1), 1, 3);
        check_shape(shape(2, 5, 6, w + 4, 3, 3, 1, w % 4, 2, 1), 1, 1);
        check_shape(shape(2, 3, 4, w, 1, 1, 1, 2, 1, 1), 1, 1);
    }
    for (size_t i = 0; i < sizeof channels / sizeof *channels; i++) {
        check_shape(shape(channels[i], channels[8 - i], 7, 10, 3, 3, 1, 0, 1, 1), 1, 1);
    }
    check_shape(shape(6, 16, 14, 14, 5, 5, 1, 0, 1, 1), 1, 3); /* LeNet-5's */
    check_shape(shape(1, 6, 28, 28, 5, 5, 1, 2, 1, 1), 3, 3);
    check_shape(shape(6, 16, 14, 14, 5, 5, 1, 0, 1, 1), 0, 1);
    check_shape(shape(32, 16, 14, 14, 5, 5, 1, 2, 1, 1), 2, 3); /* several tasks, several blocks */
    check_shape(shape(2, 20, 19, 17, 5, 3, 1, 1, 1, 1), 2, 3);  /* taps as lanes */
    check_shape(shape(18, 4, 12, 13, 4, 7, 1, 3, 1, 1), 1, 3);
    check_shape(shape(3, 8, 25, 13, 7, 6, 2, 3, 1, 1), 1, 3);
}

static void test_conv2d_unequal_axes_match_twin(void **state)
{
    (void)state;
    struct uw_conv2d c = {.in_channels = 4, .in_h = 11, .in_w = 8, .out_channels = 6,
                          .kernel_h = 2, .kernel_w = 5, .stride_h = 3, .stride_w = 1,
                          .pad_h = 0, .pad_w = 3, .dilation_h = 2, .dilation_w = 1, .groups = 2};
    c.out_h = (11 - 2 - 1) / 3 + 1;
    c.out_w = 8 + 6 - 4;
    check_shape(c, 3, 3);
    c.stride_h = 1, c.stride_w = 2, c.out_h = 9, c.out_w = (8 + 6 - 5) / 2 + 1;
    check_shape(c, 2, 1);
}

/* Pixels counted in rows of the band's width: an image of 160 ends within its eleventh row of 15,
 * and a block sees the rows of two. */
static void test_conv2d_wide_images_stay_in_scratch(void **state)
{
    (void)state;
    check_shape(shape(6, 26, 11, 9, 4, 4, 3, 0, 2, 2), 4, 1);
    for (uint32_t w = 7; w < 16; w++) {
        check_shape(shape(4, 28, w + 2, w, 3, 3, 1, 2, 2, 1), 5, 2);
    }
}

static void test_conv2d_random_shapes_match_twin(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 60; i++) {
        uint32_t groups = 1 + uw_test_below(3), kernel = 1 + uw_test_below(4);
        uint32_t dilation = 1 + uw_test_below(2), size = (kernel - 1) * dilation + 1;
        struct uw_conv2d c = shape(groups * (1 + uw_test_below(5)),
                                   groups * (1 + uw_test_below(18)), size + uw_test_below(9),
                                   size + uw_test_below(20), kernel, kernel,
                                   1 + uw_test_below(3), uw_test_below(3), dilation, groups);
        check_shape(c, 1 + uw_test_below(4), 1 + uw_test_below(3));
    }
}

static double inner(size_t n, const float *a, const float *b)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        sum += (double)a[i] * (double)b[i];
    }
    return sum;
}

static void test_conv2d_parts_are_adjoint(void **state)
{
    (void)state;
    const struct uw_kernels *k = uw_test_table();
    struct uw_test_conv t;
    struct uw_test_exec e;
    struct uw_conv2d c = shape(8, 24, 15, 15, 5, 5, 2, 2, 1, 2);
    uw_test_conv_begin(&t, &c, 5);
    uw_test_exec_begin(&e, 1, k->conv2d_scratch_bytes(k, &c, 5, 1));
    float *y = uw_test_floats(t.y_n), *dx = uw_test_floats(t.x_n), *dw = uw_test_floats(t.w_n);
    memset(dw, 0, t.w_n * sizeof *dw);
    k->conv2d_fw(&e.exec, &c, 5, t.x, t.w, NULL, y, false);
    k->conv2d_bw_input(&e.exec, &c, 5, t.dy, t.w, dx, false);
    k->conv2d_bw_param(&e.exec, &c, 5, t.x, t.dy, 1.0f, dw, NULL);
    double size = sqrt(inner(t.y_n, y, y) * inner(t.y_n, t.dy, t.dy));
    uw_test_assert_near(inner(t.x_n, t.x, dx), inner(t.y_n, y, t.dy), 1e-6 * size);
    uw_test_assert_near(inner(t.w_n, t.w, dw), inner(t.y_n, y, t.dy), 1e-6 * size);
    uw_test_release(dw);
    uw_test_release(dx);
    uw_test_release(y);
    uw_test_exec_end(&e);
    uw_test_conv_end(&t);
}

static void test_conv2d_threads_give_the_same_bits(void **state)
{
    (void)state;
    const struct uw_kernels *k = uw_test_table();
    const struct uw_conv2d shapes[] = {shape(1, 32, 28, 28, 5, 5, 1, 2, 1, 1),
                                       shape(6, 16, 14, 14, 5, 5, 1, 0, 1, 1),
                                       shape(2, 33, 21, 21, 3, 3, 1, 1, 1, 1),
                                       shape(12, 64, 14, 14, 5, 5, 1, 2, 1, 1),
                                       shape(12, 12, 14, 14, 3, 3, 2, 1, 1, 12)};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        struct uw_test_conv t;
        uw_test_conv_begin(&t, &shapes[s], 6);
        float *y[2], *dx[2], *dw[2];
        for (uint32_t i = 0; i < 2; i++) {
            uint32_t threads = i == 0 ? 1 : 5;
            struct uw_test_exec e;
            uw_test_exec_begin(&e, threads, k->conv2d_scratch_bytes(k, &t.c, 6, threads));
            y[i] = uw_test_floats(t.y_n);
            dx[i] = uw_test_floats(t.x_n);
            dw[i] = uw_test_copy_floats(t.w_n, t.w);
            k->conv2d_fw(&e.exec, &t.c, 6, t.x, t.w, t.b, y[i], false);
            k->conv2d_bw_input(&e.exec, &t.c, 6, t.dy, t.w, dx[i], false);
            k->conv2d_bw_param(&e.exec, &t.c, 6, t.x, t.dy, 1.0f, dw[i], NULL);
            uw_test_exec_end(&e);
        }
        uw_test_assert_same_bits(t.y_n, y[0], y[1]);
        uw_test_assert_same_bits(t.x_n, dx[0], dx[1]);
        uw_test_assert_same_bits(t.w_n, dw[0], dw[1]);
        for (uint32_t i = 0; i < 2; i++) {
            uw_test_release(y[i]);
            uw_test_release(dx[i]);
            uw_test_release(dw[i]);
        }
        uw_test_conv_end(&t);
    }
}

static void test_conv2d_nan_reaches_the_windows_that_see_it(void **state)
{
    (void)state;
    const struct uw_kernels *k = uw_test_table();
    struct uw_test_conv t;
    struct uw_test_exec e;
    struct uw_conv2d c = shape(3, 4, 10, 10, 3, 3, 1, 1, 1, 1);
    uw_test_conv_begin(&t, &c, 1);
    uw_test_exec_begin(&e, 1, k->conv2d_scratch_bytes(k, &c, 1, 1));
    float *y = uw_test_floats(t.y_n);
    t.x[100 + 4 * 10 + 6] = NAN;
    k->conv2d_fw(&e.exec, &c, 1, t.x, t.w, NULL, y, false);
    for (uint32_t i = 0; i < t.y_n; i++) {
        int oh = (int)(i / 10 % 10), ow = (int)(i % 10);
        assert_int_equal(isnan(y[i]) != 0, abs(oh - 4) <= 1 && abs(ow - 6) <= 1);
    }
    uw_test_release(y);
    uw_test_exec_end(&e);
    uw_test_conv_end(&t);
}

static void test_conv2d_too_little_scratch_is_refused(void **state)
{
    (void)state;
    const struct uw_kernels *k = uw_test_table();
    struct uw_test_conv t;
    struct uw_test_exec e;
    struct uw_conv2d c = shape(8, 16, 14, 14, 3, 3, 1, 1, 1, 1);
    uw_test_conv_begin(&t, &c, 4);
    size_t bytes = k->conv2d_scratch_bytes(k, &c, 4, 1);
    uw_test_exec_begin(&e, 1, bytes > 0 ? bytes - 1 : 0);
    float *y = uw_test_floats(t.y_n), *dx = uw_test_floats(t.x_n);
    float *dw = uw_test_copy_floats(t.w_n, t.w);
    uint32_t refused = 0;
    refused += k->conv2d_fw(&e.exec, &c, 4, t.x, t.w, NULL, y, false) == UW_ERR_NOMEM;
    refused += k->conv2d_bw_input(&e.exec, &c, 4, t.dy, t.w, dx, false) == UW_ERR_NOMEM;
    refused += k->conv2d_bw_param(&e.exec, &c, 4, t.x, t.dy, 1.0f, dw, NULL) == UW_ERR_NOMEM;
    assert_true(bytes == 0 ? refused == 0 : refused >= 1); /* the size is the largest part's */
    uw_test_release(dw);
    uw_test_release(dx);
    uw_test_release(y);
    uw_test_exec_end(&e);
    uw_test_conv_end(&t);
}

/* 2^32 pixels: a count of 32 bits would be 0, and the scratch that of an empty batch. */
static void test_conv2d_scratch_counts_pixels_beyond_32_bits(void **state)
{
    (void)state;
    const struct uw_kernels *k = uw_test_table();
    struct uw_conv2d wide = shape(8, 16, 256, 256, 3, 3, 1, 1, 1, 1);
    struct uw_conv2d strided = shape(8, 16, 512, 512, 3, 3, 2, 1, 1, 1);
    size_t usual = k->conv2d_scratch_bytes(k, &wide, 1024, 1);
    size_t huge = k->conv2d_scratch_bytes(k, &wide, 65536, 1);
    assert_true(huge == 0 || huge >= usual); /* 0: the reference, which needs none */
    usual = k->conv2d_scratch_bytes(k, &strided, 1024, 1);
    huge = k->conv2d_scratch_bytes(k, &strided, 65536, 1);
    assert_true(huge == 0 || huge >= usual);
    struct uw_test_conv t;  /* what is planned for the largest minibatch does for a smaller one */
    struct uw_test_exec e;
    uw_test_conv_begin(&t, &strided, 1);
    uw_test_exec_begin(&e, 1, huge);
    float *y = uw_test_floats(t.y_n), *dx = uw_test_floats(t.x_n);
    float *dw = uw_test_copy_floats(t.w_n, t.w);
    assert_int_equal(k->conv2d_fw(&e.exec, &strided, 1, t.x, t.w, NULL, y, false), UW_OK);
    assert_int_equal(k->conv2d_bw_input(&e.exec, &strided, 1, t.dy, t.w, dx, false), UW_OK);
    assert_int_equal(k->conv2d_bw_param(&e.exec, &strided, 1, t.x, t.dy, 1.0f, dw, NULL), UW_OK);
    uw_test_release(dw);
    uw_test_release(dx);
    uw_test_release(y);
    uw_test_exec_end(&e);
    uw_test_conv_end(&t);
}

const struct CMUnitTest uw_test_conv2d[] = {
    cmocka_unit_test(test_conv2d_every_option_matches_twin),
    cmocka_unit_test(test_conv2d_narrow_kernels_match_twin),
    cmocka_unit_test(test_conv2d_taps_apart_match_twin),
    cmocka_unit_test(test_conv2d_thin_groups_match_twin),
    cmocka_unit_test(test_channels_are_added_and_summed_up),
    cmocka_unit_test(test_conv2d_rows_of_whole_vectors_match_twin),
    cmocka_unit_test(test_conv2d_strides_match_twin),
    cmocka_unit_test(test_conv2d_small_work_matches_twin),
    cmocka_unit_test(test_conv2d_unequal_axes_match_twin),
    cmocka_unit_test(test_conv2d_wide_images_stay_in_scratch),
    cmocka_unit_test(test_conv2d_random_shapes_match_twin),
    cmocka_unit_test(test_conv2d_parts_are_adjoint),
    cmocka_unit_test(test_conv2d_threads_give_the_same_bits),
    cmocka_unit_test(test_conv2d_nan_reaches_the_windows_that_see_it),
    cmocka_unit_test(test_conv2d_too_little_scratch_is_refused),
    cmocka_unit_test(test_conv2d_scratch_counts_pixels_beyond_32_bits),
};
const size_t uw_test_conv2d_n = sizeof uw_test_conv2d / sizeof *uw_test_conv2d;
