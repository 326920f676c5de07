/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver tried on itself: a planted bug behind two conditions must be found by a child
 * process, reported, and found again by replaying the file that the child leaves. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void add_inputs(struct uw_fuzz_corpus *corpus)
{
    uw_fuzz_add(corpus, "UW12345678", 10);
    uw_fuzz_add(corpus, "UWabc", 5);
}

static int crash_on_a_long_count(const uint8_t *input, size_t bytes)
{
    if (bytes < 4 || memcmp(input, "UW", 2) != 0) {
        return 1;
    }
    if (input[2] == 0xff) {
        abort();
    }
    return 0;
}

static int refuse_the_empty_input(const uint8_t *input, size_t bytes)
{
    (void)input;
    return bytes == 0 ? -1 : 0;
}

/* Exit status of a run in a child; 128 + signal when it was killed. */
static int run_child(const struct uw_fuzz_target *t, const char *file)
{
    pid_t pid = fork();
    if (pid == 0) {
        char *argv[] = {"fuzz_fuzz", file == NULL ? NULL : (char *)(uintptr_t)file, NULL};
        if (freopen("/dev/null", "w", stderr) == NULL ||
            freopen("/dev/null", "w", stdout) == NULL) {
            _exit(99);
        }
        _exit(uw_fuzz_run(t, file == NULL ? 1 : 2, argv));
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
        return -1;
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int expect(const char *what, int is_true)
{
    printf("%s: %s\n", is_true ? "ok" : "FAILED", what);
    return !is_true;
}

int main(void)
{
    const struct uw_fuzz_target crash = {"selftest_crash", add_inputs, crash_on_a_long_count, 64};
    const struct uw_fuzz_target refuse = {"selftest_refuse", add_inputs, refuse_the_empty_input, 0};
    int failed = 0;
    char folder[] = "/tmp/uwasa_fuzz_XXXXXX";
    if (mkdtemp(folder) == NULL || chdir(folder) < 0) {
        return 1;
    }
    failed |= expect("a planted crash is found", run_child(&crash, NULL) != 0);
    failed |= expect("its input is kept", access("selftest_crash.crash", R_OK) == 0);
    failed |= expect("and replays", run_child(&crash, "selftest_crash.crash") != 0);
    failed |= expect("a broken promise fails the run", run_child(&refuse, NULL) == 1);
    failed |= expect("a missing file is wrong use", run_child(&refuse, "nowhere") == 2);
    unlink("selftest_crash.crash");
    unlink("selftest_refuse.crash");
    rmdir(folder);
    return failed;
}
