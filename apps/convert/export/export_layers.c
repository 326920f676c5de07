/* SPDX-License-Identifier: Apache-2.0 */
#include "export.h"

#include <string.h>

static int64_t or_else(uint32_t value, uint32_t fallback)
{
    return value != 0 ? value : fallback;
}

/* kernel, stride, padding, dilation over one or two axes */
static void window(struct uw_export_node *n, uint32_t axes, const int64_t *kernel,
                   const int64_t *stride, const int64_t *pad, const int64_t *dilation)
{
    int64_t pads[4];
    for (uint32_t i = 0; i < axes; i++) {
        pads[i] = pad[i];
        pads[axes + i] = pad[i];
    }
    uw_export_ints(n, "kernel_shape", axes, kernel);
    uw_export_ints(n, "strides", axes, stride);
    uw_export_ints(n, "pads", 2 * axes, pads);
    if (dilation != NULL) {
        uw_export_ints(n, "dilations", axes, dilation);
    }
}

static const char *conv(struct uw_export *e)
{
    const struct uw_conv2d_def *c = &e->def->conv2d;
    const struct uw_conv1d_def *d = &e->def->conv1d;
    bool one = e->def->kind == UW_LAYER_CONV1D;
    bool back = e->def->kind == UW_LAYER_CONV_TRANSPOSE2D;
    const char *weight = uw_export_param(e, "weight");
    const char *bias = uw_export_param(e, "bias");
    struct uw_export_node *n =
        uw_export_node(e, back ? "ConvTranspose" : "Conv", e->x, weight, bias);
    /* the transposed convolution's definition begins with the same options */
    const struct uw_conv_transpose2d_def *t = &e->def->conv_transpose2d;
    if (one) {
        const int64_t kernel = d->kernel;
        const int64_t stride = or_else(d->stride, 1);
        const int64_t pad = d->pad;
        const int64_t dilation = or_else(d->dilation, 1);
        window(n, 1, &kernel, &stride, &pad, &dilation);
        uw_export_int(n, "group", or_else(d->groups, 1));
        return n->output[0];
    }
    uint32_t kernel_h = back ? t->kernel_h : c->kernel_h;
    uint32_t stride_h = (uint32_t)or_else(back ? t->stride_h : c->stride_h, 1);
    uint32_t dilation_h = (uint32_t)or_else(back ? t->dilation_h : c->dilation_h, 1);
    const int64_t kernel[2] = {kernel_h, or_else(back ? t->kernel_w : c->kernel_w, kernel_h)};
    const int64_t stride[2] = {stride_h, or_else(back ? t->stride_w : c->stride_w, stride_h)};
    const int64_t pad[2] = {back ? t->pad_h : c->pad_h, back ? t->pad_w : c->pad_w};
    const int64_t dilation[2] = {dilation_h,
                                 or_else(back ? t->dilation_w : c->dilation_w, dilation_h)};
    window(n, 2, kernel, stride, pad, dilation);
    uw_export_int(n, "group", or_else(back ? t->groups : c->groups, 1));
    if (back) {
        const int64_t extra[2] = {t->out_pad_h, t->out_pad_w};
        uw_export_ints(n, "output_padding", 2, extra);
    }
    return n->output[0];
}

static const char *dense(struct uw_export *e)
{
    const char *weight = uw_export_param(e, "weight");
    const char *bias = uw_export_param(e, "bias");
    if (e->in.rank == 2) {
        return uw_export_matmul(e, e->x, weight, bias);
    }
    const char *x = e->in.rank == 3
                        ? uw_export_node(e, "Flatten", e->x, NULL, NULL)->output[0]
                        : e->x;
    struct uw_export_node *n = uw_export_node(e, "Gemm", x, weight, bias);
    uw_export_int(n, "transB", 1);
    return n->output[0];
}

static const char *pool(struct uw_export *e, bool max, uint32_t axes)
{
    const struct uw_pool2d_def *p = &e->def->pool2d;
    const struct uw_pool1d_def *q = &e->def->pool1d;
    uint32_t kernel_h = axes == 2 ? p->kernel_h : q->kernel;
    const int64_t kernel[2] = {kernel_h, axes == 2 ? or_else(p->kernel_w, kernel_h) : 1};
    uint32_t stride_h = axes == 2 ? p->stride_h : q->stride;
    const int64_t stride[2] = {or_else(stride_h, kernel_h),
                               axes == 2 ? or_else(p->stride_w, stride_h != 0
                                                                    ? stride_h
                                                                    : (uint32_t)kernel[1]) : 1};
    const int64_t pad[2] = {axes == 2 ? p->pad_h : q->pad, axes == 2 ? p->pad_w : 0};
    struct uw_export_node *n =
        uw_export_node(e, max ? "MaxPool" : "AveragePool", e->x, NULL, NULL);
    window(n, axes, kernel, stride, pad, NULL);
    uw_export_int(n, "ceil_mode", axes == 2 ? p->ceil_mode : q->ceil_mode);
    if (!max) {
        uw_export_int(n, "count_include_pad", !(axes == 2 ? p->exclude_pad : q->exclude_pad));
    }
    return n->output[0];
}

static const char *global_avgpool(struct uw_export *e)
{
    const char *y = uw_export_node(e, "GlobalAveragePool", e->x, NULL, NULL)->output[0];
    return uw_export_node(e, "Flatten", y, NULL, NULL)->output[0];
}

static float epsilon_of(const struct uw_layer_def *def)
{
    return def->norm.epsilon != 0.0f ? def->norm.epsilon : 1e-5f;
}

static const char *batchnorm(struct uw_export *e)
{
    const char *weight = uw_export_param(e, "weight");
    const char *bias = uw_export_param(e, "bias");
    const char *mean = uw_export_param(e, "running_mean");
    const char *var = uw_export_param(e, "running_var");
    float share = e->def->norm.momentum != 0.0f ? e->def->norm.momentum : 0.1f;
    struct uw_export_node *n = uw_export_node(
        e, "BatchNormalization", e->x,
        weight != NULL ? weight : uw_export_fill(e, e->in.dim[0], 1.0f),
        bias != NULL ? bias : uw_export_fill(e, e->in.dim[0], 0.0f));
    n->input[n->inputs_n++] = mean != NULL ? mean : "";
    n->input[n->inputs_n++] = var != NULL ? var : "";
    uw_export_float(n, "epsilon", epsilon_of(e->def));
    uw_export_float(n, "momentum", 1.0f - share);
    return n->output[0];
}

/* y * weight + bias, both stretched over `behind` more axes */
static const char *affine(struct uw_export *e, const char *y, uint32_t behind)
{
    static const int64_t axes[2] = {1, 2};
    const char *param[2] = {uw_export_param(e, "weight"), uw_export_param(e, "bias")};
    for (uint32_t i = 0; i < 2 && param[i] != NULL; i++) {
        const char *p = param[i];
        if (behind > 0) {
            p = uw_export_node(e, "Unsqueeze", p, uw_export_const_ints(e, behind, axes), NULL)
                    ->output[0];
        }
        y = uw_export_node(e, i == 0 ? "Mul" : "Add", y, p, NULL)->output[0];
    }
    return y;
}

/* ONNX of this opset has no group norm: instance norm of [N][groups][rest]. */
static const char *groupnorm(struct uw_export *e)
{
    uint32_t groups = e->def->norm.groups != 0 ? e->def->norm.groups : 1;
    const int64_t cut[2] = {groups, -1};
    const int64_t whole[3] = {e->out.dim[0], e->out.dim[1], e->out.dim[2]};
    const char *x = uw_export_reshape(e, e->x, 2, cut);
    struct uw_export_node *n =
        uw_export_node(e, "InstanceNormalization", x, uw_export_fill(e, groups, 1.0f),
                       uw_export_fill(e, groups, 0.0f));
    uw_export_float(n, "epsilon", epsilon_of(e->def));
    return affine(e, uw_export_reshape(e, n->output[0], e->out.rank, whole), e->out.rank - 1);
}

static const char *layernorm(struct uw_export *e)
{
    uint32_t count = e->def->norm.axes != 0 ? e->def->norm.axes : 1;
    int64_t axes[3];
    for (uint32_t i = 0; i < count && i < 3; i++) {
        axes[i] = (int64_t)i - (int64_t)count;
    }
    struct uw_export_node *mean = uw_export_node(e, "ReduceMean", e->x, NULL, NULL);
    uw_export_ints(mean, "axes", count, axes);
    const char *d = uw_export_node(e, "Sub", e->x, mean->output[0], NULL)->output[0];
    const char *square =
        uw_export_node(e, "Pow", d, uw_export_const_float(e, 2.0f), NULL)->output[0];
    struct uw_export_node *var = uw_export_node(e, "ReduceMean", square, NULL, NULL);
    uw_export_ints(var, "axes", count, axes);
    const char *sum = uw_export_node(e, "Add", var->output[0],
                                     uw_export_const_float(e, epsilon_of(e->def)), NULL)
                          ->output[0];
    const char *deviation = uw_export_node(e, "Sqrt", sum, NULL, NULL)->output[0];
    return affine(e, uw_export_node(e, "Div", d, deviation, NULL)->output[0], 0);
}

static const char *lrn(struct uw_export *e)
{
    const struct uw_lrn_def *d = &e->def->lrn;
    const int64_t as_image[3] = {e->in.dim[0], e->in.rank > 1 ? e->in.dim[1] : 1, 1};
    const int64_t whole[3] = {e->in.dim[0], e->in.dim[1], e->in.dim[2]};
    const char *x = e->in.rank == 3 ? e->x : uw_export_reshape(e, e->x, 3, as_image);
    struct uw_export_node *n = uw_export_node(e, "LRN", x, NULL, NULL);
    uw_export_int(n, "size", d->size);
    uw_export_float(n, "alpha", d->alpha != 0.0f ? d->alpha : 1e-4f);
    uw_export_float(n, "beta", d->beta != 0.0f ? d->beta : 0.75f);
    uw_export_float(n, "bias", d->k != 0.0f ? d->k : 1.0f);
    return e->in.rank == 3 ? n->output[0]
                           : uw_export_reshape(e, n->output[0], e->in.rank, whole);
}

static const char *binary(struct uw_export *e, const char *op, const char *a, const char *b)
{
    return uw_export_node(e, op, a, b, NULL)->output[0];
}

static const char *gelu(struct uw_export *e)
{
    const char *half = uw_export_const_float(e, 0.5f);
    const char *one = uw_export_const_float(e, 1.0f);
    const char *inner;
    if (e->def->activation.tanh) {
        const char *square = binary(e, "Mul", e->x, e->x);
        const char *cube = binary(e, "Mul", e->x, square);
        const char *sum = binary(
            e, "Add", e->x, binary(e, "Mul", uw_export_const_float(e, 0.044715f), cube));
        const char *scaled = binary(e, "Mul", uw_export_const_float(e, 0.7978845608f), sum);
        inner = uw_export_node(e, "Tanh", scaled, NULL, NULL)->output[0];
    } else {
        const char *scaled = binary(e, "Div", e->x, uw_export_const_float(e, 1.41421356f));
        inner = uw_export_node(e, "Erf", scaled, NULL, NULL)->output[0];
    }
    return binary(e, "Mul", binary(e, "Mul", e->x, binary(e, "Add", inner, one)), half);
}

static const char *activation(struct uw_export *e)
{
    struct uw_export_node *n;
    switch (e->def->kind) {
    case UW_LAYER_RELU:
        return uw_export_node(e, "Relu", e->x, NULL, NULL)->output[0];
    case UW_LAYER_RELU6:
        return uw_export_node(e, "Clip", e->x, uw_export_const_float(e, 0.0f),
                              uw_export_const_float(e, 6.0f))->output[0];
    case UW_LAYER_LEAKY_RELU:
        n = uw_export_node(e, "LeakyRelu", e->x, NULL, NULL);
        uw_export_float(n, "alpha", e->def->activation.slope != 0.0f ? e->def->activation.slope
                                                                     : 0.01f);
        return n->output[0];
    case UW_LAYER_SIGMOID:
        return uw_export_node(e, "Sigmoid", e->x, NULL, NULL)->output[0];
    case UW_LAYER_TANH:
        return uw_export_node(e, "Tanh", e->x, NULL, NULL)->output[0];
    case UW_LAYER_SILU:
        return binary(e, "Mul", e->x,
                      uw_export_node(e, "Sigmoid", e->x, NULL, NULL)->output[0]);
    default:
        return gelu(e);
    }
}

/* add and concat */
static const char *several(struct uw_export *e)
{
    bool add = e->def->kind == UW_LAYER_ADD;
    struct uw_export_node *n = uw_export_node(e, add ? "Sum" : "Concat", e->x, NULL, NULL);
    for (uint32_t k = 1; k < UW_LAYER_INPUTS_MAX && e->def->inputs[k] != NULL; k++) {
        const char *name = "input";
        for (uint32_t i = 0; i < e->layer; i++) {
            name = strcmp(e->m->config.def->layers[i].name, e->def->inputs[k]) == 0 ? e->value[i]
                                                                                    : name;
        }
        n->input[n->inputs_n++] = name;
    }
    if (!add) {
        uw_export_int(n, "axis", (int64_t)e->def->concat.axis + 1);
    } else if (n->inputs_n == 2) {
        n->op = "Add";
    }
    return n->output[0];
}

static const char *slice(struct uw_export *e)
{
    const struct uw_slice_def *d = &e->def->slice;
    const int64_t axis = (int64_t)d->axis + 1;
    int64_t start = d->start < 0 ? d->start + (int64_t)e->in.dim[d->axis] : d->start;
    int64_t end = d->length != 0 ? start + d->length : e->in.dim[d->axis];
    struct uw_export_node *n =
        uw_export_node(e, "Slice", e->x, uw_export_const_ints(e, 1, &start),
                       uw_export_const_ints(e, 1, &end));
    n->input[n->inputs_n++] = uw_export_const_ints(e, 1, &axis);
    return d->squeeze ? uw_export_node(e, "Squeeze", n->output[0],
                                       uw_export_const_ints(e, 1, &axis), NULL)->output[0]
                      : n->output[0];
}

static const char *shape(struct uw_export *e)
{
    int64_t dim[4] = {0, e->out.dim[0], e->out.dim[1], e->out.dim[2]};
    if (e->def->kind == UW_LAYER_FLATTEN) {
        return uw_export_node(e, "Flatten", e->x, NULL, NULL)->output[0];
    }
    if (e->def->kind == UW_LAYER_RESHAPE) {
        return uw_export_reshape(e, e->x, e->out.rank, dim + 1);
    }
    for (uint32_t a = 0; a < e->in.rank; a++) {
        dim[a + 1] = (int64_t)e->def->transpose.order[a] + 1;
    }
    struct uw_export_node *n = uw_export_node(e, "Transpose", e->x, NULL, NULL);
    uw_export_ints(n, "perm", e->in.rank + 1, dim);
    return n->output[0];
}

static const char *embedding(struct uw_export *e)
{
    struct uw_export_node *n = uw_export_node(e, "Cast", e->x, NULL, NULL);
    uw_export_int(n, "to", 7);
    return uw_export_node(e, "Gather", uw_export_param(e, "weight"), n->output[0], NULL)
        ->output[0];
}

const char *uw_export_layer(struct uw_export *e)
{
    switch (e->def->kind) {
    case UW_LAYER_CONV2D:
    case UW_LAYER_CONV1D:
    case UW_LAYER_CONV_TRANSPOSE2D:
        return conv(e);
    case UW_LAYER_DENSE:
        return dense(e);
    case UW_LAYER_MAXPOOL2D:
    case UW_LAYER_AVGPOOL2D:
        return pool(e, e->def->kind == UW_LAYER_MAXPOOL2D, 2);
    case UW_LAYER_MAXPOOL1D:
    case UW_LAYER_AVGPOOL1D:
        return pool(e, e->def->kind == UW_LAYER_MAXPOOL1D, 1);
    case UW_LAYER_GLOBAL_AVGPOOL:
        return global_avgpool(e);
    case UW_LAYER_BATCHNORM:
        return batchnorm(e);
    case UW_LAYER_GROUPNORM:
        return groupnorm(e);
    case UW_LAYER_LAYERNORM:
        return layernorm(e);
    case UW_LAYER_LRN:
        return lrn(e);
    case UW_LAYER_RELU:
    case UW_LAYER_RELU6:
    case UW_LAYER_LEAKY_RELU:
    case UW_LAYER_SIGMOID:
    case UW_LAYER_TANH:
    case UW_LAYER_GELU:
    case UW_LAYER_SILU:
        return activation(e);
    case UW_LAYER_DROPOUT:
        return e->x;
    case UW_LAYER_ADD:
    case UW_LAYER_CONCAT:
        return several(e);
    case UW_LAYER_FLATTEN:
    case UW_LAYER_RESHAPE:
    case UW_LAYER_TRANSPOSE:
        return shape(e);
    case UW_LAYER_SLICE:
        return slice(e);
    case UW_LAYER_EMBEDDING:
        return embedding(e);
    case UW_LAYER_RNN:
    case UW_LAYER_GRU:
    case UW_LAYER_LSTM:
        return uw_export_recurrent(e);
    case UW_LAYER_ATTENTION:
        return uw_export_attention(e);
    }
    uw_error_set(e->err, UW_ERR_UNSUPPORTED, "layer '%s': its kind has no ONNX form",
                 e->def->name);
    return NULL;
}
