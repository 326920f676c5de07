/* SPDX-License-Identifier: Apache-2.0
 *
 * rnn, gru and lstm: one direction of one layer, PyTorch's equations and tensors.
 *
 * For every sample and step aux keeps the activated gates: hidden floats for rnn, 4 hidden for gru
 * (r, z, n, and W_hn h + b_hn), 5 hidden for lstm (i, f, g, o, and the cell state). The states
 * are the output itself; only with `last` aux keeps them too, hidden floats per step. bw_prepare
 * replaces the gates with the gradients of their pre-activations. Without a backward pass the gates
 * are in scratch: of one step, or of all steps if a kernel runs all steps in one call. */
#include "layer_shared.h"

/* Multiply-adds that take as long as a gate of a cell and packing its part of the product. */
#define CELL_WORK 64.0

enum { WEIGHT_IH, WEIGHT_HH, BIAS_IH, BIAS_HH };

/* Blocks of `hidden` floats: rows of the weights; kept_of: kept per step. */
static uint32_t gates_of(const struct uw_layer *l)
{
    return l->def->kind == UW_LAYER_LSTM ? 4 : l->def->kind == UW_LAYER_GRU ? 3 : 1;
}

static uint32_t kept_of(const struct uw_layer *l)
{
    return l->def->kind == UW_LAYER_RNN ? 1 : gates_of(l) + 1;
}

static int infer(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err)
{
    const struct uw_recurrent_def *d = &l->def->recurrent;

    if (d->hidden == 0) {
        return uw_error_set(err, UW_ERR_INVALID, "hidden needs 1 or more");
    }
    if (d->relu && l->def->kind != UW_LAYER_RNN) {
        return uw_error_set(err, UW_ERR_INVALID, "relu is an option of rnn only");
    }
    int rc = uw_want_rank(in, 2, "[steps][features]", err);
    if (rc < 0) {
        return rc;
    }
    if ((uint64_t)in->c * kept_of(l) > UINT32_MAX / d->hidden) {
        return uw_error_set(err, UW_ERR_TOOBIG, "its gates do not fit 32 bits");
    }
    l->geometry.recurrent = (struct uw_recurrent){.steps = in->c, .in = in->w,
                                                  .hidden = d->hidden, .reverse = d->reverse,
                                                  .last = d->last, .relu = d->relu};
    l->out = d->last ? uw_shape_row(d->hidden)
                     : uw_shape_matrix(in->c, d->hidden);
    l->reads_y = !d->last;
    l->tensors_n = d->no_bias ? 2 : 4;
    l->aux_sample_bytes = uw_size_mul(in->c * sizeof(float), d->hidden) *
                          (kept_of(l) + (d->last ? 1u : 0u));
    return UW_OK;
}

static struct uw_layer_tensor tensor(const struct uw_layer *l, uint32_t t)
{
    static const char *const suffix[] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
    const struct uw_recurrent *g = &l->geometry.recurrent;
    uint32_t cols = t == WEIGHT_IH ? g->in : g->hidden;

    bool bias = t >= BIAS_IH;
    return (struct uw_layer_tensor){
        .suffix = suffix[t], .dim = {gates_of(l) * g->hidden, bias ? 0 : cols},
        .rank = bias ? 1 : 2, .init = UW_INIT_UNIFORM, .fan_in = g->hidden, .fan_out = g->hidden,
        .bias = bias};
}

/* Gates and states of a minibatch, or of some of its samples, with the floats from one sample,
 * and one step, to the next. */
struct tape {
    const struct uw_layer *l;
    uint32_t batch_n, whole_n;  /* samples of the tape, and of the minibatch */
    float *gates, *h;
    size_t gates_sample, gates_step, h_sample, h_step;
};

/* With all steps, as the backward pass needs it. */
static struct tape tape_of(const struct uw_layer *l, uint32_t batch_n, float *y)
{
    const struct uw_recurrent *g = &l->geometry.recurrent;
    size_t row = (size_t)kept_of(l) * g->hidden;
    struct tape t = {.l = l, .batch_n = batch_n, .whole_n = batch_n, .gates = l->aux, .h = y,
                     .gates_sample = g->steps * row, .gates_step = row,
                     .h_sample = (size_t)g->steps * g->hidden, .h_step = g->hidden};
    if (g->last) {
        t.h = t.gates + batch_n * t.gates_sample;
    }
    return t;
}

/* Without a backward pass: gates of one step in scratch, and with `last` the states in y. */
static struct tape short_tape(const struct uw_layer *l, uint32_t batch_n, float *scratch, float *y)
{
    struct tape t = tape_of(l, batch_n, y);
    t.gates = scratch;
    t.gates_sample = t.gates_step;
    t.gates_step = 0;
    if (l->geometry.recurrent.last) {
        t.h = y;
        t.h_sample = t.h_step;
        t.h_step = 0;
    }
    return t;
}

/* n samples of a tape from sample `at` on. */
static struct tape part_of(const struct tape *whole, uint32_t at, uint32_t n)
{
    struct tape t = *whole;
    t.batch_n = n;
    t.gates += at * t.gates_sample;
    t.h += at * t.h_sample;
    return t;
}

/* The time step that is computed as the i-th. */
static uint32_t step_at(const struct uw_recurrent *g, uint32_t i)
{
    return g->reverse ? g->steps - 1 - i : i;
}

/* The products of this file. GRU keeps W_hn h of its candidate n in a block of its own, so its
 * products with W_hh are in two parts: _NEW is the part with the rows W_hn. */
enum part {
    INPUT, INPUT_STEP, STATE, STATE_NEW,        /* gates = x W_ih^T, gates += h W_hh^T */
    BW_STATE, BW_STATE_NEW, BW_INPUT,           /* dh += da W_hh, dx = da W_ih */
    PARAM_IH, PARAM_HH, PARAM_HH_NEW,           /* dW += da^T x, of one sample da^T h */
    PARTS_N
};

static struct uw_gemm product(const struct tape *t, enum part part)
{
    const struct uw_recurrent *g = &t->l->geometry.recurrent;
    bool gru = t->l->def->kind == UW_LAYER_GRU;
    uint32_t all = gates_of(t->l) * g->hidden, rows = t->batch_n * g->steps;
    uint32_t one = kept_of(t->l) * g->hidden, gates_sample = (uint32_t)t->gates_sample;
    uint32_t some = part == STATE_NEW || part == BW_STATE_NEW || part == PARAM_HH_NEW
                        ? g->hidden
                        : gru ? 2 * g->hidden : all;
    struct uw_gemm m = {.alpha = 1.0f, .beta = 1.0f};

    switch (part) {
    case INPUT:
    case INPUT_STEP:
        m.beta = 0.0f, m.trans_b = true, m.n = all, m.k = g->in, m.ldb = g->in;
        m.m = part == INPUT ? rows : t->batch_n;
        m.rows_of = part == INPUT ? 0 : t->whole_n;
        m.lda = part == INPUT ? g->in : g->steps * g->in;
        m.ldc = part == INPUT ? one : gates_sample;
        break;
    case STATE:
    case STATE_NEW:
        m.beta = part == STATE ? 1.0f : 0.0f, m.trans_b = true;
        m.m = t->batch_n, m.n = some, m.k = g->hidden, m.rows_of = t->whole_n;
        m.lda = (uint32_t)t->h_sample, m.ldb = g->hidden, m.ldc = gates_sample;
        break;
    case BW_STATE:
    case BW_STATE_NEW:
        m.beta = gru ? 1.0f : 0.0f, m.m = t->batch_n, m.n = g->hidden, m.k = some;
        m.rows_of = t->whole_n;
        m.lda = gates_sample, m.ldb = g->hidden, m.ldc = g->hidden;
        break;
    case BW_INPUT:
        m.m = rows, m.n = g->in, m.k = all, m.lda = one, m.ldb = g->in, m.ldc = g->in;
        break;
    case PARAM_IH:
        m.trans_a = true, m.m = all, m.n = g->in, m.k = rows;
        m.lda = one, m.ldb = g->in, m.ldc = g->in;
        break;
    default:
        m.trans_a = true, m.m = some, m.n = g->hidden, m.k = g->steps - 1;
        m.lda = one, m.ldb = g->hidden, m.ldc = g->hidden;
        break;
    }
    return m;
}

/* The kernels that run all time steps of the layer in one call; NULL: none. */
static const struct uw_recurrence_kernels *all_steps(const struct uw_kernels *k,
                                                     const struct uw_layer *l, uint32_t batch_n,
                                                     struct uw_recurrence *r)
{
    const struct uw_recurrence_kernels *all = uw_recurrence(k);
    const struct uw_recurrent *g = &l->geometry.recurrent;
    if (all == NULL) {
        return NULL;
    }
    *r = (struct uw_recurrence){
        .cell = l->def->kind == UW_LAYER_LSTM  ? UW_RECURRENCE_LSTM
                : l->def->kind == UW_LAYER_GRU ? UW_RECURRENCE_GRU
                                               : UW_RECURRENCE_RNN,
        .batch_n = batch_n, .steps = g->steps, .hidden = g->hidden, .reverse = g->reverse,
        .relu = g->relu, .keeps = l->aux != NULL};
    return all->takes(k, r) ? all : NULL;
}

/* The layer's own scratch. Forward: gates of one step; backward: the gradients of the state and of
 * lstm's cell, never more. If a kernel runs all steps in one call: all gates, unless kept. */
static size_t own_bytes(const struct uw_layer *l, const struct uw_kernels *k, uint32_t batch_n)
{
    struct uw_recurrence r;
    size_t step = uw_size_mul((size_t)kept_of(l) * l->geometry.recurrent.hidden * sizeof(float),
                              batch_n);
    if (all_steps(k, l, batch_n, &r) == NULL) {
        return step;
    }
    return l->keeps_aux ? 0 : uw_size_mul(step, r.steps);
}

/* Scratch of the products of a time step, with one thread. */
static size_t step_bytes(const struct uw_layer *l, const struct uw_kernels *k, uint32_t batch_n)
{
    static const enum part parts[] = {INPUT_STEP, STATE, STATE_NEW, BW_STATE, BW_STATE_NEW};
    struct tape t = tape_of(l, batch_n, NULL);
    size_t most = 0;
    for (uint32_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        struct uw_gemm m = product(&t, parts[i]);
        size_t bytes = k->gemm_scratch_bytes(k, &m, 1);
        most = bytes > most ? bytes : most;
    }
    return uw_arena_padded(most);
}

static size_t scratch_bytes(const struct uw_layer *l, const struct uw_kernels *k,
                            uint32_t batch_n, uint32_t threads)
{
    struct tape t = tape_of(l, batch_n, NULL);
    struct uw_recurrence r;
    const struct uw_recurrence_kernels *all = all_steps(k, l, batch_n, &r);
    size_t most = all != NULL && l->keeps_aux ? all->scratch_bytes(k, &r) : 0;
    size_t each = all == NULL ? uw_size_mul(step_bytes(l, k, batch_n), threads) : 0;

    most = each > most ? each : most;

    for (int part = 0; part < PARTS_N; part++) {
        if (all != NULL && part != INPUT && part != BW_INPUT && part != PARAM_IH) {
            continue;
        }
        struct uw_gemm m = product(&t, (enum part)part);
        size_t bytes = k->gemm_scratch_bytes(k, &m, threads);
        most = bytes > most ? bytes : most;
    }
    size_t own = uw_arena_padded(own_bytes(l, k, batch_n));
    return most > SIZE_MAX - own ? SIZE_MAX : own + most;
}

/* e with the scratch that follows the layer's own. */
static struct uw_exec after_own(const struct uw_exec *e, const struct uw_layer *l, uint32_t batch_n)
{
    struct uw_exec rest = *e;
    size_t own = uw_arena_padded(own_bytes(l, e->kernels, batch_n));
    rest.scratch = (uint8_t *)e->scratch + own;
    rest.scratch_bytes -= own;
    return rest;
}

static const float *weight_new(const struct uw_layer *l)
{
    size_t hidden = l->geometry.recurrent.hidden;
    return l->param[WEIGHT_HH] + 2 * hidden * hidden;
}

static int project(const struct uw_exec *e, const struct tape *t, enum part part, const float *x,
                   float *a)
{
    struct uw_gemm m = product(t, part);
    return e->kernels->gemm(e, &m, x, t->l->param[WEIGHT_IH], a);
}

/* Scratch of the two products of a time step with W_hh, which may stay packed in it from step to
 * step. GRU's second product gets a third of it, if both find what they need. */
struct room {
    struct uw_exec part[2];
    bool keeps;
};

static struct room room_of(const struct uw_exec *e, const struct tape *t, bool keeps)
{
    struct room r = {{*e, *e}, keeps};
    size_t third = e->scratch_bytes / 3 / UW_ARENA_ALIGN * UW_ARENA_ALIGN;
    if (t->l->def->kind != UW_LAYER_GRU || !keeps) {
        return r;
    }
    r.keeps = uw_workers_threads(e->workers) == 1 && third >= step_bytes(t->l, e->kernels,
                                                                         t->whole_n);
    if (r.keeps) {
        r.part[0].scratch_bytes -= third;
        r.part[1].scratch_bytes = third;
        r.part[1].scratch = (uint8_t *)e->scratch + r.part[0].scratch_bytes;
    }
    return r;
}

/* STATE: x is the state, y the gates; BW_STATE: the other way round.
 *   first  of the products that follow each other */
static int times_state_weights(const struct room *r, const struct tape *t, enum part part,
                               bool first, const float *x, float *y)
{
    size_t new = 3 * (size_t)t->l->geometry.recurrent.hidden;
    const struct uw_exec *e = r->part;
    struct uw_gemm m = product(t, part);
    m.b = !r->keeps ? UW_GEMM_B_ONCE : first ? UW_GEMM_B_FIRST : UW_GEMM_B_AGAIN;
    enum uw_gemm_b b = m.b;
    int rc = e->kernels->gemm(&e[0], &m, x, t->l->param[WEIGHT_HH], y);
    if (rc == UW_OK && t->l->def->kind == UW_LAYER_GRU) {
        m = product(t, part == STATE ? STATE_NEW : BW_STATE_NEW);
        m.b = b;
        rc = e->kernels->gemm(&e[1], &m, x + (part == STATE ? 0 : new), weight_new(t->l),
                              y + (part == STATE ? new : 0));
    }
    return rc;
}

static struct uw_cell cell_of(const struct tape *t)
{
    const struct uw_recurrent *g = &t->l->geometry.recurrent;
    return (struct uw_cell){.batch_n = t->batch_n, .hidden = g->hidden,
                            .a_step = t->gates_sample, .h_step = t->h_sample,
                            .dy_step = t->l->out_n, .relu = g->relu};
}

static int cell_forward(const struct uw_exec *e, const struct tape *t, const float *h_prev,
                        const float *a_prev, float *a, float *h)
{
    const struct uw_sequence_kernels *k = e->kernels->sequence;
    const struct uw_layer *l = t->l;
    const float *b_ih = l->param[BIAS_IH], *b_hh = l->param[BIAS_HH];
    struct uw_cell c = cell_of(t);

    if (l->def->kind == UW_LAYER_RNN) {
        return k->rnn_fw(e, &c, b_ih, b_hh, a, h);
    }
    if (l->def->kind == UW_LAYER_GRU) {
        return k->gru_fw(e, &c, b_ih, b_hh, h_prev, a, h);
    }
    const float *c_prev = a_prev != NULL ? a_prev + 4 * (size_t)c.hidden : NULL;
    return k->lstm_fw(e, &c, b_ih, b_hh, c_prev, a, h);
}

static int forward_whole(const struct uw_exec *e, const struct uw_layer *l,
                         const struct uw_recurrence_kernels *all, const struct uw_recurrence *r,
                         const float *x, float *y)
{
    struct tape t = tape_of(l, r->batch_n, y);
    const struct uw_exec rest = after_own(e, l, r->batch_n);
    bool last = l->geometry.recurrent.last;
    t.gates = r->keeps ? t.gates : e->scratch;
    int rc = project(&rest, &t, INPUT, x, t.gates);
    return rc < 0 ? rc
                  : all->fw(&rest, r, l->param[WEIGHT_HH], l->param[BIAS_IH], l->param[BIAS_HH],
                            t.gates, r->keeps || !last ? t.h : NULL, last ? y : NULL);
}

/* A pass over the minibatch, step by step. An item has samples_n samples: the threads divide them,
 * as the steps of one sample must follow each other. */
struct passing {
    const struct tape *t;
    uint32_t samples_n;
    const float *x;             /* forward without a backward pass: gates of a step are computed */
    float *dh;                  /* backward: kept_of * hidden floats a sample */
};

static struct tape item_of(const struct passing *p, uint32_t item, uint32_t *at)
{
    uint32_t rest = p->t->batch_n - item * p->samples_n;
    *at = item * p->samples_n;
    return part_of(p->t, *at, rest < p->samples_n ? rest : p->samples_n);
}

static int run_items(const struct uw_exec *e, struct passing *p, uw_item_fn fn)
{
    const struct uw_recurrent *g = &p->t->l->geometry.recurrent;
    uint32_t batch_n = p->t->batch_n, threads = uw_workers_threads(e->workers);
    double row = gates_of(p->t->l) * (double)g->hidden;
    double work = (double)batch_n * g->steps * row * (g->hidden + CELL_WORK);
    double bytes = (double)batch_n * g->steps * row * sizeof(float);

    p->samples_n = batch_n;
    if (uw_items_divide(batch_n, threads) &&
        uw_workers_for(e->workers, work, bytes) == e->workers) {
        p->samples_n = (batch_n + threads - 1) / threads;
    }
    return uw_run_items(e, work, bytes, (batch_n + p->samples_n - 1) / p->samples_n, fn, p);
}

static int forward_item(const struct uw_exec *e, const void *arg, uint32_t item)
{
    const struct passing *p = arg;
    uint32_t at;
    const struct tape t = item_of(p, item, &at);
    const struct uw_recurrent *g = &t.l->geometry.recurrent;
    const struct room room = room_of(e, &t, p->x == NULL);
    const float *h_prev = NULL, *a_prev = NULL;
    int rc = UW_OK;

    for (uint32_t i = 0; i < g->steps && rc == UW_OK; i++) {
        uint32_t s = step_at(g, i);
        float *a = t.gates + s * t.gates_step;
        float *h = t.h + s * t.h_step;
        if (p->x != NULL) {
            rc = project(e, &t, INPUT_STEP, p->x + ((size_t)at * g->steps + s) * g->in, a);
        }
        if (rc == UW_OK && h_prev != NULL) {
            rc = times_state_weights(&room, &t, STATE, i == 1, h_prev, a);
        }
        rc = rc < 0 ? rc : cell_forward(e, &t, h_prev, a_prev, a, h);
        h_prev = h;
        a_prev = a;
    }
    return rc;
}

static int forward(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                   const float *const *x, float *y)
{
    const struct uw_recurrent *g = &l->geometry.recurrent;
    bool keeps = l->aux != NULL;
    struct uw_recurrence r;
    const struct uw_recurrence_kernels *all = all_steps(e->kernels, l, p->batch_n, &r);
    if (all != NULL) {
        return forward_whole(e, l, all, &r, x[0], y);
    }
    const struct tape t = keeps ? tape_of(l, p->batch_n, y)
                                : short_tape(l, p->batch_n, e->scratch, y);
    const struct uw_exec rest = after_own(e, l, p->batch_n);
    struct passing steps = {.t = &t, .x = keeps ? NULL : x[0]};
    int rc = keeps ? project(&rest, &t, INPUT, x[0], t.gates) : UW_OK;

    rc = rc < 0 ? rc : run_items(&rest, &steps, forward_item);
    if (rc == UW_OK && keeps && g->last) {
        const struct uw_copy c = {.rows = p->batch_n, .row_n = g->hidden, .x_step = t.h_sample,
                                  .y_step = g->hidden};
        rc = e->kernels->copy->copy(e, &c, t.h + step_at(g, g->steps - 1) * t.h_step, y, false);
    }
    return rc;
}

static int cell_backward(const struct uw_exec *e, const struct tape *t, const float *h_prev,
                         const float *a_prev, float *a, const float *h, const float *dy,
                         float *dh)
{
    const struct uw_sequence_kernels *k = e->kernels->sequence;
    struct uw_cell c = cell_of(t);

    if (t->l->def->kind == UW_LAYER_RNN) {
        return k->rnn_bw(e, &c, h, dy, a, dh);
    }
    if (t->l->def->kind == UW_LAYER_GRU) {
        return k->gru_bw(e, &c, h_prev, dy, a, dh);
    }
    const float *c_prev = a_prev != NULL ? a_prev + 4 * (size_t)c.hidden : NULL;
    return k->lstm_bw(e, &c, c_prev, dy, a, dh, dh + (size_t)c.batch_n * c.hidden);
}

/* Backpropagation through time. */
static int bw_prepare_item(const struct uw_exec *e, const void *arg, uint32_t item)
{
    const struct passing *p = arg;
    uint32_t at;
    const struct tape t = item_of(p, item, &at);
    const struct uw_layer *l = t.l;
    const struct uw_recurrent *g = &l->geometry.recurrent;
    const struct room room = room_of(e, &t, true);
    float *dh = p->dh + (size_t)at * kept_of(l) * g->hidden;
    int rc = UW_OK;

    for (uint32_t i = g->steps; i-- > 0 && rc == UW_OK;) {
        uint32_t s = step_at(g, i), before = i > 0 ? step_at(g, i - 1) : 0;
        float *a = t.gates + s * t.gates_step;
        const float *dy = l->dy + (size_t)at * l->out_n + (g->last ? 0 : s * t.h_step);
        rc = cell_backward(e, &t, i > 0 ? t.h + before * t.h_step : NULL,
                           i > 0 ? t.gates + before * t.gates_step : NULL, a, t.h + s * t.h_step,
                           g->last && i + 1 < g->steps ? NULL : dy, dh);
        rc = rc < 0 || i == 0 ? rc      /* dh of the step before */
                              : times_state_weights(&room, &t, BW_STATE, i + 1 == g->steps, a, dh);
    }
    return rc;
}

static int bw_prepare(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                      const float *const *x)
{
    (void)x;
    const struct uw_recurrent *g = &l->geometry.recurrent;
    const struct tape t = tape_of(l, p->batch_n, l->y);
    const struct uw_exec rest = after_own(e, l, p->batch_n);
    struct uw_recurrence r;
    const struct uw_recurrence_kernels *all = all_steps(e->kernels, l, p->batch_n, &r);
    if (all != NULL) {
        return all->bw(e, &r, l->param[WEIGHT_HH], t.h, g->last ? NULL : l->dy,
                       g->last ? l->dy : NULL, t.gates);
    }
    struct passing steps = {.t = &t, .dh = e->scratch};
    int rc = uw_zero(e, steps.dh, own_bytes(l, e->kernels, p->batch_n));
    return rc < 0 ? rc : run_items(&rest, &steps, bw_prepare_item);
}

static int bw_input(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x, uint32_t which, float *dx, bool accumulate)
{
    (void)x;
    (void)which;
    const struct tape t = tape_of(l, p->batch_n, l->y);
    const struct uw_exec rest = after_own(e, l, p->batch_n);
    struct uw_gemm m = product(&t, BW_INPUT);
    m.beta = accumulate ? 1.0f : 0.0f;
    return e->kernels->gemm(&rest, &m, t.gates, l->param[WEIGHT_IH], dx);
}

/* Gradient of W_hh: every step but the first, with the state before the step. */
static int param_state(const struct uw_exec *e, const struct tape *t, float scale, float *dw)
{
    const struct uw_recurrent *g = &t->l->geometry.recurrent;
    struct uw_gemm m = product(t, PARAM_HH), new = product(t, PARAM_HH_NEW);
    int rc = UW_OK;

    m.alpha = new.alpha = scale;
    for (uint32_t n = 0; n < t->batch_n && g->steps > 1 && rc == UW_OK; n++) {
        const float *a = t->gates + n * t->gates_sample + (g->reverse ? 0 : t->gates_step);
        const float *h = t->h + n * t->h_sample + (g->reverse ? t->h_step : 0);
        rc = e->kernels->gemm(e, &m, a, h, dw);
        if (rc == UW_OK && t->l->def->kind == UW_LAYER_GRU) {
            rc = e->kernels->gemm(e, &new, a + 3 * (size_t)g->hidden, h,
                                  dw + 2 * (size_t)g->hidden * g->hidden);
        }
    }
    return rc;
}

static int param_biases(const struct uw_exec *e, const struct tape *t, float scale, float *d_ih,
                        float *d_hh)
{
    const struct uw_copy_kernels *k = e->kernels->copy;
    uint32_t hidden = t->l->geometry.recurrent.hidden, all = gates_of(t->l) * hidden;
    uint32_t same = t->l->def->kind == UW_LAYER_GRU ? 2 * hidden : all;
    size_t rows = (size_t)t->batch_n * t->l->geometry.recurrent.steps;
    int rc = UW_OK;

    if (d_ih != NULL && d_hh != NULL) {     /* sum once, in scratch */
        float *sums = e->scratch;
        rc = uw_zero(e, sums, all * sizeof *sums);
        rc = rc < 0 ? rc : k->sum_rows(e, rows, all, t->gates_step, t->gates, scale, sums);
        rc = rc < 0 ? rc : e->kernels->axpby(e, all, 1.0f, sums, 1.0f, d_ih);
        rc = rc < 0 ? rc : e->kernels->axpby(e, same, 1.0f, sums, 1.0f, d_hh);
    } else if (d_ih != NULL || d_hh != NULL) {
        rc = k->sum_rows(e, rows, d_ih != NULL ? all : same, t->gates_step, t->gates, scale,
                         d_ih != NULL ? d_ih : d_hh);
    }
    if (rc == UW_OK && d_hh != NULL && same < all) {
        rc = k->sum_rows(e, rows, hidden, t->gates_step, t->gates + 3 * (size_t)hidden, scale,
                         d_hh + same);
    }
    return rc;
}

static int bw_param(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x, float scale, float *const *d)
{
    const struct tape t = tape_of(l, p->batch_n, l->y);
    const struct uw_exec rest = after_own(e, l, p->batch_n);
    int rc = UW_OK;

    if (d[WEIGHT_IH] != NULL) {
        struct uw_gemm m = product(&t, PARAM_IH);
        m.alpha = scale;
        rc = e->kernels->gemm(&rest, &m, t.gates, x[0], d[WEIGHT_IH]);
    }
    struct uw_recurrence r;
    const struct uw_recurrence_kernels *all = all_steps(e->kernels, l, p->batch_n, &r);
    if (all != NULL) {
        return rc < 0 ? rc
                      : all->bw_param(e, &r, t.gates, t.h, scale, d[WEIGHT_HH], d[BIAS_IH],
                                      d[BIAS_HH]);
    }
    if (rc == UW_OK && d[WEIGHT_HH] != NULL) {
        rc = param_state(&rest, &t, scale, d[WEIGHT_HH]);
    }
    return rc < 0 ? rc : param_biases(e, &t, scale, d[BIAS_IH], d[BIAS_HH]);
}

/* The three kinds share all functions, which branch on l->def->kind. */
#define RECURRENT(kind)                                                                            \
    {                                                                                              \
        .name = kind, .param_reads_x = true, .reads_y = true,    \
        .infer = infer, .tensor = tensor, .scratch_bytes = scratch_bytes, .forward = forward,      \
        .bw_prepare = bw_prepare, .bw_input = bw_input, .bw_param = bw_param                       \
    }

const struct uw_layer_ops uw_layer_rnn = RECURRENT("rnn");
const struct uw_layer_ops uw_layer_gru = RECURRENT("gru");
const struct uw_layer_ops uw_layer_lstm = RECURRENT("lstm");
