/* SPDX-License-Identifier: Apache-2.0
 *
 * products.h - what the stand-ins of cuBLAS and cuDNN share: sums in double, TF32 */
#ifndef UW_EMULATED_PRODUCTS_H
#define UW_EMULATED_PRODUCTS_H

#include "runtime.h"

#include <vector>

/* Ten bits of mantissa, to the nearest. */
static inline float to_tf32(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7f800000u) != 0x7f800000u) {
        bits = (bits + 0x1000u) & ~0x1fffu;
    }
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline void to_tf32(std::vector<float> *x)
{
    for (float &v : *x) {
        v = to_tf32(v);
    }
}

/* sum of a[i] * b[i], in double */
static inline double dot(const float *a, const float *b, size_t n)
{
    double sums[8] = {0.0}, sum = 0.0;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        for (size_t l = 0; l < 8; l++) {
            sums[l] += static_cast<double>(a[i + l]) * static_cast<double>(b[i + l]);
        }
    }
    for (; i < n; i++) {
        sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    }
    for (double s : sums) {
        sum += s;
    }
    return sum;
}

/* alpha * sum + beta * what *out has; which is not read when beta is 0 */
static inline void blend(float *out, float alpha, double sum, float beta)
{
    double v = static_cast<double>(alpha) * sum;
    *out = static_cast<float>(
        beta == 0.0f ? v : v + static_cast<double>(beta) * static_cast<double>(*out));
}

#endif
