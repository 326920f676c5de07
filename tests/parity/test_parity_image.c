/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions over a length, transposed ones and the pools, as layers: forward, dx and every
 * parameter gradient give what PyTorch gives, on every backend of this build. */
#include "test_support.h"

#include "vectors.h"

#include "layer.h"
#include "uwasa/backends.h"
#include "uwasa/parts.h"

#define RELATIVE 1e-4

static uint32_t option(const struct vector_case *c, const char *key)
{
    return vector_int(c, key);
}

static struct uw_layer_def conv1d(const struct vector_case *c)
{
    return (struct uw_layer_def){
        .kind = UW_LAYER_CONV1D,
        .conv1d = {.out_channels = option(c, "out_channels"), .kernel = option(c, "kernel"),
                   .stride = option(c, "stride"), .pad = option(c, "pad"),
                   .dilation = option(c, "dilation"), .groups = option(c, "groups"),
                   .no_bias = option(c, "no_bias") != 0}};
}

static struct uw_layer_def conv_transpose2d(const struct vector_case *c)
{
    return (struct uw_layer_def){
        .kind = UW_LAYER_CONV_TRANSPOSE2D,
        .conv_transpose2d = {
            .out_channels = option(c, "out_channels"), .kernel_h = option(c, "kernel_h"),
            .kernel_w = option(c, "kernel_w"), .stride_h = option(c, "stride_h"),
            .stride_w = option(c, "stride_w"), .pad_h = option(c, "pad_h"),
            .pad_w = option(c, "pad_w"), .dilation_h = option(c, "dilation_h"),
            .dilation_w = option(c, "dilation_w"), .out_pad_h = option(c, "out_pad_h"),
            .out_pad_w = option(c, "out_pad_w"), .groups = option(c, "groups"),
            .no_bias = option(c, "no_bias") != 0}};
}

static struct uw_layer_def pool2d(const struct vector_case *c)
{
    return (struct uw_layer_def){
        .kind = strcmp(c->kind, "maxpool2d") == 0 ? UW_LAYER_MAXPOOL2D : UW_LAYER_AVGPOOL2D,
        .pool2d = {.kernel_h = option(c, "kernel_h"), .kernel_w = option(c, "kernel_w"),
                   .stride_h = option(c, "stride_h"), .stride_w = option(c, "stride_w"),
                   .pad_h = option(c, "pad_h"), .pad_w = option(c, "pad_w"),
                   .ceil_mode = option(c, "ceil_mode") != 0,
                   .exclude_pad = option(c, "exclude_pad") != 0}};
}

static struct uw_layer_def pool1d(const struct vector_case *c)
{
    return (struct uw_layer_def){
        .kind = strcmp(c->kind, "maxpool1d") == 0 ? UW_LAYER_MAXPOOL1D : UW_LAYER_AVGPOOL1D,
        .pool1d = {.kernel = option(c, "kernel"), .stride = option(c, "stride"),
                   .pad = option(c, "pad"), .ceil_mode = option(c, "ceil_mode") != 0,
                   .exclude_pad = option(c, "exclude_pad") != 0}};
}

static struct uw_layer_def global_avgpool(const struct vector_case *c)
{
    (void)c;
    return (struct uw_layer_def){.kind = UW_LAYER_GLOBAL_AVGPOOL};
}

/* A layer outside any model. */
static void check(const struct vector_case *c, const struct uw_layer_def *def,
                  const struct uw_kernels *k)
{
    struct uw_layer l = {.def = def, .ops = uw_parts.layer[def->kind]};
    uint32_t n = option(c, "batch_n"), h = option(c, "in_h");
    const struct uw_pass pass = {.batch_n = n, .training = true};
    float *d[UW_LAYER_TENSORS_MAX] = {NULL};
    struct uw_error err = {0};

    l.in = (struct uw_shape){option(c, "in_c"), 1, h != 0 ? h : 1, option(c, "in_w"),
                             h != 0 ? 3 : 2};
    l.out = l.in;
    l.in_n = l.in.c * l.in.h * l.in.w;
    if (l.ops->infer(&l, &l.in, &err) != UW_OK) {
        fail_msg("%s %s: %s", c->kind, c->name, err.text);
    }
    l.out_n = l.out.c * l.out.h * l.out.w;
    assert_int_equal((size_t)n * l.out_n, vector_find(c, "y")->size_n);
    size_t bytes = l.ops->scratch_bytes != NULL ? l.ops->scratch_bytes(&l, k, n, 1) : 0;
    struct uw_exec e = {.kernels = k, .scratch = uw_test_block(bytes), .scratch_bytes = bytes};
    float *x = uw_test_floats((size_t)n * l.in_n), *dx = uw_test_floats((size_t)n * l.in_n);
    float *y = uw_test_floats((size_t)n * l.out_n);
    const float *in[1] = {x};
    l.dy = uw_test_floats((size_t)n * l.out_n);
    l.aux = uw_test_block(n * l.aux_sample_bytes);
    vector_fill(x, (size_t)n * l.in_n, 1, 1);
    vector_fill(l.dy, (size_t)n * l.out_n, 4, 1);
    for (uint32_t t = 0; t < l.tensors_n; t++) {
        const struct uw_layer_tensor tensor = l.ops->tensor(&l, t);
        uint32_t size = uw_tensor_size(&tensor);
        l.param[t] = uw_test_floats(size);
        d[t] = uw_test_floats(size);
        vector_fill(l.param[t], size, 2 + t, 1);
        memset(d[t], 0, size * sizeof *d[t]);
    }
    assert_int_equal(l.ops->forward(&e, &l, &pass, in, y), UW_OK);
    assert_int_equal(l.ops->bw_input(&e, &l, &pass, in, 0, dx, false), UW_OK);
    vector_expect(c, "y", k->name, y, RELATIVE);
    vector_expect(c, "dx", k->name, dx, RELATIVE);
    if (l.tensors_n > 0) {
        assert_int_equal(l.ops->bw_param(&e, &l, &pass, in, 1, d), UW_OK);
        vector_expect(c, "dw", k->name, d[0], RELATIVE);
    }
    if (l.tensors_n > 1) {
        vector_expect(c, "db", k->name, d[1], RELATIVE);
    }
    for (uint32_t t = 0; t < l.tensors_n; t++) {
        uw_test_release(l.param[t]);
        uw_test_release(d[t]);
    }
    uw_test_release(x);
    uw_test_release(dx);
    uw_test_release(y);
    uw_test_release(l.dy);
    uw_test_release(l.aux);
    uw_test_release(e.scratch);
}

static void each_case(const char *kind, struct uw_layer_def (*read)(const struct vector_case *c))
{
    unsigned cases_n = 0;
    struct vectors v;
    struct vector_case c = {.numbers_n = 0};
    vectors_open(&v, "image.txt");
    while (vectors_next(&v, kind, &c)) {
        const struct uw_layer_def def = read(&c);
        for (uint32_t i = 0; uw_kernels_at(i) != NULL; i++) {
            check(&c, &def, uw_kernels_at(i));
        }
        cases_n++;
    }
    vectors_close(&v);
    assert_in_range(cases_n, 2, 100);
}

static void test_convolutions_match_pytorch(void **state)
{
    (void)state;
    each_case("conv1d", conv1d);
    each_case("conv_transpose2d", conv_transpose2d);
}

static void test_pools_match_pytorch(void **state)
{
    (void)state;
    each_case("maxpool2d", pool2d);
    each_case("avgpool2d", pool2d);
    each_case("maxpool1d", pool1d);
    each_case("avgpool1d", pool1d);
    each_case("global_avgpool", global_avgpool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_convolutions_match_pytorch),
        cmocka_unit_test(test_pools_match_pytorch),
    };
    return cmocka_run_group_tests_name("parity_image", tests, NULL, NULL);
}
