/* SPDX-License-Identifier: Apache-2.0
 *
 * Gather: rows of a constant matrix by the sample, or elements of an axis by constant indices. */
#include "import_const.h"
#include "import_parts.h"

#include <string.h>

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
    if (v.axes_n == 1 && uw_view_has_batch(&v, 0)) { /* one index of each sample */
        uw_view_insert(&v, 1);
    }
    int rc = uw_import_arrange(im, n, &v, 1);
    struct uw_import_layer *l =
        rc == UW_OK ? uw_import_emit(im, n, UW_LAYER_EMBEDDING, v.layer) : NULL;
    if (l == NULL) {
        return im->err->code;
    }
    l->def.embedding = (struct uw_embedding_def){(uint32_t)w->dim[0], (uint32_t)w->dim[1]};
    uw_import_dims(l, 2, v.n, w->dim[1], 1);
    rc = uw_import_param(im, l, 0, "weight", w, 0.0f, 2, w->dim);
    return rc < 0 ? rc : uw_import_result(im, n, 0, dims, x->view.axes_n + 1, 0);
}

/* Rows of a matrix that others train, too: 1 where an index is, else 0, times the matrix. An
 * embedding of one column, the indices themselves, refuses others. */
static int shared_rows(struct uw_import *im, const struct uw_onnx_node *n, struct uw_value *w)
{
    struct uw_value *y = uw_import_out(im, n, 0), at, row = {0};
    struct uw_value number = {.name = "", .kind = UW_VALUE_CONST,
                              .t = {.name = "", .is_float = true, .rank = 2,
                                    .dim = {w->t.dim[0], 1}, .role = UW_ONNX_ROLE_FIXED}};
    float *data = y != NULL ? uw_const_fresh(im, n, &number.t, w->t.dim[0]) : NULL;
    const struct uw_value *matrix = data != NULL ? uw_import_make_value(im, w) : NULL;
    if (matrix == NULL) {
        return im->err->code;
    }
    for (uint64_t i = 0; i < w->t.dim[0]; i++) {
        data[i] = (float)i;
    }
    int rc = embedding(im, n, &number.t);
    if (rc < 0) {
        return rc;
    }
    at = *y;
    number.t.rank = 1;
    uw_onnx_set_strides(&number.t);
    uw_import_note(im, "an embedding whose weight others train, too, as a tied head does, is a "
                       "product, which takes more time and memory: one weight is trained");
    rc = uw_import_arithmetic(im, n, UW_ARITHMETIC_SUB, &at, &number, &row);
    rc = rc < 0 ? rc : uw_import_function(im, n, UW_FUNCTION_ABS, 0.0f, 0.0f, &row, &row);
    rc = rc < 0 ? rc : uw_import_function(im, n, UW_FUNCTION_SCALE, -1.0f, 1.0f, &row, &row);
    rc = rc < 0 ? rc : uw_import_apply(im, n, UW_LAYER_RELU, &row, &row);
    return rc < 0 ? rc : uw_import_product(im, n, &row, matrix, false, false, 1.0f, y);
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
    int rc = uw_import_picks(im, &p, count, 1);
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
    y->kind = UW_VALUE_DATA;
    return uw_view_reshape(&y->view, dim, axes)
               ? UW_OK : uw_import_refuse(im, n, UW_ERR_SHAPE, "its output has no shape");
}

int uw_import_gather(struct uw_import *im, const struct uw_onnx_node *n, struct uw_value *x,
                     uint32_t axis, const struct uw_onnx_tensor *index)
{
    uint64_t count = uw_onnx_tensor_size(index);
    if (count == 0) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE, "picks nothing");
    }
    if (uw_import_order_axis(im, n, &x->view, axis) < 0 || uw_import_count(im, n, count) < 0) {
        return im->err->code;
    }
    int64_t size = (int64_t)uw_view_dim(&x->view, axis);
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
        return pick(im, n, x, axis, index);
    }
    int rc = uw_import_cut(im, n, uw_import_out(im, n, 0), &x->view, axis, (uint64_t)first, count);
    struct uw_value *y = uw_import_out(im, n, 0);
    if (rc == UW_OK && y != NULL && index->rank == 0 && !uw_view_remove(&y->view, axis)) {
        y->kind = UW_VALUE_OPAQUE;
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "picks a sample of the minibatch");
    }
    return rc;
}

/* The same places in each sample, where an axis has the minibatch in front of its own elements, as
 * PyTorch's newer exporter writes as_strided. */
static int gather_of_samples(struct uw_import *im, const struct uw_onnx_node *n, struct uw_value *x,
                             uint32_t axis, const struct uw_onnx_tensor *index)
{
    struct uw_value each = *x;
    struct uw_onnx_tensor own = *index;
    uint64_t dims[UW_ONNX_RANK_MAX + 1], size = uw_view_dim(&x->view, axis) / im->batch;
    uint32_t axes = x->view.axes_n;
    uw_view_dims(&x->view, dims);
    memmove(dims + axis + 1, dims + axis, (axes - axis) * sizeof dims[0]);
    dims[axis] = im->batch;
    dims[axis + 1] = size;
    if (axes == UW_ONNX_RANK_MAX || index->rise_first || (uint64_t)index->rise != size ||
        index->dim[0] != im->batch || index->stride[0] != 0 ||
        !uw_view_reshape(&each.view, dims, axes + 1) || !uw_view_is_batch(&each.view, axis)) {
        return uw_import_refuse_rise(im, n);
    }
    own.rank--;
    memmove(own.dim, own.dim + 1, own.rank * sizeof own.dim[0]);
    memmove(own.stride, own.stride + 1, own.rank * sizeof own.stride[0]);
    uint64_t count = uw_onnx_tensor_size(&own);
    int rc = uw_import_count(im, n, count);
    for (uint64_t i = 0; i < count && rc == UW_OK; i++) { /* below 0: of the sample before */
        rc = uw_import_integer(&own, i) >= 0 ? UW_OK : uw_import_refuse_rise(im, n);
    }
    return rc < 0 ? rc : uw_import_gather(im, n, &each, axis + 1, &own);
}

int uw_op_gather(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_value *w = uw_import_in(im, n, 0);
    const struct uw_value *at = uw_import_in(im, n, 1);
    bool picks = at != NULL && at->kind == UW_VALUE_CONST;
    if (w != NULL && w->kind == UW_VALUE_CONST && !picks) {
        if (w->t.rank == 2 && uw_onnx_int(n, "axis", 0) == 0 && uw_import_is_shared(im, w)) {
            return shared_rows(im, n, w);
        }
        return embedding(im, n, &w->t);
    }
    struct uw_value *x = uw_import_data(im, n, 0);
    const struct uw_onnx_tensor *index = uw_import_const(im, n, 1);
    if (x == NULL || index == NULL) {
        return im->err->code;
    }
    int axis = uw_view_axis(im, n, &x->view, uw_onnx_int(n, "axis", 0));
    return axis < 0 ? im->err->code
           : index->rise != 0 ? gather_of_samples(im, n, x, (uint32_t)axis, index)
                              : uw_import_gather(im, n, x, (uint32_t)axis, index);
}
