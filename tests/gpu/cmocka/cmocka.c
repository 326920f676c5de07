/* SPDX-License-Identifier: Apache-2.0 */
#include "cmocka.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum outcome { RUNS = 0, FAILED, SKIPPED };

static sigjmp_buf back;
static volatile sig_atomic_t in_test;

static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
#define CRASHES_N (sizeof crashes / sizeof crashes[0])

void print_message(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    fflush(stdout);
}

void print_error(const char *format, ...)
{
    va_list args;
    fflush(stdout);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fflush(stderr);
}

static void leave(enum outcome outcome, const char *file, int line)
{
    print_error("%s:%d: %s\n", file, line, outcome == SKIPPED ? "skipped" : "failed");
    if (in_test) {
        siglongjmp(back, (int)outcome);
    }
    raise(SIGKILL);     /* outside of a test there is nobody to return to */
}

static void crashed(int number)
{
    if (!in_test) {
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    print_error("ended by signal %d\n", number);
    siglongjmp(back, FAILED);
}

void _assert_true(uintmax_t result, const char *text, const char *file, int line)
{
    if (result == 0) {
        print_error("%s\n", text);
        leave(FAILED, file, line);
    }
}

void _assert_int_equal(uintmax_t a, uintmax_t b, const char *file, int line)
{
    if (a != b) {
        print_error("%jd (0x%jx) != %jd (0x%jx)\n", (intmax_t)a, a, (intmax_t)b, b);
        leave(FAILED, file, line);
    }
}

void _assert_int_not_equal(uintmax_t a, uintmax_t b, const char *file, int line)
{
    if (a == b) {
        print_error("both are %jd (0x%jx)\n", (intmax_t)a, a);
        leave(FAILED, file, line);
    }
}

void _assert_float_equal(float a, float b, float epsilon, const char *file, int line)
{
    float apart = a < b ? b - a : a - b;
    if (!(apart <= epsilon)) {
        print_error("%.9g != %.9g, by more than %.3g\n", (double)a, (double)b, (double)epsilon);
        leave(FAILED, file, line);
    }
}

void _assert_string_equal(const char *a, const char *b, const char *file, int line)
{
    if (strcmp(a, b) != 0) {
        print_error("\"%s\" != \"%s\"\n", a, b);
        leave(FAILED, file, line);
    }
}

void _assert_string_not_equal(const char *a, const char *b, const char *file, int line)
{
    if (strcmp(a, b) == 0) {
        print_error("both are \"%s\"\n", a);
        leave(FAILED, file, line);
    }
}

void _assert_memory_equal(const void *a, const void *b, size_t bytes, const char *file, int line)
{
    const unsigned char *x = a, *y = b;
    size_t at = 0;
    while (at < bytes && x[at] == y[at]) {
        at++;
    }
    if (at < bytes) {
        print_error("byte %zu of %zu: 0x%02x != 0x%02x\n", at, bytes, x[at], y[at]);
        leave(FAILED, file, line);
    }
}

void _assert_memory_not_equal(const void *a, const void *b, size_t bytes, const char *file,
                              int line)
{
    if (memcmp(a, b, bytes) == 0) {
        print_error("all %zu bytes are the same\n", bytes);
        leave(FAILED, file, line);
    }
}

void _assert_in_range(uintmax_t value, uintmax_t low, uintmax_t high, const char *file, int line)
{
    if (value < low || value > high) {
        print_error("%ju is not in %ju to %ju\n", value, low, high);
        leave(FAILED, file, line);
    }
}

void _fail(const char *file, int line)
{
    leave(FAILED, file, line);
}

void _skip(const char *file, int line)
{
    leave(SKIPPED, file, line);
}

/* Set up, run, tear down: the last also after a failure, as cmocka does. */
static enum outcome run_one(const struct CMUnitTest *test, void *shared)
{
    static void *state;     /* static: it outlives a jump */
    volatile enum outcome outcome = FAILED;
    state = test->initial_state != NULL ? test->initial_state : shared;
    in_test = 1;
    int jumped = sigsetjmp(back, 1);
    if (jumped != 0) {
        outcome = (enum outcome)jumped;
    } else if (test->setup_func == NULL || test->setup_func(&state) == 0) {
        test->test_func(&state);
        outcome = RUNS;
    }
    if (sigsetjmp(back, 1) != 0 ||
        (test->teardown_func != NULL && test->teardown_func(&state) != 0)) {
        outcome = FAILED;
    }
    in_test = 0;
    return outcome;
}

static bool group_fixture(CMFixtureFunction fixture, void **state)
{
    volatile bool good = false;
    in_test = 1;
    if (sigsetjmp(back, 1) == 0) {
        good = fixture == NULL || fixture(state) == 0;
    }
    in_test = 0;
    return good;
}

int _cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t tests_n,
                            CMFixtureFunction setup, CMFixtureFunction teardown)
{
    void *shared = NULL;
    size_t count[3] = {0, 0, 0};
    for (size_t i = 0; i < CRASHES_N; i++) {
        signal(crashes[i], crashed);
    }
    print_message("[==========] %s: Running %zu test(s).\n", name, tests_n);
    if (!group_fixture(setup, &shared)) {
        print_message("[  ERROR   ] %s: the set-up of the group failed\n", name);
        return (int)tests_n;
    }
    for (size_t i = 0; i < tests_n; i++) {
        static const char *const word[] = {"       OK ", "  FAILED  ", "  SKIPPED "};
        print_message("[ RUN      ] %s\n", tests[i].name);
        enum outcome outcome = run_one(&tests[i], shared);
        count[outcome]++;
        print_message("[%s] %s\n", word[outcome], tests[i].name);
    }
    if (!group_fixture(teardown, &shared)) {
        print_message("[  ERROR   ] %s: the tear-down of the group failed\n", name);
        count[FAILED]++;
    }
    print_message("[==========] %s: %zu test(s) run.\n[  PASSED  ] %zu test(s).\n", name, tests_n,
                  count[RUNS]);
    if (count[SKIPPED] > 0) {
        print_message("[  SKIPPED ] %zu test(s).\n", count[SKIPPED]);
    }
    if (count[FAILED] > 0) {
        print_message("[  FAILED  ] %zu test(s).\n", count[FAILED]);
    }
    for (size_t i = 0; i < CRASHES_N; i++) {
        signal(crashes[i], SIG_DFL);
    }
    return (int)count[FAILED];
}
