/* SPDX-License-Identifier: Apache-2.0 */
#include "deadline.h"

#include "bits.h"

#include <string.h>

static uint32_t median_of(uint32_t *v, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++) {
        uw_insert_u32(v, i, v[i]);
    }
    return v[n / 2u];
}

void uw_deadline_add(struct uw_deadline *d, uint64_t us)
{
    uint64_t ms = us / 1000u + 1u;
    d->took_ms[d->took_n++ % UW_DEADLINE_HISTORY] = ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
    if (d->took_n == 2u * UW_DEADLINE_HISTORY) {
        d->took_n = UW_DEADLINE_HISTORY;
    }
}

uint64_t uw_deadline_us(const struct uw_deadline *d, uint32_t medians, uint32_t deviations,
                        uint64_t min_us, uint64_t max_us)
{
    uint32_t n = d->took_n < UW_DEADLINE_HISTORY ? d->took_n : UW_DEADLINE_HISTORY;
    if (n < UW_DEADLINE_ENOUGH) {
        return max_us;
    }
    uint32_t v[UW_DEADLINE_HISTORY];
    memcpy(v, d->took_ms, n * sizeof v[0]);
    uint32_t median = median_of(v, n);
    for (uint32_t i = 0; i < n; i++) {
        v[i] = v[i] > median ? v[i] - median : median - v[i];
    }
    uint64_t us = ((uint64_t)medians * median + (uint64_t)deviations * median_of(v, n)) * 1000u;
    us = us > min_us ? us : min_us;
    return us < max_us ? us : max_us;
}
