/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions. Axes that are neighbours in memory are one layer; others follow one another: every
 * reduction here may be done in parts. */
#include "import_parts.h"

#include <string.h>

/* Reduce the atoms marked of v, in the order of memory. v then lacks them; its axes remain. */
static int reduce_atoms(struct uw_import *im, const struct uw_onnx_node *n, enum uw_reduction op,
                        struct uw_view *v, uint32_t marked)
{
    uint32_t order[UW_ATOMS_MAX], atoms = 0;
    for (uint32_t i = 0; i < v->atoms_n; i++) {
        uint32_t place = 0;
        for (uint32_t j = 0; j < v->atoms_n; j++) {
            place += v->atom[j].batch ? 0
                     : v->atom[j].stride > v->atom[i].stride ||
                               (v->atom[j].stride == v->atom[i].stride && j < i) ? 1 : 0;
        }
        if (!v->atom[i].batch) {
            order[place] = i;
            atoms++;
        }
    }
    for (uint32_t first = 0; first < atoms;) {
        uint64_t dim[3] = {1, 1, 1};
        uint32_t end = first;
        if ((marked & 1u << order[first]) == 0) {
            first++;
            continue;
        }
        while (end < atoms && (marked & 1u << order[end]) != 0) {
            end++;
        }
        for (uint32_t k = 0; k < atoms; k++) {
            dim[k < first ? 0 : k < end ? 1 : 2] *= v->atom[order[k]].size;
        }
        uint32_t skip = dim[0] == 1 ? 1 : 0, rank = dim[2] == 1 ? 2 - skip : 3 - skip;
        int rc = uw_import_shape(im, n, v, rank, dim + skip);
        struct uw_import_layer *l =
            rc == UW_OK ? uw_import_emit(im, n, UW_LAYER_REDUCE, v->layer) : NULL;
        if (l == NULL) {
            return im->err->code;
        }
        l->def.reduce = (struct uw_reduce_def){.op = op, .axis = 1 - skip};
        const uint64_t left[2] = {dim[0], dim[2]};
        uw_import_sizes(l, rank > 1 ? rank - 1 : 1, rank > 1 ? left + skip : left);
        v->layer = im->layers_n;
        v->rank = l->rank;
        v->n /= dim[1];
        memcpy(v->dim, l->dim, sizeof v->dim);
        for (uint32_t k = 0; k < atoms; k++) {
            struct uw_atom *x = &v->atom[order[k]];
            x->stride = k < first ? x->stride / dim[1] : x->stride;
            x->size = k >= first && k < end ? 1 : x->size;
        }
        first = end;
    }
    return UW_OK;
}

int uw_import_reduce(struct uw_import *im, const struct uw_onnx_node *n, enum uw_reduction op,
                     uint32_t axes, bool keep, const struct uw_value *x, struct uw_value *y)
{
    struct uw_view v = x->view;
    uint32_t marked = 0;
    for (uint32_t a = 0; a < v.axes_n; a++) {
        for (uint32_t i = a == 0 ? 0 : v.axis_end[a - 1];
             i < v.axis_end[a] && (axes & 1u << a) != 0; i++) {
            marked |= 1u << i;
            if (v.atom[i].batch && v.atom[i].size != 1) {
                return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "over the minibatch: a layer "
                                        "sees one sample");
            }
            marked &= v.atom[i].batch ? ~(1u << i) : UINT32_MAX;
        }
    }
    int rc = reduce_atoms(im, n, op, &v, marked);
    if (rc < 0) {
        return rc;
    }
    uint64_t dim[UW_ONNX_RANK_MAX], kept[UW_ONNX_RANK_MAX];
    uint32_t kept_n = 0;
    uw_view_dims(&v, dim);
    for (uint32_t a = 0; a < v.axes_n; a++) {
        if (keep || (axes & 1u << a) == 0) {
            kept[kept_n++] = dim[a];
        }
    }
    if (!uw_view_reshape(&v, dim, v.axes_n) || !uw_view_reshape(&v, kept, kept_n)) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE, "its output has no shape");
    }
    y->kind = UW_VALUE_DATA;
    y->view = v;
    return UW_OK;
}

/* log of the sum of exp(x), of x less its maximum, so that no exp overflows. */
static int log_sum_exp(struct uw_import *im, const struct uw_onnx_node *n, uint32_t axes, bool keep,
                       const struct uw_value *x, struct uw_value *y)
{
    struct uw_value most = {.name = ""}, less = {.name = ""};
    uint64_t dim[UW_ONNX_RANK_MAX];
    int rc = uw_import_reduce(im, n, UW_REDUCE_MAX, axes, true, x, &most);
    rc = rc < 0 ? rc : uw_import_combine(im, n, UW_ARITHMETIC_SUB, x, &most, &less);
    rc = rc < 0 ? rc : uw_import_function(im, n, UW_FUNCTION_EXP, 0.0f, 0.0f, &less, &less);
    rc = rc < 0 ? rc : uw_import_reduce(im, n, UW_REDUCE_SUM, axes, keep, &less, &less);
    rc = rc < 0 ? rc : uw_import_function(im, n, UW_FUNCTION_LOG, 0.0f, 0.0f, &less, &less);
    if (rc < 0) {
        return rc;
    }
    uw_view_dims(&less.view, dim);
    return uw_view_reshape(&most.view, dim, less.view.axes_n)
               ? uw_import_combine(im, n, UW_ARITHMETIC_ADD, &less, &most, y)
               : uw_import_refuse(im, n, UW_ERR_SHAPE, "its output has no shape");
}

int uw_op_reduce(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_value *x = uw_import_data(im, n, 0), *y = uw_import_out(im, n, 0);
    const char *what = n->op + strlen("Reduce");
    bool keep = uw_onnx_int(n, "keepdims", 1) != 0;
    uint32_t axes = 0;
    if (x == NULL || y == NULL) {
        return im->err->code;
    }
    int count = uw_import_axes(im, n, x->view.axes_n, false, &axes);
    if (im->err->code != UW_OK) {
        return im->err->code;
    }
    bool none = count < 1 && uw_onnx_int(n, "noop_with_empty_axes", 0) != 0;
    axes = count < 1 && !none ? (1u << x->view.axes_n) - 1 : axes;
    if (strcmp(what, "LogSumExp") == 0) {
        return log_sum_exp(im, n, axes, keep, x, y);
    }
    struct uw_value inner = *x;
    int rc = UW_OK;
    if (strcmp(what, "L1") == 0) {
        rc = uw_import_function(im, n, UW_FUNCTION_ABS, 0.0f, 0.0f, x, &inner);
    } else if (strcmp(what, "SumSquare") == 0) {
        rc = uw_import_function(im, n, UW_FUNCTION_SQUARE, 0.0f, 0.0f, x, &inner);
    }
    enum uw_reduction op = strcmp(what, "Mean") == 0  ? UW_REDUCE_MEAN
                           : strcmp(what, "Max") == 0 ? UW_REDUCE_MAX
                           : strcmp(what, "Min") == 0 ? UW_REDUCE_MIN
                           : strcmp(what, "L2") == 0  ? UW_REDUCE_NORM
                                                      : UW_REDUCE_SUM;
    if (rc == UW_OK && none) {
        return uw_import_rename(y, &inner);
    }
    /* Layer norm by parts begins like this, and is one layer if its axis is the last in memory. */
    if (op == UW_REDUCE_MEAN && keep && axes == 1u << (x->view.axes_n - 1)) {
        rc = rc < 0 ? rc : uw_import_order(im, n, &x->view);
        inner = *x;
    }
    return rc < 0 ? rc : uw_import_reduce(im, n, op, axes, keep, &inner, y);
}
