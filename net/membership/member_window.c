/* SPDX-License-Identifier: Apache-2.0
 *
 * When members listen that sleep most of the time. */
#include "membership_priv.h"

#include "uwasa/node_sleep.h"

#define GUARD_US 2000u              /* of what is told in milliseconds, and takes time to come */
#define GUARD_PARTS 5000u           /* 200 ppm: two clocks that are 100 ppm wrong */
#define GUARD_MOST_PARTS 4u         /* of a window */
#define PERIOD_MOST_MS (UW_NODE_SLEEP_MOST_US / 1000u)

static void set_window(struct uw_member *it, uint64_t now_us)
{
    uwasa_Progress *p = &it->progress;
    if (p->sleep_ms > PERIOD_MOST_MS || p->awake_ms >= p->sleep_ms || p->awake_ms == 0) {
        p->sleep_ms = p->awake_ms = 0;
        return;
    }
    uint64_t period_us = uw_member_period_us(it), since_us = p->since_ms % p->sleep_ms * 1000u;
    it->window_us = now_us >= since_us ? now_us - since_us : now_us + period_us - since_us;
}

struct uw_window uw_member_window(const struct uw_member *it, uint64_t now_us)
{
    uint64_t period_us = uw_member_period_us(it), awake_us = it->progress.awake_ms * 1000u;
    if (period_us == 0) {
        return (struct uw_window){.to_us = UINT64_MAX};
    }
    uint64_t age_us = now_us > it->window_us ? now_us - it->window_us : 0;
    uint64_t guard_us = GUARD_US + age_us / GUARD_PARTS, most_us = awake_us / GUARD_MOST_PARTS;
    guard_us = guard_us < most_us ? guard_us : most_us;
    uint64_t start_us = it->window_us + age_us / period_us * period_us;
    start_us += now_us >= start_us + awake_us - guard_us ? period_us : 0;
    return (struct uw_window){start_us + guard_us, start_us + awake_us - guard_us};
}

/* Who sleeps together with this device loses no time: its own sleep counts for nothing. */
static bool is_apart(const struct uw_membership *m, const struct uw_member *it)
{
    uint64_t period_us = uw_member_period_us(it);
    return period_us != 0 && period_us != m->config.sleep_us;
}

static uint64_t stretched_us(const struct uw_membership *m, const struct uw_member *it, uint64_t us)
{
    if (!is_apart(m, it)) {
        return us;
    }
    return us / it->progress.awake_ms * it->progress.sleep_ms + uw_member_period_us(it);
}

static uint64_t pause_us(const struct uw_membership *m, const struct uw_member *it)
{
    return is_apart(m, it) ? uw_member_period_us(it) : it->progress.awake_ms * 1000u;
}

const struct uw_member_windows uw_member_windows = {set_window, uw_member_window, stretched_us,
                                                    pause_us};
