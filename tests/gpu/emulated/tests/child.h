/* SPDX-License-Identifier: Apache-2.0
 *
 * child.h - what ends a process, tried in one of its own */
#ifndef UW_EMULATED_TEST_CHILD_H
#define UW_EMULATED_TEST_CHILD_H

#include "test_support.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* How wrong() ended as waitpid tells it; what it wrote to stderr in text. */
static inline int child_status(void (*wrong)(void), char *text, size_t text_bytes)
{
    int ends[2], status = 0;
    size_t n = 0;
    assert_int_equal(pipe(ends), 0);
    (void)fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit none = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)signal(SIGSEGV, SIG_DFL);
        (void)signal(SIGABRT, SIG_DFL);
        (void)dup2(ends[1], 2);
        (void)close(ends[0]);
        wrong();
        _exit(0);
    }
    (void)close(ends[1]);
    for (ssize_t got = 1; got > 0;) {
        got = read(ends[0], text + n, text_bytes - 1 - n);
        n += got > 0 ? (size_t)got : 0;
    }
    text[n] = '\0';
    (void)close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static inline void assert_child_says(void (*wrong)(void), const char *sentence)
{
    char text[4096];
    int status = child_status(wrong, text, sizeof text);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        fail_msg("it went on, and should have said: %s", sentence);
    }
    if (strstr(text, sentence) == NULL) {
        fail_msg("it said: %s", text);
    }
}

static inline void assert_child_crashes(void (*wrong)(void))
{
    char text[4096];
    int status = child_status(wrong, text, sizeof text);
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

#endif
