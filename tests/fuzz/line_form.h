/* SPDX-License-Identifier: Apache-2.0
 *
 * line_form.h - the form of frames in a stream of bytes, as uwasa/serial_frames.h has them
 */
#ifndef UWASA_TESTS_LINE_FORM_H
#define UWASA_TESTS_LINE_FORM_H

#include "base/cpu.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Make a frame's checksum right: n bytes without a zero, at most 254, which is as long with any
 * checksum. What is no frame stays. */
static inline void uw_fuzz_seal_frame(uint8_t *frame, size_t n, uint32_t crc_start)
{
    uint8_t text[254];
    size_t bytes = 0;
    for (size_t at = 0; at < n; at += frame[at]) {
        if (frame[at] > n - at) {
            return;
        }
        memcpy(text + bytes, frame + at + 1, frame[at] - 1u);
        bytes += frame[at] - 1u;
        if (at + frame[at] < n) {
            text[bytes++] = 0;
        }
    }
    if (bytes < 4) {
        return;
    }
    uint32_t crc = uw_crc32c(crc_start, text, (uint32_t)bytes - 4u);
    for (uint32_t i = 0; i < 4; i++) {
        text[bytes - 4u + i] = (uint8_t)(crc >> 8u * i);
    }
    uint8_t code = 1;
    for (size_t i = 0, group = 0; i <= bytes; i++) {
        if (i == bytes || text[i] == 0) {
            frame[group] = code;
            group = i + 1u;
            code = 1;
        } else {
            frame[i + 1u] = text[i];
            code++;
        }
    }
}

/* Those of a line, one after the other. */
static inline void uw_fuzz_seal_line(uint8_t *input, size_t bytes, uint32_t crc_start)
{
    size_t from = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (input[i] == 0) {
            if (i - from > 4 && i - from <= 254) {
                uw_fuzz_seal_frame(input + from, i - from, crc_start);
            }
            from = i + 1u;
        }
    }
}

#endif
