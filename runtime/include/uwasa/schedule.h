/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/schedule.h - how the learning rate changes over a run
 *
 * The rate depends on where the run stands alone, so a resumed run goes on as if never stopped.
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
    UW_SCHEDULE_STEP,               /* lr * gamma^(n / every), n whole steps or epochs: Caffe's */
    UW_SCHEDULE_MULTISTEP,          /* lr * gamma^(milestones that have been passed) */
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
    uint64_t warmup;                /* in front of any: step s < warmup gets (s + 1) / warmup of
                                       its rate */
};

/* Where a run stands. */
struct uw_schedule_at {
    uint64_t step, epoch;           /* done so far */
    double progress;                /* 0 to 1, of all its steps or of its time */
};

/* The learning rate of the next step; lr is the one it starts from. */
float uw_schedule_lr(const struct uw_schedule *s, double lr, const struct uw_schedule_at *at);

UW_C_END
#endif
