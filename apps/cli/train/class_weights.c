/* SPDX-License-Identifier: Apache-2.0 */
#include "class_weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int read_list(const char *text, uint32_t classes, float *weights, struct uw_error *err)
{
    uint32_t n = 0;
    for (const char *p = text; p != NULL; n++) {
        char *end;
        float value = strtof(p, &end);
        bool good = end != p && (*end == ',' || *end == '\0') && isfinite(value) && value > 0.0f;
        if (!good) {
            return uw_error_set(err, UW_ERR_INVALID,
                                "--class-weights %.60s: needs balanced, or a number above 0 for "
                                "each of %u classes, as 1,2.5,0.5", text, (unsigned)classes);
        }
        if (n < classes) {
            weights[n] = value;
        }
        p = *end == ',' ? end + 1 : NULL;
    }
    return n == classes ? UW_OK
                        : uw_error_set(err, UW_ERR_INVALID,
                                       "--class-weights %.60s: %u numbers, the model has %u "
                                       "classes", text, (unsigned)n, (unsigned)classes);
}

static int count(struct uw_dataset *data, uint32_t classes, float *weights, struct uw_error *err)
{
    uint32_t *counts = calloc(classes, sizeof *counts), present = 0;
    float *x = malloc((size_t)data->channels * data->height * data->width * sizeof *x);
    int rc = counts != NULL && x != NULL ? UW_OK
                                         : uw_error_set(err, UW_ERR_NOMEM,
                                                        "--class-weights: no memory");
    for (uint32_t i = 0; i < data->samples_n && rc == UW_OK; i++) {
        uint32_t label = 0;
        rc = data->ops->read(data, i, x, &label);
        rc = rc == UW_OK && label >= classes ? UW_ERR_INVALID : rc;
        if (rc < 0) {
            uw_error_set(err, rc, "--class-weights balanced: sample %u: %s", (unsigned)i,
                         rc == UW_ERR_INVALID ? "its label is above the model's classes"
                                              : uw_status_text(rc));
        } else {
            present += counts[label]++ == 0 ? 1u : 0u;
        }
    }
    for (uint32_t c = 0; c < classes && rc == UW_OK; c++) {
        weights[c] = counts[c] == 0 ? 1.0f
                                    : (float)((double)data->samples_n /
                                              ((double)present * (double)counts[c]));
    }
    free(counts);
    free(x);
    return rc;
}

/* Whether the model's loss can weigh classes. */
static int check_loss(const struct uw_model_def *d, struct uw_error *err)
{
    for (uint32_t i = 0; d->losses != NULL && i < d->losses_n; i++) {
        const struct uw_loss_def *l = &d->losses[i];
        if (i == 0 && l->kind != UW_LOSS_CROSS_ENTROPY) {
            return uw_error_set(err, UW_ERR_INVALID,
                                "--class-weights: model %.60s needs the loss cross_entropy",
                                d->name);
        }
        if (l->label_smoothing != 0.0f) {
            return uw_error_set(err, UW_ERR_INVALID,
                                "--class-weights: model %.60s has a loss with label_smoothing, "
                                "they do not go together", d->name);
        }
    }
    return UW_OK;
}

int uw_class_weights_read(const struct uw_job *j, struct uw_dataset *data, const char *text,
                          float **weights, struct uw_error *err)
{
    uint32_t classes = j->need.classes;
    int rc = check_loss(&j->file.def, err);
    if (rc < 0) {
        return rc;
    }
    *weights = malloc(classes * sizeof **weights);
    if (*weights == NULL) {
        return uw_error_set(err, UW_ERR_NOMEM, "--class-weights: no memory");
    }
    return strcmp(text, "balanced") == 0 ? count(data, classes, *weights, err)
                                         : read_list(text, classes, *weights, err);
}
