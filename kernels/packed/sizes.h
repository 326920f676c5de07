/* SPDX-License-Identifier: Apache-2.0
 *
 * sizes.h - integer helpers for block and scratch sizes
 */
#ifndef UW_KERNELS_SIZES_H
#define UW_KERNELS_SIZES_H

#include "uwasa/arena.h"

#include <stddef.h>
#include <stdint.h>

static inline uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static inline uint32_t max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static inline uint32_t div_up(uint32_t a, uint32_t b)
{
    return a / b + (a % b != 0 ? 1u : 0u);
}

static inline uint32_t round_up(uint32_t a, uint32_t unit)
{
    return div_up(a, unit) * unit;
}

/* The least n > 0 for which n * of is a multiple of unit. */
static inline uint32_t least_multiple(uint32_t unit, uint32_t of)
{
    uint32_t a = unit, b = of;
    while (b != 0) {
        uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return unit / a;
}

static inline size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Bytes of n floats in scratch, padded to the arena's alignment. */
static inline size_t area_bytes(size_t n)
{
    return uw_arena_padded(uw_size_mul(n, sizeof(float)));
}

#endif
