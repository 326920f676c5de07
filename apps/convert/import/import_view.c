/* SPDX-License-Identifier: Apache-2.0 */
#include "import.h"

#include <string.h>

static uint32_t begin_of(const struct uw_view *v, uint32_t axis)
{
    return axis == 0 ? 0 : v->axis_end[axis - 1];
}

uint64_t uw_view_dim(const struct uw_view *v, uint32_t axis)
{
    uint64_t n = 1;
    for (uint32_t i = begin_of(v, axis); i < v->axis_end[axis]; i++) {
        n *= v->atom[i].size;
    }
    return n;
}

int uw_view_axis(struct uw_import *im, const struct uw_onnx_node *n, const struct uw_view *v,
                 int64_t axis)
{
    int64_t a = axis < 0 ? axis + v->axes_n : axis;
    if (a < 0 || a >= v->axes_n) {
        uw_import_refuse(im, n, UW_ERR_SHAPE, "axis %lld of a tensor with %u", (long long)axis,
                         (unsigned)v->axes_n);
        return -1;
    }
    return (int)a;
}

bool uw_view_has_batch(const struct uw_view *v, uint32_t axis)
{
    for (uint32_t i = begin_of(v, axis); i < v->axis_end[axis]; i++) {
        if (v->atom[i].batch) {
            return true;
        }
    }
    return false;
}

bool uw_view_is_batch(const struct uw_view *v, uint32_t axis)
{
    return uw_view_has_batch(v, axis) && v->axis_end[axis] - begin_of(v, axis) == 1;
}

/* Drop atoms of size 1, join neighbours inside an axis that are one run of the sample. */
static void tidy(struct uw_view *v)
{
    uint32_t to = 0;
    uint32_t from = 0;
    for (uint32_t a = 0; a < v->axes_n; a++) {
        uint32_t begin = to;
        for (; from < v->axis_end[a]; from++) {
            struct uw_atom x = v->atom[from];
            struct uw_atom *last = to > begin ? &v->atom[to - 1] : NULL;
            if (x.size == 1 && !x.batch) {
                continue;
            }
            if (last != NULL && !last->batch && !x.batch && last->stride == x.size * x.stride) {
                last->size *= x.size;
                last->stride = x.stride;
            } else {
                v->atom[to++] = x;
            }
        }
        v->axis_end[a] = to;
    }
    v->atoms_n = to;
}

bool uw_view_reshape(struct uw_view *v, const uint64_t *dims, uint32_t axes_n)
{
    struct uw_view out = *v;
    uint32_t from = 0;
    out.atoms_n = 0;
    out.axes_n = axes_n;
    for (uint32_t a = 0; a < axes_n; a++) {
        uint64_t have = 1;
        /* an atom of size 1 is a minibatch of 1: it takes the first axis of size 1 */
        while (have < dims[a] || (dims[a] == 1 && from < v->atoms_n && v->atom[from].size == 1)) {
            if (from == v->atoms_n || out.atoms_n == UW_ATOMS_MAX) {
                return false;
            }
            struct uw_atom *x = &v->atom[from];
            uint64_t want = dims[a] / have;
            if (want % x->size == 0) {
                out.atom[out.atoms_n++] = *x;
                have *= x->size;
                from++;
            } else if (!x->batch && x->size % want == 0) {
                out.atom[out.atoms_n++] =
                    (struct uw_atom){want, x->stride * (x->size / want), false};
                x->size /= want;
                have *= want;
            } else {
                return false;
            }
            if (dims[a] % have != 0 || dims[a] == 1) {
                break;
            }
        }
        if (have != dims[a]) {
            return false;
        }
        /* and when the next axis is larger than 1, it rather stays at the end of this one */
        if (from < v->atoms_n && v->atom[from].size == 1 && out.atoms_n < UW_ATOMS_MAX &&
            a + 1 < axes_n && dims[a + 1] != 1) {
            out.atom[out.atoms_n++] = v->atom[from++];
        }
        out.axis_end[a] = out.atoms_n;
    }
    for (; from < v->atoms_n; from++) {
        if (v->atom[from].size != 1 || out.atoms_n == UW_ATOMS_MAX || axes_n == 0) {
            return false;
        }
        out.atom[out.atoms_n++] = v->atom[from];
        out.axis_end[axes_n - 1] = out.atoms_n;
    }
    *v = out;
    tidy(v);
    return true;
}

void uw_view_permute(struct uw_view *v, const uint32_t *order)
{
    struct uw_view old = *v;
    v->atoms_n = 0;
    for (uint32_t a = 0; a < v->axes_n; a++) {
        for (uint32_t i = begin_of(&old, order[a]); i < old.axis_end[order[a]]; i++) {
            v->atom[v->atoms_n++] = old.atom[i];
        }
        v->axis_end[a] = v->atoms_n;
    }
}

bool uw_view_insert(struct uw_view *v, uint32_t axis)
{
    if (v->axes_n == UW_ONNX_RANK_MAX) {
        return false;
    }
    for (uint32_t a = v->axes_n++; a > axis; a--) {
        v->axis_end[a] = v->axis_end[a - 1];
    }
    v->axis_end[axis] = begin_of(v, axis);
    return true;
}

bool uw_view_remove(struct uw_view *v, uint32_t axis)
{
    if (v->axis_end[axis] != begin_of(v, axis)) {
        return false;
    }
    for (uint32_t a = axis; a + 1 < v->axes_n; a++) {
        v->axis_end[a] = v->axis_end[a + 1];
    }
    v->axes_n--;
    return true;
}

bool uw_view_same(const struct uw_view *a, const struct uw_view *b)
{
    bool same = a->atoms_n == b->atoms_n && a->axes_n == b->axes_n && a->n == b->n;
    for (uint32_t i = 0; same && i < a->axes_n; i++) {
        same = a->axis_end[i] == b->axis_end[i];
    }
    for (uint32_t i = 0; same && i < a->atoms_n; i++) {
        same = a->atom[i].batch == b->atom[i].batch && a->atom[i].size == b->atom[i].size &&
               (a->atom[i].batch || a->atom[i].stride == b->atom[i].stride);
    }
    return same;
}

bool uw_view_ordered(const struct uw_view *v)
{
    uint64_t stride = 1;
    for (uint32_t i = v->atoms_n; i-- > 0;) {
        if (!v->atom[i].batch) {
            if (v->atom[i].stride != stride) {
                return false;
            }
            stride *= v->atom[i].size;
        }
    }
    return true;
}

int uw_import_order(struct uw_import *im, const struct uw_onnx_node *n, struct uw_view *v)
{
    struct uw_atom run[UW_ATOMS_MAX];   /* longest runs, in the order of the view */
    uint32_t runs_n = 0;
    uint64_t dim[3] = {1, 1, 1};
    uint32_t order[3] = {0, 0, 0};

    if (uw_view_ordered(v)) {
        return UW_OK;
    }
    for (uint32_t i = 0; i < v->atoms_n; i++) {
        const struct uw_atom *x = &v->atom[i];
        if (x->batch) {
            continue;
        }
        if (runs_n > 0 && run[runs_n - 1].stride == x->size * x->stride) {
            run[runs_n - 1].size *= x->size;
            run[runs_n - 1].stride = x->stride;
        } else {
            run[runs_n++] = *x;
        }
    }
    if (runs_n > 3) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED,
                                "needs its input in an order that no single transpose gives");
    }
    for (uint32_t i = 0; i < runs_n; i++) {
        for (uint32_t j = 0; j < runs_n; j++) {
            order[i] += run[j].stride > run[i].stride ? 1 : 0;
        }
        dim[order[i]] = run[i].size;
    }
    int rc = uw_import_shape(im, n, v, runs_n, dim);
    struct uw_import_layer *l =
        rc == UW_OK ? uw_import_emit(im, n, UW_LAYER_TRANSPOSE, v->layer) : NULL;
    if (l == NULL) {
        return im->err->code;
    }
    memcpy(l->def.transpose.order, order, sizeof order);
    uw_import_dims(l, runs_n, run[0].size, runs_n > 1 ? run[1].size : 1,
                   runs_n > 2 ? run[2].size : 1);
    v->layer = uw_import_last(im);
    v->rank = runs_n;
    memcpy(v->dim, l->dim, sizeof v->dim);
    uint64_t stride = 1;
    for (uint32_t i = v->atoms_n; i-- > 0;) {
        if (!v->atom[i].batch) {
            v->atom[i].stride = stride;
            stride *= v->atom[i].size;
        }
    }
    return UW_OK;
}

int uw_import_shape(struct uw_import *im, const struct uw_onnx_node *n, struct uw_view *v,
                    uint32_t rank, const uint64_t *dim)
{
    bool same = v->rank == rank;
    for (uint32_t a = 0; a < rank; a++) {
        same = same && v->dim[a] == dim[a];
    }
    if (same) {
        return UW_OK;
    }
    uint32_t from = v->layer;
    while (from != 0 && (im->layer[from - 1]->def.kind == UW_LAYER_RESHAPE ||
                         im->layer[from - 1]->def.kind == UW_LAYER_FLATTEN)) {
        from = im->layer[from - 1]->input[0];
    }
    struct uw_import_layer *l =
        uw_import_emit(im, n, rank == 1 ? UW_LAYER_FLATTEN : UW_LAYER_RESHAPE, from);
    if (l == NULL) {
        return im->err->code;
    }
    uw_import_dims(l, rank, dim[0], rank > 1 ? dim[1] : 1, rank > 2 ? dim[2] : 1);
    for (uint32_t a = 0; a < rank && rank > 1; a++) {
        l->def.reshape.dim[a] = (uint32_t)dim[a];
        l->def.reshape.rank = rank;
    }
    v->layer = uw_import_last(im);
    v->rank = rank;
    for (uint32_t a = 0; a < 3; a++) {
        v->dim[a] = a < rank ? dim[a] : 1;
    }
    return UW_OK;
}

int uw_import_arrange(struct uw_import *im, const struct uw_onnx_node *n, struct uw_view *v,
                      uint32_t rank)
{
    uint64_t dim[3] = {1, 1, 1};
    uint32_t axes = v->axes_n - 1;
    if (v->axes_n < 2 || !uw_view_is_batch(v, 0)) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED,
                                "the minibatch is not the first axis of its input");
    }
    for (uint32_t a = 0; a < axes; a++) {
        dim[a < rank ? a : rank - 1] *= uw_view_dim(v, a + 1);
    }
    int rc = uw_import_order(im, n, v);
    return rc == UW_OK ? uw_import_shape(im, n, v, axes < rank ? axes : rank, dim) : rc;
}
