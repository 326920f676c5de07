/* SPDX-License-Identifier: Apache-2.0 */
#include "table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROW_MAX_N (1u << 24)

/* Where element i of a [C][H][W] sample is in one of [H][W][C]. */
static uint64_t turned(const struct uw_array *x, uint64_t i)
{
    uint64_t plane = x->dim[1] * x->dim[2];
    return i % plane * x->dim[3] + i / plane;
}

static void count_cell(struct uw_table *t, uint32_t column, float value)
{
    struct uw_column *c = &t->columns[column];
    struct uw_place *p = isnan(value) ? &c->missing : &c->word;
    float *cell = t->cells + (size_t)t->rows_n * t->columns_n + column;
    *cell = isfinite(value) ? value : NAN;
    if (isfinite(value)) {
        uw_column_add(c, value, t->rows_n != 0 ? cell[-(ptrdiff_t)t->columns_n] : 0.0f);
        return;
    }
    c->missing_n += isnan(value) ? 1 : 0;
    c->words_n += isnan(value) ? 0 : 1;
    if (p->line == 0) {
        *p = (struct uw_place){.line = t->rows_n + 1, .byte = column + 1};
        snprintf(p->text, sizeof p->text, "%s", isnan(value) ? "nan" : "inf");
    }
}

static int check(const char *path, const struct uw_array *x, const struct uw_array *y,
                 struct uw_error *err)
{
    char mine[160], its[160];
    if (y->n != 0 && y->dim[0] != x->dim[0]) {
        return uw_error_set(err, UW_ERR_MISMATCH, "%.60s: %.80s and %.80s: they have another "
                            "number of samples", path, uw_array_text(x, mine),
                            uw_array_text(y, its));
    }
    if (x->n / x->dim[0] > ROW_MAX_N || y->n / x->dim[0] > ROW_MAX_N || x->dim[0] > INT32_MAX) {
        return uw_error_set(err, UW_ERR_TOOBIG, "%.100s: %.100s: a sample is too large", path,
                            uw_array_text(x, mine));
    }
    return UW_OK;
}

int uw_table_from_arrays(struct uw_table *t, const char *path, struct uw_array *x,
                         struct uw_array *y, const bool channels_last[2], bool has_void,
                         struct uw_error *err)
{
    const struct uw_array none = {.n = 0};
    const struct uw_array *label = y != NULL ? y : &none;
    char one[160], two[160];
    *t = (struct uw_table){.path = path};
    int rc = check(path, x, label, err);
    if (rc < 0) {
        return rc;
    }
    uint64_t rows_n = x->dim[0], x_n = x->n / rows_n, y_n = label->n / rows_n;
    t->columns_n = (uint32_t)(x_n + y_n);
    t->columns = calloc(t->columns_n, sizeof *t->columns);
    t->cells = malloc((size_t)rows_n * t->columns_n * sizeof *t->cells);
    t->line = malloc((size_t)rows_n * sizeof *t->line);
    if (t->columns == NULL || t->cells == NULL || t->line == NULL) {
        return uw_error_set(err, UW_ERR_NOMEM, "%.120s: no memory for %llu samples", path,
                            (unsigned long long)rows_n);
    }
    snprintf(t->origin, sizeof t->origin, "%.120s%s%.120s%s", uw_array_text(x, one),
             y != NULL ? ", " : "", y != NULL ? uw_array_text(y, two) : "",
             channels_last[1] ? ", of which channels are moved to the front" : "");
    for (; t->rows_n < rows_n; t->rows_n++) {
        uint64_t at = t->rows_n * x_n;
        for (uint64_t k = 0; k < x_n; k++) {
            count_cell(t, (uint32_t)k, uw_array_at(x, at + (channels_last[0] ? turned(x, k) : k)));
        }
        for (uint64_t k = 0; k < y_n; k++) {
            uint64_t place = channels_last[1] ? turned(label, k) : k;
            float value = uw_array_at(label, t->rows_n * y_n + place);
            bool is_void = has_void && value == 255.0f;
            count_cell(t, (uint32_t)(x_n + k), is_void ? -1.0f : value);
            t->void_n += is_void;
        }
        t->line[t->rows_n] = t->rows_n + 1;
    }
    uw_array_close(x);
    if (y != NULL) {
        uw_array_close(y);
    }
    return UW_OK;
}
