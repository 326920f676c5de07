/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_form.h - mutations that know the form of a message: fixed fields, and protobuf
 */
#ifndef UWASA_TESTS_FUZZ_FORM_H
#define UWASA_TESTS_FUZZ_FORM_H

#include "uwasa/rng.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A number in a message. */
struct uw_fuzz_field {
    uint16_t at;
    uint8_t bytes;                  /* 1 .. 8 */
    bool big_endian;
};

/* Give one of the fields that are there another value: one that is telling (0, the largest, the
 * size of the message), one near its own, or any. */
void uw_fuzz_mutate_field(struct uw_rng *rng, uint8_t *input, size_t bytes,
                          const struct uw_fuzz_field *fields, size_t fields_n);

/* Change one field of a protobuf message, at any depth: its value, type or number; drop it, repeat
 * it, put it elsewhere. Lengths around it stay right.
 * Returns the new size, at most cap_bytes. What is no protobuf stays as it is. */
size_t uw_fuzz_mutate_proto(struct uw_rng *rng, uint8_t *message, size_t bytes, size_t cap_bytes);

#endif
