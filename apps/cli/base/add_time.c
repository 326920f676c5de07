/* SPDX-License-Identifier: Apache-2.0 */
#include "add_time.h"

#include "uwasa/board.h"

#define TIMES 5u
#define AT_LEAST_N 1000000u         /* floats of a time: microseconds are the clock's grain */

double uw_add_time(float *x, uint32_t n)
{
    const uint32_t half = n / 2u, rounds = AT_LEAST_N / half + 1u;
    uint64_t least_us = UINT64_MAX;
    for (uint32_t i = 0; i < TIMES; i++) {
        uint64_t from_us = uw_board_now_us();
        for (uint32_t k = 0; k < rounds; k++) {
            for (uint32_t j = 0; j < half; j++) {
                x[j] += x[half + j];
            }
        }
        uint64_t us = uw_board_now_us() - from_us;
        least_us = us < least_us ? us : least_us;
    }
    return (double)least_us * 1e-6 / ((double)rounds * half * sizeof(float));
}
