/* SPDX-License-Identifier: Apache-2.0
 *
 * token_bucket.h - a token bucket: limits a rate, and allows a burst
 *
 * The only state is paid_us, the time at which the bucket is full again (generic cell rate
 * algorithm). 0 is a full bucket.
 *
 * Units      _us microseconds
 * Memory     caller's      Blocking  never      Context  one thread
 * Source     ITU-T I.371, annex A
 */
#ifndef UW_NET_TOKEN_BUCKET_H
#define UW_NET_TOKEN_BUCKET_H

#include "bits.h"

/* Time until the bucket is full. */
static inline uint64_t uw_bucket_owed_us(uint64_t paid_us, uint64_t now_us)
{
    return paid_us > now_us ? paid_us - now_us : 0;
}

/* Charge for something that cannot be refused; the debt is limited to most_us. */
static inline void uw_bucket_pay(uint64_t *paid_us, uint64_t cost_us, uint64_t most_us,
                                 uint64_t now_us)
{
    *paid_us = now_us + uw_min_u64(uw_bucket_owed_us(*paid_us, now_us) + cost_us, most_us);
}

/* Take a token of each_us from a bucket of most_us, unless less than kept_us would remain. Returns
 * whether it was taken. */
bool uw_bucket_take(uint64_t *paid_us, uint64_t now_us, uint64_t each_us, uint64_t most_us,
                    uint64_t kept_us);

#endif
