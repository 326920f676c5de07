/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of an axis: Slice and Split. */
#include "import_parts.h"

#include <string.h>

uint32_t uw_import_own_axis(const struct uw_view *v, uint64_t size, uint64_t inner)
{
    uint32_t at = v->rank;
    uint64_t behind = 1;
    for (uint32_t a = v->rank; a-- > 0;) {
        at = behind == inner && v->dim[a] == size ? a : at;
        behind *= v->dim[a];
    }
    return at;
}

int uw_import_isolate(struct uw_import *im, const struct uw_onnx_node *n, struct uw_view *v,
                      uint32_t first, uint32_t *at)
{
    uint64_t size = v->atom[first].size, inner = v->atom[first].stride;
    const uint64_t split[3] = {v->n / (inner * size), size, inner};
    uint32_t skip = split[0] == 1 ? 1 : 0;
    *at = uw_import_own_axis(v, size, inner);
    if (*at < v->rank) {
        return UW_OK;
    }
    *at = 1 - skip;
    return uw_import_shape(im, n, v, inner == 1 ? 2 - skip : 3 - skip, split + skip);
}

int uw_import_resized(struct uw_import *im, const struct uw_onnx_node *n, struct uw_view *y,
                      const struct uw_view *v, uint32_t first, uint64_t length)
{
    const struct uw_import_layer *l = im->layer[im->layers_n - 1];
    const struct uw_atom old = v->atom[first];
    uint64_t dims[UW_ONNX_RANK_MAX];
    *y = *v;
    y->layer = im->layers_n;
    y->rank = l->rank;
    y->n = y->n / old.size * length;
    memcpy(y->dim, l->dim, sizeof l->dim);
    y->atom[first].size = length;
    for (uint32_t k = 0; k < y->atoms_n; k++) {
        struct uw_atom *atom = &y->atom[k];
        if (k != first && !atom->batch && atom->stride >= old.stride * old.size) {
            atom->stride = atom->stride / old.size * length;
        }
    }
    uw_view_dims(y, dims);
    return uw_view_reshape(y, dims, y->axes_n)
               ? UW_OK
               : uw_import_refuse(im, n, UW_ERR_SHAPE, "its output has no shape");
}

int uw_import_cut(struct uw_import *im, const struct uw_onnx_node *n, struct uw_value *y,
               const struct uw_view *x, uint32_t axis, uint64_t start, uint64_t length)
{
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
    uint32_t at;
    int rc = uw_import_isolate(im, n, &v, first, &at);
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
    return uw_import_resized(im, n, &y->view, &v, first, length);
}

/* An axis that a transpose has assembled from parts is put in order before it is sliced. */
int uw_import_order_axis(struct uw_import *im, const struct uw_onnx_node *n, struct uw_view *v,
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
    int rc = uw_import_picks(im, &p, count > 0 ? (uint64_t)count : 0, 1);
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
        if (a < 0 ||
            uw_import_order_axis(im, n, k == 0 ? &x->view : &v, (uint32_t)a) < 0) {
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
        int rc = uw_import_cut(im, n, uw_import_out(im, n, 0), &v, (uint32_t)a, (uint64_t)s,
                     e > s ? (uint64_t)(e - s) : 0);
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
    if (axis < 0 || im->err->code != UW_OK ||
        uw_import_order_axis(im, n, &x->view, (uint32_t)axis) < 0) {
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
        int rc = uw_import_cut(im, n, uw_import_out(im, n, i), &x->view, (uint32_t)axis, at,
                               length);
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
