/* SPDX-License-Identifier: Apache-2.0
 *
 * sequence_inline.h - slots of struct uw_sequence_kernels, VEC_N states at a time
 *
 * Included like functions_inline.h. The including file also defines IN_ORDER: whether softmax sums
 * in the reference's order. */
#ifndef UW_KERNELS_SEQUENCE_INLINE_H
#define UW_KERNELS_SEQUENCE_INLINE_H

#include "packed/functions_inline.h"
#include "ref/ref.h"
#include "uwasa/status.h"

/* What a cell reads and writes; fields that it does not have are NULL. */
struct cell_job {
    const struct uw_cell *c;
    const float *b_ih, *b_hh;
    const float *before;            /* h or c of the step before; rnn's backward pass: h */
    const float *dy;
    float *a, *h, *dh, *dc;
};

/* States j .. j+n-1 of one sample. */
typedef void cell_fn(const struct cell_job *t, uint32_t sample, size_t j, size_t n);

/* A cell for all samples; cell is a compile-time constant. */
VEC_INLINE int run_cell(const struct cell_job *t, cell_fn *cell)
{
    size_t hidden = t->c->hidden;
    for (uint32_t s = 0; s < t->c->batch_n; s++) {
        size_t j = 0;
        for (; j + VEC_N <= hidden; j += VEC_N) {
            cell(t, s, j, VEC_N);
        }
        if (j < hidden) {
            cell(t, s, j, hidden - j);
        }
    }
    return UW_OK;
}

/* Gate g before its function: a row's products and both biases. */
VEC_INLINE vec gate_of(const struct cell_job *t, const float *a, size_t g, size_t j, size_t n)
{
    size_t at = g * t->c->hidden + j;
    return (load(a + at, n) + load_or_0(t->b_ih, at, n)) + load_or_0(t->b_hh, at, n);
}

/* The gradient of h. */
VEC_INLINE vec gradient_of(const struct cell_job *t, uint32_t sample, size_t j, size_t n)
{
    return load(t->dh + sample * (size_t)t->c->hidden + j, n) +
           load_or_0(t->dy, sample * t->c->dy_step + j, n);
}

VEC_INLINE void rnn_forward(const struct cell_job *t, uint32_t sample, size_t j, size_t n)
{
    vec s = gate_of(t, t->a + sample * t->c->a_step, 0, j, n);
    vec h = t->c->relu ? choose(s <= all(0.0f), all(0.0f), s) : vec_tanh(s); /* NaN stays */
    store(t->h + sample * t->c->h_step + j, h, n);
}

VEC_INLINE void rnn_backward(const struct cell_job *t, uint32_t sample, size_t j, size_t n)
{
    vec d = gradient_of(t, sample, j, n), h = load(t->before + sample * t->c->h_step + j, n);
    d = t->c->relu ? choose(h > all(0.0f), d, all(0.0f)) : d * (all(1.0f) - h * h);
    store(t->a + sample * t->c->a_step + j, d, n);
}

VEC_INLINE void gru_forward(const struct cell_job *t, uint32_t sample, size_t j, size_t n)
{
    size_t k = t->c->hidden, at = sample * t->c->h_step + j;
    float *a = t->a + sample * t->c->a_step;
    vec r = vec_sigmoid(gate_of(t, a, 0, j, n)), z = vec_sigmoid(gate_of(t, a, 1, j, n));
    vec m = (t->before != NULL ? load(a + 3 * k + j, n) : all(0.0f)) +
            load_or_0(t->b_hh, 2 * k + j, n);
    vec g = vec_tanh((load(a + 2 * k + j, n) + load_or_0(t->b_ih, 2 * k + j, n)) + r * m);
    store(a + j, r, n);
    store(a + k + j, z, n);
    store(a + 2 * k + j, g, n);
    store(a + 3 * k + j, m, n);
    store(t->h + at, (all(1.0f) - z) * g + z * load_or_0(t->before, at, n), n);
}

VEC_INLINE void gru_backward(const struct cell_job *t, uint32_t sample, size_t j, size_t n)
{
    size_t k = t->c->hidden;
    float *a = t->a + sample * t->c->a_step;
    vec d = gradient_of(t, sample, j, n), one = all(1.0f);
    vec r = load(a + j, n), z = load(a + k + j, n);
    vec g = load(a + 2 * k + j, n), m = load(a + 3 * k + j, n);
    vec dg = (d * (one - z)) * (one - g * g);
    vec before = load_or_0(t->before, sample * t->c->h_step + j, n);
    store(a + j, ((dg * m) * r) * (one - r), n);
    store(a + k + j, ((d * (before - g)) * z) * (one - z), n);
    store(a + 2 * k + j, dg, n);
    store(a + 3 * k + j, dg * r, n);
    store(t->dh + sample * k + j, d * z, n);
}

VEC_INLINE void lstm_forward(const struct cell_job *t, uint32_t sample, size_t j, size_t n)
{
    size_t k = t->c->hidden;
    float *a = t->a + sample * t->c->a_step;
    vec i = vec_sigmoid(gate_of(t, a, 0, j, n)), f = vec_sigmoid(gate_of(t, a, 1, j, n));
    vec g = vec_tanh(gate_of(t, a, 2, j, n)), o = vec_sigmoid(gate_of(t, a, 3, j, n));
    vec state = f * load_or_0(t->before, sample * t->c->a_step + j, n) + i * g;
    store(a + j, i, n);
    store(a + k + j, f, n);
    store(a + 2 * k + j, g, n);
    store(a + 3 * k + j, o, n);
    store(a + 4 * k + j, state, n);
    store(t->h + sample * t->c->h_step + j, o * vec_tanh(state), n);
}

VEC_INLINE void lstm_backward(const struct cell_job *t, uint32_t sample, size_t j, size_t n)
{
    size_t k = t->c->hidden;
    float *a = t->a + sample * t->c->a_step, *dc = t->dc + sample * k + j;
    vec d = gradient_of(t, sample, j, n), one = all(1.0f);
    vec i = load(a + j, n), f = load(a + k + j, n);
    vec g = load(a + 2 * k + j, n), o = load(a + 3 * k + j, n);
    vec s = vec_tanh(load(a + 4 * k + j, n));
    vec dstate = load(dc, n) + (d * o) * (one - s * s);
    vec before = load_or_0(t->before, sample * t->c->a_step + j, n);
    store(a + j, ((dstate * g) * i) * (one - i), n);
    store(a + k + j, ((dstate * before) * f) * (one - f), n);
    store(a + 2 * k + j, (dstate * i) * (one - g * g), n);
    store(a + 3 * k + j, ((d * s) * o) * (one - o), n);
    store(dc, dstate * f, n);
}

static int rnn_fw(const struct uw_exec *e, const struct uw_cell *c, const float *b_ih,
                  const float *b_hh, const float *a, float *h)
{
    (void)e;
    const struct cell_job t = {.c = c, .b_ih = b_ih, .b_hh = b_hh, .a = (float *)a, .h = h};
    return run_cell(&t, rnn_forward);
}

static int rnn_bw(const struct uw_exec *e, const struct uw_cell *c, const float *h,
                  const float *dy, float *a, const float *dh)
{
    (void)e;
    const struct cell_job t = {.c = c, .before = h, .dy = dy, .a = a, .dh = (float *)dh};
    return run_cell(&t, rnn_backward);
}

static int gru_fw(const struct uw_exec *e, const struct uw_cell *c, const float *b_ih,
                  const float *b_hh, const float *h_prev, float *a, float *h)
{
    (void)e;
    const struct cell_job t = {.c = c, .b_ih = b_ih, .b_hh = b_hh, .before = h_prev, .a = a,
                               .h = h};
    return run_cell(&t, gru_forward);
}

static int gru_bw(const struct uw_exec *e, const struct uw_cell *c, const float *h_prev,
                  const float *dy, float *a, float *dh)
{
    (void)e;
    const struct cell_job t = {.c = c, .before = h_prev, .dy = dy, .a = a, .dh = dh};
    return run_cell(&t, gru_backward);
}

static int lstm_fw(const struct uw_exec *e, const struct uw_cell *c, const float *b_ih,
                   const float *b_hh, const float *c_prev, float *a, float *h)
{
    (void)e;
    const struct cell_job t = {.c = c, .b_ih = b_ih, .b_hh = b_hh, .before = c_prev, .a = a,
                               .h = h};
    return run_cell(&t, lstm_forward);
}

static int lstm_bw(const struct uw_exec *e, const struct uw_cell *c, const float *c_prev,
                   const float *dy, float *a, const float *dh, float *dc)
{
    (void)e;
    const struct cell_job t = {.c = c, .before = c_prev, .dy = dy, .a = a, .dh = (float *)dh,
                               .dc = dc};
    return run_cell(&t, lstm_backward);
}

VEC_INLINE float total(vec v)
{
    float sum = 0.0f;
    for (uint32_t i = 0; i < VEC_N; i++) {
        sum += v[i];
    }
    return sum;
}

static float largest(size_t n, const float *x)
{
    vec most = all(x[0]);
    for (size_t j = 0; j + VEC_N <= n; j += VEC_N) {
        vec v = load(x + j, VEC_N);
        most = choose(v > most, v, most);
    }
    float top = x[0];                   /* NaN stays */
    for (uint32_t i = 0; i < VEC_N; i++) {
        top = most[i] > top ? most[i] : top;
    }
    for (size_t j = n / VEC_N * VEC_N; j < n; j++) {
        top = x[j] > top ? x[j] : top;
    }
    return top;
}

/* y = exp(x - top). Returns the sum of y; in the order of the reference if IN_ORDER is true. */
static float exp_sum(size_t n, const float *x, float top, float *y)
{
    vec sums = all(0.0f);
    size_t j = 0;
    for (; j + VEC_N <= n; j += VEC_N) {
        vec v = vec_exp(load(x + j, VEC_N) - all(top));
        store(y + j, v, VEC_N);
        sums = sums + v;
    }
    if (j < n) {
        store(y + j, vec_exp(load(x + j, n - j) - all(top)), n - j);
    }
    float sum = IN_ORDER ? 0.0f : total(sums);
    for (j = IN_ORDER ? 0 : j; j < n; j++) {
        sum += y[j];
    }
    return sum;
}

static float dot(size_t n, const float *x, const float *y)
{
    if (IN_ORDER) {
        return uw_dot_ref(n, x, y);
    }
    vec sums = all(0.0f);
    size_t j = 0;
    for (; j + VEC_N <= n; j += VEC_N) {
        sums = sums + load(x + j, VEC_N) * load(y + j, VEC_N);
    }
    float sum = total(sums);
    for (; j < n; j++) {
        sum += x[j] * y[j];
    }
    return sum;
}

static int softmax_fw(const struct uw_exec *e, size_t rows, uint32_t n, bool causal,
                      const float *x, float *y)
{
    (void)e;
    for (size_t r = 0; r < rows; r++, x += n, y += n) {
        uint32_t seen = causal ? (uint32_t)(r % n) + 1 : n, j = 0;
        float sum = exp_sum(seen, x, largest(seen, x), y);
        for (; j + VEC_N <= seen; j += VEC_N) {
            store(y + j, load(y + j, VEC_N) / all(sum), VEC_N);
        }
        for (; j < n; j++) {
            y[j] = j < seen ? y[j] / sum : 0.0f;
        }
    }
    return UW_OK;
}

static int softmax_bw_input(const struct uw_exec *e, size_t rows, uint32_t n, const float *y,
                            const float *dy, float *dx)
{
    (void)e;
    for (size_t r = 0; r < rows; r++, y += n, dy += n, dx += n) {
        float sum = dot(n, y, dy);
        for (uint32_t j = 0; j < n; j++) {
            dx[j] = y[j] * (dy[j] - sum);
        }
    }
    return UW_OK;
}

const struct uw_sequence_kernels FAMILY(uw_sequence) = {.rnn_fw = rnn_fw,
                                                        .rnn_bw = rnn_bw,
                                                        .gru_fw = gru_fw,
                                                        .gru_bw = gru_bw,
                                                        .lstm_fw = lstm_fw,
                                                        .lstm_bw = lstm_bw,
                                                        .softmax_fw = softmax_fw,
                                                        .softmax_bw_input = softmax_bw_input};

#endif
