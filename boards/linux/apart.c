/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* sched_getcpu, sched_setaffinity */
#include "apart.h"

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

int32_t uw_apart_processor(void)
{
    return sched_getcpu();
}

static bool is_taken(int32_t processor, const int32_t *taken, uint32_t taken_n)
{
    for (uint32_t i = 0; i < taken_n; i++) {
        if (taken[i] == processor) {
            return true;
        }
    }
    return false;
}

int32_t uw_apart_move(const int32_t *taken, uint32_t taken_n)
{
    cpu_set_t allowed, only;
    int32_t here = uw_apart_processor();
    if (here < 0 || !is_taken(here, taken, taken_n) ||
        sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
        return here;
    }
    for (int32_t i = 1; i < CPU_SETSIZE; i++) {
        int32_t next = (here + i) % CPU_SETSIZE;
        size_t to = (size_t)next;
        if (CPU_ISSET(to, &allowed) && !is_taken(next, taken, taken_n)) {
            CPU_ZERO(&only);
            CPU_SET(to, &only);
            (void)sched_setaffinity(0, sizeof only, &only);
            (void)sched_setaffinity(0, sizeof allowed, &allowed);
            return uw_apart_processor();
        }
    }
    return here;
}
