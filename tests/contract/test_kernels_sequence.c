/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel contract: copies, time steps of recurrent cells, softmax of attention. */
#include "test_kernels.h"

static const struct uw_exec *plain(void)
{
    static struct uw_exec e;
    e.kernels = uw_test_table();
    return &e;
}

static const uint32_t sizes[] = {1, 2, 3, 4, 7, 8, 9, 16, 17, 33};
#define SIZES_N (sizeof sizes / sizeof *sizes)

static void test_copy_moves_rows_and_nothing_between(void **state)
{
    (void)state;
    const struct uw_kernels *k = uw_test_table();
    for (size_t s = 0; s < SIZES_N; s++) {
        for (uint32_t way = 0; way < 4; way++) {
            bool add = (way & 1u) != 0;
            const struct uw_copy c = {.rows = 5, .row_n = sizes[s],
                                      .x_step = sizes[s] + (way & 2u),
                                      .y_step = sizes[s] + 3 - (way & 2u)};
            size_t x_n = 4 * c.x_step + c.row_n, y_n = 4 * c.y_step + c.row_n;
            float *x = uw_test_random_floats(x_n);
            float *y0 = add ? uw_test_random_floats(y_n) : uw_test_floats(y_n);
            float *y = uw_test_copy_floats(y_n, y0);
            assert_int_equal(k->copy->copy(plain(), &c, x, y, add), UW_OK);
            for (size_t i = 0; i < y_n; i++) {
                size_t row = i / c.y_step, col = i % c.y_step;
                if (col >= c.row_n) {
                    assert_memory_equal(&y[i], &y0[i], sizeof *y);
                } else {
                    float from = x[row * c.x_step + col];
                    assert_true(y[i] == (add ? y0[i] + from : from));
                }
            }
            uw_test_release(x);
            uw_test_release(y0);
            uw_test_release(y);
        }
    }
    assert_int_equal(k->copy->copy(plain(), &(struct uw_copy){0}, NULL, NULL, false), UW_OK);
}

static void test_copy_of_many_rows_on_threads(void **state)
{
    (void)state;
    const struct uw_kernels *k = uw_test_table();
    const struct uw_copy c = {.rows = 100, .row_n = 1001, .x_step = 1003, .y_step = 1001};
    struct uw_test_exec e;
    uw_test_exec_begin(&e, 3, 0);
    float *x = uw_test_random_floats(c.rows * c.x_step), *y = uw_test_floats(c.rows * c.y_step);
    for (uint32_t add = 0; add < 2; add++) {
        assert_int_equal(k->copy->copy(&e.exec, &c, x, y, add != 0), UW_OK);
        for (size_t i = 0; i < c.rows * c.y_step; i++) {
            float from = x[i / c.y_step * c.x_step + i % c.y_step];
            assert_true(y[i] == (add != 0 ? from + from : from));
        }
    }
    uw_test_release(x);
    uw_test_release(y);
    uw_test_exec_end(&e);
}

static void test_permute_every_order_matches_definition(void **state)
{
    (void)state;
    const struct uw_kernels *k = uw_test_table();
    static const uint32_t orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                          {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    struct uw_test_exec e;
    uw_test_exec_begin(&e, 3, 0);
    for (uint32_t o = 0; o < 12 * SIZES_N; o++) {
        struct uw_permute p = {.dim = {3, sizes[o / 12], 5}};
        if (o / 6 % 2 != 0) {       /* beyond one task, around blocks of 8 */
            p.dim[0] = 25;
            p.dim[2] = 42;
        }
        size_t n = (size_t)p.dim[0] * p.dim[1] * p.dim[2];
        memcpy(p.order, orders[o % 6], sizeof p.order);
        float *x = uw_test_random_floats(2 * n), *y = uw_test_floats(2 * n);
        assert_int_equal(k->copy->permute(&e.exec, &p, 2, x, y, false), UW_OK);
        const uint32_t *q = p.order;
        for (size_t i = 0; i < 2 * n; i++) {
            size_t left = i % n, at[3];
            at[q[2]] = left % p.dim[q[2]];
            left /= p.dim[q[2]];
            at[q[1]] = left % p.dim[q[1]];
            at[q[0]] = left / p.dim[q[1]];
            assert_true(y[i] == x[i / n * n + (at[0] * p.dim[1] + at[1]) * p.dim[2] + at[2]]);
        }
        float *twice = uw_test_copy_floats(2 * n, y);
        assert_int_equal(k->copy->permute(&e.exec, &p, 2, x, twice, true), UW_OK);
        for (size_t i = 0; i < 2 * n; i++) {
            assert_true(twice[i] == y[i] + y[i]);
        }
        uw_test_release(x);
        uw_test_release(y);
        uw_test_release(twice);
    }
    uw_test_exec_end(&e);
}

static void test_gather_and_scatter_follow_indices(void **state)
{
    (void)state;
    const struct uw_kernels *k = uw_test_table();
    const float rows[] = {2, 0, 2, 1, 2};
    float *x = uw_test_copy_floats(5, rows);
    for (size_t s = 0; s < SIZES_N; s++) {
        uint32_t n = sizes[s];
        float *w = uw_test_random_floats(3u * n), *y = uw_test_floats(5u * n);
        float *dw = uw_test_random_floats(3u * n), *before = uw_test_copy_floats(3u * n, dw);
        assert_int_equal(k->copy->gather(plain(), 5, 3, n, x, w, y), UW_OK);
        for (uint32_t i = 0; i < 5 * n; i++) {
            assert_true(y[i] == w[(uint32_t)x[i / n] * n + i % n]);
        }
        assert_int_equal(k->copy->scatter_add(plain(), 5, 3, n, x, y, -0.5f, dw), UW_OK);
        for (uint32_t r = 0; r < 3 * n; r++) {
            struct uw_sum sum = {0};
            uw_sum_add(&sum, (double)before[r]);
            for (uint32_t i = 0; i < 5; i++) {
                uw_sum_add(&sum, (uint32_t)x[i] == r / n ? -0.5 * (double)y[i * n + r % n] : 0.0);
            }
            uw_test_assert_sum(dw[r], &sum);
        }
        uw_test_release(w);
        uw_test_release(y);
        uw_test_release(dw);
        uw_test_release(before);
    }
    uw_test_release(x);
}

static void test_gather_refuses_what_is_no_row(void **state)
{
    (void)state;
    const struct uw_kernels *k = uw_test_table();
    const float bad[] = {3.0f, -1.0f, 1.5f, NAN, INFINITY, -INFINITY, 4294967296.0f};
    float *w = uw_test_random_floats(3), *x = uw_test_floats(1), *y = uw_test_floats(1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        *x = bad[i];
        assert_int_equal(k->copy->gather(plain(), 1, 3, 1, x, w, y), UW_ERR_INVALID);
        assert_int_equal(k->copy->scatter_add(plain(), 1, 3, 1, x, w, 1.0f, w), UW_ERR_INVALID);
    }
    uw_test_release(w);
    uw_test_release(x);
    uw_test_release(y);
}

static void test_sum_rows_skips_what_is_between(void **state)
{
    (void)state;
    const struct uw_kernels *k = uw_test_table();
    for (size_t s = 0; s <= SIZES_N; s++) {
        uint32_t n = s < SIZES_N ? sizes[s] : 96;
        size_t step = n + s % 3;
        float *dy = uw_test_random_floats(10 * step + n), *db = uw_test_random_floats(n);
        float *before = uw_test_copy_floats(n, db);
        assert_int_equal(k->copy->sum_rows(plain(), 11, n, step, dy, 0.25f, db), UW_OK);
        for (uint32_t j = 0; j < n; j++) {
            struct uw_sum sum = {0};
            uw_sum_add(&sum, (double)before[j]);
            for (uint32_t i = 0; i < 11; i++) {
                uw_sum_add(&sum, 0.25 * (double)dy[i * step + j]);
            }
            uw_test_assert_sum(db[j], &sum);
        }
        uw_test_release(dy);
        uw_test_release(db);
        uw_test_release(before);
    }
}

enum cell { RNN, RNN_RELU, GRU, LSTM, CELLS_N };
static const uint32_t blocks_of[CELLS_N] = {1, 1, 4, 5};

static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

/* One cell in double. in[4]: pre-activations with biases in the order of the slot (gru: r, z, the
 * input half of n, the state half of n); p is the state before (gru) or the cell's (lstm). */
static double cell_in_double(enum cell kind, const double *in, double p, double *c_new)
{
    switch (kind) {
    case RNN:
        return tanh(in[0]);
    case RNN_RELU:
        return fmax(in[0], 0.0);
    case GRU:
        return (1.0 - sigmoid(in[1])) * tanh(in[2] + sigmoid(in[0]) * in[3]) + sigmoid(in[1]) * p;
    default:
        *c_new = sigmoid(in[1]) * p + sigmoid(in[0]) * tanh(in[2]);
        return sigmoid(in[3]) * tanh(*c_new);
    }
}

struct cell_case {
    enum cell kind;
    struct uw_cell c;
    float *a, *a0, *h, *h_prev, *b_ih, *b_hh, *dy, *dh, *dh0, *dc, *dc0, *c_prev;
    uint32_t n, hidden;
    bool first;                     /* no state before */
};

static void cell_open(struct cell_case *t, enum cell kind, uint32_t hidden, uint32_t way)
{
    size_t row = (size_t)blocks_of[kind] * hidden;
    *t = (struct cell_case){.kind = kind, .n = 3, .hidden = hidden, .first = (way & 1u) != 0};
    t->c = (struct uw_cell){.batch_n = 3, .hidden = hidden, .a_step = row + (way & 2u),
                            .h_step = hidden + (way & 2u), .dy_step = hidden + 1u,
                            .relu = kind == RNN_RELU};
    t->a = uw_test_random_floats(2 * t->c.a_step + row);
    t->a0 = uw_test_copy_floats(2 * t->c.a_step + row, t->a);
    t->c_prev = uw_test_random_floats(2 * t->c.a_step + hidden);
    t->h = uw_test_floats(2 * t->c.h_step + hidden);
    t->h_prev = uw_test_random_floats(2 * t->c.h_step + hidden);
    t->dy = uw_test_random_floats(2 * t->c.dy_step + hidden);
    t->b_ih = uw_test_random_floats((size_t)4 * hidden);
    t->b_hh = uw_test_random_floats((size_t)4 * hidden);
    t->dh = uw_test_random_floats((size_t)3 * hidden);
    t->dh0 = uw_test_copy_floats((size_t)3 * hidden, t->dh);
    t->dc = uw_test_random_floats((size_t)3 * hidden);
    t->dc0 = uw_test_copy_floats((size_t)3 * hidden, t->dc);
}

static void cell_close(struct cell_case *t)
{
    float *const blocks[] = {t->a, t->a0, t->h, t->h_prev, t->b_ih, t->b_hh,
                             t->dy, t->dh, t->dh0, t->dc, t->dc0, t->c_prev};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        uw_test_release(blocks[i]);
    }
}

/* Pre-activations of row r, unit j, and the state before. */
static double cell_inputs(const struct cell_case *t, uint32_t r, uint32_t j, bool biases,
                          double in[4])
{
    const float *a = t->a0 + r * t->c.a_step;
    uint32_t k = t->hidden;
    for (uint32_t g = 0; g < 4 && g < blocks_of[t->kind]; g++) {
        in[g] = (double)a[g * k + j];
        if (biases && !(t->kind == GRU && g == 3)) {
            in[g] += (double)t->b_ih[g * k + j];
            in[g] += t->kind == GRU && g == 2 ? 0.0 : (double)t->b_hh[g * k + j];
        }
    }
    if (t->kind == GRU) {
        in[3] = (t->first ? 0.0 : in[3]) + (biases ? (double)t->b_hh[2 * k + j] : 0.0);
    }
    if (t->first || t->kind < GRU) {
        return 0.0;
    }
    return t->kind == GRU ? (double)t->h_prev[r * t->c.h_step + j]
                          : (double)t->c_prev[r * t->c.a_step + j];
}

static int cell_run(struct cell_case *t, bool biases)
{
    const struct uw_sequence_kernels *k = uw_test_table()->sequence;
    const float *b_ih = biases ? t->b_ih : NULL, *b_hh = biases ? t->b_hh : NULL;
    if (t->kind < GRU) {
        return k->rnn_fw(plain(), &t->c, b_ih, b_hh, t->a, t->h);
    }
    if (t->kind == GRU) {
        return k->gru_fw(plain(), &t->c, b_ih, b_hh, t->first ? NULL : t->h_prev, t->a, t->h);
    }
    return k->lstm_fw(plain(), &t->c, b_ih, b_hh, t->first ? NULL : t->c_prev, t->a, t->h);
}

static int cell_back(struct cell_case *t, const float *dy)
{
    const struct uw_sequence_kernels *k = uw_test_table()->sequence;
    if (t->kind < GRU) {
        return k->rnn_bw(plain(), &t->c, t->h, dy, t->a, t->dh);
    }
    if (t->kind == GRU) {
        return k->gru_bw(plain(), &t->c, t->first ? NULL : t->h_prev, dy, t->a, t->dh);
    }
    return k->lstm_bw(plain(), &t->c, t->first ? NULL : t->c_prev, dy, t->a, t->dh, t->dc);
}

/* d h + dc c_new of unit (r, j), as a function of its inputs. */
static double cell_value(const struct cell_case *t, const double *in, double p, double dh,
                         double dc)
{
    double c_new = 0.0;
    double h = cell_in_double(t->kind, in, p, &c_new);
    return dh * h + dc * c_new;
}

static void cell_judge(const struct cell_case *t, uint32_t r, uint32_t j, bool biases, bool dy)
{
    const double step = 1e-5, bound = 2e-6;
    uint32_t blocks = blocks_of[t->kind] > 4 ? 4 : blocks_of[t->kind];
    double in[4], p = cell_inputs(t, r, j, biases, in);
    size_t at = (size_t)r * t->hidden + j;
    double dh = (double)t->dh0[at] + (dy ? (double)t->dy[r * t->c.dy_step + j] : 0.0);
    double dc = t->kind == LSTM ? (double)t->dc0[at] : 0.0;

    for (uint32_t g = 0; g < blocks; g++) {
        double keep = in[g];
        bool at_kink = t->kind == RNN_RELU && fabs(keep) < step; /* its slope is its side's */
        double middle = at_kink ? keep + (keep > 0.0 ? 2 * step : -2 * step) : keep;
        in[g] = middle + step;
        double up = cell_value(t, in, p, dh, dc);
        in[g] = middle - step;
        double want = (up - cell_value(t, in, p, dh, dc)) / (2 * step);
        in[g] = keep;
        uw_test_assert_near((double)t->a[r * t->c.a_step + g * t->hidden + j], want, bound);
    }
    double past = (cell_value(t, in, p + step, dh, dc) - cell_value(t, in, p - step, dh, dc)) /
                  (2 * step);
    if (t->kind == GRU) {
        uw_test_assert_near((double)t->dh[at], past, bound);
    } else {
        assert_memory_equal(&t->dh[at], &t->dh0[at], sizeof(float));
    }
    if (t->kind == LSTM) {
        uw_test_assert_near((double)t->dc[at], past, bound);
    }
}

static void check_cell(enum cell kind, uint32_t hidden, uint32_t way)
{
    struct cell_case t;
    bool biases = (way & 4u) != 0, dy = (way & 8u) != 0;

    cell_open(&t, kind, hidden, way);
    for (uint32_t r = 0; kind == GRU && t.first && r < 3; r++) {
        for (uint32_t j = 0; j < hidden; j++) {
            t.a[r * t.c.a_step + 3 * hidden + j] = NAN;     /* not read without a state */
        }
    }
    assert_int_equal(cell_run(&t, biases), UW_OK);
    for (uint32_t r = 0; r < 3; r++) {
        for (uint32_t j = 0; j < hidden; j++) {
            double in[4], c_new = 0.0, p = cell_inputs(&t, r, j, biases, in);
            double want = cell_in_double(kind, in, p, &c_new);
            uw_test_assert_near((double)t.h[r * t.c.h_step + j], want, 1e-6);
        }
    }
    assert_int_equal(cell_back(&t, dy ? t.dy : NULL), UW_OK);
    for (uint32_t r = 0; r < 3; r++) {
        for (uint32_t j = 0; j < hidden; j++) {
            cell_judge(&t, r, j, biases, dy);
        }
    }
    cell_close(&t);
}

static void test_cells_match_definition_and_central_differences(void **state)
{
    (void)state;
    for (int kind = 0; kind < CELLS_N; kind++) {
        for (size_t s = 0; s < SIZES_N; s++) {
            for (uint32_t way = 0; way < 16; way++) {
                check_cell((enum cell)kind, sizes[s], way);
            }
        }
    }
}

static void test_cells_nan_stays_in_its_sample(void **state)
{
    (void)state;
    for (int kind = 0; kind < CELLS_N; kind++) {
        struct cell_case t;
        cell_open(&t, (enum cell)kind, 5, 0);
        t.a[t.c.a_step + 2] = NAN;  /* sample 1, unit 2 */
        assert_int_equal(cell_run(&t, true), UW_OK);
        for (uint32_t i = 0; i < 15; i++) {
            assert_true(isnan(t.h[i / 5 * t.c.h_step + i % 5]) == (i == 7));
        }
        cell_close(&t);
    }
}

static void check_softmax(uint32_t n, bool causal, float scale)
{
    const struct uw_kernels *k = uw_test_table();
    uint32_t rows = 2 * n;
    size_t all = (size_t)rows * n;
    float *x = uw_test_random_floats(all), *y = uw_test_floats(all);
    float *dy = uw_test_random_floats(all), *dx = uw_test_floats(all);

    for (size_t i = 0; i < all; i++) {
        x[i] *= scale;
    }
    assert_int_equal(k->sequence->softmax_fw(plain(), rows, n, causal, x, y), UW_OK);
    assert_int_equal(k->sequence->softmax_bw_input(plain(), rows, n, y, dy, dx), UW_OK);
    for (uint32_t r = 0; r < rows; r++) {
        uint32_t seen = causal ? r % n + 1 : n;
        double top = -HUGE_VAL, total = 0.0, dot = 0.0;
        for (uint32_t j = 0; j < seen; j++) {
            top = fmax(top, (double)x[r * n + j]);
        }
        for (uint32_t j = 0; j < seen; j++) {
            total += exp((double)x[r * n + j] - top);
        }
        for (uint32_t j = 0; j < n; j++) {
            double p = j < seen ? exp((double)x[r * n + j] - top) / total : 0.0;
            uw_test_assert_near((double)y[r * n + j], p, 2e-6);
            dot += p * (double)dy[r * n + j];
        }
        for (uint32_t j = 0; j < n; j++) {
            double p = (double)y[r * n + j];
            uw_test_assert_near((double)dx[r * n + j], p * ((double)dy[r * n + j] - dot), 5e-6);
        }
    }
    assert_int_equal(k->sequence->softmax_fw(plain(), rows, n, causal, x, x), UW_OK);
    uw_test_assert_same_bits(all, x, y);
    assert_int_equal(k->sequence->softmax_bw_input(plain(), rows, n, y, dy, dy), UW_OK);
    uw_test_assert_same_bits(all, dx, dy);
    uw_test_release(x);
    uw_test_release(y);
    uw_test_release(dy);
    uw_test_release(dx);
}

static void test_attention_softmax_matches_definition(void **state)
{
    (void)state;
    for (size_t s = 0; s < SIZES_N; s++) {
        check_softmax(sizes[s], false, 3.0f);
        check_softmax(sizes[s], true, 3.0f);
        check_softmax(sizes[s], true, 500.0f);
    }
    const float bad[4] = {0.0f, NAN, 1.0f, 2.0f};
    float *x = uw_test_copy_floats(4, bad);
    const struct uw_kernels *k = uw_test_table();
    assert_int_equal(k->sequence->softmax_fw(plain(), 2, 2, false, x, x), UW_OK);
    assert_true(isnan(x[0]) && isnan(x[1]) && isfinite(x[2]) && isfinite(x[3]));
    memcpy(x, bad, sizeof bad); /* the first step does not see the second */
    assert_int_equal(k->sequence->softmax_fw(plain(), 2, 2, true, x, x), UW_OK);
    assert_true(x[0] == 1.0f && x[1] == 0.0f);
    uw_test_release(x);
}

const struct CMUnitTest uw_test_sequence[] = {
    cmocka_unit_test(test_copy_moves_rows_and_nothing_between),
    cmocka_unit_test(test_copy_of_many_rows_on_threads),
    cmocka_unit_test(test_permute_every_order_matches_definition),
    cmocka_unit_test(test_gather_and_scatter_follow_indices),
    cmocka_unit_test(test_gather_refuses_what_is_no_row),
    cmocka_unit_test(test_sum_rows_skips_what_is_between),
    cmocka_unit_test(test_cells_match_definition_and_central_differences),
    cmocka_unit_test(test_cells_nan_stays_in_its_sample),
    cmocka_unit_test(test_attention_softmax_matches_definition),
};
const size_t uw_test_sequence_n = sizeof uw_test_sequence / sizeof *uw_test_sequence;
