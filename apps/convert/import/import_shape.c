/* SPDX-License-Identifier: Apache-2.0 */
#include "import_parts.h"

#include <string.h>

/* Start output 0 as a view of input 0. */
static struct uw_value *begin(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_value *x = uw_import_in(im, n, 0);
    struct uw_value *y = uw_import_out(im, n, 0);
    if (x == NULL || y == NULL || x->kind != UW_VALUE_DATA) {
        uw_import_data(im, n, 0);
        if (im->err->code == UW_OK) {
            uw_import_refuse(im, n, UW_ERR_CORRUPT, "has no output");
        }
        return NULL;
    }
    y->view = x->view;
    return y;
}

/* The view is complete: make output 0 data. */
static int done(struct uw_import *im, const struct uw_onnx_node *n, struct uw_value *y, bool fits)
{
    if (!fits) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED,
                                "its new shape tears the minibatch from the other axes");
    }
    y->kind = UW_VALUE_DATA;
    return UW_OK;
}

int uw_op_identity(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_value *y = begin(im, n);
    return y != NULL ? done(im, n, y, true) : im->err->code;
}

int uw_op_flatten(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_value *y = begin(im, n);
    if (y == NULL) {
        return im->err->code;
    }
    uint64_t dims[2] = {1, 1};
    int64_t axis = uw_onnx_int(n, "axis", 1);
    axis = axis < 0 ? axis + y->view.axes_n : axis;
    for (uint32_t a = 0; a < y->view.axes_n; a++) {
        dims[a < axis ? 0 : 1] *= uw_view_dim(&y->view, a);
    }
    return done(im, n, y, uw_view_reshape(&y->view, dims, 2));
}

int uw_op_reshape(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_value *y = begin(im, n);
    int64_t want[UW_ONNX_RANK_MAX];
    uint64_t have[UW_ONNX_RANK_MAX];
    uint64_t dims[UW_ONNX_RANK_MAX];
    if (y == NULL) {
        return im->err->code;
    }
    int count = uw_import_ints(im, n, "shape", 1, want);
    if (count < 0) {
        return uw_import_lacks(im, n, "shape");
    }
    uw_view_dims(&y->view, have);
    int rc = uw_import_reshape_dims(im, n, have, y->view.axes_n, want, (uint32_t)count, dims);
    return rc < 0 ? rc : done(im, n, y, uw_view_reshape(&y->view, dims, (uint32_t)count));
}

int uw_op_transpose(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_value *y = begin(im, n);
    uint32_t order[UW_ONNX_RANK_MAX];
    if (y == NULL || uw_import_order_of(im, n, y->view.axes_n, order) < 0) {
        return im->err->code;
    }
    uw_view_permute(&y->view, order);
    return done(im, n, y, true);
}

int uw_op_squeeze(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_value *y = begin(im, n);
    uint32_t marked = 0;
    int count = y != NULL ? uw_import_axes(im, n, y->view.axes_n, false, &marked) : 0;
    if (im->err->code != UW_OK) {
        return im->err->code;
    }
    for (uint32_t a = y->view.axes_n; a-- > 0;) {
        bool one = uw_view_dim(&y->view, a) == 1 && !uw_view_has_batch(&y->view, a);
        if (count < 0 ? !one : (marked & 1u << a) == 0) {
            continue;
        }
        if (!uw_view_remove(&y->view, a)) {
            return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "axis %u is the minibatch, or not "
                                    "of size 1", (unsigned)a);
        }
    }
    return done(im, n, y, true);
}

int uw_op_unsqueeze(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_value *y = begin(im, n);
    uint32_t marked, rank = y != NULL ? y->view.axes_n : 0;
    int count = y != NULL ? uw_import_axes(im, n, rank, true, &marked) : 0;
    if (count < 1) {
        return uw_import_lacks(im, n, "axes");
    }
    bool fits = true;
    for (uint32_t a = 0; a < rank + (uint32_t)count && fits; a++) {
        fits = (marked & 1u << a) == 0 || uw_view_insert(&y->view, a);
    }
    return done(im, n, y, fits);
}

/* View of a slice of v, whose atom `first` now has `length` steps. */
static int cut_view(struct uw_import *im, const struct uw_onnx_node *n, struct uw_view *y,
                    const struct uw_view *v, uint32_t first, uint64_t length)
{
    const struct uw_import_layer *l = im->layer[im->layers_n - 1];
    uint64_t size = v->atom[first].size;
    uint64_t dims[UW_ONNX_RANK_MAX];
    *y = *v;
    y->layer = im->layers_n;
    y->rank = l->rank;
    y->n = v->n / size * length;
    memcpy(y->dim, l->dim, sizeof l->dim);
    y->atom[first].size = length;
    for (uint32_t k = 0; k < v->atoms_n; k++) {
        struct uw_atom *atom = &y->atom[k];
        if (k != first && !atom->batch && atom->stride >= v->atom[first].stride * size) {
            atom->stride = atom->stride / size * length;
        }
    }
    uw_view_dims(y, dims);
    return uw_view_reshape(y, dims, v->axes_n)
               ? UW_OK
               : uw_import_refuse(im, n, UW_ERR_SHAPE, "its output has no shape");
}

/* Output `i` becomes elements start .. start + length - 1 of an axis of x. */
static int cut(struct uw_import *im, const struct uw_onnx_node *n, uint32_t i,
               const struct uw_view *x, uint32_t axis, uint64_t start, uint64_t length)
{
    struct uw_value *y = uw_import_out(im, n, i);
    struct uw_view v = *x;
    uint32_t first = axis == 0 ? 0 : v.axis_end[axis - 1];
    uint64_t size = uw_view_dim(&v, axis);
    if (y == NULL || length == size) {
        if (y != NULL) {
            y->kind = UW_VALUE_DATA;
            y->view = v;
        }
        return UW_OK;
    }
    if (length == 0 || uw_view_has_batch(&v, axis) || v.axis_end[axis] - first != 1) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "cuts nothing, or the minibatch");
    }
    uint64_t inner = v.atom[first].stride;
    uint64_t outer = v.n / (inner * size);
    const uint64_t split[3] = {outer, size, inner};
    /* keep the layer's own shape if this axis is one of its axes */
    uint32_t at = v.rank;
    uint64_t behind = 1;
    for (uint32_t a = v.rank; a-- > 0;) {
        at = behind == inner && v.dim[a] == size ? a : at;
        behind *= v.dim[a];
    }
    int rc = UW_OK;
    if (at == v.rank) {
        uint32_t skip = outer == 1 ? 1 : 0;
        rc = uw_import_shape(im, n, &v, inner == 1 ? 2 - skip : 3 - skip, split + skip);
        at = 1 - skip;
    }
    struct uw_import_layer *l = rc == UW_OK ? uw_import_emit(im, n, UW_LAYER_SLICE, v.layer) : NULL;
    if (l == NULL) {
        return im->err->code;
    }
    l->def.slice = (struct uw_slice_def){.axis = at, .start = (int32_t)start,
                                         .length = (uint32_t)length,
                                         .squeeze = length == 1 && l->rank > 1};
    l->dim[at] = length;
    for (uint32_t a = at; l->def.slice.squeeze && a < l->rank; a++) {
        l->dim[a] = a + 1 < l->rank ? l->dim[a + 1] : 1;
    }
    l->rank -= l->def.slice.squeeze ? 1 : 0;
    y->kind = UW_VALUE_DATA;
    return cut_view(im, n, &y->view, &v, first, length);
}

/* An axis that a transpose has assembled from parts is put in order before it is sliced. */
static int order_axis(struct uw_import *im, const struct uw_onnx_node *n, struct uw_view *v,
                      uint32_t axis)
{
    uint64_t dims[UW_ONNX_RANK_MAX];
    uint32_t pieces = v->axis_end[axis] - (axis == 0 ? 0 : v->axis_end[axis - 1]);
    if (pieces < 2 || uw_view_has_batch(v, axis)) {
        return UW_OK;
    }
    uw_view_dims(v, dims);
    int rc = uw_import_order(im, n, v);
    if (rc == UW_OK && !uw_view_reshape(v, dims, v->axes_n)) {
        rc = uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "cuts across a transpose");
    }
    return rc;
}

struct steps {
    int64_t start, end, step, size; /* as Slice has them, and the axis */
};

/* Every step-th element of an axis; output 0 and v become that. */
static int slice_by(struct uw_import *im, const struct uw_onnx_node *n, struct uw_view *v,
                    uint32_t axis, const struct steps *s)
{
    struct uw_value *y = uw_import_out(im, n, 0);
    int64_t low = s->step > 0 ? 0 : -1, high = s->step > 0 ? s->size : s->size - 1;
    int64_t start = s->start < 0 ? s->start + s->size : s->start;
    int64_t end = s->end < -s->size ? low : s->end < 0 ? s->end + s->size : s->end;
    struct uw_import_picks p;
    if (s->step == 0 || s->step < -INT32_MAX || s->step > INT32_MAX) {
        return uw_import_refuse(im, n, UW_ERR_INVALID, "step %lld", (long long)s->step);
    }
    start = start < 0 ? 0 : start > high ? high : start;
    end = end < low ? low : end > high ? high : end;
    int64_t count = s->step > 0 ? (end - start + s->step - 1) / s->step
                                : (start - end - s->step - 1) / -s->step;
    int rc = uw_import_picks(im, &p, count > 0 ? (uint64_t)count : 0, 1, false);
    for (int64_t k = 0; k < count && rc == UW_OK; k++) {
        p.index[k] = (int32_t)(start + k * s->step);
    }
    rc = rc < 0 ? rc : uw_import_take(im, n, v, axis, &p);
    y->kind = rc == UW_OK ? UW_VALUE_DATA : y->kind;
    y->view = *v;
    return rc;
}

int uw_op_slice(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_value *x = uw_import_data(im, n, 0);
    struct uw_import_cuts c;
    if (x == NULL || uw_import_out(im, n, 0) == NULL) {
        return im->err->code;
    }
    int count = uw_import_cuts(im, n, &c);
    if (count < 1) {
        return uw_import_lacks(im, n, "starts");
    }
    struct uw_view v = x->view;
    for (int k = 0; k < count; k++) {
        int64_t start = c.start[k], end = c.end[k];
        int a = uw_view_axis(im, n, &v, k < c.axes_n ? c.axes[k] : k);
        if (a < 0 || order_axis(im, n, k == 0 ? &x->view : &v, (uint32_t)a) < 0) {
            return im->err->code;
        }
        v = k == 0 ? x->view : v;
        int64_t size = (int64_t)uw_view_dim(&v, (uint32_t)a);
        int64_t s = start < -size ? 0 : start < 0 ? start + size : start;
        int64_t e = end < -size ? 0 : end < 0 ? end + size : end;
        s = s > size ? size : s;
        e = e > size ? size : e;
        if (k < c.steps_n && c.step[k] != 1) {
            int rc = slice_by(im, n, &v, (uint32_t)a, &(struct steps){start, end, c.step[k], size});
            if (rc < 0) {
                return rc;
            }
            continue;
        }
        if (uw_view_has_batch(&v, (uint32_t)a) && s == 0 && end >= size) {
            e = size;
        }
        int rc = cut(im, n, 0, &v, (uint32_t)a, (uint64_t)s, e > s ? (uint64_t)(e - s) : 0);
        if (rc < 0) {
            return rc;
        }
        v = uw_import_out(im, n, 0)->view;
    }
    return UW_OK;
}

int uw_op_split(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_value *x = uw_import_data(im, n, 0);
    int64_t part[UW_ONNX_RANK_MAX];
    if (x == NULL) {
        return im->err->code;
    }
    int axis = uw_view_axis(im, n, &x->view, uw_onnx_int(n, "axis", 0));
    int parts = uw_import_ints(im, n, "split", 1, part);
    if (axis < 0 || im->err->code != UW_OK || order_axis(im, n, &x->view, (uint32_t)axis) < 0) {
        return im->err->code;
    }
    uint64_t size = uw_view_dim(&x->view, (uint32_t)axis);
    uint64_t at = 0;
    for (uint32_t i = 0; i < n->outputs_n; i++) {
        uint64_t length = parts < 0 ? size / n->outputs_n
                          : i < (uint32_t)parts && part[i] > 0 ? (uint64_t)part[i] : 0;
        if (length == 0 || length > size - at) {
            return uw_import_refuse(im, n, UW_ERR_SHAPE, "%u parts of %llu elements",
                                    (unsigned)n->outputs_n, (unsigned long long)size);
        }
        int rc = cut(im, n, i, &x->view, (uint32_t)axis, at, length);
        if (rc < 0) {
            return rc;
        }
        at += length;
    }
    return at == size
               ? UW_OK
               : uw_import_refuse(im, n, UW_ERR_SHAPE, "its parts have %llu of %llu elements",
                                  (unsigned long long)at, (unsigned long long)size);
}

static int embedding(struct uw_import *im, const struct uw_onnx_node *n,
                     const struct uw_onnx_tensor *w)
{
    struct uw_value *x = uw_import_data(im, n, 1);
    if (x == NULL) {
        return im->err->code;
    }
    struct uw_view v = x->view;
    if (w->rank != 2 || uw_onnx_int(n, "axis", 0) != 0 || v.axes_n >= UW_ONNX_RANK_MAX ||
        w->dim[0] > INT32_MAX || w->dim[1] > INT32_MAX / v.n || w->dim[1] == 0) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "only rows of a matrix");
    }
    uint64_t dims[UW_ONNX_RANK_MAX];
    uw_view_dims(&v, dims);
    dims[v.axes_n] = w->dim[1];
    int rc = uw_import_arrange(im, n, &v, 1);
    struct uw_import_layer *l =
        rc == UW_OK ? uw_import_emit(im, n, UW_LAYER_EMBEDDING, v.layer) : NULL;
    if (l == NULL) {
        return im->err->code;
    }
    l->def.embedding = (struct uw_embedding_def){(uint32_t)w->dim[0], (uint32_t)w->dim[1]};
    uw_import_dims(l, 2, v.n, w->dim[1], 1);
    rc = uw_import_param(im, l, 0, "weight", w, 0.0f, 2, w->dim);
    return rc < 0 ? rc : uw_import_result(im, n, 0, dims, v.axes_n + 1, 0);
}

/* Elements of an axis by a constant list, whose axes take that axis's place. */
static int pick(struct uw_import *im, const struct uw_onnx_node *n, const struct uw_value *x,
                uint32_t axis, const struct uw_onnx_tensor *index)
{
    struct uw_value *y = uw_import_out(im, n, 0);
    uint64_t count = uw_onnx_tensor_size(index), have[UW_ONNX_RANK_MAX], dim[UW_ONNX_RANK_MAX];
    int64_t size = (int64_t)uw_view_dim(&x->view, axis);
    struct uw_import_picks p;
    struct uw_view v = x->view;
    uint32_t axes = v.axes_n - 1 + index->rank;
    if (axes > UW_ONNX_RANK_MAX) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "more than 8 axes");
    }
    int rc = uw_import_picks(im, &p, count, 1, false);
    for (uint64_t i = 0; i < count && rc == UW_OK; i++) {
        int64_t k = uw_import_integer(index, i);
        p.index[i] = (int32_t)(k < 0 ? k + size : k);
    }
    rc = rc < 0 ? rc : uw_import_take(im, n, &v, axis, &p);
    uw_view_dims(&v, have);
    for (uint32_t a = 0; a < axes; a++) {
        dim[a] = a < axis ? have[a]
                 : a < axis + index->rank ? index->dim[a - axis] : have[a + 1 - index->rank];
    }
    if (rc < 0 || y == NULL) {
        return rc;
    }
    y->view = v;
    return done(im, n, y, uw_view_reshape(&y->view, dim, axes));
}

int uw_op_gather(struct uw_import *im, const struct uw_onnx_node *n)
{
    const struct uw_value *w = uw_import_in(im, n, 0);
    if (w != NULL && w->kind == UW_VALUE_CONST) {
        return embedding(im, n, &w->t);
    }
    struct uw_value *x = uw_import_data(im, n, 0);
    const struct uw_onnx_tensor *index = uw_import_const(im, n, 1);
    if (x == NULL || index == NULL) {
        return im->err->code;
    }
    int axis = uw_view_axis(im, n, &x->view, uw_onnx_int(n, "axis", 0));
    uint64_t count = uw_onnx_tensor_size(index);
    if (axis < 0 || count == 0) {
        return axis < 0 ? im->err->code : uw_import_refuse(im, n, UW_ERR_SHAPE, "picks nothing");
    }
    if (order_axis(im, n, &x->view, (uint32_t)axis) < 0) {
        return im->err->code;
    }
    int64_t size = (int64_t)uw_view_dim(&x->view, (uint32_t)axis);
    int64_t first = uw_import_integer(index, 0);
    first = first < 0 ? first + size : first;
    bool range = index->rank < 2;
    for (uint64_t i = 0; i < count; i++) {
        int64_t k = uw_import_integer(index, i);
        k = k < 0 ? k + size : k;
        if (k < 0 || k >= size) {
            return uw_import_refuse(im, n, UW_ERR_SHAPE, "index %lld of %lld values", (long long)k,
                                    (long long)size);
        }
        range = range && k == first + (int64_t)i;
    }
    if (!range) {
        return pick(im, n, x, (uint32_t)axis, index);
    }
    int rc = cut(im, n, 0, &x->view, (uint32_t)axis, (uint64_t)first, count);
    struct uw_value *y = uw_import_out(im, n, 0);
    if (rc == UW_OK && y != NULL && index->rank == 0 &&
        !uw_view_remove(&y->view, (uint32_t)axis)) {
        y->kind = UW_VALUE_OPAQUE;
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "picks a sample of the minibatch");
    }
    return rc;
}
