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

/* The definition in rows: for j < n, w[wi] * x[xi + j * step] belongs to y[yi + j]. */
struct row {
    size_t xi, wi, yi;
    uint32_t n, step;
};

typedef void (*visit_fn)(const struct uw_test_conv *t, const struct row *r, struct uw_sum *sum);

/* The row of one tap, whose first weight and planes of x and y are given; may be empty. */
static struct row row_of(const struct uw_conv2d *c, size_t x_plane, size_t yi, uint32_t kh,
                         uint32_t kw, uint32_t oh)
{
    int64_t stride = c->stride_w;
    int64_t ih = (int64_t)oh * c->stride_h + (int64_t)kh * c->dilation_h - c->pad_h;
    int64_t left = (int64_t)kw * c->dilation_w - c->pad_w;      /* of the first output */
    int64_t first = left < 0 ? (stride - 1 - left) / stride : 0;
    int64_t end = left < c->in_w ? (c->in_w - 1 - left) / stride + 1 : 0;
    end = end < c->out_w ? end : c->out_w;
    if (ih < 0 || ih >= c->in_h || first >= end) {
        return (struct row){0};
    }
    return (struct row){.xi = (x_plane * c->in_h + (size_t)ih) * c->in_w +
                              (size_t)(left + first * stride),
                        .yi = yi + (size_t)oh * c->out_w + (size_t)first,
                        .n = (uint32_t)(end - first), .step = c->stride_w};
}

static void each_row(const struct uw_test_conv *t, visit_fn visit, struct uw_sum *sum)
{
    const struct uw_conv2d *c = &t->c;
    uint32_t group_in = c->in_channels / c->groups, group_out = c->out_channels / c->groups;
    uint32_t taps = c->kernel_h * c->kernel_w, planes = c->out_channels * group_in;
    for (uint32_t i = 0; i < t->batch_n * planes; i++) {
        uint32_t n = i / planes, co = i % planes / group_in, ci = i % group_in;
        size_t x_plane = (size_t)n * c->in_channels + co / group_out * group_in + ci;
        size_t yi = ((size_t)n * c->out_channels + co) * c->out_h * c->out_w;
        for (uint32_t tap = 0; tap < taps; tap++) {
            for (uint32_t oh = 0; oh < c->out_h; oh++) {
                struct row r = row_of(c, x_plane, yi, tap / c->kernel_w, tap % c->kernel_w, oh);
                r.wi = ((size_t)co * group_in + ci) * taps + tap;
                visit(t, &r, sum);
            }
        }
    }
}

static void add_fw(const struct uw_test_conv *t, const struct row *r, struct uw_sum *sum)
{
    for (size_t j = 0; j < r->n; j++) {
        uw_sum_add(&sum[r->yi + j], (double)t->x[r->xi + j * r->step] * (double)t->w[r->wi]);
    }
}

static void add_bw_input(const struct uw_test_conv *t, const struct row *r, struct uw_sum *sum)
{
    for (size_t j = 0; j < r->n; j++) {
        uw_sum_add(&sum[r->xi + j * r->step], (double)t->dy[r->yi + j] * (double)t->w[r->wi]);
    }
}

static void add_bw_param(const struct uw_test_conv *t, const struct row *r, struct uw_sum *sum)
{
    struct uw_sum s = sum[r->wi];
    for (size_t j = 0; j < r->n; j++) {
        uw_sum_add(&s, (double)t->dy[r->yi + j] * (double)t->x[r->xi + j * r->step]);
    }
    sum[r->wi] = s;
}

/* The sums of products for each of n results. */
static struct uw_sum *sums_of(const struct uw_test_conv *t, visit_fn visit, size_t n)
{
    struct uw_sum *sum = calloc(n + 1, sizeof *sum);
    assert_non_null(sum);
    each_row(t, visit, sum);
    return sum;
}

/* What the definition says of every part; slow, so computed once for all that is compared. */
struct truth {
    struct uw_sum *fw, *bw_input, *bw_param;
};

static void free_truth(struct truth *truth)
{
    free(truth->fw);
    free(truth->bw_input);
    free(truth->bw_param);
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

static void check_fw(const struct uw_test_conv *t, const struct uw_exec *e,
                     const struct uw_sum *sums)
{
    const struct uw_kernels *k = e->kernels;
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
}

static void check_bw_input(const struct uw_test_conv *t, const struct uw_exec *e,
                           const struct uw_sum *sums)
{
    const struct uw_kernels *k = e->kernels;
    float *dx = uw_test_floats(t->x_n);
    assert_int_equal(k->conv2d_bw_input(e, t->geometry, t->batch_n, t->dy, t->w, dx, false), UW_OK);
    check(t, sums, 1.0, t->x_n, dx, NULL, NULL);
    float *before = uw_test_copy_floats(t->x_n, t->x);
    memcpy(dx, before, t->x_n * sizeof *dx);
    assert_int_equal(k->conv2d_bw_input(e, t->geometry, t->batch_n, t->dy, t->w, dx, true), UW_OK);
    check(t, sums, 1.0, t->x_n, dx, before, NULL);
    uw_test_release(before);
    uw_test_release(dx);
}

static void check_bw_param(const struct uw_test_conv *t, const struct uw_exec *e,
                           const struct uw_sum *sums)
{
    const struct uw_kernels *k = e->kernels;
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
}

static void check_parts(const struct uw_test_conv *t, const struct truth *truth,
                        const struct uw_kernels *k, uint32_t threads)
{
    struct uw_test_exec e;
    uw_test_exec_begin(&e, threads, k->conv2d_scratch_bytes(k, t->geometry, t->batch_n, threads));
    e.exec.kernels = k;
    if (truth->fw != NULL) {
        check_fw(t, &e.exec, truth->fw);
    }
    check_bw_input(t, &e.exec, truth->bw_input);
    check_bw_param(t, &e.exec, truth->bw_param);
    uw_test_exec_end(&e);
}

/* What is read becomes the batch norm of what is given: to the gradient of it that is the same. */
static void check_normed(struct uw_test_conv *t, const struct truth *plain_truth, uint32_t threads)
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
    struct truth truth = {sums_of(t, add_fw, t->y_n), plain_truth->bw_input,
                          sums_of(t, add_bw_param, t->w_n)};
    check_parts(t, &truth, k, threads);
    free(truth.fw);
    free(truth.bw_param);
    t->geometry = &t->c;
    uw_test_release(t->x);
    t->raw = t->x = raw;
    uw_test_release(beta);
    uw_test_release(gamma);
    uw_test_release(stats);
}

/* Sums of as many terms that are all zero. */
static void clear_sums(struct uw_sum *sums, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        sums[i].value = sums[i].size = 0.0;
    }
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
    for (size_t i = 0; i < t->y_n; i++) {
        if (i / out_hw % 5 == 3 || uw_test_below(5) != 0) {
            t->dy[i] = i % 2 == 0 ? 0.0f : -0.0f;
        }
    }
    struct truth truth = {NULL, sums_of(t, add_bw_input, t->x_n), sums_of(t, add_bw_param, t->w_n)};
    check_parts(t, &truth, k, threads);
    memset(t->dy, 0, t->y_n * sizeof *t->dy);
    clear_sums(truth.bw_input, t->x_n);
    clear_sums(truth.bw_param, t->w_n);
    check_parts(t, &truth, k, threads);
    free_truth(&truth);
}

void uw_test_conv_check(struct uw_conv2d c, uint32_t batch_n, uint32_t threads)
{
    struct uw_test_conv t;
    uw_test_conv_begin(&t, &c, batch_n);
    struct truth truth = {sums_of(&t, add_fw, t.y_n), sums_of(&t, add_bw_input, t.x_n),
                          sums_of(&t, add_bw_param, t.w_n)};
    check_parts(&t, &truth, uw_test_table(), threads);
    if (uw_test_table()->tile != NULL && uw_test_table()->tile->small != NULL) {
        struct uw_kernels packed = *uw_test_table();    /* the way of larger work */
        struct uw_tile tile = *packed.tile;
        tile.small = NULL;
        packed.tile = &tile;
        check_parts(&t, &truth, &packed, threads);
    }
    if (batch_n > 0 && uw_test_table()->conv2d_takes_norm(uw_test_table(), &t.c, batch_n)) {
        check_normed(&t, &truth, threads);
    }
    if (uw_test_table()->tile != NULL && uw_test_table()->tile->small != NULL) {
        check_sparse(&t, threads);
    }
    free_truth(&truth);
    uw_test_conv_end(&t);
}
