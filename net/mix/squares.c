/* SPDX-License-Identifier: Apache-2.0 */
#include "squares.h"

#include "base/bits.h"

#define LANES 8u

/* Sums of squares of a, or (apart) of a - b, in independent lanes. */
UW_INLINE double sum(const float *a, const float *b, uint32_t n, bool apart)
{
    double lane[LANES] = {0.0}, rest = 0.0;
    uint32_t i = 0;
    for (; n - i >= LANES; i += LANES) {
        for (uint32_t k = 0; k < LANES; k++) {
            double d = apart ? (double)a[i + k] - (double)b[i + k] : (double)a[i + k];
            lane[k] += d * d;
        }
    }
    for (; i < n; i++) {
        double d = apart ? (double)a[i] - (double)b[i] : (double)a[i];
        rest += d * d;
    }
    for (uint32_t k = 0; k < LANES; k++) {
        rest += lane[k];
    }
    return rest;
}

double uw_squares(const float *x, uint32_t n)
{
    return sum(x, x, n, false);
}

double uw_squares_apart(const float *a, const float *b, uint32_t n)
{
    return sum(a, b, n, true);
}
