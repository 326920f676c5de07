/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/kernels_tensor.h - slots of the kernel table for operators on tensors: arithmetic with
 * broadcasting, reductions, log-softmax, and picks along an axis
 *
 * Layout, memory, context, errors and numerics are those of uwasa/kernels.h, which includes this.
 */
#ifndef UWASA_KERNELS_TENSOR_H
#define UWASA_KERNELS_TENSOR_H

#include "uwasa/layers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct uw_exec;

#define UW_TENSOR_AXES 5u           /* the minibatch and UW_AXES_MAX more */

/* y, dense, has the sizes dim, outermost first. From one element of y to the next along axis i it
 * is step[0][i] floats in a and step[1][i] in b; 0: the operand is repeated along the axis. */
struct uw_arithmetic {
    enum uw_arithmetic_op op;
    uint32_t dim[UW_TENSOR_AXES];
    uint32_t step[2][UW_TENSOR_AXES];
};

/* x is [outer][n][inner], y [outer][inner]. */
struct uw_reduce {
    enum uw_reduction op;
    size_t outer, inner;
    uint32_t n;
};

/* x is [outer][in][inner], y [outer][out][inner]; index and weight as in struct uw_take_def. */
struct uw_take {
    size_t outer, inner;
    uint32_t in, out, taps;
    const int32_t *index;
    const float *weight;
};

struct uw_tensor_kernels {
    /* y = a op b */
    int (*arithmetic_fw)(const struct uw_exec *e, const struct uw_arithmetic *g, const float *a,
                         const float *b, float *y);
    /* dx = gradient of operand `which` (0: a), summed over the axes along which it is repeated;
     * accumulate: dx += instead. POW: 0 for b where a <= 0. MIN, MAX: equal operands get half
     * each. */
    int (*arithmetic_bw)(const struct uw_exec *e, const struct uw_arithmetic *g, uint32_t which,
                         const float *a, const float *b, const float *dy, float *dx,
                         bool accumulate);
    /* NaN wins in MAX and MIN. */
    int (*reduce_fw)(const struct uw_exec *e, const struct uw_reduce *r, const float *x, float *y);
    /* NORM: 0 where the norm is 0. */
    int (*reduce_bw)(const struct uw_exec *e, const struct uw_reduce *r, const float *x,
                     const float *y, const float *dy, float *dx, bool accumulate);
    /* y[r][j] = x[r][j] - log(sum over k of e^x[r][k]) */
    int (*log_softmax_fw)(const struct uw_exec *e, size_t rows, uint32_t n, const float *x,
                          float *y);
    /* dx = dy - e^y * sum of dy */
    int (*log_softmax_bw)(const struct uw_exec *e, size_t rows, uint32_t n, const float *y,
                          const float *dy, float *dx);
    int (*take_fw)(const struct uw_exec *e, const struct uw_take *t, const float *x, float *y);
    int (*take_bw)(const struct uw_exec *e, const struct uw_take *t, const float *dy, float *dx,
                   bool accumulate);
};

#endif
