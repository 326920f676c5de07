/* SPDX-License-Identifier: Apache-2.0 */
#include "squares.h"

#define LANES 8u

/* Sums of squares, in parts that do not wait for each other. */
static double add_up(const double part[LANES], double rest)
{
    for (uint32_t k = 0; k < LANES; k++) {
        rest += part[k];
    }
    return rest;
}

double uw_squares(const float *x, uint32_t n)
{
    double part[LANES] = {0.0}, rest = 0.0;
    uint32_t i = 0;
    for (; n - i >= LANES; i += LANES) {
        for (uint32_t k = 0; k < LANES; k++) {
            part[k] += (double)x[i + k] * (double)x[i + k];
        }
    }
    for (; i < n; i++) {
        rest += (double)x[i] * (double)x[i];
    }
    return add_up(part, rest);
}

double uw_squares_apart(const float *a, const float *b, uint32_t n)
{
    double part[LANES] = {0.0}, rest = 0.0;
    uint32_t i = 0;
    for (; n - i >= LANES; i += LANES) {
        for (uint32_t k = 0; k < LANES; k++) {
            double d = (double)a[i + k] - (double)b[i + k];
            part[k] += d * d;
        }
    }
    for (; i < n; i++) {
        double d = (double)a[i] - (double)b[i];
        rest += d * d;
    }
    return add_up(part, rest);
}
