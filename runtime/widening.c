/* SPDX-License-Identifier: Apache-2.0 */
#include "widening.h"

#include "uwasa/half.h"

#include <string.h>

static uint32_t bytes(const char *dtype)
{
    return strcmp(dtype, "F16") == 0 || strcmp(dtype, "BF16") == 0 ? 2u
           : strcmp(dtype, "F64") == 0                             ? 8u
                                                                   : 0u;
}

static void widen(const char *dtype, const void *from, uint32_t n, float *to)
{
    for (uint32_t i = 0; i < n; i++) {
        uint16_t half;
        double d;
        if (dtype[0] == 'F' && dtype[1] == '6') {
            memcpy(&d, (const uint8_t *)from + i * sizeof d, sizeof d);
            to[i] = (float)d;
        } else {
            memcpy(&half, (const uint8_t *)from + i * sizeof half, sizeof half);
            to[i] = dtype[0] == 'B' ? uw_float_of_bfloat(half) : uw_float_of_half(half);
        }
    }
}

const struct uw_widening uw_widening = {bytes, widen};
