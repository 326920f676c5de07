/* SPDX-License-Identifier: Apache-2.0
 *
 * wire_form.h - the form of messages that begin as net/wire/wire.h says
 */
#ifndef UWASA_TESTS_WIRE_FORM_H
#define UWASA_TESTS_WIRE_FORM_H

#include "fuzz_form.h"

#include "wire/wire.h"

/* Make the checksum right. */
static inline void uw_fuzz_seal_wire(uint8_t *input, size_t bytes)
{
    if (bytes >= UW_WIRE_HEAD_BYTES) {
        uw_put_u32(input + 1, uw_wire_checksum(input, (uint32_t)bytes));
    }
}

/* Change a field of the protobuf message behind the head. */
static inline size_t uw_fuzz_mutate_wire(struct uw_rng *rng, uint8_t *input, size_t bytes,
                                         size_t cap_bytes)
{
    return bytes < UW_WIRE_HEAD_BYTES
               ? bytes
               : UW_WIRE_HEAD_BYTES + uw_fuzz_mutate_proto(rng, input + UW_WIRE_HEAD_BYTES,
                                                           bytes - UW_WIRE_HEAD_BYTES,
                                                           cap_bytes - UW_WIRE_HEAD_BYTES);
}

#endif
