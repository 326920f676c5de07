/* SPDX-License-Identifier: Apache-2.0
 *
 * bits.h - integer helpers, and bitmaps of one word or many
 */
#ifndef UW_NET_BITS_H
#define UW_NET_BITS_H

#include <stdbool.h>
#include <stdint.h>

/* For functions of one or two instructions, which a compiler optimising for size would call. */
#define UW_INLINE static inline __attribute__((always_inline))

static inline uint32_t uw_min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static inline uint32_t uw_max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static inline uint64_t uw_min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t uw_max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
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
    uint32_t bit = 0, half = (uint32_t)v;
    if (half == 0) {
        bit = 32;
        half = (uint32_t)(v >> 32);
    }
    for (; (half & 1u) == 0; half >>= 1) {
        bit++;
    }
    return bit;
}

/* Chunks of chunk_n that n floats make, the last one perhaps smaller. */
static inline uint32_t uw_chunks_in(uint32_t n, uint32_t chunk_n)
{
    return n / chunk_n + (n % chunk_n != 0);
}

/* The lowest n bits. */
static inline uint64_t uw_low_mask(uint32_t n)
{
    return n < 64u ? ((uint64_t)1 << n) - 1u : UINT64_MAX;
}

static inline bool uw_set_has(const uint32_t *words, uint32_t i)
{
    return (words[i / 32u] >> (i % 32u) & 1u) != 0;
}

static inline void uw_set_add(uint32_t *words, uint32_t i)
{
    words[i / 32u] |= (uint32_t)1 << (i % 32u);
}

static inline void uw_set_remove(uint32_t *words, uint32_t i)
{
    words[i / 32u] &= ~((uint32_t)1 << (i % 32u));
}

static inline void uw_set_put(uint32_t *words, uint32_t i, bool on)
{
    if (on) {
        uw_set_add(words, i);
    } else {
        uw_set_remove(words, i);
    }
}

/* Words for a set of 0 .. n - 1. */
static inline uint32_t uw_set_words(uint32_t n)
{
    return (n + 31u) / 32u;
}

/* The first member >= i, or n: none. */
static inline uint32_t uw_set_next(const uint32_t *words, uint32_t n, uint32_t i)
{
    for (; i < n; i = (i / 32u + 1u) * 32u) {
        uint32_t bits = words[i / 32u] >> i % 32u;
        if (bits != 0) {
            return i + uw_lowest_bit(bits);
        }
    }
    return n;
}

/* Insert a number into n numbers in ascending order. */
static inline void uw_insert_u32(uint32_t *sorted, uint32_t n, uint32_t x)
{
    for (; n > 0 && sorted[n - 1u] > x; n--) {
        sorted[n] = sorted[n - 1u];
    }
    sorted[n] = x;
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
