/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel contract: activations against their definitions in double, and dropout. */
#include "test_kernels.h"

#include "double_operators.h"

static double phi(double x)
{
    return exp(-0.5 * x * x) / sqrt(2.0 * 3.14159265358979323846);
}

/* f(x); *slope is f'(x). */
static double activation_in_double(const struct uw_activation *a, double x, double *slope)
{
    double s = 1.0 / (1.0 + exp(-x)), root = 0.79788456080286535588, below, t, u;

    switch (a->kind) {
    case UW_ACTIVATION_RELU6:
        *slope = x > 0.0 && x < 6.0 ? 1.0 : 0.0;
        return fmin(fmax(x, 0.0), 6.0);
    case UW_ACTIVATION_LEAKY_RELU:
        *slope = x > 0.0 ? 1.0 : (double)a->slope;
        return x > 0.0 ? x : (double)a->slope * x;
    case UW_ACTIVATION_SIGMOID:
        *slope = s * (1.0 - s);
        return s;
    case UW_ACTIVATION_TANH:
        t = tanh(x);
        *slope = 1.0 - t * t;
        return t;
    case UW_ACTIVATION_GELU:
        below = 0.5 * (1.0 + erf(x / sqrt(2.0)));
        *slope = below + x * phi(x);
        return x * below;
    case UW_ACTIVATION_GELU_TANH:
        u = root * (x + 0.044715 * x * x * x);
        t = tanh(u);
        *slope = 0.5 * (1.0 + t) +
                 0.5 * x * (1.0 - t * t) * root * (1.0 + 3.0 * 0.044715 * x * x);
        return 0.5 * x * (1.0 + t);
    default:
        *slope = s * (1.0 + x * (1.0 - s));
        return x * s;
    }
}

static const size_t lengths[] = {0, 1, 3, 7, 8, 9, 15, 16, 17, 33, 16384, 40001};
#define LENGTHS_N (sizeof lengths / sizeof *lengths)

static void check_activation(const struct uw_activation *a, size_t n, float spread)
{
    const struct uw_activation_kernels *k = uw_test_table()->activation;
    struct uw_test_exec e;
    float *x = uw_test_random_floats(n), *dy = uw_test_random_floats(n);
    float *y = uw_test_floats(n), *dx = uw_test_floats(n), *sum = uw_test_random_floats(n);
    for (size_t i = 0; i < n; i++) {
        x[i] *= spread;
    }
    float *sum0 = uw_test_copy_floats(n, sum);
    bool of_x = a->kind >= UW_ACTIVATION_GELU;
    uw_test_exec_begin(&e, 3, 0);
    assert_int_equal(k->forward(&e.exec, a, n, x, y), UW_OK);
    assert_int_equal(k->bw_input(&e.exec, a, n, of_x ? x : y, dy, dx, false), UW_OK);
    assert_int_equal(k->bw_input(&e.exec, a, n, of_x ? x : y, dy, sum, true), UW_OK);
    for (size_t i = 0; i < n; i++) {
        double slope, want = activation_in_double(a, (double)x[i], &slope);
        double bound = a->kind == UW_ACTIVATION_SIGMOID ? 5e-7 * want + 0x1p-149
                                                        : 5e-7 * (1.0 + fabs((double)x[i]));
        uw_test_assert_near((double)y[i], want, bound);
        bound = 1e-6 * (1.0 + fabs((double)x[i]));
        uw_test_assert_near((double)dx[i], slope * (double)dy[i], bound);
        uw_test_assert_near((double)sum[i], (double)sum0[i] + slope * (double)dy[i], bound);
    }
    assert_int_equal(k->bw_input(&e.exec, a, n, of_x ? x : y, dy, dy, false), UW_OK);
    uw_test_assert_same_bits(n, dy, dx);
    assert_int_equal(k->forward(&e.exec, a, n, x, x), UW_OK);
    uw_test_assert_same_bits(n, x, y);
    float *const blocks[] = {x, dy, y, dx, sum, sum0};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        uw_test_release(blocks[i]);
    }
    uw_test_exec_end(&e);
}

static void test_activations_match_definition(void **state)
{
    (void)state;
    for (int kind = 0; kind <= UW_ACTIVATION_SILU; kind++) {
        struct uw_activation a = {.kind = (enum uw_activation_kind)kind, .slope = 0.125f};
        for (size_t l = 0; l < LENGTHS_N; l++) {
            check_activation(&a, lengths[l], 1.0f);
            check_activation(&a, lengths[l], 8.0f);
        }
        check_activation(&a, 4001, 110.0f);
    }
}

static void test_activations_nan_stays_and_the_ends_saturate(void **state)
{
    (void)state;
    const struct uw_activation_kernels *k = uw_test_table()->activation;
    static const float low[] = {0.0f, -INFINITY, 0.0f, -1.0f, NAN, NAN, NAN};
    static const float high[] = {6.0f, INFINITY, 1.0f, 1.0f, INFINITY, INFINITY, INFINITY};
    for (int kind = 0; kind <= UW_ACTIVATION_SILU; kind++) {
        struct uw_activation a = {.kind = (enum uw_activation_kind)kind, .slope = 0.125f};
        for (uint32_t n = 3; n <= 16; n++) {
            float x[16] = {NAN, -INFINITY, INFINITY}, y[16], dx[16];
            float dy[16] = {1.0f, NAN, 1.0f};
            struct uw_test_exec e;
            uw_test_exec_begin(&e, 1, 0);
            assert_int_equal(k->forward(&e.exec, &a, n, x, y), UW_OK);
            assert_true(isnan(y[0]));
            assert_true(isnan(low[kind]) ? isnan(y[1]) : y[1] == low[kind]);
            assert_true(y[2] == high[kind]);
            if (n > 3) {
                assert_true(y[3] == (kind == UW_ACTIVATION_SIGMOID ? 0.5f : 0.0f));
            }
            x[1] = 1.0f;            /* an open place: the gradient's NaN passes */
            assert_int_equal(k->bw_input(&e.exec, &a, n, x, dy, dx, false), UW_OK);
            assert_true(isnan(dx[1]));
            if (kind > UW_ACTIVATION_LEAKY_RELU) {
                assert_true(isnan(dx[0]));
            }
            uw_test_exec_end(&e);
        }
    }
}

static bool wants_positive(enum uw_function f)
{
    return f == UW_FUNCTION_LOG || f == UW_FUNCTION_SQRT || f == UW_FUNCTION_RECIPROCAL ||
           f == UW_FUNCTION_POWER;
}

static void check_function(enum uw_function f, float a, float b, size_t n, float spread)
{
    const struct uw_activation_kernels *k = uw_test_table()->activation;
    const struct uw_activation act = {.kind = UW_ACTIVATION_FUNCTION + f, .a = a, .b = b};
    float *x = uw_test_random_floats(n), *dy = uw_test_random_floats(n);
    float *y = uw_test_floats(n), *dx = uw_test_floats(n), *sum = uw_test_random_floats(n);
    float *before = uw_test_copy_floats(n, sum);
    struct uw_test_exec e;

    for (size_t i = 0; i < n; i++) {
        x[i] = wants_positive(f) ? 0.1f + fabsf(x[i]) * spread : x[i] * spread;
    }
    uw_test_exec_begin(&e, 3, 0);
    assert_int_equal(k->forward(&e.exec, &act, n, x, y), UW_OK);
    assert_int_equal(k->bw_input(&e.exec, &act, n, x, dy, dx, false), UW_OK);
    assert_int_equal(k->bw_input(&e.exec, &act, n, x, dy, sum, true), UW_OK);
    for (size_t i = 0; i < n; i++) {
        double at = (double)x[i], da = (double)a, db = (double)b, step = 1e-6 * (1.0 + fabs(at));
        double want = double_function(f, da, db, at);
        double over = double_function(f, da, db, at + step);
        double under = double_function(f, da, db, at - step);
        uw_test_assert_near((double)y[i], want, 2e-6 * (1.0 + fabs(want)));
        if (fabs((over - want) - (want - under)) > 1e-3 * step * (1.0 + fabs(want))) {
            continue;               /* a kink: either side */
        }
        double slope = (over - under) / (2.0 * step) * (double)dy[i];
        uw_test_assert_near((double)dx[i], slope, 1e-5 * (1.0 + fabs(slope)));
        uw_test_assert_near((double)sum[i], (double)before[i] + slope, 1e-5 * (1.0 + fabs(slope)));
    }
    assert_int_equal(k->bw_input(&e.exec, &act, n, x, dy, dy, false), UW_OK);
    uw_test_assert_same_bits(n, dy, dx);
    assert_int_equal(k->forward(&e.exec, &act, n, x, x), UW_OK);
    uw_test_assert_same_bits(n, x, y);
    float *const blocks[] = {x, dy, y, dx, sum, before};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        uw_test_release(blocks[i]);
    }
    uw_test_exec_end(&e);
}

static const float numbers[][2] = {
    [UW_FUNCTION_SCALE] = {0.7f, -0.3f}, [UW_FUNCTION_POWER] = {-1.3f, 0.0f},
    [UW_FUNCTION_CLIP] = {-0.4f, 0.9f}, [UW_FUNCTION_ELU] = {1.2f, 0.0f},
    [UW_FUNCTION_SELU] = {1.67f, 1.05f}, [UW_FUNCTION_CELU] = {0.6f, 0.0f},
    [UW_FUNCTION_SOFTPLUS] = {2.0f, 0.0f}, [UW_FUNCTION_HARDSIGMOID] = {0.2f, 0.5f},
    [UW_FUNCTION_THRESHOLD] = {0.1f, -1.0f}, [UW_FUNCTION_QUICK_GELU] = {1.702f, 0.0f},
    [UW_FUNCTION_STEP] = {0.1f, 0.0f}};

/* A device has no kernels for functions yet. */
static void test_functions_match_definition(void **state)
{
    (void)state;
    for (int f = 0; f <= UW_FUNCTION_STEP && !uw_test_has_no_tensors(); f++) {
        for (size_t l = 0; l < LENGTHS_N; l++) {
            check_function((enum uw_function)f, numbers[f][0], numbers[f][1], lengths[l], 1.0f);
        }
        check_function((enum uw_function)f, numbers[f][0], numbers[f][1], 4001, 8.0f);
    }
}

static float function_at(enum uw_function f, float a, float x)
{
    const struct uw_exec e = {.kernels = uw_test_table()};
    const struct uw_activation act = {.kind = UW_ACTIVATION_FUNCTION + f, .a = a, .b = 1.0f};
    float y = 0.0f;
    assert_int_equal(uw_test_table()->activation->forward(&e, &act, 1, &x, &y), UW_OK);
    return y;
}

static void test_functions_edges(void **state)
{
    (void)state;
    if (uw_test_has_no_tensors()) {
        return;
    }
    for (int f = 0; f < UW_FUNCTION_STEP; f++) {
        assert_true(isnan(function_at((enum uw_function)f, 0.5f, NAN)));
    }
    assert_true(function_at(UW_FUNCTION_STEP, 0.5f, NAN) == 0.0f);
    assert_true(isinf(function_at(UW_FUNCTION_LOG, 0.0f, 0.0f)));
    assert_true(isnan(function_at(UW_FUNCTION_LOG, 0.0f, -1.0f)));
    assert_true(isnan(function_at(UW_FUNCTION_SQRT, 0.0f, -1.0f)));
    assert_true(isinf(function_at(UW_FUNCTION_RECIPROCAL, 0.0f, 0.0f)));
    uw_test_assert_near((double)function_at(UW_FUNCTION_POWER, 3.0f, -2.0f), -8.0, 1e-5);
    assert_true(isnan(function_at(UW_FUNCTION_POWER, 0.5f, -2.0f)));
    assert_true(function_at(UW_FUNCTION_POWER, 0.0f, -2.0f) == 1.0f);
    assert_true(function_at(UW_FUNCTION_EXP, 0.0f, -200.0f) == 0.0f);
    assert_true(function_at(UW_FUNCTION_SOFTPLUS, 1.0f, 200.0f) == 200.0f);
    assert_true(function_at(UW_FUNCTION_SOFTPLUS, 1.0f, -200.0f) == 0.0f);
    assert_true(function_at(UW_FUNCTION_THRESHOLD, 0.5f, 0.5f) == 1.0f);
}

/* The spread of equal values has a gradient, as in PyTorch: none. */
static void test_root_of_zero_has_no_gradient(void **state)
{
    const struct uw_exec e = {.kernels = uw_test_table()};
    const struct uw_activation act = {.kind = UW_ACTIVATION_FUNCTION + UW_FUNCTION_SQRT};
    const float x[3] = {0.0f, -0.0f, 4.0f}, dy[3] = {1.0f, 1.0f, 2.0f};
    float dx[3] = {NAN, NAN, NAN};
    (void)state;
    if (uw_test_has_no_tensors()) {
        return;
    }
    assert_int_equal(uw_test_table()->activation->bw_input(&e, &act, 3, x, dy, dx, false), UW_OK);
    assert_true(dx[0] == 0.0f && dx[1] == 0.0f);
    uw_test_assert_near((double)dx[2], 0.5, 1e-6);
}

static void test_dropout_depends_on_place_not_on_call(void **state)
{
    (void)state;
    const struct uw_activation_kernels *k = uw_test_table()->activation;
    const size_t n = 40001, cut = 17003;
    const struct uw_dropout d = {.noise = 99, .layer = 3, .rate = 0.25f};
    struct uw_test_exec e;
    uw_test_exec_begin(&e, 3, 0);
    float *x = uw_test_random_floats(n), *y = uw_test_floats(n), *parts = uw_test_floats(n);
    x[5] = NAN;
    assert_int_equal(k->dropout(&e.exec, &d, 7, n, x, y, false), UW_OK);
    assert_int_equal(k->dropout(&e.exec, &d, 7, cut, x, parts, false), UW_OK);
    assert_int_equal(k->dropout(&e.exec, &d, 7 + cut, n - cut, x + cut, parts + cut,
                                false), UW_OK);
    uw_test_assert_same_bits(n, parts, y);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        bool zero = y[i] == 0.0f;
        kept += zero ? 0 : 1;
        assert_true(isnan(x[i]) ? isnan(y[i]) : zero || fabsf(y[i] - x[i] / 0.75f) < 1e-6f);
    }
    uw_test_assert_near((double)kept / (double)n, 0.75, 0.02);
    assert_int_equal(k->dropout(&e.exec, &d, 7, n, x, parts, true), UW_OK);
    for (size_t i = 0; i < n; i++) {
        assert_true(isnan(y[i]) ? isnan(parts[i]) : parts[i] == y[i] + y[i]);
    }
    uw_test_release(x);
    uw_test_release(y);
    uw_test_release(parts);
    uw_test_exec_end(&e);
}

const struct CMUnitTest uw_test_activation[] = {
    cmocka_unit_test(test_activations_match_definition),
    cmocka_unit_test(test_activations_nan_stays_and_the_ends_saturate),
    cmocka_unit_test(test_functions_match_definition),
    cmocka_unit_test(test_functions_edges),
    cmocka_unit_test(test_root_of_zero_has_no_gradient),
    cmocka_unit_test(test_dropout_depends_on_place_not_on_call),
};
const size_t uw_test_activation_n = sizeof uw_test_activation / sizeof *uw_test_activation;
