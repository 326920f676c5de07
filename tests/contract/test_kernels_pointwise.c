/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel contract: pooling, ReLU, softmax cross-entropy and the vector slots. */
#include "test_kernels.h"

static const struct uw_exec *plain(void)
{
    static struct uw_exec e;
    e.kernels = uw_test_table();
    return &e;
}

/* Lengths around vectors of 4, 8 and 16, and beyond one task. */
static const size_t lengths[] = {0, 1, 3, 4, 7, 8, 9, 15, 16, 17, 33, 65536, 140001};
#define LENGTHS_N (sizeof lengths / sizeof *lengths)

/* The window's winner by the definition, among values of plane x. */
static uint32_t winner_of(const struct uw_pool2d *p, const float *x, uint32_t oh, uint32_t ow,
                          size_t *at)
{
    uint32_t best = UINT32_MAX;
    for (uint32_t tap = 0; tap < p->kernel_h * p->kernel_w; tap++) {
        int64_t ih = (int64_t)oh * p->stride_h + tap / p->kernel_w - p->pad_h;
        int64_t iw = (int64_t)ow * p->stride_w + tap % p->kernel_w - p->pad_w;
        if (ih < 0 || iw < 0 || ih >= p->in_h || iw >= p->in_w) {
            continue;
        }
        size_t i = (size_t)ih * p->in_w + (size_t)iw;
        if (best == UINT32_MAX || (!isnan(x[*at]) && (isnan(x[i]) || x[i] > x[*at]))) {
            best = tap;
            *at = i;
        }
    }
    return best;
}

static void check_one_maxpool(struct uw_pool2d p, uint32_t batch_n, float nan_share,
                              uint32_t threads)
{
    const struct uw_kernels *k = uw_test_table();
    size_t in_hw = (size_t)p.in_h * p.in_w, out_hw = (size_t)p.out_h * p.out_w;
    size_t planes = (size_t)batch_n * p.channels;
    struct uw_test_exec e;
    uw_test_exec_begin(&e, threads, 0);
    float *x = uw_test_random_floats(planes * in_hw), *y = uw_test_floats(planes * out_hw);
    for (size_t i = 0; i < planes * in_hw; i++) {
        x[i] = uw_test_random() * 0.5f + 0.5f < nan_share ? NAN : floorf(x[i] * 4.0f);
    }
    uint8_t *winner = uw_test_block(planes * out_hw);
    float *dy = uw_test_random_floats(planes * out_hw), *dx = uw_test_floats(planes * in_hw);
    float *want = calloc(planes * in_hw + 1, sizeof *want);
    assert_int_equal(k->maxpool2d_fw(&e.exec, &p, batch_n, x, y, NULL), UW_OK);
    memset(y, 0xff, planes * out_hw * sizeof *y);
    assert_int_equal(k->maxpool2d_fw(&e.exec, &p, batch_n, x, y, winner), UW_OK);
    for (size_t i = 0; i < planes * out_hw; i++) {
        size_t at = 0, plane = i / out_hw * in_hw;
        uint32_t q = (uint32_t)(i % out_hw);
        uint32_t tap = winner_of(&p, x + plane, q / p.out_w, q % p.out_w, &at);
        if (p.relu && x[plane + at] <= 0.0f) {
            assert_int_equal(winner[i], UW_POOL_NONE);
            assert_true(y[i] == 0.0f);
            continue;
        }
        assert_int_equal(winner[i], tap);
        assert_memory_equal(&y[i], &x[plane + at], sizeof *y);
        want[plane + at] += dy[i];
    }
    assert_int_equal(k->maxpool2d_bw_input(&e.exec, &p, batch_n, dy, winner, dx, false), UW_OK);
    uw_test_assert_same_bits(planes * in_hw, dx, want);
    assert_int_equal(k->maxpool2d_bw_input(&e.exec, &p, batch_n, dy, winner, dx, true), UW_OK);
    for (size_t i = 0; i < planes * in_hw; i++) {
        uw_test_assert_near((double)dx[i], 2.0 * (double)want[i], 1e-5);
    }
    free(want);
    uw_test_release(dx);
    uw_test_release(dy);
    uw_test_release(winner);
    uw_test_release(y);
    uw_test_release(x);
    uw_test_exec_end(&e);
}

static void check_maxpool(struct uw_pool2d p, uint32_t batch_n, float nan_share, uint32_t threads)
{
    check_one_maxpool(p, batch_n, nan_share, threads);
    p.relu = true;
    check_one_maxpool(p, batch_n, nan_share, threads);
}

static void test_maxpool_matches_definition(void **state)
{
    (void)state;
    for (uint32_t w = 2; w <= 37; w += 1) {
        check_maxpool((struct uw_pool2d){.channels = 2, .in_h = 5, .in_w = w, .out_h = 2,
                                         .out_w = w / 2, .kernel_h = 2, .kernel_w = 2,
                                         .stride_h = 2, .stride_w = 2}, 2, 0.0f, 1);
    }
    check_maxpool((struct uw_pool2d){.channels = 3, .in_h = 5, .in_w = 7, .out_h = 3, .out_w = 4,
                                     .kernel_h = 2, .kernel_w = 2, .stride_h = 2, .stride_w = 2},
                  2, 0.1f, 2);     /* windows that hang over the end */
    check_maxpool((struct uw_pool2d){.channels = 32, .in_h = 28, .in_w = 28, .out_h = 14,
                                     .out_w = 14, .kernel_h = 2, .kernel_w = 2, .stride_h = 2,
                                     .stride_w = 2}, 3, 0.0f, 3);
    check_maxpool((struct uw_pool2d){.channels = 3, .in_h = 9, .in_w = 11, .out_h = 5, .out_w = 6,
                                     .kernel_h = 3, .kernel_w = 3, .stride_h = 2, .stride_w = 2,
                                     .pad_h = 1, .pad_w = 1}, 2, 0.0f, 1);
    for (uint32_t stride = 1; stride <= 3; stride++) { /* long rows: eights of any window */
        for (uint32_t pad = 0; pad <= 1; pad++) {
            for (uint32_t w = 16; w <= 35; w += 1 + w % 3) {
                uint32_t out_w = (w + 2 * pad - 3) / stride + 1;
                uint32_t out_h = (9 + 2 * pad - 3) / stride + 1;
                check_maxpool((struct uw_pool2d){.channels = 2, .in_h = 9, .in_w = w,
                                                 .out_h = out_h, .out_w = out_w, .kernel_h = 3,
                                                 .kernel_w = 3, .stride_h = stride,
                                                 .stride_w = stride, .pad_h = pad, .pad_w = pad},
                              2, 0.05f, 1 + w % 3);
            }
        }
    }
    check_maxpool((struct uw_pool2d){.channels = 2, .in_h = 1, .in_w = 64, .out_h = 1,
                                     .out_w = 32, .kernel_h = 1, .kernel_w = 2, .stride_h = 1,
                                     .stride_w = 2}, 2, 0.05f, 2);
    check_maxpool((struct uw_pool2d){.channels = 1, .in_h = 7, .in_w = 7, .out_h = 6, .out_w = 5,
                                     .kernel_h = 2, .kernel_w = 3, .stride_h = 1, .stride_w = 1},
                  1, 0.0f, 1);
}

/* dx[i] or y[o] of one average window by the definition: each visited pair gets its share. */
static double share_of(const struct uw_pool2d *p, uint32_t oh, uint32_t ow)
{
    uint32_t counted = 0;
    for (uint32_t tap = 0; tap < p->kernel_h * p->kernel_w; tap++) {
        int64_t ih = (int64_t)oh * p->stride_h + tap / p->kernel_w - p->pad_h;
        int64_t iw = (int64_t)ow * p->stride_w + tap % p->kernel_w - p->pad_w;
        bool inside = ih >= 0 && iw >= 0 && ih < p->in_h && iw < p->in_w;
        counted += inside || (!p->exclude_pad && ih < (int64_t)p->in_h + p->pad_h &&
                              iw < (int64_t)p->in_w + p->pad_w);
    }
    return 1.0 / counted;
}

static void check_avgpool(struct uw_pool2d p, uint32_t batch_n, uint32_t threads)
{
    const struct uw_kernels *k = uw_test_table();
    size_t in_hw = (size_t)p.in_h * p.in_w, out_hw = (size_t)p.out_h * p.out_w;
    size_t planes = (size_t)batch_n * p.channels, x_n = planes * in_hw, y_n = planes * out_hw;
    struct uw_test_exec e;
    float *x = uw_test_random_floats(x_n), *dy = uw_test_random_floats(y_n);
    float *y = uw_test_floats(y_n), *dx = uw_test_floats(x_n);
    float *added = uw_test_copy_floats(x_n, x);
    struct uw_sum *want_y = calloc(y_n + 1, sizeof *want_y);
    struct uw_sum *want_dx = calloc(x_n + 1, sizeof *want_dx);
    uw_test_exec_begin(&e, threads, 0);
    assert_int_equal(k->avgpool2d_fw(&e.exec, &p, batch_n, x, y), UW_OK);
    assert_int_equal(k->avgpool2d_bw_input(&e.exec, &p, batch_n, dy, dx, false), UW_OK);
    assert_int_equal(k->avgpool2d_bw_input(&e.exec, &p, batch_n, dy, added, true), UW_OK);
    for (size_t o = 0; o < y_n; o++) {
        uint32_t oh = (uint32_t)(o % out_hw) / p.out_w, ow = (uint32_t)(o % out_hw) % p.out_w;
        double share = share_of(&p, oh, ow);
        for (uint32_t tap = 0; tap < p.kernel_h * p.kernel_w; tap++) {
            int64_t ih = (int64_t)oh * p.stride_h + tap / p.kernel_w - p.pad_h;
            int64_t iw = (int64_t)ow * p.stride_w + tap % p.kernel_w - p.pad_w;
            if (ih >= 0 && iw >= 0 && ih < p.in_h && iw < p.in_w) {
                size_t i = o / out_hw * in_hw + (size_t)(ih * p.in_w + iw);
                uw_sum_add(&want_y[o], share * (double)x[i]);
                uw_sum_add(&want_dx[i], share * (double)dy[o]);
            }
        }
        uw_test_assert_sum(y[o], &want_y[o]);
    }
    for (size_t i = 0; i < x_n; i++) {
        uw_test_assert_sum(dx[i], &want_dx[i]);
        uw_sum_add(&want_dx[i], (double)x[i]);
        uw_test_assert_sum(added[i], &want_dx[i]);
    }
    uw_test_exec_end(&e);
    free(want_y);
    free(want_dx);
    uw_test_release(x);
    uw_test_release(dy);
    uw_test_release(y);
    uw_test_release(dx);
    uw_test_release(added);
}

static void test_avgpool_matches_definition(void **state)
{
    (void)state;
    struct uw_pool2d p = {.channels = 2, .in_h = 5, .in_w = 7, .out_h = 2, .out_w = 3,
                          .kernel_h = 2, .kernel_w = 2, .stride_h = 2, .stride_w = 2};
    check_avgpool(p, 2, 1);
    p.out_h = 3, p.out_w = 4;           /* windows that hang over the end */
    check_avgpool(p, 0, 1);
    check_avgpool(p, 3, 3);
    for (uint32_t exclude = 0; exclude < 2; exclude++) {
        check_avgpool((struct uw_pool2d){.channels = 3, .in_h = 7, .in_w = 6, .out_h = 4,
                                         .out_w = 3, .kernel_h = 3, .kernel_w = 4, .stride_h = 2,
                                         .stride_w = 3, .pad_h = 1, .pad_w = 2,
                                         .exclude_pad = exclude != 0}, 2, 1);
        check_avgpool((struct uw_pool2d){.channels = 1, .in_h = 1, .in_w = 13, .out_h = 1,
                                         .out_w = 5, .kernel_h = 1, .kernel_w = 4, .stride_h = 1,
                                         .stride_w = 3, .pad_w = 2, .exclude_pad = exclude != 0},
                      1, 1);
    }
    check_avgpool((struct uw_pool2d){.channels = 5, .in_h = 31, .in_w = 33, .out_h = 1, .out_w = 1,
                                     .kernel_h = 31, .kernel_w = 33, .stride_h = 1,
                                     .stride_w = 1}, 2, 1);
}

static void test_avgpool_every_width_of_the_common_windows(void **state)
{
    (void)state;
    for (uint32_t w = 2; w <= 37; w++) {
        struct uw_pool2d p = {.channels = 3, .in_h = 5, .in_w = w, .out_h = 2, .out_w = w / 2,
                              .kernel_h = 2, .kernel_w = 2, .stride_h = 2, .stride_w = 2};
        check_avgpool(p, 2, 1 + w % 3);
        p.kernel_h = p.kernel_w = 1;        /* picks one of four */
        p.out_w = (w + 1) / 2;
        p.out_h = 3;
        check_avgpool(p, 2, 1 + w % 3);
        p.stride_w = 3;                     /* leaves columns out at the end */
        p.out_w = w / 3 + (w % 3 == 2 ? 1 : 0);
        if (p.out_w > 0) {
            check_avgpool(p, 2, 1);
        }
        check_avgpool((struct uw_pool2d){.channels = 3, .in_h = 3, .in_w = w, .out_h = 1,
                                         .out_w = 1, .kernel_h = 3, .kernel_w = w, .stride_h = 1,
                                         .stride_w = 1}, 2, 1 + w % 3);
    }
    check_avgpool((struct uw_pool2d){.channels = 3, .in_h = 1, .in_w = 1, .out_h = 1, .out_w = 1,
                                     .kernel_h = 1, .kernel_w = 1, .stride_h = 1, .stride_w = 1},
                  2, 1);
    check_avgpool((struct uw_pool2d){.channels = 9, .in_h = 33, .in_w = 32, .out_h = 31,
                                     .out_w = 30, .kernel_h = 3, .kernel_w = 3, .stride_h = 1,
                                     .stride_w = 1}, 3, 3);     /* more than one task */
}

static void test_maxpool_nan_wins(void **state)
{
    (void)state;
    for (uint32_t pad = 0; pad < 2; pad++) {
        check_maxpool((struct uw_pool2d){.channels = 2, .in_h = 40, .in_w = 40,
                                         .out_h = 20 + pad, .out_w = 20 + pad, .kernel_h = 2,
                                         .kernel_w = 2, .stride_h = 2, .stride_w = 2,
                                         .pad_h = pad, .pad_w = pad}, 2, 0.2f, 1);
    }
}

static void test_relu_matches_definition_and_keeps_nan(void **state)
{
    (void)state;
    const struct uw_kernels *k = uw_test_table();
    for (size_t l = 0; l < LENGTHS_N; l++) {
        size_t n = lengths[l];
        struct uw_test_exec e;
        uw_test_exec_begin(&e, 3, 0);
        float *x = uw_test_random_floats(n), *dy = uw_test_random_floats(n);
        float *y = uw_test_floats(n), *dx = uw_test_floats(n);
        for (size_t i = 0; i < n; i += 5) {
            x[i] = i % 2 == 0 ? NAN : 0.0f;
        }
        k->relu_fw(&e.exec, n, x, y);
        k->relu_bw_input(&e.exec, n, y, dy, dx, false);
        for (size_t i = 0; i < n; i++) {
            assert_true(isnan(x[i]) ? isnan(y[i]) : y[i] == (x[i] > 0.0f ? x[i] : 0.0f));
            assert_true(dx[i] == (y[i] > 0.0f ? dy[i] : 0.0f));
        }
        k->relu_bw_input(&e.exec, n, y, dy, dx, true);
        for (size_t i = 0; i < n; i++) {
            assert_true(dx[i] == (y[i] > 0.0f ? dy[i] + dy[i] : 0.0f));
        }
        k->relu_fw(&e.exec, n, x, x);           /* in place */
        uw_test_assert_same_bits(n, x, y);
        k->relu_bw_input(&e.exec, n, y, dy, dy, false);
        k->relu_bw_input(&e.exec, n, y, dy, dx, false);
        uw_test_assert_same_bits(n, dx, dy);
        float *all[] = {x, dy, y, dx};
        for (size_t i = 0; i < 4; i++) {
            uw_test_release(all[i]);
        }
        uw_test_exec_end(&e);
    }
}

static double loss_of(uint32_t classes, const double *z, uint32_t label)
{
    double max = z[0], sum = 0.0;
    for (uint32_t i = 1; i < classes; i++) {
        max = z[i] > max ? z[i] : max;
    }
    for (uint32_t i = 0; i < classes; i++) {
        sum += exp(z[i] - max);
    }
    return log(sum) - (z[label] - max);
}

static void test_softmax_loss_and_gradient_match_finite_differences(void **state)
{
    (void)state;
    const struct uw_kernels *k = uw_test_table();
    for (uint32_t classes = 1; classes <= 35; classes += classes < 12 ? 1 : 23) {
        const uint32_t batch_n = 7;
        size_t n = (size_t)batch_n * classes;
        float *z = uw_test_random_floats(n), *p = uw_test_floats(n), *dz = uw_test_floats(n);
        uint32_t *label = uw_test_block(batch_n * sizeof *label);
        double loss = NAN, want_loss = 0.0, row[64];
        uint32_t correct = UINT32_MAX, want_correct = 0;
        for (uint32_t s = 0; s < batch_n; s++) {
            label[s] = uw_test_below(classes);
            uint32_t top = 0;
            for (uint32_t i = 0; i < classes; i++) {
                z[s * classes + i] = floorf(z[s * classes + i] * 8.0f); /* equals occur */
                row[i] = (double)z[s * classes + i];
                top = row[i] > row[top] ? i : top;
            }
            want_loss += loss_of(classes, row, label[s]);
            want_correct += top == label[s];
        }
        k->softmax_xent_fw(plain(), batch_n, classes, 0.0f, z, label, p, &loss, &correct);
        uw_test_assert_near(loss, want_loss, 1e-5);
        assert_int_equal(correct, want_correct);
        k->softmax_xent_bw_input(plain(), batch_n, classes, 0.0f, p, label, 0.5f, dz);
        for (size_t at = 0; at < n; at++) {
            size_t s = at / classes;
            for (uint32_t i = 0; i < classes; i++) {
                row[i] = (double)z[s * classes + i];
            }
            row[at % classes] += 1e-5;
            double up = loss_of(classes, row, label[s]);
            row[at % classes] -= 2e-5;
            double slope = (up - loss_of(classes, row, label[s])) / 2e-5;
            uw_test_assert_near((double)dz[at], 0.5 * slope, 1e-6);
        }
        k->softmax_xent_fw(plain(), batch_n, classes, 0.0f, z, label, z, &loss, &correct);
        uw_test_assert_same_bits(n, z, p);      /* in place */
        k->softmax_xent_bw_input(plain(), batch_n, classes, 0.0f, p, label, 0.5f, p);
        uw_test_assert_same_bits(n, p, dz);
        uw_test_release(label);
        uw_test_release(dz);
        uw_test_release(p);
        uw_test_release(z);
    }
}

static void test_softmax_extreme_logits_stay_finite_and_nan_shows(void **state)
{
    (void)state;
    const struct uw_kernels *k = uw_test_table();
    const float extreme[6] = {1000.0f, -1000.0f, 0.0f, -3e38f, 3e38f, 0.0f};
    float *z = uw_test_copy_floats(6, extreme), *p = uw_test_floats(6);
    uint32_t *label = uw_test_block(2 * sizeof *label), correct;
    double loss;
    label[0] = 0;
    label[1] = 1;
    k->softmax_xent_fw(plain(), 2, 3, 0.0f, z, label, p, &loss, &correct);
    assert_true(loss == 0.0);
    assert_int_equal(correct, 2);
    label[0] = 1;
    k->softmax_xent_fw(plain(), 2, 3, 0.0f, z, label, p, &loss, &correct);
    uw_test_assert_near(loss, 2000.0, 1e-3);    /* although p is 0 there */
    z[2] = NAN;
    k->softmax_xent_fw(plain(), 2, 3, 0.0f, z, label, p, &loss, &correct);
    assert_true(isnan(loss));
    uw_test_release(label);
    uw_test_release(p);
    uw_test_release(z);
}

static void test_axpby_matches_definition(void **state)
{
    (void)state;
    const struct uw_kernels *k = uw_test_table();
    const float b[] = {0.0f, 1.0f, -0.75f};
    for (size_t l = 0; l < LENGTHS_N * 3; l++) {
        size_t n = lengths[l / 3];
        float beta = b[l % 3];
        struct uw_test_exec e;
        uw_test_exec_begin(&e, 3, 0);
        float *x = uw_test_random_floats(n);
        float *y = beta == 0.0f ? uw_test_floats(n) : uw_test_random_floats(n);
        float *before = uw_test_copy_floats(n, y);
        k->axpby(&e.exec, n, 1.5f, x, beta, y);
        for (size_t i = 0; i < n; i++) {
            double want = 1.5 * (double)x[i] +
                          (beta == 0.0f ? 0.0 : (double)beta * (double)before[i]);
            uw_test_assert_near((double)y[i], want, 3e-7);
        }
        memcpy(y, x, n * sizeof *x);
        k->axpby(&e.exec, n, 0.5f, y, 0.5f, y);
        uw_test_assert_same_bits(n, y, x);      /* y may be x */
        uw_test_release(before);
        uw_test_release(y);
        uw_test_release(x);
        uw_test_exec_end(&e);
    }
}

static void check_sgd(size_t n, const struct uw_sgd *s)
{
    struct uw_test_exec e;
    uw_test_exec_begin(&e, 3, 0);
    float *g = uw_test_random_floats(n), *w = uw_test_random_floats(n);
    float *v = s->momentum != 0.0f ? uw_test_random_floats(n) : NULL;
    float *w0 = uw_test_copy_floats(n, w), *v0 = v != NULL ? uw_test_copy_floats(n, v) : NULL;
    uw_test_table()->sgd_update(&e.exec, n, s, g, w, v);
    for (size_t i = 0; i < n; i++) {
        double momentum = (double)s->momentum, vi = v != NULL ? (double)v0[i] : 0.0;
        double gi = (double)g[i] + (double)s->weight_decay * (double)w0[i];
        double step = gi + momentum * vi;
        if (!s->frozen && v != NULL) {
            vi = momentum * vi + gi;
            step = s->nesterov ? gi + momentum * vi : vi;
        }
        uw_test_assert_near((double)w[i], (double)w0[i] - (double)s->lr * step, 3e-7);
        if (v != NULL) {
            uw_test_assert_near((double)v[i], vi, 5e-7);
        }
    }
    if (v != NULL) {
        uw_test_release(v0);
        uw_test_release(v);
    }
    uw_test_release(w0);
    uw_test_release(w);
    uw_test_release(g);
    uw_test_exec_end(&e);
}

static void test_sgd_every_rule_matches_definition(void **state)
{
    (void)state;
    const struct uw_sgd rules[] = {
        {.lr = 0.1f},
        {.lr = 0.1f, .weight_decay = 0.01f},
        {.lr = 0.1f, .momentum = 0.9f, .weight_decay = 0.01f},
        {.lr = 0.1f, .momentum = 0.9f, .nesterov = true},
        {.lr = 0.1f, .momentum = 0.9f, .weight_decay = 0.01f, .frozen = true},
    };
    for (size_t r = 0; r < sizeof rules / sizeof *rules; r++) {
        for (size_t l = 0; l < LENGTHS_N; l++) {
            check_sgd(lengths[l], &rules[r]);
        }
    }
}

static void test_all_finite_finds_one_bad_element_anywhere(void **state)
{
    (void)state;
    const struct uw_kernels *k = uw_test_table();
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t n = 0; n < 70; n++) {
        float *x = uw_test_random_floats(n);
        if (n > 0) {
            x[n - 1] = 3.4e38f;
        }
        assert_true(k->all_finite(plain(), n, x));
        for (size_t i = 0; i < n; i++) {
            float kept = x[i];
            x[i] = bad[i % 3];
            assert_false(k->all_finite(plain(), n, x));
            x[i] = kept;
        }
        uw_test_release(x);
    }
}

const struct CMUnitTest uw_test_pointwise[] = {
    cmocka_unit_test(test_maxpool_matches_definition),
    cmocka_unit_test(test_maxpool_nan_wins),
    cmocka_unit_test(test_avgpool_matches_definition),
    cmocka_unit_test(test_avgpool_every_width_of_the_common_windows),
    cmocka_unit_test(test_relu_matches_definition_and_keeps_nan),
    cmocka_unit_test(test_softmax_loss_and_gradient_match_finite_differences),
    cmocka_unit_test(test_softmax_extreme_logits_stay_finite_and_nan_shows),
    cmocka_unit_test(test_axpby_matches_definition),
    cmocka_unit_test(test_sgd_every_rule_matches_definition),
    cmocka_unit_test(test_all_finite_finds_one_bad_element_anywhere),
};
const size_t uw_test_pointwise_n = sizeof uw_test_pointwise / sizeof *uw_test_pointwise;
