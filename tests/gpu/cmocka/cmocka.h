/* SPDX-License-Identifier: Apache-2.0
 *
 * cmocka.h - the part of cmocka that the kernels' suites use, for machines without it
 *
 * A rented GPU machine has a compiler and the CUDA Toolkit, no more. Names and meaning are those of
 * cmocka 1.1: a failed assertion ends its test, a crash fails its test and the next one runs.
 * Nothing is mocked and no allocation is tracked. Where cmocka is installed it is used instead. The
 * includer has <setjmp.h>, <stdarg.h>, <stddef.h> and <stdint.h>, as cmocka asks too.
 */
#ifndef UWASA_TESTS_GPU_CMOCKA_H
#define UWASA_TESTS_GPU_CMOCKA_H

#include <stddef.h>
#include <stdint.h>

typedef void (*CMUnitTestFunction)(void **state);
typedef int (*CMFixtureFunction)(void **state);

struct CMUnitTest {
    const char *name;
    CMUnitTestFunction test_func;
    CMFixtureFunction setup_func, teardown_func;    /* each may be NULL; not 0: the test fails */
    void *initial_state;
};

#define cmocka_unit_test(f) {#f, f, NULL, NULL, NULL}
#define cmocka_unit_test_setup(f, setup) {#f, f, setup, NULL, NULL}
#define cmocka_unit_test_teardown(f, teardown) {#f, f, NULL, teardown, NULL}
#define cmocka_unit_test_setup_teardown(f, setup, teardown) {#f, f, setup, teardown, NULL}

#define cmocka_run_group_tests(tests, setup, teardown)                                            \
    _cmocka_run_group_tests(#tests, tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)
#define cmocka_run_group_tests_name(name, tests, setup, teardown)                                 \
    _cmocka_run_group_tests(name, tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)

/* Run them in order and print one line each. Returns how many failed; skipped ones did not. */
int _cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t tests_n,
                            CMFixtureFunction setup, CMFixtureFunction teardown);

void print_message(const char *format, ...) __attribute__((format(printf, 1, 2)));
void print_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Each of these returns only when it is satisfied. */
void _assert_true(uintmax_t result, const char *text, const char *file, int line);
void _assert_int_equal(uintmax_t a, uintmax_t b, const char *file, int line);
void _assert_int_not_equal(uintmax_t a, uintmax_t b, const char *file, int line);
void _assert_float_equal(float a, float b, float epsilon, const char *file, int line);
void _assert_string_equal(const char *a, const char *b, const char *file, int line);
void _assert_string_not_equal(const char *a, const char *b, const char *file, int line);
void _assert_memory_equal(const void *a, const void *b, size_t bytes, const char *file, int line);
void _assert_memory_not_equal(const void *a, const void *b, size_t bytes, const char *file,
                              int line);
void _assert_in_range(uintmax_t value, uintmax_t low, uintmax_t high, const char *file, int line);
void _fail(const char *file, int line);
void _skip(const char *file, int line);

#define assert_true(c) _assert_true((c) ? UINTMAX_C(1) : UINTMAX_C(0), #c, __FILE__, __LINE__)
#define assert_false(c)                                                                           \
    _assert_true((c) ? UINTMAX_C(0) : UINTMAX_C(1), "not " #c, __FILE__, __LINE__)
#define assert_non_null(p) _assert_true((uintmax_t)((p) != NULL), #p " != NULL", __FILE__, __LINE__)
#define assert_null(p) _assert_true((uintmax_t)((p) == NULL), #p " == NULL", __FILE__, __LINE__)
#define assert_ptr_equal(a, b)                                                                    \
    _assert_int_equal((uintptr_t)(a), (uintptr_t)(b), __FILE__, __LINE__)
#define assert_int_equal(a, b)                                                                    \
    _assert_int_equal((uintmax_t)(a), (uintmax_t)(b), __FILE__, __LINE__)
#define assert_int_not_equal(a, b)                                                                \
    _assert_int_not_equal((uintmax_t)(a), (uintmax_t)(b), __FILE__, __LINE__)
#define assert_float_equal(a, b, epsilon)                                                         \
    _assert_float_equal((float)(a), (float)(b), (float)(epsilon), __FILE__, __LINE__)
#define assert_string_equal(a, b) _assert_string_equal(a, b, __FILE__, __LINE__)
#define assert_string_not_equal(a, b) _assert_string_not_equal(a, b, __FILE__, __LINE__)
#define assert_memory_equal(a, b, bytes) _assert_memory_equal(a, b, bytes, __FILE__, __LINE__)
#define assert_memory_not_equal(a, b, bytes)                                                      \
    _assert_memory_not_equal(a, b, bytes, __FILE__, __LINE__)
#define assert_in_range(value, low, high)                                                         \
    _assert_in_range((uintmax_t)(value), (uintmax_t)(low), (uintmax_t)(high), __FILE__, __LINE__)
#define fail() _fail(__FILE__, __LINE__)
#define skip() _skip(__FILE__, __LINE__)
#define fail_msg(...)                                                                             \
    do {                                                                                          \
        print_error("ERROR: " __VA_ARGS__);                                                       \
        print_error("\n");                                                                        \
        fail();                                                                                   \
    } while (0)

#endif
