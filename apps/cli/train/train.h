/* SPDX-License-Identifier: Apache-2.0
 *
 * train.h - a run of `uwasa train`: what its parts share
 *
 * cmd_train.c has the options; train_open.c opens what a run needs; train_data.c its samples;
 * train_save.c the file of --save; train_run.c the steps and tests; train_end.c what follows the
 * last step; train_report.c what people and programs see.
 *
 * Memory     heap before the first step and after the last      Blocking  as the work takes
 * Context    one thread
 */
#ifndef UWASA_CLI_TRAIN_H
#define UWASA_CLI_TRAIN_H

#include "best.h"
#include "base/events.h"
#include "base/progress.h"
#include "base/stop.h"
#include "base/trace.h"
#include "job/job_data.h"
#include "job/job_score.h"
#include "job/recipe.h"

#include "uwasa/data.h"
#include "uwasa/split.h"
#include "uwasa/storage_file.h"

struct uw_train_options {
    const char *model, *data;
    struct uw_job_onnx onnx;
    uint32_t epochs, batch, threads;
    uint32_t eval_samples;              /* of a test at most; 0: all */
    uint64_t steps, save_every, seed;
    double lr, spike;                   /* spike 0: no guard */
    struct uw_recipe recipe;
    const char *augment;                /* NULL, or "flip,crop:4" */
    const char *schedule, *weights, *save, *json, *trace;
    struct uw_choice backend, loss;     /* loss: enum uw_loss_word */
    struct uw_choice keep;              /* enum uw_train_keep */
    const char *class_weights;          /* NULL, or as in class_weights.h */
    double validation;                  /* share of the training set; 0: the test set is used */
    double anomaly_percentile;          /* below 0: no threshold */
    uint32_t patience;                  /* 0: none */
    bool resume, no_shuffle, profile, exact, tf32;
};

enum uw_train_keep { UW_TRAIN_KEEP_LAST, UW_TRAIN_KEEP_BEST };

/* Tests of a set, of which the last one is remembered. */
struct uw_train_test {
    const char *word;               /* "test", "validation" */
    const char *event;              /* "eval", "validation" */
    struct uw_dataset *data;        /* NULL: there is no such set */
    struct uw_score score;
    bool done;
    uint64_t step;                  /* after which it was done */
};

/* A step that has begun. */
struct uw_train_begun {
    uint32_t n;
    float lr;
    uint64_t epoch, position;       /* of the loader, behind its minibatch */
    uint64_t before_us;
};

struct uw_train {
    const struct uw_train_options *o;
    const struct uw_job *of;        /* whose model is trained; NULL: --model is read */
    struct uw_storage *before;      /* weights to start from; NULL: as the options say */
    const char *columns;            /* what their data was like; NULL: the file of --weights says */
    bool trained;                   /* with weights that somebody has trained */
    const struct uw_data_arrays *arrays, *held;     /* for --data arrays; held NULL: no test set */
    struct uw_job job;
    struct uw_data data, test_data;
    struct uw_split split;          /* of `data`, with --validation */
    float *class_weights;           /* NULL: none */
    struct uw_best best;
    struct uw_loader loader;
    struct uw_schedule schedule;
    struct uw_storage_file files;
    struct uw_events events;
    struct uw_progress progress;
    struct uw_trace trace;
    struct uw_stop stop;
    uint64_t step, steps;           /* done; to do in all */
    uint64_t begun;                 /* steps begun, including those done */
    struct uw_train_begun flight[UW_DEVICE_STEPS_MAX];   /* [step % UW_DEVICE_STEPS_MAX] */
    uint64_t epoch, position;       /* of the loader when the last step that is done began */
    uint64_t first_step;            /* steps of the resumed file */
    uint64_t saved_step;            /* step of the saved file */
    uint64_t start_us, computing_us, event_us;
    uint64_t ended_us;              /* when the last step was done */
    uint64_t testing_us;            /* when the last test began */
    uint64_t samples;               /* computed by this process */
    double shown_loss;
    uint32_t shown_n;               /* steps in shown_loss */
    double epoch_loss;              /* sum over the samples of this epoch so far */
    uint64_t epoch_samples, epoch_us;
    bool interrupted;
    bool changed;                   /* since the file was saved, though not by a step */
    struct uw_train_test test, validation, *testing;    /* testing: the one that runs */
    struct uw_error err;
};

/* ---- cmd_train.c ---- */

/* The options of a command line without any. */
struct uw_train_options uw_train_defaults(void);

/* Set one by its name, "weight_decay". Returns as uw_opt_assign. */
int uw_train_set(struct uw_train_options *o, const char *key, const char *value,
                 struct uw_error *err);

/* Check them together, and choose the learning rate. Returns UW_OK or UW_ERR_INVALID. */
int uw_train_check(struct uw_train_options *o, struct uw_error *err);

/* ---- train_open.c ---- */

/* Everything before the first step: model, data, memory, weights, the file to resume from. t->o is
 * checked; a listener is in progress and stop. Returns UW_OK or a code, t->err filled;
 * *status is the exit status then. Close, and uw_job_deinit(&t->job), in any case. */
int uw_train_open(struct uw_train *t, int *status);

/* Close everything but the job, whose model stays. */
void uw_train_close(struct uw_train *t);

/* ---- train_data.c ---- */

/* Open training and test set, set up the loader and count the steps to do. Returns UW_OK or a code,
 * t->err filled; so do the functions below that return int. */
int uw_train_open_data(struct uw_train *t);

/* Close them. Safe on a zeroed run. */
void uw_train_close_data(struct uw_train *t);

/* ---- train_save.c ---- */

/* Write the file of --save, if there is one that is not up to date. */
int uw_train_save(struct uw_train *t);

/* With --resume: go on from the file of --save, if it exists. */
int uw_train_resume(struct uw_train *t);

/* Whether there is a file to resume from, of this run or of the one that it resumed. */
bool uw_train_is_saved(struct uw_train *t);

/* ---- train_run.c ---- */

/* All steps that are left, with their tests, or until a stop; then uw_train_end. */
int uw_train_run(struct uw_train *t);

/* Test a set, unless that is done since the last step; sets t->interrupted if it was stopped. */
int uw_train_evaluate(struct uw_train *t, struct uw_train_test *test);

/* Test after an epoch, with the validation set, or the test set if there is none, and judge it. */
int uw_train_test_epoch(struct uw_train *t);

/* Whether the last tests were worse than the best one as often as --patience allows. */
bool uw_train_out_of_patience(const struct uw_train *t);

/* ---- train_end.c ---- */

/* After the last step: the last tests, the weights to keep, the threshold of anomalies. */
int uw_train_end(struct uw_train *t);

/* ---- train_report.c ---- */

/* Report the GPU in use, or why none is used. */
void uw_train_report_device(struct uw_train *t);

/* What is new about a stream of samples. */
void uw_train_report_news(struct uw_train *t);

/* The event and the live line of a step that is done. */
void uw_train_report_step(struct uw_train *t, double loss, float lr, uint64_t now_us);

/* The event of an epoch that is done, or of a part of one at the end. */
void uw_train_report_epoch(struct uw_train *t);

/* The live line of a test. */
void uw_train_show_testing(struct uw_train *t);

/* The event and the line of a test that is done. */
void uw_train_report_test(struct uw_train *t, const struct uw_train_test *test);

/* A span of the trace: the last step, or what follows it. */
void uw_train_trace_step(struct uw_train *t, const char *what, uint64_t from_us,
                         uint64_t until_us);

/* The results, and the event "done". */
void uw_train_report_done(struct uw_train *t);

/* An interrupted run is a failure only when its work is lost. Returns the exit status. */
int uw_train_report_interrupted(const struct uw_train *t);

#endif
