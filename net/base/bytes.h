/* SPDX-License-Identifier: Apache-2.0
 *
 * bytes.h - little-endian numbers in a buffer
 */
#ifndef UW_NET_BYTES_H
#define UW_NET_BYTES_H

#include "bits.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

UW_INLINE void uw_put_u16(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

UW_INLINE void uw_put_u24(uint8_t *p, uint32_t v)
{
    uw_put_u16(p, v);
    p[2] = (uint8_t)(v >> 16);
}

UW_INLINE void uw_put_u32(uint8_t *p, uint32_t v)
{
    uw_put_u16(p, v);
    uw_put_u16(p + 2, v >> 16);
}

UW_INLINE uint16_t uw_get_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | (uint32_t)p[1] << 8);
}

UW_INLINE uint32_t uw_get_u24(const uint8_t *p)
{
    return uw_get_u16(p) | (uint32_t)p[2] << 16;
}

UW_INLINE uint32_t uw_get_u32(const uint8_t *p)
{
    return uw_get_u16(p) | (uint32_t)uw_get_u16(p + 2) << 16;
}

static inline void uw_put_u40(uint8_t *p, uint64_t v)
{
    uw_put_u32(p, (uint32_t)v);
    p[4] = (uint8_t)(v >> 32);
}

static inline void uw_put_u64(uint8_t *p, uint64_t v)
{
    uw_put_u32(p, (uint32_t)v);
    uw_put_u32(p + 4, (uint32_t)(v >> 32));
}

static inline uint64_t uw_get_u40(const uint8_t *p)
{
    return uw_get_u32(p) | (uint64_t)p[4] << 32;
}

static inline uint64_t uw_get_u64(const uint8_t *p)
{
    return uw_get_u32(p) | (uint64_t)uw_get_u32(p + 4) << 32;
}

/* Evaluated at compile time. */
static inline bool uw_is_little_endian(void)
{
    const uint16_t one = 1;
    uint8_t first;
    memcpy(&first, &one, 1);
    return first == 1;
}

/* Floats in the wire format: little-endian. */
static inline void uw_put_floats(uint8_t *p, const float *x, uint32_t n)
{
    if (uw_is_little_endian()) {
        memcpy(p, x, n * sizeof *x);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        uw_put_u32(p + i * 4u, bits);
    }
}

static inline void uw_get_floats(float *x, const uint8_t *p, uint32_t n)
{
    if (uw_is_little_endian()) {
        memcpy(x, p, n * sizeof *x);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t bits = uw_get_u32(p + i * 4u);
        memcpy(&x[i], &bits, sizeof bits);
    }
}

#endif
