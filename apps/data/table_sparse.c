/* SPDX-License-Identifier: Apache-2.0 */
#include "table_sparse.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOOKED_AT = 5, FEATURES_MAX = 1 << 20 };

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
        if (*c->at < '0' || *c->at > '9' || *end != ':' || k > FEATURES_MAX) {
            return -1;
        }
        *index = (uint32_t)k;
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

/* How many rows there are, and which indices. Returns UW_OK or UW_ERR_CORRUPT. */
static int measure(const struct uw_table *t, const char *text, uint32_t *rows_n, uint32_t *least,
                   uint32_t *most, struct uw_error *err)
{
    uint32_t line = 1;
    *rows_n = *most = 0;
    *least = 1;
    for (const char *p = text; *p != '\0'; p = next_line(p), line++) {
        struct cursor c = {.at = p, .first = true};
        int rc = 1;
        while (rc > 0 && !is_empty(p)) {
            uint32_t index;
            float value;
            rc = take(&c, &index, &value);
            bool feature = rc > 0 && index != UINT32_MAX;
            *least = feature && index < *least ? index : *least;
            *most = feature && index > *most ? index : *most;
        }
        if (rc < 0) {
            size_t bytes = strcspn(c.at, " \t\r\n");
            return uw_error_set(err, UW_ERR_CORRUPT, "%.100s:%u:%zu: \"%.*s\": a line has a label "
                                "and then INDEX:VALUE, as the first ones", t->path, (unsigned)line,
                                (size_t)(c.at - p) + 1u, (int)(bytes < 24 ? bytes : 24), c.at);
        }
        *rows_n += rc == 0;
    }
    return UW_OK;
}

static int allocate(struct uw_table *t, uint32_t rows_n, struct uw_error *err)
{
    size_t n = (size_t)rows_n * t->columns_n;
    t->columns = calloc(t->columns_n, sizeof *t->columns);
    t->cells = n / t->columns_n == rows_n ? calloc(n, sizeof *t->cells) : NULL;
    t->line = malloc((size_t)rows_n * sizeof *t->line);
    return t->columns != NULL && t->cells != NULL && t->line != NULL
               ? UW_OK
               : uw_error_set(err, UW_ERR_NOMEM, "%.120s: no memory for %u lines of %u numbers",
                              t->path, (unsigned)rows_n, (unsigned)t->columns_n);
}

static void read_rows(struct uw_table *t, const char *text, uint32_t least)
{
    uint32_t line = 1;
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

int uw_table_read_sparse(struct uw_table *t, const char *text, uint32_t least_n,
                         struct uw_error *err)
{
    uint32_t rows_n, least, most;
    int rc = measure(t, text, &rows_n, &least, &most, err);
    if (rc < 0) {
        return rc;
    }
    uint32_t n = most + 1u - least;
    t->columns_n = (n > least_n ? n : least_n) + 1u;
    rc = allocate(t, rows_n, err);
    if (rc < 0) {
        return rc;
    }
    read_rows(t, text, least);
    snprintf(t->origin, sizeof t->origin, "%u lines of a label and INDEX:VALUE, as LIBSVM has "
             "them; indices from %u to %u, %u features", (unsigned)t->rows_n, (unsigned)least,
             (unsigned)most, (unsigned)t->columns_n - 1u);
    return UW_OK;
}
