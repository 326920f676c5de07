/* SPDX-License-Identifier: Apache-2.0 */
#include "arrays_labels.h"
#include "columns.h"
#include "sets.h"
#include "value_classes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGE 10.0f                 /* features of which the scale is doubted, as of tables */

static int read_arrays(struct uw_dataset *base, uint64_t index, float *x, uint32_t *label)
{
    const struct uw_arrays *d = (const struct uw_arrays *)base;
    size_t n = (size_t)base->channels * base->height * base->width;
    if (index >= base->samples_n) {
        return UW_ERR_INVALID;
    }
    const float *from = d->x + (size_t)index * n;
    memcpy(x, from, n * sizeof *x);
    for (size_t k = 0; k < d->columns.features_n && d->columns.mean != NULL; k++) {
        x[k] = isnan(from[k]) ? 0.0f : (from[k] - d->columns.mean[k]) * d->columns.inverse[k];
    }
    *label = d->labels != NULL ? d->labels[index] : 0;
    return UW_OK;
}

static int read_arrays_target(struct uw_dataset *base, uint64_t index, float *target)
{
    const struct uw_arrays *d = (const struct uw_arrays *)base;
    if (index >= base->samples_n) {
        return UW_ERR_INVALID;
    }
    const struct uw_data_columns *c = &d->columns;
    memcpy(target, d->y + (size_t)index * base->targets_n, base->targets_n * sizeof *target);
    for (uint32_t k = 0; k < c->targets_n; k++) {
        target[k] = (target[k] - c->target_mean[k]) * c->target_inverse[k];
    }
    return UW_OK;
}

static const struct uw_dataset_ops arrays_ops = {
    .name = "arrays", .read = read_arrays, .read_target = read_arrays_target};

/* Refuse what is not finite, but for NaN that gets the mean of the scale of earlier training.
 * Returns how many do, or UW_ERR_INVALID. */
static int64_t check_finite(const float *x, size_t rows_n, size_t row_n, const char *name,
                            const struct uw_data_columns *like, struct uw_error *err)
{
    bool fills = like != NULL && like->mean != NULL && like->features_n == row_n;
    int64_t filled_n = 0;
    for (size_t i = 0; i < rows_n * row_n; i++) {
        bool gap = fills && isnan(x[i]) && like->mean[i % row_n] != 0.0f;
        filled_n += gap;
        if (!isfinite(x[i]) && !gap) {
            return uw_error_set(err, UW_ERR_INVALID, "%s: number %zu of sample %zu, counted from "
                                "0, is %s; leave such samples out, or put a value in its place: "
                                "missing=\"drop\" or \"mean\" of fit does it",
                                name, i % row_n, i / row_n, isnan(x[i]) ? "NaN" : "infinite");
        }
    }
    return filled_n;
}

/* The same of a set; how many gaps there are is told. */
static int check_numbers(struct uw_arrays *d, const struct uw_data_arrays *a,
                         const struct uw_table_options *o, const struct uw_data_columns *like,
                         struct uw_error *err)
{
    size_t n = (size_t)a->channels * a->height * a->width;
    bool earlier = o->scale == UW_SCALE_STANDARD || !o->scale_said;
    int64_t gaps_n = check_finite(a->x, a->samples_n, n, "x", earlier ? like : NULL, err);
    int64_t rc = gaps_n < 0 || a->y == NULL
                     ? gaps_n : check_finite(a->y, a->samples_n, a->y_n, "y", NULL, err);
    if (rc >= 0 && gaps_n > 0) {
        uw_note(&d->notes, "%lld values of x are missing: they get the means of the training data",
                (long long)gaps_n);
    }
    return rc < 0 ? (int)rc : UW_OK;
}

/* Keep the names of features, as of a table with a header. */
static int take_names(struct uw_arrays *d, const struct uw_data_arrays *a, size_t n,
                      struct uw_error *err)
{
    if (a->features == NULL) {
        return UW_OK;
    }
    d->columns.features_n = (uint32_t)n;
    int rc = uw_names_copy(&d->columns.features, (char *const *)a->features, (uint32_t)n);
    return rc < 0 ? uw_error_set(err, rc, "x: no memory for names of columns") : rc;
}

static void doubt_scale(struct uw_arrays *d, const float *x, size_t n, const char *what,
                        enum uw_data_advice advice)
{
    float least = 0.0f, most = 0.0f;
    for (size_t i = 0; i < n; i++) {
        least = x[i] < least ? x[i] : least;
        most = x[i] > most ? x[i] : most;
    }
    bool large = most >= LARGE || least <= -LARGE;
    if (large && advice == UW_DATA_ADVISES_NEW) {
        uw_note(&d->notes, "%s goes from %g to %g and is not scaled: %s=\"standard\" is for a "
                "model that nobody has trained, weights of its own are for the units of their "
                "training", what, (double)least, (double)most,
                what[0] == 'x' ? "scale" : "target_scale");
    } else if (large && advice == UW_DATA_ADVISES) {
        uw_note(&d->notes, "WARNING: %s goes from %g to %g and is not scaled, which learns badly: "
                "%s=\"standard\" gives it mean 0 and deviation 1%s", what, (double)least,
                (double)most, what[0] == 'x' ? "scale" : "target_scale",
                what[0] == 'x' ? ", images / 255 values from 0 to 1" : "");
    }
}

/* Mean and 1 / deviation of each of a row's n numbers, as of a table's columns. */
static int take_moments(const float *x, size_t rows_n, size_t n, float *mean, float *inverse)
{
    double *sum = calloc(n, sizeof *sum), *squares = calloc(n, sizeof *squares);
    bool there = sum != NULL && squares != NULL;
    for (size_t i = 0; there && i < rows_n * n; i++) {
        sum[i % n] += (double)x[i];
    }
    for (size_t i = 0; there && i < rows_n * n; i++) {
        double from = (double)x[i] - sum[i % n] / (double)rows_n;
        squares[i % n] += from * from;
    }
    for (size_t k = 0; there && k < n; k++) {
        double deviation = sqrt(squares[k] / (double)rows_n);
        mean[k] = (float)(sum[k] / (double)rows_n);
        inverse[k] = uw_inverse_of(deviation, mean[k]);
    }
    free(sum);
    free(squares);
    return there ? UW_OK : UW_ERR_NOMEM;
}

/* The scale that is said, or of the data that the model's weights are for.
 *   a  the training set, or the only one */
static int take_scale(struct uw_arrays *d, const struct uw_table_options *o,
                      const struct uw_data_columns *like, const struct uw_data_arrays *a,
                      struct uw_error *err)
{
    struct uw_data_columns *c = &d->columns;
    size_t n = (size_t)a->channels * a->height * a->width;
    bool earlier = uw_scale_is_earlier(o, like, n, &d->notes);
    if (!earlier && o->scale == UW_SCALE_NONE) {
        return UW_OK;
    }
    int rc = uw_scale_room(n, &c->mean, &c->inverse, "x", err);
    if (rc == UW_OK && earlier) {
        memcpy(c->mean, like->mean, n * sizeof *c->mean);
        memcpy(c->inverse, like->inverse, n * sizeof *c->inverse);
    } else if (rc == UW_OK && o->scale == UW_SCALE_STANDARD) {
        rc = take_moments(a->x, a->samples_n, n, c->mean, c->inverse);
    }
    for (size_t k = 0; rc == UW_OK && o->scale == UW_SCALE_255 && k < n; k++) {
        c->inverse[k] = 1.0f / 255.0f;
    }
    c->features_n = (uint32_t)n;
    return rc;
}

/* Whether the values of one column are. */
static bool has_far(const struct uw_data_arrays *a, const float *mean, const float *inverse)
{
    bool far = false;
    for (size_t k = 0; k < a->y_n; k++) {
        float least = a->y[k], most = a->y[k];
        for (size_t i = 1; i < a->samples_n; i++) {
            least = fminf(least, a->y[i * a->y_n + k]);
            most = fmaxf(most, a->y[i * a->y_n + k]);
        }
        far = far || uw_values_are_far(mean[k], inverse[k], least, most);
    }
    return far;
}

/* The scale of y that is said, or that values far from 1 get. Returns whether there is one. */
static bool choose_values(struct uw_arrays *d, const struct uw_table_options *o,
                          const struct uw_data_arrays *a, const struct uw_data_config *config)
{
    struct uw_data_columns *c = &d->columns;
    bool far = o->target_scale == UW_TARGET_SCALE_AUTO && config->scale_values &&
               has_far(a, c->target_mean, c->target_inverse);
    for (uint32_t k = 0; k < a->y_n && o->target_scale == UW_TARGET_SCALE_DIVIDE; k++) {
        c->target_mean[k] = 0.0f;
        c->target_inverse[k] = 1.0f / o->divisor;
    }
    uint32_t first = a->y_n;
    for (uint32_t k = a->y_n; k-- > 0;) {
        bool class = uw_value_classes(config, k, a->y_n) != 0;
        c->target_mean[k] = class ? 0.0f : c->target_mean[k];
        c->target_inverse[k] = class ? 1.0f : c->target_inverse[k];
        first = class ? first : k;
    }
    if (first == a->y_n || o->target_scale == UW_TARGET_SCALE_NONE ||
        (o->target_scale == UW_TARGET_SCALE_AUTO && !far)) {
        return false;
    }
    uw_note(&d->notes, "y%s is learned minus %g and divided by %g: losses are those of scaled "
            "values, answers are in the units of y%s",
            a->y_n == 1 ? "" : first == 0 ? ", its first column," : ", its first value,",
            (double)c->target_mean[first], 1.0 / (double)c->target_inverse[first],
            far ? "; target_scale=\"none\" leaves values as they are" : "");
    return true;
}

/* The scale of the values: that of the training that the model's weights are for, or another. */
static int take_value_scale(struct uw_arrays *d, const struct uw_table_options *o,
                            const struct uw_data_config *config, const struct uw_data_arrays *a,
                            struct uw_error *err)
{
    const struct uw_data_columns *like = config->like;
    struct uw_data_columns *c = &d->columns;
    bool said = o->target_scale != UW_TARGET_SCALE_AUTO;
    bool others = config->outputs != 0 && a->y_n != config->outputs;
    bool scaled = uw_target_scale_is_earlier(o, like, a->y_n, &d->notes);
    if (!scaled && !said && (config->leave_values || others)) {
        return UW_OK;
    }
    int rc = uw_scale_room(a->y_n, &c->target_mean, &c->target_inverse, "y", err);
    if (rc == UW_OK && scaled) {
        memcpy(c->target_mean, like->target_mean, a->y_n * sizeof *c->target_mean);
        memcpy(c->target_inverse, like->target_inverse, a->y_n * sizeof *c->target_inverse);
    } else if (rc == UW_OK) {
        rc = take_moments(a->y, a->samples_n, a->y_n, c->target_mean, c->target_inverse);
        scaled = rc == UW_OK && choose_values(d, o, a, config);
    }
    if (rc == UW_OK && scaled) {
        c->features_n = a->channels * a->height * a->width;
        c->targets_n = a->y_n;
        return UW_OK;
    }
    free(c->target_mean);
    free(c->target_inverse);
    c->target_mean = c->target_inverse = NULL;
    if (rc == UW_OK && !said) {
        doubt_scale(d, a->y, (size_t)a->samples_n * a->y_n, "y", config->advice);
    }
    return rc;
}

/* Values that are classes, as of masks. */
static int check_classes(const struct uw_data_arrays *a, const struct uw_data_config *config,
                         struct uw_error *err)
{
    int rc = UW_OK;
    for (size_t i = 0; i < a->samples_n && rc == UW_OK; i++) {
        char where[80];
        const float *row = a->y + i * a->y_n;
        uint32_t k = uw_value_classes_find(config, row, a->y_n);
        snprintf(where, sizeof where, "y: sample %zu, place %u, counted from 0,", i, (unsigned)k);
        rc = k < a->y_n ? uw_value_classes_refuse(config, row[k], k, a->y_n, where, err) : UW_OK;
    }
    rc = rc < 0 ? rc : uw_value_classes_count(config, a->y, a->samples_n, a->y_n, "y", err);
    if (rc == UW_ERR_CORRUPT) {     /* no file's fault */
        err->code = rc = UW_ERR_INVALID;
    }
    return rc;
}

int uw_arrays_open(struct uw_arrays *d, const struct uw_table_options *options,
                   const struct uw_data_config *config, struct uw_error *err)
{
    const struct uw_data_arrays *a = config->test ? config->held : config->train;
    const struct uw_data_arrays *first = config->train != NULL ? config->train : a;
    size_t n = (size_t)a->channels * a->height * a->width;
    bool nothing = config->wanted == UW_DATA_WANT_NOTHING;
    *d = (struct uw_arrays){.x = a->x,
                            .base = {.ops = &arrays_ops, .channels = a->channels,
                                     .height = a->height, .width = a->width, .classes = 2,
                                     .samples_n = a->samples_n}};
    int rc = check_numbers(d, a, options, config->like, err);
    rc = rc < 0 ? rc : take_scale(d, options, config->like, first, err);
    rc = rc < 0 ? rc : take_names(d, first, n, err);
    if (rc < 0 || (nothing && a->y == NULL)) {
        return rc;
    }
    if (d->columns.mean != NULL && config->tokens) {
        uw_note(&d->notes, UW_TOKENS_ARE_SCALED);
    }
    if (d->columns.mean == NULL && !options->scale_said && !config->tokens) {
        doubt_scale(d, a->x, a->samples_n * n, "x", config->advice);
    }
    if (a->y == NULL) {
        return uw_error_set(err, UW_ERR_INVALID, "y: is needed, labels or values for each sample; "
                            "without any, loss autoencoder compares with the sample itself");
    }
    if (uw_arrays_wants_labels(a, config) || (nothing && a->whole && a->y_n == 1)) {
        if (options->target_scale != UW_TARGET_SCALE_AUTO) {
            return uw_error_set(err, UW_ERR_INVALID, "target_scale is for values, y has labels: "
                                "loss mse trains on values");
        }
        return uw_arrays_labels_read(d, a, first, config, err);
    }
    if (!nothing) {
        d->y = a->y;
        d->base.targets_n = a->y_n;
        rc = check_classes(a, config, err);
        return rc < 0 ? rc : take_value_scale(d, options, config, first, err);
    }
    return UW_OK;
}

void uw_arrays_close(struct uw_arrays *d)
{
    free(d->labels);
    d->labels = NULL;
    uw_data_columns_free(&d->columns);
}
