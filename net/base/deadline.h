/* SPDX-License-Identifier: Apache-2.0
 *
 * deadline.h - a timeout computed from recent durations
 *
 *     deadline = medians * median + deviations * MAD      of the last 16 durations
 *
 * MAD is the median absolute deviation: one outlier changes neither.
 *
 * Memory     caller's      Blocking  never      Context  one thread
 */
#ifndef UW_NET_DEADLINE_H
#define UW_NET_DEADLINE_H

#include <stdint.h>

#define UW_DEADLINE_HISTORY 16u
#define UW_DEADLINE_ENOUGH 5u       /* durations needed for a deadline */

struct uw_deadline {
    uint32_t took_ms[UW_DEADLINE_HISTORY];
    uint32_t took_n;
};

/* Add a duration. */
void uw_deadline_add(struct uw_deadline *d, uint64_t us);

/* The deadline, between min_us and max_us; max_us while there are too few durations. */
uint64_t uw_deadline_us(const struct uw_deadline *d, uint32_t medians, uint32_t deviations,
                        uint64_t min_us, uint64_t max_us);

#endif
