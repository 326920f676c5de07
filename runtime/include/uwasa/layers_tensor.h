/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/layers_tensor.h - options of the layers that are operators on tensors: parameters,
 * functions, arithmetic, products, reductions, softmax, picks along an axis
 *
 * uwasa/layers.h, which includes this, says what a layer is. An option of zero has its default.
 */
#ifndef UWASA_LAYERS_TENSOR_H
#define UWASA_LAYERS_TENSOR_H

#include "uwasa/cplusplus.h"

#include <stdbool.h>
#include <stdint.h>

UW_C_BEGIN

#define UW_AXES_MAX 4               /* of one sample */

/* parameter: one tensor, named like the layer. Layers that combine it with values of the sample
 * repeat it over the minibatch; a layer whose inputs are all parameters computes a value for all
 * samples, once. */
struct uw_parameter_def {
    uint32_t dim[UW_AXES_MAX];
    uint32_t rank;                  /* 1 to 4 */
    float value, deviation;         /* initially normal with this mean and standard deviation */
    bool constant;                  /* never trained */
};

/* y = f(x) for each element. In the tables of layers' names each is a type of its own. */
enum uw_function {
    UW_FUNCTION_SCALE = 0,          /* a x + b */
    UW_FUNCTION_ABS,
    UW_FUNCTION_EXP,
    UW_FUNCTION_LOG,
    UW_FUNCTION_SQRT,               /* its gradient at 0 is taken for 0 */
    UW_FUNCTION_RECIPROCAL,
    UW_FUNCTION_SQUARE,
    UW_FUNCTION_POWER,              /* x^a */
    UW_FUNCTION_ERF,
    UW_FUNCTION_CLIP,               /* min(max(x, a), b) */
    UW_FUNCTION_ELU,                /* x, below 0: a (e^x - 1) */
    UW_FUNCTION_SELU,               /* b times ELU */
    UW_FUNCTION_CELU,               /* x, below 0: a (e^(x / a) - 1) */
    UW_FUNCTION_SOFTPLUS,           /* log(1 + e^(a x)) / a */
    UW_FUNCTION_SOFTSIGN,           /* x / (1 + |x|) */
    UW_FUNCTION_MISH,               /* x tanh(log(1 + e^x)) */
    UW_FUNCTION_HARDSIGMOID,        /* min(max(a x + b, 0), 1) */
    UW_FUNCTION_HARDSWISH,          /* x hardsigmoid(x) */
    UW_FUNCTION_THRESHOLD,          /* x above a, else b */
    UW_FUNCTION_QUICK_GELU,         /* x sigmoid(a x) */
    UW_FUNCTION_SIN,
    UW_FUNCTION_COS,
    UW_FUNCTION_SIGN,               /* -1, 0, 1; without a gradient */
    UW_FUNCTION_STEP                /* 1 above a, else 0; without a gradient */
};

struct uw_function_def {
    enum uw_function function;
    float a, b;                     /* as the equation names them; both 0: PyTorch's defaults, of
                                       clip -1 and 1, of quick_gelu 1.702 */
};

/* The numbers a and b that a function computes with, defaults filled in. */
void uw_function_numbers(const struct uw_function_def *d, float *a, float *b);

enum uw_arithmetic_op {
    UW_ARITHMETIC_ADD = 0,
    UW_ARITHMETIC_SUB,
    UW_ARITHMETIC_MUL,
    UW_ARITHMETIC_DIV,
    UW_ARITHMETIC_POW,
    UW_ARITHMETIC_MIN,
    UW_ARITHMETIC_MAX,
    UW_ARITHMETIC_MASK              /* the first where the second is not 0, else 0 */
};

struct uw_arithmetic_def {
    enum uw_arithmetic_op op;
};

/* y = scale a b, over the last two axes; axes before them are broadcast. */
struct uw_matmul_def {
    bool trans_a, trans_b;          /* a is [k][m], b is [n][k] */
    float scale;                    /* 0: 1 */
};

enum uw_reduction {
    UW_REDUCE_MEAN = 0,
    UW_REDUCE_SUM,
    UW_REDUCE_MAX,                  /* the gradient is divided among equal ones */
    UW_REDUCE_MIN,
    UW_REDUCE_NORM                  /* square root of the sum of squares */
};

struct uw_reduce_def {
    enum uw_reduction op;
    uint32_t axis, axes;            /* the first, and how many; 0: 1 */
    bool keep;                      /* the axes remain, with size 1 */
};

struct uw_softmax_def {
    bool log;                       /* the logarithm of the softmax */
};

/* y[.., j, ..] = sum over t < taps of weight[j][t] x[.., index[j][t], ..]. Both tables are borrowed
 * like names. This is padding (zeros, edge, reflection), resizing, slices with steps. */
struct uw_take_def {
    uint32_t axis;
    uint32_t n, taps;               /* size of the axis in y; taps 0: 1 */
    const int32_t *index;           /* [n][taps]; -1: a zero */
    const float *weight;            /* [n][taps]; NULL: 1 */
};

UW_C_END
#endif
