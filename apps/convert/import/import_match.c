/* SPDX-License-Identifier: Apache-2.0 */
#include "import.h"

#include <math.h>
#include <string.h>

#define FACTORS_MAX 4u

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-4 * fabs(b);
}

static bool same_data(const struct uw_value *a, const struct uw_value *b)
{
    return a != NULL && b != NULL && a->kind == UW_VALUE_DATA && b->kind == UW_VALUE_DATA &&
           a->view.layer == b->view.layer && uw_view_same(&a->view, &b->view);
}

/* A product, in any association: a constant times the factors. */
struct product {
    double c;
    const struct uw_value *factor[FACTORS_MAX];
    uint32_t n;
};

static void multiply(struct uw_import *im, const struct uw_value *v, uint32_t depth,
                     struct product *p)
{
    double c;
    if (v == NULL || depth == 0 || p->n == FACTORS_MAX) {
        p->c = NAN;
    } else if (uw_import_scalar(v, &c)) {
        p->c *= c;
    } else if (v->kind == UW_VALUE_OPAQUE && v->node != NULL && strcmp(v->node->op, "Mul") == 0) {
        multiply(im, uw_import_in(im, v->node, 0), depth - 1, p);
        multiply(im, uw_import_in(im, v->node, 1), depth - 1, p);
    } else {
        p->c *= v->kind == UW_VALUE_DATA ? (double)v->view.scale : 1.0;
        p->factor[p->n++] = v;
    }
}

static struct product product_of(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct product p = {.c = 1.0};
    multiply(im, uw_import_in(im, n, 0), 8, &p);
    multiply(im, uw_import_in(im, n, 1), 8, &p);
    return p;
}

/* If v = 1 + something, returns the something, else NULL. */
static const struct uw_value *minus_one(struct uw_import *im, const struct uw_value *v)
{
    double one = 0.0;
    for (uint32_t i = 0; i < 2; i++) {
        if (uw_import_scalar(uw_operand(im, v, "Add", i), &one) && one == 1.0) {
            return uw_operand(im, v, "Add", 1 - i);
        }
    }
    return NULL;
}

/* sqrt(2 / pi) (x + 0.044715 x^3) */
static bool tanh_inside(struct uw_import *im, const struct uw_value *v, const struct uw_value *x)
{
    struct product p = {.c = 1.0};
    double three = 0.0;
    multiply(im, v, 8, &p);
    if (p.n != 1 || !near(p.c, 0.7978845608)) {
        return false;
    }
    for (uint32_t i = 0; i < 2; i++) {
        struct product cube = {.c = 1.0};
        multiply(im, uw_operand(im, p.factor[0], "Add", 1 - i), 8, &cube);
        bool cubed = cube.n == 3;
        for (uint32_t k = 0; k < cube.n && cubed; k++) {
            cubed = same_data(cube.factor[k], x);
        }
        cubed = cubed || (cube.n == 1 && same_data(uw_operand(im, cube.factor[0], "Pow", 0), x) &&
                          uw_import_scalar(uw_operand(im, cube.factor[0], "Pow", 1), &three) &&
                          three == 3.0);
        if (cubed && near(cube.c, 0.044715) &&
            same_data(uw_operand(im, p.factor[0], "Add", i), x)) {
            return true;
        }
    }
    return false;
}

static int emit_activation(struct uw_import *im, const struct uw_onnx_node *n,
                           const struct uw_value *x, enum uw_layer_kind kind, bool tanh)
{
    struct uw_view v = x->view;
    struct uw_import_layer *l = uw_import_emit(im, n, kind, v.layer);
    if (l == NULL) {
        return im->err->code;
    }
    l->def.activation.tanh = tanh;
    v.scale = 1.0f;
    uw_import_same(im, n, &v, im->layers_n);
    return 1;
}

/* GELU, x (1 + erf(x / sqrt 2)) / 2 or its tanh form, and SiLU, x sigmoid(x).
 * Returns 1 (matched), 0, or a code. */
static int match_activation(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct product p = product_of(im, n);
    for (uint32_t i = 0; i < 2 && p.n == 2; i++) {
        const struct uw_value *x = p.factor[i];
        const struct uw_value *g = p.factor[1 - i];
        if (x->kind != UW_VALUE_DATA) {
            continue;
        }
        const struct uw_value *inner = minus_one(im, g);
        const struct uw_value *erf = uw_operand(im, inner, "Erf", 0);
        if (near(p.c, 0.5) && same_data(erf, x) && near((double)erf->view.scale, 0.70710678)) {
            return emit_activation(im, n, x, UW_LAYER_GELU, false);
        }
        if (near(p.c, 0.5) && uw_operand(im, inner, "Tanh", 0) != NULL &&
            tanh_inside(im, uw_operand(im, inner, "Tanh", 0), x)) {
            return emit_activation(im, n, x, UW_LAYER_GELU, true);
        }
        if (near(p.c, 1.0) && x->view.scale == 1.0f && uw_operand(im, g, "Sigmoid", 0) != NULL &&
            same_data(uw_operand(im, g, "Sigmoid", 0), x)) {
            return emit_activation(im, n, x, UW_LAYER_SILU, false);
        }
    }
    return 0;
}

/* Whether a constant varies along `count` axes of x from `first` on, and is broadcast over the
 * others. */
static bool lies_along(const struct uw_onnx_tensor *t, const struct uw_view *x, uint32_t first,
                       uint32_t count)
{
    if (t->rank > x->axes_n) {
        return false;
    }
    for (uint32_t a = 0; a < x->axes_n; a++) {
        uint32_t skip = x->axes_n - t->rank;
        uint64_t d = a >= skip ? t->dim[a - skip] : 1;
        bool along = a >= first && a < first + count;
        if (along ? d != uw_view_dim(x, a) || uw_view_has_batch(x, a) : d != 1) {
            return false;
        }
    }
    return true;
}

/* Whether the asking node is the only reader of v and of the value that v is a view of. */
static bool only_user(struct uw_import *im, const struct uw_value *v)
{
    uint32_t layer = v->view.layer;
    while (v->users_n == 1 && v->node != NULL) {
        const struct uw_value *from = uw_import_in(im, v->node, 0);
        if (from == NULL || from->kind != UW_VALUE_DATA || from->view.layer != layer) {
            return true;
        }
        v = from;
    }
    return false;
}

/* Match the weight (Mul) or bias (Add) after a normalization.
 * Returns 1 (matched), 0, or a code. */
static int match_affine(struct uw_import *im, const struct uw_onnx_node *n,
                        const struct uw_value *x, const struct uw_onnx_tensor *t, bool bias)
{
    struct uw_import_layer *l = x->view.layer != 0 ? im->layer[x->view.layer - 1] : NULL;
    struct uw_value *y = uw_import_out(im, n, 0);
    bool layer = l != NULL && l->def.kind == UW_LAYER_LAYERNORM;
    if (l == NULL || (!layer && l->def.kind != UW_LAYER_GROUPNORM) || !only_user(im, x) ||
        l->affine > (bias ? 1u : 0u) || y == NULL || x->view.scale != 1.0f ||
        !uw_view_ordered(&x->view) || (!layer && !uw_view_is_batch(&x->view, 0))) {
        return 0;
    }
    uint32_t axes = layer ? l->def.norm.axes : 1;
    uint64_t size = 1;
    for (uint32_t a = 0; a < axes; a++) {
        size *= layer ? l->dim[l->rank - axes + a] : l->dim[a];
    }
    /* the layer may count axes of the file as one */
    uint32_t first = x->view.axes_n;
    uint64_t seen = 1;
    while (layer && first > 0 && seen < size) {
        seen *= uw_view_dim(&x->view, --first);
    }
    first = layer ? first : 1;
    if (!lies_along(t, &x->view, first, layer ? x->view.axes_n - first : 1) ||
        uw_onnx_tensor_size(t) != size) {
        return 0;
    }
    const uint64_t *dim = layer ? l->dim + (l->rank - axes) : l->dim;
    int rc = UW_OK;
    if (l->affine == 0) {
        rc = uw_import_param(im, l, 0, "weight", bias ? NULL : t, 1.0f, axes, dim);
    }
    if (rc == UW_OK) {
        rc = uw_import_param(im, l, 1, "bias", bias ? t : NULL, 0.0f, axes, dim);
    }
    l->affine = bias ? 2 : 1;
    l->def.norm.no_affine = false;
    uw_import_same(im, n, &x->view, x->view.layer);
    return rc < 0 ? rc : 1;
}

/* Match the bias of a MatMul. Returns 1 (matched), 0, or a code. */
static int match_bias(struct uw_import *im, const struct uw_onnx_node *n,
                      const struct uw_value *x, const struct uw_onnx_tensor *t)
{
    struct uw_import_layer *l = x->view.layer != 0 ? im->layer[x->view.layer - 1] : NULL;
    struct uw_value *y = uw_import_out(im, n, 0);
    if (l == NULL || x->node == NULL || strcmp(x->node->op, "MatMul") != 0 || x->users_n != 1 ||
        y == NULL || !lies_along(t, &x->view, x->view.axes_n - 1, 1)) {
        return 0;
    }
    uint64_t out = uw_onnx_tensor_size(t);
    int rc = UW_OK;
    if (l->def.kind == UW_LAYER_DENSE && l->def.dense.no_bias) {
        l->def.dense.no_bias = false;
        rc = uw_import_param(im, l, 1, "bias", t, 0.0f, 1, &out);
    } else if (l->def.kind == UW_LAYER_ATTENTION && l->affine == 1) {
        rc = uw_import_attention_bias(im, l, t);
    } else {
        return 0;
    }
    uw_import_same(im, n, &x->view, x->view.layer);
    return rc < 0 ? rc : 1;
}

/* The sum of computed values of one shape. */
int uw_op_sum(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_view first = {.n = 0};
    struct uw_import_layer *l = NULL;
    for (uint32_t k = 0; k < n->inputs_n; k++) {
        struct uw_value *x = uw_import_data(im, n, k);
        if (x == NULL) {
            return im->err->code;
        }
        struct uw_view v = x->view;
        bool fits = k == 0 || v.axes_n == first.axes_n;
        for (uint32_t a = 0; a < v.axes_n && fits && k > 0; a++) {
            fits = uw_view_dim(&v, a) == uw_view_dim(&first, a) &&
                   uw_view_has_batch(&v, a) == uw_view_has_batch(&first, a);
        }
        if (!fits) {
            return uw_import_refuse(im, n, UW_ERR_SHAPE, "inputs 1 and %u have different shapes",
                                    (unsigned)k + 1);
        }
        bool mixed = n->inputs_n > 2 || (k == 1 && !uw_view_same(&v, &first));
        int rc = mixed ? uw_import_order(im, n, &v) : UW_OK;
        if (rc == UW_OK && mixed && k == 1) {
            rc = uw_import_order(im, n, &first);
        }
        if (rc == UW_OK && k > 0) {
            rc = uw_import_shape(im, n, &v, first.rank, first.dim);
        }
        if (rc < 0) {
            return rc;
        }
        if (k == 0) {
            first = v;
            continue;
        }
        if (l == NULL || l->inputs_n == UW_LAYER_INPUTS_MAX) {
            l = uw_import_emit(im, n, UW_LAYER_ADD, l == NULL ? first.layer : im->layers_n);
            if (l == NULL) {
                return im->err->code;
            }
        }
        l->input[l->inputs_n++] = v.layer;
    }
    if (l == NULL) {
        return uw_op_identity(im, n);
    }
    uw_import_same(im, n, &first, im->layers_n);
    return UW_OK;
}

int uw_op_add(struct uw_import *im, const struct uw_onnx_node *n)
{
    for (uint32_t i = 0; i < 2; i++) {
        const struct uw_value *x = uw_import_in(im, n, i);
        const struct uw_value *t = uw_import_in(im, n, 1 - i);
        if (x == NULL || t == NULL || x->kind != UW_VALUE_DATA || t->kind != UW_VALUE_CONST) {
            continue;
        }
        double c = 1.0;
        struct uw_value *y = uw_import_out(im, n, 0);
        if (y != NULL && uw_import_scalar(t, &c) && c == 0.0 && t->t.rank <= x->view.axes_n) {
            uw_import_same(im, n, &x->view, x->view.layer);
            return UW_OK;
        }
        int rc = match_bias(im, n, x, &t->t);
        rc = rc != 0 ? rc : match_affine(im, n, x, &t->t, true);
        return rc > 0 ? UW_OK
               : rc < 0
                   ? rc
                   : uw_import_refuse(im, n, UW_ERR_UNSUPPORTED,
                                      "adds a constant that is no bias of the layer in front");
    }
    return uw_op_sum(im, n);
}

/* Also a Div that is not part of a normalization. */
int uw_op_mul(struct uw_import *im, const struct uw_onnx_node *n)
{
    bool divide = n->op[0] == 'D';
    struct uw_value *y = uw_import_out(im, n, 0);
    double c = 1.0;
    int rc = divide || y == NULL ? 0 : match_activation(im, n);
    for (uint32_t i = 0; i < 2 && rc == 0 && y != NULL; i++) {
        const struct uw_value *x = uw_import_in(im, n, i);
        const struct uw_value *t = uw_import_in(im, n, 1 - i);
        if (x == NULL || t == NULL || x->kind != UW_VALUE_DATA || t->kind != UW_VALUE_CONST) {
            continue;
        }
        rc = divide ? 0 : match_affine(im, n, x, &t->t, false);
        if (rc == 0 && uw_import_scalar(t, &c) && t->t.rank <= x->view.axes_n &&
            (i == 0 || !divide) && c != 0.0 && fabs(c) < 1e30) {
            y->kind = UW_VALUE_DATA;
            y->view = x->view;
            y->view.scale *= (float)(divide ? 1.0 / c : c);
            rc = 1;
        }
    }
    if (rc != 0) {
        return rc > 0 ? UW_OK : rc;
    }
    return uw_import_opaque_input(im, n) ? im->err->code
                                         : uw_import_refuse(im, n, UW_ERR_UNSUPPORTED,
                                                            "only inside GELU, SiLU, a "
                                                            "normalization or attention");
}
