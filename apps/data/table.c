/* SPDX-License-Identifier: Apache-2.0 */
#include "table.h"
#include "table_sparse.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS_MAX = 1 << 20, LOOKED_AT = 64, HEADER_MAX = 64 };

/* ---- header ---- */

/* The number of cells that most of the first lines have. */
static uint32_t usual_width(struct uw_lines l)
{
    uint32_t width[LOOKED_AT], n = 0, best = 0, best_n = 0;
    while (n < LOOKED_AT && uw_lines_next(&l)) {
        width[n++] = uw_lines_count(&l);
        while (!uw_lines_cell(&l).is_last) {
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t same = 0;
        for (uint32_t k = 0; k < n; k++) {
            same += width[k] == width[i];
        }
        if (same >= best_n) {       /* of equally many the later: titles are in front */
            best = width[i];
            best_n = same;
        }
    }
    return best;
}

/* numeric[c]: at least half of the first lines have a number or nothing in column c. */
static bool *find_numeric(const struct uw_table *t, struct uw_lines l)
{
    uint32_t *numbers = calloc(t->columns_n, sizeof *numbers), lines_n = 0;
    bool *numeric = calloc(t->columns_n, sizeof *numeric);
    float value;
    while (numbers != NULL && numeric != NULL && lines_n < LOOKED_AT && uw_lines_next(&l)) {
        bool whole = uw_lines_count(&l) == t->columns_n;
        uint32_t c = 0;
        for (struct uw_cell cell = {.is_last = false}; !cell.is_last; c++) {
            cell = uw_lines_cell(&l);
            if (whole) {
                numbers[c] += uw_cell_number(&cell, t->comma, &value) || uw_cell_missing(&cell);
            }
        }
        lines_n += whole;
    }
    for (uint32_t c = 0; numbers != NULL && numeric != NULL && c < t->columns_n; c++) {
        numeric[c] = 2 * numbers[c] >= lines_n && numbers[c] > 0;
    }
    if (numbers == NULL) {
        free(numeric);
        numeric = NULL;
    }
    free(numbers);
    return numeric;
}

/* Whether a cell that is no number is meant as a value, not as a name: it begins with a digit, as
 * 10%, 12:30 and 0x10 do, has no letter, as - and $3, or is infinite or a truth. */
static bool is_odd_value(const struct uw_cell *c)
{
    static const char *const words[] = {"inf", "+inf", "-inf", "infinity", "+infinity",
                                        "-infinity", "true", "false"};
    size_t i = 0;
    while (i < c->bytes && strchr("!\"#$%&'()*+,-./:;<=>?@[\\]^`{|}~ ", c->text[i]) != NULL) {
        i++;
    }
    bool odd = i == c->bytes || (c->text[i] >= '0' && c->text[i] <= '9');
    for (size_t k = 0; k < sizeof words / sizeof words[0]; k++) {
        odd = odd || uw_cell_is(c, words[k]);
    }
    return odd;
}

/* What a line has where most lines have numbers. */
struct looks {
    uint32_t names_n, odd_n, numbers_n;
    bool counts;                    /* its numbers go up by equal steps, as years in a header */
};

static struct looks look_at(const struct uw_table *t, struct uw_lines l, const bool *numeric)
{
    bool other = uw_lines_count(&l) != t->columns_n;
    struct looks k = {.counts = true};
    struct uw_cell cell = {.is_last = false};
    float value, before = 0.0f, step = 1.0f;
    for (uint32_t c = 0; !cell.is_last; c++) {
        cell = uw_lines_cell(&l);
        if ((!other && !numeric[c]) || uw_cell_missing(&cell)) {
            continue;
        }
        if (!uw_cell_number(&cell, t->comma, &value)) {
            bool odd = is_odd_value(&cell);
            k.odd_n += odd;
            k.names_n += !odd;
            continue;
        }
        step = k.numbers_n == 1 ? value - before : step;
        k.counts = k.counts && (k.numbers_n == 0 || (value - before == step && step > 0.0f));
        before = value;
        k.numbers_n++;
    }
    k.counts = k.counts && (k.numbers_n > 2 || (k.numbers_n == 2 && step == 1.0f));
    return k;
}

/* Whether the line looks like no sample: of names, where most lines have numbers. A line that is
 * mostly of numbers is a sample, whatever else it has; behind a line of names, so is one that is
 * not all of names. */
static bool is_header(const struct uw_table *t, struct uw_lines l, const bool *numeric, bool named)
{
    struct looks k = look_at(t, l, numeric);
    uint32_t values_n = k.numbers_n + k.odd_n;
    if (named) {
        return k.names_n > 1 && values_n == 0;
    }
    return k.names_n == 0 ? k.numbers_n == 0 && k.odd_n > 1
                          : k.names_n >= values_n || k.numbers_n == 0 || k.counts;
}

/* Whether the line counts its columns, 0, 1, 2, ..., perhaps behind a first cell that is empty. */
static bool counts_columns(const struct uw_table *t, struct uw_lines l)
{
    uint32_t next = 0, cells = 0;
    for (uint32_t c = 0; c < t->columns_n; c++) {
        struct uw_cell cell = uw_lines_cell(&l);
        float value;
        if (c == 0 && cell.bytes == 0) {
            continue;
        }
        if (!uw_cell_number(&cell, false, &value) || value != (float)next++) {
            return false;
        }
        cells++;
    }
    return cells >= 3 && uw_lines_next(&l);     /* the only line is a sample */
}

static char *copy_of(const char *text, size_t bytes)
{
    char *copy = malloc(bytes + 1);
    if (copy != NULL) {
        memcpy(copy, text, bytes);
        copy[bytes] = '\0';
    }
    return copy;
}

/* Take the names from a line of as many cells as there are columns; of one less, the first column
 * has none. */
static int take_names(struct uw_table *t, struct uw_lines l, struct uw_error *err)
{
    uint32_t n = uw_lines_count(&l), first = n < t->columns_n ? 1 : 0;
    for (uint32_t c = 0; c < t->columns_n; c++) {
        struct uw_cell cell = {.text = ""};
        if (c >= first) {
            cell = uw_lines_cell(&l);
        }
        free(t->columns[c].name);
        t->columns[c].name = copy_of(cell.text, cell.bytes);
        if (t->columns[c].name == NULL) {
            return uw_error_set(err, UW_ERR_NOMEM, "%.120s: no memory for its names", t->path);
        }
    }
    return UW_OK;
}

/* Whether there is nothing behind the line's last delimiter. */
static bool ends_empty(struct uw_lines l)
{
    struct uw_cell cell = {.is_last = false};
    while (!cell.is_last) {
        cell = uw_lines_cell(&l);
    }
    return cell.bytes == 0;
}

/* Go past the header, and take the names from it. */
static int pass_header(struct uw_table *t, int skip, struct uw_error *err)
{
    struct uw_lines ahead = t->body, before = ahead;
    bool *numeric = find_numeric(t, t->body), named = false;
    int rc = numeric != NULL ? UW_OK
                             : uw_error_set(err, UW_ERR_NOMEM, "%.120s: no memory", t->path);
    while (rc == UW_OK && (skip >= 0 || t->header_n < HEADER_MAX) && uw_lines_next(&ahead)) {
        bool counted = t->header_n == 0 && counts_columns(t, ahead);
        if (skip >= 0 ? ahead.line > (uint32_t)skip
                      : !counted && !is_header(t, ahead, numeric, named)) {
            break;
        }
        uint32_t n = uw_lines_count(&ahead);
        n -= n == t->columns_n + 1u && ends_empty(ahead) ? 1u : 0;
        t->misfit_n = !named && n > t->columns_n ? n : t->misfit_n;
        if (!named && n != 0 && (n == t->columns_n || n + 1 == t->columns_n) &&
            t->columns_n > 1) {
            rc = take_names(t, ahead, err);
            named = n == t->columns_n;
            t->counted = counted;
        }
        t->header_n++;
        while (!uw_lines_cell(&ahead).is_last) {
        }
        before = ahead;
    }
    t->body = before;
    free(numeric);
    return rc;
}

/* ---- cells ---- */

static void set_place(struct uw_place *p, const struct uw_lines *l, const struct uw_cell *cell)
{
    if (p->line == 0) {
        p->line = l->line;
        p->byte = (uint32_t)((size_t)(cell->text - l->text) - l->line_at) + 1;
        snprintf(p->text, sizeof p->text, "%.*s", (int)(cell->bytes < 24 ? cell->bytes : 24),
                 cell->text);
    }
}

void uw_column_add(struct uw_column *c, float value, float before)
{
    bool first = c->numbers_n++ == 0;
    bool whole = value == floorf(value);
    c->whole = (first || c->whole) && whole;
    c->counts = first ? whole && (value == 0.0f || value == 1.0f)
                      : c->counts && value == before + 1.0f;
    c->changes = c->changes || (!first && value != c->least);
    c->least = first || value < c->least ? value : c->least;
    c->most = first || value > c->most ? value : c->most;
}

static int read_row(struct uw_table *t, struct uw_lines *l, struct uw_error *err)
{
    float *row = t->cells + (size_t)t->rows_n * t->columns_n;
    struct uw_cell cell = {.is_last = false};
    uint32_t n = 0;
    for (; !cell.is_last; n++) {
        cell = uw_lines_cell(l);
        if (n >= t->columns_n) {
            continue;
        }
        struct uw_column *c = &t->columns[n];
        if (uw_cell_number(&cell, t->comma, &row[n])) {
            t->commas = t->commas || memchr(cell.text, ',', cell.bytes) != NULL;
            if (t->point.line == 0 && memchr(cell.text, '.', cell.bytes) != NULL) {
                set_place(&t->point, l, &cell);
            }
            uw_column_add(c, row[n],
                          t->rows_n != 0 ? row[(ptrdiff_t)n - (ptrdiff_t)t->columns_n] : 0.0f);
            continue;
        }
        bool truth = uw_cell_truth(&cell, &row[n]), missing = uw_cell_missing(&cell);
        row[n] = truth ? row[n] : NAN;
        c->truths_n += truth;
        c->missing_n += missing;
        c->words_n += !missing;
        set_place(missing ? &c->missing : &c->word, l, &cell);
    }
    if (n != t->columns_n) {
        char text[24];
        return uw_error_set(err, UW_ERR_CORRUPT, "%.120s:%u:1: %u cells between %s; most lines "
                            "have %u%s", t->path, (unsigned)l->line, (unsigned)n,
                            uw_lines_delimiter_text(l->delimiter, text), (unsigned)t->columns_n,
                            t->rows_n == 0 ? "; skip=N leaves out N lines at the beginning" : "");
    }
    t->line[t->rows_n++] = l->line;
    return UW_OK;
}

/* At least the lines that are left. */
static size_t count_lines(const struct uw_lines *l)
{
    size_t n = 1;
    for (const char *p = l->text + l->at, *end = l->text + l->bytes;
         (p = memchr(p, '\n', (size_t)(end - p))) != NULL; p++) {
        n++;
    }
    return n;
}

/* Whether every cell so far is a word. */
static bool is_only_names(const struct uw_table *t)
{
    uint32_t n = 0;
    for (uint32_t c = 0; c < t->columns_n; c++) {
        n += t->columns[c].words_n > t->columns[c].truths_n;
    }
    return n == t->columns_n;
}

static int read_rows(struct uw_table *t, struct uw_error *err)
{
    size_t most = count_lines(&t->body);
    struct uw_lines l = t->body;
    bool fits = most < INT32_MAX && most < SIZE_MAX / sizeof *t->cells / t->columns_n;
    t->cells = fits ? malloc(most * t->columns_n * sizeof *t->cells) : NULL;
    t->line = fits ? malloc(most * sizeof *t->line) : NULL;
    if (t->cells == NULL || t->line == NULL) {
        return uw_error_set(err, UW_ERR_NOMEM, "%.120s: no memory for %zu lines of %u numbers",
                            t->path, most, (unsigned)t->columns_n);
    }
    int rc = UW_OK;
    while (rc == UW_OK && uw_lines_next(&l)) {
        rc = read_row(t, &l, err);
    }
    if (rc == UW_OK && t->commas && t->point.line != 0) {
        rc = uw_error_set(err, UW_ERR_CORRUPT, "%.100s:%u:%u: \"%s\": a point, where other numbers "
                          "have decimal commas; points of thousands must go, pandas.read_csv("
                          "decimal=\",\", thousands=\".\") does it", t->path,
                          (unsigned)t->point.line, (unsigned)t->point.byte, t->point.text);
    }
    if (rc == UW_OK && t->rows_n == 0) {
        rc = uw_error_set(err, UW_ERR_CORRUPT, "%.160s: no line of numbers inside", t->path);
    }
    if (rc == UW_OK && t->rows_n == 1 && t->columns_n > 1 && is_only_names(t)) {
        rc = uw_error_set(err, UW_ERR_CORRUPT, "%.120s:%u: no samples: a line of words, as a "
                          "header, and none behind it", t->path, (unsigned)t->line[0]);
    }
    return rc;
}

int uw_table_open(struct uw_table *t, const char *path, const struct uw_table_options *o,
                  struct uw_error *err)
{
    *t = (struct uw_table){.path = path};
    size_t bytes;
    int rc = uw_table_load(path, &t->text, &bytes, err);
    if (rc < 0) {
        return rc;
    }
    if (strlen(t->text) == bytes && uw_table_is_sparse(t->text)) {
        char *sparse = t->text;
        t->text = NULL;
        rc = uw_table_read_sparse(t, sparse, o, err);
        free(sparse);
        return rc;
    }
    bool marked = bytes >= 3 && memcmp(t->text, "\xef\xbb\xbf", 3) == 0;   /* as UTF-8 */
    size_t start = marked ? 3 : 0;
    t->body = (struct uw_lines){.text = t->text + start, .bytes = bytes - start};
    t->body.delimiter = o->delimiter != '\0' ? o->delimiter
                                             : uw_lines_delimiter(t->body.text, t->body.bytes);
    t->comma = t->body.delimiter != ',';
    t->columns_n = usual_width(t->body);
    if (t->columns_n == 0) {
        return uw_error_set(err, UW_ERR_CORRUPT, "%.160s: no line of numbers inside", path);
    }
    if (t->columns_n > COLUMNS_MAX) {
        return uw_error_set(err, UW_ERR_TOOBIG, "%.120s: more than %d columns", path, COLUMNS_MAX);
    }
    t->columns = calloc(t->columns_n, sizeof *t->columns);
    if (t->columns == NULL) {
        return uw_error_set(err, UW_ERR_NOMEM, "%.120s: no memory", path);
    }
    rc = pass_header(t, o->skip, err);
    return rc < 0 ? rc : read_rows(t, err);
}

void uw_table_words(const struct uw_table *t, uint32_t column, struct uw_cell *cells)
{
    struct uw_lines l = t->body;
    for (uint32_t row = 0; row < t->rows_n && uw_lines_next(&l);) {
        bool mine = l.line == t->line[row];     /* rows may have been left out */
        struct uw_cell cell = {.is_last = false};
        for (uint32_t c = 0; !cell.is_last; c++) {
            cell = uw_lines_cell(&l);
            if (mine && c == column) {
                cells[row] = cell;
            }
        }
        row += mine;
    }
}

uint32_t uw_table_find(const struct uw_table *t, const char *name, size_t bytes, uint32_t *twin)
{
    struct uw_cell want = {.text = name, .bytes = bytes};
    uint64_t number = 0;
    uint32_t found = UINT32_MAX;
    bool written = false;           /* found as it is written */
    *twin = UINT32_MAX;
    for (uint32_t c = 0; c < t->columns_n; c++) {
        const char *its = t->columns[c].name;
        if (its == NULL || !uw_cell_is(&want, its)) {
            continue;
        }
        bool same = memcmp(its, name, bytes) == 0;
        if (found == UINT32_MAX || (same && !written)) {
            found = c;
            written = same;
            *twin = UINT32_MAX;
        } else if (same == written && *twin == UINT32_MAX) {
            *twin = c;
        }
    }
    if (found != UINT32_MAX) {
        return found;
    }
    if (uw_cell_is(&want, "first") || uw_cell_is(&want, "last")) {
        return uw_cell_is(&want, "first") ? 0 : t->columns_n - 1;
    }
    for (size_t i = 0; i < bytes; i++) {
        if (name[i] < '0' || name[i] > '9' || number > UINT32_MAX) {
            return UINT32_MAX;
        }
        number = number * 10 + (uint64_t)(name[i] - '0');
    }
    return number >= 1 && number <= t->columns_n ? (uint32_t)number - 1 : UINT32_MAX;
}

bool uw_table_is_one_hot(const struct uw_table *t, uint32_t from, uint32_t n)
{
    for (uint32_t row = 0; row < t->rows_n; row++) {
        const float *x = t->cells + (size_t)row * t->columns_n + from;
        uint32_t ones = 0, zeros = 0;
        for (uint32_t k = 0; k < n; k++) {
            ones += x[k] == 1.0f;
            zeros += x[k] == 0.0f;
        }
        if (ones != 1 || zeros != n - 1) {
            return false;
        }
    }
    return true;
}

const char *uw_column_text(const struct uw_table *t, uint32_t column, char text[64])
{
    const char *name = t->columns[column].name;
    if (name != NULL && name[0] != '\0') {
        snprintf(text, 64, "column %u \"%.40s\"", (unsigned)column + 1, name);
    } else {
        snprintf(text, 64, "column %u", (unsigned)column + 1);
    }
    return text;
}

void uw_table_keep(struct uw_table *t, const bool *keep)
{
    uint32_t n = 0;
    for (uint32_t row = 0; row < t->rows_n; row++) {
        if (keep[row]) {
            memmove(t->cells + (size_t)n * t->columns_n, t->cells + (size_t)row * t->columns_n,
                    t->columns_n * sizeof *t->cells);
            t->line[n++] = t->line[row];
        }
    }
    t->rows_n = n;
}

void uw_table_close(struct uw_table *t)
{
    for (uint32_t c = 0; t->columns != NULL && c < t->columns_n; c++) {
        free(t->columns[c].name);
    }
    free(t->columns);
    free(t->cells);
    free(t->line);
    free(t->text);
    *t = (struct uw_table){.path = NULL};
}
