/* SPDX-License-Identifier: Apache-2.0
 *
 * bucket.h - a token bucket: so many at once at most, then one each so often
 *
 * All that is kept is paid_us, the time at which what was taken is paid for: the generic cell rate
 * algorithm. 0 is a full bucket.
 *
 * Units      _us microseconds
 * Memory     caller's      Blocking  never      Context  one thread
 * Source     ITU-T I.371, annex A
 */
#ifndef UW_NET_BUCKET_H
#define UW_NET_BUCKET_H

#include "bits.h"

/* What is not paid for yet. */
static inline uint64_t uw_bucket_owed_us(uint64_t paid_us, uint64_t now_us)
{
    return paid_us > now_us ? paid_us - now_us : 0;
}

/* Charge for something that happens in any case, for which at most most_us are ever owed. */
static inline void uw_bucket_pay(uint64_t *paid_us, uint64_t cost_us, uint64_t most_us,
                                 uint64_t now_us)
{
    *paid_us = now_us + uw_min_u64(uw_bucket_owed_us(*paid_us, now_us) + cost_us, most_us);
}

/* Take a token of each_us, unless less than kept_us would be left of the most_us that a full bucket
 * holds. Returns whether it was taken. */
bool uw_bucket_take(uint64_t *paid_us, uint64_t now_us, uint64_t each_us, uint64_t most_us,
                    uint64_t kept_us);

#endif
