/* SPDX-License-Identifier: Apache-2.0
 *
 * exp, log, tanh and erf over the whole range of float: error against the C library's double
 * functions, order of neighbours, NaN; and the tail of the normal distribution.
 * UWASA_TEST_EVERY_FLOAT=1 takes every float, minutes. */
#include "test_support.h"

#include "uwasa/fmath.h"

#define STRIDE 5003u                /* prime: fractions and exponents mix */
#define INFINITY_BITS 0x7f800000u

static float from_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Error in units of the last place of the float that want lies at. */
static double ulps(float got, double want)
{
    int exponent;
    if (isinf(got) || isinf(want)) {
        return (double)got == want || fabs(want) > 0x1.ffffffp127 ? 0.0 : HUGE_VAL;
    }
    frexp(want, &exponent);
    exponent = exponent - 24 < -149 ? -149 : exponent - 24;
    return fabs((double)got - want) / ldexp(1.0, exponent);
}

struct function {
    const char *name;
    float (*ours)(float);
    double (*theirs)(double);
    double bound;                   /* ulp */
    double fall;                    /* ulp that a neighbour may lie on the wrong side */
};

static void check(const struct function *f, uint32_t sign)
{
    uint32_t stride = getenv("UWASA_TEST_EVERY_FLOAT") != NULL ? 1 : STRIDE;
    for (uint32_t bits = 0; bits < INFINITY_BITS; bits += stride) {
        float x = from_bits(bits | sign), next = from_bits((bits + 1) | sign);
        float y = f->ours(x), y_next = f->ours(next);
        if (isnan(f->theirs((double)x))) {
            assert_true(isnan(y));
            continue;
        }
        double error = ulps(y, f->theirs((double)x));
        if (!(error <= f->bound)) {
            fail_msg("%s(%a) is %a, %.3f ulp off", f->name, (double)x, (double)y, error);
        }
        double rise = sign == 0 ? (double)y_next - (double)y : (double)y - (double)y_next;
        if (rise < 0.0 && !(ulps(y_next, (double)y) <= f->fall)) {
            fail_msg("%s falls between %a and %a", f->name, (double)x, (double)next);
        }
    }
    assert_true(isnan(f->ours(from_bits((INFINITY_BITS + 1) | sign))));
}

static void test_fmath_stays_within_its_bound_and_rises(void **state)
{
    (void)state;
    static const struct function functions[] = {{"exp", uw_expf, exp, 1.0, 0.0},
                                                {"log", uw_logf, log, 1.0, 0.0},
                                                {"tanh", uw_tanhf, tanh, 1.5, 0.0},
                                                {"erf", uw_erff, erf, 1.5, 1.0}};
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        check(&functions[i], 0);
        check(&functions[i], 0x80000000u);
    }
}

static void test_fmath_odd_functions_are_odd(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits <= INFINITY_BITS; bits += STRIDE) {
        float x = from_bits(bits);
        assert_true(uw_tanhf(-x) == -uw_tanhf(x) && uw_erff(-x) == -uw_erff(x));
        assert_true(fabsf(uw_tanhf(x)) <= 1.0f && fabsf(uw_erff(x)) <= 1.0f);
    }
}

static void test_fmath_tail_of_the_normal_distribution(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits <= INFINITY_BITS; bits += STRIDE) {
        float a = from_bits(bits), density, tail = uw_normal_tail(a, &density);
        double want = 0.5 * erfc((double)a * sqrt(0.5)), of = exp(-0.5 * (double)a * (double)a);
        double bound = a > 13.0f ? 2e-37 : fmin(1.5e-7, 2e-7 * (1.0 + (double)a * (double)a) * of);
        if (!(fabs((double)tail - want) <= bound && fabs((double)density - of) <= 2.0 * bound)) {
            fail_msg("tail of %a: %a, %g off; density %g off", (double)a, (double)tail,
                     (double)tail - want, (double)density - of);
        }
    }
    float density;
    assert_true(isnan(uw_normal_tail(NAN, &density)) && isnan(density));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fmath_stays_within_its_bound_and_rises),
        cmocka_unit_test(test_fmath_odd_functions_are_odd),
        cmocka_unit_test(test_fmath_tail_of_the_normal_distribution),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
