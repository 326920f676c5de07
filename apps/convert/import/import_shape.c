/* SPDX-License-Identifier: Apache-2.0 */
#include "import_parts.h"

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

/* fits > 0: the view is complete, make output 0 data. 0: the axes tear the minibatch. Or a code. */
static int done(struct uw_import *im, const struct uw_onnx_node *n, struct uw_value *y, int fits)
{
    if (fits == 0) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED,
                                "its new shape tears the minibatch from the other axes");
    }
    y->kind = fits > 0 ? UW_VALUE_DATA : y->kind;
    return fits > 0 ? UW_OK : fits;
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
    return done(im, n, y, uw_import_reshape(im, n, &y->view, dims, 2));
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
    rc = rc < 0 ? rc : uw_import_reshape(im, n, &y->view, dims, (uint32_t)count);
    return done(im, n, y, rc);
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
