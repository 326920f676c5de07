/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/fmath.h - elementary functions with the same bits on every target
 *
 * C libraries differ in the last bit of expf and logf, even between multilibs of one library. These
 * functions use only IEEE add, multiply, divide and integer operations in a fixed order. The error
 * of exp and log is below 1 unit in the last place, that of tanh and erf below 1.5 (tested at every
 * third float, or at all); that of sine and cosine is 2e-7. exp, log and tanh are monotonic; erf
 * falls by one unit in a few places.
 *
 * Blocking   never          Context  any thread
 */
#ifndef UWASA_FMATH_H
#define UWASA_FMATH_H

#include "uwasa/cplusplus.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

UW_C_BEGIN

/* e^x. 0 below about -103.97, infinity above about 88.72, NaN for NaN. */
float uw_expf(float x);

/* Natural logarithm. -infinity at 0, NaN below 0 and for NaN. */
float uw_logf(float x);

/* Square root, correctly rounded. NaN below 0. */
float uw_sqrtf(float x);

/* Sine and cosine; |x| up to 8192 keeps the error bound (larger arguments lose precision). */
float uw_sinf(float x);
float uw_cosf(float x);

/* x^y: exact multiplications for whole y up to 64, square roots for y of 0.5 and -0.5, else
 * e^(y log x), NaN for x below 0. */
float uw_powf(float x, float y);

/* x^n by squaring. */
double uw_power(double x, uint64_t n);

/* Hyperbolic tangent. */
float uw_tanhf(float x);

/* Error function. NaN for NaN. */
float uw_erff(float x);

/* Share of the standard normal distribution above a >= 0, and e^(-a^2 / 2). Both are 0 above 13,
 * where they would be below 2e-37. NaN for NaN. */
float uw_normal_tail(float a, float *exponential);

/* Are all x[n] finite? Also works with compilers that assume so. */
bool uw_all_finite(const float *x, size_t n);

UW_C_END
#endif
