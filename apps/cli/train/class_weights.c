/* SPDX-License-Identifier: Apache-2.0 */
#include "class_weights.h"

#include "job/job_data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What the classes are of: samples, or positions of a mask among the values of a sample. */
struct of {
    bool mask, binary;              /* binary: one output, whose values 0 and 1 are classes */
    uint32_t classes, first, positions_n;
};

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

/* Count the classes of one sample: its label, or those of its positions from x[first] on. */
static int count_one(struct uw_dataset *data, uint32_t index, const struct of *of, float *x,
                     uint64_t *counts)
{
    uint32_t label = 0;
    bool targets = of->mask || (of->binary && data->targets_n != 0);
    int rc = targets ? data->ops->read_target(data, index, x)
                     : data->ops->read(data, index, x, &label);
    if (of->binary && targets) {
        x[of->first] = x[of->first] >= 0.5f ? 1.0f : 0.0f;
    }
    for (uint32_t k = 0; k < (of->mask ? of->positions_n : 1u) && rc == UW_OK; k++) {
        float class = targets ? x[of->first + k] : (float)label;
        if (class >= (float)of->classes) {
            return UW_ERR_INVALID;
        }
        if (class >= 0.0f) {
            counts[(uint32_t)class]++;
        }
    }
    return rc;
}

static int count(struct uw_dataset *data, const struct of *of, float *weights,
                 struct uw_error *err)
{
    size_t sample_n = (size_t)data->channels * data->height * data->width;
    uint64_t *counts = calloc(of->classes, sizeof *counts), present = 0, all = 0;
    float *x = malloc((sample_n > data->targets_n ? sample_n : data->targets_n) * sizeof *x);
    int rc = counts != NULL && x != NULL ? UW_OK
                                         : uw_error_set(err, UW_ERR_NOMEM,
                                                        "--class-weights: no memory");
    for (uint32_t i = 0; i < data->samples_n && rc == UW_OK; i++) {
        rc = count_one(data, i, of, x, counts);
        if (rc < 0) {
            uw_error_set(err, rc, "--class-weights balanced: sample %u: %s", (unsigned)i,
                         rc == UW_ERR_INVALID ? "a label is above the model's classes"
                                              : uw_status_text(rc));
        }
    }
    for (uint32_t c = 0; c < of->classes; c++) {
        present += counts != NULL && counts[c] != 0;
        all += counts != NULL ? counts[c] : 0;
    }
    for (uint32_t c = 0; c < of->classes && rc == UW_OK; c++) {
        weights[c] = counts[c] == 0 ? 1.0f
                                    : (float)((double)all / ((double)present * (double)counts[c]));
    }
    free(counts);
    free(x);
    return rc;
}

/* Whether the model's loss can weigh classes. */
static int check_loss(const struct uw_model_def *d, bool binary, struct uw_error *err)
{
    for (uint32_t i = 0; d->losses != NULL && i < d->losses_n; i++) {
        const struct uw_loss_def *l = &d->losses[i];
        if (i == 0 && l->kind != UW_LOSS_CROSS_ENTROPY && !binary) {
            return uw_error_set(err, UW_ERR_INVALID,
                                "--class-weights: model %.60s needs the loss cross_entropy, or one "
                                "output and the loss binary", d->name);
        }
        if (l->label_smoothing != 0.0f) {
            return uw_error_set(err, UW_ERR_INVALID,
                                "--class-weights: model %.60s has a loss with label_smoothing, "
                                "they do not go together", d->name);
        }
    }
    return UW_OK;
}

static struct of of_job(const struct uw_job *j)
{
    const struct uw_loss_def *l = j->file.def.losses;
    bool binary = uw_job_is_binary(j);
    struct of of = {.mask = l != NULL && l->target == UW_TARGET_VALUES && !binary, .binary = binary,
                    .first = binary ? l->first : 0,
                    .classes = binary ? 2 : j->need.classes, .positions_n = 1};
    if (of.mask) {
        of.first = l->first;
        of.positions_n = uw_job_positions(j);
        of.classes /= of.positions_n;
    }
    return of;
}

int uw_class_weights_read(const struct uw_job *j, struct uw_dataset *data, const char *text,
                          float **weights, struct uw_error *err)
{
    const struct of of = of_job(j);
    uint32_t classes = of.classes;
    int rc = check_loss(&j->file.def, of.binary, err);
    if (rc < 0) {
        return rc;
    }
    *weights = malloc(classes * sizeof **weights);
    if (*weights == NULL) {
        return uw_error_set(err, UW_ERR_NOMEM, "--class-weights: no memory");
    }
    rc = strcmp(text, "balanced") == 0 ? count(data, &of, *weights, err)
                                       : read_list(text, classes, *weights, err);
    return rc < 0 ? rc : (int)classes;
}
