/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/board.h"

#include <time.h>

uint64_t uw_board_now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}
