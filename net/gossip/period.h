/* SPDX-License-Identifier: Apache-2.0
 *
 * period.h - the number of local steps of a round, so that exchanges take a chosen share of time
 *
 *     T = ceil(e / share)      e: duration of an exchange in steps, smoothed
 *
 * e is a mean at first. Later a longer exchange has weight one half, and counts as at most four
 * times e; a shorter one has weight one quarter: the share is an upper limit. T grows as soon as it
 * is too small, and shrinks when less than three quarters of it suffice.
 *
 * Memory     caller's      Blocking  never      Context  one thread
 */
#ifndef UW_NET_PERIOD_H
#define UW_NET_PERIOD_H

#include <stdint.h>

#define UW_PERIOD_FIRST 10u     /* before the first measurement */

struct uw_period {
    float share;                    /* above 0, at most 1 */
    float exchange;                 /* e; 0: not known */
    uint32_t learned_n;             /* exchanges measured, up to a limit */
    uint32_t steps, most;           /* T and its limit */
};

/* most: 1 or more */
void uw_period_init(struct uw_period *p, float share, uint32_t most);

/* Update by an exchange. A local step since the previous exchange took elapsed_us / steps; with 0
 * steps nothing changes. Returns T. */
uint32_t uw_period_learn(struct uw_period *p, uint64_t exchange_us, uint32_t steps,
                         uint64_t elapsed_us);

#endif
