/* SPDX-License-Identifier: Apache-2.0 */
#include "token_bucket.h"

bool uw_bucket_take(uint64_t *paid_us, uint64_t now_us, uint64_t each_us, uint64_t most_us,
                    uint64_t kept_us)
{
    uw_bucket_pay(paid_us, 0, most_us, now_us);     /* empty at most, if the clock went back */
    if (*paid_us - now_us + each_us + kept_us > most_us) {
        return false;
    }
    *paid_us += each_us;
    return true;
}
