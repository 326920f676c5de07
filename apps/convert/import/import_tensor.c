/* SPDX-License-Identifier: Apache-2.0
 *
 * Element-wise operators of two inputs, with NumPy's broadcasting.
 *
 * Both operands are cut into the same factors, the steps of the output's axes, and brought into the
 * order in which the larger operand lies in memory. So that one is never moved: a constant is
 * written in its order. Neighbouring factors that both operands have, or that one repeats, become
 * one axis of the layer. */
#include "import_parts.h"

#include <math.h>
#include <string.h>

struct operand {
    const struct uw_onnx_tensor *t; /* a constant; NULL: a value */
    struct uw_view v;
    uint64_t dim[UW_ONNX_RANK_MAX]; /* as many as the output has */
    bool shared;                    /* does not depend on the sample */
};

struct factor {
    uint64_t size, stride;
    uint32_t axis;
    bool batch;
};

struct factors {
    struct factor f[UW_ATOMS_MAX];
    uint32_t n;
    uint32_t order[UW_ATOMS_MAX];   /* in memory: the minibatch, then from the longest stride */
};

/* The output as a tensor of the file. */
struct output {
    uint64_t dim[UW_ONNX_RANK_MAX];
    uint32_t rank, batch;           /* batch: its axis; rank if there is none */
};

static int read_operand(struct uw_import *im, const struct uw_onnx_node *n,
                        const struct uw_value *x, struct operand *o)
{
    *o = (struct operand){.t = x->kind == UW_VALUE_CONST ? &x->t : NULL, .shared = true};
    if (o->t == NULL) {
        o->v = x->view;
        o->shared = uw_view_is_shared(&o->v);
    }
    if (o->t != NULL && uw_onnx_tensor_size(o->t) == 0) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "an input is empty");
    }
    return UW_OK;
}

/* Whether all along the axis is equal. */
static bool is_equal_along(const struct uw_onnx_tensor *t, uint32_t axis)
{
    struct uw_onnx_tensor first = *t;
    first.stride[axis] = 0;
    for (uint64_t i = 0; t->stride[axis] != 0 && i < uw_onnx_tensor_size(t); i++) {
        if (uw_import_number(t, i) != uw_import_number(&first, i)) {
            return false;
        }
    }
    return true;
}

/* Give both operands the output's rank, and find its sizes. */
static int align(struct uw_import *im, const struct uw_onnx_node *n, struct operand o[2],
                 struct output *out)
{
    out->rank = 0;
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t rank = o[k].t != NULL ? o[k].t->rank : o[k].v.axes_n;
        out->rank = rank > out->rank ? rank : out->rank;
    }
    out->batch = out->rank;
    for (uint32_t k = 0; k < 2; k++) {
        while (o[k].t == NULL && o[k].v.axes_n < out->rank) {
            uw_view_insert(&o[k].v, 0);
        }
        for (uint32_t a = 0; a < out->rank && o[k].t == NULL; a++) {
            if (!uw_view_has_batch(&o[k].v, a)) {
                continue;
            }
            if (out->batch != out->rank && out->batch != a) {
                return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED,
                                        "the minibatch is in another axis of one input than of "
                                        "the other");
            }
            out->batch = a;
        }
    }
    for (uint32_t a = 0; a < out->rank; a++) {
        for (uint32_t k = 0; k < 2; k++) {
            uint32_t skip = o[k].t != NULL ? out->rank - o[k].t->rank : 0;
            uint64_t d = o[k].t == NULL ? uw_view_dim(&o[k].v, a)
                         : a < skip     ? 1 : o[k].t->dim[a - skip];
            if (a == out->batch && o[k].shared && d == im->batch && o[k].t != NULL &&
                (d == 1 || is_equal_along(o[k].t, a - skip))) {
                d = 1; /* repeated for every sample */
            }
            if (a == out->batch && o[k].shared && d != 1) {
                return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED,
                                        "an input has a value of its own for each of %llu samples",
                                        (unsigned long long)d);
            }
            o[k].dim[a] = d;
        }
        uint64_t d0 = o[0].dim[a], d1 = o[1].dim[a];
        if (d0 != d1 && d0 != 1 && d1 != 1) {
            return uw_import_refuse(im, n, UW_ERR_SHAPE, "axis %u has %llu and %llu values",
                                    (unsigned)a, (unsigned long long)d0, (unsigned long long)d1);
        }
        out->dim[a] = d0 != 1 ? d0 : d1;
    }
    return UW_OK;
}

static bool is_full(const struct operand *o, const struct output *out)
{
    if (o->t != NULL || (o->shared && out->batch != out->rank)) {
        return false;
    }
    for (uint32_t a = 0; a < out->rank; a++) {
        if (o->dim[a] != out->dim[a]) {
            return false;
        }
    }
    return true;
}

/* The factors of the output: those of the operand whose memory order is taken (NULL: row-major). */
static void find_factors(const struct operand *full, const struct output *out, struct factors *f)
{
    uint64_t stride = 1;
    f->n = 0;
    for (uint32_t a = 0; a < out->rank; a++) {
        uint32_t i = full == NULL || a == 0 ? 0 : full->v.axis_end[a - 1];
        for (; full != NULL && i < full->v.axis_end[a]; i++) {
            const struct uw_atom *x = &full->v.atom[i];
            f->f[f->n++] = (struct factor){x->size, x->stride, a, x->batch};
        }
        if (full == NULL && (out->dim[a] != 1 || a == out->batch)) {
            f->f[f->n++] = (struct factor){out->dim[a], 0, a, a == out->batch};
        }
    }
    for (uint32_t i = f->n; i-- > 0 && full == NULL;) {
        f->f[i].stride = stride;
        stride *= f->f[i].batch ? 1 : f->f[i].size;
    }
    for (uint32_t i = 0; i < f->n; i++) {
        uint32_t place = 0;
        for (uint32_t j = 0; j < f->n; j++) {
            bool before = f->f[i].batch  ? false
                          : f->f[j].batch ? true
                                          : f->f[j].stride > f->f[i].stride ||
                                                (f->f[j].stride == f->f[i].stride && j < i);
            place += before ? 1 : 0;
        }
        f->order[place] = i;
    }
}

/* Size of factor i in the operand. */
static uint64_t size_in(const struct operand *o, const struct factor *f)
{
    return f->batch ? (o->shared ? 1 : f->size) : o->dim[f->axis] == 1 ? 1 : f->size;
}

/* The constant's elements by factors, in the order of memory. */
static int cut_constant(struct uw_import *im, const struct uw_onnx_node *n, const struct operand *o,
                        const struct output *out, const struct factors *f,
                        struct uw_onnx_tensor *cut)
{
    uint32_t skip = out->rank - o->t->rank;
    int64_t stride[UW_ATOMS_MAX];
    for (uint32_t i = f->n; i-- > 0;) {
        uint32_t a = f->f[i].axis;
        bool inner = i + 1 < f->n && f->f[i + 1].axis == a && !f->f[i + 1].batch;
        int64_t own = a < skip ? 0 : o->t->stride[a - skip];
        stride[i] = size_in(o, &f->f[i]) == 1 ? 0
                    : inner ? stride[i + 1] * (int64_t)f->f[i + 1].size : own;
    }
    *cut = *o->t;
    cut->rank = 0;
    for (uint32_t k = 0; k < f->n; k++) {
        uint32_t i = f->order[k];
        if (f->f[i].batch || size_in(o, &f->f[i]) == 1) {
            continue;
        }
        if (cut->rank == UW_ONNX_RANK_MAX) {
            return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "more than 8 axes");
        }
        cut->dim[cut->rank] = f->f[i].size;
        cut->stride[cut->rank++] = stride[i];
    }
    return UW_OK;
}

/* Bring a value into the order of memory. */
static int order_value(struct uw_import *im, const struct uw_onnx_node *n, struct operand *o,
                       const struct factors *f)
{
    uint64_t dim[UW_ATOMS_MAX];
    if (f->n > UW_ONNX_RANK_MAX) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "more than 8 axes");
    }
    for (uint32_t i = 0; i < f->n; i++) {
        dim[i] = size_in(o, &f->f[i]);
    }
    if (f->n == 0) {
        return uw_import_order(im, n, &o->v);
    }
    int fits = uw_import_reshape(im, n, &o->v, dim, f->n);
    if (fits <= 0) {
        return fits < 0 ? fits
                        : uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "its inputs are divided "
                                           "into axes that do not fit together");
    }
    uw_view_permute(&o->v, f->order);
    return uw_import_order(im, n, &o->v);
}

/* The layer's axes: factors in the order of memory, joined where both operands have or repeat
 * them. dim: [2][UW_AXES_MAX]. Returns their number, or a code. */
static int join_factors(struct uw_import *im, const struct uw_onnx_node *n,
                        const struct operand o[2], const struct factors *f,
                        uint64_t dim[2][UW_AXES_MAX])
{
    bool last[2] = {false, false};
    int axes = 0;
    for (uint32_t k = 0; k < f->n; k++) {
        const struct factor *x = &f->f[f->order[k]];
        if (x->batch) {
            continue;
        }
        bool has[2] = {size_in(&o[0], x) != 1, size_in(&o[1], x) != 1};
        if (axes > 0 && has[0] == last[0] && has[1] == last[1]) {
            dim[0][axes - 1] *= has[0] ? x->size : 1;
            dim[1][axes - 1] *= has[1] ? x->size : 1;
            continue;
        }
        if (axes == UW_AXES_MAX) {
            return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "its inputs are repeated along "
                                    "more axes than a layer has (4)");
        }
        dim[0][axes] = has[0] ? x->size : 1;
        dim[1][axes] = has[1] ? x->size : 1;
        memcpy(last, has, sizeof last);
        axes++;
    }
    if (axes == 0) {
        dim[0][0] = dim[1][0] = 1;
        axes = 1;
    }
    return axes;
}

/* Into how many axes join_factors joins them. */
static uint32_t joined_axes(const struct operand o[2], const struct factors *f)
{
    uint32_t axes = 0, last = 0;
    for (uint32_t k = 0; k < f->n; k++) {
        const struct factor *x = &f->f[f->order[k]];
        uint32_t has = (size_in(&o[0], x) != 1 ? 1u : 0u) | (size_in(&o[1], x) != 1 ? 2u : 0u);
        axes += !x->batch && (axes == 0 || has != last) ? 1 : 0;
        last = x->batch ? last : has;
    }
    return axes;
}

/* Cut the output into factors, in the order of the larger operand in memory: *full. Where the other
 * one were repeated along too many axes then, both are moved to the order of the output: NULL. */
static int choose_order(struct uw_import *im, const struct uw_onnx_node *n, struct operand o[2],
                        const struct output *out, struct factors *f, const struct operand **full)
{
    uint32_t k = is_full(&o[0], out) ? 0 : 1;
    *full = is_full(&o[k], out) ? &o[k] : NULL;
    find_factors(*full, out, f);
    if (*full == NULL || joined_axes(o, f) <= UW_AXES_MAX) {
        return UW_OK;
    }
    *full = NULL;
    find_factors(NULL, out, f);
    return uw_import_order(im, n, &o[k].v);
}

/* The axes of the larger operand's layer, if the other has or repeats each of them as a whole.
 * Returns their number, or 0. */
static int keep_axes(const struct operand *full, const struct operand o[2],
                     const struct factors *f, uint64_t dim[2][UW_AXES_MAX])
{
    uint32_t axis = 0;
    uint64_t filled = 1;
    bool last[2] = {false, false};
    if (full == NULL) {
        return 0;
    }
    for (uint32_t k = 0; k < 2; k++) {
        for (uint32_t a = 0; a < UW_AXES_MAX; a++) {
            dim[k][a] = 1;
        }
    }
    for (uint32_t k = 0; k < f->n; k++) {
        const struct factor *x = &f->f[f->order[k]];
        bool has[2] = {size_in(&o[0], x) != 1, size_in(&o[1], x) != 1};
        if (x->batch) {
            continue;
        }
        while (axis < full->v.rank && filled == full->v.dim[axis]) {
            axis++;
            filled = 1;
        }
        if (axis == full->v.rank || full->v.dim[axis] % (filled * x->size) != 0 ||
            (filled > 1 && (has[0] != last[0] || has[1] != last[1]))) {
            return 0;
        }
        filled *= x->size;
        dim[0][axis] *= has[0] ? x->size : 1;
        dim[1][axis] *= has[1] ? x->size : 1;
        memcpy(last, has, sizeof last);
    }
    return (int)full->v.rank;
}

/* The layer that gives operand k its place; its number, or a code. */
static int64_t place_operand(struct uw_import *im, const struct uw_onnx_node *n, struct operand *o,
                             const struct output *out, const struct factors *f, uint32_t rank,
                             const uint64_t *dim, bool trains)
{
    struct uw_onnx_tensor cut;
    if (o->t == NULL) {
        int rc = uw_import_shape(im, n, &o->v, rank, dim);
        return rc < 0 ? rc : (int64_t)o->v.layer;
    }
    int rc = cut_constant(im, n, o, out, f, &cut);
    return rc < 0 ? rc : uw_import_parameter(im, n, &cut, rank, dim, trains);
}

/* Output 0: its axes, with strides in the order of memory. */
static int set_result(struct uw_import *im, const struct uw_onnx_node *n, const struct output *out,
                      const struct factors *f, struct uw_value *y)
{
    const struct uw_import_layer *l = im->layer[im->layers_n - 1];
    struct uw_view *v = &y->view;
    uint64_t stride = 1, strides[UW_ATOMS_MAX];
    uint32_t at = 0;
    for (uint32_t k = f->n; k-- > 0;) {
        const struct factor *x = &f->f[f->order[k]];
        strides[f->order[k]] = x->batch ? 0 : stride;
        stride *= x->batch ? 1 : x->size;
    }
    *v = (struct uw_view){.layer = im->layers_n, .rank = l->rank, .n = stride,
                          .axes_n = out->rank, .atoms_n = f->n};
    memcpy(v->dim, l->dim, sizeof v->dim);
    for (uint32_t a = 0; a < out->rank; a++) {
        while (at < f->n && f->f[at].axis == a) {
            v->atom[at] = (struct uw_atom){f->f[at].size, strides[at], f->f[at].batch};
            at++;
        }
        v->axis_end[a] = at;
    }
    y->kind = UW_VALUE_DATA;
    return uw_view_reshape(v, out->dim, out->rank)
               ? UW_OK
               : uw_import_refuse(im, n, UW_ERR_SHAPE, "its output has no shape");
}

int uw_import_arithmetic(struct uw_import *im, const struct uw_onnx_node *n,
                         enum uw_arithmetic_op op, const struct uw_value *a,
                         const struct uw_value *b, struct uw_value *y)
{
    struct operand o[2];
    struct output out;
    struct factors f;
    uint64_t dim[2][UW_AXES_MAX];
    int rc = read_operand(im, n, a, &o[0]);
    rc = rc < 0 ? rc : read_operand(im, n, b, &o[1]);
    rc = rc < 0 ? rc : align(im, n, o, &out);
    if (rc < 0 || y == NULL) {
        return rc;
    }
    const struct operand *full;
    rc = choose_order(im, n, o, &out, &f, &full);
    for (uint32_t k = 0; k < 2 && rc == UW_OK; k++) {
        rc = o[k].t == NULL ? order_value(im, n, &o[k], &f) : UW_OK;
    }
    int rank = rc < 0 ? rc : keep_axes(full, o, &f, dim);
    rank = rank != 0 ? rank : join_factors(im, n, o, &f, dim);
    int64_t layer[2] = {0, 0};
    for (uint32_t k = 0; k < 2 && rank > 0; k++) {
        bool trains = o[k].t != NULL && uw_import_trains(im, n, op, o[k].t, o[1 - k].v.layer);
        layer[k] = place_operand(im, n, &o[k], &out, &f, (uint32_t)rank, dim[k], trains);
        rank = layer[k] < 0 ? (int)layer[k] : rank;
    }
    bool alike = rank > 0 && !o[0].shared && !o[1].shared &&
                 memcmp(dim[0], dim[1], (size_t)rank * sizeof dim[0][0]) == 0;
    struct uw_import_layer *l =
        rank > 0 ? uw_import_emit(im, n, op == UW_ARITHMETIC_ADD ? UW_LAYER_ADD
                                                                 : UW_LAYER_ARITHMETIC,
                                  (uint32_t)layer[0])
                 : NULL;
    if (l == NULL) {
        return im->err->code;
    }
    if (op == UW_ARITHMETIC_ADD && !alike) {
        l->def.kind = UW_LAYER_ARITHMETIC;
    }
    if (l->def.kind == UW_LAYER_ARITHMETIC) {
        l->def.arithmetic.op = op;
    }
    l->input[l->inputs_n++] = (uint32_t)layer[1];
    for (int i = 0; i < rank; i++) {
        dim[0][i] = dim[0][i] != 1 ? dim[0][i] : dim[1][i];
    }
    uw_import_sizes(l, (uint32_t)rank, dim[0]);
    return set_result(im, n, &out, &f, y);
}

/* ---- a constant number on one side ---- */

/* x op c, or c op x. Returns 1 (done), 0 (no such function), or a code. */
static int with_number(struct uw_import *im, const struct uw_onnx_node *n,
                       enum uw_arithmetic_op op, const struct uw_value *x, float c, bool first,
                       struct uw_value *y)
{
    int rc = 0;
    switch (op) {
    case UW_ARITHMETIC_ADD:
        rc = c == 0.0f ? uw_import_rename(y, x)
                       : uw_import_function(im, n, UW_FUNCTION_SCALE, 1.0f, c, x, y);
        break;
    case UW_ARITHMETIC_SUB:
        rc = !first && c == 0.0f
                 ? uw_import_rename(y, x)
                 : uw_import_function(im, n, UW_FUNCTION_SCALE, first ? -1.0f : 1.0f,
                                      first ? c : -c, x, y);
        break;
    case UW_ARITHMETIC_MUL:
        rc = c == 1.0f ? uw_import_rename(y, x)
                       : uw_import_function(im, n, UW_FUNCTION_SCALE, c, 0.0f, x, y);
        break;
    case UW_ARITHMETIC_DIV:
        if (first) {
            rc = uw_import_function(im, n, UW_FUNCTION_RECIPROCAL, 0.0f, 0.0f, x, y);
            rc = rc < 0 || c == 1.0f
                     ? rc : uw_import_function(im, n, UW_FUNCTION_SCALE, c, 0.0f, y, y);
        } else {
            rc = c == 1.0f ? uw_import_rename(y, x)
                           : uw_import_function(im, n, UW_FUNCTION_SCALE, 1.0f / c, 0.0f, x, y);
        }
        break;
    case UW_ARITHMETIC_POW:
        if (first && c > 0.0f) {
            rc = uw_import_function(im, n, UW_FUNCTION_SCALE, logf(c), 0.0f, x, y);
            rc = rc < 0 ? rc : uw_import_function(im, n, UW_FUNCTION_EXP, 0.0f, 0.0f, y, y);
        } else if (!first) {
            rc = uw_import_function(im, n, c == 2.0f   ? UW_FUNCTION_SQUARE
                                           : c == 0.5f ? UW_FUNCTION_SQRT : UW_FUNCTION_POWER,
                                    c == 2.0f || c == 0.5f ? 0.0f : c, 0.0f, x, y);
        } else {
            return 0;
        }
        break;
    case UW_ARITHMETIC_MIN:
    case UW_ARITHMETIC_MAX:
        rc = uw_import_clip(im, n, op == UW_ARITHMETIC_MAX ? (double)c : -INFINITY,
                            op == UW_ARITHMETIC_MIN ? (double)c : INFINITY, x, y);
        break;
    case UW_ARITHMETIC_MASK:
        return 0;
    }
    return rc < 0 ? rc : 1;
}

int uw_import_combine(struct uw_import *im, const struct uw_onnx_node *n,
                      enum uw_arithmetic_op op, const struct uw_value *a,
                      const struct uw_value *b, struct uw_value *y)
{
    for (uint32_t first = 0; first < 2; first++) { /* 1: the number is the first operand */
        const struct uw_value *x = first != 0 ? b : a, *c = first != 0 ? a : b;
        double number;
        if (x->kind == UW_VALUE_DATA && uw_import_scalar(c, &number) &&
            c->t.rank <= x->view.axes_n && fabs(number) < 1e30 &&
            !uw_import_trains(im, n, op, &c->t, x->view.layer)) {
            int rc = with_number(im, n, op, x, (float)number, first != 0, y);
            if (rc != 0) {
                return rc < 0 ? rc : UW_OK;
            }
        }
    }
    return uw_import_arithmetic(im, n, op, a, b, y);
}

/* Add, Sub, Mul, Div, Pow, and Min, Max, Sum, Mean of any number of inputs. */
int uw_op_arithmetic(struct uw_import *im, const struct uw_onnx_node *n)
{
    static const struct {
        const char *op;
        enum uw_arithmetic_op is;
    } ops[] = {{"Add", UW_ARITHMETIC_ADD}, {"Sub", UW_ARITHMETIC_SUB}, {"Mul", UW_ARITHMETIC_MUL},
               {"Div", UW_ARITHMETIC_DIV}, {"Pow", UW_ARITHMETIC_POW}, {"Min", UW_ARITHMETIC_MIN},
               {"Max", UW_ARITHMETIC_MAX}, {"Sum", UW_ARITHMETIC_ADD}, {"Mean", UW_ARITHMETIC_ADD}};
    enum uw_arithmetic_op op = UW_ARITHMETIC_ADD;
    struct uw_value *y = uw_import_out(im, n, 0);
    const struct uw_value *sum = uw_import_any(im, n, 0);
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        op = strcmp(n->op, ops[i].op) == 0 ? ops[i].is : op;
    }
    if (sum == NULL || y == NULL) {
        return sum == NULL ? im->err->code : UW_OK;
    }
    int rc = n->inputs_n == 1 && sum->kind == UW_VALUE_DATA ? uw_import_rename(y, sum) : UW_OK;
    for (uint32_t k = 1; k < n->inputs_n && rc == UW_OK; k++) {
        const struct uw_value *x = uw_import_any(im, n, k);
        rc = x == NULL ? im->err->code : uw_import_combine(im, n, op, sum, x, y);
        sum = y;
    }
    return rc < 0 || n->op[0] != 'M' || n->op[1] != 'e'
               ? rc
               : uw_import_function(im, n, UW_FUNCTION_SCALE, 1.0f / (float)n->inputs_n, 0.0f, y,
                                    y);
}

/* x above 0, slope x below: relu(x) + slope min(x, 0) */
int uw_op_prelu(struct uw_import *im, const struct uw_onnx_node *n)
{
    const struct uw_value *x = uw_import_data(im, n, 0), *slope = uw_import_any(im, n, 1);
    struct uw_value *y = uw_import_out(im, n, 0);
    if (x == NULL || slope == NULL || y == NULL) {
        return im->err->code;
    }
    struct uw_value above = *x, below = *x;
    int rc = uw_import_clip(im, n, 0.0, INFINITY, x, &above);
    rc = rc < 0 ? rc : uw_import_clip(im, n, -INFINITY, 0.0, x, &below);
    rc = rc < 0 ? rc : uw_import_arithmetic(im, n, UW_ARITHMETIC_MUL, &below, slope, y);
    struct uw_value scaled = *y;
    return rc < 0 ? rc : uw_import_arithmetic(im, n, UW_ARITHMETIC_ADD, &above, &scaled, y);
}
