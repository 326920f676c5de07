/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver tried on itself: a planted bug behind two conditions must be found by a child
 * process, reported, and found again by replaying the file that the child leaves. */
#include "fuzz.h"
#include "fuzz_form.h"

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

/* A field, 100 and more of which nobody says, behind a checksum of four bytes. */
static uint32_t sum(const uint8_t *input, size_t bytes)
{
    uint32_t x = 2166136261u;
    for (size_t i = 4; i < bytes; i++) {
        x = (x ^ input[i]) * 16777619u;
    }
    return x;
}

static void seal(uint8_t *input, size_t bytes)
{
    uint32_t x = sum(input, bytes);
    for (uint32_t i = 0; i < 4 && bytes >= 4; i++) {
        input[i] = (uint8_t)(x >> 8u * i);
    }
}

static size_t change_field(struct uw_rng *rng, uint8_t *input, size_t bytes, size_t cap_bytes)
{
    static const struct uw_fuzz_field fields[] = {{4, 2}, {6, 4}};
    (void)cap_bytes;
    uw_fuzz_mutate_field(rng, input, bytes, fields, 2);
    return bytes;
}

static int crash_behind_the_checksum(const uint8_t *input, size_t bytes)
{
    uint8_t sealed[16];
    if (bytes != 10) {
        return 1;
    }
    memcpy(sealed, input, bytes);
    seal(sealed, bytes);
    if (memcmp(sealed, input, 4) != 0) {
        return 2;
    }
    if (input[6] == 0xff && input[7] == 0xff && input[8] == 0xff && input[9] == 0x7f) {
        abort();
    }
    return 0;
}

static void add_sealed(struct uw_fuzz_corpus *corpus)
{
    uint8_t message[10] = {0, 0, 0, 0, 1, 0, 5, 0, 0, 0};
    seal(message, sizeof message);
    uw_fuzz_add(corpus, message, sizeof message);
}

/* A protobuf message of a number, a text and a message of a fixed number stays one: most mutations
 * of it can be read, all within the room. */
static int keeps_protobuf(void)
{
    static const uint8_t start[] = {8, 150, 1, 18, 2, 'h', 'i', 26, 5, 13, 1, 2, 3, 4};
    struct uw_rng rng;
    uint32_t well = 0, others = 0;
    uw_rng_seed(&rng, 1);
    for (uint32_t i = 0; i < 1000; i++) {
        uint8_t m[64];
        memcpy(m, start, sizeof start);
        size_t n = uw_fuzz_mutate_proto(&rng, m, sizeof start, sizeof m), at = 0;
        others += n != sizeof start || memcmp(m, start, n) != 0;
        while (at < n) {        /* numbers below 16 and lengths below 128 are enough here */
            uint32_t type = m[at++] & 7u;
            while (type == 0 && at < n && m[at] >= 0x80) {
                at++;
            }
            at += type == 0 ? 1u : type == 1 ? 8u : type == 5 ? 4u : at < n ? 1u + m[at] : 1u;
        }
        well += at == n;
        if (n > sizeof m) {
            return 0;
        }
    }
    return well > 600 && others > 900;
}

static int refuse_the_empty_input(const uint8_t *input, size_t bytes)
{
    (void)input;
    return bytes == 0 ? -1 : 0;
}

/* Exit status of a run in a child; 128 + signal when it was killed. */
static int run_child(const struct uw_fuzz_target *t, const struct uw_fuzz_form *form,
                     const char *file)
{
    pid_t pid = fork();
    if (pid == 0) {
        char *argv[] = {"fuzz_fuzz", file == NULL ? NULL : (char *)(uintptr_t)file, NULL};
        if (freopen("/dev/null", "w", stderr) == NULL ||
            freopen("/dev/null", "w", stdout) == NULL) {
            _exit(99);
        }
        _exit(uw_fuzz_run_form(t, form, file == NULL ? 1 : 2, argv));
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
    const struct uw_fuzz_target sealed = {"selftest_sealed", add_sealed,
                                          crash_behind_the_checksum, 16};
    const struct uw_fuzz_form form = {change_field, seal};
    int failed = 0;
    char folder[] = "/tmp/uwasa_fuzz_XXXXXX";
    if (mkdtemp(folder) == NULL || chdir(folder) < 0) {
        return 1;
    }
    failed |= expect("a planted crash is found", run_child(&crash, NULL, NULL) != 0);
    failed |= expect("its input is kept", access("selftest_crash.crash", R_OK) == 0);
    failed |= expect("and replays", run_child(&crash, NULL, "selftest_crash.crash") != 0);
    failed |= expect("a broken promise fails the run", run_child(&refuse, NULL, NULL) == 1);
    failed |= expect("a missing file is wrong use", run_child(&refuse, NULL, "nowhere") == 2);
    failed |= expect("bytes alone do not get past a checksum", run_child(&sealed, NULL, NULL) == 0);
    failed |= expect("fields and a seal do", run_child(&sealed, &form, NULL) != 0);
    failed |= expect("a mutated protobuf message is mostly one", keeps_protobuf());
    unlink("selftest_sealed.crash");
    unlink("selftest_crash.crash");
    unlink("selftest_refuse.crash");
    rmdir(folder);
    return failed;
}
