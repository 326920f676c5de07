/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/half.h - floats of 16 bits, as files have them, as float
 *
 * Both are exact: every number of 16 bits is a float. A NaN stays a NaN.
 *
 * Blocking   never      Context  any
 * Source     IEEE 754 binary16; bfloat16 is the upper half of a binary32
 */
#ifndef UWASA_HALF_H
#define UWASA_HALF_H

#include <stdint.h>
#include <string.h>

/* A binary16 as float. */
static inline float uw_float_of_half(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = half >> 10 & 31u;
    uint32_t fraction = half & 0x3ffu, word;
    float f;
    if (exponent == 0) { /* zero, or fraction * 2^-24, which a float has as a normal number */
        f = (float)fraction * 0x1p-24f;
        memcpy(&word, &f, sizeof word);
        word |= sign;
    } else {
        word = sign | (exponent == 31 ? 255u : exponent + 112u) << 23 | fraction << 13;
    }
    memcpy(&f, &word, sizeof f);
    return f;
}

/* A bfloat16 as float. */
static inline float uw_float_of_bfloat(uint16_t half)
{
    uint32_t word = (uint32_t)half << 16;
    float f;
    memcpy(&f, &word, sizeof f);
    return f;
}

#endif
