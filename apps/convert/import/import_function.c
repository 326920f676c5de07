/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of each element. They keep the order of their input in memory. */
#include "import_parts.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* One layer of the input's shape; y may be x. */
static struct uw_import_layer *pointwise(struct uw_import *im, const struct uw_onnx_node *n,
                                         enum uw_layer_kind kind, const struct uw_value *x,
                                         struct uw_value *y)
{
    struct uw_import_layer *l = uw_import_emit(im, n, kind, x->view.layer);
    if (l != NULL && y != NULL) {
        y->kind = UW_VALUE_DATA;
        y->view = x->view;
        y->view.layer = im->layers_n;
    }
    return l;
}

int uw_import_apply(struct uw_import *im, const struct uw_onnx_node *n, enum uw_layer_kind kind,
                    const struct uw_value *x, struct uw_value *y)
{
    return pointwise(im, n, kind, x, y) != NULL ? UW_OK : im->err->code;
}

int uw_import_rename(struct uw_value *y, const struct uw_value *x)
{
    y->kind = UW_VALUE_DATA;
    y->view = x->view;
    return UW_OK;
}

int uw_import_function(struct uw_import *im, const struct uw_onnx_node *n, enum uw_function f,
                       float a, float b, const struct uw_value *x, struct uw_value *y)
{
    struct uw_import_layer *l = pointwise(im, n, UW_LAYER_FUNCTION, x, y);
    if (l == NULL) {
        return im->err->code;
    }
    /* two zeros would stand for the defaults */
    b = f == UW_FUNCTION_SCALE && a == 0.0f && b == 0.0f ? FLT_MIN : b;
    l->def.function = (struct uw_function_def){.function = f, .a = a, .b = b};
    return UW_OK;
}

int uw_import_clip(struct uw_import *im, const struct uw_onnx_node *n, double low, double high,
                   const struct uw_value *x, struct uw_value *y)
{
    enum uw_layer_kind kind = low == 0.0 && high == 6.0    ? UW_LAYER_RELU6
                              : low == 0.0 && high > 3e38 ? UW_LAYER_RELU
                                                           : UW_LAYER_FUNCTION;
    if (!(low <= high)) {
        return uw_import_refuse(im, n, UW_ERR_INVALID, "to %g .. %g: the limits are the wrong way "
                                "round", low, high);
    }
    if (low < -3e38 && high > 3e38) {
        return uw_import_rename(y, x);
    }
    struct uw_import_layer *l = pointwise(im, n, kind, x, y);
    if (l == NULL) {
        return im->err->code;
    }
    if (kind == UW_LAYER_FUNCTION) {
        l->def.function = (struct uw_function_def){
            .function = UW_FUNCTION_CLIP, .a = low < -3e38 ? -FLT_MAX : (float)low,
            .b = high > 3e38 ? FLT_MAX : (float)high};
    }
    return UW_OK;
}

static const struct {
    const char *op;
    enum uw_layer_kind kind;
    enum uw_function function;      /* of UW_LAYER_FUNCTION */
    float a, b;                     /* ONNX's defaults of alpha and beta, or gamma */
    const char *second;             /* attribute of b */
} functions[] = {
    {"Abs", UW_LAYER_FUNCTION, UW_FUNCTION_ABS, 0, 0, NULL},
    {"Celu", UW_LAYER_FUNCTION, UW_FUNCTION_CELU, 1.0f, 0, NULL},
    {"Cos", UW_LAYER_FUNCTION, UW_FUNCTION_COS, 0, 0, NULL},
    {"Elu", UW_LAYER_FUNCTION, UW_FUNCTION_ELU, 1.0f, 0, NULL},
    {"Erf", UW_LAYER_FUNCTION, UW_FUNCTION_ERF, 0, 0, NULL},
    {"Exp", UW_LAYER_FUNCTION, UW_FUNCTION_EXP, 0, 0, NULL},
    {"HardSigmoid", UW_LAYER_FUNCTION, UW_FUNCTION_HARDSIGMOID, 0.2f, 0.5f, "beta"},
    {"HardSwish", UW_LAYER_FUNCTION, UW_FUNCTION_HARDSWISH, 0, 0, NULL},
    {"Log", UW_LAYER_FUNCTION, UW_FUNCTION_LOG, 0, 0, NULL},
    {"Mish", UW_LAYER_FUNCTION, UW_FUNCTION_MISH, 0, 0, NULL},
    {"Neg", UW_LAYER_FUNCTION, UW_FUNCTION_SCALE, -1.0f, 0, NULL},
    {"Reciprocal", UW_LAYER_FUNCTION, UW_FUNCTION_RECIPROCAL, 0, 0, NULL},
    {"Relu", UW_LAYER_RELU, UW_FUNCTION_SCALE, 0, 0, NULL},
    {"Selu", UW_LAYER_FUNCTION, UW_FUNCTION_SELU, 1.67326319f, 1.05070102f, "gamma"},
    {"Sigmoid", UW_LAYER_SIGMOID, UW_FUNCTION_SCALE, 0, 0, NULL},
    {"Sign", UW_LAYER_FUNCTION, UW_FUNCTION_SIGN, 0, 0, NULL},
    {"Sin", UW_LAYER_FUNCTION, UW_FUNCTION_SIN, 0, 0, NULL},
    {"Softplus", UW_LAYER_FUNCTION, UW_FUNCTION_SOFTPLUS, 0, 0, NULL},
    {"Softsign", UW_LAYER_FUNCTION, UW_FUNCTION_SOFTSIGN, 0, 0, NULL},
    {"Sqrt", UW_LAYER_FUNCTION, UW_FUNCTION_SQRT, 0, 0, NULL},
    {"Swish", UW_LAYER_FUNCTION, UW_FUNCTION_QUICK_GELU, 1.0f, 0, NULL},
    {"Tanh", UW_LAYER_TANH, UW_FUNCTION_SCALE, 0, 0, NULL},
    {"ThresholdedRelu", UW_LAYER_FUNCTION, UW_FUNCTION_THRESHOLD, 1.0f, 0, NULL},
};

int uw_op_function(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_value *x = uw_import_data(im, n, 0), *y = uw_import_out(im, n, 0);
    struct uw_import_layer *l = NULL;
    for (size_t i = 0; i < sizeof functions / sizeof functions[0] && x != NULL; i++) {
        if (strcmp(functions[i].op, n->op) != 0) {
            continue;
        }
        l = pointwise(im, n, functions[i].kind, x, y);
        if (l != NULL && functions[i].kind == UW_LAYER_FUNCTION) {
            bool neg = functions[i].function == UW_FUNCTION_SCALE;
            l->def.function = (struct uw_function_def){
                .function = functions[i].function,
                .a = neg ? functions[i].a : uw_onnx_float(n, "alpha", functions[i].a),
                .b = functions[i].second != NULL
                         ? uw_onnx_float(n, functions[i].second, functions[i].b) : 0.0f};
        }
    }
    return l != NULL ? UW_OK : im->err->code;
}

/* 1 - erf(x) */
int uw_op_erfc(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_value *x = uw_import_data(im, n, 0), *y = uw_import_out(im, n, 0);
    if (x == NULL || y == NULL) {
        return x == NULL ? im->err->code : UW_OK;
    }
    int rc = uw_import_function(im, n, UW_FUNCTION_ERF, 0.0f, 0.0f, x, y);
    return rc < 0 ? rc : uw_import_function(im, n, UW_FUNCTION_SCALE, -1.0f, 1.0f, y, y);
}

int uw_op_gelu(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_value *x = uw_import_data(im, n, 0);
    struct uw_import_layer *l =
        x != NULL ? pointwise(im, n, UW_LAYER_GELU, x, uw_import_out(im, n, 0)) : NULL;
    if (l == NULL) {
        return im->err->code;
    }
    l->def.activation.tanh = strcmp(uw_onnx_text(n, "approximate", "none"), "tanh") == 0;
    return UW_OK;
}

int uw_op_leaky_relu(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_value *x = uw_import_data(im, n, 0), *y = uw_import_out(im, n, 0);
    float alpha = uw_onnx_float(n, "alpha", 0.01f);
    if (x == NULL) {
        return im->err->code;
    }
    if (!(alpha >= 0.0f && alpha < 1e30f)) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "alpha %g: needs 0 or more",
                                (double)alpha);
    }
    struct uw_import_layer *l =
        pointwise(im, n, alpha == 0.0f ? UW_LAYER_RELU : UW_LAYER_LEAKY_RELU, x, y);
    if (l != NULL && alpha != 0.0f) {
        l->def.activation.slope = alpha;
    }
    return l != NULL ? UW_OK : im->err->code;
}

int uw_op_clip(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_value *x = uw_import_data(im, n, 0), *y = uw_import_out(im, n, 0);
    double limit[2] = {(double)uw_onnx_float(n, "min", -INFINITY),
                       (double)uw_onnx_float(n, "max", INFINITY)};
    if (x == NULL || y == NULL) {
        return im->err->code;
    }
    for (uint32_t i = 0; i < 2; i++) {
        const struct uw_value *v = uw_import_in(im, n, i + 1);
        if (v != NULL && !uw_import_scalar(v, &limit[i])) {
            return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "its limits are no constants");
        }
    }
    return uw_import_clip(im, n, limit[0], limit[1], x, y);
}

int uw_op_dropout(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_value *x = uw_import_data(im, n, 0), *y = uw_import_out(im, n, 0);
    double rate = (double)uw_onnx_float(n, "ratio", 0.5f);
    if (x == NULL || y == NULL) {
        return im->err->code;
    }
    if (uw_import_in(im, n, 1) != NULL && !uw_import_scalar(uw_import_in(im, n, 1), &rate)) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "its ratio is no constant");
    }
    if (!(rate >= 0.0 && rate < 1.0)) {
        return uw_import_refuse(im, n, UW_ERR_INVALID, "ratio %g: needs 0 to below 1", rate);
    }
    if (rate == 0.0) {
        return uw_import_rename(y, x);
    }
    struct uw_import_layer *l = pointwise(im, n, UW_LAYER_DROPOUT, x, y);
    if (l == NULL) {
        return im->err->code;
    }
    l->def.dropout.rate = (float)rate;
    return UW_OK;
}

/* Whether the softmax over these values ends the network, of one row or at each position: the loss
 * then includes it. Before opset 13 it may be over several axes. */
static bool is_the_end(struct uw_import *im, const struct uw_onnx_node *n,
                       const struct uw_view *x, uint32_t axis)
{
    bool one = im->graph.opset >= 13 || axis + 1u == x->axes_n || uw_view_dim(x, axis) == x->n;
    struct uw_value *y = uw_import_out(im, n, 0);
    bool end = false;
    for (uint32_t i = 0; i < im->graph.outputs_n; i++) {
        end = end || strcmp(im->graph.output[i].name, n->output[0]) == 0;
    }
    return end && y->users_n == 1 && one && !uw_view_has_batch(x, axis);
}

/* Softmax and LogSoftmax. Before opset 13 all axes from `axis` on are one. */
int uw_op_softmax(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_value *x = uw_import_data(im, n, 0), *y = uw_import_out(im, n, 0);
    if (x == NULL || y == NULL) {
        return im->err->code;
    }
    bool old = im->graph.opset < 13;
    struct uw_view v = x->view;
    int axis = uw_view_axis(im, n, &v, uw_onnx_int(n, "axis", old ? 1 : -1));
    if (axis < 0) {
        return im->err->code;
    }
    uint32_t axes = v.axes_n, last = old ? (uint32_t)axis : axes - 1;
    if (is_the_end(im, n, &v, (uint32_t)axis)) {
        uw_import_note(im, "the softmax at the end is left out: training and the loss want logits");
        return uw_import_rename(y, x);
    }
    if (!old) { /* the axis goes to the end */
        uw_view_move(&v, (uint32_t)axis, last);
    }
    uint64_t size = 1;
    for (uint32_t a = last; a < axes; a++) {
        if (uw_view_has_batch(&v, a)) {
            return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "over the minibatch");
        }
        size *= uw_view_dim(&v, a);
    }
    const uint64_t rows[2] = {v.n / size, size};
    int rc = uw_import_order(im, n, &v);
    rc = rc < 0 ? rc
                : uw_import_shape(im, n, &v, rows[0] > 1 ? 2 : 1, rows[0] > 1 ? rows : rows + 1);
    struct uw_import_layer *l =
        rc == UW_OK ? uw_import_emit(im, n, UW_LAYER_SOFTMAX, v.layer) : NULL;
    if (l == NULL) {
        return im->err->code;
    }
    l->def.softmax.log = n->op[0] == 'L';
    v.layer = im->layers_n;
    if (!old) { /* and back */
        uw_view_move(&v, last, (uint32_t)axis);
    }
    y->kind = UW_VALUE_DATA;
    y->view = v;
    return UW_OK;
}
