/* SPDX-License-Identifier: Apache-2.0
 *
 * Every layer, forward and backward, gives what PyTorch gives, on every backend of this build. */
#include "test_support.h"

#include "kernel_case.h"

#include "uwasa/arena.h"
#include "uwasa/backends.h"
#include "uwasa/status.h"

#define RELATIVE 1e-4

#define VECTORS "layers.txt"

static void check_conv2d(const struct vector_case *c, const struct uw_kernels *k)
{
    struct uw_conv2d g = {
        .in_channels = vector_int(c, "in_channels"), .in_h = vector_int(c, "in_h"),
        .in_w = vector_int(c, "in_w"), .out_channels = vector_int(c, "out_channels"),
        .out_h = vector_int(c, "out_h"), .out_w = vector_int(c, "out_w"),
        .kernel_h = vector_int(c, "kernel_h"), .kernel_w = vector_int(c, "kernel_w"),
        .stride_h = vector_int(c, "stride_h"), .stride_w = vector_int(c, "stride_w"),
        .pad_h = vector_int(c, "pad_h"), .pad_w = vector_int(c, "pad_w"),
        .dilation_h = vector_int(c, "dilation_h"), .dilation_w = vector_int(c, "dilation_w"),
        .groups = vector_int(c, "groups")};
    uint32_t batch_n = vector_int(c, "batch_n");
    bool bias = vector_int(c, "bias") != 0;
    size_t x_n = (size_t)batch_n * g.in_channels * g.in_h * g.in_w;
    size_t y_n = (size_t)batch_n * g.out_channels * g.out_h * g.out_w;
    size_t w_n = (size_t)g.out_channels * (g.in_channels / g.groups) * g.kernel_h * g.kernel_w;
    size_t scratch_bytes = k->conv2d_scratch_bytes(k, &g, batch_n, 1);
    void *scratch = uw_test_block(scratch_bytes);
    struct uw_exec e = {.kernels = k, .scratch = scratch, .scratch_bytes = scratch_bytes};

    float *x = filled(x_n, 1, 1), *w = filled(w_n, 2, 1), *dy = filled(y_n, 4, 1);
    float *b = bias ? filled(g.out_channels, 3, 1) : NULL;
    float *db = bias ? zeroed(g.out_channels) : NULL;
    float *y = uw_test_floats(y_n), *dx = uw_test_floats(x_n), *dw = zeroed(w_n);
    assert_int_equal(k->conv2d_fw(&e, &g, batch_n, x, w, b, y, false), UW_OK);
    assert_int_equal(k->conv2d_bw_input(&e, &g, batch_n, dy, w, dx, false), UW_OK);
    assert_int_equal(k->conv2d_bw_param(&e, &g, batch_n, x, dy, 1, dw, db), UW_OK);
    vector_expect(c, "y", k->name, y, RELATIVE);
    vector_expect(c, "dx", k->name, dx, RELATIVE);
    vector_expect(c, "dw", k->name, dw, RELATIVE);
    if (bias) {
        vector_expect(c, "db", k->name, db, RELATIVE);
    }
    release((float *[]){x, w, dy, b, db, y, dx, dw}, 8);
    uw_test_release(scratch);
}

static void check_dense(const struct vector_case *c, const struct uw_kernels *k)
{
    struct uw_dense d = {.in = vector_int(c, "in"), .out = vector_int(c, "out")};
    uint32_t batch_n = vector_int(c, "batch_n");
    bool bias = vector_int(c, "bias") != 0;
    size_t x_n = (size_t)batch_n * d.in, y_n = (size_t)batch_n * d.out;
    size_t w_n = (size_t)d.in * d.out;
    size_t scratch_bytes = k->dense_scratch_bytes(k, &d, batch_n, 1);
    void *scratch = uw_test_block(scratch_bytes);
    struct uw_exec e = {.kernels = k, .scratch = scratch, .scratch_bytes = scratch_bytes};

    float *x = filled(x_n, 1, 1), *w = filled(w_n, 2, 1), *dy = filled(y_n, 4, 1);
    float *b = bias ? filled(d.out, 3, 1) : NULL;
    float *db = bias ? zeroed(d.out) : NULL;
    float *y = uw_test_floats(y_n), *dx = uw_test_floats(x_n), *dw = zeroed(w_n);
    assert_int_equal(k->dense_fw(&e, &d, batch_n, x, w, b, y), UW_OK);
    assert_int_equal(k->dense_bw_input(&e, &d, batch_n, dy, w, dx, false), UW_OK);
    assert_int_equal(k->dense_bw_param(&e, &d, batch_n, x, dy, 1, dw, db), UW_OK);
    vector_expect(c, "y", k->name, y, RELATIVE);
    vector_expect(c, "dx", k->name, dx, RELATIVE);
    vector_expect(c, "dw", k->name, dw, RELATIVE);
    if (bias) {
        vector_expect(c, "db", k->name, db, RELATIVE);
    }
    release((float *[]){x, w, dy, b, db, y, dx, dw}, 8);
    uw_test_release(scratch);
}

static void check_maxpool2d(const struct vector_case *c, const struct uw_kernels *k)
{
    struct uw_pool2d p = {
        .channels = vector_int(c, "channels"), .in_h = vector_int(c, "in_h"),
        .in_w = vector_int(c, "in_w"), .out_h = vector_int(c, "out_h"),
        .out_w = vector_int(c, "out_w"), .kernel_h = vector_int(c, "kernel_h"),
        .kernel_w = vector_int(c, "kernel_w"), .stride_h = vector_int(c, "stride_h"),
        .stride_w = vector_int(c, "stride_w"), .pad_h = vector_int(c, "pad_h"),
        .pad_w = vector_int(c, "pad_w")};
    uint32_t batch_n = vector_int(c, "batch_n");
    size_t x_n = (size_t)batch_n * p.channels * p.in_h * p.in_w;
    size_t y_n = (size_t)batch_n * p.channels * p.out_h * p.out_w;
    struct uw_exec e = {.kernels = k};
    float *x = filled(x_n, 1, 1), *dy = filled(y_n, 4, 1);
    float *y = uw_test_floats(y_n), *dx = uw_test_floats(x_n);
    uint8_t *winner = uw_test_block(y_n);
    assert_int_equal(k->maxpool2d_fw(&e, &p, batch_n, x, y, winner), UW_OK);
    assert_int_equal(k->maxpool2d_bw_input(&e, &p, batch_n, dy, winner, dx, false), UW_OK);
    vector_expect(c, "y", k->name, y, 0);
    vector_expect(c, "dx", k->name, dx, RELATIVE);
    release((float *[]){x, dy, y, dx}, 4);
    uw_test_release(winner);
}

static void check_relu(const struct vector_case *c, const struct uw_kernels *k)
{
    size_t n = vector_int(c, "n");
    struct uw_exec e = {.kernels = k};
    float *x = filled(n, 1, 1), *dy = filled(n, 4, 1);
    float *y = uw_test_floats(n), *dx = uw_test_floats(n);
    assert_int_equal(k->relu_fw(&e, n, x, y), UW_OK);
    assert_int_equal(k->relu_bw_input(&e, n, y, dy, dx, false), UW_OK);
    vector_expect(c, "y", k->name, y, 0);
    vector_expect(c, "dx", k->name, dx, 0);
    release((float *[]){x, dy, y, dx}, 4);
}

static void check_softmax_xent(const struct vector_case *c, const struct uw_kernels *k)
{
    uint32_t batch_n = vector_int(c, "batch_n"), classes = vector_int(c, "classes");
    size_t n = (size_t)batch_n * classes;
    struct uw_exec e = {.kernels = k};
    float *logits = filled(n, 1, vector_real(c, "logit_scale"));
    float *p = uw_test_floats(n), *dlogits = uw_test_floats(n);
    uint32_t *label = uw_test_block(batch_n * sizeof *label);
    for (uint32_t i = 0; i < batch_n; i++) {
        label[i] = (i * 7 + 3) % classes;
    }
    double loss_sum = 0;
    uint32_t correct_n = 0;
    assert_int_equal(k->softmax_xent_fw(&e, batch_n, classes, 0.0f, logits, label, p, &loss_sum,
                                        &correct_n), UW_OK);
    assert_int_equal(k->softmax_xent_bw_input(&e, batch_n, classes, 0.0f, p, label,
                                              1.0f / (float)batch_n, dlogits), UW_OK);
    float loss = (float)(loss_sum / batch_n);
    vector_expect(c, "loss", k->name, &loss, RELATIVE);
    vector_expect(c, "p", k->name, p, RELATIVE);
    vector_expect(c, "dlogits", k->name, dlogits, RELATIVE);
    assert_int_equal(correct_n, vector_int(c, "correct_n"));
    release((float *[]){logits, p, dlogits}, 3);
    uw_test_release(label);
}

static void check_sgd(const struct vector_case *c, const struct uw_kernels *k)
{
    size_t n = vector_int(c, "n");
    struct uw_exec e = {.kernels = k};
    struct uw_sgd s = {.lr = vector_real(c, "lr"), .momentum = vector_real(c, "momentum"),
                       .weight_decay = vector_real(c, "weight_decay"),
                       .nesterov = vector_int(c, "nesterov") != 0};
    float *w = filled(n, 1, 1), *g = uw_test_floats(n);
    float *v = s.momentum != 0 ? zeroed(n) : NULL;
    for (uint32_t step = 0; step < vector_int(c, "steps"); step++) {
        vector_fill(g, n, 10 + step, 1);
        assert_int_equal(k->sgd_update(&e, n, &s, g, w, v), UW_OK);
    }
    vector_expect(c, "w", k->name, w, RELATIVE);
    if (v != NULL) {
        vector_expect(c, "v", k->name, v, RELATIVE);
    }
    release((float *[]){w, g, v}, 3);
}

static void test_conv2d_every_option_matches_pytorch(void **state)
{
    (void)state;
    each_case(VECTORS, "conv2d", check_conv2d);
}

static void test_dense_every_size_matches_pytorch(void **state)
{
    (void)state;
    each_case(VECTORS, "dense", check_dense);
}

static void test_maxpool2d_every_option_matches_pytorch(void **state)
{
    (void)state;
    each_case(VECTORS, "maxpool2d", check_maxpool2d);
}

static void test_relu_matches_pytorch(void **state)
{
    (void)state;
    each_case(VECTORS, "relu", check_relu);
}

static void test_softmax_xent_matches_pytorch(void **state)
{
    (void)state;
    each_case(VECTORS, "softmax_xent", check_softmax_xent);
}

static void test_sgd_every_option_matches_pytorch(void **state)
{
    (void)state;
    each_case(VECTORS, "sgd", check_sgd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv2d_every_option_matches_pytorch),
        cmocka_unit_test(test_dense_every_size_matches_pytorch),
        cmocka_unit_test(test_maxpool2d_every_option_matches_pytorch),
        cmocka_unit_test(test_relu_matches_pytorch),
        cmocka_unit_test(test_softmax_xent_matches_pytorch),
        cmocka_unit_test(test_sgd_every_option_matches_pytorch),
    };
    return cmocka_run_group_tests_name("parity_layers", tests, NULL, NULL);
}
