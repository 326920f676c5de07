/* SPDX-License-Identifier: Apache-2.0 */
#include "import_parts.h"

#include <string.h>

/* Make ordered views of all inputs whose own shapes contain the axis: *at is its index there. */
static int align(struct uw_import *im, const struct uw_onnx_node *n, struct uw_view *v,
                 uint32_t count, uint32_t axis, uint32_t *at)
{
    uint64_t outer = 1;
    uint64_t inner = 1;
    int rc = UW_OK;
    for (uint32_t a = 0; a < v[0].axes_n; a++) {
        uint64_t d = uw_view_has_batch(&v[0], a) ? uw_view_dim(&v[0], a) / im->batch
                                                 : uw_view_dim(&v[0], a);
        outer *= a < axis ? d : 1;
        inner *= a > axis ? d : 1;
    }
    bool own = true; /* all have the axis in their shape, and the same rank */
    for (uint32_t k = 0; k < count && rc == UW_OK; k++) {
        rc = uw_import_order(im, n, &v[k]);
        uint32_t found = uw_import_own_axis(&v[k], uw_view_dim(&v[k], axis), inner);
        *at = k == 0 ? found : *at;
        own = own && found == *at && found < v[k].rank && v[k].rank == v[0].rank;
        for (uint32_t a = 0; own && a < v[k].rank; a++) {
            own = a == found || v[k].dim[a] == v[0].dim[a];
        }
    }
    uint32_t skip = outer == 1 ? 1 : 0;
    for (uint32_t k = 0; k < count && rc == UW_OK && !own; k++) {
        const uint64_t split[3] = {outer, uw_view_dim(&v[k], axis), inner};
        rc = uw_import_shape(im, n, &v[k], inner == 1 ? 2 - skip : 3 - skip, split + skip);
        *at = 1 - skip;
    }
    return rc;
}

static int check_concat(struct uw_import *im, const struct uw_onnx_node *n, struct uw_view *v,
                        int *axis)
{
    for (uint32_t k = 0; k < n->inputs_n; k++) {
        const struct uw_value *x = uw_import_any(im, n, k);
        if (x == NULL) {
            return im->err->code;
        }
        if (x->kind == UW_VALUE_DATA) {
            v[k] = x->view;
        } else if (uw_import_constant_view(im, n, &x->t, uw_import_learns(im, &x->t),
                                           &v[k]) < 0) {
            return im->err->code;
        }
        *axis = k == 0 ? uw_view_axis(im, n, &v[0], uw_onnx_int(n, "axis", 0)) : *axis;
        if (*axis < 0) {
            return im->err->code;
        }
        bool fits = v[k].axes_n == v[0].axes_n && !uw_view_has_batch(&v[k], (uint32_t)*axis);
        for (uint32_t a = 0; fits && a < v[k].axes_n; a++) {
            bool repeated = uw_view_is_shared(&v[k]) || uw_view_is_shared(&v[0]);
            bool batch = uw_view_has_batch(&v[k], a) || uw_view_has_batch(&v[0], a);
            fits = (int)a == *axis || (repeated && batch) ||
                   (uw_view_dim(&v[k], a) == uw_view_dim(&v[0], a) &&
                    uw_view_has_batch(&v[k], a) == uw_view_has_batch(&v[0], a));
        }
        if (!fits) {
            return uw_import_refuse(im, n, UW_ERR_SHAPE,
                                    "inputs 1 and %u differ in more than axis %d, or that is the "
                                    "minibatch", (unsigned)k + 1, *axis);
        }
    }
    return UW_OK;
}

/* The axis that is the minibatch in any of the inputs; *batch stays if there is none. */
static int find_batch(struct uw_import *im, const struct uw_onnx_node *n, const struct uw_view *v,
                      uint32_t count, uint32_t *batch)
{
    for (uint32_t k = 0; k < count; k++) {
        for (uint32_t a = 0; a < v[k].axes_n; a++) {
            *batch = uw_view_has_batch(&v[k], a) ? a : *batch;
            if (uw_view_has_batch(&v[k], a) && !uw_view_is_batch(&v[k], a)) {
                return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED,
                                        "the minibatch is mixed into an axis");
            }
        }
    }
    return UW_OK;
}

int uw_import_concat(struct uw_import *im, const struct uw_onnx_node *n, struct uw_view *v,
                     uint32_t count, uint32_t axis, struct uw_value *y)
{
    uint32_t at = 0;
    uint64_t dims[UW_ONNX_RANK_MAX];
    int rc = align(im, n, v, count, axis, &at);
    if (rc < 0) {
        return rc;
    }
    uint64_t total = v[0].dim[at];
    uint32_t front = v[0].layer;
    for (uint32_t k = 1; k < count;) {
        struct uw_import_layer *l = uw_import_emit(im, n, UW_LAYER_CONCAT, front);
        if (l == NULL) {
            return im->err->code;
        }
        l->def.concat.axis = at;
        l->rank = v[0].rank;
        memcpy(l->dim, v[0].dim, sizeof l->dim);
        for (; k < count && l->inputs_n < UW_LAYER_INPUTS_MAX; k++) {
            l->input[l->inputs_n++] = v[k].layer;
            total += v[k].dim[at];
        }
        l->dim[at] = total;
        front = im->layers_n;
        if (total > INT32_MAX) {
            return uw_import_refuse(im, n, UW_ERR_TOOBIG, "its output is too large");
        }
    }
    if (count == 1) {
        y->view = v[0];
        y->kind = UW_VALUE_DATA;
        return UW_OK;
    }
    uint32_t batch = v[0].axes_n;
    if (find_batch(im, n, v, count, &batch) < 0) {
        return im->err->code;
    }
    uw_view_dims(&v[0], dims);
    if (batch < v[0].axes_n) {
        dims[batch] = im->batch;
    }
    dims[axis] = 0;
    for (uint32_t k = 0; k < count; k++) {
        dims[axis] += uw_view_dim(&v[k], axis);
    }
    return uw_import_show(im, n, y, dims, v[0].axes_n, batch);
}

int uw_op_concat(struct uw_import *im, const struct uw_onnx_node *n)
{
    int axis = -1;
    struct uw_value *y = uw_import_out(im, n, 0);
    struct uw_view *v = uw_pool_take(im->pool, n->inputs_n, sizeof *v);
    if (v == NULL || n->inputs_n == 0) {
        return v == NULL ? uw_import_nomem(im)
                         : uw_import_refuse(im, n, UW_ERR_INVALID, "has no input");
    }
    if (n->inputs_n == 1) {
        return uw_op_identity(im, n);
    }
    int rc = check_concat(im, n, v, &axis);
    return rc < 0 || y == NULL ? rc
                               : uw_import_concat(im, n, v, n->inputs_n, (uint32_t)axis, y);
}
