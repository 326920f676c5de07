/* SPDX-License-Identifier: Apache-2.0
 *
 * What boards write numbers and sentences with (boards/cortex_m/format.c, built here under other
 * names) against the C library's. */
#include "test_support.h"

#include "uwasa/rng.h"

#include <limits.h>
#include <stdarg.h>

int uw_board_snprintf(char *restrict text, size_t bytes, const char *restrict format, ...)
    __attribute__((format(printf, 3, 4)));
int uw_board_vsnprintf(char *restrict text, size_t bytes, const char *restrict format, va_list list)
    __attribute__((format(printf, 3, 0)));

static struct uw_rng rng;

/* Both, with room for less and less of the sentence. A function and not a macro: sanitized, three
 * hundred copies of it in one function took minutes to compile. */
__attribute__((format(printf, 2, 3))) static void same(const char *call, const char *format, ...)
{
    for (size_t cap = 0; cap < 48u; cap += cap < 12u ? 1u : 35u) {
        char ours[64], theirs[64];
        va_list list;
        memset(ours, 0x5a, sizeof ours);
        memset(theirs, 0x5a, sizeof theirs);
        va_start(list, format);
        int a = uw_board_vsnprintf(ours, cap, format, list);
        va_end(list);
        va_start(list, format);
        int b = vsnprintf(theirs, cap, format, list);
        va_end(list);
        if (a != b || memcmp(ours, theirs, sizeof ours) != 0) {
            fail_msg("%s: \"%.*s\" (%d) instead of \"%.*s\" (%d), %zu bytes", call, (int)cap, ours,
                     a, (int)cap, theirs, b, cap);
        }
    }
}

#define SAME(...) same(#__VA_ARGS__, __VA_ARGS__)

#define SAME_FIELDS(LENGTH, LETTER, VALUE)      \
    do {                                        \
        SAME("%" LENGTH LETTER, VALUE);         \
        SAME("%3" LENGTH LETTER "|", VALUE);    \
        SAME("%12" LENGTH LETTER "|", VALUE);   \
        SAME("%-12" LENGTH LETTER "|", VALUE);  \
        SAME("%012" LENGTH LETTER, VALUE);      \
        SAME("%-5" LENGTH LETTER "|", VALUE);   \
        SAME("%.0" LENGTH LETTER "|", VALUE);   \
        SAME("%.5" LENGTH LETTER, VALUE);       \
        SAME("%9.5" LENGTH LETTER "|", VALUE);  \
        SAME("%-9.5" LENGTH LETTER "|", VALUE); \
    } while (0)

#define SAME_LENGTHS(VALUE)                                    \
    do {                                                       \
        SAME_FIELDS("", "d", (int)(VALUE));                    \
        SAME_FIELDS("", "i", (int)(VALUE));                    \
        SAME_FIELDS("", "u", (unsigned)(VALUE));               \
        SAME_FIELDS("", "x", (unsigned)(VALUE));               \
        SAME_FIELDS("l", "d", (long)(VALUE));                  \
        SAME_FIELDS("l", "u", (unsigned long)(VALUE));         \
        SAME_FIELDS("ll", "d", (long long)(VALUE));            \
        SAME_FIELDS("ll", "u", (unsigned long long)(VALUE));   \
        SAME_FIELDS("ll", "x", (unsigned long long)(VALUE));   \
        SAME_FIELDS("z", "u", (size_t)(VALUE));                \
        SAME_FIELDS("h", "d", (short)(VALUE));                 \
        SAME_FIELDS("h", "u", (unsigned short)(VALUE));        \
        SAME_FIELDS("hh", "d", (signed char)(VALUE));          \
        SAME_FIELDS("hh", "u", (unsigned char)(VALUE));        \
        SAME_FIELDS("hh", "x", (unsigned char)(VALUE));        \
    } while (0)

static void test_format_integers_at_their_edges_are_those_of_c(void **state)
{
    (void)state;
    const long long edge[] = {0, 1, -1, 9, 10, -10, 127, 128, 255, 256, 32767, 65536, INT_MAX,
                              INT_MIN, UINT_MAX, LLONG_MAX, LLONG_MIN};
    for (size_t i = 0; i < sizeof edge / sizeof edge[0]; i++) {
        SAME_LENGTHS(edge[i]);
    }
}

static void test_format_random_integers_are_those_of_c(void **state)
{
    (void)state;
    uw_rng_seed(&rng, uw_test_seed(1));
    for (int i = 0; i < 2000; i++) {
        uint64_t value = (uint64_t)uw_rng_u32(&rng) << 32 | uw_rng_u32(&rng);
        value >>= uw_rng_u32(&rng) % 64u;
        SAME_LENGTHS(value);
    }
}

static void test_format_texts_and_characters_are_those_of_c(void **state)
{
    (void)state;
    static const char *const text[] = {"", "a", "uwasa", "a longer text than its field"};
    for (size_t i = 0; i < 4; i++) {
        SAME("%s", text[i]);
        SAME("[%8s]", text[i]);
        SAME("[%-8s]", text[i]);
        SAME("[%.3s]", text[i]);
        SAME("[%-8.3s]", text[i]);
        for (int n = -9; n < 10; n++) {
            SAME("[%.*s]", n, text[i]);
            SAME("[%*s|%d]", n, text[i], n);
            SAME("[%*.*d]", n, n, n);
        }
    }
    const char unended[3] = {'a', 'b', 'c'};
    SAME("%.3s", unended);
    SAME("%c%c", 'x', 'y');
    SAME("[%3c|%-3c]", 'x', 'y');
    SAME("100 %% of %s", "it");
    SAME("plain");
    SAME("%p", (void *)0x1234);
    SAME("%s is \"%s\", %u of %llu, %5.1f %%", "key", "value", 7u, 1ull << 40, 12.5);
}

/* The last decimal may be rounded otherwise: C looks at all binary digits. */
static void same_real(const char *format, int decimals, double value)
{
    char ours[64], theirs[64];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    int a = uw_board_snprintf(ours, sizeof ours, format, value);
    int b = snprintf(theirs, sizeof theirs, format, value);
#pragma GCC diagnostic pop
    double unit = 1.0;
    for (int i = 0; i < decimals; i++) {
        unit /= 10.0;
    }
    double x = strtod(ours, NULL), y = strtod(theirs, NULL);
    double least = fabs(value) * 4.5e-16;       /* of double itself, when it has no more digits */
    if (a != (int)strlen(ours) || fabs(x - value) > 0.5 * unit * (1 + 1e-9) + least ||
        fabs(x - y) > unit * (1 + 1e-9) + least || (a != b && x == y)) {
        fail_msg("%s of %.17g: \"%s\" instead of \"%s\"", format, value, ours, theirs);
    }
}

static void test_format_reals_are_those_of_c_to_half_a_unit(void **state)
{
    (void)state;
    static const struct {
        const char *format;
        int decimals;
    } form[] = {{"%f", 6}, {"%.0f", 0}, {"%.1f", 1}, {"%.3f", 3}, {"%.6f", 6}, {"%9.3f", 3},
                {"%09.2f", 2}, {"%-9.2f", 2}, {"%.4f", 4}};
    static const double edge[] = {0.0, 0.5, 1.5, 2.5, 0.25, 0.05, 0.999, 0.9999999, 9.9995, 99.5,
                                  1e-7, 4.9e-7, 1.0, 1e6, 123456.789, 8.9e12};
    uw_rng_seed(&rng, uw_test_seed(1));
    for (size_t k = 0; k < sizeof form / sizeof form[0]; k++) {
        for (size_t i = 0; i < sizeof edge / sizeof edge[0]; i++) {
            same_real(form[k].format, form[k].decimals, edge[i]);
            same_real(form[k].format, form[k].decimals, edge[i] == 0.0 ? 0.0 : -edge[i]);
        }
        for (int i = 0; i < 3000; i++) {
            double value = ldexp((double)uw_rng_u32(&rng) - 2147483648.0,
                                 (int)(uw_rng_u32(&rng) % 48u) - 36);
            same_real(form[k].format, form[k].decimals, value);
        }
    }
}

static void test_format_reals_without_digits_have_words(void **state)
{
    (void)state;
    char text[32];
    uw_board_snprintf(text, sizeof text, "%5.1f|%.2f|%.1f|%.1f", (double)NAN, (double)INFINITY,
                      -1e300, 1e13);
    assert_string_equal(text, "  nan|big|-big|big");
}

/* Wrong sentences must not be read beyond their end. */
static void test_format_sentence_that_stops_inside_is_cut_there(void **state)
{
    (void)state;
    int (*write)(char *restrict, size_t, const char *restrict, ...) = uw_board_snprintf;
    const char *const sentence[] = {"a%", "a%-0", "a%5", "a%5.", "a%l"};
    for (size_t i = 0; i < sizeof sentence / sizeof sentence[0]; i++) {
        size_t n = strlen(sentence[i]) + 1u;
        char *copy = uw_test_block(n);
        char text[16];
        memcpy(copy, sentence[i], n);
        assert_int_equal(write(text, sizeof text, copy), 1);
        assert_string_equal(text, "a");
        uw_test_release(copy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_format_integers_at_their_edges_are_those_of_c),
        cmocka_unit_test(test_format_random_integers_are_those_of_c),
        cmocka_unit_test(test_format_texts_and_characters_are_those_of_c),
        cmocka_unit_test(test_format_reals_are_those_of_c_to_half_a_unit),
        cmocka_unit_test(test_format_reals_without_digits_have_words),
        cmocka_unit_test(test_format_sentence_that_stops_inside_is_cut_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
