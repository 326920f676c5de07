/* SPDX-License-Identifier: Apache-2.0 */
#include "import.h"

#include <math.h>
#include <string.h>

/* Output 0: the axes of x before the last, with strides for the new last axis. */
static int dense_view(struct uw_import *im, const struct uw_onnx_node *n, const struct uw_view *x,
                      const struct uw_import_layer *l, uint64_t size, uint64_t out)
{
    struct uw_value *y = uw_import_out(im, n, 0);
    uint32_t last = x->axes_n - 1;
    uint64_t dim[UW_ONNX_RANK_MAX];
    uint64_t stride = out;
    if (y == NULL) {
        return UW_OK;
    }
    struct uw_view *to = &y->view;
    *to = *x;
    y->kind = UW_VALUE_DATA;
    to->layer = im->layers_n;
    to->n = size;
    to->rank = l->rank;
    memcpy(to->dim, l->dim, sizeof l->dim);
    to->atoms_n = last == 0 ? 0 : to->axis_end[last - 1];
    for (uint32_t i = to->atoms_n; i-- > 0;) {
        to->atom[i].stride = stride;
        stride *= to->atom[i].batch ? 1 : to->atom[i].size;
    }
    to->atom[to->atoms_n++] = (struct uw_atom){out, 1, false};
    to->axis_end[last] = to->atoms_n;
    uw_view_dims(to, dim);
    return uw_view_reshape(to, dim, to->axes_n)
               ? UW_OK
               : uw_import_refuse(im, n, UW_ERR_SHAPE, "its output has no shape");
}

/* bias * beta; a single number is used for all outputs. */
static int dense_bias(struct uw_import *im, struct uw_import_layer *l,
                      const struct uw_onnx_tensor *bias, float beta, uint64_t out)
{
    bool one = uw_onnx_tensor_size(bias) == 1 && out > 1;
    float fill = one ? (float)uw_import_number(bias, 0) : 0.0f;
    int rc = uw_import_param(im, l, 1, "bias", one ? NULL : bias, fill, 1, &out);
    for (uint64_t i = 0; rc == UW_OK && beta != 1.0f && i < out; i++) {
        l->param[1].data[i] *= beta;
    }
    return rc;
}

/* y = x W^T + b on the last axis. weight is [out][in] by its strides. */
static int dense(struct uw_import *im, const struct uw_onnx_node *n, uint32_t input,
                 const struct uw_onnx_tensor *weight, const struct uw_onnx_tensor *bias,
                 float alpha, float beta)
{
    struct uw_value *x = uw_import_data(im, n, input);
    if (x == NULL) {
        return im->err->code;
    }
    struct uw_view v = x->view;
    uint32_t last = v.axes_n - 1;
    uint64_t out = weight->dim[0];
    uint64_t in = weight->dim[1];
    if (v.axes_n < 2 || uw_view_has_batch(&v, last) || uw_view_dim(&v, last) != in || out == 0 ||
        out > INT32_MAX / (v.n / in)) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE,
                                "its weight takes %llu features, its input has %llu",
                                (unsigned long long)in,
                                (unsigned long long)uw_view_dim(&v, last));
    }
    const uint64_t rows[2] = {v.n / in, in};
    int rc = uw_import_order(im, n, &v);
    if (rc == UW_OK) {
        rc = rows[0] > 1 ? uw_import_shape(im, n, &v, 2, rows)
                         : uw_import_shape(im, n, &v, 1, &in);
    }
    struct uw_import_layer *l =
        rc == UW_OK ? uw_import_emit(im, n, UW_LAYER_DENSE, v.layer) : NULL;
    if (l == NULL) {
        return im->err->code;
    }
    const uint64_t dims[2] = {out, in};
    l->def.dense = (struct uw_dense_def){.out = (uint32_t)out, .no_bias = bias == NULL};
    uw_import_dims(l, rows[0] > 1 ? 2 : 1, rows[0] > 1 ? rows[0] : out, rows[0] > 1 ? out : 1, 1);
    rc = uw_import_param(im, l, 0, "weight", weight, 0.0f, 2, dims);
    for (uint64_t i = 0; rc == UW_OK && alpha != 1.0f && i < out * in; i++) {
        l->param[0].data[i] *= alpha;
    }
    if (rc == UW_OK && bias != NULL) {
        rc = dense_bias(im, l, bias, beta, out);
    }
    if (rc < 0) {
        return rc;
    }
    int ends = uw_import_projection(im, n, &v, l);
    return ends < 0 ? ends : dense_view(im, n, &x->view, l, rows[0] * out, out);
}

/* The transposed matrix. */
static struct uw_onnx_tensor turned(const struct uw_onnx_tensor *m)
{
    struct uw_onnx_tensor t = *m;
    for (uint32_t a = 0; a < 2; a++) {
        t.dim[a] = m->dim[1 - a];
        t.stride[a] = m->stride[1 - a];
    }
    return t;
}

int uw_op_gemm(struct uw_import *im, const struct uw_onnx_node *n)
{
    const struct uw_onnx_tensor *given = uw_import_const(im, n, 1);
    const struct uw_onnx_tensor *bias = NULL;
    const struct uw_value *x = uw_import_in(im, n, 0);
    if (given == NULL) {
        return im->err->code;
    }
    if (given->rank != 2 || uw_onnx_int(n, "transA", 0) != 0 ||
        (x != NULL && x->kind == UW_VALUE_DATA && x->view.axes_n != 2)) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "only rows times a constant matrix");
    }
    if (uw_import_in(im, n, 2) != NULL) {
        bias = uw_import_const(im, n, 2);
        if (bias == NULL) {
            return im->err->code;
        }
    }
    struct uw_onnx_tensor w = uw_onnx_int(n, "transB", 0) == 0 ? turned(given) : *given;
    if (w.dim[0] == 0 || w.dim[1] == 0) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE, "its weight is empty");
    }
    return dense(im, n, 0, &w, bias, uw_onnx_float(n, "alpha", 1.0f),
                 uw_onnx_float(n, "beta", 1.0f));
}

/* The bias comes from the following Add, see uw_op_add. */
int uw_op_matmul(struct uw_import *im, const struct uw_onnx_node *n)
{
    const struct uw_value *b = uw_import_in(im, n, 1);
    if (b == NULL || b->kind != UW_VALUE_CONST) {
        return uw_op_attention(im, n);
    }
    if (b->t.rank != 2 || b->t.dim[0] == 0 || b->t.dim[1] == 0) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "its weight has %u axes, needs 2",
                                (unsigned)b->t.rank);
    }
    struct uw_onnx_tensor w = turned(&b->t);
    return dense(im, n, 0, &w, NULL, 1.0f, 1.0f);
}

static int pointwise(struct uw_import *im, const struct uw_onnx_node *n, enum uw_layer_kind kind,
                     const struct uw_activation_def *options)
{
    struct uw_value *x = uw_import_data(im, n, 0);
    struct uw_import_layer *l = x != NULL ? uw_import_emit(im, n, kind, x->view.layer) : NULL;
    if (l == NULL) {
        return im->err->code;
    }
    if (options != NULL) {
        l->def.activation = *options;
    }
    uw_import_same(im, n, &x->view, im->layers_n);
    return UW_OK;
}

int uw_op_activation(struct uw_import *im, const struct uw_onnx_node *n)
{
    float alpha = uw_onnx_float(n, "alpha", 0.01f);
    switch (n->op[0]) {
    case 'R':
        return pointwise(im, n, UW_LAYER_RELU, NULL);
    case 'S':
        return pointwise(im, n, UW_LAYER_SIGMOID, NULL);
    case 'T':
        return pointwise(im, n, UW_LAYER_TANH, NULL);
    default:
        if (alpha == 0.0f) {
            return pointwise(im, n, UW_LAYER_RELU, NULL);
        }
        if (!(alpha > 0.0f && alpha < 1e30f)) {
            return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "alpha %g: needs 0 or more",
                                    (double)alpha);
        }
        return pointwise(im, n, UW_LAYER_LEAKY_RELU, &(struct uw_activation_def){.slope = alpha});
    }
}

int uw_op_clip(struct uw_import *im, const struct uw_onnx_node *n)
{
    double low = -INFINITY;
    double high = INFINITY;
    for (uint32_t i = 1; i < 3; i++) {
        if (uw_import_in(im, n, i) != NULL &&
            !uw_import_scalar(uw_import_in(im, n, i), i == 1 ? &low : &high)) {
            return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "its limits are no constants");
        }
    }
    if (low == 0.0 && high == 6.0) {
        return pointwise(im, n, UW_LAYER_RELU6, NULL);
    }
    if (low == 0.0 && high > 3e38) {
        return pointwise(im, n, UW_LAYER_RELU, NULL);
    }
    return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "to %g .. %g: only 0 .. 6 (ReLU6) and 0 .. "
                            "(ReLU) are trained", low, high);
}

/* A softmax at the end is dropped: the loss includes it. */
int uw_op_softmax(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_value *x = uw_import_data(im, n, 0);
    struct uw_value *y = uw_import_out(im, n, 0);
    bool end = false;
    if (x == NULL || y == NULL) {
        return im->err->code;
    }
    for (uint32_t i = 0; i < im->graph.outputs_n; i++) {
        end = end || strcmp(im->graph.output[i].name, n->output[0]) == 0;
    }
    int64_t fallback = im->graph.opset < 13 ? 1 : -1;
    int axis = uw_view_axis(im, n, &x->view, uw_onnx_int(n, "axis", fallback));
    if (axis < 0) {
        return im->err->code;
    }
    if (!end || y->users_n != 1 || uw_view_dim(&x->view, (uint32_t)axis) != x->view.n) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED,
                                "a softmax is known at the end, over the classes, and inside "
                                "attention");
    }
    uw_import_note(im, "the softmax at the end is left out: training and the loss want logits");
    uw_import_same(im, n, &x->view, x->view.layer);
    return UW_OK;
}

int uw_op_dropout(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_value *x = uw_import_data(im, n, 0);
    double rate = (double)uw_onnx_float(n, "ratio", 0.5f);
    if (x == NULL) {
        return im->err->code;
    }
    if (uw_import_in(im, n, 1) != NULL && !uw_import_scalar(uw_import_in(im, n, 1), &rate)) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "its ratio is no constant");
    }
    if (!(rate >= 0.0 && rate < 1.0)) {
        return uw_import_refuse(im, n, UW_ERR_INVALID, "ratio %g: needs 0 to below 1", rate);
    }
    if (rate == 0.0) {
        return uw_op_identity(im, n);
    }
    int rc = pointwise(im, n, UW_LAYER_DROPOUT, NULL);
    if (rc == UW_OK) {
        im->layer[im->layers_n - 1]->def.dropout.rate = (float)rate;
    }
    return rc;
}
