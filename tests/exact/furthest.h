/* SPDX-License-Identifier: Apache-2.0
 *
 * How far two models are apart, without the C library's mathematics. */
#ifndef UW_TEST_FURTHEST_H
#define UW_TEST_FURTHEST_H

#include <stdint.h>

/* The largest |x[i] - y[i]|.   x, y  [n]  read */
static inline float furthest(const float *x, const float *y, uint32_t n)
{
    float most = 0.0f;
    for (uint32_t i = 0; i < n; i++) {
        float d = x[i] - y[i];
        d = d < 0.0f ? -d : d;
        most = d > most ? d : most;
    }
    return most;
}

#endif
