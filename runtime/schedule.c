/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/schedule.h"

#include "uwasa/fmath.h"

static double share(const struct uw_schedule *s, const struct uw_schedule_at *at)
{
    uint64_t n = s->by_step ? at->step : at->epoch;
    uint64_t passed = 0;

    switch (s->kind) {
    case UW_SCHEDULE_STEP:
        return uw_power(s->gamma, s->every != 0 ? n / s->every : 0);
    case UW_SCHEDULE_MULTISTEP:
        for (uint32_t i = 0; i < s->milestones_n; i++) {
            passed += n >= s->milestone[i] ? 1 : 0;
        }
        return uw_power(s->gamma, passed);
    case UW_SCHEDULE_COSINE:
        return s->end + (1.0 - s->end) * 0.5 *
                            (1.0 + (double)uw_cosf((float)(3.14159265358979 * at->progress)));
    case UW_SCHEDULE_LINEAR:
        return 1.0 + (s->end - 1.0) * at->progress;
    case UW_SCHEDULE_CONSTANT:
        break;
    }
    return 1.0;
}

float uw_schedule_lr(const struct uw_schedule *s, double lr, const struct uw_schedule_at *at)
{
    lr *= share(s, at);
    if (at->step < s->warmup) {
        lr *= (double)(at->step + 1) / (double)s->warmup;
    }
    return (float)lr;
}
