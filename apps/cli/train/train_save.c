/* SPDX-License-Identifier: Apache-2.0 */
#include "train.h"
#include "job/job_weights.h"

#include "uwasa/checkpoint.h"

int uw_train_save(struct uw_train *t)
{
    if (t->o->save == NULL || (t->saved_step == t->step && !t->changed)) {
        return UW_OK;
    }
    if (!uw_model_is_finite(&t->job.model)) {
        return uw_error_set(&t->err, UW_ERR_NONFINITE,
                            "step %llu: a weight has become NaN or infinite; nothing was saved, "
                            "%.120s is as it was; a lower --lr may help",
                            (unsigned long long)t->step, t->o->save);
    }
    struct uw_checkpoint state = {.step = t->step,
                                  .epoch = t->loader.epoch,
                                  .position = t->loader.position,
                                  .seed = t->o->seed,
                                  .batch_n = t->o->batch,
                                  .exact = t->o->exact,
                                  .layers = uw_job_layers(&t->job),
                                  .data = t->job.columns};
    uw_best_store(&t->best, t->o->validation, &state);
    int rc = uw_checkpoint_save(&t->job.model, &state, &t->files.base, t->o->save, &t->err);
    if (rc == UW_OK) {
        t->saved_step = t->step;
        t->changed = false;
    }
    return rc;
}

int uw_train_resume(struct uw_train *t)
{
    const struct uw_train_options *o = t->o;
    struct uw_checkpoint state;
    uint64_t bytes;
    if (!o->resume) {
        return UW_OK;
    }
    if (t->files.base.ops->size(&t->files.base, o->save, &bytes) == UW_ERR_NOTFOUND) {
        uw_progress_print(&t->progress, "%s: does not exist yet, starting at step 0", o->save);
        return UW_OK;
    }
    int rc = uw_checkpoint_load(&t->job.model, &state, &t->files.base, o->save, &t->err);
    if (rc < 0) {
        return rc;
    }
    if (state.seed != o->seed) {
        return uw_error_set(&t->err, UW_ERR_MISMATCH,
                            "--seed %llu: %.120s was trained with --seed %llu",
                            (unsigned long long)o->seed, o->save, (unsigned long long)state.seed);
    }
    if (state.batch_n != o->batch) {
        return uw_error_set(&t->err, UW_ERR_MISMATCH,
                            "--batch %u: %.120s was trained with --batch %llu", (unsigned)o->batch,
                            o->save, (unsigned long long)state.batch_n);
    }
    rc = uw_job_check_state(&t->job, o->exact, "--exact", &state, o->save, &t->err);
    if (rc < 0) {
        return rc;
    }
    uint32_t samples_n = t->loader.config.dataset->samples_n;
    if (state.position >= samples_n) {
        return uw_error_set(&t->err, UW_ERR_MISMATCH,
                            "%.120s is at sample %llu, data %.80s has %u", o->save,
                            (unsigned long long)state.position, o->data, (unsigned)samples_n);
    }
    rc = uw_best_load(&t->best, &t->job.model, o->validation, &state, o->save, &t->err);
    if (rc < 0) {
        return rc;
    }
    if (rc == 0 && t->best.on) {
        uw_progress_print(&t->progress, "%s: its tests were not judged, the next one is the first",
                          o->save);
    }
    t->step = t->begun = t->saved_step = t->first_step = state.step;
    t->loader.epoch = t->epoch = state.epoch;
    t->loader.position = (uint32_t)state.position;
    t->position = state.position;
    bool done = t->step >= t->steps || uw_train_out_of_patience(t);
    uw_progress_print(&t->progress, done ? "%s: step %llu is done, nothing is left"
                                         : "%s: resuming at step %llu",
                      o->save, (unsigned long long)t->step);
    return UW_OK;
}

bool uw_train_is_saved(struct uw_train *t)
{
    uint64_t bytes;
    return t->saved_step != UINT64_MAX ||
           (t->o->resume && t->files.base.ops->size(&t->files.base, t->o->save, &bytes) == UW_OK);
}
