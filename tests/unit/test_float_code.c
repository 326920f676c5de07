/* SPDX-License-Identifier: Apache-2.0
 *
 * The code of floats gives every bit pattern back, never writes past its buffer, and what it reads
 * it would have written. */
#include "test_support.h"

#include "wire/float_code.h"

#include "uwasa/rng.h"

#include <math.h>

#define MOST_N 400u
#define MOST_BYTES (1u + MOST_N * 41u / 8u + 1u)

static float of_bits(uint32_t v)
{
    float x;
    memcpy(&x, &v, sizeof x);
    return x;
}

/* Returns the bytes. */
static uint32_t back_and_forth(const float *x, uint32_t n)
{
    uint8_t *buf = malloc(MOST_BYTES);
    float *out = malloc((n + 1u) * sizeof *out);
    int bytes = uw_float_encode(x, n, buf, MOST_BYTES);
    assert_true(bytes > 0);
    assert_int_equal(uw_float_decode(buf, (uint32_t)bytes, NULL, n), n);
    assert_int_equal(uw_float_decode(buf, (uint32_t)bytes, out, n), n);
    assert_memory_equal(out, x, n * sizeof *x);
    assert_int_equal(uw_float_decode(buf, (uint32_t)bytes, out, n - 1u), UW_ERR_CORRUPT);
    free(buf);
    free(out);
    return (uint32_t)bytes;
}

static void test_every_exponent_beside_every_other(void **state)
{
    (void)state;
    for (uint32_t a = 0; a < 256u; a++) {
        for (uint32_t b = 0; b < 256u; b++) {
            const float x[3] = {of_bits(a << 23 | 0x123456u), of_bits(b << 23 | 0x80765432u),
                                of_bits(a << 23 | 0x80000000u)};
            (void)back_and_forth(x, 3);
        }
    }
}

static void test_odd_numbers_come_back(void **state)
{
    (void)state;
    static const uint32_t odd[] = {0, 0x80000000u, 1, 0x80000001u, 0x007fffffu, 0x00800000u,
                                   0x7f7fffffu, 0x7f800000u, 0xff800000u, 0x7fc00000u, 0x7f800001u,
                                   0xffc12345u, 0xffffffffu, 0x7fbfffffu, 0x3f800000u, 0xbf800001u};
    float x[MOST_N];
    for (uint32_t n = 1; n <= 16u; n++) {
        for (uint32_t from = 0; from < 16u; from++) {
            for (uint32_t i = 0; i < n; i++) {
                x[i] = of_bits(odd[(from + i) % 16u]);
            }
            (void)back_and_forth(x, n);
        }
    }
}

static void test_any_bits_come_back(void **state)
{
    (void)state;
    struct uw_rng rng;
    float x[MOST_N];
    uw_rng_seed(&rng, uw_test_seed(11));
    for (uint32_t run = 0; run < 3000u; run++) {
        uint32_t n = 1u + uw_rng_below(&rng, MOST_N), width = 1u + uw_rng_below(&rng, 255u);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t v = uw_rng_u32(&rng);
            x[i] = of_bits((v & 0x807fffffu) | uw_rng_below(&rng, width) << 23);
        }
        (void)back_and_forth(x, n);
    }
}

/* As weights are: in 28 places of a radio's frame that 25 fit. */
static void test_normal_numbers_take_27_bits(void **state)
{
    (void)state;
    struct uw_rng rng;
    float x[28];
    uint32_t fits = 0;
    uw_rng_seed(&rng, uw_test_seed(12));
    for (uint32_t run = 0; run < 1000u; run++) {
        for (uint32_t i = 0; i < 28u; i++) {
            x[i] = 0.05f * uw_rng_normal(&rng);
        }
        fits += back_and_forth(x, 28) <= 100u;
    }
    printf("%u of 1000 chunks fit\n", (unsigned)fits);
    assert_true(fits > 960u);
}

static void test_what_does_not_fit_is_refused_and_nothing_is_written_past_the_end(void **state)
{
    (void)state;
    float x[20];
    for (uint32_t i = 0; i < 20u; i++) {
        x[i] = ldexpf(1.0f, -(int)(i * 7u));
    }
    uint32_t bytes = back_and_forth(x, 20);
    for (uint32_t cap = 0; cap <= bytes; cap++) {
        uint8_t *buf = malloc(cap + 1u);        /* what is past it, a sanitizer sees */
        buf[cap] = 0xa5;
        assert_int_equal(uw_float_encode(x, 20, buf, cap),
                         cap < bytes ? UW_ERR_TOOBIG : (int)bytes);
        assert_int_equal(buf[cap], 0xa5);
        free(buf);
    }
}

/* Cut, or changed by a bit: refused, or the code of other floats. */
static void test_what_is_read_would_have_been_written(void **state)
{
    (void)state;
    struct uw_rng rng;
    uint32_t refused = 0, read = 0;
    uw_rng_seed(&rng, uw_test_seed(13));
    for (uint32_t run = 0; run < 20000u; run++) {
        uint8_t buf[120], again[120];
        float x[30], out[40];
        for (uint32_t i = 0; i < 30u; i++) {
            x[i] = uw_rng_normal(&rng);
        }
        int bytes = uw_float_encode(x, 30, buf, sizeof buf);
        assert_true(bytes > 0);
        uint32_t left = run % 2u == 0 ? uw_rng_below(&rng, (uint32_t)bytes + 1u) : (uint32_t)bytes;
        uint32_t bit = uw_rng_below(&rng, (uint32_t)bytes * 8u);
        buf[bit / 8u] = (uint8_t)(buf[bit / 8u] ^ (run % 2u != 0) << bit % 8u);
        int n = uw_float_decode(buf, left, out, 40);
        if (n < 0) {
            assert_int_equal(n, UW_ERR_CORRUPT);
            refused++;
            continue;
        }
        read++;
        assert_int_equal(uw_float_encode(out, (uint32_t)n, again, sizeof again), left);
        assert_memory_equal(again, buf, left);
    }
    assert_true(refused > 1000u && read > 1000u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_exponent_beside_every_other),
        cmocka_unit_test(test_odd_numbers_come_back),
        cmocka_unit_test(test_any_bits_come_back),
        cmocka_unit_test(test_normal_numbers_take_27_bits),
        cmocka_unit_test(test_what_does_not_fit_is_refused_and_nothing_is_written_past_the_end),
        cmocka_unit_test(test_what_is_read_would_have_been_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
