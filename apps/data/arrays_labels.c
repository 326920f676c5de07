/* SPDX-License-Identifier: Apache-2.0 */
#include "arrays_labels.h"

#include "columns.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LABEL_MAX 16777215.0f       /* whole numbers up to here are exact as floats */

/* The number that a label has for each class; n 0: labels are classes themselves. */
struct numbers {
    float *of;                      /* [n] */
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

/* The numbers that name the classes of earlier training; none, if one of them is no number. */
static int take_earlier(struct numbers *m, const struct uw_data_columns *like)
{
    bool all = like != NULL && like->classes_n != 0;
    m->of = all ? malloc(like->classes_n * sizeof *m->of) : NULL;
    if (all && m->of == NULL) {
        return UW_ERR_NOMEM;
    }
    for (uint32_t k = 0; all && k < like->classes_n; k++) {
        const struct uw_cell name = {.text = like->classes[k], .bytes = strlen(like->classes[k])};
        all = uw_cell_number(&name, false, &m->of[k]);
    }
    m->n = all ? like->classes_n : 0;
    return UW_OK;
}

static int compare_numbers(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Each number of y once, sorted, if they are whole and no more than room. */
static int take_order(struct numbers *m, const struct uw_data_arrays *a, uint32_t room)
{
    size_t most_n = a->samples_n > room ? a->samples_n : room;
    float *all = malloc(most_n * sizeof *all);
    bool whole = true;
    size_t n = 0;
    if (all == NULL) {
        return UW_ERR_NOMEM;
    }
    memcpy(all, a->y, (size_t)a->samples_n * sizeof *all);
    qsort(all, a->samples_n, sizeof *all, compare_numbers);
    for (size_t i = 0; i < a->samples_n; i++) {
        whole = whole && all[i] == floorf(all[i]) && fabsf(all[i]) <= LABEL_MAX;
        if (n == 0 || all[n - 1] != all[i]) {
            all[n++] = all[i];
        }
    }
    float least = all[0], most = all[n - 1];
    bool fits = least >= 0.0f && (room == 0 || most < (float)room);
    bool counted = least >= 1.0f && room != 0 && most <= (float)room;
    if (whole && !fits && counted) {
        for (n = 0; n < room; n++) {
            all[n] = (float)n + 1.0f;
        }
    }
    bool used = whole && !fits && room != 0 && n <= room;
    m->of = used ? all : NULL;
    m->n = used ? (uint32_t)n : 0;
    if (!used) {
        free(all);
    }
    return UW_OK;
}

static int keep_numbers(struct uw_arrays *d, const struct numbers *m, bool earlier)
{
    struct uw_data_columns *c = &d->columns;
    c->classes = calloc((size_t)m->n + 1u, sizeof *c->classes);
    bool good = c->classes != NULL;
    c->classes_n = good ? m->n : 0;
    for (uint32_t k = 0; good && k < m->n; k++) {
        char text[32];
        snprintf(text, sizeof text, "%.9g", (double)m->of[k]);
        c->classes[k] = strdup(text);
        good = c->classes[k] != NULL;
    }
    if (good && !earlier) {
        uw_note(&d->notes, "y: labels are numbered in their order: class 0 is label %g, class %u "
                "is label %g", (double)m->of[0], (unsigned)m->n - 1u, (double)m->of[m->n - 1u]);
    }
    return good ? UW_OK : UW_ERR_NOMEM;
}

/* ---- labels ---- */

static int fail_label(size_t i, float y, const struct numbers *m, struct uw_error *err)
{
    if (m->n != 0) {
        return uw_error_set(err, UW_ERR_INVALID, "y: sample %zu, counted from 0, has the label %g, "
                            "which is none of the %u classes, %g to %g", i, (double)y,
                            (unsigned)m->n, (double)m->of[0], (double)m->of[m->n - 1u]);
    }
    return uw_error_set(err, UW_ERR_INVALID, "y: sample %zu, counted from 0, has the label %g; "
                        "labels are 0, 1, 2, ...: numpy.unique(y, return_inverse=True) numbers "
                        "others, and loss mse trains on values", i, (double)y);
}

/* The class of a number; UINT32_MAX: none. */
static uint32_t class_of(float y, const struct numbers *m)
{
    uint32_t k = 0;
    if (m->n == 0) {
        return y >= 0.0f && y <= LABEL_MAX && y == floorf(y) ? (uint32_t)y : UINT32_MAX;
    }
    while (k < m->n && m->of[k] != y) {
        k++;
    }
    return k < m->n ? k : UINT32_MAX;
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

/* What numbers of labels mean: words, numbers of earlier training, or numbers in their order. */
static int take_meaning(struct uw_arrays *d, struct numbers *m,
                        const struct uw_data_arrays *first, const struct uw_data_config *config)
{
    uint32_t room = config->outputs == 1 ? 2 : config->outputs;
    struct uw_data_columns *c = &d->columns;
    int rc = UW_OK;
    if (first->classes != NULL) {
        rc = uw_names_copy(&c->classes, (char *const *)first->classes, first->classes_n);
        c->classes_n = rc == UW_OK ? first->classes_n : 0;
        return rc;
    }
    rc = take_earlier(m, config->like);
    bool earlier = m->n != 0;
    if (rc == UW_OK && !earlier && first->y != NULL && first->y_n == 1) {
        rc = take_order(m, first, room);
    }
    return rc < 0 || m->n == 0 ? rc : keep_numbers(d, m, earlier);
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
        rc = uw_error_set(err, rc, "y: no memory for %u labels", (unsigned)a->samples_n);
    } else {
        rc = read_all(d, a, one_hot, &m, err);
    }
    if (d->columns.classes_n != 0) {
        d->columns.features_n = a->channels * a->height * a->width;
    }
    free(m.of);
    return rc;
}
