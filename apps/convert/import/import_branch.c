/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that are gone once constants are known: a choice between two graphs, and weights kept
 * as integers. */
#include "import_const.h"
#include "import_graph.h"
#include "import_parts.h"

/* An If with a constant condition is the graph that it chooses. */
int uw_op_if(struct uw_import *im, const struct uw_onnx_node *n)
{
    double chosen;
    if (!uw_import_scalar(uw_import_in(im, n, 0), &chosen)) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "its condition depends on the sample: "
                                "only one that is constant can be followed");
    }
    const struct uw_onnx_attribute *a =
        uw_onnx_attribute(n, chosen != 0.0 ? "then_branch" : "else_branch");
    const struct uw_onnx_graph *g = a != NULL ? a->g : NULL;
    if (g == NULL || g->outputs_n < n->outputs_n) {
        return uw_import_refuse(im, n, UW_ERR_CORRUPT, "its branch has no graph, or too few "
                                "outputs");
    }
    int rc = uw_import_declare_constants(im, g);
    rc = rc < 0 ? rc : uw_import_declare_nodes(im, g);
    rc = rc < 0 ? rc : uw_import_run(im, g);
    for (uint32_t i = 0; i < n->outputs_n && rc == UW_OK; i++) {
        struct uw_value *y = uw_import_out(im, n, i);
        const struct uw_value *from = uw_import_value(im, g->output[i].name);
        if (y == NULL) {
            continue;
        }
        if (from == NULL) {
            return uw_import_refuse(im, n, UW_ERR_CORRUPT, "nothing makes its branch's output "
                                    "'%.60s'", g->output[i].name);
        }
        struct uw_value copy = *from;
        copy.name = y->name;
        copy.users_n = y->users_n;
        *y = copy;
    }
    return rc;
}

/* A Cast to the type that another value has. What depends on the sample is float here. */
int uw_op_cast_like(struct uw_import *im, const struct uw_onnx_node *n)
{
    const struct uw_value *x = uw_import_in(im, n, 0), *like = uw_import_in(im, n, 1);
    struct uw_value *y = uw_import_out(im, n, 0);
    if (x == NULL || like == NULL || y == NULL || x->kind != UW_VALUE_CONST) {
        return uw_op_cast(im, n);
    }
    if (uw_import_opaque_input(im, n)) {
        return im->err->code;
    }
    bool is_float = like->kind == UW_VALUE_DATA || like->t.is_float;
    y->t = x->t;
    if (is_float != x->t.is_float) {
        y->t.is_float = is_float;
        void *data = uw_const_fresh(im, n, &y->t, x->t.stored_n);
        uint64_t count = data != NULL ? uw_onnx_tensor_size(&x->t) : 0;
        for (uint64_t i = 0; i < count; i++) {
            uw_const_put(&y->t, data, i, uw_import_number(&x->t, i), uw_import_integer(&x->t, i));
        }
        if (data == NULL || uw_const_mark_like(im, &y->t, &x->t) < 0) {
            return im->err->code;
        }
    }
    y->kind = UW_VALUE_CONST;
    return UW_OK;
}

/* scale * (x - zero), of constants; scale and zero are one number, or one for each index of an
 * axis. */
int uw_op_dequantize(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_value *y = uw_import_out(im, n, 0);
    const struct uw_onnx_tensor *x = uw_import_const(im, n, 0);
    const struct uw_onnx_tensor *scale = x != NULL ? uw_import_const(im, n, 1) : NULL;
    const struct uw_onnx_tensor *zero = NULL;
    if (scale != NULL && uw_import_in(im, n, 2) != NULL) {
        zero = uw_import_const(im, n, 2);
    }
    if (y == NULL || scale == NULL || (zero == NULL && uw_import_in(im, n, 2) != NULL)) {
        return im->err->code;
    }
    uint64_t scales = uw_onnx_tensor_size(scale), inner = 1;
    int64_t axis = uw_onnx_int(n, "axis", 1);
    axis = axis < 0 ? axis + x->rank : axis;
    bool blocked = uw_onnx_int(n, "block_size", 0) != 0;
    bool fits = scales == 1 || (!blocked && axis >= 0 && axis < x->rank &&
                                x->dim[axis] == scales && scale->rank == 1);
    if (!fits || (zero != NULL && uw_onnx_tensor_size(zero) != scales)) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "its scale has %llu numbers: needs one, "
                                "or one for each index of its axis", (unsigned long long)scales);
    }
    for (uint32_t a = scales > 1 ? (uint32_t)axis + 1 : x->rank; a < x->rank; a++) {
        inner *= x->dim[a];
    }
    y->t = *x;
    y->t.name = x->name;
    y->t.is_float = true;
    float *data = uw_const_fresh(im, n, &y->t, x->stored_n);
    uint64_t count = data != NULL ? uw_onnx_tensor_size(x) : 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t k = scales > 1 ? i / inner % scales : 0;
        double from = zero != NULL ? uw_import_number(zero, k) : 0.0;
        data[i] = (float)((uw_import_number(x, i) - from) * uw_import_number(scale, k));
    }
    y->kind = data != NULL ? UW_VALUE_CONST : y->kind;
    return data != NULL ? UW_OK : im->err->code;
}
