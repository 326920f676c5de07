/* SPDX-License-Identifier: Apache-2.0
 *
 * Masks: the triangle of a matrix, as causal attention has it, and what looks for rows without a
 * value. */
#include "import_const.h"
#include "import_parts.h"

#include <float.h>
#include <string.h>

/* The diagonal k of a Trilu. Returns UW_OK or a code with err set. */
static int diagonal_of(struct uw_import *im, const struct uw_onnx_node *n, double *k)
{
    const struct uw_value *v = n->inputs_n > 1 ? uw_import_in(im, n, 1) : NULL;
    *k = 0.0;
    return v == NULL || uw_import_scalar(v, k)
               ? UW_OK : uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "its diagonal is no constant");
}

/* Whether the triangle has this element of a matrix of `columns`. */
static bool has(const struct uw_onnx_node *n, uint64_t i, uint64_t columns, double k)
{
    double over = (double)(i % columns) - (double)(i / columns) - k;
    return uw_onnx_int(n, "upper", 1) != 0 ? over >= 0.0 : over <= 0.0;
}

int uw_fold_trilu(struct uw_import *im, const struct uw_onnx_node *n,
                  const struct uw_onnx_tensor *const *in, struct uw_onnx_tensor *out)
{
    const struct uw_onnx_tensor *x = in[0];
    double k;
    if (x->rank < 2 || diagonal_of(im, n, &k) < 0) {
        return im->err->code != UW_OK ? im->err->code
                                      : uw_import_refuse(im, n, UW_ERR_SHAPE, "of no matrix");
    }
    uint64_t columns = x->dim[x->rank - 1], each = columns * x->dim[x->rank - 2];
    *out = *x;
    out->name = "";
    void *data = uw_const_fresh(im, n, out, x->stored_n);
    uint64_t count = uw_onnx_tensor_size(x);
    for (uint64_t i = 0; data != NULL && i < count; i++) {
        bool keep = has(n, i % each, columns, k);
        uw_const_put(out, data, i, keep ? uw_import_number(x, i) : 0.0,
                     keep ? uw_import_integer(x, i) : 0);
    }
    return data != NULL ? uw_const_mark_like(im, out, x) : im->err->code;
}

int uw_fold_attention_mask(struct uw_import *im, const struct uw_onnx_node *n,
                           const struct uw_onnx_tensor *const *in, struct uw_onnx_tensor *out)
{
    const struct uw_onnx_tensor *x = in[0];
    *out = *x;
    if (x->is_float) {
        return UW_OK;
    }
    out->name = "";
    out->is_float = true;
    void *data = uw_const_fresh(im, n, out, x->stored_n);
    uint64_t count = data != NULL ? uw_onnx_tensor_size(x) : 0;
    for (uint64_t i = 0; i < count; i++) {
        uw_const_put(out, data, i, uw_import_integer(x, i) != 0 ? 0.0 : -FLT_MAX, 0);
    }
    return data != NULL ? UW_OK : im->err->code;
}

/* The mask of an Attention, of values: numbers to add. */
int uw_op_attention_mask(struct uw_import *im, const struct uw_onnx_node *n)
{
    const struct uw_value *x = uw_import_data(im, n, 0);
    if (x != NULL && (x->truth || n->inputs_n != 1)) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, n->inputs_n != 1 ? "only of opset 23 on"
                                : "a mask of truth values that depend on the sample");
    }
    return x != NULL ? uw_op_identity(im, n) : im->err->code;
}

/* Trilu of values: those outside the triangle are 0. */
int uw_op_trilu(struct uw_import *im, const struct uw_onnx_node *n)
{
    const struct uw_value *x = uw_import_data(im, n, 0);
    struct uw_value *y = uw_import_out(im, n, 0);
    double k;
    if (x == NULL || y == NULL || diagonal_of(im, n, &k) < 0) {
        return im->err->code;
    }
    uint32_t axes = x->view.axes_n;
    if (axes < 2 || uw_view_has_batch(&x->view, axes - 1) ||
        uw_view_has_batch(&x->view, axes - 2)) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE, "of no matrix within a sample");
    }
    struct uw_value mask = {.name = "", .kind = UW_VALUE_CONST,
                            .t = {.name = "", .is_float = true, .rank = 2,
                                  .role = UW_ONNX_ROLE_FIXED}};
    mask.t.dim[0] = uw_view_dim(&x->view, axes - 2);
    mask.t.dim[1] = uw_view_dim(&x->view, axes - 1);
    float *data = uw_const_fresh(im, n, &mask.t, 0);
    uint64_t count = data != NULL ? uw_onnx_tensor_size(&mask.t) : 0;
    for (uint64_t i = 0; i < count; i++) {
        data[i] = has(n, i, mask.t.dim[1], k) ? 1.0f : 0.0f;
    }
    return data != NULL ? uw_import_arithmetic(im, n, UW_ARITHMETIC_MASK, x, &mask, y)
                        : im->err->code;
}

/* Whether a constant of the network masks a whole row, of which a softmax has no value. */
static bool masks_row(const struct uw_import_layer *l)
{
    if (l->def.kind != UW_LAYER_PARAMETER || !l->def.parameter.constant || l->rank == 0) {
        return false;
    }
    uint64_t columns = l->dim[l->rank - 1], rows = 1;
    for (uint32_t a = 0; a + 1 < l->rank; a++) {
        rows *= l->dim[a];
    }
    for (uint64_t i = 0; i < rows && columns > 1; i++) {
        uint64_t masked = 0;
        for (uint64_t j = 0; j < columns; j++) {
            masked += l->param[0].data[i * columns + j] <= -FLT_MAX ? 1 : 0;
        }
        if (masked == columns) {
            return true;
        }
    }
    return false;
}

/* IsNaN of attention's weights, of which none is NaN unless a mask hides a whole row. */
int uw_op_is_nan(struct uw_import *im, const struct uw_onnx_node *n)
{
    static const int64_t no = 0;
    const struct uw_value *x = uw_import_data(im, n, 0);
    struct uw_value *y = uw_import_out(im, n, 0);
    if (x == NULL || y == NULL) {
        return im->err->code;
    }
    if (x->view.layer == 0 || im->layer[x->view.layer - 1]->def.kind != UW_LAYER_SOFTMAX) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "only behind a softmax");
    }
    for (uint32_t i = 0; i < im->layers_n; i++) {
        if (masks_row(im->layer[i])) {
            return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "looks for rows that a mask hides "
                                    "whole, and the mask hides one");
        }
    }
    y->kind = UW_VALUE_CONST;
    y->t = (struct uw_onnx_tensor){.name = "", .data = (const uint8_t *)&no, .stored_n = 1};
    return UW_OK;
}
