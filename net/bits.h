/* SPDX-License-Identifier: Apache-2.0
 *
 * bits.h - whole numbers and sets of up to 64 chunks
 */
#ifndef UW_NET_BITS_H
#define UW_NET_BITS_H

#include <stdint.h>

static inline uint32_t uw_min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static inline uint64_t uw_min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint32_t uw_bits_in(uint64_t v)
{
    uint32_t n = 0;
    for (; v != 0; v &= v - 1u) {
        n++;
    }
    return n;
}

/* The lowest bit that is set; v is not 0. */
static inline uint32_t uw_lowest_bit(uint64_t v)
{
    uint32_t bit = 0;
    for (uint32_t half = 32; half > 0; half /= 2) {
        if ((v >> bit & (((uint64_t)1 << half) - 1u)) == 0) {
            bit += half;
        }
    }
    return bit;
}

/* The largest power of two in n is 1 << this; n is not 0. */
static inline uint32_t uw_log2_down(uint32_t n)
{
    uint32_t log = 0;
    while (n >>= 1) {
        log++;
    }
    return log;
}

/* Steps of 1, 2, 4 .. that reach n, 1 <= n <= 2^31. */
static inline uint32_t uw_log2_up(uint32_t n)
{
    return n > 1 ? uw_log2_down(n - 1) + 1 : 0;
}

#endif
