/* SPDX-License-Identifier: Apache-2.0
 *
 * The GPU's own kernels over random shapes, against the reference: convolutions whatever conv2d
 * would choose, channels that several blocks share, planes that no vector is aligned to. */
#include "table.h"
#include "test_support.h"

#include "cuda/conv2d_own.h"

#include "uwasa/backends.h"
#include "uwasa/rng.h"
#include "uwasa/status.h"

static struct uw_rng rng;

static uint32_t between(uint32_t lo, uint32_t hi)
{
    return lo + uw_rng_below(&rng, hi - lo + 1);
}

/* n numbers in [middle - 1, middle + 1) */
static float *numbers(size_t n, float middle)
{
    float *x = uw_test_floats(n);
    for (size_t i = 0; i < n; i++) {
        x[i] = 2.0f * uw_rng_uniform(&rng) - 1.0f + middle;
    }
    return x;
}

static float *copy(size_t n, const float *x)
{
    float *y = uw_test_floats(n);
    memcpy(y, x, n * sizeof *y);
    return y;
}

static float *magnitudes(size_t n, const float *x)
{
    float *y = uw_test_floats(n);
    for (size_t i = 0; i < n; i++) {
        y[i] = fabsf(x[i]);
    }
    return y;
}

static void release(float *const *blocks, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uw_test_release(blocks[i]);
    }
}
#define RELEASE(...)                                                                              \
    release((float *const[]){__VA_ARGS__},                                                        \
            sizeof((float *const[]){__VA_ARGS__}) / sizeof(float *))

/* |got - want| <= share * (size + 1), element by element; size: NULL is |want|. */
static void near(const char *what, size_t n, const float *got, const float *want,
                 const float *size, double share)
{
    for (size_t i = 0; i < n; i++) {
        double scale = 1.0 + fabs((double)(size != NULL ? size[i] : want[i]));
        double off = fabs((double)got[i] - (double)want[i]);
        if (!(off <= share * scale)) {
            fail_msg("%s: element %zu of %zu is %.9g, the reference has %.9g", what, i, n,
                     (double)got[i], (double)want[i]);
        }
    }
}

static struct uw_exec gpu(void)
{
    return (struct uw_exec){.kernels = uw_gpu_table};
}

struct conv_case {
    struct uw_conv2d c;
    uint32_t batch_n;
    size_t x_n, w_n, y_n;
    float *x, *w, *b, *dy, *x_size, *w_size, *b_size, *dy_size;
};

static uint32_t out_of(uint32_t in, uint32_t kernel, uint32_t stride, uint32_t pad, uint32_t dil)
{
    return (in + 2 * pad - (kernel - 1) * dil - 1) / stride + 1;
}

static void begin_conv(struct conv_case *t, struct uw_conv2d c, uint32_t batch_n)
{
    *t = (struct conv_case){.c = c, .batch_n = batch_n};
    t->x_n = (size_t)batch_n * c.in_channels * c.in_h * c.in_w;
    t->y_n = (size_t)batch_n * c.out_channels * c.out_h * c.out_w;
    t->w_n = (size_t)c.out_channels * (c.in_channels / c.groups) * c.kernel_h * c.kernel_w;
    t->x = numbers(t->x_n, 0.0f);
    t->w = numbers(t->w_n, 0.0f);
    t->b = numbers(c.out_channels, 0.0f);
    t->dy = numbers(t->y_n, 0.0f);
    t->x_size = magnitudes(t->x_n, t->x);
    t->w_size = magnitudes(t->w_n, t->w);
    t->b_size = magnitudes(c.out_channels, t->b);
    t->dy_size = magnitudes(t->y_n, t->dy);
}

static void end_conv(struct conv_case *t)
{
    RELEASE(t->x, t->w, t->b, t->dy, t->x_size, t->w_size, t->b_size, t->dy_size);
}

/* The size of a sum is the same sum of magnitudes. */
#define ROUNDING 2e-6

static void check_conv_fw(const struct conv_case *t, const float *b, bool accumulate)
{
    const struct uw_exec e = gpu(), ref = {.kernels = &uw_kernels_ref};
    float *got = copy(t->y_n, t->dy), *want = copy(t->y_n, t->dy), *size = copy(t->y_n, t->dy_size);
    assert_int_equal(uw_conv2d_own_fw(&e, &t->c, t->batch_n, t->x, t->w, b, 0.0f, got,
                                      accumulate, false), UW_OK);
    uw_kernels_ref.conv2d_fw(&ref, &t->c, t->batch_n, t->x, t->w, b, want, accumulate);
    uw_kernels_ref.conv2d_fw(&ref, &t->c, t->batch_n, t->x_size, t->w_size,
                             b != NULL ? t->b_size : NULL, size, accumulate);
    near("conv2d_fw", t->y_n, got, want, size, ROUNDING);
    RELEASE(got, want, size);
}

static void check_conv_bw_input(const struct conv_case *t, bool accumulate)
{
    const struct uw_exec e = gpu(), ref = {.kernels = &uw_kernels_ref};
    float *got = copy(t->x_n, t->x), *want = copy(t->x_n, t->x), *size = copy(t->x_n, t->x_size);
    assert_int_equal(uw_conv2d_own_bw_input(&e, &t->c, t->batch_n, t->dy, t->w, got, accumulate,
                                            false),
                     UW_OK);
    uw_kernels_ref.conv2d_bw_input(&ref, &t->c, t->batch_n, t->dy, t->w, want, accumulate);
    uw_kernels_ref.conv2d_bw_input(&ref, &t->c, t->batch_n, t->dy_size, t->w_size, size,
                                   accumulate);
    near("conv2d_bw_input", t->x_n, got, want, size, ROUNDING);
    RELEASE(got, want, size);
}

static void check_conv_bw_param(const struct conv_case *t, bool weights, bool bias)
{
    const struct uw_exec e = gpu(), ref = {.kernels = &uw_kernels_ref};
    float *dw = copy(t->w_n, t->w), *dw_want = copy(t->w_n, t->w);
    float *dw_size = copy(t->w_n, t->w_size), *db_size = copy(t->c.out_channels, t->b_size);
    float *db = copy(t->c.out_channels, t->b), *db_want = copy(t->c.out_channels, t->b);
    assert_int_equal(uw_conv2d_own_bw_param(&e, &t->c, t->batch_n, t->x, t->dy, -0.5f,
                                            weights ? dw : NULL, bias ? db : NULL), UW_OK);
    uw_kernels_ref.conv2d_bw_param(&ref, &t->c, t->batch_n, t->x, t->dy, -0.5f,
                                   weights ? dw_want : NULL, bias ? db_want : NULL);
    uw_kernels_ref.conv2d_bw_param(&ref, &t->c, t->batch_n, t->x_size, t->dy_size, 0.5f, dw_size,
                                   db_size);
    near("conv2d_bw_param, dw", t->w_n, dw, dw_want, dw_size, ROUNDING);
    near("conv2d_bw_param, db", t->c.out_channels, db, db_want, db_size, ROUNDING);
    RELEASE(dw, dw_want, dw_size, db, db_want, db_size);
}

static void check_conv(struct uw_conv2d c, uint32_t batch_n)
{
    struct conv_case t;
    c.out_h = out_of(c.in_h, c.kernel_h, c.stride_h, c.pad_h, c.dilation_h);
    c.out_w = out_of(c.in_w, c.kernel_w, c.stride_w, c.pad_w, c.dilation_w);
    begin_conv(&t, c, batch_n);
    check_conv_fw(&t, t.b, false);
    check_conv_fw(&t, NULL, true);
    check_conv_bw_input(&t, false);
    check_conv_bw_input(&t, true);
    check_conv_bw_param(&t, true, true);
    check_conv_bw_param(&t, true, false);
    check_conv_bw_param(&t, false, true);
    end_conv(&t);
}

static void test_own_convolutions_of_random_shapes(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 60; i++) {
        struct uw_conv2d c = {.kernel_h = between(1, 5), .kernel_w = between(1, 5),
                              .stride_h = between(1, 3), .stride_w = between(1, 3),
                              .dilation_h = between(1, 2), .dilation_w = between(1, 2),
                              .groups = i % 3 == 0 ? between(2, 3) : 1};
        c.pad_h = between(0, c.kernel_h);
        c.pad_w = between(0, c.kernel_w);
        c.in_h = between((c.kernel_h - 1) * c.dilation_h + 1, 14);
        c.in_w = between((c.kernel_w - 1) * c.dilation_w + 1, 14);
        c.in_channels = c.groups * between(1, i % 7 == 0 ? 36 : 6);
        c.out_channels = c.groups * between(1, i % 5 == 0 ? 70 : 18);
        check_conv(c, between(1, 4));
    }
}

static void test_depthwise_convolutions_of_random_shapes(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 60; i++) {
        uint32_t kernel = i % 2 == 0 ? 3 : 5, stride = i / 2 % 2 + 1, channels = between(1, 6);
        struct uw_conv2d c = {.kernel_h = kernel, .kernel_w = kernel, .stride_h = stride,
                              .stride_w = stride, .dilation_h = 1, .dilation_w = 1,
                              .groups = channels, .in_channels = channels,
                              .out_channels = channels * between(1, i % 3 + 1),
                              .in_h = between(kernel, 19), .in_w = between(kernel, 40),
                              .pad_h = between(0, kernel), .pad_w = between(0, kernel)};
        assert_true(uw_conv2d_own_takes(&c, 1, UW_CONV2D_FW));
        check_conv(c, between(1, i % 10 == 0 ? 20 : 3));
    }
}

/* LeNet-5's and the FedAvg CNN's, and one whose depth is split over blocks. */
static void test_own_convolutions_of_small_models(void **state)
{
    (void)state;
    const uint32_t shapes[][5] = {{1, 6, 28, 5, 2}, {6, 16, 14, 5, 0}, {1, 32, 28, 5, 2},
                                  {32, 64, 14, 5, 2}, {3, 16, 32, 3, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const uint32_t *s = shapes[i];
        check_conv((struct uw_conv2d){.in_channels = s[0], .out_channels = s[1], .in_h = s[2],
                                      .in_w = s[2], .kernel_h = s[3], .kernel_w = s[3],
                                      .pad_h = s[4], .pad_w = s[4], .stride_h = 1, .stride_w = 1,
                                      .dilation_h = 1, .dilation_w = 1, .groups = 1},
                   i == 3 ? 1 : 2);
    }
}

static void test_normed_convolutions_are_refused(void **state)
{
    (void)state;
    const struct uw_exec e = gpu();
    const struct uw_conv2d c = {.in_channels = 1, .out_channels = 1, .in_h = 1, .in_w = 1,
                                .out_h = 1, .out_w = 1, .kernel_h = 1, .kernel_w = 1,
                                .stride_h = 1, .stride_w = 1, .dilation_h = 1, .dilation_w = 1,
                                .groups = 1, .normed = true};
    assert_false(uw_conv2d_own_takes(&c, 1, UW_CONV2D_FW));
    assert_int_equal(uw_conv2d_own_fw(&e, &c, 1, NULL, NULL, NULL, 0.0f, NULL, false,
                                      false),
                     UW_ERR_UNSUPPORTED);
}

struct norm_case {
    struct uw_norm n;
    uint32_t batch_n, skip;
    size_t all;
    float *x, *dy, *gamma, *beta;
};

/* What a batch norm does with both tables; skip: x and y begin so many floats into their blocks. */
static void check_batchnorm(const struct norm_case *t)
{
    const struct uw_exec e = gpu(), r = {.kernels = &uw_kernels_ref};
    const struct uw_norm_kernels *k = uw_gpu_table->norm, *ref = uw_kernels_ref.norm;
    size_t channels = t->n.channels, n = t->all + t->skip;
    float *stats = uw_test_floats(2 * channels), *stats_want = uw_test_floats(2 * channels);
    float *sums = uw_test_floats(2 * channels), *sums_want = uw_test_floats(2 * channels);
    float *running = numbers(2 * channels, 1.0f), *running_want = copy(2 * channels, running);
    float *y = numbers(n, 0.0f), *want = copy(n, y);
    const float *x = t->x + t->skip, *dy = t->dy + t->skip;
    assert_int_equal(k->batchnorm_stats_fw(&e, &t->n, t->batch_n, x, stats, running,
                                           running + channels, t->gamma, t->beta, y + t->skip),
                     UW_OK);
    ref->batchnorm_stats_fw(&r, &t->n, t->batch_n, x, stats_want, running_want,
                            running_want + channels, t->gamma, t->beta, want + t->skip);
    near("statistics", 2 * channels, stats, stats_want, NULL, 5e-7);
    near("running statistics", 2 * channels, running, running_want, NULL, 5e-7);
    near("batchnorm_stats_fw", n, y, want, NULL, 5e-6);
    assert_int_equal(k->batchnorm_fw(&e, &t->n, t->batch_n, x, stats_want, t->gamma, t->beta,
                                     y + t->skip), UW_OK);
    near("batchnorm_fw", n, y, want, NULL, 5e-6);
    assert_int_equal(k->batchnorm_bw_sums_input(&e, &t->n, t->batch_n, x, stats_want, t->gamma,
                                                t->beta, dy, sums, y + t->skip, true), UW_OK);
    memcpy(y, want, t->skip * sizeof *y);
    ref->batchnorm_bw_sums_input(&r, &t->n, t->batch_n, x, stats_want, t->gamma, t->beta, dy,
                                 sums_want, want + t->skip, true);
    near("sums", 2 * channels, sums, sums_want, NULL, 1e-4);
    near("batchnorm_bw_sums_input", n, y, want, NULL, 1e-5);
    assert_int_equal(k->batchnorm_bw_input(&e, &t->n, t->batch_n, x, stats_want, t->gamma, t->beta,
                                           sums_want, dy, y + t->skip, false), UW_OK);
    ref->batchnorm_bw_input(&r, &t->n, t->batch_n, x, stats_want, t->gamma, t->beta, sums_want, dy,
                            want + t->skip, false);
    near("batchnorm_bw_input", n, y, want, NULL, 1e-5);
    RELEASE(stats, stats_want, sums, sums_want, running, running_want, y, want);
}

static void check_groupnorm(const struct norm_case *t)
{
    const struct uw_exec e = gpu(), r = {.kernels = &uw_kernels_ref};
    const struct uw_norm_kernels *k = uw_gpu_table->norm, *ref = uw_kernels_ref.norm;
    size_t pairs = (size_t)t->batch_n * t->n.groups, n = t->all, channels = t->n.channels;
    float *stats = uw_test_floats(2 * pairs), *stats_want = uw_test_floats(2 * pairs);
    float *y = uw_test_floats(n), *want = uw_test_floats(n);
    float *dw = numbers(2 * channels, 0.0f), *dw_want = copy(2 * channels, dw);
    assert_int_equal(k->groupnorm_fw(&e, &t->n, t->batch_n, t->x, t->gamma, t->beta, y, stats),
                     UW_OK);
    ref->groupnorm_fw(&r, &t->n, t->batch_n, t->x, t->gamma, t->beta, want, stats_want);
    near("group statistics", 2 * pairs, stats, stats_want, NULL, 5e-7);
    near("groupnorm_fw", n, y, want, NULL, 5e-6);
    assert_int_equal(k->groupnorm_bw_input(&e, &t->n, t->batch_n, t->x, t->gamma, stats_want,
                                           t->dy, y, false), UW_OK);
    ref->groupnorm_bw_input(&r, &t->n, t->batch_n, t->x, t->gamma, stats_want, t->dy, want, false);
    near("groupnorm_bw_input", n, y, want, NULL, 1e-5);
    assert_int_equal(k->groupnorm_bw_param(&e, &t->n, t->batch_n, t->x, stats_want, t->dy, 0.25f,
                                           dw, dw + channels), UW_OK);
    ref->groupnorm_bw_param(&r, &t->n, t->batch_n, t->x, stats_want, t->dy, 0.25f, dw_want,
                            dw_want + channels);
    near("groupnorm_bw_param", 2 * channels, dw, dw_want, NULL, 1e-4);
    RELEASE(stats, stats_want, y, want, dw, dw_want);
}

static void check_norm(struct uw_norm n, uint32_t batch_n, float middle, uint32_t skip)
{
    struct norm_case t = {.n = n, .batch_n = batch_n, .skip = skip};
    t.all = (size_t)batch_n * n.channels * n.inner;
    t.x = numbers(t.all + skip, middle);
    t.dy = numbers(t.all + skip, 0.0f);
    t.gamma = numbers(n.channels, 1.0f);
    t.beta = numbers(n.channels, 0.0f);
    if (n.groups != 0) {
        check_groupnorm(&t);
    } else {
        check_batchnorm(&t);
    }
    RELEASE(t.x, t.dy, t.gamma, t.beta);
}

static void test_batchnorm_of_random_shapes(void **state)
{
    (void)state;
    const float ceilings[] = {0.0f, 6.0f, INFINITY};
    for (uint32_t i = 0; i < 40; i++) {
        struct uw_norm n = {.channels = between(1, i % 2 == 0 ? 3 : 40), .inner = between(1, 70),
                            .epsilon = 1e-5f, .momentum = 0.1f, .ceiling = ceilings[i % 3]};
        n.inner *= i % 3 == 0 ? 4 : 1;
        check_norm(n, between(2, 9), i % 4 == 0 ? 20.0f : 0.0f, i % 5 == 0 ? 1 : 0);
    }
    /* Several blocks a channel, far from 0 as well. */
    for (uint32_t i = 0; i < 4; i++) {
        struct uw_norm n = {.channels = 1 + i % 3, .inner = i % 2 == 0 ? 4100 : 4097,
                            .epsilon = 1e-5f, .momentum = 0.1f, .ceiling = ceilings[i % 3]};
        check_norm(n, 9, i == 3 ? 0.0f : 3.0f, i == 2 ? 3 : 0);
    }
    /* So many channels that none is split: blocks are as large as they get. */
    for (uint32_t skip = 0; skip < 2; skip++) {
        struct uw_norm n = {.channels = getenv("UWASA_TEST_QUICK") != NULL ? 9 : 640,
                            .inner = 4104, .epsilon = 1e-5f, .momentum = 0.1f};
        check_norm(n, 3, 0.0f, skip);
    }
}

static void test_groupnorm_of_random_shapes(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 40; i++) {
        struct uw_norm n = {.groups = between(1, 4), .inner = i % 3 == 0 ? 1 : between(1, 40),
                            .epsilon = 1e-5f};
        n.inner *= i % 6 == 1 ? 4 : 1;
        n.channels = n.groups * between(i % 3 == 0 ? 8 : 1, i % 8 == 0 ? 300 : 12);
        check_norm(n, between(1, 9), i % 4 == 0 ? 20.0f : 0.0f, 0);
    }
    check_norm((struct uw_norm){.groups = 1, .channels = 8, .inner = 1030, .epsilon = 1e-5f}, 2,
               1.0f, 0);        /* a block a row */
    check_norm((struct uw_norm){.groups = 1, .channels = 1, .inner = 17001, .epsilon = 1e-5f}, 2,
               0.0f, 0);        /* several blocks a channel's gradient */
    check_norm((struct uw_norm){.groups = 1, .channels = 33, .inner = 1, .epsilon = 1e-5f}, 1100,
               0.0f, 0);        /* columns in splits */
}

static void test_lrn_of_every_size(void **state)
{
    (void)state;
    const struct uw_exec e = gpu(), r = {.kernels = &uw_kernels_ref};
    for (uint32_t i = 0; i < 24; i++) {
        struct uw_lrn l = {.channels = between(1, 40), .inner = between(1, 40), .size = i % 8 + 1,
                           .alpha = 0.3f, .beta = i % 2 == 0 ? 0.75f : 0.6f, .k = 1.5f};
        uint32_t batch_n = between(1, 3);
        size_t n = (size_t)batch_n * l.channels * l.inner;
        size_t bytes = uw_kernels_ref.norm->lrn_scratch_bytes(&l, 1);
        float *x = numbers(n, 0.0f), *dy = numbers(n, 0.0f), *y = copy(n, x), *want = copy(n, x);
        float *scratch = uw_test_floats(bytes / sizeof(float));
        struct uw_exec with = r;
        with.scratch = scratch;
        with.scratch_bytes = bytes;
        assert_int_equal(uw_gpu_table->norm->lrn_fw(&e, &l, batch_n, x, y), UW_OK);
        uw_kernels_ref.norm->lrn_fw(&r, &l, batch_n, x, want);
        near("lrn_fw", n, y, want, NULL, 2e-6);
        assert_int_equal(uw_gpu_table->norm->lrn_bw_input(&e, &l, batch_n, x, dy, y, i % 3 == 0),
                         UW_OK);
        uw_kernels_ref.norm->lrn_bw_input(&with, &l, batch_n, x, dy, want, i % 3 == 0);
        near("lrn_bw_input", n, y, want, NULL, 4e-6);
        RELEASE(x, dy, y, want, scratch);
    }
}

static void check_pools(const struct uw_pool2d *p, uint32_t batch_n)
{
    const struct uw_exec e = gpu(), r = {.kernels = &uw_kernels_ref};
    const struct uw_kernels *k = uw_gpu_table;
    size_t in = (size_t)batch_n * p->channels * p->in_h * p->in_w;
    size_t out = (size_t)batch_n * p->channels * p->out_h * p->out_w;
    float *x = numbers(in, 0.0f), *dy = numbers(out, 0.0f), *y = uw_test_floats(out);
    float *want = uw_test_floats(out), *dx = numbers(in, 0.0f), *dx_want = copy(in, dx);
    uint8_t *winner = uw_test_block(out), *winner_want = uw_test_block(out);
    for (size_t i = 0; i < in; i += 17) {
        x[i] = i % 2 == 0 ? NAN : x[i / 2];
    }
    assert_int_equal(k->maxpool2d_fw(&e, p, batch_n, x, y, winner), UW_OK);
    uw_kernels_ref.maxpool2d_fw(&r, p, batch_n, x, want, winner_want);
    for (size_t i = 0; i < out; i++) {
        assert_true(y[i] == want[i] || (isnan(y[i]) && isnan(want[i])));
        assert_int_equal(winner[i], winner_want[i]);
    }
    assert_int_equal(k->maxpool2d_bw_input(&e, p, batch_n, dy, winner, dx, true), UW_OK);
    uw_kernels_ref.maxpool2d_bw_input(&r, p, batch_n, dy, winner_want, dx_want, true);
    near("maxpool2d_bw_input", in, dx, dx_want, NULL, 1e-6);
    assert_int_equal(k->avgpool2d_fw(&e, p, batch_n, dx_want, y), UW_OK);
    uw_kernels_ref.avgpool2d_fw(&r, p, batch_n, dx_want, want);
    near("avgpool2d_fw", out, y, want, NULL, 4e-6);
    assert_int_equal(k->avgpool2d_bw_input(&e, p, batch_n, dy, dx, false), UW_OK);
    uw_kernels_ref.avgpool2d_bw_input(&r, p, batch_n, dy, dx_want, false);
    near("avgpool2d_bw_input", in, dx, dx_want, NULL, 2e-6);
    uw_test_release(winner);
    uw_test_release(winner_want);
    RELEASE(x, dy, y, want, dx, dx_want);
}

static void test_pools_of_random_shapes(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 80; i++) {
        struct uw_pool2d p = {.channels = between(1, 5), .kernel_h = between(1, 4),
                              .kernel_w = between(1, 4), .stride_h = between(1, 3),
                              .stride_w = between(1, 3), .relu = i % 2 == 0,
                              .exclude_pad = i % 3 == 0};
        p.pad_h = between(0, p.kernel_h / 2);
        p.pad_w = between(0, p.kernel_w / 2);
        p.in_h = between(p.kernel_h, 20);
        p.in_w = between(p.kernel_w, 20);
        p.out_h = (p.in_h + p.pad_h - 1) / p.stride_h + 1;  /* windows hang over the end */
        p.out_w = (p.in_w + 2 * p.pad_w - p.kernel_w) / p.stride_w + 1;
        if (i % 8 == 0) {       /* the plane */
            p.kernel_h = p.in_h = between(1, 9);
            p.kernel_w = p.in_w = between(1, 9);
            p.pad_h = p.pad_w = 0;
            p.out_h = p.out_w = 1;
        }
        check_pools(&p, between(1, 3));
    }
}

/* db[c] += scale * sum, in double: the reference's rounding grows with the sum's length. */
static void sum_channels(uint32_t batch_n, uint32_t channels, size_t inner, const float *dy,
                         double scale, float *db)
{
    for (uint32_t c = 0; c < channels; c++) {
        double sum = 0.0;
        for (uint32_t n = 0; n < batch_n; n++) {
            for (size_t i = 0; i < inner; i++) {
                sum += (double)dy[((size_t)n * channels + c) * inner + i];
            }
        }
        db[c] = (float)((double)db[c] + scale * sum);
    }
}

static void test_channels_of_random_shapes(void **state)
{
    (void)state;
    const struct uw_exec e = gpu(), r = {.kernels = &uw_kernels_ref};
    for (uint32_t i = 0; i < 40; i++) {
        uint32_t batch_n = i % 10 == 0 ? 1200 : between(1, 9), channels = between(1, 40);
        size_t inner = i % 10 < 2 ? 1 : i == 32 ? 40001 : between(1, 90), skip = i % 7 == 0;
        channels = inner > 1000 ? 2 : channels;
        size_t n = batch_n * channels * inner + skip;
        float *y = numbers(n, 0.0f), *b = numbers(channels, 0.0f), *want = copy(n, y);
        float *b_want = copy(channels, b);
        assert_int_equal(uw_gpu_table->sum_channels(&e, batch_n, channels, inner, y + skip, -0.5f,
                                                    b), UW_OK);
        sum_channels(batch_n, channels, inner, y + skip, -0.5, b_want);
        near("sum_channels", channels, b, b_want, NULL, 4e-5);
        assert_int_equal(uw_gpu_table->add_channels(&e, batch_n, channels, inner, b, y + skip),
                         UW_OK);
        uw_kernels_ref.add_channels(&r, batch_n, channels, inner, b, want + skip);
        assert_memory_equal(y, want, n * sizeof *y);
        RELEASE(y, b, want, b_want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_convolutions_of_random_shapes),
        cmocka_unit_test(test_depthwise_convolutions_of_random_shapes),
        cmocka_unit_test(test_own_convolutions_of_small_models),
        cmocka_unit_test(test_normed_convolutions_are_refused),
        cmocka_unit_test(test_batchnorm_of_random_shapes),
        cmocka_unit_test(test_groupnorm_of_random_shapes),
        cmocka_unit_test(test_lrn_of_every_size),
        cmocka_unit_test(test_pools_of_random_shapes),
        cmocka_unit_test(test_channels_of_random_shapes),
    };
    uw_rng_seed(&rng, uw_test_seed(20261123));
    return cmocka_run_group_tests_name("shapes", tests, NULL, NULL);
}
