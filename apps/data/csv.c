/* SPDX-License-Identifier: Apache-2.0 */
#include "sets.h"

#include "columns.h"
#include "table_set.h"
#include "value_classes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int no_memory(const struct uw_table_set *p)
{
    return uw_error_set(p->err, UW_ERR_NOMEM, "%.120s: no memory", p->files.o.file);
}

/* ---- missing values ---- */

/* Which feature the column is; UINT32_MAX: none. */
static uint32_t feature_of(const struct uw_table_set *p, uint32_t column)
{
    for (uint32_t k = 0; k < p->roles.features_n; k++) {
        if (p->roles.features[k] == column) {
            return k;
        }
    }
    return UINT32_MAX;
}

static bool is_target(const struct uw_table_set *p, uint32_t column)
{
    for (uint32_t k = 0; k < p->roles.targets_n && p->roles.role != UW_ROLE_NOTHING; k++) {
        if (p->roles.targets[k] == column) {
            return true;
        }
    }
    return false;
}

static bool is_needed(const struct uw_table_set *p, uint32_t column)
{
    return feature_of(p, column) != UINT32_MAX || is_target(p, column);
}

/* Refuse the first value that is missing. */
static int refuse_missing(const struct uw_table_set *p, const struct uw_table *t)
{
    const struct uw_column *worst = NULL;
    char text[64];
    for (uint32_t c = 0; c < t->columns_n; c++) {
        const struct uw_column *x = &t->columns[c];
        bool before = worst == NULL || x->missing.line < worst->missing.line;
        if (x->missing_n != 0 && before && is_needed(p, c)) {
            worst = x;
        }
    }
    if (worst == NULL) {
        return UW_OK;
    }
    uint32_t column = (uint32_t)(worst - t->columns);
    return uw_error_set(p->err, UW_ERR_CORRUPT,
                        "%.90s:%u:%u: \"%s\": the value of %s is missing; %s", t->path,
                        (unsigned)worst->missing.line, (unsigned)worst->missing.byte,
                        worst->missing.text, uw_column_text(t, column, text),
                        is_target(p, column)
                            ? "it is what the model learns: missing=drop leaves such lines out, "
                              "missing=mean too, and fills gaps in features"
                            : "missing=drop leaves such lines out, missing=mean takes the "
                              "column's mean");
}

/* Mark the rows of words whose label is missing. */
static int drop_unlabelled(const struct uw_table_set *p, const struct uw_table *t, bool *keep)
{
    uint32_t column = p->roles.targets[0];
    struct uw_cell *cells = calloc((size_t)t->rows_n + 1u, sizeof *cells);
    if (cells == NULL) {
        return no_memory(p);
    }
    uw_table_words(t, column, cells);
    for (uint32_t row = 0; row < t->rows_n; row++) {
        keep[row] = keep[row] && !uw_cell_missing(&cells[row]);
    }
    free(cells);
    return UW_OK;
}

/* Leave out lines with a gap; with missing=mean in the label or the values only. */
static int drop_missing(struct uw_table_set *p, int i)
{
    struct uw_table *t = &p->files.table[i];
    bool all = p->files.o.missing == UW_MISSING_DROP;
    uint32_t before = t->rows_n;
    bool *keep = malloc((size_t)before + 1u);
    int rc = keep != NULL ? UW_OK : no_memory(p);
    if (rc == UW_OK) {
        memset(keep, true, before);
    }
    for (uint32_t c = 0; c < t->columns_n && rc == UW_OK; c++) {
        if (t->columns[c].missing_n == 0 || !(all ? is_needed(p, c) : is_target(p, c))) {
            continue;
        }
        if (t->columns[c].words_n != 0) {
            rc = drop_unlabelled(p, t, keep);
            continue;
        }
        for (uint32_t row = 0; row < before; row++) {
            keep[row] = keep[row] && !isnan(t->cells[(size_t)row * t->columns_n + c]);
        }
    }
    if (rc == UW_OK) {
        uw_table_keep(t, keep);
        if (p->files.names[i].path != NULL) {
            uw_table_keep(&p->files.names[i], keep);
        }
        if (t->rows_n != before) {
            uw_note(&p->d->notes, "%u of %u lines of %.100s lack %s and are left out",
                    (unsigned)(before - t->rows_n), (unsigned)before, t->path,
                    all ? "a value" : "the label or a value to compute");
        }
        rc = t->rows_n != 0 ? UW_OK
                            : uw_error_set(p->err, UW_ERR_CORRUPT,
                                           "%.120s: every line lacks a value", t->path);
    }
    free(keep);
    return rc;
}

/* Where nothing is said, gaps in features get the means that the model's weights are for, if there
 * are any, and lines without a label or value are left out. */
static bool take_means(struct uw_table_set *p)
{
    const struct uw_data_columns *like = p->config->like;
    const struct uw_table_options *o = &p->files.o;
    uint32_t gaps_n = 0;
    bool known = like != NULL && like->mean != NULL && like->features_n == p->roles.features_n &&
                 (p->config->unscaled || !o->scale_said || o->scale == UW_SCALE_STANDARD);
    for (int i = 0; i < 2 && known; i++) {
        const struct uw_table *t = &p->files.table[i];
        for (uint32_t c = 0; c < t->columns_n; c++) {
            uint32_t n = t->columns[c].missing_n, k = n != 0 ? feature_of(p, c) : UINT32_MAX;
            known = known && (k == UINT32_MAX || like->mean[k] != 0.0f);
            gaps_n += k != UINT32_MAX ? n : 0;
        }
    }
    if (known && gaps_n != 0) {
        uw_note(&p->d->notes, "%u values are missing and get the mean of the training data; "
                "missing=refuse or drop decides otherwise", (unsigned)gaps_n);
    }
    return known;
}

/* What missing=mean does with the lines that are left. */
static void tell_means(const struct uw_table_set *p)
{
    uint32_t gaps_n = 0;
    for (int i = 0; i < 2; i++) {
        const struct uw_table *t = &p->files.table[i];
        for (uint32_t row = 0; row < t->rows_n; row++) {
            for (uint32_t k = 0; k < p->roles.features_n; k++) {
                float value = t->cells[(size_t)row * t->columns_n + p->roles.features[k]];
                gaps_n += isnan(value) ? 1u : 0u;
            }
        }
    }
    if (gaps_n != 0) {
        uw_note(&p->d->notes, "%u values are missing and get the mean of their column in training",
                (unsigned)gaps_n);
    }
}

static int treat_missing(struct uw_table_set *p)
{
    int rc = UW_OK;
    bool told = p->files.o.missing == UW_MISSING_AUTO && take_means(p);
    if (told) {
        p->files.o.missing = UW_MISSING_MEAN;
    }
    for (int i = 0; i < 2 && rc == UW_OK; i++) {
        if (p->files.table[i].path != NULL) {
            rc = p->files.o.missing >= UW_MISSING_MEAN ? drop_missing(p, i)
                                                       : refuse_missing(p, &p->files.table[i]);
        }
    }
    if (rc == UW_OK && p->files.o.missing == UW_MISSING_MEAN && !told) {
        tell_means(p);
    }
    return rc;
}

/* ---- labels and sets ---- */

static int read_labels(struct uw_table_set *p)
{
    static const uint32_t zero = 0;
    bool mine = p->roles.role == UW_ROLE_LABEL || p->roles.role == UW_ROLE_ONE_HOT;
    for (int i = 0; i < 2; i++) {
        if (p->files.names[i].path != NULL) {
            p->column[i] = (struct uw_label_column){&p->files.names[i], &zero, 1};
        } else if (mine && p->files.table[i].path != NULL) {
            p->column[i] = (struct uw_label_column){&p->files.table[i], p->roles.targets,
                                                    p->roles.targets_n};
        }
    }
    return p->column[0].table == NULL ? UW_OK
                                      : uw_labels_read(&p->labels, p->column, p->config->outputs,
                                                       p->files.o.classes, p->config->like,
                                                       &p->d->notes, p->err);
}

static int choose_rows(struct uw_table_set *p)
{
    bool has_labels = p->labels.classes_n != 0;
    const struct uw_table *t = &p->files.table[0];
    bool whole = p->config->asks && p->roles.role == UW_ROLE_NOTHING;
    if (p->files.o.test == NULL && p->files.o.test_share > 0.0 && !whole) {
        p->test = calloc((size_t)t->rows_n + 1u, sizeof *p->test);
        const uint32_t *label = has_labels ? p->labels.of[0] : NULL;
        int n = p->test == NULL ? UW_ERR_NOMEM
                                : uw_table_split(t->rows_n, label, p->labels.classes_n,
                                                 p->files.o.test_share, p->test);
        if (n < 0) {
            return no_memory(p);
        }
        if (n == 0) {       /* too few lines */
            free(p->test);
            p->test = NULL;
        }
    }
    for (int i = 0; i < 2; i++) {
        int of = i == 1 && p->files.table[1].path != NULL ? 1 : 0;
        p->rows[i] = (struct uw_rows){.table = &p->files.table[of],
                                      .test = of == 0 ? p->test : NULL,
                                      .label = has_labels ? p->labels.of[of] : NULL,
                                      .of_test = i == 1};
    }
    return UW_OK;
}

/* ---- values that are classes ---- */

/* Masks of 0 and 255 have two classes, and not one beside places that do not count. */
static void tell_void(const struct uw_table_set *p, int i)
{
    const struct uw_table *t = &p->files.table[i];
    bool zero = true;
    for (uint32_t k = 0; k < p->roles.targets_n; k++) {
        zero = zero && t->columns[p->roles.targets[k]].most <= 0.0f;
    }
    uw_note(&p->d->notes, zero ? "WARNING: masks have 0 and 255 only; 255 is a place that does not "
                                 "count, of which there are %u: mask // 255 makes classes 0 and 1"
                               : "255 in masks of bytes is a place that does not count, of which "
                                 "there are %u", (unsigned)t->void_n);
}

static int check_classes(struct uw_table_set *p)
{
    uint32_t n = p->roles.role == UW_ROLE_VALUES ? p->roles.targets_n : 0;
    float *row = malloc(((size_t)n + 1u) * sizeof *row);
    int rc = row != NULL ? UW_OK : no_memory(p);
    for (int i = 0; i < 2 && n != 0; i++) {
        const struct uw_table *t = &p->files.table[i];
        for (uint32_t at = 0; at < t->rows_n && rc == UW_OK; at++) {
            char where[160], text[64];
            for (uint32_t k = 0; k < n; k++) {
                row[k] = t->cells[(size_t)at * t->columns_n + p->roles.targets[k]];
            }
            uint32_t bad = uw_value_classes_find(p->config, row, n);
            if (bad == n) {
                continue;
            }
            if (t->text != NULL) {
                snprintf(where, sizeof where, "%.80s:%u: %s", t->path, (unsigned)t->line[at],
                         uw_column_text(t, p->roles.targets[bad], text));
            } else {
                snprintf(where, sizeof where, "%.80s: sample %u, place %u, counted from 0,",
                         t->path, (unsigned)t->line[at] - 1u, (unsigned)bad);
            }
            rc = uw_value_classes_refuse(p->config, row[bad], bad, n, where, p->err);
        }
        if (rc == UW_OK && t->void_n != 0) {
            tell_void(p, i);
        }
    }
    free(row);
    return rc;
}

/* ---- samples ---- */

/* Copy the rows of one set. mean: of each feature, instead of a value that is missing. */
static int take_rows(struct uw_table_set *p, const struct uw_rows *rows, const float *mean)
{
    struct uw_csv *d = p->d;
    const struct uw_table *t = rows->table;
    const struct uw_roles *r = &p->roles;
    uint32_t n = 0;
    for (uint32_t row = 0; row < t->rows_n; row++) {
        n += uw_rows_has(rows, row);
    }
    size_t targets_n = d->base.targets_n;
    d->values = malloc(((size_t)n * r->features_n + 1u) * sizeof *d->values);
    d->targets = malloc(((size_t)n * targets_n + 1u) * sizeof *d->targets);
    d->labels = calloc((size_t)n + 1u, sizeof *d->labels);
    if (d->values == NULL || d->targets == NULL || d->labels == NULL) {
        return no_memory(p);
    }
    float *x = d->values, *target = d->targets;
    for (uint32_t row = 0, at = 0; row < t->rows_n; row++) {
        const float *cells = t->cells + (size_t)row * t->columns_n;
        if (!uw_rows_has(rows, row)) {
            continue;
        }
        for (uint32_t k = 0; k < r->features_n; k++) {
            float value = cells[r->features[k]];
            value = isnan(value) ? mean[k] : value;
            *x++ = d->columns.mean != NULL
                       ? (value - d->columns.mean[k]) * d->columns.inverse[k] : value;
        }
        for (uint32_t k = 0; k < targets_n; k++) {
            float value = cells[r->targets[k]];
            *target++ = d->columns.target_mean != NULL
                            ? (value - d->columns.target_mean[k]) * d->columns.target_inverse[k]
                            : value;
        }
        d->labels[at++] = rows->label != NULL ? rows->label[row] : 0;
    }
    d->base.samples_n = n;
    return UW_OK;
}

static int take_samples(struct uw_table_set *p)
{
    const struct uw_rows *rows = &p->rows[p->config->test ? 1 : 0];
    float *moments = calloc(2u * (size_t)p->roles.features_n + 1u, sizeof *moments);
    if (moments == NULL) {
        return no_memory(p);
    }
    if (p->files.o.missing == UW_MISSING_MEAN) {
        uw_table_moments(&p->rows[0], p->roles.features, p->roles.features_n, moments,
                         moments + p->roles.features_n);
    }
    int rc = uw_table_scale(p, moments);
    rc = rc < 0 ? rc : uw_table_scale_values(p);
    rc = rc < 0 ? rc : take_rows(p, rows, moments);
    free(moments);
    if (rc == UW_OK) {
        rc = uw_value_classes_count(p->config, p->d->targets, p->d->base.samples_n,
                                    p->d->base.targets_n, p->files.o.file, p->err);
    }
    return rc;
}

/* ---- what it is, in words ---- */

/* The names of columns; NULL: they have none. */
static int copy_names(struct uw_table_set *p, const uint32_t *columns, uint32_t n, char ***names)
{
    const struct uw_table *t = &p->files.table[0];
    bool named = n != 0;
    for (uint32_t k = 0; k < n; k++) {
        named = named && t->columns[columns[k]].name != NULL;
    }
    if (!named) {
        return UW_OK;
    }
    *names = calloc((size_t)n, sizeof **names);
    for (uint32_t k = 0; k < n && *names != NULL; k++) {
        (*names)[k] = strdup(t->columns[columns[k]].name);
        if ((*names)[k] == NULL) {
            return no_memory(p);
        }
    }
    return *names != NULL ? UW_OK : no_memory(p);
}

static int copy_label(struct uw_table_set *p)
{
    const struct uw_roles *r = &p->roles;
    bool one = r->role == UW_ROLE_LABEL && r->targets_n == 1;
    const char *name = one ? p->files.table[0].columns[r->targets[0]].name : NULL;
    if (name == NULL) {
        return UW_OK;
    }
    p->d->columns.label = strdup(name);
    return p->d->columns.label != NULL ? UW_OK : no_memory(p);
}

/* Where the features are in a line of text that has more. */
static int copy_places(struct uw_table_set *p)
{
    const struct uw_table *t = &p->files.table[0];
    struct uw_data_columns *c = &p->d->columns;
    size_t bytes = c->features_n * sizeof *c->places;
    bool in_order = t->columns_n == c->features_n;
    for (uint32_t k = 0; k < c->features_n; k++) {
        in_order = in_order && p->roles.features[k] == k;
    }
    if (t->text == NULL || in_order) {
        return UW_OK;
    }
    c->columns_n = t->columns_n;
    c->places = malloc(bytes);
    if (c->places == NULL) {
        return no_memory(p);
    }
    memcpy(c->places, p->roles.features, bytes);
    return UW_OK;
}

/* The names of a mask's classes: said, or of an earlier set. */
static int name_classes(struct uw_table_set *p)
{
    struct uw_data_columns *c = &p->d->columns;
    const struct uw_data_columns *like = p->config->like;
    const char *list = p->files.o.classes;
    uint32_t n = c->targets_n != 0 ? uw_value_classes(p->config, 0, c->targets_n) : 0;
    bool earlier = n != 0 && list == NULL && like != NULL && like->classes != NULL &&
                   like->classes_n == n;
    if (earlier) {
        c->classes_n = n;
        return uw_names_copy(&c->classes, like->classes, n) == UW_OK ? UW_OK : no_memory(p);
    }
    if (list == NULL || c->targets_n == 0) {
        return UW_OK;
    }
    if (uw_names_read(list, &c->classes, &c->classes_n) < 0) {
        return no_memory(p);
    }
    if (n == 0) {
        return uw_error_set(p->err, UW_ERR_INVALID, "classes=%.80s: %.80s has values beside each "
                            "sample, and no classes", list, p->files.o.file);
    }
    return c->classes_n == n
               ? UW_OK
               : uw_error_set(p->err, UW_ERR_INVALID, "classes=%.80s: %u names, the model has %u "
                              "classes for each place", list, (unsigned)c->classes_n, (unsigned)n);
}

static int describe_columns(struct uw_table_set *p)
{
    struct uw_data_columns *c = &p->d->columns;
    c->features_n = p->roles.features_n;
    c->indices_from = p->files.table[0].indices_from;
    c->targets_n = p->d->base.targets_n;
    int rc = copy_places(p);
    rc = rc < 0 ? rc : copy_names(p, p->roles.features, c->features_n, &c->features);
    rc = rc < 0 ? rc : copy_names(p, p->roles.targets, c->targets_n, &c->targets);
    rc = rc < 0 ? rc : copy_label(p);
    if (rc < 0 || p->labels.classes_n == 0) {
        return rc < 0 ? rc : name_classes(p);
    }
    c->classes_n = p->labels.classes_n;
    c->counts = calloc((size_t)c->classes_n, sizeof *c->counts);
    if (c->counts == NULL || uw_names_copy(&c->classes, p->labels.names, c->classes_n) < 0) {
        return no_memory(p);
    }
    for (uint32_t row = 0; row < p->files.table[0].rows_n; row++) {
        c->counts[p->labels.of[0][row]] += uw_rows_has(&p->rows[0], row);
    }
    return UW_OK;
}

/* ---- the dataset ---- */

static int read_csv(struct uw_dataset *base, uint64_t index, float *x, uint32_t *label)
{
    const struct uw_csv *d = (const struct uw_csv *)base;
    if (index >= base->samples_n) {
        return UW_ERR_INVALID;
    }
    size_t n = d->columns.features_n;
    memcpy(x, d->values + index * n, n * sizeof *x);
    *label = d->labels[index];
    return UW_OK;
}

static int read_csv_target(struct uw_dataset *base, uint64_t index, float *target)
{
    const struct uw_csv *d = (const struct uw_csv *)base;
    if (index >= base->samples_n) {
        return UW_ERR_INVALID;
    }
    memcpy(target, d->targets + index * base->targets_n, base->targets_n * sizeof *target);
    return UW_OK;
}

static const struct uw_dataset_ops csv_ops = {
    .name = "csv", .read = read_csv, .read_target = read_csv_target};

/* An array's samples may be images. */
static void set_shape(const struct uw_table_set *p)
{
    const uint32_t *shape = p->files.shape;
    struct uw_dataset *base = &p->d->base;
    if ((uint64_t)shape[0] * shape[1] * shape[2] == base->channels) {
        base->channels = shape[0];
        base->height = shape[1];
        base->width = shape[2];
    }
}

static int open_set(struct uw_table_set *p)
{
    struct uw_dataset *base = &p->d->base;
    int rc = uw_roles_choose(&p->roles, &p->files.table[0], &p->files.o, p->config, &p->d->notes,
                                       p->err);
    if (rc == UW_OK && p->files.table[1].path != NULL) {
        rc = uw_roles_check_like(&p->roles, &p->files.table[0], &p->files.table[1], p->err);
    }
    rc = rc < 0 ? rc : treat_missing(p);
    rc = rc < 0 ? rc : check_classes(p);
    rc = rc < 0 ? rc : read_labels(p);
    rc = rc < 0 ? rc : choose_rows(p);
    if (rc < 0) {
        return rc;
    }
    base->channels = p->roles.features_n;
    base->targets_n = p->roles.role == UW_ROLE_VALUES ? p->roles.targets_n : 0;
    base->classes = p->labels.classes_n > 2 ? p->labels.classes_n : 2;
    rc = describe_columns(p);
    rc = rc < 0 ? rc : take_samples(p);
    if (rc == UW_OK) {
        bool scaled = p->d->columns.mean != NULL;
        bool good = scaled || p->config->unscaled || p->config->tokens;
        if (scaled && p->config->tokens) {
            uw_note(&p->d->notes, UW_TOKENS_ARE_SCALED);
        }
        uw_table_doubt(&p->rows[0], &p->rows[1], &p->roles, &p->labels,
                       good ? UW_DATA_ADVISES_NOTHING : p->config->advice, &p->d->notes);
        uw_table_tell(p);
        set_shape(p);
    }
    return rc;
}

int uw_csv_open(struct uw_csv *d, enum uw_table_kind kind, const char *text,
                const struct uw_data_config *config, struct uw_error *err)
{
    *d = (struct uw_csv){.base = {.ops = &csv_ops, .height = 1, .width = 1}};
    struct uw_table_set *p = calloc(1, sizeof *p);
    if (p == NULL) {
        return uw_error_set(err, UW_ERR_NOMEM, "csv:%.120s: no memory", text);
    }
    p->d = d;
    p->config = config;
    p->err = err;
    int rc = uw_table_files_open(&p->files, kind, text, config, err);
    rc = rc < 0 ? rc : open_set(p);
    uw_labels_close(&p->labels);
    uw_roles_close(&p->roles);
    uw_table_files_close(&p->files);
    free(p->test);
    free(p);
    if (rc < 0) {
        uw_csv_close(d);
    }
    return rc;
}

void uw_csv_close(struct uw_csv *d)
{
    uw_data_columns_free(&d->columns);
    free(d->values);
    free(d->targets);
    free(d->labels);
    d->values = d->targets = NULL;
    d->labels = NULL;
}
