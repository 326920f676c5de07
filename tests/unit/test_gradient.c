/* SPDX-License-Identifier: Apache-2.0 */
#include "test_support.h"

#include "gradient_check.h"
#include "random_graph.h"

static void test_gradient_every_layer_and_option_match_central_differences(void **state)
{
    (void)state;
    uint64_t seed = uw_test_seed(21);
    struct uw_layer_def odd_conv = {.kind = UW_LAYER_CONV2D, .name = "c",
        .conv2d = {.out_channels = 3, .kernel_h = 3, .kernel_w = 2, .stride_h = 2, .stride_w = 1,
                   .pad_h = 1, .pad_w = 0, .no_bias = true}};
    struct uw_layer_def odd_pool = {.kind = UW_LAYER_MAXPOOL2D, .name = "p",
        .pool2d = {.kernel_h = 3, .kernel_w = 2, .stride_h = 1, .stride_w = 2, .pad_h = 1}};
    struct uw_layer_def no_bias = {.kind = UW_LAYER_DENSE, .name = "d",
                                   .dense = {.out = 4, .no_bias = true}};
    const struct uw_model_def models[] = {
        {"dense", 5, 1, 1, LAYERS(DENSE("a", 7), RELU("r"), no_bias), 3},
        {"conv", 2, 6, 5, LAYERS(CONV("c", 3, 3, 1, 1), RELU("r"), POOL("p", 2, 2, 0),
                                 FLATTEN("f"), DENSE("d", 4)), 5},
        {"stride", 2, 7, 7, LAYERS(CONV("c", 3, 5, 2, 2), FLATTEN("f"), DENSE("d", 3)), 3},
        {"two convs", 1, 6, 6, LAYERS(CONV("a", 3, 3, 1, 1), RELU("r"), CONV("b", 2, 3, 1, 0),
                                      POOL("p", 3, 1, 1), FLATTEN("f"), DENSE("d", 3)), 6},
        {"odd", 2, 7, 6, LAYERS(odd_conv, odd_pool, FLATTEN("f"), DENSE("d", 3)), 4},
        {"relu last", 4, 1, 1, LAYERS(DENSE("a", 5), RELU("r")), 2},
        {"flatten last", 3, 2, 2, LAYERS(CONV("a", 6, 2, 1, 0), RELU("r"), FLATTEN("f")), 3},
    };
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        for (uint32_t n = 1; n <= 3; n += 2) {
            check_gradients(&models[i], n, seed + i);
        }
    }
}

/* A branch, a sum, a value read twice, and a layer that adds a value to itself. */
static void test_gradient_branches_and_sums_match_central_differences(void **state)
{
    (void)state;
    const struct uw_layer_def layers[] = {
        CONV("stem", 3, 3, 1, 1),
        RELU("r0"),
        CONV("left", 3, 3, 1, 1),
        RELU("r1"),
        {.kind = UW_LAYER_CONV2D, .name = "right", .inputs = {"r0"},
         .conv2d = {.out_channels = 3, .kernel_h = 1}},
        {.kind = UW_LAYER_ADD, .name = "sum", .inputs = {"r1", "right", "r0"}},
        RELU("r2"),
        {.kind = UW_LAYER_ADD, .name = "twice", .inputs = {"r2", "r2"}},
        FLATTEN("f"),
        DENSE("d", 4),
    };
    const struct uw_model_def def = {"branches", 2, 5, 4, layers,
                                     sizeof layers / sizeof layers[0]};
    check_gradients(&def, 2, uw_test_seed(31));
}

/* Random graphs: whatever the memory plan shares, the numbers stay right. */
static void test_gradient_random_graphs_match_central_differences(void **state)
{
    (void)state;
    struct uw_rng r;
    uint64_t seed = uw_test_seed(41);

    uw_rng_seed(&r, seed);
    for (int trial = 0; trial < 40; trial++) {
        struct random_graph g;
        random_graph(&g, &r);
        check_gradients(&g.def, 2, seed + (uint64_t)trial);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradient_every_layer_and_option_match_central_differences),
        cmocka_unit_test(test_gradient_branches_and_sums_match_central_differences),
        cmocka_unit_test(test_gradient_random_graphs_match_central_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
