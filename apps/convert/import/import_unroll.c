/* SPDX-License-Identifier: Apache-2.0
 *
 * Recurrent nodes that no recurrent layer is, because their first state is not zero, their last
 * cell is read, they reset before the product, or their weights are computed from parameters or
 * those of another node: as layers, step after step, which share the weights. */
#include "import_parts.h"
#include "import_sequence.h"

#define LISTS 2u                    /* of states: h, and an LSTM's cell */

/* One direction. A value of kind OPAQUE is a zero that needs no layer. */
struct cell {
    const struct uw_onnx_node *n;
    const struct uw_import_recurrent *s;
    struct uw_value x;              /* W x + b of all steps, [N][steps][gates][hidden] */
    struct uw_value r, r_new, bias; /* R; a GRU's rows of the new state and R's bias, if apart */
    struct uw_value h, c;
};

static bool is_zero(const struct uw_value *v)
{
    return v->kind == UW_VALUE_OPAQUE;
}

static int combine(struct uw_import *im, const struct cell *c, enum uw_arithmetic_op op,
                   const struct uw_value *a, const struct uw_value *b, struct uw_value *y)
{
    struct uw_value out = {.name = ""};
    int rc = uw_import_arithmetic(im, c->n, op, a, b, &out);
    *y = out;
    return rc;
}

/* y = a b^T */
static int product(struct uw_import *im, const struct cell *c, const struct uw_value *a,
                   const struct uw_value *b, struct uw_value *y)
{
    *y = (struct uw_value){.name = ""};
    return uw_import_product(im, c->n, a, b, false, true, 1.0f, y);
}

/* Element `at` of an axis; the axis is gone. */
static int element(struct uw_import *im, const struct uw_onnx_node *n, const struct uw_value *x,
                   uint32_t axis, uint64_t at, struct uw_value *y)
{
    struct uw_value out = {.name = ""};
    struct uw_view v = x->view;
    int rc = uw_import_order_axis(im, n, &v, axis);
    rc = rc < 0 ? rc : uw_import_cut(im, n, &out, &v, axis, at, 1);
    *y = out;
    return rc < 0 || uw_view_remove(&y->view, axis)
               ? rc : uw_import_refuse(im, n, UW_ERR_SHAPE, "its states have no shape");
}

/* Rows of a direction's weight, or elements of its bias, as a parameter. */
static int own_weight(struct uw_import *im, const struct uw_onnx_node *n,
                  const struct uw_onnx_tensor *t, uint64_t direction, uint64_t at, uint64_t rows,
                  struct uw_value *y)
{
    struct uw_onnx_tensor part = *t;
    part.rank = t->rank - 1;
    part.data += 4 * ((int64_t)direction * t->stride[0] + (int64_t)at * t->stride[1]);
    for (uint32_t a = 0; a < part.rank; a++) {
        part.dim[a] = t->dim[a + 1];
        part.stride[a] = t->stride[a + 1];
    }
    part.dim[0] = rows;
    part.one = true;
    part.name = uw_pool_format(im->pool, at == 0 ? "%s.%u" : "%s.%u.%u", t->name,
                               (unsigned)direction, (unsigned)at);
    if (part.name == NULL) {
        return uw_import_nomem(im);
    }
    part.role = t->role == UW_ONNX_ROLE_UNKNOWN ? UW_ONNX_ROLE_TRAINS : t->role;
    *y = (struct uw_value){.name = t->name, .kind = UW_VALUE_DATA};
    return uw_import_constant_view(im, n, &part, part.role == UW_ONNX_ROLE_TRAINS, &y->view);
}

/* The same of input i, which may be computed from parameters. */
static int weight(struct uw_import *im, const struct uw_onnx_node *n, uint32_t i,
                  uint64_t direction, uint64_t at, uint64_t rows, struct uw_value *y)
{
    const struct uw_value *v = uw_import_in(im, n, i);
    if (v->derived) {
        v = uw_import_any(im, n, i);
    }
    if (v == NULL || v->kind == UW_VALUE_CONST) {
        return v == NULL ? im->err->code : own_weight(im, n, &v->t, direction, at, rows, y);
    }
    uw_import_note(im, "a recurrent layer whose weights are computed from parameters is layers for "
                       "each step, which take more time and memory, and train those parameters");
    int rc = element(im, n, v, 0, direction, y);
    return rc < 0 ? rc : uw_import_cut(im, n, y, &y->view, 0, at, rows);
}

/* Gate k of all gates, through a function. */
static int gate(struct uw_import *im, const struct cell *c, const struct uw_value *all, uint64_t k,
                enum uw_layer_kind function, struct uw_value *y)
{
    struct uw_value out = {.name = ""};
    int rc = uw_import_cut(im, c->n, &out, &all->view, all->view.axes_n - 1, k * c->s->hidden,
                           c->s->hidden);
    *y = out;
    return rc < 0 || function == UW_LAYER_FLATTEN ? rc : uw_import_apply(im, c->n, function, y, y);
}

/* h = tanh(x + R h) */
static int rnn_step(struct uw_import *im, struct cell *c, struct uw_value *x)
{
    struct uw_value rh;
    int rc = is_zero(&c->h) ? UW_OK : product(im, c, &c->h, &c->r, &rh);
    rc = rc < 0 || is_zero(&c->h) ? rc : combine(im, c, UW_ARITHMETIC_ADD, x, &rh, x);
    c->h = (struct uw_value){.name = ""};
    return rc < 0 ? rc : uw_import_apply(im, c->n, c->s->relu ? UW_LAYER_RELU : UW_LAYER_TANH, x,
                                         &c->h);
}

/* i, o, f, g of x + R h; c = f c + i g, h = o tanh(c) */
static int lstm_step(struct uw_import *im, struct cell *c, struct uw_value *x)
{
    struct uw_value rh, i, o, f, g, kept, turned = {.name = ""};
    int rc = is_zero(&c->h) ? UW_OK : product(im, c, &c->h, &c->r, &rh);
    rc = rc < 0 || is_zero(&c->h) ? rc : combine(im, c, UW_ARITHMETIC_ADD, x, &rh, x);
    rc = rc < 0 ? rc : gate(im, c, x, 0, UW_LAYER_SIGMOID, &i);
    rc = rc < 0 ? rc : gate(im, c, x, 1, UW_LAYER_SIGMOID, &o);
    rc = rc < 0 ? rc : gate(im, c, x, 3, UW_LAYER_TANH, &g);
    rc = rc < 0 ? rc : combine(im, c, UW_ARITHMETIC_MUL, &i, &g, &i);
    if (rc == UW_OK && !is_zero(&c->c)) {
        rc = gate(im, c, x, 2, UW_LAYER_SIGMOID, &f);
        rc = rc < 0 ? rc : combine(im, c, UW_ARITHMETIC_MUL, &f, &c->c, &kept);
        rc = rc < 0 ? rc : combine(im, c, UW_ARITHMETIC_ADD, &kept, &i, &i);
    }
    c->c = i;
    rc = rc < 0 ? rc : uw_import_apply(im, c->n, UW_LAYER_TANH, &c->c, &turned);
    return rc < 0 ? rc : combine(im, c, UW_ARITHMETIC_MUL, &o, &turned, &c->h);
}

/* z and r of x + R h + b; n = tanh(x + r (R h + b)), or tanh(x + R (r h)); h = n + z (h - n) */
static int gru_step(struct uw_import *im, struct cell *c, struct uw_value *x)
{
    struct uw_value rh = c->bias, z, r, n, x_new, both = *x;
    bool zero = is_zero(&c->h), before = c->s->resets_before;
    int rc = zero ? UW_OK : product(im, c, &c->h, &c->r, &rh);
    if (rc == UW_OK && !zero && !is_zero(&c->bias)) {
        rc = combine(im, c, UW_ARITHMETIC_ADD, &rh, &c->bias, &rh);
    }
    if (rc == UW_OK && before && !zero) { /* R has no rows of the new state */
        rc = uw_import_cut(im, c->n, &both, &x->view, x->view.axes_n - 1, 0, 2 * c->s->hidden);
    }
    rc = rc < 0 || is_zero(&rh) ? rc : combine(im, c, UW_ARITHMETIC_ADD, &both, &rh, &both);
    rc = rc < 0 ? rc : gate(im, c, &both, 0, UW_LAYER_SIGMOID, &z);
    rc = rc < 0 ? rc : gate(im, c, &both, 1, UW_LAYER_SIGMOID, &r);
    rc = rc < 0 ? rc : gate(im, c, x, 2, UW_LAYER_FLATTEN, &x_new);
    n = (struct uw_value){.kind = UW_VALUE_OPAQUE};
    if (rc == UW_OK && before && !zero) {
        rc = combine(im, c, UW_ARITHMETIC_MUL, &r, &c->h, &r);
        rc = rc < 0 ? rc : product(im, c, &r, &c->r_new, &n);
    } else if (rc == UW_OK && !before && !is_zero(&rh)) {
        rc = gate(im, c, &rh, 2, UW_LAYER_FLATTEN, &n);
        rc = rc < 0 ? rc : combine(im, c, UW_ARITHMETIC_MUL, &r, &n, &n);
    }
    rc = rc < 0 || is_zero(&n) ? rc : combine(im, c, UW_ARITHMETIC_ADD, &x_new, &n, &x_new);
    rc = rc < 0 ? rc : uw_import_apply(im, c->n, UW_LAYER_TANH, &x_new, &x_new);
    if (rc == UW_OK && !zero) {
        rc = combine(im, c, UW_ARITHMETIC_SUB, &c->h, &x_new, &r);
        rc = rc < 0 ? rc : combine(im, c, UW_ARITHMETIC_MUL, &z, &r, &z);
        return rc < 0 ? rc : combine(im, c, UW_ARITHMETIC_ADD, &x_new, &z, &c->h);
    }
    rc = rc < 0 ? rc : combine(im, c, UW_ARITHMETIC_MUL, &z, &x_new, &z);
    return rc < 0 ? rc : combine(im, c, UW_ARITHMETIC_SUB, &x_new, &z, &c->h);
}

/* A first state, input i, of a direction. */
static int first_state(struct uw_import *im, const struct cell *c, uint32_t i, uint64_t direction,
                       struct uw_value *y)
{
    *y = (struct uw_value){.kind = UW_VALUE_OPAQUE};
    if (i == 6 ? !c->s->has_cell : !c->s->has_state) {
        return UW_OK;
    }
    const struct uw_value *v = uw_import_any(im, c->n, i);
    struct uw_value data = {.kind = UW_VALUE_DATA};
    if (v == NULL) {
        return im->err->code;
    }
    int rc = UW_OK;
    if (v->kind == UW_VALUE_CONST) {
        rc = uw_import_constant_view(im, c->n, &v->t, uw_import_learns(im, &v->t), &data.view);
    } else {
        data.view = v->view;
    }
    if (rc == UW_OK && data.view.axes_n != 3) {
        return uw_import_refuse(im, c->n, UW_ERR_SHAPE, "input %u is not [directions][N][hidden]",
                                (unsigned)i + 1);
    }
    return rc < 0 ? rc : element(im, c->n, &data, 0, direction, y);
}

static int start(struct uw_import *im, struct cell *c, const struct uw_value *x, uint64_t d)
{
    const struct uw_import_recurrent *s = c->s;
    uint64_t rows = s->gates * s->hidden;
    bool apart = s->resets_before || s->kind != UW_LAYER_GRU;  /* R's bias is added to the input */
    struct uw_value w, b, turned = *x;
    uw_view_move(&turned.view, 1, 0);
    c->bias = c->r_new = (struct uw_value){.kind = UW_VALUE_OPAQUE};
    int rc = weight(im, c->n, 1, d, 0, rows, &w);
    rc = rc < 0 ? rc : product(im, c, &turned, &w, &c->x);
    for (uint64_t k = 0; rc == UW_OK && s->b != NULL && k < 2; k++) {
        rc = weight(im, c->n, 3, d, k * rows, rows, k == 1 && !apart ? &c->bias : &b);
        rc = rc < 0 || (k == 1 && !apart) ? rc
                                          : combine(im, c, UW_ARITHMETIC_ADD, &c->x, &b, &c->x);
    }
    uint64_t first = s->resets_before ? 2 * s->hidden : rows;
    rc = rc < 0 ? rc : weight(im, c->n, 2, d, 0, first, &c->r);
    if (rc == UW_OK && first < rows) {
        rc = weight(im, c->n, 2, d, first, rows - first, &c->r_new);
    }
    rc = rc < 0 ? rc : first_state(im, c, 5, d, &c->h);
    return rc < 0 ? rc : first_state(im, c, 6, d, &c->c);
}

/* One direction: every state, and the last ones. */
static int run(struct uw_import *im, struct cell *c, bool reverse, struct uw_view *all)
{
    int rc = UW_OK;
    for (uint64_t i = 0; i < c->s->steps && rc == UW_OK; i++) {
        uint64_t at = reverse ? c->s->steps - 1 - i : i;
        struct uw_value x;
        rc = element(im, c->n, &c->x, 1, at, &x);
        rc = rc < 0                            ? rc
             : c->s->kind == UW_LAYER_LSTM ? lstm_step(im, c, &x)
             : c->s->kind == UW_LAYER_GRU  ? gru_step(im, c, &x) : rnn_step(im, c, &x);
        all[at] = c->h.view;
    }
    return rc;
}

/* Join the directions along a new axis. */
static int show(struct uw_import *im, const struct uw_onnx_node *n, uint32_t output,
                struct uw_view v[2], uint64_t directions, uint32_t axis)
{
    struct uw_value *y = uw_import_out(im, n, output);
    for (uint64_t d = 0; d < directions; d++) {
        if (!uw_view_insert(&v[d], axis)) {
            return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "more than 8 axes");
        }
    }
    return y == NULL ? UW_OK : uw_import_concat(im, n, v, (uint32_t)directions, axis, y);
}

int uw_import_unroll(struct uw_import *im, const struct uw_onnx_node *n,
                     const struct uw_import_recurrent *s, const struct uw_value *x)
{
    struct uw_view last[LISTS][2], every[2];
    const struct uw_value *y = uw_import_out(im, n, 0);
    bool whole = y != NULL && y->users_n > 0;
    struct uw_view *all = uw_pool_take(im->pool, s->steps, sizeof *all);
    int rc = all != NULL ? UW_OK : uw_import_nomem(im);
    for (uint64_t d = 0; d < s->directions && rc == UW_OK; d++) {
        struct cell c = {.n = n, .s = s};
        rc = start(im, &c, x, d);
        rc = rc < 0 ? rc : run(im, &c, s->reverse || d == 1, all);
        last[0][d] = c.h.view;
        last[1][d] = c.c.view;
        for (uint64_t i = 0; i < s->steps && whole && rc == UW_OK; i++) {
            rc = uw_view_insert(&all[i], 0)
                     ? UW_OK : uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "more than 8 axes");
        }
        if (rc == UW_OK && whole) {
            struct uw_value joined = {.name = ""};
            rc = uw_import_concat(im, n, all, (uint32_t)s->steps, 0, &joined);
            every[d] = joined.view;
        }
    }
    rc = rc < 0 || !whole ? rc : show(im, n, 0, every, s->directions, 1);
    for (uint32_t k = 0; k < LISTS && rc == UW_OK; k++) {
        y = uw_import_out(im, n, k + 1);
        rc = y == NULL || y->users_n == 0 ? UW_OK : show(im, n, k + 1, last[k], s->directions, 0);
    }
    if (rc == UW_OK) {
        uw_import_note(im, "recurrent layers with a first state, a cell that is read or a reset "
                           "before the product, or weights that others have too, are layers for "
                           "each step");
    }
    return rc;
}
