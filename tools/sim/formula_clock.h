/* SPDX-License-Identifier: Apache-2.0
 *
 * formula_clock.h - what happens next: a heap of alarms, one for each of a fixed set of places
 *
 * Memory     12 bytes an alarm from the heap in open      Blocking  never      Context  one thread
 */
#ifndef UW_SIM_FORMULA_CLOCK_H
#define UW_SIM_FORMULA_CLOCK_H

#include <stdint.h>

#define UW_FORMULA_NEVER UINT64_MAX

struct uw_formula_clock {
    uint64_t *due_us;               /* [alarms_n] */
    uint32_t *heap, *at;            /* [alarms_n] alarms, the earliest first; where each one is */
    uint32_t alarms_n;
};

/* All alarms are off. Returns UW_OK or UW_ERR_NOMEM. */
int uw_formula_clock_open(struct uw_formula_clock *c, uint32_t alarms_n);

/* Safe on a zeroed struct and twice. */
void uw_formula_clock_close(struct uw_formula_clock *c);

/* Set an alarm; UW_FORMULA_NEVER: off. O(log alarms_n). */
void uw_formula_clock_set(struct uw_formula_clock *c, uint32_t alarm, uint64_t due_us);

/* The earliest alarm, of several at one time the lowest. */
static inline uint32_t uw_formula_clock_first(const struct uw_formula_clock *c)
{
    return c->heap[0];
}

#endif
