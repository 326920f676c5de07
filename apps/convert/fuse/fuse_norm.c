/* SPDX-License-Identifier: Apache-2.0
 *
 * Layer norm by parts, the weight and bias behind a normalization, response normalization by
 * parts. */
#include "fuse.h"

#include <math.h>
#include <string.h>

/* The mean over the last axis of a layer of `n` values there; its input, or 0. */
static uint32_t mean_of(const struct uw_fuse *f, uint32_t layer, uint64_t n)
{
    const struct uw_import_layer *l = uw_fuse_at(f, layer);
    if (l == NULL || l->def.kind != UW_LAYER_REDUCE || l->def.reduce.op != UW_REDUCE_MEAN ||
        l->input[0] == 0) {
        return 0;
    }
    const struct uw_import_layer *from = uw_fuse_at(f, l->input[0]);
    return l->def.reduce.axis + 1 == from->rank && l->def.reduce.axes <= 1 &&
                   from->dim[from->rank - 1] == n
               ? uw_fuse_below(f, l->input[0]) : 0;
}

/* The layer that is squared; 0: none. */
static uint32_t square_of(const struct uw_fuse *f, uint32_t layer)
{
    const struct uw_import_layer *l = uw_fuse_at(f, layer);
    if (uw_fuse_is_function(l, UW_FUNCTION_SQUARE) ||
        (uw_fuse_is_function(l, UW_FUNCTION_POWER) && l->def.function.a == 2.0f)) {
        return uw_fuse_input(f, l, 0);
    }
    return uw_fuse_is_plain(f, l, UW_ARITHMETIC_MUL) &&
                   uw_fuse_input(f, l, 0) == uw_fuse_input(f, l, 1)
               ? uw_fuse_input(f, l, 0) : 0;
}

/* (x - mean) / sqrt(mean of (x - mean)^2 + epsilon) over the last axis. */
int uw_fuse_layernorm(struct uw_fuse *f, uint32_t layer)
{
    struct uw_import_layer *l = uw_fuse_at(f, layer);
    if (!uw_fuse_is_op(l, UW_ARITHMETIC_DIV)) {
        return 0;
    }
    uint32_t d = uw_fuse_input(f, l, 0);
    const struct uw_import_layer *difference = uw_fuse_at(f, d);
    const struct uw_import_layer *root = uw_fuse_at(f, uw_fuse_input(f, l, 1));
    if (!uw_fuse_is_op(difference, UW_ARITHMETIC_SUB) ||
        !uw_fuse_is_function(root, UW_FUNCTION_SQRT)) {
        return 0;
    }
    uint64_t n = difference->dim[difference->rank - 1];
    const struct uw_import_layer *sum = uw_fuse_at(f, uw_fuse_input(f, root, 0));
    uint32_t x = uw_fuse_input(f, difference, 0);
    if (!uw_fuse_is_function(sum, UW_FUNCTION_SCALE) || sum->def.function.a != 1.0f ||
        !(sum->def.function.b > 0.0f) ||
        square_of(f, mean_of(f, uw_fuse_input(f, sum, 0), n)) != d ||
        mean_of(f, uw_fuse_input(f, difference, 1), n) != x || l->dim[l->rank - 1] != n ||
        !uw_fuse_same_shape(f, difference->input[0], layer)) {
        return 0;
    }
    struct uw_import_layer is = {.input = {difference->input[0]}, .inputs_n = 1, .rank = l->rank,
                                 .node = l->node, .needed = true};
    memcpy(is.dim, l->dim, sizeof is.dim);
    is.def.kind = UW_LAYER_LAYERNORM;
    is.def.norm = (struct uw_norm_def){.epsilon = sum->def.function.b, .axes = 1,
                                       .no_affine = true};
    *l = is;
    return 1;
}

/* The parameter of a product or sum with a normalization; *other: the other operand. */
static uint32_t affine_of(const struct uw_fuse *f, const struct uw_import_layer *l, bool row,
                          uint32_t *other)
{
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t p = uw_fuse_parameter_of(f, l, k, row);
        if (p != 0) {
            *other = l->input[1 - k];
            return p;
        }
    }
    return 0;
}

/* weight * norm(x) + bias, when nothing else reads the parts. */
int uw_fuse_affine(struct uw_fuse *f, uint32_t layer)
{
    struct uw_import_layer *l = uw_fuse_at(f, layer);
    uint32_t product = 0, below = 0;
    for (uint32_t row = 0; row < 2 && uw_fuse_is_op(l, UW_ARITHMETIC_ADD); row++) {
        uint32_t b = affine_of(f, l, row == 1, &product);
        uint32_t at = b != 0 ? uw_fuse_below(f, product) : 0;
        struct uw_import_layer *m = uw_fuse_at(f, at);
        if (!uw_fuse_is_op(m, UW_ARITHMETIC_MUL) || f->readers[at] != 1 ||
            f->readers[product] != 1) {
            continue;
        }
        uint32_t w = affine_of(f, m, row == 1, &below);
        uint32_t norm = w != 0 ? uw_fuse_below(f, below) : 0;
        const struct uw_import_layer *x = uw_fuse_at(f, norm);
        bool fits = x != NULL && x->def.norm.no_affine && f->readers[norm] == 1 &&
                    f->readers[below] == 1 &&
                    x->def.kind == (row == 1 ? UW_LAYER_LAYERNORM : UW_LAYER_GROUPNORM);
        uint64_t n = fits ? (row == 1 ? x->dim[x->rank - 1] : x->dim[0]) : 0;
        const struct uw_import_layer *tensor[2] = {uw_fuse_at(f, w), uw_fuse_at(f, b)};
        fits = fits && x->def.norm.axes <= 1;
        for (uint32_t i = 0; i < 2 && fits; i++) {
            fits = tensor[i]->dim[0] * tensor[i]->dim[1] * tensor[i]->dim[2] *
                       tensor[i]->dim[3] == n;
        }
        if (!fits) {
            continue;
        }
        const struct uw_onnx_node *node = m->node;
        *m = *x; /* the product's place: behind all that it reads */
        m->node = node;
        m->def.norm.no_affine = false;
        for (uint32_t i = 0; i < 2; i++) {
            m->param[i] = tensor[i]->param[0];
            m->param[i].suffix = i == 0 ? "weight" : "bias";
            m->param[i].rank = 1;
            m->param[i].dim[0] = (uint32_t)n;
        }
        m->own_name = uw_import_module(f->im->pool, tensor[0]->own_name);
        uw_fuse_reshape(l, at);
        return 1;
    }
    return 0;
}

/* x / (k + alpha * mean of x^2 over a window of channels)^beta */
int uw_fuse_lrn(struct uw_fuse *f, uint32_t layer)
{
    struct uw_import_layer *l = uw_fuse_at(f, layer);
    if (!uw_fuse_is_plain(f, l, UW_ARITHMETIC_DIV)) {
        return 0;
    }
    uint32_t x = uw_fuse_input(f, l, 0);
    const struct uw_import_layer *power = uw_fuse_at(f, uw_fuse_input(f, l, 1));
    const struct uw_import_layer *sum =
        uw_fuse_is_function(power, UW_FUNCTION_POWER) ? uw_fuse_at(f, uw_fuse_input(f, power, 0))
                                                      : NULL;
    if (!uw_fuse_is_function(sum, UW_FUNCTION_SCALE) || sum->def.function.b <= 0.0f ||
        sum->def.function.a <= 0.0f || power->def.function.a <= 0.0f) {
        return 0;
    }
    const struct uw_import_layer *window = uw_fuse_at(f, uw_fuse_input(f, sum, 0));
    const struct uw_import_layer *image = uw_fuse_at(f, x);
    if (window == NULL || window->def.kind != UW_LAYER_TAKE || window->def.take.taps < 2 ||
        window->def.take.weight == NULL || window->def.take.axis != 0 || image == NULL ||
        image->rank < 2 || window->def.take.n != image->dim[0]) {
        return 0;
    }
    uint32_t size = window->def.take.taps, squares = uw_fuse_input(f, window, 0);
    for (uint32_t c = 0; c < window->def.take.n; c++) {
        for (uint32_t t = 0; t < size; t++) {
            int64_t at = (int64_t)c - (int64_t)(size / 2) + t;
            int32_t want = at < 0 || at >= (int64_t)image->dim[0] ? -1 : (int32_t)at;
            if (window->def.take.index[c * size + t] != want ||
                fabsf(window->def.take.weight[c * size + t] * (float)size - 1.0f) > 1e-5f) {
                return 0;
            }
        }
    }
    if (square_of(f, squares) != x) {
        return 0;
    }
    struct uw_import_layer *place = uw_fuse_at(f, uw_fuse_input(f, l, 1));
    struct uw_import_layer is = {.input = {x}, .inputs_n = 1, .rank = image->rank,
                                 .node = l->node, .needed = true};
    memcpy(is.dim, image->dim, sizeof is.dim);
    is.def.kind = UW_LAYER_LRN;
    is.def.lrn = (struct uw_lrn_def){.size = size, .alpha = sum->def.function.a,
                                     .beta = power->def.function.a, .k = sum->def.function.b};
    *place = is;
    uw_fuse_reshape(l, uw_fuse_input(f, l, 1));
    return 1;
}
