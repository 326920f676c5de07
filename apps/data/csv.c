/* SPDX-License-Identifier: Apache-2.0 */
#include "sets.h"

#include "table_split.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LISTED 8u                   /* names that a sentence lists */

struct opening {
    struct uw_csv *d;
    const struct uw_data_config *config;
    struct uw_error *err;
    struct uw_table_options o;
    struct uw_table table[2];       /* training file, test file; without one the second is empty */
    struct uw_table names[2];       /* files of labels */
    struct uw_roles roles;
    struct uw_label_column column[2];
    struct uw_labels labels;
    bool *test;                     /* of the training file; NULL: not split */
    struct uw_rows rows[2];         /* of the training and the test set */
};

static int no_memory(const struct opening *p)
{
    return uw_error_set(p->err, UW_ERR_NOMEM, "%.120s: no memory", p->o.file);
}

/* ---- files ---- */

static bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static bool has_test_file(const struct opening *p)
{
    return p->o.test != NULL && !same_file(p->o.file, p->o.test);
}

/* Open a file of one label for each line of a table. */
static int open_names(struct opening *p, int i, const char *path)
{
    int rc = uw_table_open(&p->names[i], path,
                           &(struct uw_table_options){.skip = -1}, p->err);
    if (rc == UW_OK && p->names[i].rows_n != p->table[i].rows_n) {
        rc = uw_error_set(p->err, UW_ERR_MISMATCH, "%.90s has %u labels, %.90s %u lines", path,
                          (unsigned)p->names[i].rows_n, p->table[i].path,
                          (unsigned)p->table[i].rows_n);
    }
    return rc;
}

static int open_files(struct opening *p)
{
    int rc = uw_table_open(&p->table[0], p->o.file, &p->o, p->err);
    if (rc == UW_OK && has_test_file(p)) {
        rc = uw_table_open(&p->table[1], p->o.test, &p->o, p->err);
    }
    if (rc == UW_OK && p->o.labels != NULL) {
        rc = open_names(p, 0, p->o.labels);
        rc = rc < 0 || !has_test_file(p) ? rc : open_names(p, 1, p->o.test_labels);
    }
    return rc;
}

/* ---- missing values ---- */

static bool is_needed(const struct opening *p, uint32_t column)
{
    for (uint32_t k = 0; k < p->roles.features_n; k++) {
        if (p->roles.features[k] == column) {
            return true;
        }
    }
    for (uint32_t k = 0; k < p->roles.targets_n && p->roles.role != UW_ROLE_NOTHING; k++) {
        if (p->roles.targets[k] == column) {
            return true;
        }
    }
    return false;
}

/* Refuse the first value that is missing. */
static int refuse_missing(const struct opening *p, const struct uw_table *t)
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
    return uw_error_set(p->err, UW_ERR_CORRUPT,
                        "%.90s:%u:%u: \"%s\": the value of %s is missing; missing=drop leaves such "
                        "lines out, missing=mean takes the column's mean", t->path,
                        (unsigned)worst->missing.line, (unsigned)worst->missing.byte,
                        worst->missing.text,
                        uw_column_text(t, (uint32_t)(worst - t->columns), text));
}

/* Mark the rows of words whose label is missing. */
static int drop_unlabelled(const struct opening *p, const struct uw_table *t, bool *keep)
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

static int drop_missing(struct opening *p, int i)
{
    struct uw_table *t = &p->table[i];
    uint32_t before = t->rows_n;
    bool *keep = malloc((size_t)before + 1u);
    int rc = keep != NULL ? UW_OK : no_memory(p);
    if (rc == UW_OK) {
        memset(keep, true, before);
    }
    for (uint32_t c = 0; c < t->columns_n && rc == UW_OK; c++) {
        if (t->columns[c].missing_n == 0 || !is_needed(p, c)) {
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
        if (p->names[i].path != NULL) {
            uw_table_keep(&p->names[i], keep);
        }
        if (t->rows_n != before) {
            uw_note(&p->d->notes, "%u of %u lines of %.100s lack a value and are left out",
                    (unsigned)(before - t->rows_n), (unsigned)before, t->path);
        }
        rc = t->rows_n != 0 ? UW_OK
                            : uw_error_set(p->err, UW_ERR_CORRUPT,
                                           "%.120s: every line lacks a value", t->path);
    }
    free(keep);
    return rc;
}

static int treat_missing(struct opening *p)
{
    int rc = UW_OK;
    for (int i = 0; i < 2 && rc == UW_OK; i++) {
        if (p->table[i].path != NULL && p->o.missing != UW_MISSING_MEAN) {
            rc = p->o.missing == UW_MISSING_DROP ? drop_missing(p, i)
                                                 : refuse_missing(p, &p->table[i]);
        }
    }
    return rc;
}

/* ---- labels, sets, scale ---- */

static int read_labels(struct opening *p)
{
    static const uint32_t zero = 0;
    bool mine = p->roles.role == UW_ROLE_LABEL || p->roles.role == UW_ROLE_ONE_HOT;
    for (int i = 0; i < 2; i++) {
        if (p->names[i].path != NULL) {
            p->column[i] = (struct uw_label_column){&p->names[i], &zero, 1};
        } else if (mine && p->table[i].path != NULL) {
            p->column[i] = (struct uw_label_column){&p->table[i], p->roles.targets,
                                                    p->roles.targets_n};
        }
    }
    return p->column[0].table == NULL ? UW_OK
                                      : uw_labels_read(&p->labels, p->column, p->config->outputs,
                                                       p->o.classes, p->config->like,
                                                       &p->d->notes, p->err);
}

static int choose_rows(struct opening *p)
{
    bool has_labels = p->labels.classes_n != 0;
    const struct uw_table *t = &p->table[0];
    if (p->o.test == NULL && p->o.test_share > 0.0) {
        p->test = calloc((size_t)t->rows_n + 1u, sizeof *p->test);
        int n = p->test == NULL ? UW_ERR_NOMEM
                                : uw_table_split(t, has_labels ? p->labels.of[0] : NULL,
                                                 p->labels.classes_n, p->o.test_share, p->test);
        if (n < 0) {
            return no_memory(p);
        }
        if (n == 0) {       /* too few lines */
            free(p->test);
            p->test = NULL;
        }
    }
    for (int i = 0; i < 2; i++) {
        int of = i == 1 && p->table[1].path != NULL ? 1 : 0;
        p->rows[i] = (struct uw_rows){.table = &p->table[of], .test = of == 0 ? p->test : NULL,
                                      .label = has_labels ? p->labels.of[of] : NULL,
                                      .of_test = i == 1};
    }
    return UW_OK;
}

/* Mean and inverse of the wanted scale, in the columns. */
static int choose_scale(struct opening *p, float *mean)
{
    struct uw_data_columns *c = &p->d->columns;
    const struct uw_data_columns *like = p->config->like;
    bool earlier = !p->o.scale_said && like != NULL && like->mean != NULL &&
                   like->features_n == c->features_n;
    size_t bytes = ((size_t)c->features_n + 1u) * sizeof(float);
    if (!earlier && p->o.scale == UW_SCALE_NONE) {
        return UW_OK;
    }
    c->mean = calloc(1, bytes);
    c->inverse = calloc(1, bytes);
    if (c->mean == NULL || c->inverse == NULL) {
        return no_memory(p);
    }
    for (uint32_t k = 0; k < c->features_n; k++) {
        c->inverse[k] = 1.0f / 255.0f;
    }
    if (earlier) {
        memcpy(c->mean, like->mean, bytes - sizeof(float));
        memcpy(c->inverse, like->inverse, bytes - sizeof(float));
        uw_note(&p->d->notes, "features are scaled as in training");
    } else if (p->o.scale == UW_SCALE_STANDARD) {
        uw_table_moments(&p->rows[0], &p->roles, mean, c->inverse);
        memcpy(c->mean, mean, bytes - sizeof(float));
    }
    return UW_OK;
}

/* ---- samples ---- */

/* Copy the rows of one set. mean: of each feature, instead of a value that is missing. */
static int take_rows(struct opening *p, const struct uw_rows *rows, const float *mean)
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
            *target++ = cells[r->targets[k]];
        }
        d->labels[at++] = rows->label != NULL ? rows->label[row] : 0;
    }
    d->base.samples_n = n;
    return UW_OK;
}

static int take_samples(struct opening *p)
{
    const struct uw_rows *rows = &p->rows[p->config->test ? 1 : 0];
    float *moments = calloc(2u * (size_t)p->roles.features_n + 1u, sizeof *moments);
    if (moments == NULL) {
        return no_memory(p);
    }
    if (p->o.missing == UW_MISSING_MEAN) {
        uw_table_moments(&p->rows[0], &p->roles, moments, moments + p->roles.features_n);
    }
    int rc = choose_scale(p, moments);
    rc = rc < 0 ? rc : take_rows(p, rows, moments);
    free(moments);
    for (uint32_t k = 0; k < p->d->base.targets_n && rc == UW_OK; k++) {
        const struct uw_table *t = rows->table;
        const struct uw_place *gap = &t->columns[p->roles.targets[k]].missing;
        if (gap->line != 0 && p->o.missing == UW_MISSING_MEAN) {
            rc = uw_error_set(p->err, UW_ERR_CORRUPT, "%.100s:%u:%u: the value to compute is "
                              "missing; missing=drop leaves out such lines", t->path,
                              (unsigned)gap->line, (unsigned)gap->byte);
        }
    }
    return rc;
}

/* ---- what it is, in words ---- */

/* The names of columns; NULL: they have none. */
static int copy_names(struct opening *p, const uint32_t *columns, uint32_t n, char ***names)
{
    const struct uw_table *t = &p->table[0];
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

static int describe_columns(struct opening *p)
{
    struct uw_data_columns *c = &p->d->columns;
    c->features_n = p->roles.features_n;
    c->targets_n = p->d->base.targets_n;
    int rc = copy_names(p, p->roles.features, c->features_n, &c->features);
    rc = rc < 0 ? rc : copy_names(p, p->roles.targets, c->targets_n, &c->targets);
    if (rc < 0 || p->labels.classes_n == 0) {
        return rc;
    }
    c->counts = calloc((size_t)p->labels.classes_n, sizeof *c->counts);
    c->classes = calloc((size_t)p->labels.classes_n, sizeof *c->classes);
    if (c->counts == NULL || c->classes == NULL) {
        return no_memory(p);
    }
    c->classes_n = p->labels.classes_n;
    for (uint32_t k = 0; k < c->classes_n; k++) {
        c->classes[k] = strdup(p->labels.names[k]);
        if (c->classes[k] == NULL) {
            return no_memory(p);
        }
    }
    for (uint32_t row = 0; row < p->table[0].rows_n; row++) {
        c->counts[p->labels.of[0][row]] += uw_rows_has(&p->rows[0], row);
    }
    return UW_OK;
}

static uint32_t add_header(const struct opening *p, char *text, uint32_t n)
{
    const struct uw_table *t = &p->table[0];
    if (t->counted) {
        return uw_note_add(text, n, UW_NOTE_BYTES, ", a header that counts 0, 1, 2, ...");
    }
    return t->header_n == 0 ? uw_note_add(text, n, UW_NOTE_BYTES, ", no header")
           : t->header_n == 1
               ? uw_note_add(text, n, UW_NOTE_BYTES, ", a header")
               : uw_note_add(text, n, UW_NOTE_BYTES, ", a header of %u lines",
                             (unsigned)t->header_n);
}

static uint32_t add_features(const struct opening *p, char *text, uint32_t n)
{
    const struct uw_data_columns *c = &p->d->columns;
    n = uw_note_add(text, n, UW_NOTE_BYTES, "; %u feature%s", (unsigned)c->features_n,
                    c->features_n == 1 ? "" : "s");
    if (c->features == NULL) {
        return n;
    }
    if (c->features_n > LISTED) {
        return uw_note_add(text, n, UW_NOTE_BYTES, ", %.30s to %.30s", c->features[0],
                           c->features[c->features_n - 1u]);
    }
    for (uint32_t k = 0; k < c->features_n; k++) {
        n = uw_note_add(text, n, UW_NOTE_BYTES, "%s%.24s", k == 0 ? ": " : ", ", c->features[k]);
    }
    return n;
}

static uint32_t add_target(const struct opening *p, char *text, uint32_t n)
{
    const struct uw_roles *r = &p->roles;
    char column[64];
    if (p->o.labels != NULL) {
        return uw_note_add(text, n, UW_NOTE_BYTES, "; labels in %.80s", p->o.labels);
    }
    if (r->role == UW_ROLE_NOTHING) {
        return uw_note_add(text, n, UW_NOTE_BYTES, "; no label");
    }
    const char *what = r->role == UW_ROLE_VALUES ? r->targets_n > 1 ? "values from" : "value in"
                       : r->targets_n > 1        ? "label from"
                                                 : "label in";
    n = uw_note_add(text, n, UW_NOTE_BYTES, "; %s %s", what,
                    uw_column_text(&p->table[0], r->targets[0], column));
    return r->targets_n == 1
               ? n
               : uw_note_add(text, n, UW_NOTE_BYTES, " to %s",
                             uw_column_text(&p->table[0], r->targets[r->targets_n - 1u], column));
}

static uint32_t add_classes(const struct opening *p, char *text, uint32_t n)
{
    const struct uw_labels *l = &p->labels;
    n = uw_note_add(text, n, UW_NOTE_BYTES, "%u class%s", (unsigned)l->classes_n,
                    l->classes_n == 1 ? "" : "es");
    for (uint32_t k = 0; k < l->classes_n && k < 2u * LISTED; k++) {
        uint32_t lines = 0;
        for (int i = 0; i < 2; i++) {
            uint32_t rows_n = p->column[i].table != NULL ? p->column[i].table->rows_n : 0;
            for (uint32_t row = 0; row < rows_n; row++) {
                lines += l->of[i][row] == k;
            }
        }
        n = uw_note_add(text, n, UW_NOTE_BYTES, "%s%.24s (%u)", k == 0 ? ": " : ", ", l->names[k],
                        (unsigned)lines);
    }
    return uw_note_add(text, n, UW_NOTE_BYTES, l->classes_n > 2u * LISTED ? ", ...; " : "; ");
}

static uint32_t add_sets(const struct opening *p, char *text, uint32_t n)
{
    uint32_t of[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        for (uint32_t row = 0; row < p->rows[i].table->rows_n; row++) {
            of[i] += uw_rows_has(&p->rows[i], row);
        }
    }
    if (p->test != NULL) {
        return uw_note_add(text, n, UW_NOTE_BYTES,
                           "; %u lines for training, %u for testing, by a hash of the line's "
                           "number", (unsigned)of[0], (unsigned)of[1]);
    }
    if (p->table[1].path == NULL) {
        return uw_note_add(text, n, UW_NOTE_BYTES, "; all %u lines for training and testing",
                           (unsigned)of[0]);
    }
    return uw_note_add(text, n, UW_NOTE_BYTES, "; %u lines for training, %u of %.80s for testing",
                       (unsigned)of[0], (unsigned)of[1], p->o.test);
}

/* The two sentences in front of all others. */
static void tell(struct opening *p)
{
    static const char *const scales[] = {"features as they are", "features divided by 255",
                                         "features with mean 0 and deviation 1"};
    struct uw_notes *notes = &p->d->notes, rest = *notes;
    char delimiter[24];
    const struct uw_table *t = &p->table[0];
    notes->n = 2;
    char *one = notes->text[0], *two = notes->text[1];
    uint32_t n = uw_note_add(one, 0, UW_NOTE_BYTES, "%u lines of %u columns between %s",
                             (unsigned)t->rows_n, (unsigned)t->columns_n,
                             uw_lines_delimiter_text(t->body.delimiter, delimiter));
    n = add_header(p, one, n);
    n = add_features(p, one, n);
    add_target(p, one, n);
    bool earlier = p->d->columns.mean != NULL && p->o.scale == UW_SCALE_NONE;
    n = p->labels.classes_n != 0 ? add_classes(p, two, 0) : 0;
    n = uw_note_add(two, n, UW_NOTE_BYTES, "%s", earlier ? "features scaled" : scales[p->o.scale]);
    add_sets(p, two, n);
    for (uint32_t i = 0; i < rest.n; i++) {
        uw_note(notes, "%s", rest.text[i]);
    }
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

static int open_set(struct opening *p)
{
    struct uw_dataset *base = &p->d->base;
    int rc = open_files(p);
    rc = rc < 0 ? rc : uw_roles_choose(&p->roles, &p->table[0], &p->o, p->config, &p->d->notes,
                                       p->err);
    if (rc == UW_OK && p->table[1].path != NULL) {
        rc = uw_roles_check_like(&p->roles, &p->table[0], &p->table[1], p->err);
    }
    rc = rc < 0 ? rc : treat_missing(p);
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
        uw_table_doubt(&p->rows[0], &p->rows[1], &p->roles, &p->labels,
                       p->d->columns.mean != NULL, &p->d->notes);
        tell(p);
    }
    return rc;
}

int uw_csv_open(struct uw_csv *d, const char *text, const struct uw_data_config *config,
                struct uw_error *err)
{
    *d = (struct uw_csv){.base = {.ops = &csv_ops, .height = 1, .width = 1}};
    struct opening *p = calloc(1, sizeof *p);
    if (p == NULL) {
        return uw_error_set(err, UW_ERR_NOMEM, "csv:%.120s: no memory", text);
    }
    p->d = d;
    p->config = config;
    p->err = err;
    int rc = uw_table_options_read(&p->o, text, err);
    rc = rc < 0 ? rc : open_set(p);
    uw_labels_close(&p->labels);
    uw_roles_close(&p->roles);
    for (int i = 0; i < 2; i++) {
        uw_table_close(&p->table[i]);
        uw_table_close(&p->names[i]);
    }
    free(p->test);
    free(p);
    if (rc < 0) {
        uw_csv_close(d);
    }
    return rc;
}

static void free_names(char **names, uint32_t n)
{
    for (uint32_t k = 0; names != NULL && k < n; k++) {
        free(names[k]);
    }
    free(names);
}

void uw_csv_close(struct uw_csv *d)
{
    struct uw_data_columns *c = &d->columns;
    free_names(c->features, c->features_n);
    free_names(c->classes, c->classes_n);
    free_names(c->targets, c->targets_n);
    free(c->mean);
    free(c->inverse);
    free(c->counts);
    free(d->values);
    free(d->targets);
    free(d->labels);
    *c = (struct uw_data_columns){.features_n = 0};
    d->values = d->targets = NULL;
    d->labels = NULL;
}
