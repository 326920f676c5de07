/* SPDX-License-Identifier: Apache-2.0
 *
 * train.h - a training run on one device
 *
 * Memory     one arena, exactly what uwasa plan prints for the same flags
 * Blocking   until trained      Context  main thread
 */
#ifndef UWASA_CLI_TRAIN_H
#define UWASA_CLI_TRAIN_H

#include "job/job.h"
#include "job/recipe.h"

struct uw_train_options {
    const char *model, *data;
    uint32_t epochs, batch, threads;
    uint32_t eval_samples;              /* of a test at most; 0: all */
    uint64_t steps, save_every, seed;
    double lr, spike;                   /* spike 0: no guard */
    struct uw_recipe recipe;
    const char *augment;                /* NULL, or "flip,crop:4" */
    const char *schedule, *weights, *save, *json, *trace;
    struct uw_choice backend;
    bool resume, no_shuffle, profile, exact, tf32;
};

/* Run it: options are checked one by one already. Prints results, progress and mistakes.
 * Returns the exit status. */
int uw_train_run(const struct uw_train_options *o);

#endif
