/* SPDX-License-Identifier: Apache-2.0
 *
 * All steps of a recurrent layer at once, against the reference's cells and products step by step:
 * every way that W_hh is held, few and many samples, whatever is left out. */
#include "table.h"
#include "test_support.h"

#include "uwasa/backends.h"
#include "uwasa/rng.h"
#include "uwasa/status.h"

static struct uw_rng rng;

static const struct uw_recurrence_kernels *slots(void)
{
    return uw_gpu_table->sequence->recurrence;
}

static uint32_t gates_of(const struct uw_recurrence *r)
{
    return r->cell == UW_RECURRENCE_LSTM ? 4 : r->cell == UW_RECURRENCE_GRU ? 3 : 1;
}

static uint32_t kept_of(const struct uw_recurrence *r)
{
    return r->cell == UW_RECURRENCE_RNN ? 1 : gates_of(r) + 1;
}

static float *numbers(size_t n, float size)
{
    float *x = uw_test_floats(n);
    for (size_t i = 0; i < n; i++) {
        x[i] = (2.0f * uw_rng_uniform(&rng) - 1.0f) * size;
    }
    return x;
}

static float *copy(size_t n, const float *x)
{
    float *y = uw_test_floats(n);
    memcpy(y, x, n * sizeof *y);
    return y;
}

static void near(const char *what, const struct uw_recurrence *r, size_t n, const float *got,
                 const float *want, double bound)
{
    for (size_t i = 0; i < n; i++) {
        double off = fabs((double)got[i] - (double)want[i]);
        if (!(off <= bound * (1.0 + fabs((double)want[i])))) {
            fail_msg("%s: cell %d, %u x %u steps of %u, %s: element %zu of %zu is %.9g, the "
                     "reference has %.9g", what, (int)r->cell, (unsigned)r->batch_n,
                     (unsigned)r->steps, (unsigned)r->hidden, r->reverse ? "back" : "on", i, n,
                     (double)got[i], (double)want[i]);
        }
    }
}

struct sequences {
    struct uw_recurrence r;
    uint32_t gates, kept, k;
    size_t a_n, h_n, w_n, state_n;
    const float *w, *b_ih, *b_hh;   /* w: in `weights`, perhaps not aligned */
    float *weights, *b[2], *a0, *a, *h, *last, *dy, *dlast;
    float *got_a, *got_h, *got_last;
};

static void begin(struct sequences *t, struct uw_recurrence r, bool biases, uint32_t offset)
{
    *t = (struct sequences){.r = r, .gates = gates_of(&r), .kept = kept_of(&r), .k = r.hidden};
    t->state_n = (size_t)r.batch_n * r.hidden;
    t->h_n = t->state_n * r.steps;
    t->a_n = t->h_n * t->kept;
    t->w_n = (size_t)t->gates * r.hidden * r.hidden;
    t->weights = numbers(t->w_n + offset, 1.0f / sqrtf((float)r.hidden));
    t->w = t->weights + offset;
    for (int i = 0; i < 2; i++) {
        t->b[i] = numbers((size_t)t->gates * r.hidden, 0.5f);
    }
    t->b_ih = biases ? t->b[0] : NULL;
    t->b_hh = biases ? t->b[1] : NULL;
    t->a0 = numbers(t->a_n, 1.0f);
    t->a = copy(t->a_n, t->a0);
    t->got_a = copy(t->a_n, t->a0);
    t->h = uw_test_floats(t->h_n);
    t->got_h = uw_test_floats(t->h_n);
    t->last = uw_test_floats(t->state_n);
    t->got_last = uw_test_floats(t->state_n);
    t->dy = numbers(t->h_n, 0.3f);
    t->dlast = numbers(t->state_n, 0.3f);
}

static void end(struct sequences *t)
{
    float *const blocks[] = {t->weights, t->b[0], t->b[1], t->a0, t->a, t->got_a, t->h, t->got_h,
                             t->last, t->got_last, t->dy, t->dlast};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        uw_test_release(blocks[i]);
    }
}

static uint32_t step_at(const struct sequences *t, uint32_t i)
{
    return t->r.reverse ? t->r.steps - 1 - i : i;
}

/* Row of gate g of W_hh, and the place of its sum in a row of a. */
static size_t place(const struct sequences *t, uint32_t g)
{
    return (size_t)(t->r.cell == UW_RECURRENCE_GRU && g == 2 ? 3 : g) * t->k;
}

static struct uw_cell cell_of(const struct sequences *t)
{
    size_t row = (size_t)t->kept * t->k;
    return (struct uw_cell){.batch_n = t->r.batch_n, .hidden = t->k, .a_step = t->r.steps * row,
                            .h_step = (size_t)t->r.steps * t->k,
                            .dy_step = (size_t)t->r.steps * t->k, .relu = t->r.relu};
}

/* a of one sample and step += W_hh h */
static void add_product(const struct sequences *t, const float *h, float *a)
{
    for (uint32_t row = 0; row < t->gates * t->k; row++) {
        uint32_t g = row / t->k;
        double sum = 0.0;
        for (uint32_t c = 0; c < t->k; c++) {
            sum += (double)t->w[(size_t)row * t->k + c] * (double)h[c];
        }
        float *to = &a[place(t, g) + row % t->k];
        *to = (float)sum + (place(t, g) == (size_t)g * t->k ? *to : 0.0f);
    }
}

static void reference_forward(struct sequences *t)
{
    const struct uw_sequence_kernels *k = uw_kernels_ref.sequence;
    const struct uw_exec e = {.kernels = &uw_kernels_ref};
    const struct uw_cell c = cell_of(t);
    const float *h_prev = NULL, *a_prev = NULL;
    for (uint32_t i = 0; i < t->r.steps; i++) {
        float *a = t->a + (size_t)step_at(t, i) * t->kept * t->k;
        float *h = t->h + (size_t)step_at(t, i) * t->k;
        for (uint32_t n = 0; n < t->r.batch_n && i > 0; n++) {
            add_product(t, h_prev + n * c.h_step, a + n * c.a_step);
        }
        if (t->r.cell == UW_RECURRENCE_RNN) {
            k->rnn_fw(&e, &c, t->b_ih, t->b_hh, a, h);
        } else if (t->r.cell == UW_RECURRENCE_GRU) {
            k->gru_fw(&e, &c, t->b_ih, t->b_hh, h_prev, a, h);
        } else {
            k->lstm_fw(&e, &c, t->b_ih, t->b_hh, a_prev != NULL ? a_prev + 4 * t->k : NULL, a, h);
        }
        h_prev = h;
        a_prev = a;
    }
    for (uint32_t n = 0; n < t->r.batch_n; n++) {
        memcpy(t->last + (size_t)n * t->k, h_prev + n * c.h_step, t->k * sizeof(float));
    }
}

/* dh of the step before += da W_hh */
static void add_passed(const struct sequences *t, const float *a, float *dh)
{
    for (uint32_t c = 0; c < t->k; c++) {
        double sum = (double)dh[c];
        for (uint32_t row = 0; row < t->gates * t->k; row++) {
            sum += (double)a[place(t, row / t->k) + row % t->k] *
                   (double)t->w[(size_t)row * t->k + c];
        }
        dh[c] = (float)sum;
    }
}

static void reference_backward(struct sequences *t, const float *dy, const float *dlast)
{
    const struct uw_sequence_kernels *k = uw_kernels_ref.sequence;
    const struct uw_exec e = {.kernels = &uw_kernels_ref};
    const struct uw_cell c = cell_of(t);
    float *dh = uw_test_floats(t->state_n), *dc = uw_test_floats(t->state_n);
    memset(dc, 0, t->state_n * sizeof *dc);
    memset(dh, 0, t->state_n * sizeof *dh);
    if (dlast != NULL) {
        memcpy(dh, dlast, t->state_n * sizeof *dh);
    }
    for (uint32_t i = t->r.steps; i-- > 0;) {
        size_t s = step_at(t, i), before = i > 0 ? step_at(t, i - 1) : 0, row = t->kept * t->k;
        float *a = t->a + s * row;
        const float *h_prev = i > 0 ? t->h + before * t->k : NULL;
        const float *step_dy = dy != NULL ? dy + s * t->k : NULL;
        if (t->r.cell == UW_RECURRENCE_RNN) {
            k->rnn_bw(&e, &c, t->h + s * t->k, step_dy, a, dh);
        } else if (t->r.cell == UW_RECURRENCE_GRU) {
            k->gru_bw(&e, &c, h_prev, step_dy, a, dh);
        } else {
            k->lstm_bw(&e, &c, i > 0 ? t->a + before * row + 4 * t->k : NULL, step_dy, a, dh, dc);
        }
        if (t->r.cell != UW_RECURRENCE_GRU) {
            memset(dh, 0, t->state_n * sizeof *dh);
        }
        for (uint32_t n = 0; n < t->r.batch_n && i > 0; n++) {
            add_passed(t, a + n * c.a_step, dh + (size_t)n * t->k);
        }
    }
    uw_test_release(dh);
    uw_test_release(dc);
}

static void reference_param(const struct sequences *t, double scale, float *dw, float *d_ih,
                            float *d_hh)
{
    uint32_t rows = t->gates * t->k;
    size_t wide = (size_t)t->kept * t->k;
    for (uint32_t row = 0; row < rows; row++) {
        uint32_t g = row / t->k;
        size_t passed = place(t, g) + row % t->k;
        double ih = 0.0, hh = 0.0;
        for (size_t i = 0; i < (size_t)t->r.batch_n * t->r.steps; i++) {
            ih += (double)t->a[i * wide + row];
            hh += (double)t->a[i * wide + passed];
        }
        d_ih[row] += (float)(scale * ih);
        d_hh[row] += (float)(scale * hh);
        for (uint32_t c = 0; c < t->k; c++) {
            double sum = 0.0;
            for (size_t n = 0; n < t->r.batch_n; n++) {
                for (uint32_t i = 1; i < t->r.steps; i++) {
                    size_t at = n * t->r.steps + step_at(t, i);
                    size_t before = n * t->r.steps + step_at(t, i - 1);
                    sum += (double)t->a[at * wide + passed] * (double)t->h[before * t->k + c];
                }
            }
            dw[(size_t)row * t->k + c] += (float)(scale * sum);
        }
    }
}

/* Without a way back only the last state or the states come, of the same bits. A sample has the
 * state that it has alone. */
static void check_inference(struct sequences *t)
{
    const struct uw_exec e = {.kernels = uw_gpu_table};
    struct uw_recurrence r = t->r;
    float *a = copy(t->a_n, t->a0), *last = uw_test_floats(t->state_n);
    float *h = uw_test_floats(t->h_n);
    r.keeps = false;
    assert_int_equal(slots()->fw(&e, &r, t->w, t->b_ih, t->b_hh, a, NULL, last), UW_OK);
    assert_memory_equal(last, t->got_last, t->state_n * sizeof *last);
    memcpy(a, t->a0, t->a_n * sizeof *a);
    assert_int_equal(slots()->fw(&e, &r, t->w, t->b_ih, t->b_hh, a, h, NULL), UW_OK);
    assert_memory_equal(h, t->got_h, t->h_n * sizeof *h);
    memcpy(a, t->a0, t->a_n * sizeof *a);
    r.batch_n = 1;
    assert_int_equal(slots()->fw(&e, &r, t->w, t->b_ih, t->b_hh, a, NULL, last), UW_OK);
    near("last, alone", &r, t->k, last, t->got_last, 1e-6);
    uw_test_release(a);
    uw_test_release(h);
    uw_test_release(last);
}

static void check_param(const struct sequences *t)
{
    size_t rows = (size_t)t->gates * t->k, bytes = slots()->scratch_bytes(uw_gpu_table, &t->r);
    struct uw_exec e = {.kernels = uw_gpu_table, .scratch = uw_test_block(bytes),
                        .scratch_bytes = bytes};
    float *dw = numbers(t->w_n, 1.0f), *d_ih = numbers(rows, 1.0f), *d_hh = numbers(rows, 1.0f);
    float *got_dw = copy(t->w_n, dw), *got_ih = copy(rows, d_ih), *got_hh = copy(rows, d_hh);
    float *alone = copy(rows, d_hh), *alone_dw = copy(t->w_n, dw);
    const struct uw_recurrence *r = &t->r;
    reference_param(t, -0.25, dw, d_ih, d_hh);
    assert_int_equal(slots()->bw_param(&e, r, t->a, t->h, -0.25f, got_dw, got_ih, got_hh), UW_OK);
    assert_int_equal(slots()->bw_param(&e, r, t->a, t->h, -0.25f, NULL, NULL, alone), UW_OK);
    assert_int_equal(slots()->bw_param(&e, r, t->a, t->h, -0.25f, alone_dw, NULL, NULL), UW_OK);
    assert_int_equal(slots()->bw_param(&e, r, t->a, t->h, 1.0f, NULL, NULL, NULL), UW_OK);
    near("dw_hh", r, t->w_n, got_dw, dw, 1e-5);
    near("db_ih", r, rows, got_ih, d_ih, 1e-5);
    near("db_hh", r, rows, got_hh, d_hh, 1e-5);
    near("db_hh alone", r, rows, alone, d_hh, 1e-5);
    near("dw_hh alone", r, t->w_n, alone_dw, dw, 1e-5);
    e.scratch_bytes = 0;
    assert_int_equal(slots()->bw_param(&e, r, t->a, t->h, 1.0f, NULL, got_ih, got_hh),
                     UW_ERR_NOMEM);
    float *const blocks[] = {e.scratch, dw, d_ih, d_hh, got_dw, got_ih, got_hh, alone, alone_dw};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        uw_test_release(blocks[i]);
    }
}

static void check(struct uw_recurrence r, uint32_t way)
{
    struct sequences t;
    const struct uw_exec e = {.kernels = uw_gpu_table};
    bool steps = (way & 2u) != 0, last = (way & 4u) != 0;
    r.reverse = (way & 1u) != 0;
    r.keeps = true;
    begin(&t, r, (way & 8u) == 0, way / 16u);
    assert_true(slots()->takes(uw_gpu_table, &r));
    reference_forward(&t);
    assert_int_equal(slots()->fw(&e, &t.r, t.w, t.b_ih, t.b_hh, t.got_a, t.got_h, t.got_last),
                     UW_OK);
    near("h", &t.r, t.h_n, t.got_h, t.h, 1e-5);
    near("last", &t.r, t.state_n, t.got_last, t.last, 1e-5);
    if (r.cell != UW_RECURRENCE_RNN) {      /* rnn's is not read again */
        near("gates", &t.r, t.a_n, t.got_a, t.a, 1e-5);
    }
    check_inference(&t);
    memcpy(t.got_a, t.a, t.a_n * sizeof *t.a);
    const float *dy = steps ? t.dy : NULL, *dlast = last ? t.dlast : NULL;
    reference_backward(&t, dy, dlast);
    assert_int_equal(slots()->bw(&e, &t.r, t.w, t.h, dy, dlast, t.got_a), UW_OK);
    near("gradients of gates", &t.r, t.a_n, t.got_a, t.a, 1e-5);
    check_param(&t);
    end(&t);
}

/* Four cells; way: bits as in check, then by how many floats W_hh is off. */
static void check_cells(uint32_t hidden, uint32_t batch_n, uint32_t steps, uint32_t way)
{
    for (uint32_t i = 0; i < 4; i++) {
        const struct uw_recurrence r = {.cell = (enum uw_recurrence_cell)(i < 3 ? i : 0),
                                        .batch_n = batch_n, .steps = steps, .hidden = hidden,
                                        .relu = i == 3};
        if (slots()->takes(uw_gpu_table, &r)) {
            check(r, way);
        }
    }
}

static void test_small_states_every_way(void **state)
{
    (void)state;
    uw_rng_seed(&rng, uw_test_seed(81));
    for (uint32_t way = 0; way < 16; way++) {
        check_cells(3, 3, 4, way);
    }
    check_cells(1, 1, 1, 2);
    check_cells(1, 70, 2, 7);
    check_cells(32, 5, 2, 6);
    check_cells(33, 1, 3, 3);
    check_cells(64, 37, 2, 4);
    check_cells(6, 300, 3, 6);
    check_cells(5, 2, 40, 7);
}

/* In shared memory, or partly there: with every vector, for one, two and four samples a block. */
static void test_large_states_every_way(void **state)
{
    (void)state;
    uw_rng_seed(&rng, uw_test_seed(82));
    check_cells(68, 1, 3, 6);
    check_cells(68, 3, 2, 7 + 16 * 2);
    check_cells(65, 4, 2, 2);
    check_cells(66, 19, 2, 4);
    check_cells(100, 5, 2, 3 + 16);
    check_cells(128, 2, 2, 6);
    check_cells(154, 3, 2, 5);
    check_cells(200, 5, 2, 7);
    check_cells(300, 3, 2, 6);
}

static void test_what_is_too_large_is_not_taken(void **state)
{
    (void)state;
    static const uint32_t most[] = {362, 209, 181};
    for (uint32_t cell = 0; cell < 3; cell++) {
        struct uw_recurrence r = {.cell = (enum uw_recurrence_cell)cell, .batch_n = 1, .steps = 1};
        for (r.hidden = most[cell]; r.hidden <= most[cell] + 1; r.hidden++) {
            assert_true(slots()->takes(uw_gpu_table, &r) == (r.hidden == most[cell]));
        }
    }
    const struct uw_recurrence wide = {.batch_n = 1, .steps = 1, .hidden = UINT32_MAX};
    assert_false(slots()->takes(uw_gpu_table, &wide));
}

static void test_nan_stays_in_its_sample(void **state)
{
    (void)state;
    const struct uw_exec e = {.kernels = uw_gpu_table};
    uw_rng_seed(&rng, uw_test_seed(83));
    for (uint32_t i = 0; i < 6; i++) {
        struct sequences t;
        begin(&t, (struct uw_recurrence){.cell = (enum uw_recurrence_cell)(i % 3), .batch_n = 70,
                                         .steps = 2, .hidden = i < 3 ? 7 : 66, .keeps = true},
              true, 0);
        t.got_a[t.a_n / 70 + 2] = NAN;      /* sample 1, unit 2 */
        assert_int_equal(slots()->fw(&e, &t.r, t.w, t.b_ih, t.b_hh, t.got_a, t.got_h, t.got_last),
                         UW_OK);
        for (size_t j = 0; j < t.state_n; j++) {
            assert_true(isnan(t.got_last[j]) == (j / t.k == 1));
        }
        assert_int_equal(slots()->bw(&e, &t.r, t.w, t.got_h, t.dy, NULL, t.got_a), UW_OK);
        for (size_t j = 0; j < t.a_n; j++) {
            assert_false(isnan(t.got_a[j]) && j / (t.a_n / 70) != 1);
        }
        end(&t);
    }
}

/* Few samples of many heads and many of few, with steps in between, each as gemm gives it. */
static void test_products_are_those_of_single_ones(void **state)
{
    (void)state;
    const struct uw_exec e = {.kernels = uw_gpu_table};
    uw_rng_seed(&rng, uw_test_seed(84));
    for (uint32_t i = 0; i < 16; i++) {
        bool trans_a = (i & 1u) != 0, trans_b = (i & 2u) != 0;
        struct uw_gemm g = {.trans_a = trans_a, .trans_b = trans_b, .m = 3, .n = 4,
                            .k = i == 7 ? 0 : 5, .lda = 7, .ldb = 8, .ldc = 6, .alpha = 0.5f,
                            .beta = (i & 4u) != 0 ? 1.0f : 0.0f};
        const struct uw_gemm_batch batch = {.n = {i < 8 ? 2 : 5, 3}, .a = {130, 41},
                                            .b = {40, 200}, .c = {90, 30}};
        float *a = numbers(800, 1.0f), *b = numbers(800, 1.0f), *c = numbers(600, 1.0f);
        float *want = copy(600, c);
        assert_int_equal(slots()->products(&e, &g, &batch, a, b, c), UW_OK);
        for (uint32_t x = 0; x < batch.n[0]; x++) {
            for (uint32_t y = 0; y < batch.n[1]; y++) {
                assert_int_equal(e.kernels->gemm(&e, &g, a + x * batch.a[0] + y * batch.a[1],
                                                 b + x * batch.b[0] + y * batch.b[1],
                                                 want + x * batch.c[0] + y * batch.c[1]), UW_OK);
            }
        }
        for (size_t n = 0; n < 600; n++) {
            assert_true(fabs((double)c[n] - (double)want[n]) <= 1e-6 * (1.0 + fabs((double)c[n])));
        }
        float *const blocks[] = {a, b, c, want};
        for (size_t n = 0; n < 4; n++) {
            uw_test_release(blocks[n]);
        }
    }
    const struct uw_gemm_batch none = {.n = {0, 3}};
    const struct uw_gemm one = {.m = 1, .n = 1, .k = 1, .lda = 1, .ldb = 1, .ldc = 1};
    assert_int_equal(slots()->products(&e, &one, &none, NULL, NULL, NULL), UW_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products_are_those_of_single_ones),
        cmocka_unit_test(test_small_states_every_way),
        cmocka_unit_test(test_large_states_every_way),
        cmocka_unit_test(test_what_is_too_large_is_not_taken),
        cmocka_unit_test(test_nan_stays_in_its_sample),
    };
    return cmocka_run_group_tests_name("recurrence", tests, NULL, NULL);
}
