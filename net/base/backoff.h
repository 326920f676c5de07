/* SPDX-License-Identifier: Apache-2.0
 *
 * backoff.h - exponential back-off: pauses that double with each failed try, up to a limit
 *
 *     pause = first * 2^min(tries, doublings)
 *
 * Units      _us microseconds
 */
#ifndef UW_NET_BACKOFF_H
#define UW_NET_BACKOFF_H

#include "bits.h"

/* The pause after the given number of earlier tries. */
static inline uint64_t uw_backoff_after(uint64_t first_us, uint32_t tries, uint32_t doublings)
{
    return first_us << uw_min_u32(tries, doublings);
}

/* The pause after one more try.
 *   tries  incremented, up to `doublings`; set to 0 to start over */
static inline uint64_t uw_backoff_us(uint64_t first_us, uint8_t *tries, uint32_t doublings)
{
    uint64_t us = uw_backoff_after(first_us, *tries, doublings);
    *tries = (uint8_t)(*tries + (*tries < doublings));
    return us;
}

#endif
