/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/schedule.h - learning rate schedules
 *
 * The rate depends on the position in the run only: a resumed run continues it exactly.
 *
 * Memory     plain values      Blocking  never      Context  any thread
 */
#ifndef UWASA_SCHEDULE_H
#define UWASA_SCHEDULE_H

#include "uwasa/cplusplus.h"

#include <stdbool.h>
#include <stdint.h>

UW_C_BEGIN

#define UW_SCHEDULE_MILESTONES_MAX 8

enum uw_schedule_kind {
    UW_SCHEDULE_CONSTANT = 0,
    UW_SCHEDULE_STEP,               /* lr * gamma^(n / every), n whole steps or epochs, as Caffe */
    UW_SCHEDULE_MULTISTEP,          /* lr * gamma^(milestones passed) */
    UW_SCHEDULE_COSINE,             /* lr * (end + (1 - end) (1 + cos(pi progress)) / 2) */
    UW_SCHEDULE_LINEAR              /* lr * (1 + (end - 1) progress) */
};

struct uw_schedule {
    enum uw_schedule_kind kind;
    bool by_step;                   /* every and milestone count steps; else epochs */
    double gamma;                   /* step, multistep */
    double end;                     /* cosine, linear: share of lr at the end of the run */
    uint64_t every;                 /* step; 1 or more */
    uint64_t milestone[UW_SCHEDULE_MILESTONES_MAX];
    uint32_t milestones_n;
    uint64_t warmup;                /* of any kind: the rate of step s < warmup is multiplied by
                                       (s + 1) / warmup */
};

/* Position in a run. */
struct uw_schedule_at {
    uint64_t step, epoch;           /* completed */
    double progress;                /* 0 to 1, of the run's steps or time */
};

/* The learning rate of the next step; lr is the initial rate. */
float uw_schedule_lr(const struct uw_schedule *s, double lr, const struct uw_schedule_at *at);

UW_C_END
#endif
