/* SPDX-License-Identifier: Apache-2.0 */
#include "train.h"
#include "job/job_weights.h"

static int start_profile(struct uw_train *t)
{
    struct uw_model *m = &t->job.model;
    m->guard.factor = (float)t->o->spike;
    if (!t->o->profile && t->o->trace == NULL) {
        return UW_OK;
    }
    int rc = uw_trace_open(&t->trace, t->o->trace, "uwasa train", &t->err);
    if (rc < 0) {
        return rc;
    }
    uw_trace_thread(&t->trace, UW_TRACE_COMPUTE, "training");
    return uw_trace_profile(&t->trace, m, true, &t->err);
}

static bool is_autoencoder(const struct uw_train *t)
{
    const struct uw_loss_def *loss = t->job.file.def.losses;
    return loss != NULL && loss[0].target == UW_TARGET_INPUT;
}

/* The weights before the first step. */
static int start_weights(struct uw_train *t)
{
    const struct uw_train_options *o = t->o;
    int rc = uw_job_init_weights(&t->job, o->seed, &t->err);
    if (rc == UW_OK && t->before != NULL) {
        return uw_checkpoint_load(&t->job.model, NULL, t->before, "the weights so far", &t->err);
    }
    rc = rc < 0 || o->weights == NULL ? rc : uw_job_load_weights(&t->job, o->weights, &t->err);
    char note[UW_JOB_NOTE_BYTES];
    for (uint32_t i = 0; uw_job_note(&t->job, i, note) != NULL; i++) {
        uw_progress_print(&t->progress, "%s", note);
    }
    return rc;
}

int uw_train_open(struct uw_train *t, int *status)
{
    const struct uw_train_options *o = t->o;
    struct uw_job_config config = {.model = o->model,
                                   .of = t->of,
                                   .listener = t->progress.listener,
                                   .onnx = o->onnx,
                                   .backend = o->backend,
                                   .exact = o->exact,
                                   .gpu = o->class_weights == NULL,
                                   .tf32 = o->tf32,
                                   .waits = true,
                                   .threads = o->threads,
                                   .plan = {.batch_n = o->batch}};

    uw_lr_parse(o->schedule, &t->schedule);
    t->saved_step = UINT64_MAX;
    int rc = uw_recipe_apply(&o->recipe, &config.plan, &t->err);
    rc = rc < 0 ? rc : uw_job_plan(&t->job, &config, &t->err);
    *status = rc < 0 ? uw_job_exit(rc) : UW_EXIT_USAGE;
    if (rc < 0) {
        return rc;
    }
    rc = uw_storage_file_init(&t->files, NULL);
    rc = rc < 0 ? rc : uw_train_open_data(t);
    if (rc == UW_OK && o->anomaly_percentile >= 0.0 && !is_autoencoder(t)) {
        return uw_error_set(&t->err, UW_ERR_INVALID,
                            "--anomaly-percentile: model %.60s is no autoencoder; --loss "
                            "autoencoder, or \"target\": \"input\" of its loss, makes it one",
                            t->job.file.def.name);
    }
    rc = rc < 0 ? rc : uw_job_bind(&t->job, &t->err);
    if (rc == UW_OK) {
        uw_train_report_device(t);
        t->job.model.class_weights = t->class_weights;
        bool keep = o->keep.at == UW_TRAIN_KEEP_BEST;
        rc = uw_best_open(&t->best, &t->job.model, keep || o->patience != 0, keep, &t->err);
    }
    rc = rc < 0 ? rc : uw_job_guard_save("--save", o->save, &t->err);
    *status = rc == UW_ERR_INVALID ? UW_EXIT_USAGE : UW_EXIT_FAILED;
    rc = rc < 0 ? rc : uw_job_hold_save(&t->files, "--save", o->save, &t->err);
    if (rc == UW_OK) {
        rc = start_weights(t);
    }
    if (rc == UW_OK && o->exact) {
        uw_progress_print(&t->progress, "exact: kernels %s, the same bits on every processor",
                          t->job.config.kernels->name);
    }
    rc = rc < 0 ? rc : start_profile(t);
    rc = rc < 0 ? rc : uw_train_resume(t);
    rc = rc < 0 ? rc : uw_events_open(&t->events, o->json, UW_EVENTS_NEW, &t->err);
    t->events.listener = t->progress.listener;
    return rc;
}

void uw_train_close(struct uw_train *t)
{
    uw_events_close(&t->events, NULL);
    uw_trace_close(&t->trace, NULL);
    uw_best_close(&t->job.model);
    t->job.model.class_weights = NULL;
    uw_train_close_data(t);
    uw_storage_file_deinit(&t->files);
}
