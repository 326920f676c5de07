/* SPDX-License-Identifier: Apache-2.0
 *
 * float_code.h - a lossless code of floats of about one size, as neighbouring parameters are
 *
 *     byte 0   the largest exponent of all, top
 *     bits     of each float: sign and mantissa, 24 bits; then how far its exponent is below top:
 *              0 is 00, 1 is 01, 2 is 10, then 110, 1110 .. up to 9; nine ones and the exponent
 *              itself, 8 bits, for what is further below. The highest bit of a byte comes first;
 *              what is left of the last one is 0
 *
 * Nothing but exponents has a pattern: signs and mantissas of trained weights are noise to the last
 * bit (tools/experiments/float_planes). Every bit pattern comes back, NaN with its payload too.
 *
 * Blocking   never      Context  any thread
 */
#ifndef UW_NET_FLOAT_CODE_H
#define UW_NET_FLOAT_CODE_H

#include "uwasa/status.h"

#include <stdint.h>

/* Encode n floats, 1 or more.
 *   x  [n]
 * Returns the bytes written, or UW_ERR_TOOBIG (above cap_bytes; buf is written all the same). */
int uw_float_encode(const float *x, uint32_t n, uint8_t *buf, uint32_t cap_bytes);

/* Decode. What it accepts, the encoder writes as the same bytes.
 *   out  [cap_n] written; NULL: they are only counted
 * Returns their number, 1 or more, or UW_ERR_CORRUPT (no code, or more than cap_n). */
int uw_float_decode(const uint8_t *buf, uint32_t bytes, float *out, uint32_t cap_n);

#endif
