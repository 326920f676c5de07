/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/table_rows.h"

#include "columns.h"
#include "stream_lines.h"
#include "table_sparse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int uw_table_rows_open(struct uw_table_rows *r, FILE *file, const char *name,
                       struct uw_error *err)
{
    struct stat st;
    *r = (struct uw_table_rows){.file = file, .name = name};
    bool known = fstat(fileno(r->file), &st) == 0;
    if (known && S_ISDIR(st.st_mode)) {
        return uw_error_set(err, UW_ERR_IO, "%.160s: is a folder, needs a file of rows; --data "
                            "images:DIR or sounds:DIR asks about the files in one", name);
    }
    r->arrives = !known || !S_ISREG(st.st_mode);
    return UW_OK;
}

void uw_table_rows_expect(struct uw_table_rows *r, uint32_t n,
                          const struct uw_data_columns *columns)
{
    r->n = n;
    r->columns = columns != NULL && columns->features_n == n ? columns : NULL;
}

void uw_table_rows_close(struct uw_table_rows *r)
{
    if (r->file != NULL && r->file != stdin) {
        fclose(r->file);
    }
    free(r->line);
    free(r->feature);
    free(r->gap);
    r->file = NULL;
    r->line = NULL;
    r->feature = NULL;
    r->gap = NULL;
}

/* ---- columns ---- */

static bool is_feature(const struct uw_table_rows *r, const struct uw_cell *cell)
{
    const struct uw_data_columns *c = r->columns;
    bool found = false;
    for (uint32_t k = 0; c != NULL && c->features != NULL && k < c->features_n && !found; k++) {
        found = uw_cell_is(cell, c->features[k]);
    }
    return found;
}

/* Whether the line has no number, or a word that is the name of a feature: some names are
 * numbers. */
static bool is_header(const struct uw_table_rows *r, struct uw_lines l)
{
    struct uw_cell cell = {.is_last = false};
    bool numbers = false;
    float value;
    while (!cell.is_last) {
        cell = uw_lines_cell(&l);
        bool number = uw_cell_number(&cell, l.delimiter != ',', &value);
        bool word = !number && !uw_cell_missing(&cell) && !uw_cell_truth(&cell, &value);
        if (word && is_feature(r, &cell)) {
            return true;
        }
        numbers = numbers || number;
    }
    return !numbers;
}

static int take_width(struct uw_table_rows *r, uint32_t cells_n, struct uw_error *err)
{
    r->feature = malloc(((size_t)cells_n + 1u) * sizeof *r->feature);
    if (r->feature == NULL) {
        return uw_error_set(err, UW_ERR_NOMEM, "%.160s: no memory for %u columns", r->name,
                            (unsigned)cells_n);
    }
    r->cells_n = cells_n;
    for (uint32_t i = 0; i < cells_n; i++) {
        r->feature[i] = UINT32_MAX;
    }
    return UW_OK;
}

static void add_note(struct uw_table_rows *r, const char *text)
{
    size_t used = strlen(r->note);
    snprintf(r->note + used, sizeof r->note - used, "%s%s", used > 0 ? "; " : "", text);
}

/* Find the features by the names in a header. None of them: the header is of other names. */
static int take_header(struct uw_table_rows *r, struct uw_lines l, struct uw_error *err)
{
    uint32_t cells_n = uw_lines_count(&l);
    char text[128];
    if (r->columns == NULL || r->columns->features == NULL) {
        add_note(r, "its first line is a header, skipped: columns are taken by their places, names "
                    "of the training data are not known");
        return UW_OK;
    }
    int found = take_width(r, cells_n, err);
    struct uw_cell *names = calloc((size_t)cells_n + 1u, sizeof *names);
    if (names == NULL) {
        return uw_error_set(err, UW_ERR_NOMEM, "%.160s: no memory", r->name);
    }
    for (uint32_t i = 0; i < cells_n; i++) {
        names[i] = uw_lines_cell(&l);
    }
    snprintf(text, sizeof text, "%.90s:%u", r->name, (unsigned)r->line_n);
    if (found == UW_OK) {
        found = uw_columns_match(r->columns, names, cells_n, r->feature, text, err);
    }
    free(names);
    if (found < 0) {
        return found;
    }
    if (found == 0) {
        free(r->feature);
        r->feature = NULL;
        r->cells_n = 0;
        add_note(r, "the header has none of the training data's names: its columns are taken by "
                    "their places");
        return UW_OK;
    }
    snprintf(text, sizeof text, "columns are taken by their names, %u of %u", (unsigned)r->n,
             (unsigned)cells_n);
    add_note(r, text);
    return UW_OK;
}

/* Without names: the features alone, or the columns of the training data. */
static int take_places(struct uw_table_rows *r, uint32_t cells_n, struct uw_error *err)
{
    const struct uw_data_columns *c = r->columns;
    bool all = c != NULL && c->places != NULL && cells_n == c->columns_n;
    char text[120] = "";
    if (cells_n != r->n && !all) {
        if (c != NULL && c->places != NULL) {
            snprintf(text, sizeof text, ", or all %u columns of the training data",
                     (unsigned)c->columns_n);
        }
        return uw_error_set(err, UW_ERR_MISMATCH, "%.90s:%u: %u cells, the model takes %u "
                            "numbers%s%s", r->name, (unsigned)r->line_n, (unsigned)cells_n,
                            (unsigned)r->n, text,
                            cells_n == r->n + 1 && c == NULL
                                ? "; a table with labels goes with --data csv:FILE" : "");
    }
    int rc = take_width(r, cells_n, err);
    for (uint32_t k = 0; k < r->n && rc == UW_OK; k++) {
        r->feature[all ? c->places[k] : k] = k;
    }
    if (all) {
        snprintf(text, sizeof text, "of %u columns, as the training data, %u are features",
                 (unsigned)cells_n, (unsigned)r->n);
        add_note(r, text);
    }
    return rc;
}

/* ---- lines ---- */

/* Add the next line to one that ends between quotes. Returns 1, 0 at the end, or UW_ERR_NOMEM. */
static int join_line(struct uw_table_rows *r, struct uw_lines *l, struct uw_error *err)
{
    char *more = NULL;
    size_t cap = 0;
    ssize_t n = getline(&more, &cap, r->file);
    char *all = n > 0 ? realloc(r->line, l->bytes + (size_t)n + 1u) : NULL;
    int rc = n <= 0 ? 0
             : all != NULL ? 1 : uw_error_set(err, UW_ERR_NOMEM, "%.160s: no memory", r->name);
    if (rc > 0) {
        memcpy(all + l->bytes, more, (size_t)n + 1u);
        r->line = all;
        r->line_cap = l->bytes + (size_t)n + 1u;
        l->text = all;
        l->bytes += (size_t)n;
    }
    free(more);
    return rc;
}

/* Add lines until quotes end; where they never do, the line is as it is. */
static int join_quotes(struct uw_table_rows *r, struct uw_lines *l, struct uw_error *err)
{
    int more = r->arrives ? 0 : 1;
    for (r->breaks_n = 0; more > 0 && r->breaks_n < UW_LINE_BREAKS_MAX && uw_lines_open(*l);) {
        more = join_line(r, l, err);
        r->breaks_n += more > 0;
    }
    return more < 0 ? more : UW_OK;
}

/* Read a line that is not empty. Returns 1, 0 at the end, or UW_ERR_IO. */
static int next_line(struct uw_table_rows *r, struct uw_lines *l, struct uw_error *err)
{
    bool is_row = false;
    while (!is_row) {
        errno = 0;
        ssize_t n = getline(&r->line, &r->line_cap, r->file);
        if (n < 0) {
            return ferror(r->file) || errno == ENOMEM
                       ? uw_error_set(err, UW_ERR_IO, "%.160s: %s", r->name, strerror(errno))
                       : 0;
        }
        size_t end = strcspn(r->line, "\r");
        if (end + strspn(r->line + end, "\r\n") < strlen(r->line)) {
            return uw_error_set(err, UW_ERR_CORRUPT, "%.140s:%u: lines end with a carriage return "
                                "alone: tr '\\r' '\\n' makes them ends of lines", r->name,
                                (unsigned)r->line_n + 1u);
        }
        r->line_n += r->breaks_n;
        r->breaks_n = 0;
        if (r->line_n == 0 && strncmp(r->line, "\xef\xbb\xbf", 3) == 0) {   /* UTF-8's mark */
            memset(r->line, ' ', 3);
        }
        r->json = r->line[strspn(r->line, " \t")] == '{';
        if (r->json) {
            r->line[strcspn(r->line, "\r\n")] = '\0';
            r->line_n++;
            return 1;
        }
        *l = (struct uw_lines){.text = r->line, .bytes = (size_t)n, .line = r->line_n++,
                               .delimiter = r->delimiter};
        if (l->delimiter == '\0') {
            l->delimiter = uw_lines_delimiter(l->text, l->bytes);
        }
        if (join_quotes(r, l, err) < 0) {
            return err->code;
        }
        is_row = uw_lines_next(l);
    }
    if (r->delimiter == '\0') {
        char text[24], note[48];
        r->delimiter = l->delimiter;
        if (r->delimiter != ',') {
            snprintf(note, sizeof note, "cells are between %s",
                     uw_lines_delimiter_text(r->delimiter, text));
            add_note(r, note);
        }
    }
    return 1;
}

/* Whether a gap in feature k gets a mean. */
static bool fills(const struct uw_table_rows *r, uint32_t k)
{
    const struct uw_data_columns *c = r->columns;
    return c != NULL && c->mean != NULL && c->mean[k] != 0.0f;
}

/* What the model gets of feature k. */
static float scaled(const struct uw_table_rows *r, uint32_t k, float value)
{
    const struct uw_data_columns *c = r->columns;
    return c != NULL && c->mean != NULL && !r->unscaled ? (value - c->mean[k]) * c->inverse[k]
                                                        : value;
}

/* {"x": [numbers]}, with or without a label, or {"NAME": number, ...}; null is a gap. */
static int read_json(struct uw_table_rows *r, float *x, struct uw_error *err)
{
    struct uw_error why = {.text = ""};
    uint32_t label;
    r->gap = r->gap != NULL ? r->gap : malloc((size_t)r->n + 1u);
    const struct uw_stream_form form = {.sample_n = r->n, .gap = r->gap, .names = r->columns};
    if (r->gap == NULL) {
        return uw_error_set(err, UW_ERR_NOMEM, "%.160s: no memory", r->name);
    }
    if (uw_stream_read_line(r->line, &form, x, &label, &why) < 0) {
        return uw_error_set(err, UW_ERR_CORRUPT, "%.90s:%u: %.120s; a line has {\"x\": [%u "
                            "numbers]}", r->name, (unsigned)r->line_n, why.text, (unsigned)r->n);
    }
    for (uint32_t k = 0; k < r->n; k++) {
        if (r->gap[k] && !fills(r, k)) {
            return uw_error_set(err, UW_ERR_CORRUPT, "%.90s:%u: number %u is null: only weights "
                                "with means of columns fill gaps", r->name, (unsigned)r->line_n,
                                (unsigned)k + 1u);
        }
        x[k] = scaled(r, k, r->gap[k] ? r->columns->mean[k] : x[k]);
        r->gaps_n += r->gap[k];
    }
    return 1;
}

static int read_cells(struct uw_table_rows *r, struct uw_lines l, float *x,
                      struct uw_error *err)
{
    struct uw_cell cell = {.is_last = false};
    uint32_t n = uw_lines_count(&l);
    if (n != r->cells_n) {
        return uw_error_set(err, UW_ERR_CORRUPT, "%.90s:%u: %u cells, the lines before have %u",
                            r->name, (unsigned)r->line_n, (unsigned)n, (unsigned)r->cells_n);
    }
    for (uint32_t i = 0; i < n; i++) {
        float value;
        cell = uw_lines_cell(&l);
        uint32_t k = r->feature[i];
        if (k == UINT32_MAX) {
            continue;
        }
        if (uw_cell_missing(&cell) && fills(r, k)) {
            x[k] = scaled(r, k, r->columns->mean[k]);
            r->gaps_n++;
            continue;
        }
        if (!uw_cell_number(&cell, l.delimiter != ',', &value) &&
            !uw_cell_truth(&cell, &value)) {
            return uw_error_set(err, UW_ERR_CORRUPT,
                                "%.90s:%u:%zu: \"%.*s\": %s; a row has %u decimal numbers",
                                r->name, (unsigned)r->line_n,
                                (size_t)(cell.text - r->line) + 1,
                                (int)(cell.bytes < 24 ? cell.bytes : 24), cell.text,
                                uw_cell_fault(&cell), (unsigned)r->n);
        }
        x[k] = scaled(r, k, value);
    }
    return 1;
}

/* Tabs of which some are there twice, so that a line has the right number of cells only if tabs are
 * blanks. */
static void join_tabs(const struct uw_table_rows *r, struct uw_lines *l)
{
    const struct uw_data_columns *c = r->columns;
    struct uw_lines joined = *l;
    joined.delimiter = UW_DELIMITER_BLANKS;
    uint32_t n = uw_lines_count(l), joined_n = uw_lines_count(&joined);
    uint32_t all = c != NULL && c->places != NULL ? c->columns_n : r->n;
    bool known = r->cells_n != 0;
    if (known ? n != r->cells_n && joined_n == r->cells_n
              : n != r->n && n != all && (joined_n == r->n || joined_n == all)) {
        *l = joined;
    }
}

int uw_table_rows_next(struct uw_table_rows *r, float *x, struct uw_error *err)
{
    struct uw_lines l;
    bool first = r->delimiter == '\0';
    int rc = next_line(r, &l, err);
    if (rc > 0 && first && !r->json && uw_table_is_sparse(r->line)) {
        return uw_error_set(err, UW_ERR_CORRUPT, "%.140s:%u: lines of a label and INDEX:VALUE go "
                            "with --data csv:FILE", r->name, (unsigned)r->line_n);
    }
    if (rc > 0 && first && !r->json && is_header(r, l)) {
        rc = take_header(r, l, err);
        rc = rc < 0 ? rc : next_line(r, &l, err);
    }
    if (rc > 0 && r->json) {
        return read_json(r, x, err);
    }
    if (rc > 0 && l.delimiter == '\t') {
        join_tabs(r, &l);
    }
    if (rc > 0 && r->cells_n == 0) {
        int taken = take_places(r, uw_lines_count(&l), err);
        rc = taken < 0 ? taken : rc;
    }
    return rc <= 0 ? rc : read_cells(r, l, x, err);
}
