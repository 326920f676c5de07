/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes around the tiles of the table "cuda" beside the reference: accesses of four floats that
 * begin anywhere, rows of a few lanes, a warp, a block, sums of many blocks. */
#include "test_support.h"

#include "uwasa/backends.h"
#include "uwasa/rng.h"
#include "uwasa/status.h"

static struct uw_rng rng;

static const struct uw_exec *gpu(void)
{
    static struct uw_exec e;
    e.kernels = uw_gpu_table;
    return &e;
}

static const struct uw_exec *cpu(void)
{
    static struct uw_exec e;
    e.kernels = &uw_kernels_ref;
    return &e;
}

static float *random_floats(size_t n)
{
    float *x = uw_test_floats(n);
    for (size_t i = 0; i < n; i++) {
        x[i] = uw_rng_normal(&rng);
    }
    return x;
}

static float *copy_floats(size_t n, const float *x)
{
    float *copy = uw_test_floats(n);
    memcpy(copy, x, n * sizeof *x);
    return copy;
}

static void assert_close(size_t n, const float *got, const float *want, double bound)
{
    for (size_t i = 0; i < n; i++) {
        double size = fabs((double)want[i]);
        if (!(fabs((double)got[i] - (double)want[i]) <= bound * (1.0 + size))) {
            fail_msg("%zu of %zu: %.9g, want %.9g", i, n, (double)got[i], (double)want[i]);
        }
    }
}

static void test_tiles_arrays_begin_anywhere(void **state)
{
    (void)state;
    static const size_t lengths[] = {0, 1, 2, 3, 4, 5, 7, 8, 31, 32, 33, 1023, 1024, 1025, 5003};
    const struct uw_sgd sgd = {.lr = 0.1f, .momentum = 0.9f, .weight_decay = 0.01f};
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths * 8; l++) {
        size_t n = lengths[l / 8], at = l % 4, other = l % 8 < 4 ? at : (at + 1) % 4;
        float *g = random_floats(n + 4), *w = random_floats(n + 4), *v = random_floats(n + 4);
        float *w2 = copy_floats(n + 4, w), *v2 = copy_floats(n + 4, v);
        uw_gpu_table->axpby(gpu(), n, 0.5f, g + at, 1.0f, w + other);
        uw_kernels_ref.axpby(cpu(), n, 0.5f, g + at, 1.0f, w2 + other);
        uw_gpu_table->sgd_update(gpu(), n, &sgd, g + at, w + at, v + other);
        uw_kernels_ref.sgd_update(cpu(), n, &sgd, g + at, w2 + at, v2 + other);
        assert_close(n + 4, w, w2, 1e-6);   /* nothing beside it changed either */
        assert_close(n + 4, v, v2, 1e-6);
        float *const all[] = {g, w, v, w2, v2};
        for (size_t i = 0; i < 5; i++) {
            uw_test_release(all[i]);
        }
    }
}

static void check_cross_entropy(uint32_t batch_n, uint32_t classes, float smoothing)
{
    size_t n = (size_t)batch_n * classes;
    float *z = random_floats(n), *p = uw_test_floats(n), *p2 = uw_test_floats(n);
    uint32_t *label = uw_test_block(batch_n * sizeof *label), correct = 7, correct2 = 8;
    double loss = NAN, loss2 = NAN;
    double bound = (4.0 + 4.0 * sqrt((double)classes)) * 0x1p-24; /* of a sum in another order */
    for (size_t i = 0; i < n; i++) {
        z[i] = floorf(z[i] * 4.0f);         /* equals occur */
    }
    for (uint32_t i = 0; i < batch_n; i++) {
        label[i] = uw_rng_below(&rng, classes);
    }
    assert_int_equal(uw_gpu_table->softmax_xent_fw(gpu(), batch_n, classes, smoothing, z, label, p,
                                                   &loss, &correct), UW_OK);
    uw_kernels_ref.softmax_xent_fw(cpu(), batch_n, classes, smoothing, z, label, p2, &loss2,
                                   &correct2);
    assert_true(fabs(loss - loss2) <= 1e-5 * (1.0 + fabs(loss2)));
    assert_int_equal(correct, correct2);
    assert_close(n, p, p2, bound);
    uw_gpu_table->softmax_xent_bw_input(gpu(), batch_n, classes, smoothing, p, label, 0.5f, p);
    uw_kernels_ref.softmax_xent_bw_input(cpu(), batch_n, classes, smoothing, p2, label, 0.5f, p2);
    assert_close(n, p, p2, bound);
    uw_test_release(z);
    uw_test_release(p);
    uw_test_release(p2);
    uw_test_release(label);
}

static void test_tiles_cross_entropy_of_any_width(void **state)
{
    (void)state;
    static const uint32_t classes[] = {1, 2, 4, 5, 31, 32, 33, 255, 256, 257, 1000};
    static const uint32_t batches[] = {0, 1, 7, 8, 9, 63, 65};
    for (size_t c = 0; c < sizeof classes / sizeof *classes; c++) {
        for (size_t b = 0; b < sizeof batches / sizeof *batches; b++) {
            check_cross_entropy(batches[b], classes[c], b % 2 != 0 ? 0.1f : 0.0f);
        }
    }
    check_cross_entropy(255, 10, 0.0f);
    check_cross_entropy(256, 10, 0.1f);
    check_cross_entropy(257, 10, 0.0f);
    check_cross_entropy(1029, 3, 0.0f);
}

static void test_tiles_softmax_of_any_width(void **state)
{
    (void)state;
    static const uint32_t widths[] = {1, 7, 8, 9, 31, 32, 33, 64, 1023, 1024, 1025, 1300};
    const struct uw_sequence_kernels *k = uw_gpu_table->sequence, *r = uw_kernels_ref.sequence;
    for (size_t i = 0; i < 2 * sizeof widths / sizeof *widths; i++) {
        uint32_t n = widths[i / 2], rows = n < 100 ? 2 * n + 1 : 3;
        size_t all = (size_t)rows * n;
        float *x = random_floats(all), *y = uw_test_floats(all), *y2 = uw_test_floats(all);
        float *dy = random_floats(all), *dx = uw_test_floats(all);
        k->softmax_fw(gpu(), rows, n, i % 2 != 0, x, y);
        r->softmax_fw(cpu(), rows, n, i % 2 != 0, x, y2);
        assert_close(all, y, y2, 2e-6);
        r->softmax_bw_input(cpu(), rows, n, y2, dy, dx);
        k->softmax_bw_input(gpu(), rows, n, y2, dy, dy);
        assert_close(all, dy, dx, 5e-6);
        float *const blocks[] = {x, y, y2, dy, dx};
        for (size_t b = 0; b < 5; b++) {
            uw_test_release(blocks[b]);
        }
    }
}

static void check_scatter(size_t n, uint32_t rows, uint32_t row_n)
{
    float *x = uw_test_floats(n), *dy = random_floats(n * row_n), *y = uw_test_floats(n * row_n);
    float *dw = random_floats((size_t)rows * row_n), *dw2 = copy_floats((size_t)rows * row_n, dw);
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)uw_rng_below(&rng, i % 3 != 0 ? rows : 1 + rows / 50);
    }
    assert_int_equal(uw_gpu_table->copy->scatter_add(gpu(), n, rows, row_n, x, dy, -0.5f, dw),
                     UW_OK);
    uw_kernels_ref.copy->scatter_add(cpu(), n, rows, row_n, x, dy, -0.5f, dw2);
    assert_close((size_t)rows * row_n, dw, dw2, 1e-6);
    assert_int_equal(uw_gpu_table->copy->gather(gpu(), n, rows, row_n, x, dw, y), UW_OK);
    for (size_t i = 0; i < n * row_n; i++) {
        assert_true(y[i] == dw[(size_t)x[i / row_n] * row_n + i % row_n]);
    }
    float *const blocks[] = {x, dy, y, dw, dw2};
    for (size_t b = 0; b < 5; b++) {
        uw_test_release(blocks[b]);
    }
}

static void test_tiles_scatter_adds_in_order(void **state)
{
    (void)state;
    check_scatter(0, 5, 4);
    check_scatter(1023, 100, 33);
    check_scatter(1024, 7, 32);
    check_scatter(2049, 100, 257);
    check_scatter(1500, 3000, 1);
    check_scatter(1500, 3000, 100);
}

static void test_tiles_rows_add_up(void **state)
{
    (void)state;
    static const size_t rows[] = {0, 1, 7, 8, 9, 127, 128, 129, 1500};
    static const uint32_t widths[] = {1, 31, 32, 33, 130};
    for (size_t i = 0; i < sizeof rows / sizeof *rows * 5; i++) {
        uint32_t n = widths[i % 5];
        size_t r = rows[i / 5], step = n + i % 3;
        float *dy = random_floats(r * step + n), *db = random_floats(n), *db2 = copy_floats(n, db);
        uw_gpu_table->copy->sum_rows(gpu(), r, n, step, dy, 0.25f, db);
        uw_kernels_ref.copy->sum_rows(cpu(), r, n, step, dy, 0.25f, db2);
        assert_close(n, db, db2, 2e-5);
        uw_test_release(dy);
        uw_test_release(db);
        uw_test_release(db2);
    }
}

static void test_tiles_large_sums_are_the_same_every_time(void **state)
{
    (void)state;
    for (size_t n = 4095; n <= 300000; n = n < 4100 ? n + 1 : n * 7) {
        float *x = random_floats(n), *t = random_floats(n);
        double first = uw_gpu_table->distance_sq(gpu(), n, x, t), sum = NAN, again = NAN, want;
        double ref = uw_kernels_ref.distance_sq(cpu(), n, x, t);
        assert_true(fabs(first - ref) <= 1e-12 * ref);
        assert_true(first == uw_gpu_table->distance_sq(gpu(), n, x, t));
        uw_gpu_table->loss->forward(gpu(), UW_ELEMENTWISE_HUBER, 0.7f, n, x, t, &sum);
        uw_gpu_table->loss->forward(gpu(), UW_ELEMENTWISE_HUBER, 0.7f, n, x, t, &again);
        uw_kernels_ref.loss->forward(cpu(), UW_ELEMENTWISE_HUBER, 0.7f, n, x, t, &want);
        assert_true(fabs(sum - want) <= 1e-6 * want && sum == again);
        assert_true(uw_gpu_table->all_finite(gpu(), n, x));
        x[n - 1] = -INFINITY;
        assert_false(uw_gpu_table->all_finite(gpu(), n, x));
        uw_test_release(x);
        uw_test_release(t);
    }
}

/* Numbers whose squares fit no float, or only just; neighbours that differ in their last bit. */
static void test_tiles_distances_of_any_size(void **state)
{
    (void)state;
    const float sizes[] = {1e-30f, 1e-19f, 1e-12f, 1e-9f, 1.0f, 1e9f, 1e17f, 1e20f, 1e38f};
    const size_t n = 1000;
    for (size_t i = 0; i < 4 * sizeof sizes / sizeof *sizes; i++) {
        float *x = random_floats(n), *y = random_floats(n);
        for (size_t k = 0; k < n; k++) {
            x[k] *= k % (i % 4 + 1) == 0 ? 0.1f * sizes[i / 4] : 1.0f;
            y[k] = k % 3 != 0 ? 0.1f * sizes[i / 4] * y[k] : nextafterf(x[k], y[k]);
            y[k] = k % 50 < 12 && i % 2 == 0 ? x[k] : y[k];
        }
        double got = uw_gpu_table->distance_sq(gpu(), n, x, y);
        double want = uw_kernels_ref.distance_sq(cpu(), n, x, y);
        assert_true(fabs(got - want) <= 1e-12 * want);
        got = uw_gpu_table->distance_sq(gpu(), n, x, NULL);
        want = uw_kernels_ref.distance_sq(cpu(), n, x, NULL);
        assert_true(fabs(got - want) <= 1e-12 * want);
        x[n / 2] = i % 2 == 0 ? NAN : INFINITY;
        got = uw_gpu_table->distance_sq(gpu(), n, x, y);
        assert_true(i % 2 == 0 ? isnan(got) : isinf(got));
        uw_test_release(x);
        uw_test_release(y);
    }
}

static void test_tiles_permute_turns_every_tile(void **state)
{
    (void)state;
    static const uint32_t orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                          {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    static const uint32_t dims[][3] = {{8, 8, 8}, {7, 9, 32}, {33, 2, 31}, {31, 33, 9},
                                       {1, 65, 64}};
    for (size_t i = 0; i < 6 * sizeof dims / sizeof *dims; i++) {
        struct uw_permute p;
        memcpy(p.dim, dims[i / 6], sizeof p.dim);
        memcpy(p.order, orders[i % 6], sizeof p.order);
        size_t n = (size_t)2 * p.dim[0] * p.dim[1] * p.dim[2];
        float *x = random_floats(n), *y = random_floats(n), *y2 = copy_floats(n, y);
        for (int add = 1; add >= 0; add--) {
            uw_gpu_table->copy->permute(gpu(), &p, 2, x, y, add != 0);
            uw_kernels_ref.copy->permute(cpu(), &p, 2, x, y2, add != 0);
            assert_memory_equal(y, y2, n * sizeof *y);
        }
        uw_test_release(x);
        uw_test_release(y);
        uw_test_release(y2);
    }
}

/* 2 x 2 windows side by side; skip: addresses that no access of several is aligned to. */
static void check_pairs(const struct uw_pool2d *p, uint32_t batch_n, size_t skip)
{
    size_t out_n = (size_t)batch_n * p->channels * p->out_h * p->out_w, in_n = 4 * out_n;
    float *x = random_floats(in_n + skip), *y = random_floats(out_n + skip);
    float *y2 = random_floats(out_n), *dx = random_floats(in_n + skip);
    float *dx2 = copy_floats(in_n + skip, dx);
    uint8_t *winner = (uint8_t *)(void *)random_floats(out_n / 4 + 1);
    uint8_t *winner2 = (uint8_t *)(void *)random_floats(out_n / 4 + 1);
    for (size_t i = 0; i < in_n; i += 7) {
        x[i + skip] = i % 3 == 0 ? NAN : i % 3 == 1 ? -INFINITY : x[i / 2 + skip];
    }
    uw_gpu_table->maxpool2d_fw(gpu(), p, batch_n, x + skip, y + skip, winner);
    uw_kernels_ref.maxpool2d_fw(cpu(), p, batch_n, x + skip, y2, winner2);
    for (size_t i = 0; i < out_n; i++) {
        assert_true(y[i + skip] == y2[i] || (isnan(y[i + skip]) && isnan(y2[i])));
    }
    assert_memory_equal(winner, winner2, out_n);
    uw_gpu_table->maxpool2d_fw(gpu(), p, batch_n, x + skip, y + skip, NULL);
    float *dy = random_floats(out_n + skip);
    for (int add = 1; add >= 0; add--) {
        uw_gpu_table->maxpool2d_bw_input(gpu(), p, batch_n, dy + skip, winner, dx + skip, add != 0);
        uw_kernels_ref.maxpool2d_bw_input(cpu(), p, batch_n, dy + skip, winner, dx2 + skip,
                                          add != 0);
        assert_memory_equal(dx, dx2, (in_n + skip) * sizeof *dx);
    }
    float *const all[] = {x, y, y2, dx, dx2, dy, (float *)(void *)winner, (float *)(void *)winner2};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        uw_test_release(all[i]);
    }
}

static void test_tiles_pools_by_pairs(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 24; i++) {
        struct uw_pool2d p = {.channels = 1 + uw_rng_below(&rng, 4),
                              .out_h = 1 + uw_rng_below(&rng, 7),
                              .out_w = 2 * (1 + uw_rng_below(&rng, 9)), .kernel_h = 2,
                              .kernel_w = 2, .stride_h = 2, .stride_w = 2, .relu = i % 2 == 0};
        p.in_h = 2 * p.out_h;
        p.in_w = 2 * p.out_w;
        check_pairs(&p, 1 + uw_rng_below(&rng, 3), i % 6 == 5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiles_arrays_begin_anywhere),
        cmocka_unit_test(test_tiles_cross_entropy_of_any_width),
        cmocka_unit_test(test_tiles_softmax_of_any_width),
        cmocka_unit_test(test_tiles_scatter_adds_in_order),
        cmocka_unit_test(test_tiles_rows_add_up),
        cmocka_unit_test(test_tiles_large_sums_are_the_same_every_time),
        cmocka_unit_test(test_tiles_distances_of_any_size),
        cmocka_unit_test(test_tiles_permute_turns_every_tile),
        cmocka_unit_test(test_tiles_pools_by_pairs),
    };
    uw_rng_seed(&rng, uw_test_seed(20261123));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
