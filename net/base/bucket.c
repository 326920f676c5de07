/* SPDX-License-Identifier: Apache-2.0 */
#include "bucket.h"

bool uw_bucket_take(uint64_t *paid_us, uint64_t each_us, uint32_t most_n, uint32_t kept_n,
                    uint64_t now_us)
{
    uint64_t most_us = most_n * each_us;
    uw_bucket_pay(paid_us, 0, most_us, now_us);     /* a clock that went back leaves it empty */
    bool may = *paid_us - now_us + (kept_n + 1u) * each_us <= most_us;
    *paid_us += may ? each_us : 0;
    return may;
}
