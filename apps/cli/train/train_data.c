/* SPDX-License-Identifier: Apache-2.0 */
#include "class_weights.h"
#include "train.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "flip", "crop:4", "flip,crop:4" */
static int read_augment(const char *text, struct uw_data_config *config, struct uw_error *err)
{
    const char *rest = text;
    char *end;

    if (text == NULL) {
        return UW_OK;
    }
    if (strncmp(rest, "flip", 4) == 0 && (rest[4] == ',' || rest[4] == '\0')) {
        config->flip = true;
        rest += rest[4] == ',' ? 5 : 4;
    }
    if (strncmp(rest, "crop:", 5) == 0 && rest[5] >= '1' && rest[5] <= '9') {
        unsigned long n = strtoul(rest + 5, &end, 10);
        config->crop = n <= 1024 ? (uint32_t)n : 0;
        rest = config->crop != 0 ? end : rest;
    }
    if (*rest != '\0' || (!config->flip && config->crop == 0)) {
        return uw_error_set(err, UW_ERR_INVALID,
                            "--augment %.60s: needs flip, crop:N or flip,crop:N, N from 1 to 1024",
                            text);
    }
    return UW_OK;
}

/* Part the training set. Its samples to validate with are not augmented. */
static int open_split(struct uw_train *t)
{
    const struct uw_train_options *o = t->o;
    struct uw_error why = {.text = ""};
    if (o->validation == 0.0) {
        return UW_OK;
    }
    int rc = uw_split_open(&t->split, t->data.base, t->data.plain, o->validation, &why);
    if (rc < 0) {
        return uw_error_set(&t->err, rc, "--validation %g: %.180s", o->validation, why.text);
    }
    t->validation.data = &t->split.validation.base;
    uw_progress_print(&t->progress, "validation: %u samples, %u to train on",
                      (unsigned)t->split.validation.base.samples_n,
                      (unsigned)t->split.train.base.samples_n);
    return UW_OK;
}

static int weigh_classes(struct uw_train *t, struct uw_dataset *data)
{
    const struct uw_train_options *o = t->o;
    char text[160];
    int n = 0;
    if (o->class_weights == NULL) {
        return UW_OK;
    }
    int rc = uw_class_weights_read(&t->job, data, o->class_weights, &t->class_weights, &t->err);
    for (int c = 0; c < rc && n < 120; c++) {
        n += snprintf(text + n, sizeof text - (size_t)n, " %.4g", (double)t->class_weights[c]);
    }
    if (rc >= 0) {
        uw_progress_print(&t->progress, "class weights:%s%s", text, n < 120 ? "" : " ...");
    }
    return rc < 0 ? rc : UW_OK;
}

int uw_train_open_data(struct uw_train *t)
{
    const struct uw_train_options *o = t->o;
    uint64_t bytes;
    bool resumes = o->resume &&
                   t->files.base.ops->size(&t->files.base, o->save, &bytes) == UW_OK;
    struct uw_job_data_config config = {.spec = o->data, .loss = o->loss,
                                        .weights = resumes ? o->save : o->weights,
                                        .columns = t->columns,
                                        .data = {.seed = o->seed, .live = true,
                                                 .scale_values = !t->trained,
                                                 .advice = t->trained ? UW_DATA_ADVISES_NEW
                                                                      : UW_DATA_ADVISES,
                                                 .train = t->arrays,
                                                 .held = t->held}};
    bool tests = t->arrays == NULL || t->held != NULL;
    int rc = read_augment(o->augment, &config.data, &t->err);
    t->test = (struct uw_train_test){.word = "test", .event = "eval"};
    t->validation = (struct uw_train_test){.word = "validation", .event = "validation"};
    rc = rc < 0 ? rc : uw_job_open_data(&t->job, &config, &t->data, tests ? &t->test_data : NULL,
                                    &t->err);
    t->test.data = t->test_data.base;
    uw_train_report_news(t);
    if (rc == UW_OK && !tests && o->validation == 0.0 &&
        (o->patience != 0 || o->keep.at == UW_TRAIN_KEEP_BEST)) {
        return uw_error_set(&t->err, UW_ERR_INVALID, "--%s: needs a test after each epoch: "
                            "--validation SHARE, or a test set",
                            o->patience != 0 ? "patience" : "keep best");
    }
    rc = rc < 0 ? rc : open_split(t);
    struct uw_dataset *data = t->validation.data != NULL ? &t->split.train.base : t->data.base;
    rc = rc < 0 ? rc : weigh_classes(t, data);
    if (rc == UW_OK) {
        rc = uw_loader_init(&t->loader, &(struct uw_loader_config){.dataset = data,
                                                                   .batch_n = o->batch,
                                                                   .seed = o->seed,
                                                                   .no_shuffle = o->no_shuffle});
    }
    if (rc < 0) {
        return rc;
    }
    uint64_t per_epoch = ((uint64_t)data->samples_n + o->batch - 1u) / o->batch;
    t->steps = o->steps != 0 ? o->steps : per_epoch * (o->epochs != 0 ? o->epochs : 1u);
    return UW_OK;
}

void uw_train_close_data(struct uw_train *t)
{
    uw_split_close(&t->split);
    uw_data_close(&t->test_data);
    uw_data_close(&t->data);
    free(t->class_weights);
    t->class_weights = NULL;
}
