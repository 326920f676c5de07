/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators on tensors: with every option and every way of broadcasting, with a parameter on either
 * side, gradients are those of central differences in double. */
#include "test_support.h"

#include "gradient_check.h"

/* Input [4][3][5]; the chain's output is flattened and goes through a dense layer. */
#define CHECK(title, ...)                                                                       \
    do {                                                                                        \
        const struct uw_layer_def chain[] = {{.kind = UW_LAYER_CONV2D, .name = "front",         \
            .conv2d = {.out_channels = 4, .kernel_h = 1}},                                      \
            __VA_ARGS__, FLATTEN("end"), DENSE("out", 3)};                                      \
        const struct uw_model_def def = {.name = title, .in_channels = 2, .in_h = 3, .in_w = 5, \
            .layers = chain, .layers_n = sizeof chain / sizeof chain[0]};                       \
        check_gradients(&def, 1, uw_test_seed(71));                                             \
        check_gradients(&def, 3, uw_test_seed(72));                                             \
    } while (0)

#define PARAMETER(n, spread, r, ...) {.kind = UW_LAYER_PARAMETER, .name = n, \
    .parameter = {.dim = {__VA_ARGS__}, .rank = r, .value = 1.5f, .deviation = spread}}
#define ARITHMETIC(n, o, one, other) {.kind = UW_LAYER_ARITHMETIC, .name = n, \
    .inputs = {one, other}, .arithmetic = {.op = UW_ARITHMETIC_##o}}
#define FUNCTION(f, p, q) {.kind = UW_LAYER_FUNCTION, .name = "f", \
    .function = {.function = UW_FUNCTION_##f, .a = p, .b = q}}
#define POSITIVE {.kind = UW_LAYER_FUNCTION, .name = "e", \
    .function = {.function = UW_FUNCTION_EXP}}

static void test_gradient_tensor_functions_match_central_differences(void **state)
{
    (void)state;
    CHECK("scale", FUNCTION(SCALE, 0.7f, -0.3f));
    CHECK("abs", FUNCTION(ABS, 0, 0));
    CHECK("exp", FUNCTION(EXP, 0, 0));
    CHECK("log", POSITIVE, FUNCTION(LOG, 0, 0));
    CHECK("sqrt", POSITIVE, FUNCTION(SQRT, 0, 0));
    CHECK("reciprocal", POSITIVE, FUNCTION(RECIPROCAL, 0, 0));
    CHECK("square", FUNCTION(SQUARE, 0, 0));
    CHECK("cube", FUNCTION(POWER, 3.0f, 0));
    CHECK("power", POSITIVE, FUNCTION(POWER, -1.3f, 0));
    CHECK("root", POSITIVE, FUNCTION(POWER, -0.5f, 0));
    CHECK("erf", FUNCTION(ERF, 0, 0));
    CHECK("clip", FUNCTION(CLIP, -0.4f, 0.9f));
    CHECK("elu", FUNCTION(ELU, 1.2f, 0));
    CHECK("selu", FUNCTION(SELU, 1.673f, 1.0507f));
    CHECK("celu", FUNCTION(CELU, 0.6f, 0));
    CHECK("softplus", FUNCTION(SOFTPLUS, 2.0f, 0));
    CHECK("softsign", FUNCTION(SOFTSIGN, 0, 0));
    CHECK("mish", FUNCTION(MISH, 0, 0));
    CHECK("hardsigmoid", FUNCTION(HARDSIGMOID, 0.2f, 0.5f));
    CHECK("hardswish", FUNCTION(HARDSWISH, 0, 0));
    CHECK("threshold", FUNCTION(THRESHOLD, 0.1f, -1.0f));
    CHECK("quick gelu", FUNCTION(QUICK_GELU, 1.702f, 0));
}

#define BOTH_WAYS(title, o, ...)                                                           \
    CHECK(title, POSITIVE, PARAMETER("p", 0.1f, __VA_ARGS__), ARITHMETIC("y", o, "e", "p")); \
    CHECK(title " turned", POSITIVE, PARAMETER("p", 0.1f, __VA_ARGS__),                    \
          ARITHMETIC("y", o, "p", "e"))

static void test_gradient_tensor_arithmetic_broadcasts_a_parameter(void **state)
{
    (void)state;
    BOTH_WAYS("add", ADD, 3, 4, 3, 5);
    BOTH_WAYS("add one", ADD, 1, 1);
    BOTH_WAYS("sub row", SUB, 1, 5);
    BOTH_WAYS("mul channel", MUL, 3, 4, 1, 1);
    BOTH_WAYS("mul middle", MUL, 2, 3, 1);
    BOTH_WAYS("div ends", DIV, 3, 4, 1, 5);
    BOTH_WAYS("pow", POW, 2, 3, 5);
    BOTH_WAYS("min", MIN, 1, 5);
    BOTH_WAYS("max", MAX, 3, 4, 1, 1);
    BOTH_WAYS("grows", MUL, 4, 2, 4, 3, 5);
    CHECK("mask", PARAMETER("p", 0.0f, 2, 3, 5), ARITHMETIC("y", MASK, "front", "p"));
    CHECK("add by its old name", PARAMETER("p", 0.5f, 2, 3, 1),
          {.kind = UW_LAYER_ADD, .name = "y", .inputs = {"front", "p"}});
}

/* Both values depend on the sample; one is a gate or a mean that is repeated. */
static void test_gradient_tensor_arithmetic_broadcasts_a_value(void **state)
{
    (void)state;
    const struct uw_layer_def gate = {.kind = UW_LAYER_REDUCE, .name = "g", .inputs = {"front"},
        .reduce = {.op = UW_REDUCE_MEAN, .axis = 1, .axes = 2, .keep = true}};
    const struct uw_layer_def row = {.kind = UW_LAYER_REDUCE, .name = "g", .inputs = {"front"},
        .reduce = {.op = UW_REDUCE_SUM, .axis = 0, .axes = 2}};
    CHECK("gate", gate, ARITHMETIC("y", MUL, "front", "g"));
    CHECK("add by its old name", gate,
          {.kind = UW_LAYER_ADD, .name = "y", .inputs = {"front", "g"}});
    CHECK("centre", gate, ARITHMETIC("y", SUB, "front", "g"));
    CHECK("row", row, ARITHMETIC("y", MUL, "g", "front"));
    CHECK("itself", ARITHMETIC("y", MUL, "front", "front"));
    CHECK("itself less itself", FUNCTION(SOFTSIGN, 0, 0), ARITHMETIC("y", SUB, "front", "f"));
}

/* Values that no sample reaches are computed once, and train. */
static void test_gradient_tensor_parameters_of_parameters_train(void **state)
{
    (void)state;
    CHECK("weight norm", PARAMETER("v", 0.5f, 3, 4, 3, 5),
          {.kind = UW_LAYER_REDUCE, .name = "n", .inputs = {"v"},
           .reduce = {.op = UW_REDUCE_NORM, .axis = 1, .axes = 2, .keep = true}},
          ARITHMETIC("w", DIV, "v", "n"), ARITHMETIC("y", MUL, "front", "w"));
    CHECK("class token",
          {.kind = UW_LAYER_RESHAPE, .name = "rows", .inputs = {"front"},
           .reshape = {.dim = {4, 15}, .rank = 2}},
          PARAMETER("token", 0.5f, 2, 1, 15),
          {.kind = UW_LAYER_CONCAT, .name = "y", .inputs = {"token", "rows"}});
}

static void test_gradient_tensor_matmul_matches_central_differences(void **state)
{
    (void)state;
    const struct uw_layer_def rows = {.kind = UW_LAYER_RESHAPE, .name = "r", .inputs = {"front"},
        .reshape = {.dim = {4, 5, 3}, .rank = 3}};
#define MATMUL(one, other, ...) {.kind = UW_LAYER_MATMUL, .name = "y", .inputs = {one, other}, \
    .matmul = {__VA_ARGS__}}
    CHECK("of two", rows, MATMUL("front", "r", .scale = 0.5f));
    CHECK("turned", rows, MATMUL("front", "r", .trans_a = true, .trans_b = true));
    CHECK("square", MATMUL("front", "front", .trans_b = true));
    CHECK("square turned", MATMUL("front", "front", .trans_a = true));
    CHECK("weight", PARAMETER("w", 0.5f, 2, 5, 6), MATMUL("front", "w", .scale = 0));
    CHECK("weight turned", PARAMETER("w", 0.5f, 2, 6, 5), MATMUL("front", "w", .trans_b = true));
    CHECK("weight in front", PARAMETER("w", 0.5f, 2, 6, 3), MATMUL("w", "front", .scale = 0));
    CHECK("weight in front turned", PARAMETER("w", 0.5f, 2, 3, 6),
          MATMUL("w", "front", .trans_a = true));
    CHECK("weights", PARAMETER("w", 0.5f, 3, 4, 5, 2), MATMUL("front", "w", .scale = 0));
    CHECK("four axes", PARAMETER("w", 0.5f, 4, 2, 1, 5, 2), MATMUL("front", "w", .scale = 0));
#undef MATMUL
}

static void test_gradient_tensor_reductions_match_central_differences(void **state)
{
    (void)state;
    for (int op = UW_REDUCE_MEAN; op <= UW_REDUCE_NORM; op++) {
        for (uint32_t axis = 0; axis < 3; axis++) {
            for (uint32_t axes = 1; axes <= 3 - axis; axes++) {
                const struct uw_layer_def r = {.kind = UW_LAYER_REDUCE, .name = "y",
                    .reduce = {.op = (enum uw_reduction)op, .axis = axis, .axes = axes,
                               .keep = axes % 2 == 0}};
                CHECK("reduce", r);
            }
        }
    }
}

static void test_gradient_tensor_softmax_matches_central_differences(void **state)
{
    (void)state;
    for (int log = 0; log < 2; log++) {
        const struct uw_layer_def s = {.kind = UW_LAYER_SOFTMAX, .name = "y",
                                       .softmax = {.log = log == 1}};
        CHECK("softmax", s);
        CHECK("softmax of a row", FLATTEN("row"), s);
        CHECK("softmax beside its input", s, ARITHMETIC("z", MUL, "y", "front"));
    }
}

static void test_gradient_tensor_take_matches_central_differences(void **state)
{
    (void)state;
    static const int32_t padded[] = {-1, -1, 0, 1, 2}, twice[] = {0, 0, 1, 1, 2, 2, 3, 3};
    static const int32_t back[] = {4, 2, 0}, mixed[] = {0, 1, 1, 2, 3, -1};
    static const float weight[] = {0.25f, 0.75f, 0.5f, 0.5f, 1.0f, 9.0f};
#define TAKE(...) {.kind = UW_LAYER_TAKE, .name = "y", .take = {__VA_ARGS__}}
    CHECK("pad", TAKE(.axis = 1, .n = 5, .index = padded));
    CHECK("upsample", TAKE(.axis = 0, .n = 8, .index = twice));
    CHECK("backwards", TAKE(.axis = 2, .n = 3, .index = back));
    CHECK("mix", TAKE(.axis = 2, .n = 3, .taps = 2, .index = mixed, .weight = weight));
    CHECK("mix channels", TAKE(.axis = 0, .n = 3, .taps = 2, .index = mixed, .weight = weight));
    CHECK("add to itself", TAKE(.axis = 2, .n = 5, .index = (const int32_t[]){1, 2, 3, 4, 0}),
          ARITHMETIC("z", ADD, "front", "y"));
#undef TAKE
}

/* Orders of four axes that are two or three blocks; others are refused. */
static void test_gradient_tensor_transposes_of_four_axes(void **state)
{
    (void)state;
    static const uint32_t orders[][4] = {{0, 2, 1, 3}, {0, 3, 1, 2}, {0, 3, 2, 1}, {1, 2, 3, 0},
                                         {2, 3, 0, 1}, {1, 0, 2, 3}, {0, 1, 3, 2}, {3, 0, 1, 2},
                                         {0, 1, 2, 3}, {2, 0, 1, 3}};
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        const uint32_t *o = orders[i];
        const struct uw_layer_def t = {.kind = UW_LAYER_TRANSPOSE, .name = "y",
            .transpose = {.order = {o[0], o[1], o[2], o[3]}}};
        CHECK("transpose", {.kind = UW_LAYER_RESHAPE, .name = "four",
                            .reshape = {.dim = {2, 2, 3, 5}, .rank = 4}},
              t, PARAMETER("w", 0.5f, 2, 3, 1),
              {.kind = UW_LAYER_RESHAPE, .name = "three", .inputs = {"y"},
               .reshape = {.dim = {4, 3, 5}, .rank = 3}}, ARITHMETIC("z", MUL, "three", "w"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradient_tensor_functions_match_central_differences),
        cmocka_unit_test(test_gradient_tensor_arithmetic_broadcasts_a_parameter),
        cmocka_unit_test(test_gradient_tensor_arithmetic_broadcasts_a_value),
        cmocka_unit_test(test_gradient_tensor_parameters_of_parameters_train),
        cmocka_unit_test(test_gradient_tensor_matmul_matches_central_differences),
        cmocka_unit_test(test_gradient_tensor_reductions_match_central_differences),
        cmocka_unit_test(test_gradient_tensor_softmax_matches_central_differences),
        cmocka_unit_test(test_gradient_tensor_take_matches_central_differences),
        cmocka_unit_test(test_gradient_tensor_transposes_of_four_axes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
