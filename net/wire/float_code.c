/* SPDX-License-Identifier: Apache-2.0 */
#include "float_code.h"

#include <stdbool.h>
#include <string.h>

#define MANTISSA_BITS 23u
#define PLAIN_BITS 24u              /* sign and mantissa */
#define FLOAT_LEAST_BITS 26u
#define SHORT_MOST 9u               /* largest distance in the short form */
#define EXPONENT_BITS 8u

struct bits {
    uint64_t held;                  /* the lowest held_n bits of it wait */
    uint32_t held_n, at, bytes;
    uint8_t *to;
    const uint8_t *from;
};

static void put(struct bits *b, uint32_t value, uint32_t n)
{
    b->held = b->held << n | value;
    for (b->held_n += n; b->held_n >= 8u; b->held_n -= 8u, b->at++) {
        if (b->at < b->bytes) {
            b->to[b->at] = (uint8_t)(b->held >> (b->held_n - 8u));
        }
    }
}

/* Read n bits, up to 24; false: not enough left. */
static bool get(struct bits *b, uint32_t n, uint32_t *value)
{
    for (; b->held_n < n && b->at < b->bytes; b->held_n += 8u) {
        b->held = b->held << 8 | b->from[b->at++];
    }
    if (b->held_n < n) {
        return false;
    }
    b->held_n -= n;
    *value = (uint32_t)(b->held >> b->held_n) & (((uint32_t)1 << n) - 1u);
    return true;
}

static uint32_t pattern(const float *x)
{
    uint32_t v;
    memcpy(&v, x, sizeof v);
    return v;
}

static uint32_t exponent_of(uint32_t v)
{
    return v >> MANTISSA_BITS & 255u;
}

static void put_below(struct bits *b, uint32_t below, uint32_t exponent)
{
    if (below <= 2u) {
        put(b, below, 2);
    } else if (below <= SHORT_MOST) {
        put(b, ((uint32_t)1 << below) - 2u, below);     /* ones, and a zero */
    } else {
        put(b, ((uint32_t)1 << SHORT_MOST) - 1u, SHORT_MOST);
        put(b, exponent, EXPONENT_BITS);
    }
}

int uw_float_encode(const float *x, uint32_t n, uint8_t *buf, uint32_t cap_bytes)
{
    struct bits b = {.to = buf, .bytes = cap_bytes};
    uint32_t top = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t exponent = exponent_of(pattern(&x[i]));
        top = exponent > top ? exponent : top;
    }
    put(&b, top, EXPONENT_BITS);
    for (uint32_t i = 0; i < n && b.at <= cap_bytes; i++) {
        uint32_t v = pattern(&x[i]), exponent = exponent_of(v);
        put(&b, (v >> 31 << MANTISSA_BITS) | (v & (((uint32_t)1 << MANTISSA_BITS) - 1u)),
            PLAIN_BITS);
        put_below(&b, top - exponent, exponent);
    }
    put(&b, 0, (8u - b.held_n) % 8u);
    return b.at <= cap_bytes ? (int)b.at : UW_ERR_TOOBIG;
}

/* Read the distance of the next exponent from top; false: malformed. */
static bool get_below(struct bits *b, uint32_t top, uint32_t *below)
{
    uint32_t bit, exponent;
    if (!get(b, 2, below)) {
        return false;
    }
    if (*below < 3u) {
        return *below <= top;
    }
    for (*below = 3; get(b, 1, &bit); (*below)++) {
        if (bit == 0) {
            return *below <= top;
        }
        if (*below == SHORT_MOST) {
            bool far = get(b, EXPONENT_BITS, &exponent) && exponent + SHORT_MOST < top;
            *below = far ? top - exponent : 0;
            return far;
        }
    }
    return false;
}

/* Is the rest only the zero padding of the last byte? */
static bool is_end(struct bits *b)
{
    uint32_t rest = b->held_n + (b->bytes - b->at) * 8u, zero = 1;
    return rest < 8u && get(b, rest, &zero) && zero == 0;
}

int uw_float_decode(const uint8_t *buf, uint32_t bytes, float *out, uint32_t cap_n)
{
    struct bits b = {.from = buf, .bytes = bytes};
    uint32_t top, n = 0, plain, below;
    bool at_top = false;
    if (!get(&b, EXPONENT_BITS, &top)) {
        return UW_ERR_CORRUPT;
    }
    while (b.held_n + (b.bytes - b.at) * 8u >= FLOAT_LEAST_BITS) {
        if (n == cap_n || !get(&b, PLAIN_BITS, &plain) || !get_below(&b, top, &below)) {
            return UW_ERR_CORRUPT;
        }
        uint32_t v = plain >> MANTISSA_BITS << 31 | (top - below) << MANTISSA_BITS |
                     (plain & (((uint32_t)1 << MANTISSA_BITS) - 1u));
        if (out != NULL) {
            memcpy(&out[n], &v, sizeof v);
        }
        at_top = at_top || below == 0;
        n++;
    }
    return at_top && is_end(&b) ? (int)n : UW_ERR_CORRUPT;
}
