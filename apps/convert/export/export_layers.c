/* SPDX-License-Identifier: Apache-2.0 */
#include "export.h"

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

static const char *conv1d(struct uw_export *e)
{
    const struct uw_conv1d_def *c = &e->def->conv1d;
    const int64_t kernel = c->kernel, stride = or_else(c->stride, 1), pad = c->pad;
    const int64_t dilation = or_else(c->dilation, 1);
    const char *weight = uw_export_param(e, "weight");
    struct uw_export_node *n =
        uw_export_node(e, "Conv", e->x, weight, uw_export_param(e, "bias"));
    window(n, 1, &kernel, &stride, &pad, &dilation);
    uw_export_int(n, "group", or_else(c->groups, 1));
    return n->output[0];
}

/* The transposed convolution's definition begins with the same options. */
static const char *conv2d(struct uw_export *e)
{
    const struct uw_conv2d_def *c = &e->def->conv2d;
    const struct uw_conv_transpose2d_def *t = &e->def->conv_transpose2d;
    bool transposed = e->def->kind == UW_LAYER_CONV_TRANSPOSE2D;
    uint32_t stride_h = (uint32_t)or_else(c->stride_h, 1);
    uint32_t dilation_h = (uint32_t)or_else(c->dilation_h, 1);
    const int64_t kernel[2] = {c->kernel_h, or_else(c->kernel_w, c->kernel_h)};
    const int64_t stride[2] = {stride_h, or_else(c->stride_w, stride_h)};
    const int64_t pad[2] = {c->pad_h, c->pad_w};
    const int64_t dilation[2] = {dilation_h, or_else(c->dilation_w, dilation_h)};
    const char *weight = uw_export_param(e, "weight");
    struct uw_export_node *n = uw_export_node(e, transposed ? "ConvTranspose" : "Conv", e->x,
                                              weight, uw_export_param(e, "bias"));
    window(n, 2, kernel, stride, pad, dilation);
    uw_export_int(n, "group", or_else(c->groups, 1));
    if (transposed) {
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
    const char *x = e->in.rank == 3 ? uw_export_op(e, "Flatten", e->x, NULL) : e->x;
    struct uw_export_node *n = uw_export_node(e, "Gemm", x, weight, bias);
    uw_export_int(n, "transB", 1);
    return n->output[0];
}

static const char *pool(struct uw_export *e, bool max, uint32_t axes, const int64_t *kernel,
                        const int64_t *stride, const int64_t *pad, bool ceil_mode,
                        bool exclude_pad)
{
    struct uw_export_node *n =
        uw_export_node(e, max ? "MaxPool" : "AveragePool", e->x, NULL, NULL);
    window(n, axes, kernel, stride, pad, NULL);
    uw_export_int(n, "ceil_mode", ceil_mode);
    if (!max) {
        uw_export_int(n, "count_include_pad", !exclude_pad);
    }
    return n->output[0];
}

static const char *pool1d(struct uw_export *e)
{
    const struct uw_pool1d_def *p = &e->def->pool1d;
    const int64_t kernel = p->kernel, stride = or_else(p->stride, p->kernel), pad = p->pad;
    return pool(e, e->def->kind == UW_LAYER_MAXPOOL1D, 1, &kernel, &stride, &pad, p->ceil_mode,
                p->exclude_pad);
}

static const char *pool2d(struct uw_export *e)
{
    const struct uw_pool2d_def *p = &e->def->pool2d;
    uint32_t kernel_w = (uint32_t)or_else(p->kernel_w, p->kernel_h);
    const int64_t kernel[2] = {p->kernel_h, kernel_w};
    const int64_t stride[2] = {or_else(p->stride_h, p->kernel_h),
                               or_else(p->stride_w, p->stride_h != 0 ? p->stride_h : kernel_w)};
    const int64_t pad[2] = {p->pad_h, p->pad_w};
    return pool(e, e->def->kind == UW_LAYER_MAXPOOL2D, 2, kernel, stride, pad, p->ceil_mode,
                p->exclude_pad);
}

static const char *global_avgpool(struct uw_export *e)
{
    return uw_export_op(e, "Flatten", uw_export_op(e, "GlobalAveragePool", e->x, NULL), NULL);
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

/* y * weight + bias, both broadcast over `behind` further axes */
static const char *affine(struct uw_export *e, const char *y, uint32_t behind)
{
    static const int64_t axes[2] = {1, 2};
    const char *param[2] = {uw_export_param(e, "weight"), uw_export_param(e, "bias")};
    for (uint32_t i = 0; i < 2 && param[i] != NULL; i++) {
        const char *p = param[i];
        if (behind > 0) {
            p = uw_export_op(e, "Unsqueeze", p, uw_export_const_ints(e, behind, axes));
        }
        y = uw_export_op(e, i == 0 ? "Mul" : "Add", y, p);
    }
    return y;
}

/* This opset has no group norm: use instance norm of [N][groups][rest]. */
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

/* The mean over the last `count` axes. */
static const char *mean_of(struct uw_export *e, const char *x, uint32_t count)
{
    static const int64_t last[3] = {-3, -2, -1};
    struct uw_export_node *n = uw_export_node(e, "ReduceMean", x, NULL, NULL);
    uw_export_ints(n, "axes", count, last + 3 - count);
    return n->output[0];
}

static const char *layernorm(struct uw_export *e)
{
    uint32_t count = e->def->norm.axes != 0 ? e->def->norm.axes : 1;
    const char *d = uw_export_op(e, "Sub", e->x, mean_of(e, e->x, count));
    const char *square = uw_export_op(e, "Pow", d, uw_export_const_float(e, 2.0f));
    const char *var = mean_of(e, square, count);
    const char *sum = uw_export_op(e, "Add", var, uw_export_const_float(e, epsilon_of(e->def)));
    return affine(e, uw_export_op(e, "Div", d, uw_export_op(e, "Sqrt", sum, NULL)), 0);
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

static const char *gelu(struct uw_export *e)
{
    const char *half = uw_export_const_float(e, 0.5f);
    const char *one = uw_export_const_float(e, 1.0f);
    const char *inner;
    if (e->def->activation.tanh) {
        const char *cube = uw_export_op(e, "Mul", e->x, uw_export_op(e, "Mul", e->x, e->x));
        const char *third = uw_export_op(e, "Mul", uw_export_const_float(e, 0.044715f), cube);
        const char *sum = uw_export_op(e, "Add", e->x, third);
        inner = uw_export_op(e, "Mul", uw_export_const_float(e, 0.7978845608f), sum);
        inner = uw_export_op(e, "Tanh", inner, NULL);
    } else {
        inner = uw_export_op(e, "Div", e->x, uw_export_const_float(e, 1.41421356f));
        inner = uw_export_op(e, "Erf", inner, NULL);
    }
    const char *sum = uw_export_op(e, "Add", inner, one);
    return uw_export_op(e, "Mul", uw_export_op(e, "Mul", e->x, sum), half);
}

static const char *relu6(struct uw_export *e)
{
    const char *high = uw_export_const_float(e, 6.0f), *low = uw_export_const_float(e, 0.0f);
    return uw_export_node(e, "Clip", e->x, low, high)->output[0];
}

static const char *leaky_relu(struct uw_export *e)
{
    float slope = e->def->activation.slope;
    struct uw_export_node *n = uw_export_node(e, "LeakyRelu", e->x, NULL, NULL);
    uw_export_float(n, "alpha", slope != 0.0f ? slope : 0.01f);
    return n->output[0];
}

static const char *silu(struct uw_export *e)
{
    return uw_export_op(e, "Mul", e->x, uw_export_op(e, "Sigmoid", e->x, NULL));
}

static const char *dropout(struct uw_export *e)
{
    return e->x;
}

/* add and concat */
static const char *several(struct uw_export *e)
{
    bool add = e->def->kind == UW_LAYER_ADD;
    const char *x[UW_LAYER_INPUTS_MAX];
    uint32_t count = 0;
    for (; count < UW_LAYER_INPUTS_MAX && e->def->inputs[count] != NULL; count++) {
        x[count] = add ? uw_export_value(e, e->def->inputs[count]) : uw_export_repeated(e, count);
    }
    if (add && count == 2) {
        return uw_export_arithmetic(e);
    }
    struct uw_export_node *n = uw_export_node(e, add ? "Sum" : "Concat", x[0], NULL, NULL);
    for (uint32_t k = 1; k < count; k++) {
        n->input[n->inputs_n++] = x[k];
    }
    if (!add) {
        uw_export_int(n, "axis", (int64_t)e->def->concat.axis + 1);
    }
    return n->output[0];
}

static const char *slice(struct uw_export *e)
{
    const struct uw_slice_def *d = &e->def->slice;
    int64_t size = e->in.dim[d->axis];
    int64_t start = d->start < 0 ? d->start + size : d->start;
    const char *y = uw_export_slice(e, e->x, (int64_t)d->axis + 1, start,
                                    d->length != 0 ? start + d->length : size);
    return d->squeeze ? uw_export_squeeze(e, y, (int64_t)d->axis + 1) : y;
}

static const char *reshape(struct uw_export *e)
{
    const int64_t dim[4] = {e->out.dim[0], e->out.dim[1], e->out.dim[2], e->out.dim[3]};
    return uw_export_reshape(e, e->x, e->out.rank, dim);
}

static const char *transpose(struct uw_export *e)
{
    int64_t order[UW_AXES_MAX + 1] = {0};
    for (uint32_t a = 0; a < e->in.rank; a++) {
        order[a + 1] = (int64_t)e->def->transpose.order[a] + 1;
    }
    return uw_export_transpose(e, e->x, e->in.rank + 1, order);
}

static const char *embedding(struct uw_export *e)
{
    return uw_export_op(e, "Gather", uw_export_param(e, "weight"), uw_export_cast(e, e->x, 7));
}

/* How to write each kind of layer: as one node of an operator, or by a function. */
static const struct {
    const char *op;
    const char *(*write)(struct uw_export *e);
} kinds[] = {
    [UW_LAYER_CONV2D] = {NULL, conv2d},
    [UW_LAYER_DENSE] = {NULL, dense},
    [UW_LAYER_MAXPOOL2D] = {NULL, pool2d},
    [UW_LAYER_RELU] = {"Relu", NULL},
    [UW_LAYER_FLATTEN] = {"Flatten", NULL},
    [UW_LAYER_ADD] = {NULL, several},
    [UW_LAYER_CONV1D] = {NULL, conv1d},
    [UW_LAYER_CONV_TRANSPOSE2D] = {NULL, conv2d},
    [UW_LAYER_MAXPOOL1D] = {NULL, pool1d},
    [UW_LAYER_AVGPOOL2D] = {NULL, pool2d},
    [UW_LAYER_AVGPOOL1D] = {NULL, pool1d},
    [UW_LAYER_GLOBAL_AVGPOOL] = {NULL, global_avgpool},
    [UW_LAYER_BATCHNORM] = {NULL, batchnorm},
    [UW_LAYER_GROUPNORM] = {NULL, groupnorm},
    [UW_LAYER_LAYERNORM] = {NULL, layernorm},
    [UW_LAYER_LRN] = {NULL, lrn},
    [UW_LAYER_RELU6] = {NULL, relu6},
    [UW_LAYER_LEAKY_RELU] = {NULL, leaky_relu},
    [UW_LAYER_SIGMOID] = {"Sigmoid", NULL},
    [UW_LAYER_TANH] = {"Tanh", NULL},
    [UW_LAYER_GELU] = {NULL, gelu},
    [UW_LAYER_SILU] = {NULL, silu},
    [UW_LAYER_DROPOUT] = {NULL, dropout},
    [UW_LAYER_CONCAT] = {NULL, several},
    [UW_LAYER_RESHAPE] = {NULL, reshape},
    [UW_LAYER_TRANSPOSE] = {NULL, transpose},
    [UW_LAYER_SLICE] = {NULL, slice},
    [UW_LAYER_EMBEDDING] = {NULL, embedding},
    [UW_LAYER_RNN] = {NULL, uw_export_recurrent},
    [UW_LAYER_GRU] = {NULL, uw_export_recurrent},
    [UW_LAYER_LSTM] = {NULL, uw_export_recurrent},
    [UW_LAYER_ATTENTION] = {NULL, uw_export_attention},
    [UW_LAYER_PARAMETER] = {NULL, uw_export_parameter},
    [UW_LAYER_FUNCTION] = {NULL, uw_export_function},
    [UW_LAYER_ARITHMETIC] = {NULL, uw_export_arithmetic},
    [UW_LAYER_MATMUL] = {NULL, uw_export_products},
    [UW_LAYER_REDUCE] = {NULL, uw_export_reduce},
    [UW_LAYER_SOFTMAX] = {NULL, uw_export_softmax},
    [UW_LAYER_TAKE] = {NULL, uw_export_take},
};

const char *uw_export_layer(struct uw_export *e)
{
    uint32_t kind = e->def->kind;
    if (kind >= sizeof kinds / sizeof kinds[0] ||
        (kinds[kind].op == NULL && kinds[kind].write == NULL)) {
        uw_error_set(e->err, UW_ERR_UNSUPPORTED, "layer '%s': its kind has no ONNX form",
                     e->def->name);
        return NULL;
    }
    return kinds[kind].op != NULL ? uw_export_op(e, kinds[kind].op, e->x, NULL)
                                  : kinds[kind].write(e);
}
