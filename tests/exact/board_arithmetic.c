/* SPDX-License-Identifier: Apache-2.0
 *
 * What boards/cortex_m/arithmetic.c puts in the place of the compiler's own: 64-bit division, and
 * 64-bit integers as floats and doubles, rounded to the nearest, ties to even. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int failures;

static void expect(int good, const char *what, uint64_t x, uint64_t y)
{
    if (!good && failures++ < 10) {
        printf("%s: %08" PRIx32 "%08" PRIx32 ", %08" PRIx32 "%08" PRIx32 "\n", what,
               (uint32_t)(x >> 32), (uint32_t)x, (uint32_t)(y >> 32), (uint32_t)y);
    }
}

/* The bits of x as a number with `kept` bits of mantissa and an exponent with this bias. */
static uint64_t rounded(uint64_t x, unsigned kept, unsigned bias)
{
    unsigned top = 63;
    if (x == 0) {
        return 0;
    }
    while (!(x >> top & 1u)) {
        top--;
    }
    uint64_t bits = (uint64_t)(bias + top) << kept;
    if (top <= kept) {
        return bits + ((x << (kept - top)) & ((1ull << kept) - 1u));
    }
    unsigned lost = top - kept;
    uint64_t mantissa = x >> lost, rest = x & ((1ull << lost) - 1u), half = 1ull << (lost - 1u);
    if (rest > half || (rest == half && (mantissa & 1u))) {
        mantissa++;
    }
    return bits + (mantissa - (1ull << kept));
}

static void convert(volatile uint64_t x)
{
    float f = (float)x;
    double d = (double)x;
    uint32_t f_bits;
    uint64_t d_bits;
    memcpy(&f_bits, &f, sizeof f);
    memcpy(&d_bits, &d, sizeof d);
    expect(f_bits == rounded(x, 23, 127), "float", x, f_bits);
    expect(d_bits == rounded(x, 52, 1023), "double", x, d_bits);
}

static void divide(volatile uint64_t x, volatile uint64_t y)
{
    uint64_t quotient = x / y, rest = x % y;
    expect(rest < y && quotient * y + rest == x && quotient <= x, "division", x, y);
}

int main(void)
{
    uint64_t state = 1, before = 3;
    for (unsigned i = 0; i < 20000; i++) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        uint64_t x = (state ^ state >> 29) >> (i % 64u);
        uint64_t edge = 1ull << (i % 64u);
        convert(x);
        convert(edge);
        convert(edge - 1u);
        convert(edge + (x & 3u));
        convert(x & ~(edge - 1u));
        convert((x & ~(edge - 1u)) | edge >> 1);
        divide(x, before | 1u);
        divide(x, edge);
        divide(edge - 1u, x | 1u);
        divide(UINT64_MAX, x | 1u);
        before = x;
    }
    convert(UINT64_MAX);
    divide(0, 1);
    divide(UINT64_MAX, UINT64_MAX);
    printf("board_arithmetic: %d wrong\n", failures);
    return failures != 0;
}
