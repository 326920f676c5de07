/* SPDX-License-Identifier: Apache-2.0
 *
 * period.h - how many local steps a round has, so that exchanges take a chosen share of the time
 *
 *     T = ceil(e / share)      e: steps that fit into an exchange, smoothed
 *
 * e is a mean at first; then what was longer than it counts half, and as no more than four times e,
 * and what was shorter a quarter: the share is a promise, T is not. T grows as soon as it is too
 * small, and shrinks when less than three quarters of it would do.
 *
 * Memory     caller's      Blocking  never      Context  one thread
 */
#ifndef UW_NET_PERIOD_H
#define UW_NET_PERIOD_H

#include <stdint.h>

#define UW_PERIOD_FIRST 10u     /* until an exchange was measured */

struct uw_period {
    float share;                    /* above 0, at most 1 */
    float exchange;                 /* e; 0: not known */
    uint32_t learned_n;             /* exchanges in it, as far as they count */
    uint32_t steps, most;           /* T and its bound */
};

/* most: 1 or more */
void uw_period_init(struct uw_period *p, float share, uint32_t most);

/* An exchange took so long, and a local step, on average since the exchange before, elapsed_us /
 * steps. No steps: nothing is learned.
 * Returns T. */
uint32_t uw_period_learn(struct uw_period *p, uint64_t exchange_us, uint32_t steps,
                         uint64_t elapsed_us);

#endif
