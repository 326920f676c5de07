/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel contract: 3 x 3 and 5 x 5 convolutions with so many channels and pixels that a tuned
 * table takes Winograd's way. */
#include "test_kernels_conv.h"

#include "packed/tile.h"

#include "uwasa/backends.h"

/* in, out channels, height, width, padding */
static struct uw_conv2d square(uint32_t in, uint32_t out, uint32_t h, uint32_t w, uint32_t pad)
{
    return uw_test_conv_shape(in, out, h, w, 3, 3, 1, pad, 1, 1);
}

static struct uw_conv2d square5(uint32_t in, uint32_t out, uint32_t h, uint32_t w, uint32_t pad)
{
    return uw_test_conv_shape(in, out, h, w, 5, 5, 1, pad, 1, 1);
}

struct results {
    float *y, *dx, *dw;
};

static struct results compute(const struct uw_kernels *k, const struct uw_test_conv *t,
                              uint32_t threads)
{
    struct results r = {uw_test_floats(t->y_n), uw_test_floats(t->x_n),
                        uw_test_copy_floats(t->w_n, t->w)};
    struct uw_test_exec e;
    uint32_t n = t->batch_n;
    uw_test_exec_begin(&e, threads, k->conv2d_scratch_bytes(k, &t->c, n, threads));
    e.exec.kernels = k;
    assert_int_equal(k->conv2d_fw(&e.exec, &t->c, n, t->x, t->w, t->b, r.y, false), UW_OK);
    assert_int_equal(k->conv2d_bw_input(&e.exec, &t->c, n, t->dy, t->w, r.dx, false), UW_OK);
    assert_int_equal(k->conv2d_bw_param(&e.exec, &t->c, n, t->x, t->dy, -0.5f, r.dw, NULL), UW_OK);
    uw_test_exec_end(&e);
    return r;
}

static void release(struct results *r)
{
    uw_test_release(r->y);
    uw_test_release(r->dx);
    uw_test_release(r->dw);
}

static bool has_tiles(void)
{
    const struct uw_kernels *k = uw_test_table();
    return k->tile != NULL && k->tile->winograd != NULL;
}

/* UWASA_TEST_CONV2D=winograd: a table that chooses by itself is made to choose this, for 3 x 3 and
 * images that have a tile. */
static bool has_winograd(const struct uw_conv2d *c)
{
    const char *way = getenv("UWASA_TEST_CONV2D");
    return has_tiles() || (way != NULL && strcmp(way, "winograd") == 0 && c->kernel_w == 3 &&
                           c->groups == 1 && c->in_h >= 4 && c->out_h >= 4 &&
                           uw_test_table() != &uw_kernels_ref);
}

/* A table that has no such transforms. */
static struct results compute_without(const struct uw_test_conv *t)
{
    if (!has_tiles()) {
        return compute(&uw_kernels_ref, t, 1);
    }
    struct uw_tile tile = *uw_test_table()->tile;
    struct uw_kernels other = *uw_test_table();
    other.tile = &tile;
    tile.winograd = NULL;
    return compute(&other, t, 1);
}

static void assert_same(bool same, size_t n, const float *a, const float *b)
{
    if (same) {
        assert_memory_equal(a, b, n * sizeof *a);
    } else {
        assert_memory_not_equal(a, b, n * sizeof *a);
    }
}

/* A table that has Winograd's transforms must use them here: without them each part rounds
 * otherwise. Not where a 5 x 5 kernel sees more zeros around an image than half of it. */
static void assert_taken(const struct uw_test_conv *t, const struct results *r,
                         const struct results *without)
{
    const struct uw_conv2d *c = &t->c;
    bool large = c->kernel_w == 5;
    assert_same(large && (c->pad_h > 2 || c->pad_w > 2), t->y_n, r->y, without->y);
    assert_same(large && (c->pad_h < 2 || c->pad_w < 2), t->x_n, r->dx, without->dx);
    assert_same(false, t->w_n, r->dw, without->dw);
}

/* Nothing new to a table without. */
static void check_taken(struct uw_conv2d c, uint32_t batch_n, uint32_t threads)
{
    if (!has_winograd(&c)) {
        return;
    }
    struct uw_test_conv t;
    uw_test_conv_begin(&t, &c, batch_n);
    struct results r = compute(uw_test_table(), &t, 1), without = compute_without(&t);
    if (has_tiles()) {
        assert_taken(&t, &r, &without);
    }
    release(&r);
    release(&without);
    uw_test_conv_end(&t);
    uw_test_conv_check(c, batch_n, threads);
}

/* got = sum of products for one result, chosen at random. */
static void check_y(const struct uw_test_conv *t, const float *y)
{
    const struct uw_conv2d *c = &t->c;
    uint32_t n = uw_test_below(t->batch_n), co = uw_test_below(c->out_channels);
    uint32_t oh = uw_test_below(c->out_h), ow = uw_test_below(c->out_w);
    struct uw_sum s = {0};
    uw_sum_add(&s, (double)t->b[co]);
    uint32_t k = c->kernel_w, taps = k * k;
    for (uint32_t i = 0; i < c->in_channels * taps; i++) {
        uint32_t tap = i % taps, ci = i / taps;
        uint32_t ih = oh + tap / k - c->pad_h, iw = ow + tap % k - c->pad_w;
        if (ih < c->in_h && iw < c->in_w) {
            size_t xi = (((size_t)n * c->in_channels + ci) * c->in_h + ih) * c->in_w + iw;
            uw_sum_add(&s, (double)t->x[xi] * (double)t->w[(size_t)co * c->in_channels * taps + i]);
        }
    }
    uw_test_assert_sum(
        y[(((size_t)n * c->out_channels + co) * c->out_h + oh) * c->out_w + ow], &s);
}

static void check_dx(const struct uw_test_conv *t, const float *dx)
{
    const struct uw_conv2d *c = &t->c;
    uint32_t n = uw_test_below(t->batch_n), ci = uw_test_below(c->in_channels);
    uint32_t ih = uw_test_below(c->in_h), iw = uw_test_below(c->in_w);
    struct uw_sum s = {0};
    uint32_t k = c->kernel_w, taps = k * k;
    for (uint32_t i = 0; i < c->out_channels * taps; i++) {
        uint32_t tap = i % taps, co = i / taps;
        uint32_t oh = ih + c->pad_h - tap / k, ow = iw + c->pad_w - tap % k;
        if (oh < c->out_h && ow < c->out_w) {
            size_t yi = (((size_t)n * c->out_channels + co) * c->out_h + oh) * c->out_w + ow;
            uw_sum_add(&s, (double)t->dy[yi] *
                               (double)t->w[((size_t)co * c->in_channels + ci) * taps + tap]);
        }
    }
    uw_test_assert_sum(dx[(((size_t)n * c->in_channels + ci) * c->in_h + ih) * c->in_w + iw], &s);
}

static void check_dw(const struct uw_test_conv *t, const float *dw)
{
    const struct uw_conv2d *c = &t->c;
    uint32_t k = c->kernel_w, wi = uw_test_below((uint32_t)t->w_n), tap = wi % (k * k);
    uint32_t ci = wi / (k * k) % c->in_channels, co = wi / (k * k) / c->in_channels;
    uint32_t out_hw = c->out_h * c->out_w;
    struct uw_sum s = {0};
    uw_sum_add(&s, (double)t->w[wi]);
    for (uint32_t i = 0; i < t->batch_n * out_hw; i++) {
        uint32_t n = i / out_hw, oh = i % out_hw / c->out_w, ow = i % c->out_w;
        uint32_t ih = oh + tap / k - c->pad_h, iw = ow + tap % k - c->pad_w;
        if (ih < c->in_h && iw < c->in_w) {
            size_t xi = (((size_t)n * c->in_channels + ci) * c->in_h + ih) * c->in_w + iw;
            size_t yi = ((size_t)n * c->out_channels + co) * out_hw + i % out_hw;
            uw_sum_add(&s, -0.5 * (double)t->x[xi] * (double)t->dy[yi]);
        }
    }
    uw_test_assert_sum(dw[wi], &s);
}

/* What no kernel with an index wrong can give: random numbers from -1 to 1 are far from these. */
static void assert_close(size_t n, const float *a, const float *b)
{
    for (size_t i = 0; i < n; i++) {
        uw_test_assert_near((double)a[i], (double)b[i], 2e-3);
    }
}

/* Some results against the definition, all against those of the other way; the same bits for any
 * number of threads (in the quick part, UWASA_TEST_QUICK, for 3 only). */
static void check_sampled(struct uw_conv2d c, uint32_t batch_n)
{
    if (!has_winograd(&c)) {
        return;
    }
    struct uw_test_conv t;
    uw_test_conv_begin(&t, &c, batch_n);
    struct results one = compute(uw_test_table(), &t, 1), ref = compute_without(&t);
    if (has_tiles()) {
        assert_taken(&t, &one, &ref);
    }
    assert_close(t.y_n, one.y, ref.y);
    assert_close(t.x_n, one.dx, ref.dx);
    assert_close(t.w_n, one.dw, ref.dw);
    release(&ref);
    for (uint32_t n = 0; n < 300; n++) {
        check_y(&t, one.y);
        check_dx(&t, one.dx);
        check_dw(&t, one.dw);
    }
    for (uint32_t threads = getenv("UWASA_TEST_QUICK") != NULL ? 3 : 2; threads <= 3; threads++) {
        struct results more = compute(uw_test_table(), &t, threads);
        uw_test_assert_same_bits(t.y_n, one.y, more.y);
        uw_test_assert_same_bits(t.x_n, one.dx, more.dx);
        uw_test_assert_same_bits(t.w_n, one.dw, more.dw);
        release(&more);
    }
    release(&one);
    uw_test_conv_end(&t);
}

/* Channels around the lanes, the register tiles and their halves; sizes that are odd, or smaller
 * than a tile; every padding; batches that end within a block and within a panel. */
static void test_winograd_edges_match_twin(void **state)
{
    (void)state;
    check_taken(square(16, 16, 32, 32, 1), 2, 1);
    check_taken(square(17, 33, 15, 13, 1), 8, 3);
    check_taken(square(32, 16, 9, 9, 0), 24, 1);
    check_taken(square(24, 40, 6, 7, 2), 17, 2);
    check_taken(square(33, 48, 2, 2, 1), 205, 1);
    check_taken(square(48, 31, 1, 1, 2), 210, 3);
    check_taken(square(16, 64, 3, 3, 0), 320, 1);
    check_taken(square(31, 18, 3, 90, 1), 7, 1);    /* one row of tiles is a block */
    check_taken(square(18, 16, 5, 4, 1), 97, 2);
    struct uw_conv2d c = square(16, 20, 12, 9, 1);
    c.pad_w = 2;
    c.out_w += 2;
    check_taken(c, 20, 1);
    c.pad_h = 0;
    c.out_h -= 3;       /* less than fits: a transposed convolution with output padding */
    check_taken(c, 31, 1);
}

/* Results around the ends of tiles of 4 x 4, and images just too small for them. */
static void test_winograd_tiles_of_4x4_match_twin(void **state)
{
    (void)state;
    for (uint32_t side = 5; side <= 9; side++) {
        check_sampled(square(18, 33, side, side, 1), 53);
    }
    check_taken(square(33, 32, 10, 6, 1), 18, 2);
    check_taken(square(16, 17, 7, 16, 0), 26, 3);
    check_sampled(square(17, 32, 8, 6, 2), 30);
}

/* The same for 5 x 5 taps in tiles of 6 x 6. */
static void test_winograd_5x5_edges_match_twin(void **state)
{
    (void)state;
    check_taken(square5(16, 16, 28, 28, 2), 3, 1);
    check_taken(square5(32, 16, 10, 11, 0), 24, 1);
    check_taken(square5(18, 16, 9, 8, 3), 29, 2);
    check_sampled(square5(17, 33, 15, 13, 2), 12);
    check_sampled(square5(24, 40, 6, 7, 4), 13);
    check_sampled(square5(33, 48, 6, 6, 2), 23);
    check_sampled(square5(48, 31, 7, 6, 3), 22);
    check_sampled(square5(16, 64, 12, 14, 0), 15);
    check_sampled(square5(31, 18, 8, 90, 1), 3);    /* one row of tiles is a block */
    struct uw_conv2d c = square5(16, 20, 15, 12, 3);
    c.pad_w = 4;
    c.out_w += 2;
    check_sampled(c, 13);
    c.pad_h = 2;
    c.out_h -= 5;       /* less than fits: a transposed convolution with output padding */
    check_sampled(c, 21);
}

/* So few tiles of so many channels that the transformed images are kept. */
static void test_winograd_groups_match_twin(void **state)
{
    (void)state;
    check_taken(uw_test_conv_shape(32, 48, 20, 21, 3, 3, 1, 1, 1, 2), 3, 2);
    check_taken(uw_test_conv_shape(51, 60, 19, 18, 3, 3, 1, 0, 1, 3), 4, 1);
    check_taken(uw_test_conv_shape(34, 38, 14, 15, 5, 5, 1, 2, 1, 2), 5, 3);
    check_taken(uw_test_conv_shape(96, 160, 13, 13, 3, 3, 1, 1, 1, 2), 2, 2);
}

static void test_winograd_few_tiles_match_twin(void **state)
{
    (void)state;
    if (!uw_test_slow()) {      /* the other has its blocks, and ends within them */
        check_taken(square(144, 144, 2, 2, 1), 64, 1);
    }
    check_taken(square(150, 131, 2, 2, 1), 67, 3);
}

/* Too large for the definition of every result: several blocks of channels each way. Where all is
 * slow, the fewest channels and samples with which each part of NEON's table still has as many
 * blocks: of results, of sums, of weights' gradients, and of tile rows; AVX would not choose this
 * way for some of them. */
static void test_winograd_blocks_match_twin_and_threads_agree(void **state)
{
    (void)state;
    bool few = uw_test_slow() && strncmp(uw_test_table()->name, "avx", 3) != 0;
    check_sampled(square(192, 208, 2, 2, 1), 172);
    check_sampled(few ? square(264, 33, 5, 5, 1) : square(264, 80, 5, 5, 1), few ? 9 : 30);
    check_sampled(square(64, 64, 24, 26, 1), few ? 3 : 4);
    check_sampled(square(16, 36, 40, 33, 0), 3);
    check_sampled(few ? square5(130, 140, 6, 6, 2) : square5(192, 208, 6, 6, 2), few ? 22 : 40);
    check_sampled(few ? square5(264, 17, 7, 7, 2) : square5(264, 80, 7, 7, 2), few ? 16 : 30);
    check_sampled(square5(32, 64, 14, 14, 2), few ? 13 : 20);
    check_sampled(square5(16, 36, 40, 33, 0), few ? 2 : 3);
}

static void test_winograd_empty_batch_needs_nothing(void **state)
{
    (void)state;
    const struct uw_kernels *k = uw_test_table();
    struct uw_conv2d c = square(16, 16, 32, 32, 1);
    assert_int_equal(k->conv2d_scratch_bytes(k, &c, 0, 3), 0);
    uw_test_conv_check(square(64, 64, 8, 8, 1), 0, 1);
}

/* Infinity and NaN do not vanish: what sees them is not finite. Images of 32 x 32. */
static void check_not_finite(struct uw_conv2d c, float bad)
{
    struct uw_test_conv t;
    uint32_t k = c.kernel_w, pad = c.pad_w, taps = k * k;
    uw_test_conv_begin(&t, &c, 2);
    t.x[5 * 1024 + 10 * 32 + 13] = bad;
    t.dy[3 * 1024 + 7 * 32 + 8] = bad;
    struct results r = compute(uw_test_table(), &t, 1);
    for (uint32_t a = 0; a < 16 * taps; a++) {
        uint32_t ch = a / taps, h = a % taps / k, w = a % k;
        assert_true(!isfinite(r.y[ch * 1024 + (10 - pad + h) * 32 + 13 - pad + w]));
        assert_true(!isfinite(r.dx[ch * 1024 + (7 - pad + h) * 32 + 8 - pad + w]));
        assert_true(!isfinite(r.dw[(ch * 16 + 5) * taps + h * k + w]));
        assert_true(!isfinite(r.dw[(3 * 16 + ch) * taps + h * k + w]));
    }
    for (size_t at = 16 * 1024; at < t.y_n; at++) {     /* the other sample */
        assert_true(isfinite(r.y[at]) && isfinite(r.dx[at]));
    }
    release(&r);
    uw_test_conv_end(&t);
}

static void test_winograd_nan_reaches_what_sees_it(void **state)
{
    (void)state;
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        check_not_finite(square(16, 16, 32, 32, 1), bad[i]);
        check_not_finite(square5(16, 16, 32, 32, 2), bad[i]);
    }
}

const struct CMUnitTest uw_test_winograd[] = {
    cmocka_unit_test(test_winograd_edges_match_twin),
    cmocka_unit_test(test_winograd_tiles_of_4x4_match_twin),
    cmocka_unit_test(test_winograd_5x5_edges_match_twin),
    cmocka_unit_test(test_winograd_groups_match_twin),
    cmocka_unit_test(test_winograd_few_tiles_match_twin),
    cmocka_unit_test(test_winograd_blocks_match_twin_and_threads_agree),
    cmocka_unit_test(test_winograd_empty_batch_needs_nothing),
    cmocka_unit_test(test_winograd_nan_reaches_what_sees_it),
};
const size_t uw_test_winograd_n = sizeof uw_test_winograd / sizeof *uw_test_winograd;
