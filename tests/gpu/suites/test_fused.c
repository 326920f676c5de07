/* SPDX-License-Identifier: Apache-2.0
 *
 * The table's fused slots over random shapes: the bits of the slots that they stand for, sums near
 * those in double, and what NaN does. */
#include "table.h"
#include "test_support.h"

#include "cuda/gpu.h"

#include "uwasa/backends.h"
#include "uwasa/rng.h"
#include "uwasa/status.h"

static struct uw_rng rng;

static uint32_t between(uint32_t lo, uint32_t hi)
{
    return lo + uw_rng_below(&rng, hi - lo + 1);
}

/* Numbers in [-8, 8), some of them NaN, zeros, 6 or infinite. */
static float *numbers(size_t n)
{
    const float odd[] = {NAN, 0.0f, -0.0f, 6.0f, INFINITY, -INFINITY};
    float *x = uw_test_floats(n);
    for (size_t i = 0; i < n; i++) {
        uint32_t pick = between(0, 60);
        x[i] = pick < 6 ? odd[pick] : 16.0f * uw_rng_uniform(&rng) - 8.0f;
    }
    return x;
}

static float *plain_numbers(size_t n)
{
    float *x = uw_test_floats(n);
    for (size_t i = 0; i < n; i++) {
        x[i] = 2.0f * uw_rng_uniform(&rng) - 1.0f;
    }
    return x;
}

static float *copy(size_t n, const float *x)
{
    float *y = uw_test_floats(n);
    memcpy(y, x, n * sizeof *y);
    return y;
}

static void same(const char *what, size_t n, const float *got, const float *want)
{
    for (size_t i = 0; i < n; i++) {
        if (!(got[i] == want[i] || (isnan(got[i]) && isnan(want[i])))) {
            fail_msg("%s: element %zu of %zu is %.9g, not %.9g", what, i, n, (double)got[i],
                     (double)want[i]);
        }
    }
}

struct shape {
    uint32_t batch_n, channels;
    size_t inner, skip, n;          /* skip: arrays begin so many floats into their blocks */
};

/* Small ones, dense layers, several blocks a channel; addresses that no vector is aligned to. */
static struct shape shape_of(uint32_t i)
{
    struct shape s = {.batch_n = i % 10 == 0 ? 1200 : between(1, 9), .channels = between(1, 40),
                      .inner = i % 10 < 3 ? 1 : between(1, 90), .skip = i % 7 == 0};
    if (i % 16 == 9) {
        s.inner = i % 32 == 9 ? 40001 : 10004;
        s.channels = 2;
    }
    s.inner *= i % 3 == 1 && s.inner != 1 && s.inner < 1000 ? 4 : 1;
    s.n = s.batch_n * s.channels * s.inner;
    return s;
}

static float cut(float v, float ceiling)
{
    float up = v <= 0.0f ? 0.0f : v;
    return up > ceiling ? ceiling : up;
}

static void test_fused_bias_and_relu_have_the_bits_of_both(void **state)
{
    (void)state;
    const struct uw_exec e = {.kernels = uw_gpu_table}, r = {.kernels = &uw_kernels_ref};
    for (uint32_t i = 0; i < 48; i++) {
        struct shape s = shape_of(i);
        float ceiling = i % 2 == 0 ? INFINITY : 6.0f;
        float *y = numbers(s.n + s.skip), *want = copy(s.n + s.skip, y);
        float *b = plain_numbers(s.channels);
        bool bias = i % 4 != 3;
        if (bias) {
            uw_kernels_ref.add_channels(&r, s.batch_n, s.channels, s.inner, b, want + s.skip);
        }
        for (size_t k = s.skip; k < s.n + s.skip; k++) {
            want[k] = cut(want[k], ceiling);
        }
        assert_int_equal(uw_bias_relu_cuda(&e, s.batch_n, s.channels, s.inner, bias ? b : NULL,
                                           ceiling, y + s.skip), UW_OK);
        same("bias_relu", s.n + s.skip, y, want);
        uw_test_release(y);
        uw_test_release(want);
        uw_test_release(b);
    }
}

/* A convolution by whatever the table takes for it, against its product, then both. */
static void test_fused_convolutions_end_in_bias_and_relu(void **state)
{
    (void)state;
    const struct uw_exec e = {.kernels = uw_gpu_table}, r = {.kernels = &uw_kernels_ref};
    for (uint32_t i = 0; i < 24; i++) {
        uint32_t batch_n = between(1, 3), groups = i % 4 == 3 ? 6 : 1, size = between(3, 9);
        const struct uw_conv2d c = {.in_channels = 6, .out_channels = i % 2 == 0 ? 6 : 12,
                                    .in_h = size, .in_w = size + 1, .out_h = size,
                                    .out_w = size + 1, .kernel_h = 3, .kernel_w = 3, .stride_h = 1,
                                    .stride_w = 1, .pad_h = 1, .pad_w = 1, .dilation_h = 1,
                                    .dilation_w = 1, .groups = groups};
        size_t pixels = (size_t)size * (size + 1), y_n = batch_n * c.out_channels * pixels;
        float ceiling = i % 3 == 0 ? 6.0f : INFINITY;
        float *x = plain_numbers(batch_n * 6 * pixels), *w = plain_numbers(12 * 6 * 9);
        float *b = plain_numbers(12), *y = numbers(y_n), *want = numbers(y_n);
        x[0] = i % 5 == 0 ? NAN : x[0];
        uw_kernels_ref.conv2d_fw(&r, &c, batch_n, x, w, i % 7 == 6 ? NULL : b, want, false);
        assert_int_equal(uw_gpu_table->fused->conv2d_bias_relu(&e, &c, batch_n, x, w,
                                                               i % 7 == 6 ? NULL : b, ceiling, y),
                         UW_OK);
        for (size_t k = 0; k < y_n; k++) {
            float v = cut(want[k], ceiling);
            assert_true(isnan(v) ? isnan(y[k]) : fabsf(y[k] - v) <= 2e-5f * (1.0f + fabsf(v)));
        }
        float *const blocks[] = {x, w, b, y, want};
        for (size_t k = 0; k < sizeof blocks / sizeof *blocks; k++) {
            uw_test_release(blocks[k]);
        }
    }
}

/* want: dy as it must become. Sums in double of what is summed, and of its magnitudes. */
static void check_sums(const struct shape *s, const float *want, const float *sums)
{
    for (uint32_t c = 0; c < s->channels; c++) {
        double sum = 0.0, size = 0.0;
        for (uint32_t n = 0; n < s->batch_n; n++) {
            for (size_t i = 0; i < s->inner; i++) {
                double d = (double)want[((size_t)n * s->channels + c) * s->inner + i];
                sum += d;
                size += fabs(d);
            }
        }
        if (!(fabs((double)sums[c] - sum) <= 1e-6 * (1.0 + size)) &&
            !(isnan(sums[c]) && isnan(sum))) {
            fail_msg("channel %u of %u: sum %.9g, not %.9g", (unsigned)c, (unsigned)s->channels,
                     (double)sums[c], sum);
        }
    }
}

static void test_fused_gradients_are_cut_and_added_up(void **state)
{
    (void)state;
    const struct uw_exec e = {.kernels = uw_gpu_table};
    for (uint32_t i = 0; i < 48; i++) {
        struct shape s = shape_of(i);
        float ceiling = i % 2 == 0 ? INFINITY : 6.0f;
        float *y = numbers(s.n + s.skip), *dy = plain_numbers(s.n + s.skip);
        float *sums = plain_numbers(s.channels);
        for (size_t k = 0; k < s.n + s.skip; k++) {
            y[k] = cut(y[k], ceiling);
            dy[k] = i % 5 == 4 && k % 97 == 0 ? NAN : dy[k]; /* a closed ReLU holds it back */
        }
        float *want = copy(s.n + s.skip, dy), *again = copy(s.n + s.skip, dy);
        float *before = copy(s.n + s.skip, dy);
        for (size_t k = s.skip; k < s.n + s.skip; k++) {
            want[k] = y[k] > 0.0f && y[k] < ceiling ? dy[k] : 0.0f;
        }
        assert_int_equal(uw_gpu_table->fused->relu_bw(&e, s.batch_n, s.channels, s.inner, ceiling,
                                                      y + s.skip, dy + s.skip, sums), UW_OK);
        same("relu_bw", s.n + s.skip, dy, want);
        check_sums(&s, want + s.skip, sums);
        assert_int_equal(uw_gpu_table->fused->relu_bw(&e, s.batch_n, s.channels, s.inner, ceiling,
                                                      y + s.skip, again + s.skip, NULL), UW_OK);
        same("relu_bw without sums", s.n + s.skip, again, want);
        float *dx = plain_numbers(s.n + s.skip), *want_dx = copy(s.n + s.skip, dx);
        bool add = i % 3 == 0;
        memcpy(again, before, (s.n + s.skip) * sizeof *again);
        uw_test_release(before);
        for (size_t k = s.skip; k < s.n + s.skip; k++) {
            want_dx[k] = add ? want_dx[k] + want[k] : want[k];
        }
        assert_int_equal(uw_gpu_table->fused->relu_bw_copy(&e, s.n, ceiling, y + s.skip,
                                                           again + s.skip, dx + s.skip, add),
                         UW_OK);
        same("relu_bw_copy: dy", s.n + s.skip, again, want);
        same("relu_bw_copy: dx", s.n + s.skip, dx, want_dx);
        uw_test_release(dx);
        uw_test_release(want_dx);
        float *const blocks[] = {y, dy, sums, want, again};
        for (size_t k = 0; k < sizeof blocks / sizeof *blocks; k++) {
            uw_test_release(blocks[k]);
        }
    }
}

/* The bits of the slots that keep both sums in one array, with and without dx. */
static void check_norm(const struct shape *s, const struct uw_norm *g, bool accumulate)
{
    const struct uw_exec e = {.kernels = uw_gpu_table};
    const struct uw_norm_kernels *k = uw_gpu_table->norm;
    float *x = plain_numbers(s->n), *dy = plain_numbers(s->n), *dx = plain_numbers(s->n);
    float *want = copy(s->n, dx), *gamma = plain_numbers(s->channels);
    float *beta = plain_numbers(s->channels), *sums = plain_numbers(2 * (size_t)s->channels);
    float *parts = plain_numbers(2 * (size_t)s->channels);
    float *stats = plain_numbers(2 * (size_t)s->channels);
    float *dgamma = parts, *dbeta = parts + s->channels;
    const struct uw_input_norm norm = {stats, gamma, beta, g->ceiling};
    assert_int_equal(k->batchnorm_stats(&e, g, s->batch_n, x, stats, NULL, NULL), UW_OK);
    dy[s->n / 2] = s->skip != 0 ? NAN : dy[s->n / 2];
    k->batchnorm_bw_sums_input(&e, g, s->batch_n, x, stats, gamma, beta, dy, sums, want,
                               accumulate);
    assert_int_equal(uw_gpu_table->fused->batchnorm_bw(&e, g, s->batch_n, x, &norm, dy, dgamma,
                                                       dbeta, dx, accumulate), UW_OK);
    same("batchnorm_bw: dx", s->n, dx, want);
    same("batchnorm_bw: dbeta", s->channels, dbeta, sums);
    same("batchnorm_bw: dgamma", s->channels, dgamma, sums + s->channels);
    k->batchnorm_bw_sums(&e, g, s->batch_n, x, stats, gamma, beta, dy, sums);
    assert_int_equal(uw_gpu_table->fused->batchnorm_bw(&e, g, s->batch_n, x, &norm, dy, dgamma,
                                                       dbeta, NULL, false), UW_OK);
    same("batchnorm_bw without dx: dbeta", s->channels, dbeta, sums);
    same("batchnorm_bw without dx: dgamma", s->channels, dgamma, sums + s->channels);
    float *const blocks[] = {x, dy, dx, want, gamma, beta, sums, parts, stats};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        uw_test_release(blocks[i]);
    }
}

static void test_fused_gradients_of_batch_norm_stand_apart(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 24; i++) {
        const struct shape s = shape_of(i);
        const struct uw_norm g = {.channels = s.channels, .inner = (uint32_t)s.inner,
                                  .epsilon = 1e-5f, .ceiling = i % 2 == 0 ? INFINITY : 0.0f};
        check_norm(&s, &g, i % 3 == 0);
    }
}

/* One row, several rows a block, widths of no vector, sizes around the number of warps. */
static struct uw_dense dense_of(uint32_t i, uint32_t *batch_n)
{
    *batch_n = i % 9 == 0 ? 9 : between(1, 8);
    struct uw_dense d = {.in = i % 5 == 0 ? between(1, 9) : between(30, 140),
                         .out = i % 4 == 0 ? between(120, 140) : between(1, 40)};
    d.in -= i % 3 == 0 && d.in > 4 ? d.in % 4 : 0;
    return d;
}

static void test_fused_dense_with_relu_has_the_bits_of_both(void **state)
{
    (void)state;
    const struct uw_exec e = {.kernels = uw_gpu_table};
    for (uint32_t i = 0; i < 40; i++) {
        uint32_t batch_n;
        const struct uw_dense d = dense_of(i, &batch_n);
        size_t n = (size_t)batch_n * d.out;
        float ceiling = i % 2 == 0 ? INFINITY : 0.25f;
        float *x = plain_numbers((size_t)batch_n * d.in), *w = plain_numbers((size_t)d.in * d.out);
        float *b = plain_numbers(d.out), *y = numbers(n), *want = numbers(n);
        x[batch_n * d.in / 2] = i % 7 == 6 ? NAN : x[batch_n * d.in / 2];
        uw_gpu_table->dense_fw(&e, &d, batch_n, x, w, i % 3 != 0 ? b : NULL, want);
        for (size_t k = 0; k < n; k++) {
            want[k] = cut(want[k], ceiling);
        }
        assert_int_equal(uw_gpu_table->fused->dense_relu(&e, &d, batch_n, x, w,
                                                         i % 3 != 0 ? b : NULL, ceiling, y),
                         UW_OK);
        same("dense_relu", n, y, want);
        float *const blocks[] = {x, w, b, y, want};
        for (size_t k = 0; k < sizeof blocks / sizeof *blocks; k++) {
            uw_test_release(blocks[k]);
        }
    }
}

/* b against the slots that it stands for; what it reads and writes is of this size. */
static void check_dense_bw(const struct uw_dense *d, struct uw_dense_back b)
{
    const struct uw_exec e = {.kernels = uw_gpu_table};
    const size_t in_n = (size_t)b.batch_n * d->in, out_n = (size_t)b.batch_n * d->out;
    const size_t w_n = (size_t)d->in * d->out;
    float *x = plain_numbers(in_n), *w = plain_numbers(w_n), *dy = plain_numbers(out_n);
    float *y = numbers(out_n), *dx = plain_numbers(in_n), *dw = plain_numbers(w_n);
    float *db = plain_numbers(d->out), *want_dy = copy(out_n, dy), *want_dx = copy(in_n, dx);
    float *want_dw = copy(w_n, dw), *want_db = copy(d->out, db), *dy_before = copy(out_n, dy);
    if (b.ceiling > 0.0f) {
        uw_gpu_table->fused->relu_bw(&e, b.batch_n, d->out, 1, b.ceiling, y, want_dy, NULL);
    }
    uw_gpu_table->dense_bw_input(&e, d, b.batch_n, want_dy, w, want_dx, b.accumulate);
    uw_gpu_table->dense_bw_param(&e, d, b.batch_n, x, want_dy, 1.0f, want_dw, want_db);
    b.x = x;
    b.w = w;
    b.dy = dy;
    b.y = b.ceiling > 0.0f ? y : NULL;
    b.dx = dx;
    b.dw = dw;
    b.db = db;
    assert_int_equal(uw_gpu_table->fused->dense_bw(&e, d, &b), UW_OK);
    same("dense_bw: dx", in_n, dx, want_dx);
    same("dense_bw: dw", w_n, dw, want_dw);
    same("dense_bw: db", d->out, db, want_db);
    same("dense_bw: dy", out_n, dy, dy_before);
    b.dx = b.db = NULL;
    uw_gpu_table->dense_bw_param(&e, d, b.batch_n, x, want_dy, 1.0f, want_dw, NULL);
    assert_int_equal(uw_gpu_table->fused->dense_bw(&e, d, &b), UW_OK);
    same("dense_bw without dx: dw", w_n, dw, want_dw);
    same("dense_bw without dx: db", d->out, db, want_db);
    float *const blocks[] = {x, w, dy, y, dx, dw, db, want_dy, want_dx, want_dw, want_db,
                             dy_before};
    for (size_t k = 0; k < sizeof blocks / sizeof *blocks; k++) {
        uw_test_release(blocks[k]);
    }
}

static void test_fused_gradients_of_dense_are_those_of_its_parts(void **state)
{
    (void)state;
    const float ceilings[] = {0.0f, INFINITY, 6.0f};
    uint32_t taken = 0;
    for (uint32_t i = 0; i < 40; i++) {
        struct uw_dense_back b = {.accumulate = i % 2 == 0, .ceiling = ceilings[i % 3]};
        const struct uw_dense d = dense_of(i, &b.batch_n);
        if (uw_gpu_table->fused->dense_bw_takes(uw_gpu_table, &d, b.batch_n)) {
            check_dense_bw(&d, b);
            taken++;
        }
    }
    assert_true(taken > 20);
}

static void test_fused_addition_may_be_in_place(void **state)
{
    (void)state;
    const struct uw_exec e = {.kernels = uw_gpu_table};
    const float ceilings[] = {0.0f, 6.0f, INFINITY};
    for (uint32_t i = 0; i < 36; i++) {
        size_t n = between(1, i % 6 == 0 ? 9000 : 70), skip = i % 5 == 0;
        float *a = numbers(n + skip), *b = numbers(n + skip), *y = numbers(n + skip);
        float *want = copy(n + skip, y), *to = i % 4 < 2 ? y : i % 4 == 2 ? a : b;
        for (size_t k = skip; k < n + skip; k++) {
            float sum = a[k] + b[k];
            want[k] = ceilings[i % 3] > 0.0f ? cut(sum, ceilings[i % 3]) : sum;
        }
        assert_int_equal(uw_gpu_table->fused->add_relu(&e, n, a + skip, b + skip, ceilings[i % 3],
                                                       to + skip), UW_OK);
        same("add_relu", n, to + skip, want + skip);
        uw_test_release(a);
        uw_test_release(b);
        uw_test_release(y);
        uw_test_release(want);
    }
}

static void test_fused_slots_take_nothing(void **state)
{
    (void)state;
    const struct uw_exec e = {.kernels = uw_gpu_table};
    float *sums = plain_numbers(3), *y = plain_numbers(1), *dy = plain_numbers(1);
    assert_int_equal(uw_bias_relu_cuda(&e, 0, 3, 2, sums, 6.0f, y), UW_OK);
    const struct uw_conv2d c = {.in_channels = 1, .out_channels = 3, .in_h = 1, .in_w = 2,
                                .out_h = 1, .out_w = 2, .kernel_h = 1, .kernel_w = 1,
                                .stride_h = 1, .stride_w = 1, .dilation_h = 1, .dilation_w = 1,
                                .groups = 1};
    assert_int_equal(uw_gpu_table->fused->conv2d_bias_relu(&e, &c, 0, y, sums, sums, 6.0f, y),
                     UW_OK);
    assert_int_equal(uw_gpu_table->fused->add_relu(&e, 0, y, y, 6.0f, y), UW_OK);
    assert_int_equal(uw_gpu_table->fused->relu_bw(&e, 0, 3, 2, 6.0f, y, dy, NULL), UW_OK);
    assert_int_equal(uw_gpu_table->fused->relu_bw(&e, 0, 3, 2, 6.0f, y, dy, sums), UW_OK);
    same("sums of nothing", 3, sums, (const float[3]){0.0f});
    uw_test_release(sums);
    uw_test_release(y);
    uw_test_release(dy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fused_bias_and_relu_have_the_bits_of_both),
        cmocka_unit_test(test_fused_convolutions_end_in_bias_and_relu),
        cmocka_unit_test(test_fused_gradients_are_cut_and_added_up),
        cmocka_unit_test(test_fused_gradients_of_batch_norm_stand_apart),
        cmocka_unit_test(test_fused_dense_with_relu_has_the_bits_of_both),
        cmocka_unit_test(test_fused_gradients_of_dense_are_those_of_its_parts),
        cmocka_unit_test(test_fused_addition_may_be_in_place),
        cmocka_unit_test(test_fused_slots_take_nothing),
    };
    uw_rng_seed(&rng, uw_test_seed(20261124));
    return cmocka_run_group_tests_name("fused", tests, NULL, NULL);
}
