/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of an element and arithmetic of two, as they are defined, in double. */
#ifndef UWASA_TESTS_DOUBLE_OPERATORS_H
#define UWASA_TESTS_DOUBLE_OPERATORS_H

#include "uwasa/layers_tensor.h"

#include <math.h>

static inline double double_combine(enum uw_arithmetic_op op, double a, double b)
{
    switch (op) {
    case UW_ARITHMETIC_ADD:
        return a + b;
    case UW_ARITHMETIC_SUB:
        return a - b;
    case UW_ARITHMETIC_MUL:
        return a * b;
    case UW_ARITHMETIC_DIV:
        return a / b;
    case UW_ARITHMETIC_POW:
        return pow(a, b);
    case UW_ARITHMETIC_MIN:
        return fmin(a, b);
    case UW_ARITHMETIC_MAX:
        return fmax(a, b);
    case UW_ARITHMETIC_MASK:
        break;
    }
    return b != 0.0 ? a : 0.0;
}

static inline double double_between(double x, double low, double high)
{
    return fmin(fmax(x, low), high);
}

static inline double double_function(enum uw_function f, double a, double b, double x)
{
    double softplus = fmax(x, 0.0) + log1p(exp(-fabs(x)));
    switch (f) {
    case UW_FUNCTION_SCALE:
        return a * x + b;
    case UW_FUNCTION_ABS:
        return fabs(x);
    case UW_FUNCTION_EXP:
        return exp(x);
    case UW_FUNCTION_LOG:
        return log(x);
    case UW_FUNCTION_SQRT:
        return sqrt(x);
    case UW_FUNCTION_RECIPROCAL:
        return 1.0 / x;
    case UW_FUNCTION_SQUARE:
        return x * x;
    case UW_FUNCTION_POWER:
        return pow(x, a);
    case UW_FUNCTION_ERF:
        return erf(x);
    case UW_FUNCTION_CLIP:
        return double_between(x, a, b);
    case UW_FUNCTION_ELU:
        return x > 0.0 ? x : a * expm1(x);
    case UW_FUNCTION_SELU:
        return b * (x > 0.0 ? x : a * expm1(x));
    case UW_FUNCTION_CELU:
        return x > 0.0 ? x : a * expm1(x / a);
    case UW_FUNCTION_SOFTPLUS:
        return (fmax(a * x, 0.0) + log1p(exp(-fabs(a * x)))) / a;
    case UW_FUNCTION_SOFTSIGN:
        return x / (1.0 + fabs(x));
    case UW_FUNCTION_MISH:
        return x * tanh(softplus);
    case UW_FUNCTION_HARDSIGMOID:
        return double_between(a * x + b, 0.0, 1.0);
    case UW_FUNCTION_HARDSWISH:
        return x * double_between(x / 6.0 + 0.5, 0.0, 1.0);
    case UW_FUNCTION_THRESHOLD:
        return x > a ? x : b;
    case UW_FUNCTION_QUICK_GELU:
        return x / (1.0 + exp(-a * x));
    case UW_FUNCTION_SIN:
        return sin(x);
    case UW_FUNCTION_COS:
        return cos(x);
    case UW_FUNCTION_SIGN:
        return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : 0.0;
    case UW_FUNCTION_STEP:
        break;
    }
    return x > a ? 1.0 : 0.0;
}

#endif
