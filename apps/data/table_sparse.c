/* SPDX-License-Identifier: Apache-2.0 */
#include "table_sparse.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOOKED_AT = 5, INDEX_MAX = 1 << 20, CELLS_MAX = 1 << 30 };

/* The numbers of a line, one at a time. */
struct cursor {
    const char *at;                 /* behind the last one */
    bool first;                     /* the label is next */
};

static bool is_end(char c)
{
    return c == '\0' || c == '\n' || c == '#';
}

/* Take the next number. Returns 1, 0 (the line has no more) or -1 (that is none); *index is
 * UINT32_MAX of a label. */
static int take(struct cursor *c, uint32_t *index, float *value)
{
    char *end;
    c->at += strspn(c->at, " \t\r");
    if (is_end(*c->at)) {
        return 0;
    }
    *index = UINT32_MAX;
    if (!c->first) {
        unsigned long k = strtoul(c->at, &end, 10);
        if (*c->at < '0' || *c->at > '9' || *end != ':') {
            return -1;
        }
        *index = k > INDEX_MAX ? INDEX_MAX + 1u : (uint32_t)k;
        c->at = end + 1;
    }
    c->first = false;
    struct uw_cell cell = {.text = c->at, .bytes = strcspn(c->at, " \t\r\n#")};
    bool good = uw_cell_number(&cell, false, value);
    c->at += good ? cell.bytes : 0;
    return good ? 1 : -1;
}

static const char *next_line(const char *p)
{
    const char *end = strchr(p, '\n');
    return end != NULL ? end + 1 : p + strlen(p);
}

static bool is_empty(const char *p)
{
    return is_end(p[strspn(p, " \t\r")]);
}

bool uw_table_is_sparse(const char *text)
{
    uint32_t lines_n = 0, features_n = 0;
    for (; *text != '\0' && lines_n < LOOKED_AT; text = next_line(text)) {
        struct cursor c = {.at = text, .first = true};
        uint32_t index, n = 0;
        float value;
        int rc = 1;
        while (!is_empty(text) && rc > 0) {
            rc = take(&c, &index, &value);
            n += rc > 0;
        }
        if (rc < 0) {
            return false;
        }
        lines_n += n != 0;
        features_n += n > 1;
    }
    return features_n != 0;
}

/* How many rows there are, and the largest index. Returns UW_OK or UW_ERR_CORRUPT. */
static int measure(struct uw_table *t, const char *text, char from, uint32_t *rows_n,
                   uint32_t *most, struct uw_error *err)
{
    uint32_t line = 1;
    *rows_n = *most = 0;
    t->indices_from = from != 0 ? from : '1';
    for (const char *p = text; *p != '\0'; p = next_line(p), line++) {
        struct cursor c = {.at = p, .first = true};
        const char *why = "a line has a label and then INDEX:VALUE, as the first ones";
        int rc = 1;
        while (rc > 0 && !is_empty(p)) {
            uint32_t index;
            float value;
            const char *start = c.at + strspn(c.at, " \t\r");
            rc = take(&c, &index, &value);
            bool feature = rc > 0 && index != UINT32_MAX;
            if (feature && (index > INDEX_MAX || (index == 0 && from == '1'))) {
                rc = -1;
                c.at = start;
                why = index == 0 ? "indices of the training data count from 1"
                                 : "indices go up to 1048576";
            } else if (feature) {
                t->indices_from = index == 0 ? '0' : t->indices_from;
                *most = index > *most ? index : *most;
            }
        }
        if (rc < 0) {
            size_t bytes = strcspn(c.at, " \t\r\n");
            return uw_error_set(err, UW_ERR_CORRUPT, "%.100s:%u:%zu: \"%.*s\": %s", t->path,
                                (unsigned)line, (size_t)(c.at - p) + 1u,
                                (int)(bytes < 24 ? bytes : 24), c.at, why);
        }
        *rows_n += rc == 0;
    }
    return UW_OK;
}

static int allocate(struct uw_table *t, uint32_t rows_n, struct uw_error *err)
{
    uint64_t n = (uint64_t)rows_n * t->columns_n;
    if (n > CELLS_MAX) {
        return uw_error_set(err, UW_ERR_TOOBIG, "%.120s: %u lines of %u numbers, zeros too, are "
                            "more than %d: fewer lines, or features", t->path, (unsigned)rows_n,
                            (unsigned)t->columns_n, (int)CELLS_MAX);
    }
    t->columns = calloc(t->columns_n, sizeof *t->columns);
    t->cells = calloc((size_t)n, sizeof *t->cells);
    t->line = malloc((size_t)rows_n * sizeof *t->line);
    return t->columns != NULL && t->cells != NULL && t->line != NULL
               ? UW_OK
               : uw_error_set(err, UW_ERR_NOMEM, "%.120s: no memory for %u lines of %u numbers",
                              t->path, (unsigned)rows_n, (unsigned)t->columns_n);
}

static void read_rows(struct uw_table *t, const char *text)
{
    uint32_t line = 1, least = (uint32_t)(t->indices_from - '0');
    for (const char *p = text; *p != '\0'; p = next_line(p), line++) {
        struct cursor c = {.at = p, .first = true};
        float *row = t->cells + (size_t)t->rows_n * t->columns_n, value;
        uint32_t index;
        while (!is_empty(p) && take(&c, &index, &value) > 0) {
            row[index != UINT32_MAX ? index - least : t->columns_n - 1u] = value;
        }
        for (uint32_t k = 0; !is_empty(p) && k < t->columns_n; k++) {
            uw_column_add(&t->columns[k], row[k],
                          t->rows_n != 0 ? row[(ptrdiff_t)k - (ptrdiff_t)t->columns_n] : 0.0f);
        }
        if (!is_empty(p)) {
            t->line[t->rows_n++] = line;
        }
    }
}

int uw_table_read_sparse(struct uw_table *t, const char *text, const struct uw_table_options *o,
                         struct uw_error *err)
{
    uint32_t rows_n, most;
    int rc = measure(t, text, o->indices_from, &rows_n, &most, err);
    if (rc < 0) {
        return rc;
    }
    uint32_t n = most + (t->indices_from == '0');
    t->columns_n = (n > o->least_n ? n : o->least_n) + 1u;
    rc = allocate(t, rows_n, err);
    if (rc < 0) {
        return rc;
    }
    read_rows(t, text);
    snprintf(t->origin, sizeof t->origin, "%u lines of a label and INDEX:VALUE, as LIBSVM has "
             "them; indices from %c to %u, %u features", (unsigned)t->rows_n, t->indices_from,
             (unsigned)most, (unsigned)t->columns_n - 1u);
    return UW_OK;
}
