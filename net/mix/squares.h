/* SPDX-License-Identifier: Apache-2.0
 *
 * squares.h - sums of squares, of a vector and of a difference, in double
 *
 * Blocking   never      Context  any thread
 */
#ifndef UW_NET_SQUARES_H
#define UW_NET_SQUARES_H

#include <stdint.h>

/* sum of x[i]^2 over n */
double uw_squares(const float *x, uint32_t n);

/* sum of (a[i] - b[i])^2 over n */
double uw_squares_apart(const float *a, const float *b, uint32_t n);

#endif
