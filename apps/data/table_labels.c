/* SPDX-License-Identifier: Apache-2.0 */
#include "table_labels.h"

#include "columns.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXACT_MAX 16777215.0f       /* whole numbers up to here are exact as floats */

enum { CLASSES_MAX = 65536 };

struct reader {
    struct uw_labels *l;
    const struct uw_label_column *column;
    struct uw_notes *notes;
    struct uw_error *err;
    struct uw_cell *cells[2];       /* words: [rows_n] */
    struct uw_cell *word;           /* sorted, each once */
    float *number;                  /* [classes_n] of each class, sorted */
};

static int no_memory(const struct reader *r)
{
    return uw_error_set(r->err, UW_ERR_NOMEM, "%.120s: no memory for its labels",
                        r->column[0].table->path);
}

static uint32_t rows_of(const struct reader *r, int i)
{
    return r->column[i].table != NULL ? r->column[i].table->rows_n : 0;
}

static float number_at(const struct reader *r, int i, uint32_t row)
{
    const struct uw_table *t = r->column[i].table;
    return t->cells[(size_t)row * t->columns_n + r->column[i].columns[0]];
}

static int fail_at(const struct reader *r, int i, uint32_t row, const char *what)
{
    const struct uw_table *t = r->column[i].table;
    char text[64];
    return uw_error_set(r->err, UW_ERR_CORRUPT, "%.100s:%u: %s: %s", t->path,
                        (unsigned)t->line[row], uw_column_text(t, r->column[i].columns[0], text),
                        what);
}

static int fail_many(const struct reader *r)
{
    return uw_error_set(r->err, UW_ERR_TOOBIG, "%.100s: more than %d different labels: a class is "
                        "a label that many lines share; label=NAME names another column",
                        r->column[0].table->path, CLASSES_MAX);
}

static int allocate_names(struct reader *r, uint32_t n)
{
    if (n > CLASSES_MAX) {
        return fail_many(r);
    }
    r->l->names = calloc(n + 1u, sizeof *r->l->names);
    r->l->classes_n = r->l->names != NULL ? n : 0;
    return r->l->names != NULL ? UW_OK : no_memory(r);
}

static int set_name(struct reader *r, uint32_t k, const char *text, size_t bytes)
{
    r->l->names[k] = strndup(text, bytes);
    return r->l->names[k] != NULL ? UW_OK : no_memory(r);
}

/* ---- words ---- */

static int compare_words(const void *a, const void *b)
{
    const struct uw_cell *x = a, *y = b;
    size_t n = x->bytes < y->bytes ? x->bytes : y->bytes;
    int order = memcmp(x->text, y->text, n);
    return order != 0 ? order : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static int collect_words(struct reader *r)
{
    size_t all = 0, n = 0;
    for (int i = 0; i < 2; i++) {
        r->cells[i] = calloc((size_t)rows_of(r, i) + 1u, sizeof *r->cells[i]);
        if (r->cells[i] == NULL) {
            return no_memory(r);
        }
        if (rows_of(r, i) != 0) {
            uw_table_words(r->column[i].table, r->column[i].columns[0], r->cells[i]);
        }
        all += rows_of(r, i);
    }
    r->word = calloc(all + 1u, sizeof *r->word);
    if (r->word == NULL) {
        return no_memory(r);
    }
    for (int i = 0; i < 2; i++) {
        for (uint32_t row = 0; row < rows_of(r, i); row++) {
            if (uw_cell_missing(&r->cells[i][row])) {
                return fail_at(r, i, row, "the label is missing; missing=drop leaves out such "
                                          "lines");
            }
            r->word[n++] = r->cells[i][row];
        }
    }
    qsort(r->word, all, sizeof *r->word, compare_words);
    n = 0;
    for (size_t i = 0; i < all; i++) {
        if (n == 0 || compare_words(&r->word[n - 1], &r->word[i]) != 0) {
            r->word[n++] = r->word[i];
        }
    }
    int rc = allocate_names(r, (uint32_t)n);
    for (uint32_t k = 0; k < n && rc == UW_OK; k++) {
        rc = set_name(r, k, r->word[k].text, r->word[k].bytes);
    }
    return rc;
}

static int number_words(struct reader *r, uint32_t outputs)
{
    int rc = collect_words(r);
    for (int i = 0; i < 2; i++) {
        for (uint32_t row = 0; rc == UW_OK && row < rows_of(r, i); row++) {
            const struct uw_cell *found = bsearch(&r->cells[i][row], r->word, r->l->classes_n,
                                                  sizeof *r->word, compare_words);
            r->l->of[i][row] = (uint32_t)(found - r->word);
        }
    }
    if (rc == UW_OK) {
        uw_note(r->notes, "the words of the label are numbered in alphabetical order: 0 is %.60s, "
                          "%u is %.60s", r->l->names[0], (unsigned)r->l->classes_n - 1u,
                r->l->names[r->l->classes_n - 1]);
    }
    if (rc == UW_OK && outputs > 1 && r->l->classes_n < outputs) {
        uw_note(r->notes, "the model has %u classes, the label %u words: classes=A+B+C names all, "
                          "in the same order on every device", (unsigned)outputs,
                (unsigned)r->l->classes_n);
    }
    return rc;
}

/* ---- numbers ---- */

static int compare_numbers(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Refuse numbers of arrays that may stand for several labels: a table has them as floats. */
static int check_exact(const struct reader *r, int i, uint32_t row, float value)
{
    return fabsf(value) <= EXACT_MAX
               ? UW_OK
               : fail_at(r, i, row, "a label above 16777215 or below -16777215 is not exact: "
                                    "numpy.unique(y, return_inverse=True) numbers the classes");
}

/* The name of the class with each number. */
static int name_numbers(const float *number, uint32_t n, char ***names)
{
    *names = calloc((size_t)n + 1u, sizeof **names);
    for (uint32_t k = 0; *names != NULL && k < n; k++) {
        char text[32];
        snprintf(text, sizeof text, "%.9g", (double)number[k]);
        (*names)[k] = strdup(text);
        if ((*names)[k] == NULL) {
            uw_names_free(*names, n);
            *names = NULL;
        }
    }
    return *names != NULL ? UW_OK : UW_ERR_NOMEM;
}

int uw_label_numbers(float *label, size_t labels_n, uint32_t outputs, const char *remedy,
                     struct uw_notes *notes, float **number, char ***names)
{
    size_t n = 0;
    uint32_t room = outputs == 1 ? 2 : outputs;
    qsort(label, labels_n, sizeof *label, compare_numbers);
    for (size_t i = 0; i < labels_n; i++) {
        if (n == 0 || label[n - 1] != label[i]) {
            label[n++] = label[i];
        }
    }
    float least = label[0], most = label[n - 1];
    bool from_0 = least >= 0.0f && most < (float)CLASSES_MAX;
    bool fits = from_0 && (room != 0 ? most < (float)room : least == 0.0f);
    bool counted = !fits && (room != 0 ? least >= 1.0f && most == (float)room
                                       : least == 1.0f && most == (float)n && n > 1);
    fits = fits || (from_0 && !counted && room != 0 && n != room);  /* too large, told later */
    size_t classes_n = fits ? (size_t)most + 1u : counted ? (size_t)most : n;
    if (classes_n > CLASSES_MAX) {
        return UW_ERR_TOOBIG;
    }
    *number = malloc(classes_n * sizeof **number);
    for (size_t k = 0; *number != NULL && k < classes_n; k++) {
        (*number)[k] = fits ? (float)k : counted ? (float)k + 1.0f : label[k];
    }
    if (*number == NULL || name_numbers(*number, (uint32_t)classes_n, names) < 0) {
        return UW_ERR_NOMEM;
    }
    if (fits && least != 0.0f && most < (float)room) {
        uw_note(notes, "labels %g to %g are classes %g to %g of the model's %u; if they are "
                "counted from another number, %s", (double)least, (double)most, (double)least,
                (double)most, (unsigned)room, remedy);
    } else if (counted) {
        uw_note(notes, "labels go from %g to %g: they are counted from 0, class 0 is label 1",
                (double)least, (double)most);
    } else if (!fits) {
        uw_note(notes, "the labels are numbered in their order: class 0 is label %g, class %u is "
                "label %g", (double)least, (unsigned)classes_n - 1u, (double)most);
    }
    return (int)classes_n;
}

/* The number of each row. Returns UW_OK, or a code with err filled. */
static int collect_numbers(struct reader *r, float *label)
{
    for (int i = 0; i < 2; i++) {
        for (uint32_t row = 0; row < rows_of(r, i); row++) {
            float value = number_at(r, i, row);
            if (isnan(value)) {
                return fail_at(r, i, row, "the label is missing; missing=drop leaves out such "
                                          "lines");
            }
            if (value != floorf(value)) {
                return fail_at(r, i, row, "a label is a whole number or a word");
            }
            int rc = check_exact(r, i, row, value);
            if (rc < 0) {
                return rc;
            }
            *label++ = value;
        }
    }
    return UW_OK;
}

static int number_numbers(struct reader *r, uint32_t outputs)
{
    size_t labels_n = (size_t)rows_of(r, 0) + rows_of(r, 1);
    float *label = malloc((labels_n + 1u) * sizeof *label);
    int n = label != NULL ? collect_numbers(r, label) : no_memory(r);
    if (n == UW_OK) {
        n = uw_label_numbers(label, labels_n, outputs, "classes=A+B+C names all", r->notes,
                             &r->number, &r->l->names);
        n = n == UW_ERR_TOOBIG ? fail_many(r) : n < 0 ? no_memory(r) : n;
    }
    free(label);
    r->l->classes_n = n > 0 ? (uint32_t)n : 0;
    for (int i = 0; n > 0 && i < 2; i++) {
        for (uint32_t row = 0; row < rows_of(r, i); row++) {
            float value = number_at(r, i, row);
            const float *found = bsearch(&value, r->number, (size_t)n, sizeof value,
                                         compare_numbers);
            r->l->of[i][row] = (uint32_t)(found - r->number);
        }
    }
    return n < 0 ? n : UW_OK;
}

/* ---- classes that are given ---- */

uint32_t uw_class_find(char *const *names, uint32_t n, const struct uw_cell *cell)
{
    float value, other;
    bool number = uw_cell_number(cell, false, &value) && fabsf(value) <= EXACT_MAX, words = true;
    for (uint32_t k = 0; k < n; k++) {
        struct uw_cell name = {.text = names[k], .bytes = strlen(names[k])};
        bool numbered = number && uw_cell_number(&name, false, &other);
        if (compare_words(&name, cell) == 0 || (numbered && value == other)) {
            return k;
        }
        words = words && !numbered;
    }
    bool place = number && words && value >= 0.0f && value < (float)n && value == floorf(value);
    return place ? (uint32_t)value : UINT32_MAX;
}

static int take_known(struct reader *r, const char *known, const struct uw_data_columns *like)
{
    struct uw_labels *l = r->l;
    l->classes_n = known == NULL ? like->classes_n : 0;
    int rc = known == NULL ? uw_names_copy(&l->names, like->classes, like->classes_n)
                           : uw_names_read(known, &l->names, &l->classes_n);
    return rc < 0 ? no_memory(r) : rc;
}

static int number_by_names(struct reader *r)
{
    for (int i = 0; i < 2; i++) {
        uint32_t before = 0;
        r->cells[i] = calloc((size_t)rows_of(r, i) + 1u, sizeof *r->cells[i]);
        if (r->cells[i] == NULL) {
            return no_memory(r);
        }
        bool text = rows_of(r, i) != 0 && r->column[i].table->text != NULL;
        if (text) {
            uw_table_words(r->column[i].table, r->column[i].columns[0], r->cells[i]);
        }
        for (uint32_t row = 0; row < rows_of(r, i); row++) {
            struct uw_cell *cell = &r->cells[i][row];
            char number[2][32];
            int rc = text ? UW_OK : check_exact(r, i, row, number_at(r, i, row));
            if (rc < 0) {
                return rc;
            }
            if (!text) {        /* of the row above and of this one */
                cell->text = number[row % 2];
                cell->bytes = (size_t)snprintf(number[row % 2], sizeof number[0], "%.9g",
                                               (double)number_at(r, i, row));
            }
            bool same = row != 0 && compare_words(cell, &r->cells[i][row - 1]) == 0;
            uint32_t k = same ? before : uw_class_find(r->l->names, r->l->classes_n, cell);
            if (k == UINT32_MAX) {
                char what[160];
                snprintf(what, sizeof what, "\"%.*s\" is none of the %u classes, %.30s to %.30s; "
                         "classes=A+B+C names others",
                         (int)(cell->bytes < 24 ? cell->bytes : 24), cell->text,
                         (unsigned)r->l->classes_n, r->l->names[0],
                         r->l->names[r->l->classes_n - 1]);
                return fail_at(r, i, row, what);
            }
            r->l->of[i][row] = before = k;
        }
    }
    return UW_OK;
}

/* ---- one column a class ---- */

static int number_one_hot(struct reader *r)
{
    const struct uw_label_column *c = r->column;
    int rc = allocate_names(r, c->columns_n);
    for (uint32_t k = 0; k < c->columns_n && rc == UW_OK; k++) {
        const char *name = c->table->columns[c->columns[k]].name;
        char number[16];
        snprintf(number, sizeof number, "%u", (unsigned)k);
        name = name != NULL ? name : number;
        rc = set_name(r, k, name, strlen(name));
    }
    for (int i = 0; i < 2; i++) {
        const struct uw_table *t = c[i].table;
        for (uint32_t row = 0; rc == UW_OK && row < rows_of(r, i); row++) {
            const float *x = t->cells + (size_t)row * t->columns_n;
            uint32_t ones = 0;
            for (uint32_t k = 0; k < c[i].columns_n; k++) {
                bool one = x[c[i].columns[k]] == 1.0f;
                r->l->of[i][row] = one ? k : r->l->of[i][row];
                ones += one ? 1u : x[c[i].columns[k]] == 0.0f ? 0u : 2u;
            }
            rc = ones == 1 ? UW_OK : fail_at(r, i, row, "one column of the label is 1 and the "
                                                        "others are 0");
        }
    }
    return rc;
}

/* Whether labels are compared as text: words, or numbers that floats do not tell apart. */
static bool holds_words(const struct uw_label_column *c)
{
    const struct uw_column *x = &c->table->columns[c->columns[0]];
    bool large = x->numbers_n != 0 && (x->most > EXACT_MAX || x->least < -EXACT_MAX);
    return x->words_n != 0 || (large && c->table->text != NULL);
}

int uw_labels_read(struct uw_labels *l, const struct uw_label_column *column, uint32_t outputs,
                   const char *known, const struct uw_data_columns *like, struct uw_notes *notes,
                   struct uw_error *err)
{
    struct reader r = {.l = l, .column = column, .notes = notes, .err = err};
    bool words = false;
    int rc = UW_OK;
    *l = (struct uw_labels){.names = NULL};
    for (int i = 0; i < 2; i++) {
        l->of[i] = calloc((size_t)rows_of(&r, i) + 1u, sizeof *l->of[i]);
        rc = l->of[i] != NULL ? rc : no_memory(&r);
        words = words || (column[i].table != NULL && holds_words(&column[i]));
    }
    if (rc < 0) {
        return rc;
    }
    if (column[0].columns_n > 1) {
        rc = number_one_hot(&r);
    } else if (known != NULL || (like != NULL && like->classes_n != 0)) {
        rc = take_known(&r, known, like);
        rc = rc < 0 ? rc : number_by_names(&r);
    } else {
        rc = words ? number_words(&r, outputs) : number_numbers(&r, outputs);
    }
    free(r.cells[0]);
    free(r.cells[1]);
    free(r.word);
    free(r.number);
    return rc;
}

void uw_labels_close(struct uw_labels *l)
{
    uw_names_free(l->names, l->classes_n);
    free(l->of[0]);
    free(l->of[1]);
    *l = (struct uw_labels){.names = NULL};
}
