/* SPDX-License-Identifier: Apache-2.0
 *
 * train_run.h - a training run as train.c leads it and train_report.c tells of it (private to them)
 */
#ifndef UWASA_CLI_TRAIN_RUN_H
#define UWASA_CLI_TRAIN_RUN_H

#include "train.h"

#include "base/events.h"
#include "base/progress.h"
#include "base/stop.h"
#include "base/trace.h"
#include "job/lr.h"

#include "uwasa/data.h"
#include "uwasa/describe.h"
#include "uwasa/storage_file.h"

/* A step that has begun. */
struct begun {
    uint32_t n;
    float lr;
    uint64_t epoch, position;       /* of the loader, behind its minibatch */
    uint64_t before_us;
};

struct train {
    const struct uw_train_options *o;
    struct uw_job job;
    struct uw_data data, test;
    struct uw_loader loader;
    struct uw_schedule schedule;
    struct uw_storage_file files;
    struct uw_events events;
    struct uw_progress progress;
    struct uw_profile profile;
    struct uw_trace trace;
    struct uw_stop stop;
    uint64_t step, steps;           /* done; to do in all */
    uint64_t begun;                 /* steps, those done among them */
    struct begun flight[UW_DEVICE_STEPS_MAX];   /* [step % UW_DEVICE_STEPS_MAX] */
    uint64_t epoch, position;       /* of the loader when the step that was done last began */
    uint64_t first_step;            /* what the resumed file had done */
    uint64_t saved_step;            /* the file holds this one */
    uint64_t start_us, computing_us, event_us;
    uint64_t ended_us;              /* when the last step was done */
    uint64_t testing_us;            /* when the last test began */
    uint64_t samples;               /* computed by this process */
    double shown_loss;
    uint32_t shown_n;               /* steps in shown_loss */
    bool scored, interrupted;
    uint64_t scored_step;
    struct uw_score score;
    struct uw_error err;
};

/* Say what computes, where that is not the processor as ever, and why not a GPU. */
void uw_train_device(struct train *t);

/* The epoch that the last step belongs to, from 1, as people count. */
unsigned long long uw_train_epoch(const struct train *t);

/* Tell of the step that was done last. */
void uw_train_step(struct train *t, double loss, float lr, uint64_t now_us);

/* Tell of the test that is under way, t->score.samples_n of it done. */
void uw_train_testing(struct train *t);

/* "step 12" of the trace. */
void uw_train_trace(struct train *t, const char *what, uint64_t from_us, uint64_t until_us);

/* Results: event and text. */
void uw_train_done(struct train *t);

/* An interrupted run is a failure only when its work is lost. Returns the exit status. */
int uw_train_interrupted(const struct train *t);

#endif
