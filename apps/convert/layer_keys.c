/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/layer_keys.h"

#define WINDOW_LIMIT 65535u     /* kernels, strides, padding */

#define KEY(name, kind, member, ...) \
    {name, kind, offsetof(struct uw_layer_def, member), #member, __VA_ARGS__}

/* Rows that many types share; `d` is the type's member of struct uw_layer_def. */
#define SIZE(name, member) KEY(name, UW_KEY_U32, member, true, 1, UW_LAYER_SIZE_LIMIT, 0, 0, NULL)
#define WINDOW(name, kind, member, required, min, same) \
    KEY(name, kind, member, required, min, WINDOW_LIMIT, same, 0, NULL)
#define GROUPS(d) KEY("groups", UW_KEY_U32, d.groups, false, 1, UW_LAYER_SIZE_LIMIT, 1, 0, NULL)
#define FLAG(name, kind, member) KEY(name, kind, member, false, 0, 0, 0, 0, NULL)
#define BIAS(d) FLAG("bias", UW_KEY_FALSE, d.no_bias)
#define REAL(name, member, range) KEY(name, UW_KEY_REAL, member, false, 0, 0, 0, range, NULL)
#define CONV2D(d)                                                                      \
    SIZE("out_channels", d.out_channels),                                              \
        WINDOW("kernel", UW_KEY_PAIR, d.kernel_h, true, 1, 0),                         \
        WINDOW("stride", UW_KEY_PAIR, d.stride_h, false, 1, 1),                        \
        WINDOW("padding", UW_KEY_PAIR, d.pad_h, false, 0, 0),                          \
        WINDOW("dilation", UW_KEY_PAIR, d.dilation_h, false, 1, 1), GROUPS(d), BIAS(d)
#define POOL(d, kind, h)                                       \
    WINDOW("kernel", kind, d.kernel##h, true, 1, 0),           \
        WINDOW("stride", kind, d.stride##h, false, 1, 0),      \
        WINDOW("padding", kind, d.pad##h, false, 0, 0),        \
        FLAG("ceil_mode", UW_KEY_TRUE, d.ceil_mode)
#define EPS REAL("eps", norm.epsilon, UW_REAL_POSITIVE)
#define AFFINE FLAG("affine", UW_KEY_FALSE, norm.no_affine)
#define RECURRENT                                          \
    SIZE("hidden", recurrent.hidden), BIAS(recurrent),     \
        FLAG("reverse", UW_KEY_TRUE, recurrent.reverse),   \
        FLAG("last", UW_KEY_TRUE, recurrent.last)

static const struct uw_layer_key conv2d_keys[] = {CONV2D(conv2d)};
static const struct uw_layer_key conv_transpose2d_keys[] = {
    CONV2D(conv_transpose2d),
    WINDOW("output_padding", UW_KEY_PAIR, conv_transpose2d.out_pad_h, false, 0, 0),
};
static const struct uw_layer_key conv1d_keys[] = {
    SIZE("out_channels", conv1d.out_channels),
    WINDOW("kernel", UW_KEY_U32, conv1d.kernel, true, 1, 0),
    WINDOW("stride", UW_KEY_U32, conv1d.stride, false, 1, 1),
    WINDOW("padding", UW_KEY_U32, conv1d.pad, false, 0, 0),
    WINDOW("dilation", UW_KEY_U32, conv1d.dilation, false, 1, 1),
    GROUPS(conv1d),
    BIAS(conv1d),
};
static const struct uw_layer_key dense_keys[] = {SIZE("out", dense.out), BIAS(dense)};
static const struct uw_layer_key maxpool2d_keys[] = {POOL(pool2d, UW_KEY_PAIR, _h)};
static const struct uw_layer_key avgpool2d_keys[] = {
    POOL(pool2d, UW_KEY_PAIR, _h),
    FLAG("count_include_pad", UW_KEY_FALSE, pool2d.exclude_pad),
};
static const struct uw_layer_key maxpool1d_keys[] = {POOL(pool1d, UW_KEY_U32, )};
static const struct uw_layer_key avgpool1d_keys[] = {
    POOL(pool1d, UW_KEY_U32, ),
    FLAG("count_include_pad", UW_KEY_FALSE, pool1d.exclude_pad),
};
static const struct uw_layer_key batchnorm_keys[] = {
    EPS, REAL("momentum", norm.momentum, UW_REAL_POSITIVE_SHARE), AFFINE};
static const struct uw_layer_key groupnorm_keys[] = {
    SIZE("num_groups", norm.groups), EPS, AFFINE};
static const struct uw_layer_key layernorm_keys[] = {
    KEY("axes", UW_KEY_U32, norm.axes, false, 1, 3, 1, 0, NULL), EPS, AFFINE};
static const struct uw_layer_key lrn_keys[] = {
    WINDOW("size", UW_KEY_U32, lrn.size, true, 1, 0),
    REAL("alpha", lrn.alpha, UW_REAL_POSITIVE),
    REAL("beta", lrn.beta, UW_REAL_POSITIVE),
    REAL("k", lrn.k, UW_REAL_POSITIVE),
};
static const struct uw_layer_key leaky_relu_keys[] = {
    REAL("negative_slope", activation.slope, UW_REAL_POSITIVE)};
static const struct uw_layer_key gelu_keys[] = {
    KEY("approximate", UW_KEY_CHOICE, activation.tanh, false, 0, 0, 0, 0, "none|tanh")};
static const struct uw_layer_key dropout_keys[] = {
    KEY("p", UW_KEY_REAL, dropout.rate, true, 0, 0, 0, UW_REAL_SHARE, NULL)};
static const struct uw_layer_key concat_keys[] = {
    KEY("axis", UW_KEY_U32, concat.axis, false, 0, 2, 0, 0, NULL)};
static const struct uw_layer_key reshape_keys[] = {
    KEY("shape", UW_KEY_SHAPE, reshape, true, 0, 0, 0, 0, NULL)};
static const struct uw_layer_key transpose_keys[] = {
    KEY("order", UW_KEY_ORDER, transpose.order, true, 0, 0, 0, 0, NULL)};
static const struct uw_layer_key slice_keys[] = {
    KEY("axis", UW_KEY_U32, slice.axis, false, 0, 2, 0, 0, NULL),
    KEY("start", UW_KEY_I32, slice.start, false, 0, 0, 0, 0, NULL),
    KEY("length", UW_KEY_U32, slice.length, false, 1, UW_LAYER_SIZE_LIMIT, 0, 0, NULL),
    FLAG("squeeze", UW_KEY_TRUE, slice.squeeze),
};
static const struct uw_layer_key embedding_keys[] = {
    SIZE("vocabulary", embedding.vocabulary), SIZE("size", embedding.size)};
static const struct uw_layer_key rnn_keys[] = {
    RECURRENT,
    KEY("nonlinearity", UW_KEY_CHOICE, recurrent.relu, false, 0, 0, 0, 0, "tanh|relu"),
};
static const struct uw_layer_key recurrent_keys[] = {RECURRENT};
static const struct uw_layer_key attention_keys[] = {
    SIZE("heads", attention.heads), FLAG("causal", UW_KEY_TRUE, attention.causal),
    BIAS(attention)};

#define PLAIN(kind, name, several) {kind, name, several, NULL, 0}
#define KEYED(kind, name, keys) {kind, name, false, keys, sizeof keys / sizeof keys[0]}

const struct uw_layer_type uw_layer_types[] = {
    KEYED(UW_LAYER_CONV2D, "conv2d", conv2d_keys),
    KEYED(UW_LAYER_CONV1D, "conv1d", conv1d_keys),
    KEYED(UW_LAYER_CONV_TRANSPOSE2D, "conv_transpose2d", conv_transpose2d_keys),
    KEYED(UW_LAYER_DENSE, "dense", dense_keys),
    KEYED(UW_LAYER_MAXPOOL2D, "maxpool2d", maxpool2d_keys),
    KEYED(UW_LAYER_MAXPOOL1D, "maxpool1d", maxpool1d_keys),
    KEYED(UW_LAYER_AVGPOOL2D, "avgpool2d", avgpool2d_keys),
    KEYED(UW_LAYER_AVGPOOL1D, "avgpool1d", avgpool1d_keys),
    PLAIN(UW_LAYER_GLOBAL_AVGPOOL, "global_avgpool", false),
    KEYED(UW_LAYER_BATCHNORM, "batchnorm", batchnorm_keys),
    KEYED(UW_LAYER_GROUPNORM, "groupnorm", groupnorm_keys),
    KEYED(UW_LAYER_LAYERNORM, "layernorm", layernorm_keys),
    KEYED(UW_LAYER_LRN, "lrn", lrn_keys),
    PLAIN(UW_LAYER_RELU, "relu", false),
    PLAIN(UW_LAYER_RELU6, "relu6", false),
    KEYED(UW_LAYER_LEAKY_RELU, "leaky_relu", leaky_relu_keys),
    PLAIN(UW_LAYER_SIGMOID, "sigmoid", false),
    PLAIN(UW_LAYER_TANH, "tanh", false),
    KEYED(UW_LAYER_GELU, "gelu", gelu_keys),
    PLAIN(UW_LAYER_SILU, "silu", false),
    KEYED(UW_LAYER_DROPOUT, "dropout", dropout_keys),
    PLAIN(UW_LAYER_ADD, "add", true),
    {UW_LAYER_CONCAT, "concat", true, concat_keys, 1},
    PLAIN(UW_LAYER_FLATTEN, "flatten", false),
    KEYED(UW_LAYER_RESHAPE, "reshape", reshape_keys),
    KEYED(UW_LAYER_TRANSPOSE, "transpose", transpose_keys),
    KEYED(UW_LAYER_SLICE, "slice", slice_keys),
    KEYED(UW_LAYER_EMBEDDING, "embedding", embedding_keys),
    KEYED(UW_LAYER_RNN, "rnn", rnn_keys),
    KEYED(UW_LAYER_GRU, "gru", recurrent_keys),
    KEYED(UW_LAYER_LSTM, "lstm", recurrent_keys),
    KEYED(UW_LAYER_ATTENTION, "attention", attention_keys),
};
const size_t uw_layer_types_n = sizeof uw_layer_types / sizeof uw_layer_types[0];

const struct uw_layer_type *uw_layer_type_of(enum uw_layer_kind kind)
{
    for (size_t i = 0; i < uw_layer_types_n; i++) {
        if (uw_layer_types[i].kind == kind) {
            return &uw_layer_types[i];
        }
    }
    return NULL;
}
