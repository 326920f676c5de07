/* SPDX-License-Identifier: Apache-2.0 */
#include "arrays_labels.h"

#include "columns.h"
#include "table_labels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LABEL_MAX 16777215.0f       /* whole numbers up to here are exact as floats */

struct number {
    float label;
    uint32_t class;
};

/* What labels mean; n 0: they are classes themselves. */
struct numbers {
    struct number *of;              /* [n] sorted by label */
    uint32_t n;
};

/* Whether each row is zeros with a single 1 among them. */
static bool is_one_hot(const struct uw_data_arrays *a)
{
    for (size_t i = 0; i < a->samples_n; i++) {
        const float *y = a->y + i * a->y_n;
        uint32_t ones = 0, others = 0;
        for (uint32_t k = 0; k < a->y_n; k++) {
            ones += y[k] == 1.0f;
            others += y[k] != 1.0f && y[k] != 0.0f;
        }
        if (ones != 1 || others != 0) {
            return false;
        }
    }
    return a->y_n > 1;
}

bool uw_arrays_wants_labels(const struct uw_data_arrays *a, const struct uw_data_config *config)
{
    bool one = a->y_n == 1 && (a->whole || config->outputs > 1);
    return config->wanted == UW_DATA_WANT_LABELS ||
           (config->wanted == UW_DATA_WANT_ANY && (one || is_one_hot(a)));
}

static uint32_t place_of_one(const float *y, uint32_t n)
{
    uint32_t k = 0;
    while (k + 1u < n && y[k] != 1.0f) {
        k++;
    }
    return k;
}

/* ---- labels that do not count from 0 ---- */

static int compare_labels(const void *a, const void *b)
{
    float x = ((const struct number *)a)->label, y = ((const struct number *)b)->label;
    return (x > y) - (x < y);
}

/* The numbers that name classes; none, if one of them is no number. */
static int take_names(struct numbers *m, const struct uw_data_columns *c)
{
    bool all = c->classes_n != 0;
    m->of = malloc(((size_t)c->classes_n + 1u) * sizeof *m->of);
    if (m->of == NULL) {
        return UW_ERR_NOMEM;
    }
    for (uint32_t k = 0; all && k < c->classes_n; k++) {
        const struct uw_cell name = {.text = c->classes[k], .bytes = strlen(c->classes[k])};
        m->of[k].class = k;
        all = uw_cell_number(&name, false, &m->of[k].label);
    }
    m->n = all ? c->classes_n : 0;
    qsort(m->of, m->n, sizeof *m->of, compare_labels);
    return UW_OK;
}

/* Number the labels of a set by which a model begins, if they are whole.
 *   m  n is 0 then where they are classes themselves
 * Returns UW_OK, UW_ERR_TOOBIG or UW_ERR_NOMEM. */
static int take_new(struct uw_arrays *d, struct numbers *m, const struct uw_data_arrays *a,
                    uint32_t outputs)
{
    struct uw_data_columns *c = &d->columns;
    float *label = malloc((size_t)a->samples_n * sizeof *label), *number = NULL;
    bool whole = label != NULL;
    for (uint32_t i = 0; whole && i < a->samples_n; i++) {
        label[i] = a->y[i];
        whole = label[i] == floorf(label[i]) && fabsf(label[i]) <= LABEL_MAX;
    }
    int n = label == NULL ? UW_ERR_NOMEM
            : whole         ? uw_label_numbers(label, a->samples_n, outputs, "subtract it from y",
                                               &d->notes, &number, &c->classes)
                            : 0;
    c->classes_n = n > 0 ? (uint32_t)n : 0;
    bool plain = n > 0 && number[0] == 0.0f && number[n - 1] == (float)n - 1.0f;
    free(label);
    free(number);
    return n < 0 ? n : plain ? UW_OK : take_names(m, c);
}

/* ---- labels ---- */

static int fail_label(size_t i, float y, const struct numbers *m, struct uw_error *err)
{
    if (m->n != 0) {
        return uw_error_set(err, UW_ERR_INVALID, "y: sample %zu, counted from 0, has the label %g, "
                            "which is none of the %u classes, %g to %g", i, (double)y,
                            (unsigned)m->n, (double)m->of[0].label,
                            (double)m->of[m->n - 1u].label);
    }
    return uw_error_set(err, UW_ERR_INVALID, "y: sample %zu, counted from 0, has the label %g; "
                        "labels are 0, 1, 2, ...: numpy.unique(y, return_inverse=True) numbers "
                        "others, and loss mse trains on values", i, (double)y);
}

/* The class of a number; UINT32_MAX: none. */
static uint32_t class_of(float y, const struct numbers *m)
{
    const struct number key = {.label = y};
    if (m->n == 0) {
        return y >= 0.0f && y <= LABEL_MAX && y == floorf(y) ? (uint32_t)y : UINT32_MAX;
    }
    const struct number *found = bsearch(&key, m->of, m->n, sizeof key, compare_labels);
    return found != NULL ? found->class : UINT32_MAX;
}

static int read_all(struct uw_arrays *d, const struct uw_data_arrays *a, bool one_hot,
                    const struct numbers *m, struct uw_error *err)
{
    uint32_t classes = one_hot ? a->y_n : m->n > 2 ? m->n : 2;
    for (size_t i = 0; i < a->samples_n; i++) {
        uint32_t k = one_hot ? place_of_one(a->y + i * a->y_n, a->y_n) : class_of(a->y[i], m);
        if (k == UINT32_MAX) {
            return fail_label(i, a->y[i], m, err);
        }
        d->labels[i] = k;
        classes = k >= classes ? k + 1u : classes;
    }
    d->base.classes = classes > d->columns.classes_n ? classes : d->columns.classes_n;
    if (one_hot) {
        uw_note(&d->notes, "y is one-hot: %u classes", (unsigned)classes);
    } else if (!a->whole && m->n == 0) {
        uw_note(&d->notes, "y is read as labels, up to %u", (unsigned)classes - 1u);
    }
    return UW_OK;
}

/* What numbers of labels mean: words, or numbers of earlier training, or what those mean by which a
 * model begins. */
static int take_meaning(struct uw_arrays *d, struct numbers *m,
                        const struct uw_data_arrays *first, const struct uw_data_config *config)
{
    const struct uw_data_columns *like = config->like;
    struct uw_data_columns *c = &d->columns;
    bool words = first->classes != NULL;
    bool known = words || (like != NULL && like->classes_n != 0);
    int rc = UW_OK;
    if (known) {
        c->classes_n = words ? first->classes_n : like->classes_n;
        rc = uw_names_copy(&c->classes, words ? (char *const *)first->classes : like->classes,
                           c->classes_n);
        rc = rc < 0 || words ? rc : take_names(m, c);
    } else if (like == NULL && config->train != NULL && first->y != NULL && first->y_n == 1) {
        rc = take_new(d, m, first, config->outputs);
    }
    if (!words && m->n == 0) {
        uw_names_free(c->classes, c->classes_n);
        c->classes = NULL;
        c->classes_n = 0;
    }
    return rc;
}

int uw_arrays_labels_read(struct uw_arrays *d, const struct uw_data_arrays *a,
                          const struct uw_data_arrays *first, const struct uw_data_config *config,
                          struct uw_error *err)
{
    struct numbers m = {.n = 0};
    bool one_hot = is_one_hot(a);
    if (a->y_n != 1 && !one_hot) {
        return uw_error_set(err, UW_ERR_MISMATCH, "y: %u numbers for each sample; labels are one "
                            "whole number for each, or a row of zeros with a single 1",
                            (unsigned)a->y_n);
    }
    d->labels = malloc((size_t)a->samples_n * sizeof *d->labels);
    int rc = d->labels == NULL ? UW_ERR_NOMEM
             : one_hot         ? UW_OK : take_meaning(d, &m, first, config);
    if (rc < 0) {
        rc = uw_error_set(err, rc, rc == UW_ERR_NOMEM ? "y: no memory for %u labels"
                                                      : "y: %u samples, and too many different "
                                                        "labels: loss mse trains on values",
                          (unsigned)a->samples_n);
    } else {
        rc = read_all(d, a, one_hot, &m, err);
    }
    if (d->columns.classes_n != 0) {
        d->columns.features_n = a->channels * a->height * a->width;
    }
    free(m.of);
    return rc;
}
