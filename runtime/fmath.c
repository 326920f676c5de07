/* SPDX-License-Identifier: Apache-2.0
 *
 * Argument reduction by Cody and Waite's constants in two or three parts, then a minimax
 * polynomial. The build forbids contraction into fused multiply-adds in this file. */
#include "uwasa/fmath.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

static float from_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static uint32_t to_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

/* x * 2^n for n in -252 .. 254, with one rounding when the result is subnormal. */
static float scale_by_power(float x, int32_t n)
{
    if (n > 127) {
        return x * 0x1p127f * from_bits((uint32_t)n << 23);
    }
    if (n < -126) {
        return x * from_bits((uint32_t)(n + 126 + 127) << 23) * 0x1p-126f;
    }
    return x * from_bits((uint32_t)(n + 127) << 23);
}

float uw_expf(float x)
{
    if (x != x) {
        return x;
    }
    if (x > 88.8f) {
        return INFINITY;
    }
    if (x < -104.0f) {
        return 0.0f;
    }
    float t = x * 1.44269504f;
    int32_t n = (int32_t)(t + (t < 0.0f ? -0.5f : 0.5f));
    float nf = (float)n;
    /* ln 2 in two parts; the first has 9 significant bits, so its product with nf is exact. */
    float r = (x - nf * 0.693359375f) - nf * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    float e = (p * r) * r + r + 1.0f;
    return scale_by_power(e, n);
}

float uw_logf(float x)
{
    if (x != x || x < 0.0f) {
        return NAN;
    }
    if (x == 0.0f) {
        return -INFINITY;
    }
    if (isinf(x)) {
        return x;
    }
    int32_t exponent = 0;
    if (x < 0x1p-126f) {
        x *= 0x1p24f;
        exponent = -24;
    }
    uint32_t bits = to_bits(x);
    exponent += (int32_t)(bits >> 23) - 126;
    float m = from_bits((bits & 0x007fffffu) | 0x3f000000u); /* [0.5, 1) */
    if (m < 0.707106781f) {
        m = m + m;
        exponent--;
    }
    m -= 1.0f;
    float z = m * m;
    float p = 7.0376836292e-2f;
    p = p * m - 1.1514610310e-1f;
    p = p * m + 1.1676998740e-1f;
    p = p * m - 1.2420140846e-1f;
    p = p * m + 1.4249322787e-1f;
    p = p * m - 1.6668057665e-1f;
    p = p * m + 2.0000714765e-1f;
    p = p * m - 2.4999993993e-1f;
    p = p * m + 3.3333331174e-1f;
    float e = (float)exponent;
    float y = (m * z) * p;
    y += e * -2.12194440e-4f;
    y -= 0.5f * z;
    return (m + y) + e * 0.693359375f;
}

float uw_sqrtf(float x)
{
    return sqrtf(x); /* IEEE 754 requires the correctly rounded result everywhere */
}

float uw_powf(float x, float y)
{
    float size = y < 0.0f ? -y : y;
    if (size <= 64.0f && (float)(uint32_t)size == size) {
        double p = uw_power((double)x, (uint64_t)size);
        return (float)(y < 0.0f ? 1.0 / p : p);
    }
    if (size == 0.5f) {
        return y < 0.0f ? 1.0f / uw_sqrtf(x) : uw_sqrtf(x);
    }
    return x == 0.0f ? (y > 0.0f ? 0.0f : INFINITY) : uw_expf(y * uw_logf(x));
}

/* sin and cos on [-pi/4, pi/4]. */
static float sin_core(float r)
{
    float z = r * r;
    float p = -1.9515295891e-4f;
    p = p * z + 8.3321608736e-3f;
    p = p * z - 1.6666654611e-1f;
    return (p * z) * r + r;
}

static float cos_core(float r)
{
    float z = r * r;
    float p = 2.443315711809948e-5f;
    p = p * z - 1.388731625493765e-3f;
    p = p * z + 4.166664568298827e-2f;
    return ((p * z) * z - 0.5f * z) + 1.0f;
}

/* Subtract a multiple of pi/2, in three parts, from |x|; *quadrant is the multiple modulo 4. */
static float reduce(float x, uint32_t *quadrant)
{
    float t = x * 0.636619772f;
    int32_t n = (int32_t)(t + (t < 0.0f ? -0.5f : 0.5f));
    float nf = (float)n;
    *quadrant = (uint32_t)n & 3u;
    return ((x - nf * 1.5703125f) - nf * 4.837512969970703e-4f) - nf * 7.549789948768648e-8f;
}

static float sin_shifted(float x, uint32_t shift)
{
    if (!(fabsf(x) < 1e9f)) {
        return NAN;
    }
    uint32_t quadrant;
    float r = reduce(x, &quadrant);
    quadrant = (quadrant + shift) & 3u;
    float y = (quadrant & 1u) != 0 ? cos_core(r) : sin_core(r);
    return (quadrant & 2u) != 0 ? -y : y;
}

float uw_sinf(float x)
{
    return sin_shifted(x, 0);
}

float uw_cosf(float x)
{
    return sin_shifted(x, 1);
}

double uw_power(double x, uint64_t n)
{
    double result = 1.0;
    for (; n > 0; n >>= 1) {
        result = (n & 1u) != 0 ? result * x : result;
        x *= x;
    }
    return result;
}

float uw_tanhf(float x)
{
    float a = fabsf(x);
    if (x != x) {
        return x;
    }
    if (a > 9.1f) {
        return x < 0.0f ? -1.0f : 1.0f;
    }
    if (a < 0.625f) {
        float z = x * x;
        float p = -5.70498872745e-3f;
        p = p * z + 2.06390887954e-2f;
        p = p * z - 5.37397155531e-2f;
        p = p * z + 1.33314422036e-1f;
        p = p * z - 3.33332819422e-1f;
        return (p * z) * x + x;
    }
    float y = 1.0f - 2.0f / (uw_expf(2.0f * a) + 1.0f);
    return x < 0.0f ? -y : y;
}

/* Up to 0.9: x times a polynomial in x^2. Above: 1 - exp(-q(x)), q a polynomial fitted to
 * -log(erfc(x)); from 3.95 on the nearest float is 1. */
float uw_erff(float x)
{
    float a = fabsf(x);
    if (x != x) {
        return x;
    }
    if (a < 0.9f) {
        float z = x * x;
        float p = 8.5341205704e-5f;
        p = p * z - 8.1807811512e-4f;
        p = p * z + 5.2043315955e-3f;
        p = p * z - 2.6860708371e-2f;
        p = p * z + 1.1283718795e-1f;
        p = p * z - 3.7612634897e-1f;
        return x + x * (1.2837916613e-1f + z * p);
    }
    if (a > 3.95f) {
        return x < 0.0f ? -1.0f : 1.0f;
    }
    float q = -1.6242348693e-6f;
    q = q * a + 4.5774933824e-5f;
    q = q * a - 5.9417984448e-4f;
    q = q * a + 4.7461520880e-3f;
    q = q * a - 2.6379637420e-2f;
    q = q * a + 1.1000113934e-1f;
    q = q * a + 6.3191628456e-1f;
    q = q * a + 1.1301769018f;
    q = q * a - 3.0524755130e-4f;
    float y = 1.0f - uw_expf(-q);
    return x < 0.0f ? -y : y;
}

bool uw_all_finite(const float *x, size_t n)
{
    uint32_t bad = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bad |= (bits & 0x7f800000u) == 0x7f800000u;
    }
    return bad == 0;
}

/* A quotient of polynomials, fitted to e^(a^2 / 2) (1 - Phi(a)), times e^(-a^2 / 2). */
float uw_normal_tail(float a, float *exponential)
{
    float b = a > 13.0f ? 13.0f : a;
    *exponential = a > 13.0f ? 0.0f : uw_expf((-0.5f * b) * b);
    float p = 1.037720876e-2f;
    p = p * b + 8.872175791e-2f;
    p = p * b + 3.027056449e-1f;
    p = p * b + 0.5f;
    float q = 2.608092976e-2f;
    q = q * b + 2.210613046e-1f;
    q = q * b + 7.971134664e-1f;
    q = q * b + 1.403295721f;
    q = q * b + 1.0f;
    return (*exponential * p) / q;
}
