/* SPDX-License-Identifier: Apache-2.0
 *
 * float_code.h - a lossless code for floats of similar size, such as neighbouring parameters
 *
 *     byte 0   the largest exponent, top
 *     bits     for each float: sign and mantissa, 24 bits; then the distance of its exponent from
 *              top: 0 is 00, 1 is 01, 2 is 10, then 110, 1110 .. up to 9; for larger distances nine
 *              ones and the exponent, 8 bits. Bits are filled from the highest of each byte; the
 *              last byte is padded with 0
 *
 * Only exponents are compressible: signs and mantissas of trained weights are noise
 * (tools/experiments/float_planes). Every bit pattern is restored, including NaN payloads.
 *
 * Blocking   never      Context  any thread
 */
#ifndef UW_NET_FLOAT_CODE_H
#define UW_NET_FLOAT_CODE_H

#include "uwasa/status.h"

#include <stdint.h>

/* Encode n floats, 1 or more.
 *   x  [n]
 * Returns the bytes written, or UW_ERR_TOOBIG (above cap_bytes; buf is overwritten). */
int uw_float_encode(const float *x, uint32_t n, uint8_t *buf, uint32_t cap_bytes);

/* Decode. Accepts only the bytes that the encoder writes.
 *   out  [cap_n] written; NULL: count only
 * Returns the number of floats, 1 or more, or UW_ERR_CORRUPT (malformed, or more than cap_n). */
int uw_float_decode(const uint8_t *buf, uint32_t bytes, float *out, uint32_t cap_n);

#endif
