/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel contract: arithmetic with broadcasting, reductions, log-softmax and picks along an axis
 * against loops in double, and functions of each element. A table with a device has none of them
 * yet and says so. */
#include "test_kernels.h"

#include "double_operators.h"

#define AXES UW_TENSOR_AXES
#define OPS_N (UW_ARITHMETIC_MASK + 1)

static const struct uw_tensor_kernels *slots(void)
{
    return uw_test_table()->tensor;
}

static void release_all(float *const *blocks, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uw_test_release(blocks[i]);
    }
}
#define RELEASE(...)                                                    \
    release_all((float *const[]){__VA_ARGS__},                          \
                sizeof (float *const[]){__VA_ARGS__} / sizeof(float *))

/* ---- arithmetic ---- */

static double derivative_of(enum uw_arithmetic_op op, uint32_t which, double a, double b)
{
    double half = a == b ? 0.5 : 0.0;
    switch (op) {
    case UW_ARITHMETIC_ADD:
        return 1.0;
    case UW_ARITHMETIC_SUB:
        return which == 0 ? 1.0 : -1.0;
    case UW_ARITHMETIC_MUL:
        return which == 0 ? b : a;
    case UW_ARITHMETIC_DIV:
        return which == 0 ? 1.0 / b : -a / (b * b);
    case UW_ARITHMETIC_POW:
        return which == 0 ? b * pow(a, b - 1.0) : a > 0.0 ? pow(a, b) * log(a) : 0.0;
    case UW_ARITHMETIC_MIN:
        return (which == 0) == (a < b) ? 1.0 - half : half;
    case UW_ARITHMETIC_MAX:
        return (which == 0) == (a > b) ? 1.0 - half : half;
    case UW_ARITHMETIC_MASK:
        break;
    }
    return which == 0 && b != 0.0 ? 1.0 : 0.0;
}

/* Floats of an operand, and of y. */
static size_t floats_of(const struct uw_arithmetic *g, int operand)
{
    size_t n = 1;
    for (uint32_t i = 0; i < AXES; i++) {
        n *= operand < 2 && g->step[operand][i] == 0 ? 1 : g->dim[i];
    }
    return n;
}

/* Where an element of y is in the operands. */
static void place_of(const struct uw_arithmetic *g, size_t element, size_t at[2])
{
    at[0] = at[1] = 0;
    for (uint32_t i = AXES; i-- > 0;) {
        size_t k = element % g->dim[i];
        element /= g->dim[i];
        at[0] += k * g->step[0][i];
        at[1] += k * g->step[1][i];
    }
}

/* An operand, with numbers that the operation takes; some of the two are equal. */
static float *operand_of(const struct uw_arithmetic *g, int which)
{
    size_t n = floats_of(g, which);
    float *x = uw_test_random_floats(n);
    for (size_t i = 0; i < n; i++) {
        if (g->op == UW_ARITHMETIC_POW || (g->op == UW_ARITHMETIC_DIV && which == 1)) {
            x[i] = 0.3f + fabsf(x[i]) * 2.0f;
        } else if (g->op >= UW_ARITHMETIC_MIN) {
            x[i] = (float)((int)uw_test_below(5) - 2) / 2.0f;
        }
    }
    return x;
}

static void check_arithmetic(const struct uw_arithmetic *g, uint32_t threads)
{
    size_t n = floats_of(g, 2);
    float *in[2] = {operand_of(g, 0), operand_of(g, 1)};
    float *dy = uw_test_random_floats(n), *y = uw_test_floats(n);
    struct uw_test_exec e;
    size_t at[2];

    uw_test_exec_begin(&e, threads, 0);
    assert_int_equal(slots()->arithmetic_fw(&e.exec, g, in[0], in[1], y), UW_OK);
    for (size_t i = 0; i < n; i++) {
        place_of(g, i, at);
        double want = double_combine(g->op, (double)in[0][at[0]], (double)in[1][at[1]]);
        uw_test_assert_near((double)y[i], want, 2e-6 * (1.0 + fabs(want)));
    }
    for (uint32_t which = 0; which < 2; which++) {
        size_t dx_n = floats_of(g, (int)which);
        float *dx = uw_test_random_floats(dx_n), *sum = uw_test_random_floats(dx_n);
        float *before = uw_test_copy_floats(dx_n, sum);
        struct uw_sum *want = calloc(dx_n, sizeof *want);
        assert_non_null(want);
        for (size_t i = 0; i < n; i++) {
            place_of(g, i, at);
            double d = derivative_of(g->op, which, (double)in[0][at[0]], (double)in[1][at[1]]);
            uw_sum_add(&want[at[which]], d * (double)dy[i]);
        }
        int rc = slots()->arithmetic_bw(&e.exec, g, which, in[0], in[1], dy, dx, false);
        assert_int_equal(rc, UW_OK);
        rc = slots()->arithmetic_bw(&e.exec, g, which, in[0], in[1], dy, sum, true);
        assert_int_equal(rc, UW_OK);
        for (size_t i = 0; i < dx_n; i++) {
            uw_test_assert_near((double)dx[i], want[i].value, 2e-6 * (1.0 + want[i].size));
            uw_test_assert_near((double)sum[i], (double)before[i] + want[i].value,
                                2e-6 * (1.0 + want[i].size));
        }
        free(want);
        RELEASE(dx, sum, before);
    }
    uw_test_exec_end(&e);
    RELEASE(in[0], in[1], dy, y);
}

/* A geometry whose operand k repeats axis i where bit i of repeats[k] is set. */
static struct uw_arithmetic geometry(enum uw_arithmetic_op op, const uint32_t dim[AXES],
                                     const uint32_t repeats[2])
{
    struct uw_arithmetic g = {.op = op};
    uint32_t n[2] = {1, 1};
    for (uint32_t i = AXES; i-- > 0;) {
        g.dim[i] = dim[i];
        for (uint32_t k = 0; k < 2; k++) {
            bool repeated = (repeats[k] & 1u << i) != 0 || dim[i] == 1;
            g.step[k][i] = repeated ? 0 : n[k];
            n[k] *= repeated ? 1 : dim[i];
        }
    }
    return g;
}

static void test_arithmetic_broadcasts_every_set_of_axes(void **state)
{
    (void)state;
    static const uint32_t shapes[][AXES] = {{2, 3, 1, 4, 5}, {1, 1, 1, 1, 1}, {3, 2, 2, 2, 1}};
    for (int op = 0; op < OPS_N && !uw_test_has_no_tensors(); op++) {
        for (uint32_t set = 0; set < 1u << AXES; set++) {
            for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
                const uint32_t none = 0, other = uw_test_below(1u << AXES);
                const uint32_t repeats[3][2] = {{set, none}, {none, set}, {set, other & ~set}};
                struct uw_arithmetic g =
                    geometry((enum uw_arithmetic_op)op, shapes[s], repeats[(set + s) % 3]);
                check_arithmetic(&g, 1 + 2 * (set % 2));
            }
        }
    }
}

/* Rows longer than a piece of the gradient, and axes that are divided among tasks. */
static void test_arithmetic_of_large_operands(void **state)
{
    (void)state;
    static const uint32_t shapes[][AXES] = {{3, 1, 1, 1, 20011}, {70001, 1, 1, 1, 1},
                                            {5, 1, 7, 601, 3}, {2, 1, 1, 300, 301}};
    for (int op = 0; op < OPS_N && !uw_test_has_no_tensors(); op++) {
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            const uint32_t repeats[4][2] = {{0, 0}, {0, 1u << 4}, {1u, 0}, {0, 31}};
            struct uw_arithmetic g = geometry((enum uw_arithmetic_op)op, shapes[s],
                                              repeats[((size_t)op + s) % 4]);
            check_arithmetic(&g, 3);
        }
    }
}

/* One element of two operands: the value, and both derivatives. */
static void one(enum uw_arithmetic_op op, float a, float b, float out[3])
{
    const struct uw_arithmetic g = {.op = op, .dim = {1, 1, 1, 1, 1}};
    const struct uw_exec e = {.kernels = uw_test_table()};
    const float dy = 1.0f;
    assert_int_equal(slots()->arithmetic_fw(&e, &g, &a, &b, &out[0]), UW_OK);
    assert_int_equal(slots()->arithmetic_bw(&e, &g, 0, &a, &b, &dy, &out[1], false), UW_OK);
    assert_int_equal(slots()->arithmetic_bw(&e, &g, 1, &a, &b, &dy, &out[2], false), UW_OK);
}

static void test_arithmetic_edges(void **state)
{
    (void)state;
    float r[3];
    if (uw_test_has_no_tensors()) {
        return;
    }
    for (int op = 0; op < OPS_N; op++) {    /* NaN wins, but where the mask is 0 */
        one((enum uw_arithmetic_op)op, NAN, 1.0f, r);
        assert_true(isnan(r[0]));
        if (op != UW_ARITHMETIC_MASK) {
            one((enum uw_arithmetic_op)op, 0.5f, NAN, r);
            assert_true(isnan(r[0]));
        }
    }
    one(UW_ARITHMETIC_MASK, NAN, 0.0f, r);
    assert_true(r[0] == 0.0f && r[1] == 0.0f && r[2] == 0.0f);
    one(UW_ARITHMETIC_MAX, 2.0f, 2.0f, r);
    assert_true(r[0] == 2.0f && r[1] == 0.5f && r[2] == 0.5f);
    one(UW_ARITHMETIC_MIN, -2.0f, -2.0f, r);
    assert_true(r[0] == -2.0f && r[1] == 0.5f && r[2] == 0.5f);
    one(UW_ARITHMETIC_POW, -2.0f, 3.0f, r);
    uw_test_assert_near((double)r[0], -8.0, 1e-5);
    uw_test_assert_near((double)r[1], 12.0, 1e-5);
    assert_true(r[2] == 0.0f);
    one(UW_ARITHMETIC_POW, -2.0f, 0.5f, r);
    assert_true(isnan(r[0]));
    one(UW_ARITHMETIC_POW, 0.0f, 0.0f, r);
    assert_true(r[0] == 1.0f && r[1] == 0.0f && r[2] == 0.0f);
    one(UW_ARITHMETIC_POW, 0.0f, 2.0f, r);
    assert_true(r[0] == 0.0f && r[1] == 0.0f && r[2] == 0.0f);
    one(UW_ARITHMETIC_DIV, 1.0f, 0.0f, r);
    assert_true(isinf(r[0]) && isinf(r[1]));
}

/* ---- reductions ---- */

static double reduced(const struct uw_reduce *r, const float *x, uint32_t *equal)
{
    double sum = 0.0, squares = 0.0, best = (double)x[0];
    for (uint32_t k = 0; k < r->n; k++) {
        double v = (double)x[k * r->inner];
        sum += v;
        squares += v * v;
        best = (r->op == UW_REDUCE_MAX ? v > best : v < best) ? v : best;
    }
    *equal = 0;
    for (uint32_t k = 0; k < r->n; k++) {
        *equal += (double)x[k * r->inner] == best ? 1 : 0;
    }
    return r->op == UW_REDUCE_MEAN ? sum / r->n
           : r->op == UW_REDUCE_SUM ? sum
           : r->op == UW_REDUCE_NORM ? sqrt(squares)
                                     : best;
}

static double reduced_slope(const struct uw_reduce *r, double x, double y, uint32_t equal)
{
    switch (r->op) {
    case UW_REDUCE_MEAN:
        return 1.0 / r->n;
    case UW_REDUCE_SUM:
        return 1.0;
    case UW_REDUCE_NORM:
        return y > 0.0 ? x / y : 0.0;
    default:
        return x == y ? 1.0 / equal : 0.0;
    }
}

static void check_reduce(const struct uw_reduce *r, uint32_t threads)
{
    size_t out_n = r->outer * r->inner, in_n = out_n * r->n;
    float *x = uw_test_random_floats(in_n), *dy = uw_test_random_floats(out_n);
    float *y = uw_test_floats(out_n), *dx = uw_test_floats(in_n);
    float *sum = uw_test_random_floats(in_n);
    struct uw_test_exec e;

    for (size_t i = 0; i < in_n; i++) {     /* ties, and in the first row zeros only */
        x[i] = r->op >= UW_REDUCE_MAX && r->op <= UW_REDUCE_MIN ? roundf(x[i] * 4.0f) : x[i];
        x[i] = i < r->n * r->inner ? 0.0f : x[i];
    }
    float *before = uw_test_copy_floats(in_n, sum);
    uw_test_exec_begin(&e, threads, 0);
    assert_int_equal(slots()->reduce_fw(&e.exec, r, x, y), UW_OK);
    assert_int_equal(slots()->reduce_bw(&e.exec, r, x, y, dy, dx, false), UW_OK);
    assert_int_equal(slots()->reduce_bw(&e.exec, r, x, y, dy, sum, true), UW_OK);
    for (size_t o = 0; o < r->outer; o++) {
        for (size_t i = 0; i < r->inner; i++) {
            const float *row = x + o * r->n * r->inner + i;
            uint32_t equal;
            double want = reduced(r, row, &equal), d = (double)dy[o * r->inner + i];
            uw_test_assert_near((double)y[o * r->inner + i], want, 1e-6 * (1.0 + fabs(want)));
            for (uint32_t k = 0; k < r->n; k++) {
                size_t at = (o * r->n + k) * r->inner + i;
                double slope = reduced_slope(r, (double)row[k * r->inner], want, equal) * d;
                uw_test_assert_near((double)dx[at], slope, 1e-6);
                uw_test_assert_near((double)sum[at], (double)before[at] + slope, 1e-6);
            }
        }
    }
    uw_test_exec_end(&e);
    RELEASE(x, dy, y, dx, sum, before);
}

static void test_reductions_match_definition(void **state)
{
    (void)state;
    static const struct { size_t outer; uint32_t n; size_t inner; } sizes[] = {
        {1, 1, 1}, {3, 1, 2}, {2, 5, 1}, {4, 3, 7}, {1, 40009, 1}, {300, 9, 17}, {2, 33, 601}};
    for (int op = UW_REDUCE_MEAN; op <= UW_REDUCE_NORM && !uw_test_has_no_tensors(); op++) {
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            const struct uw_reduce r = {.op = (enum uw_reduction)op, .outer = sizes[s].outer,
                                        .inner = sizes[s].inner, .n = sizes[s].n};
            check_reduce(&r, 1);
            check_reduce(&r, 3);
        }
    }
}

static void test_reductions_show_nan(void **state)
{
    (void)state;
    const struct uw_exec e = {.kernels = uw_test_table()};
    for (int op = UW_REDUCE_MEAN; op <= UW_REDUCE_NORM && !uw_test_has_no_tensors(); op++) {
        for (uint32_t at = 0; at < 3; at++) {
            const struct uw_reduce r = {.op = (enum uw_reduction)op, .outer = 1, .inner = 1,
                                        .n = 3};
            float x[3] = {1.0f, -2.0f, 3.0f}, y = 0.0f;
            x[at] = NAN;
            assert_int_equal(slots()->reduce_fw(&e, &r, x, &y), UW_OK);
            assert_true(isnan(y));
        }
    }
}

/* ---- log-softmax ---- */

static void check_log_softmax(size_t rows, uint32_t n, float spread)
{
    const struct uw_exec e = {.kernels = uw_test_table()};
    size_t all = rows * n;
    float *x = uw_test_random_floats(all), *dy = uw_test_random_floats(all);
    float *y = uw_test_floats(all), *dx = uw_test_floats(all);
    for (size_t i = 0; i < all; i++) {
        x[i] *= spread;
    }
    assert_int_equal(slots()->log_softmax_fw(&e, rows, n, x, y), UW_OK);
    assert_int_equal(slots()->log_softmax_bw(&e, rows, n, y, dy, dx), UW_OK);
    for (size_t r = 0; r < rows; r++) {
        const float *row = x + r * n;
        double top = -INFINITY, sum = 0.0, dy_sum = 0.0;
        for (uint32_t k = 0; k < n; k++) {
            top = fmax(top, (double)row[k]);
            dy_sum += (double)dy[r * n + k];
        }
        for (uint32_t k = 0; k < n; k++) {
            sum += exp((double)row[k] - top);
        }
        for (uint32_t k = 0; k < n; k++) {
            double want = (double)row[k] - top - log(sum);
            uw_test_assert_near((double)y[r * n + k], want, 2e-6 * (1.0 + fabs(want)));
            want = (double)dy[r * n + k] - exp(want) * dy_sum;
            uw_test_assert_near((double)dx[r * n + k], want, 4e-6 * (1.0 + fabs(dy_sum)));
        }
    }
    float *same = uw_test_copy_floats(all, x);      /* y may be x, dx may be dy */
    assert_int_equal(slots()->log_softmax_fw(&e, rows, n, same, same), UW_OK);
    uw_test_assert_same_bits(all, same, y);
    assert_int_equal(slots()->log_softmax_bw(&e, rows, n, y, dy, dy), UW_OK);
    uw_test_assert_same_bits(all, dy, dx);
    RELEASE(x, dy, y, dx, same);
}

static void test_log_softmax_matches_definition(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 2, 7, 8, 9, 33, 1001};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes && !uw_test_has_no_tensors(); s++) {
        check_log_softmax(5, sizes[s], 1.0f);
        check_log_softmax(1, sizes[s], 90.0f);
        check_log_softmax(64, sizes[s], 8.0f);
    }
}

static void test_log_softmax_shows_nan(void **state)
{
    (void)state;
    const struct uw_exec e = {.kernels = uw_test_table()};
    const float x[6] = {1.0f, NAN, 2.0f, 1.0f, 2.0f, 3.0f};
    float y[6] = {0};
    if (uw_test_has_no_tensors()) {
        return;
    }
    assert_int_equal(slots()->log_softmax_fw(&e, 2, 3, x, y), UW_OK);
    assert_true(isnan(y[0]) && isnan(y[1]) && isnan(y[2]) && isfinite(y[3]));
}

/* ---- picks ---- */

static void check_take(size_t outer, uint32_t in, size_t inner, uint32_t out, uint32_t taps,
                       bool weighted)
{
    size_t x_n = outer * in * inner, y_n = outer * out * inner, table_n = (size_t)out * taps;
    int32_t *index = uw_test_block(table_n * sizeof *index);
    float *weight = uw_test_random_floats(table_n);
    for (size_t i = 0; i < table_n; i++) {
        index[i] = (int32_t)uw_test_below(in + 1) - 1;
    }
    const struct uw_take t = {.outer = outer, .inner = inner, .in = in, .out = out, .taps = taps,
                              .index = index, .weight = weighted ? weight : NULL};
    float *x = uw_test_random_floats(x_n), *dy = uw_test_random_floats(y_n);
    float *y = uw_test_random_floats(y_n), *dx = uw_test_random_floats(x_n);
    float *sum = uw_test_random_floats(x_n), *before = uw_test_copy_floats(x_n, sum);
    double *want = calloc(x_n, sizeof *want);
    struct uw_test_exec e;

    assert_non_null(want);
    uw_test_exec_begin(&e, 3, 0);
    assert_int_equal(slots()->take_fw(&e.exec, &t, x, y), UW_OK);
    for (size_t i = 0; i < y_n; i++) {
        size_t o = i / (out * inner), j = i / inner % out, k = i % inner;
        double value = 0.0;
        for (size_t s = j * taps; s < (j + 1) * taps; s++) {
            double w = weighted ? (double)weight[s] : 1.0;
            if (index[s] >= 0) {
                size_t at = (o * in + (size_t)index[s]) * inner + k;
                value += w * (double)x[at];
                want[at] += w * (double)dy[i];
            }
        }
        uw_test_assert_near((double)y[i], value, 1e-6 * taps);
    }
    assert_int_equal(slots()->take_bw(&e.exec, &t, dy, dx, false), UW_OK);
    assert_int_equal(slots()->take_bw(&e.exec, &t, dy, sum, true), UW_OK);
    for (size_t i = 0; i < x_n; i++) {
        uw_test_assert_near((double)dx[i], want[i], 2e-6 * (1.0 + (double)table_n / in));
        uw_test_assert_near((double)sum[i], (double)before[i] + want[i],
                            2e-6 * (1.0 + (double)table_n / in));
    }
    uw_test_exec_end(&e);
    free(want);
    uw_test_release(index);
    RELEASE(weight, x, dy, y, dx, sum, before);
}

static void test_take_picks_and_mixes(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 60 && !uw_test_has_no_tensors(); i++) {
        uint32_t taps = 1 + uw_test_below(3);
        check_take(1 + uw_test_below(20), 1 + uw_test_below(9),
                   i % 2 == 0 ? 1 : 1 + uw_test_below(20),
                   1 + uw_test_below(12), taps, i % 4 < 2);
    }
    if (!uw_test_has_no_tensors()) {
        check_take(1, 1, 1, 1, 1, false);
        check_take(70, 31, 5, 40, 2, true);
        check_take(2, 3, 20011, 2, 1, false);
    }
}

/* A weight of 0 leaves nothing of a finite element; an index of -1 does not read. */
static void test_take_of_nothing_is_zero(void **state)
{
    (void)state;
    const struct uw_exec e = {.kernels = uw_test_table()};
    static const int32_t index[] = {-1, 1, -1, -1};
    const float x[2] = {NAN, 3.0f};
    float y[4] = {9.0f, 9.0f, 9.0f, 9.0f};
    const struct uw_take t = {.outer = 1, .inner = 1, .in = 2, .out = 4, .taps = 1,
                              .index = index};
    if (uw_test_has_no_tensors()) {
        return;
    }
    assert_int_equal(slots()->take_fw(&e, &t, x, y), UW_OK);
    assert_true(y[0] == 0.0f && y[1] == 3.0f && y[2] == 0.0f && y[3] == 0.0f);
}

/* ---- a device ---- */

static void test_a_device_refuses_what_it_has_no_kernels_for(void **state)
{
    (void)state;
    const struct uw_exec e = {.kernels = uw_test_table()};
    const struct uw_activation a = {.kind = UW_ACTIVATION_FUNCTION + UW_FUNCTION_EXP};
    const struct uw_reduce r = {.op = UW_REDUCE_SUM, .outer = 1, .inner = 1, .n = 1};
    float x = 0.0f, y = 0.0f;
    if (uw_test_has_no_tensors()) {
        assert_int_equal(slots()->reduce_fw(&e, &r, &x, &y), UW_ERR_UNSUPPORTED);
        assert_int_equal(uw_test_table()->activation->forward(&e, &a, 1, &x, &y),
                         UW_ERR_UNSUPPORTED);
        assert_int_equal(uw_test_table()->activation->bw_input(&e, &a, 1, &x, &x, &y, false),
                         UW_ERR_UNSUPPORTED);
    }
}

const struct CMUnitTest uw_test_tensor[] = {
    cmocka_unit_test(test_arithmetic_broadcasts_every_set_of_axes),
    cmocka_unit_test(test_arithmetic_of_large_operands),
    cmocka_unit_test(test_arithmetic_edges),
    cmocka_unit_test(test_reductions_match_definition),
    cmocka_unit_test(test_reductions_show_nan),
    cmocka_unit_test(test_log_softmax_matches_definition),
    cmocka_unit_test(test_log_softmax_shows_nan),
    cmocka_unit_test(test_take_picks_and_mixes),
    cmocka_unit_test(test_take_of_nothing_is_zero),
    cmocka_unit_test(test_a_device_refuses_what_it_has_no_kernels_for),
};
const size_t uw_test_tensor_n = sizeof uw_test_tensor / sizeof *uw_test_tensor;
