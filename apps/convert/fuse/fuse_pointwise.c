/* SPDX-License-Identifier: Apache-2.0
 *
 * Biases, factors, and the activations that exporters write by parts. */
#include "fuse.h"

#include <math.h>
#include <string.h>

#define FACTORS_MAX 4u

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-4 * fabs(b);
}

/* ---- biases ---- */

/* A product without a bias; NULL: it is none. */
static bool *no_bias_of(struct uw_import_layer *l)
{
    switch (l->def.kind) {
    case UW_LAYER_DENSE:
        return &l->def.dense.no_bias;
    case UW_LAYER_CONV2D:
        return &l->def.conv2d.no_bias;
    case UW_LAYER_CONV1D:
        return &l->def.conv1d.no_bias;
    case UW_LAYER_CONV_TRANSPOSE2D:
        return &l->def.conv_transpose2d.no_bias;
    default:
        return NULL;
    }
}

/* A weight that an exporter has transposed has no name in the file: it is that of the bias. */
static void name_beside(struct uw_import *im, struct uw_import_layer *l)
{
    static const char bias[] = "bias";
    struct uw_import_param *w = &l->param[0];
    const char *beside = l->param[1].torch_n == 1 ? l->param[1].torch[0].name : "";
    size_t n = strlen(beside), tail = sizeof bias - 1;
    if (w->torch_n == 0 && w->folded_from == NULL && n > tail &&
        strcmp(beside + n - tail, bias) == 0) {
        const char *name = uw_pool_format(im->pool, "%.*sweight", (int)(n - tail), beside);
        w->torch[0] = (struct uw_convert_part){.name = name, .rank = w->rank};
        memcpy(w->torch[0].dim, w->dim, w->rank * sizeof w->dim[0]);
        w->torch_n = name != NULL ? 1 : 0;
    }
}

/* x + b behind a product that only this reads. */
int uw_fuse_bias(struct uw_fuse *f, uint32_t layer)
{
    struct uw_import_layer *l = uw_fuse_at(f, layer);
    for (uint32_t k = 0; k < 2 && uw_fuse_is_op(l, UW_ARITHMETIC_ADD); k++) {
        uint32_t below = uw_fuse_input(f, l, 1 - k);
        struct uw_import_layer *x = uw_fuse_at(f, below);
        bool *no_bias = x != NULL ? no_bias_of(x) : NULL;
        bool dense = x != NULL && x->def.kind == UW_LAYER_DENSE;
        uint32_t b = uw_fuse_parameter_of(f, l, k, dense);
        uint64_t out = dense && x->rank > 0 ? x->dim[x->rank - 1] : x != NULL ? x->dim[0] : 0;
        const struct uw_import_layer *p = uw_fuse_at(f, b);
        if (no_bias == NULL || !*no_bias || b == 0 || f->readers[b] != 1 ||
            f->readers[l->input[1 - k]] != 1 || f->readers[below] != 1 ||
            (dense ? l->dim[l->rank - 1] : l->dim[0]) != out ||
            (x->param[0].role == UW_ONNX_ROLE_FIXED) != (p->param[0].role == UW_ONNX_ROLE_FIXED)) {
            continue;
        }
        *no_bias = false;
        x->param[1] = p->param[0];
        x->param[1].suffix = "bias";
        x->param[1].rank = 1;
        x->param[1].dim[0] = (uint32_t)out;
        x->own_name = x->own_name != NULL ? x->own_name
                                          : uw_import_module(f->im->pool, p->own_name);
        name_beside(f->im, x);
        uw_fuse_reshape(l, below);
        return 1;
    }
    return 0;
}

/* ---- factors ---- */

/* Two factors are one. A factor of the operands or the result of a matmul becomes its scale. */
int uw_fuse_scale(struct uw_fuse *f, uint32_t layer)
{
    struct uw_import_layer *l = uw_fuse_at(f, layer);
    const struct uw_import_layer *in = uw_fuse_at(f, l->input[0]);
    if (uw_fuse_is_function(l, UW_FUNCTION_SCALE) && uw_fuse_is_function(in, UW_FUNCTION_SCALE) &&
        l->inputs_n == 1) {
        l->def.function.b += l->def.function.a * in->def.function.b;
        l->def.function.a *= in->def.function.a;
        l->input[0] = in->input[0];
        return 1;
    }
    if (uw_fuse_is_function(l, UW_FUNCTION_SCALE) && l->def.function.b == 0.0f) {
        uint32_t below = l->input[0];
        struct uw_import_layer *m = uw_fuse_at(f, below);
        if (m == NULL || m->def.kind != UW_LAYER_MATMUL || f->readers[below] != 1) {
            return 0;
        }
        float scale = m->def.matmul.scale != 0.0f ? m->def.matmul.scale : 1.0f;
        m->def.matmul.scale = scale * l->def.function.a;
        uw_fuse_reshape(l, below);
        return 1;
    }
    if (l->def.kind != UW_LAYER_MATMUL) {
        return 0;
    }
    int joined = 0;
    for (uint32_t k = 0; k < 2; k++) {
        const struct uw_import_layer *x = uw_fuse_at(f, l->input[k]);
        if (uw_fuse_is_function(x, UW_FUNCTION_SCALE) && x->def.function.b == 0.0f &&
            x->def.function.a != 0.0f && uw_fuse_same_shape(f, x->input[0], l->input[k])) {
            float scale = l->def.matmul.scale != 0.0f ? l->def.matmul.scale : 1.0f;
            l->def.matmul.scale = scale * x->def.function.a;
            l->input[k] = x->input[0];
            joined = 1;
        }
    }
    return joined;
}

/* ---- picks ---- */

/* Elements picked from picked elements of the same axis. */
int uw_fuse_take(struct uw_fuse *f, uint32_t layer)
{
    struct uw_import_layer *l = uw_fuse_at(f, layer);
    const struct uw_import_layer *in = l->inputs_n == 1 ? uw_fuse_at(f, l->input[0]) : NULL;
    if (l->def.kind != UW_LAYER_TAKE || in == NULL || in->def.kind != UW_LAYER_TAKE ||
        in->def.take.axis != l->def.take.axis || in->def.take.taps > 1 ||
        in->def.take.weight != NULL) {
        return 0;
    }
    uint64_t n = (uint64_t)l->def.take.n * (l->def.take.taps != 0 ? l->def.take.taps : 1);
    int32_t *index = uw_pool_take(f->im->pool, n, sizeof *index);
    if (index == NULL) {
        return uw_import_nomem(f->im);
    }
    for (uint64_t i = 0; i < n; i++) {
        index[i] = l->def.take.index[i] >= 0 ? in->def.take.index[l->def.take.index[i]] : -1;
    }
    l->def.take.index = index;
    l->input[0] = in->input[0];
    return 1;
}

/* ---- activations ---- */

/* A product, in any association: a constant times the factors. */
struct product {
    double c;
    uint32_t factor[FACTORS_MAX];
    uint32_t n;
};

static void multiply(const struct uw_fuse *f, uint32_t layer, uint32_t depth, struct product *p)
{
    layer = uw_fuse_below(f, layer);
    const struct uw_import_layer *l = uw_fuse_at(f, layer);
    if (depth == 0 || p->n == FACTORS_MAX) {
        p->c = NAN;
    } else if (uw_fuse_is_function(l, UW_FUNCTION_SCALE) && l->def.function.b == 0.0f) {
        p->c *= (double)l->def.function.a;
        multiply(f, l->input[0], depth - 1, p);
    } else if (uw_fuse_is_plain(f, l, UW_ARITHMETIC_MUL)) {
        multiply(f, l->input[0], depth - 1, p);
        multiply(f, l->input[1], depth - 1, p);
    } else {
        p->factor[p->n++] = layer;
    }
}

static struct product product_of(const struct uw_fuse *f, uint32_t layer)
{
    struct product p = {.c = 1.0};
    multiply(f, layer, 8, &p);
    return p;
}

/* If the layer is a x + b of something: that, with a and b. */
static bool scaled(const struct uw_fuse *f, uint32_t layer, double *a, double *b, uint32_t *x)
{
    const struct uw_import_layer *l = uw_fuse_at(f, layer);
    *a = 1.0;
    *b = 0.0;
    *x = layer;
    if (!uw_fuse_is_function(l, UW_FUNCTION_SCALE)) {
        return false;
    }
    *a = (double)l->def.function.a;
    *b = (double)l->def.function.b;
    *x = uw_fuse_input(f, l, 0);
    return true;
}

/* sqrt(2 / pi) (x + 0.044715 x^3) */
static bool is_tanh_inside(const struct uw_fuse *f, uint32_t layer, uint32_t x)
{
    struct product p = product_of(f, layer);
    const struct uw_import_layer *sum = p.n == 1 ? uw_fuse_at(f, p.factor[0]) : NULL;
    if (!near(p.c, 0.7978845608) || !uw_fuse_is_plain(f, sum, UW_ARITHMETIC_ADD)) {
        return false;
    }
    for (uint32_t i = 0; i < 2; i++) {
        struct product cube = product_of(f, sum->input[1 - i]);
        bool cubed = cube.n == 3;
        for (uint32_t k = 0; k < cube.n && cubed; k++) {
            cubed = cube.factor[k] == x;
        }
        const struct uw_import_layer *power = cube.n == 1 ? uw_fuse_at(f, cube.factor[0]) : NULL;
        cubed = cubed || (uw_fuse_is_function(power, UW_FUNCTION_POWER) &&
                          power->def.function.a == 3.0f && uw_fuse_input(f, power, 0) == x);
        if (cubed && near(cube.c, 0.044715) && uw_fuse_input(f, sum, i) == x) {
            return true;
        }
    }
    return false;
}

/* What x times the gate is, c times; UW_LAYER_ARITHMETIC: nothing known. */
static struct uw_layer_def gated(const struct uw_fuse *f, double c, uint32_t x, uint32_t gate)
{
    struct uw_layer_def known = {.kind = UW_LAYER_ARITHMETIC};
    const struct uw_import_layer *g = uw_fuse_at(f, gate), *inner;
    double a, b;
    uint32_t below;
    if (g == NULL) {
        return known;
    }
    if (near(c, 0.5) && scaled(f, gate, &a, &b, &below) && a == 1.0 && b == 1.0) {
        inner = uw_fuse_at(f, below);
        if (uw_fuse_is_function(inner, UW_FUNCTION_ERF)) {
            scaled(f, uw_fuse_input(f, inner, 0), &a, &b, &below);
            known.kind = near(a, 0.70710678) && b == 0.0 && below == x ? UW_LAYER_GELU : known.kind;
        } else if (inner != NULL && inner->def.kind == UW_LAYER_TANH &&
                   is_tanh_inside(f, inner->input[0], x)) {
            known.kind = UW_LAYER_GELU;
            known.activation.tanh = true;
        }
    } else if (near(c, 1.0) && g->def.kind == UW_LAYER_SIGMOID) {
        scaled(f, uw_fuse_input(f, g, 0), &a, &b, &below);
        if (below == x && b == 0.0) {
            known.kind = a == 1.0 ? UW_LAYER_SILU : UW_LAYER_FUNCTION;
            if (a != 1.0) {
                known.function = (struct uw_function_def){.function = UW_FUNCTION_QUICK_GELU,
                                                          .a = (float)a};
            }
        }
    } else if (near(c, 1.0) && uw_fuse_is_function(g, UW_FUNCTION_HARDSIGMOID) &&
               near((double)g->def.function.a, 1.0 / 6.0) && g->def.function.b == 0.5f &&
               uw_fuse_input(f, g, 0) == x) {
        known.kind = UW_LAYER_FUNCTION;
        known.function.function = UW_FUNCTION_HARDSWISH;
    } else if (near(c, 1.0 / 6.0) && g->def.kind == UW_LAYER_RELU6) {
        scaled(f, uw_fuse_input(f, g, 0), &a, &b, &below);
        if (below == x && a == 1.0 && b == 3.0) {
            known.kind = UW_LAYER_FUNCTION;
            known.function.function = UW_FUNCTION_HARDSWISH;
        }
    } else if (near(c, 1.0) && g->def.kind == UW_LAYER_TANH) {
        inner = uw_fuse_at(f, uw_fuse_input(f, g, 0));
        if (uw_fuse_is_function(inner, UW_FUNCTION_SOFTPLUS) && inner->def.function.a <= 1.0f &&
            uw_fuse_input(f, inner, 0) == x) {
            known.kind = UW_LAYER_FUNCTION;
            known.function.function = UW_FUNCTION_MISH;
        }
    }
    return known;
}

/* GELU, x (1 + erf(x / sqrt 2)) / 2 or its tanh form; SiLU, x sigmoid(x); and their kin. */
int uw_fuse_activation(struct uw_fuse *f, uint32_t layer)
{
    struct uw_import_layer *l = uw_fuse_at(f, layer);
    bool product = uw_fuse_is_plain(f, l, UW_ARITHMETIC_MUL) ||
                   (uw_fuse_is_function(l, UW_FUNCTION_SCALE) && l->def.function.b == 0.0f);
    struct product p = {.n = 0};
    if (product) {
        p = product_of(f, layer);
    }
    for (uint32_t i = 0; i < 2 && p.n == 2; i++) {
        struct uw_layer_def known = gated(f, p.c, p.factor[i], p.factor[1 - i]);
        uint32_t x = p.factor[i];
        if (known.kind == UW_LAYER_ARITHMETIC) {
            continue;
        }
        if (!uw_fuse_same_shape(f, x, layer)) { /* an input of this shape, if there is one */
            uint32_t k = 0;
            while (k < l->inputs_n && uw_fuse_below(f, l->input[k]) != x) {
                k++;
            }
            if (k == l->inputs_n) {
                return 0;
            }
            x = l->input[k];
            if (!uw_fuse_same_shape(f, x, layer)) {
                return 0;
            }
        }
        struct uw_import_layer is = {.def = known, .input = {x}, .inputs_n = 1, .rank = l->rank,
                                     .node = l->node, .needed = true};
        memcpy(is.dim, l->dim, sizeof is.dim);
        *l = is;
        return 1;
    }
    return 0;
}
