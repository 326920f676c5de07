/* SPDX-License-Identifier: Apache-2.0 */
#include "test_kernels_conv.h"

#include "packed/tile.h"

struct uw_conv2d uw_test_conv_shape(uint32_t in, uint32_t out, uint32_t h, uint32_t w,
                                    uint32_t kh, uint32_t kw, uint32_t stride, uint32_t pad,
                                    uint32_t dilation, uint32_t groups)
{
    struct uw_conv2d c = {.in_channels = in, .in_h = h, .in_w = w, .out_channels = out,
                          .kernel_h = kh, .kernel_w = kw, .stride_h = stride, .stride_w = stride,
                          .pad_h = pad, .pad_w = pad, .dilation_h = dilation,
                          .dilation_w = dilation, .groups = groups};
    c.out_h = (h + 2 * pad - (kh - 1) * dilation - 1) / stride + 1;
    c.out_w = (w + 2 * pad - (kw - 1) * dilation - 1) / stride + 1;
    return c;
}

void uw_test_conv_begin(struct uw_test_conv *t, const struct uw_conv2d *c, uint32_t batch_n)
{
    t->c = *c;
    t->batch_n = batch_n;
    t->x_n = (size_t)batch_n * c->in_channels * c->in_h * c->in_w;
    t->y_n = (size_t)batch_n * c->out_channels * c->out_h * c->out_w;
    t->w_n = (size_t)c->out_channels * (c->in_channels / c->groups) * c->kernel_h * c->kernel_w;
    t->x = uw_test_random_floats(t->x_n);
    t->w = uw_test_random_floats(t->w_n);
    t->b = uw_test_random_floats(c->out_channels);
    t->dy = uw_test_random_floats(t->y_n);
    t->geometry = &t->c;
    t->raw = t->x;
}

void uw_test_conv_end(struct uw_test_conv *t)
{
    uw_test_release(t->x);
    uw_test_release(t->w);
    uw_test_release(t->b);
    uw_test_release(t->dy);
}

/* The definition: call visit for every product w[wi] * x[xi] that belongs to y[yi]. */
typedef void (*visit_fn)(void *arg, size_t xi, size_t wi, size_t yi);

static void each_column(const struct uw_conv2d *c, size_t x_plane, size_t w_plane, size_t yi,
                        uint32_t oh, uint32_t ow, visit_fn visit, void *arg)
{
    for (uint32_t kh = 0; kh < c->kernel_h; kh++) {
        for (uint32_t kw = 0; kw < c->kernel_w; kw++) {
            int64_t ih = (int64_t)oh * c->stride_h + (int64_t)kh * c->dilation_h - c->pad_h;
            int64_t iw = (int64_t)ow * c->stride_w + (int64_t)kw * c->dilation_w - c->pad_w;
            if (ih >= 0 && ih < c->in_h && iw >= 0 && iw < c->in_w) {
                visit(arg, (x_plane * c->in_h + (size_t)ih) * c->in_w + (size_t)iw,
                      (w_plane * c->kernel_h + kh) * c->kernel_w + kw, yi);
            }
        }
    }
}

static void each_product(const struct uw_test_conv *t, visit_fn visit, void *arg)
{
    const struct uw_conv2d *c = &t->c;
    uint32_t group_in = c->in_channels / c->groups, group_out = c->out_channels / c->groups;
    size_t yi = 0;
    for (uint32_t n = 0; n < t->batch_n; n++) {
        for (uint32_t co = 0; co < c->out_channels; co++) {
            for (uint32_t q = 0; q < c->out_h * c->out_w; q++, yi++) {
                for (uint32_t ci = 0; ci < group_in; ci++) {
                    each_column(c, (size_t)n * c->in_channels + co / group_out * group_in + ci,
                                (size_t)co * group_in + ci, yi, q / c->out_w, q % c->out_w,
                                visit, arg);
                }
            }
        }
    }
}

struct sums {
    const struct uw_test_conv *t;
    struct uw_sum *sum;
};

static void add_fw(void *arg, size_t xi, size_t wi, size_t yi)
{
    struct sums *s = arg;
    uw_sum_add(&s->sum[yi], (double)s->t->x[xi] * (double)s->t->w[wi]);
}

static void add_bw_input(void *arg, size_t xi, size_t wi, size_t yi)
{
    struct sums *s = arg;
    uw_sum_add(&s->sum[xi], (double)s->t->dy[yi] * (double)s->t->w[wi]);
}

static void add_bw_param(void *arg, size_t xi, size_t wi, size_t yi)
{
    struct sums *s = arg;
    uw_sum_add(&s->sum[wi], (double)s->t->dy[yi] * (double)s->t->x[xi]);
}

/* The sums of products for each of n results. */
static struct uw_sum *sums_of(const struct uw_test_conv *t, visit_fn visit, size_t n)
{
    struct sums s = {t, calloc(n + 1, sizeof(struct uw_sum))};
    assert_non_null(s.sum);
    each_product(t, visit, &s);
    return s.sum;
}

/* got[i] = before[i] (or bias of its channel, or 0) + scale * its sum; scale is a power of two */
static void check(const struct uw_test_conv *t, const struct uw_sum *sums, double scale, size_t n,
                  const float *got, const float *before, const float *bias)
{
    size_t out_hw = (size_t)t->c.out_h * t->c.out_w;
    for (size_t i = 0; i < n; i++) {
        struct uw_sum want = {scale * sums[i].value, fabs(scale) * sums[i].size, sums[i].n};
        if (before != NULL) {
            uw_sum_add(&want, (double)before[i]);
        }
        if (bias != NULL) {
            uw_sum_add(&want, (double)bias[i / out_hw % t->c.out_channels]);
        }
        uw_test_assert_sum(got[i], &want);
    }
}

static void check_bias_gradient(const struct uw_test_conv *t, float scale, const float *db,
                                const float *before)
{
    size_t out_hw = (size_t)t->c.out_h * t->c.out_w;
    for (uint32_t co = 0; co < t->c.out_channels; co++) {
        struct uw_sum s = {0};
        uw_sum_add(&s, (double)before[co]);
        for (uint32_t n = 0; n < t->batch_n; n++) {
            const float *plane = t->dy + ((size_t)n * t->c.out_channels + co) * out_hw;
            for (size_t i = 0; i < out_hw; i++) {
                uw_sum_add(&s, (double)scale * (double)plane[i]);
            }
        }
        uw_test_assert_sum(db[co], &s);
    }
}

static void check_fw(const struct uw_test_conv *t, const struct uw_exec *e)
{
    const struct uw_kernels *k = e->kernels;
    struct uw_sum *sums = sums_of(t, add_fw, t->y_n);
    float *y = uw_test_floats(t->y_n);
    assert_int_equal(k->conv2d_fw(e, t->geometry, t->batch_n, t->raw, t->w, t->b, y, false), UW_OK);
    check(t, sums, 1.0, t->y_n, y, NULL, t->b);
    assert_int_equal(k->conv2d_fw(e, t->geometry, t->batch_n, t->raw, t->w, NULL, y, false), UW_OK);
    check(t, sums, 1.0, t->y_n, y, NULL, NULL);
    memcpy(y, t->dy, t->y_n * sizeof *y);
    assert_int_equal(k->conv2d_fw(e, t->geometry, t->batch_n, t->raw, t->w, t->b, y, true), UW_OK);
    check(t, sums, 1.0, t->y_n, y, t->dy, t->b);
    memcpy(y, t->dy, t->y_n * sizeof *y);
    assert_int_equal(k->conv2d_fw(e, t->geometry, t->batch_n, t->raw, t->w, NULL, y, true), UW_OK);
    check(t, sums, 1.0, t->y_n, y, t->dy, NULL);
    uw_test_release(y);
    free(sums);
}

static void check_bw_input(const struct uw_test_conv *t, const struct uw_exec *e)
{
    const struct uw_kernels *k = e->kernels;
    struct uw_sum *sums = sums_of(t, add_bw_input, t->x_n);
    float *dx = uw_test_floats(t->x_n);
    assert_int_equal(k->conv2d_bw_input(e, t->geometry, t->batch_n, t->dy, t->w, dx, false), UW_OK);
    check(t, sums, 1.0, t->x_n, dx, NULL, NULL);
    float *before = uw_test_copy_floats(t->x_n, t->x);
    memcpy(dx, before, t->x_n * sizeof *dx);
    assert_int_equal(k->conv2d_bw_input(e, t->geometry, t->batch_n, t->dy, t->w, dx, true), UW_OK);
    check(t, sums, 1.0, t->x_n, dx, before, NULL);
    uw_test_release(before);
    uw_test_release(dx);
    free(sums);
}

static void check_bw_param(const struct uw_test_conv *t, const struct uw_exec *e)
{
    const struct uw_kernels *k = e->kernels;
    struct uw_sum *sums = sums_of(t, add_bw_param, t->w_n);
    float *dw = uw_test_copy_floats(t->w_n, t->w);
    float *db = uw_test_copy_floats(t->c.out_channels, t->b);
    assert_int_equal(k->conv2d_bw_param(e, t->geometry, t->batch_n, t->raw, t->dy, -0.25f, dw, db),
                     UW_OK);
    check(t, sums, -0.25, t->w_n, dw, t->w, NULL);
    check_bias_gradient(t, -0.25f, db, t->b);
    memcpy(dw, t->w, t->w_n * sizeof *dw);
    assert_int_equal(k->conv2d_bw_param(e, t->geometry, t->batch_n, t->raw, t->dy, 2.0f, dw, NULL),
                     UW_OK);
    check(t, sums, 2.0, t->w_n, dw, t->w, NULL);
    memcpy(db, t->b, t->c.out_channels * sizeof *db);
    assert_int_equal(k->conv2d_bw_param(e, t->geometry, t->batch_n, NULL, t->dy, 2.0f, NULL, db),
                     UW_OK);
    check_bias_gradient(t, 2.0f, db, t->b);
    uw_test_release(db);
    uw_test_release(dw);
    free(sums);
}

static void check_parts(const struct uw_test_conv *t, const struct uw_kernels *k, uint32_t threads)
{
    struct uw_test_exec e;
    uw_test_exec_begin(&e, threads, k->conv2d_scratch_bytes(k, t->geometry, t->batch_n, threads));
    e.exec.kernels = k;
    check_fw(t, &e.exec);
    check_bw_input(t, &e.exec);
    check_bw_param(t, &e.exec);
    uw_test_exec_end(&e);
}

/* What is read becomes the batch norm of what is given. */
static void check_normed(struct uw_test_conv *t, uint32_t threads)
{
    const struct uw_kernels *k = uw_test_table();
    uint32_t n = t->c.in_channels;
    float *stats = uw_test_random_floats(2 * n), *gamma = uw_test_random_floats(n);
    float *beta = uw_test_random_floats(n), *raw = t->x;
    bool affine = t->batch_n % 4 != 0;
    const float ceilings[] = {0.0f, INFINITY, 0.5f};
    struct uw_normed_conv2d normed = {
        .conv2d = t->c, .norm = {.stats = stats, .gamma = affine ? gamma : NULL,
                                 .beta = affine ? beta : NULL,
                                 .ceiling = ceilings[(t->batch_n + n) % 3]}};
    struct uw_norm norm = {.channels = n, .inner = t->c.in_h * t->c.in_w,
                           .ceiling = normed.norm.ceiling};
    struct uw_exec plain = {.kernels = &uw_kernels_ref};
    normed.conv2d.normed = true;
    t->x = uw_test_floats(t->x_n);
    assert_int_equal(uw_kernels_ref.norm->batchnorm_fw(&plain, &norm, t->batch_n, raw, stats,
                                                       normed.norm.gamma, normed.norm.beta, t->x),
                     UW_OK);
    t->raw = raw;
    t->geometry = &normed.conv2d;
    check_parts(t, k, threads);
    t->geometry = &t->c;
    uw_test_release(t->x);
    t->raw = t->x = raw;
    uw_test_release(beta);
    uw_test_release(gamma);
    uw_test_release(stats);
}

/* The gradients once more for a dy that is mostly zeros, as a max pool leaves it; some channels
 * have nothing else. Winograd's tiles mix elements: they round by the neighbours of a sum too. */
static void check_sparse(struct uw_test_conv *t, uint32_t threads)
{
    struct uw_kernels table = *uw_test_table();
    struct uw_tile tile = *table.tile;
    const struct uw_kernels *k = &table;
    tile.winograd = NULL;
    table.tile = &tile;
    size_t out_hw = (size_t)t->c.out_h * t->c.out_w;
    struct uw_test_exec e;
    for (size_t i = 0; i < t->y_n; i++) {
        if (i / out_hw % 5 == 3 || uw_test_below(5) != 0) {
            t->dy[i] = i % 2 == 0 ? 0.0f : -0.0f;
        }
    }
    uw_test_exec_begin(&e, threads, k->conv2d_scratch_bytes(k, &t->c, t->batch_n, threads));
    e.exec.kernels = k;
    check_bw_input(t, &e.exec);
    check_bw_param(t, &e.exec);
    memset(t->dy, 0, t->y_n * sizeof *t->dy);
    check_bw_input(t, &e.exec);
    check_bw_param(t, &e.exec);
    uw_test_exec_end(&e);
}

void uw_test_conv_check(struct uw_conv2d c, uint32_t batch_n, uint32_t threads)
{
    struct uw_test_conv t;
    uw_test_conv_begin(&t, &c, batch_n);
    check_parts(&t, uw_test_table(), threads);
    if (uw_test_table()->tile != NULL && uw_test_table()->tile->small != NULL) {
        struct uw_kernels packed = *uw_test_table();    /* the way of larger work */
        struct uw_tile tile = *packed.tile;
        tile.small = NULL;
        packed.tile = &tile;
        check_parts(&t, &packed, threads);
    }
    if (batch_n > 0 && uw_test_table()->conv2d_takes_norm(uw_test_table(), &t.c, batch_n)) {
        check_normed(&t, threads);
    }
    if (uw_test_table()->tile != NULL && uw_test_table()->tile->small != NULL) {
        check_sparse(&t, threads);
    }
    uw_test_conv_end(&t);
}
