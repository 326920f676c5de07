/* SPDX-License-Identifier: Apache-2.0
 *
 * products.h - what the stand-ins of cuBLAS and cuDNN share: sums in double, TF32
 *
 * The libraries add up in an order of their own for each size, each algorithm and each alignment of
 * addresses; who counts on the same bits of two of them finds it here: results are rounded up, down
 * or to the nearest by a hash of these. What is no rounding, as of whole numbers, is exact. */
#ifndef UW_EMULATED_PRODUCTS_H
#define UW_EMULATED_PRODUCTS_H

#include "runtime.h"

#include <initializer_list>
#include <math.h>
#include <vector>

static inline unsigned way_of(std::initializer_list<size_t> sizes,
                              std::initializer_list<const void *> addresses)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t n : sizes) {
        hash = (hash ^ n) * 0x100000001b3u;
    }
    for (const void *at : addresses) {
        hash = (hash ^ (reinterpret_cast<uintptr_t>(at) % 16u)) * 0x100000001b3u;
    }
    return static_cast<unsigned>((hash >> 32) % 3u);
}

static inline float rounded(double v, unsigned way)
{
    float nearest = static_cast<float>(v);
    double is = static_cast<double>(nearest);
    if (way == 1 && is < v) {
        return nextafterf(nearest, INFINITY);
    }
    return way == 2 && is > v ? nextafterf(nearest, -INFINITY) : nearest;
}

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
static inline void blend(float *out, float alpha, double sum, float beta, unsigned way)
{
    double v = static_cast<double>(alpha) * sum;
    *out = rounded(beta == 0.0f ? v : v + static_cast<double>(beta) * static_cast<double>(*out),
                   way);
}

#endif
