/* SPDX-License-Identifier: Apache-2.0
 *
 * Training on an open GPU where ReLUs and sums are parts of the layers in front of them. */
#include "layer.h"
#include "steps_fixture.h"

/* A ReLU behind a convolution with and without a bias, an addition, a dense layer, and one whose
 * front has two readers: that stays. */
static const struct uw_layer_def folded_layers[] = {
    {.name = "c1", .kind = UW_LAYER_CONV2D, .conv2d = {.out_channels = 5, .kernel_h = 3,
                                                       .pad_h = 1, .pad_w = 1}},
    {.name = "r1", .kind = UW_LAYER_RELU6},
    {.name = "c2", .kind = UW_LAYER_CONV2D, .conv2d = {.out_channels = 5, .kernel_h = 3,
                                                       .pad_h = 1, .pad_w = 1, .no_bias = true}},
    {.name = "r2", .kind = UW_LAYER_RELU},
    {.name = "c3", .kind = UW_LAYER_CONV2D, .conv2d = {.out_channels = 5, .kernel_h = 1}},
    {.name = "a1", .kind = UW_LAYER_ADD, .inputs = {"c3", "r1", "r2"}},
    {.name = "r3", .kind = UW_LAYER_RELU},
    {.name = "a2", .kind = UW_LAYER_ADD, .inputs = {"r3", "c3"}},
    {.name = "flat", .kind = UW_LAYER_FLATTEN},
    {.name = "d1", .kind = UW_LAYER_DENSE, .dense = {.out = 9}},
    {.name = "r4", .kind = UW_LAYER_RELU},
    {.name = "d2", .kind = UW_LAYER_DENSE, .dense = {.out = 7, .no_bias = true}},
    {.name = "r5", .kind = UW_LAYER_RELU6},
    {.name = "r6", .kind = UW_LAYER_RELU, .inputs = {"d2"}},
    {.name = "a3", .kind = UW_LAYER_ADD, .inputs = {"r5", "r6"}},
    {.name = "out", .kind = UW_LAYER_DENSE, .dense = {.out = 4}}};
static const struct uw_model_def folded_net = {.name = "folded", .in_channels = 2, .in_h = 6,
                                               .in_w = 6, .layers = folded_layers,
                                               .layers_n = 16};

static bool dense_always(const struct uw_kernels *k, const struct uw_dense *d, uint32_t batch_n)
{
    return k != NULL && d != NULL && batch_n > 0;
}

static bool dense_never(const struct uw_kernels *k, const struct uw_dense *d, uint32_t batch_n)
{
    return !dense_always(k, d, batch_n);
}

static bool conv2d_always(const struct uw_kernels *k, const struct uw_conv2d *c, uint32_t batch_n)
{
    return k != NULL && c != NULL && batch_n > 0;
}

static bool conv2d_never(const struct uw_kernels *k, const struct uw_conv2d *c, uint32_t batch_n)
{
    return !conv2d_always(k, c, batch_n);
}

static void compare_folded(void)
{
    const struct uw_optimizer momentum = {.kind = UW_OPTIMIZER_SGD, .momentum = 0.9f};
    struct uw_model_config c = {.def = &folded_net, .batch_n = BATCH, .input = true,
                                .mode = UW_PLAN_FULL, .optimizer = momentum};
    compare(&c, 5);
    c.micro_n = 4;              /* gradients add up */
    c.optimizer.clip_tensor = 0.5f;
    compare(&c, 5);
    c = (struct uw_model_config){.def = &folded_net, .batch_n = BATCH, .input = true,
                                 .mode = UW_PLAN_IMMEDIATE, .adapt = {.bias_only = true}};
    compare(&c, 5);
}

static void test_steps_with_folded_relus_follow_the_reference(void **state)
{
    (void)state;
    compare_folded();
    dense_apart = dense_always;
    conv2d_apart = conv2d_always;
    compare_folded();
    dense_apart = dense_never;
    conv2d_apart = conv2d_never;
    compare_folded();
    dense_apart = NULL;
    conv2d_apart = NULL;
}

/* Sums with a ReLU behind: of one that nobody else reads and one that is written or added to, in
 * either order; of a value and itself; of one that takes no gradient. */
static void test_steps_with_residuals_follow_the_reference(void **state)
{
    (void)state;
    static const struct uw_layer_def layers[] = {
        {.name = "c1", .kind = UW_LAYER_CONV2D, .conv2d = {.out_channels = 2, .kernel_h = 3,
                                                           .pad_h = 1, .pad_w = 1}},
        {.name = "a0", .kind = UW_LAYER_ADD, .inputs = {"c1", "input"}},
        {.name = "r0", .kind = UW_LAYER_RELU},
        {.name = "c2", .kind = UW_LAYER_CONV2D, .conv2d = {.out_channels = 2, .kernel_h = 1}},
        {.name = "a1", .kind = UW_LAYER_ADD, .inputs = {"c2", "r0"}},
        {.name = "r1", .kind = UW_LAYER_RELU},
        {.name = "c3", .kind = UW_LAYER_CONV2D, .conv2d = {.out_channels = 2, .kernel_h = 1}},
        {.name = "a2", .kind = UW_LAYER_ADD, .inputs = {"r1", "c3"}},
        {.name = "r2", .kind = UW_LAYER_RELU6},
        {.name = "a3", .kind = UW_LAYER_ADD, .inputs = {"r2", "r1"}},
        {.name = "r3", .kind = UW_LAYER_RELU},
        {.name = "a4", .kind = UW_LAYER_ADD, .inputs = {"r3", "r3"}},
        {.name = "r4", .kind = UW_LAYER_RELU},
        {.name = "flat", .kind = UW_LAYER_FLATTEN},
        {.name = "out", .kind = UW_LAYER_DENSE, .dense = {.out = 4}}};
    static const struct uw_model_def net = {.name = "residual", .in_channels = 2, .in_h = 6,
                                            .in_w = 6, .layers = layers,
                                            .layers_n = sizeof layers / sizeof *layers};
    for (uint32_t mode = UW_PLAN_IMMEDIATE; mode <= UW_PLAN_FULL; mode++) {
        struct uw_model_config c = {.def = &net, .batch_n = BATCH, .input = true,
                                    .mode = (enum uw_plan_mode)mode,
                                    .optimizer = {.momentum = 0.9f}};
        compare(&c, 5);
    }
}

#define CONV(n) {.name = n, .kind = UW_LAYER_CONV2D, .conv2d = {.out_channels = 5, .kernel_h = 3, \
                                                               .pad_h = 1, .pad_w = 1}}
static const struct uw_layer_def chain_layers[] = {
    CONV("c1"), {.name = "r1", .kind = UW_LAYER_RELU},
    CONV("c2"), {.name = "r2", .kind = UW_LAYER_RELU6},
    CONV("c3"), {.name = "r3", .kind = UW_LAYER_RELU},
    CONV("c4"), {.name = "a4", .kind = UW_LAYER_ADD, .inputs = {"r3", "c4"}},
    {.name = "r4", .kind = UW_LAYER_RELU},
    CONV("c5"), {.name = "r5", .kind = UW_LAYER_RELU},
    CONV("c6"), {.name = "a6", .kind = UW_LAYER_ADD, .inputs = {"r5", "c6"}},
    {.name = "r6", .kind = UW_LAYER_RELU},
    {.name = "flat", .kind = UW_LAYER_FLATTEN},
    {.name = "d1", .kind = UW_LAYER_DENSE, .dense = {.out = 9}},
    {.name = "r7", .kind = UW_LAYER_RELU},
    {.name = "d2", .kind = UW_LAYER_DENSE, .dense = {.out = 4}}};
static const struct uw_model_def chain_net = {.name = "chain", .in_channels = 2, .in_h = 9,
                                              .in_w = 9, .layers = chain_layers, .layers_n = 18};

/* Less than the whole plan: outputs that a ReLU was taken over in are computed again, and their
 * masks and sums with them. */
static void compare_recomputed(void)
{
    struct uw_model_config c = {.def = &chain_net, .batch_n = BATCH, .input = true,
                                .mode = UW_PLAN_FULL, .optimizer = {.momentum = 0.9f}};
    struct side s;
    struct uw_model_need less;
    uint32_t relus = 0;
    open_side(&s, &c, true);
    s.config.budget_bytes = s.need.kernel_bytes + s.need.shared_bytes;
    do {                        /* the least that it can be trained in */
        c.budget_bytes = s.config.budget_bytes;
        s.config.budget_bytes -= 64;
    } while (uw_model_measure(&s.config, &less, &s.err) == UW_OK);
    close_side(&s);
    open_side(&s, &c, true);
    for (uint32_t i = 0; i < s.m.layers_n; i++) {
        relus += s.m.layers[i].recomputed && s.m.layers[i].relu_behind ? 1 : 0;
    }
    close_side(&s);
    assert_true(relus > 1);
    compare(&c, 5);
}

static void test_steps_with_folded_relus_computed_again_follow_the_reference(void **state)
{
    (void)state;
    compare_recomputed();
    dense_apart = dense_always;
    conv2d_apart = conv2d_always;
    compare_recomputed();
    dense_apart = NULL;
    conv2d_apart = NULL;
}

/* ReLUs take no launch, and their layers no room but for sums. */
static void test_steps_relus_are_their_fronts(void **state)
{
    (void)state;
    const struct uw_model_config c = {.def = &folded_net, .batch_n = BATCH, .input = true};
    const char *const views[] = {"r1", "r2", "r3", "r4"};
    struct side gpu, cpu;
    open_side(&gpu, &c, true);
    open_side(&cpu, &c, false);
    for (uint32_t i = 0; i < folded_net.layers_n; i++) {
        bool view = i == 8; /* flatten */
        for (size_t k = 0; k < sizeof views / sizeof *views; k++) {
            view = view || strcmp(folded_layers[i].name, views[k]) == 0;
        }
        assert_true(gpu.m.layers[i].view == view);
        assert_true(cpu.m.layers[i].view == (i == 8));
    }
    close_side(&gpu);
    close_side(&cpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_with_folded_relus_follow_the_reference),
        cmocka_unit_test(test_steps_with_residuals_follow_the_reference),
        cmocka_unit_test(test_steps_with_folded_relus_computed_again_follow_the_reference),
        cmocka_unit_test(test_steps_relus_are_their_fronts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
