/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/layer_keys.h"

#define WINDOW_LIMIT 65535u     /* kernels, strides, padding */

#define KEY(name, kind, member, ...) \
    {name, kind, offsetof(struct uw_layer_def, member), #member, __VA_ARGS__, 0.0f}

/* Rows that many types share; `d` is the type's member of struct uw_layer_def. */
#define SIZE(name, member) KEY(name, UW_KEY_U32, member, true, 1, UW_LAYER_SIZE_LIMIT, 0, 0, NULL)
#define WINDOW(name, kind, member, required, min, same) \
    KEY(name, kind, member, required, min, WINDOW_LIMIT, same, 0, NULL)
#define GROUPS(d) KEY("groups", UW_KEY_U32, d.groups, false, 1, UW_LAYER_SIZE_LIMIT, 1, 0, NULL)
#define FLAG(name, kind, member) KEY(name, kind, member, false, 0, 0, 0, 0, NULL)
#define BIAS(d) FLAG("bias", UW_KEY_FALSE, d.no_bias)
#define REAL(name, member, range) KEY(name, UW_KEY_REAL, member, false, 0, 0, 0, range, NULL)
#define AXIS(name, member) KEY(name, UW_KEY_U32, member, false, 0, UW_AXES_MAX - 1u, 0, 0, NULL)
/* A number of a function, and its default where that is not 0. */
#define NUMBER(name, letter, range, otherwise)                                               \
    {name, UW_KEY_REAL, offsetof(struct uw_layer_def, function.letter), "function." #letter, \
     false, 0, 0, 0, range, NULL, otherwise}
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
    KEY("axes", UW_KEY_U32, norm.axes, false, 1, UW_AXES_MAX, 1, 0, NULL), EPS, AFFINE};
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
static const struct uw_layer_key concat_keys[] = {AXIS("axis", concat.axis)};
static const struct uw_layer_key reshape_keys[] = {
    KEY("shape", UW_KEY_SHAPE, reshape.dim, true, 0, 0, 0, 0, NULL)};
static const struct uw_layer_key transpose_keys[] = {
    KEY("order", UW_KEY_ORDER, transpose.order, true, 0, 0, 0, 0, NULL)};
static const struct uw_layer_key slice_keys[] = {
    AXIS("axis", slice.axis),
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

static const struct uw_layer_key parameter_keys[] = {
    KEY("shape", UW_KEY_SHAPE, parameter.dim, true, 1, 0, 0, 0, NULL),
    REAL("value", parameter.value, UW_REAL_ANY),
    REAL("deviation", parameter.deviation, UW_REAL_NOT_NEGATIVE),
    FLAG("constant", UW_KEY_TRUE, parameter.constant),
};
static const struct uw_layer_key scale_keys[] = {
    NUMBER("factor", a, UW_REAL_ANY, 1.0f), NUMBER("offset", b, UW_REAL_ANY, 0.0f)};
static const struct uw_layer_key power_keys[] = {
    KEY("exponent", UW_KEY_REAL, function.a, true, 0, 0, 0, UW_REAL_ANY, NULL)};
static const struct uw_layer_key clip_keys[] = {
    NUMBER("min", a, UW_REAL_ANY, -1.0f), NUMBER("max", b, UW_REAL_ANY, 1.0f)};
static const struct uw_layer_key alpha_keys[] = {NUMBER("alpha", a, UW_REAL_POSITIVE, 1.0f)};
static const struct uw_layer_key selu_keys[] = {
    NUMBER("alpha", a, UW_REAL_POSITIVE, 1.67326324f),
    NUMBER("scale", b, UW_REAL_POSITIVE, 1.05070099f)};
static const struct uw_layer_key softplus_keys[] = {NUMBER("beta", a, UW_REAL_POSITIVE, 1.0f)};
static const struct uw_layer_key hardsigmoid_keys[] = {
    NUMBER("slope", a, UW_REAL_POSITIVE, 1.0f / 6.0f), NUMBER("offset", b, UW_REAL_ANY, 0.5f)};
static const struct uw_layer_key threshold_keys[] = {
    NUMBER("threshold", a, UW_REAL_ANY, 0.0f), NUMBER("value", b, UW_REAL_ANY, 0.0f)};
static const struct uw_layer_key step_keys[] = {NUMBER("threshold", a, UW_REAL_ANY, 0.0f)};
static const struct uw_layer_key quick_gelu_keys[] = {
    NUMBER("alpha", a, UW_REAL_POSITIVE, 1.702f)};
static const struct uw_layer_key matmul_keys[] = {
    FLAG("transpose_a", UW_KEY_TRUE, matmul.trans_a),
    FLAG("transpose_b", UW_KEY_TRUE, matmul.trans_b),
    KEY("scale", UW_KEY_REAL, matmul.scale, false, 0, 0, 0, UW_REAL_NOT_ZERO, NULL),
};
static const struct uw_layer_key reduce_keys[] = {
    AXIS("axis", reduce.axis),
    KEY("axes", UW_KEY_U32, reduce.axes, false, 1, UW_AXES_MAX, 1, 0, NULL),
    FLAG("keep", UW_KEY_TRUE, reduce.keep),
};
static const struct uw_layer_key softmax_keys[] = {FLAG("log", UW_KEY_TRUE, softmax.log)};
static const struct uw_layer_key take_keys[] = {
    AXIS("axis", take.axis),
    KEY("taps", UW_KEY_U32, take.taps, false, 1, UW_LAYER_TAPS_MAX, 1, 0, NULL),
    KEY("index", UW_KEY_INDEX, take.index, true, 0, 0, 0, 0, NULL),
    KEY("weight", UW_KEY_WEIGHTS, take.weight, false, 0, 0, 0, 0, NULL),
};

#define NO_KEYS NULL, 0
#define KEYS(keys) keys, sizeof keys / sizeof keys[0]
#define TYPE(kind, name, wiring, ...) \
    {UW_LAYER_##kind, 0, name, "UW_LAYER_" #kind, wiring, __VA_ARGS__}
#define PLAIN(kind, name) TYPE(kind, name, UW_WIRING_ONE, NO_KEYS)
#define KEYED(kind, name, keys) TYPE(kind, name, UW_WIRING_ONE, KEYS(keys))
/* A variant of a kind: which, and the member that says so. */
#define VARIANT(kind, member, which, name, wiring, ...) \
    {UW_LAYER_##kind, which, name, "UW_LAYER_" #kind ", ." #member " = " #which, wiring, \
     __VA_ARGS__}
#define FUNCTION(which, name, ...) \
    VARIANT(FUNCTION, function.function, UW_FUNCTION_##which, name, UW_WIRING_ONE, __VA_ARGS__)
#define ARITHMETIC(which, name) \
    VARIANT(ARITHMETIC, arithmetic.op, UW_ARITHMETIC_##which, name, UW_WIRING_TWO, NO_KEYS)
#define REDUCE(which, name) \
    VARIANT(REDUCE, reduce.op, UW_REDUCE_##which, name, UW_WIRING_ONE, KEYS(reduce_keys))

const struct uw_layer_type uw_layer_types[] = {
    KEYED(CONV2D, "conv2d", conv2d_keys),
    KEYED(CONV1D, "conv1d", conv1d_keys),
    KEYED(CONV_TRANSPOSE2D, "conv_transpose2d", conv_transpose2d_keys),
    KEYED(DENSE, "dense", dense_keys),
    KEYED(MAXPOOL2D, "maxpool2d", maxpool2d_keys),
    KEYED(MAXPOOL1D, "maxpool1d", maxpool1d_keys),
    KEYED(AVGPOOL2D, "avgpool2d", avgpool2d_keys),
    KEYED(AVGPOOL1D, "avgpool1d", avgpool1d_keys),
    PLAIN(GLOBAL_AVGPOOL, "global_avgpool"),
    KEYED(BATCHNORM, "batchnorm", batchnorm_keys),
    KEYED(GROUPNORM, "groupnorm", groupnorm_keys),
    KEYED(LAYERNORM, "layernorm", layernorm_keys),
    KEYED(LRN, "lrn", lrn_keys),
    PLAIN(RELU, "relu"),
    PLAIN(RELU6, "relu6"),
    KEYED(LEAKY_RELU, "leaky_relu", leaky_relu_keys),
    PLAIN(SIGMOID, "sigmoid"),
    PLAIN(TANH, "tanh"),
    KEYED(GELU, "gelu", gelu_keys),
    PLAIN(SILU, "silu"),
    KEYED(DROPOUT, "dropout", dropout_keys),
    TYPE(ADD, "add", UW_WIRING_SEVERAL, NO_KEYS),
    TYPE(CONCAT, "concat", UW_WIRING_SEVERAL, KEYS(concat_keys)),
    PLAIN(FLATTEN, "flatten"),
    KEYED(RESHAPE, "reshape", reshape_keys),
    KEYED(TRANSPOSE, "transpose", transpose_keys),
    KEYED(SLICE, "slice", slice_keys),
    KEYED(EMBEDDING, "embedding", embedding_keys),
    KEYED(RNN, "rnn", rnn_keys),
    KEYED(GRU, "gru", recurrent_keys),
    KEYED(LSTM, "lstm", recurrent_keys),
    KEYED(ATTENTION, "attention", attention_keys),
    TYPE(PARAMETER, "parameter", UW_WIRING_NONE, KEYS(parameter_keys)),
    FUNCTION(SCALE, "scale", KEYS(scale_keys)),
    FUNCTION(ABS, "abs", NO_KEYS),
    FUNCTION(EXP, "exp", NO_KEYS),
    FUNCTION(LOG, "log", NO_KEYS),
    FUNCTION(SQRT, "sqrt", NO_KEYS),
    FUNCTION(RECIPROCAL, "reciprocal", NO_KEYS),
    FUNCTION(SQUARE, "square", NO_KEYS),
    FUNCTION(POWER, "power", KEYS(power_keys)),
    FUNCTION(ERF, "erf", NO_KEYS),
    FUNCTION(CLIP, "clip", KEYS(clip_keys)),
    FUNCTION(ELU, "elu", KEYS(alpha_keys)),
    FUNCTION(SELU, "selu", KEYS(selu_keys)),
    FUNCTION(CELU, "celu", KEYS(alpha_keys)),
    FUNCTION(SOFTPLUS, "softplus", KEYS(softplus_keys)),
    FUNCTION(SOFTSIGN, "softsign", NO_KEYS),
    FUNCTION(MISH, "mish", NO_KEYS),
    FUNCTION(HARDSIGMOID, "hardsigmoid", KEYS(hardsigmoid_keys)),
    FUNCTION(HARDSWISH, "hardswish", NO_KEYS),
    FUNCTION(THRESHOLD, "threshold", KEYS(threshold_keys)),
    FUNCTION(QUICK_GELU, "quick_gelu", KEYS(quick_gelu_keys)),
    FUNCTION(SIN, "sin", NO_KEYS),
    FUNCTION(COS, "cos", NO_KEYS),
    FUNCTION(SIGN, "sign", NO_KEYS),
    FUNCTION(STEP, "step", KEYS(step_keys)),
    ARITHMETIC(SUB, "sub"),
    ARITHMETIC(MUL, "mul"),
    ARITHMETIC(DIV, "div"),
    ARITHMETIC(POW, "pow"),
    ARITHMETIC(MIN, "min"),
    ARITHMETIC(MAX, "max"),
    ARITHMETIC(MASK, "mask"),
    TYPE(MATMUL, "matmul", UW_WIRING_TWO, KEYS(matmul_keys)),
    REDUCE(MEAN, "reduce_mean"),
    REDUCE(SUM, "reduce_sum"),
    REDUCE(MAX, "reduce_max"),
    REDUCE(MIN, "reduce_min"),
    REDUCE(NORM, "reduce_norm"),
    KEYED(SOFTMAX, "softmax", softmax_keys),
    KEYED(TAKE, "take", take_keys),
};
const size_t uw_layer_types_n = sizeof uw_layer_types / sizeof uw_layer_types[0];

const struct uw_layer_type *uw_layer_type_of(const struct uw_layer_def *def)
{
    enum uw_layer_kind kind = def->kind;
    uint32_t variant = kind == UW_LAYER_FUNCTION     ? (uint32_t)def->function.function
                       : kind == UW_LAYER_ARITHMETIC ? (uint32_t)def->arithmetic.op
                       : kind == UW_LAYER_REDUCE     ? (uint32_t)def->reduce.op
                                                     : 0;
    if (kind == UW_LAYER_ARITHMETIC && variant == UW_ARITHMETIC_ADD) {
        kind = UW_LAYER_ADD; /* which broadcasts too */
    }
    for (size_t i = 0; i < uw_layer_types_n; i++) {
        if (uw_layer_types[i].kind == kind && uw_layer_types[i].variant == variant) {
            return &uw_layer_types[i];
        }
    }
    return NULL;
}

void uw_layer_set_type(struct uw_layer_def *def, const struct uw_layer_type *type)
{
    def->kind = type->kind;
    switch (type->kind) {
    case UW_LAYER_FUNCTION:
        def->function.function = (enum uw_function)type->variant;
        break;
    case UW_LAYER_ARITHMETIC:
        def->arithmetic.op = (enum uw_arithmetic_op)type->variant;
        break;
    case UW_LAYER_REDUCE:
        def->reduce.op = (enum uw_reduction)type->variant;
        break;
    default:
        break;
    }
}

void uw_layer_key_pair(const struct uw_layer_key *key, const struct uw_layer_def *def,
                       uint32_t out[2])
{
    const uint32_t *in = (const void *)((const char *)def + key->offset);
    out[0] = in[0] != 0 ? in[0] : key->same;
    out[1] = in[1] != 0 || key->min == 0 ? in[1] : out[0];
}

/* Whether a function has all its defaults. */
static bool is_plain(const struct uw_layer_type *type, const struct uw_layer_def *def)
{
    return type->kind == UW_LAYER_FUNCTION && def->function.a == 0.0f && def->function.b == 0.0f;
}

bool uw_layer_key_is_default(const struct uw_layer_type *type, const struct uw_layer_key *key,
                             const struct uw_layer_def *def)
{
    const void *value = (const char *)def + key->offset;
    uint32_t pair[2];
    switch (key->kind) {
    case UW_KEY_U32:
        return *(const uint32_t *)value == 0 || *(const uint32_t *)value == key->same;
    case UW_KEY_I32:
        return *(const int32_t *)value == 0;
    case UW_KEY_PAIR:
        uw_layer_key_pair(key, def, pair);
        return pair[0] == key->same && pair[1] == key->same;
    case UW_KEY_REAL:
        return *(const float *)value == key->otherwise || is_plain(type, def);
    case UW_KEY_TRUE:
    case UW_KEY_FALSE:
    case UW_KEY_CHOICE:
        return !*(const bool *)value;
    case UW_KEY_WEIGHTS:
        return *(const float *const *)value == NULL;
    case UW_KEY_SHAPE:
    case UW_KEY_ORDER:
    case UW_KEY_INDEX:
        break;
    }
    return false;
}
