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
 * What was found worth keeping lies in corpus/<subject>.hex, an input a line, and is tried first.
 *
 * UWASA_FUZZ_SECONDS is the time (2 when unset), UWASA_TEST_SEED the seed (1 when unset: the suite
 * tries much the same each time; a search for new faults sets both). UWASA_FUZZ_INPUTS: so many
 * mutations in place of a time, the same on every machine. UWASA_FUZZ_KEEP: a file to which inputs
 * with new outcomes are added, as lines for a corpus; in the build of tools/decoder_coverage, an
 * outcome is new when the input went where none has been.
 */
#ifndef UWASA_TESTS_FUZZ_H
#define UWASA_TESTS_FUZZ_H

#include "uwasa/rng.h"

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

/* What is known of an input's form, so that mutations get past the first check. */
struct uw_fuzz_form {
    /* Change a field, as those of fuzz_form.h do. Returns the new size, at most cap_bytes.
     * (optional: NULL means bytes alone) */
    size_t (*mutate)(struct uw_rng *rng, uint8_t *input, size_t bytes, size_t cap_bytes);
    /* Make the checksum right. (optional: NULL means that there is none) */
    void (*seal)(uint8_t *input, size_t bytes);
};

/* Add one input; the bytes are copied. */
void uw_fuzz_add(struct uw_fuzz_corpus *corpus, const void *input, size_t bytes);

/* Run the target. Returns the exit status for main: 0 passed, 1 failed, 2 wrong use. */
int uw_fuzz_run(const struct uw_fuzz_target *target, int argc, char **argv);

/* The same for inputs of a form: mostly fields are changed, and most inputs are sealed. */
int uw_fuzz_run_form(const struct uw_fuzz_target *target, const struct uw_fuzz_form *form,
                     int argc, char **argv);

#endif
