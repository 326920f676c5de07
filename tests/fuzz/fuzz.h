/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz.h - feed a parser mutated inputs for some seconds
 *
 * A target names valid inputs and a function that takes one input. The driver runs the valid
 * ones, every prefix of them, and then mutations (flipped bits, telling integers, cuts, repeats,
 * splices of two inputs) until the time is over. Each input lies in a heap block of exactly its
 * size, so the address sanitizer sees the first byte read too far.
 *
 *     int main(int argc, char **argv)
 *     {
 *         return uw_fuzz_run(&(struct uw_fuzz_target){"json", add_inputs, try_one, 0}, argc, argv);
 *     }
 *
 * When an input crashes, hangs (20 s) or fails, it is written to `<name>.crash` in the working
 * directory and the command that replays it is printed. `fuzz_json FILE...` replays.
 *
 * UWASA_FUZZ_SECONDS is the time (2 when unset), UWASA_TEST_SEED the seed (1 when unset: the suite
 * tries much the same each time; a search for new faults sets both).
 */
#ifndef UWASA_TESTS_FUZZ_H
#define UWASA_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

struct uw_fuzz_corpus;

struct uw_fuzz_target {
    const char *name;
    /* Call uw_fuzz_add for every valid input; once, at the start. */
    void (*add_inputs)(struct uw_fuzz_corpus *corpus);
    /* Try one input. Returns < 0 when a promise was broken (the run then fails); else any number
     * that tells outcomes apart, such as -status: an input with a new number is mutated further. */
    int (*try_one)(const uint8_t *input, size_t bytes);
    size_t bytes_max;           /* inputs are cut to this; 0: 4096 */
};

/* Add one input; the bytes are copied. */
void uw_fuzz_add(struct uw_fuzz_corpus *corpus, const void *input, size_t bytes);

/* Run the target. Returns the exit status for main: 0 passed, 1 failed, 2 wrong use. */
int uw_fuzz_run(const struct uw_fuzz_target *target, int argc, char **argv);

#endif
