/* SPDX-License-Identifier: Apache-2.0 */
#include "stream_lines.h"

#include "table_labels.h"
#include "table_text.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define LABEL_MAX 65535.0f

/* Numbers of a line, one at a time. */
struct cursor {
    const char *at;
    char separator;             /* ' ' stands for blanks */
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static const char *skip(const char *p)
{
    while (is_blank(*p)) {
        p++;
    }
    return p;
}

/* Take the next number. Returns 1, 0 (no more) or -1 (that is none). */
static int take_number(struct cursor *c, float *value)
{
    char *end;
    c->at = skip(c->at);
    if (*c->at == '\0') {
        return 0;
    }
    if (strchr("0123456789+-.", *c->at) == NULL || (c->at[0] == '0' && (c->at[1] | 32) == 'x')) {
        return -1;
    }
    *value = strtof(c->at, &end);
    const char *next = skip(end);
    if (end == c->at || !isfinite(*value)) {
        return -1;
    }
    if (*next == c->separator) {
        c->at = next + 1;
    } else {
        c->at = next;
        return *next == '\0' || (c->separator == ' ' && next != end) ? 1 : -1;
    }
    return 1;
}

static struct cursor cursor_of(const char *text)
{
    char separator = strchr(text, ',') != NULL ? ',' : strchr(text, ';') != NULL ? ';' : ' ';
    return (struct cursor){.at = text, .separator = separator};
}

/* ---- labels ---- */

static int fail(struct uw_error *err, const char *at, const char *what)
{
    return uw_error_set(err, UW_ERR_CORRUPT, "\"%.16s\": %s", at, what);
}

static int check_label(float value, const char *at, uint32_t *label, struct uw_error *err)
{
    bool value_of = isfinite(value) && value != floorf(value);
    if (!(value >= 0.0f && value <= LABEL_MAX) || value != floorf(value)) {
        return fail(err, at, value_of ? "has no label, a whole number from 0 to 65535; --loss mse "
                                        "learns values"
                                      : "has no label, a whole number from 0 to 65535");
    }
    *label = (uint32_t)value;
    return UW_OK;
}

/* Find the class that a cell names. at: the line */
static int find_label(const struct uw_stream_form *f, const struct uw_cell *cell, const char *at,
                      uint32_t *label, struct uw_error *err)
{
    float value = -1.0f;
    bool number = uw_cell_number(cell, false, &value);
    int shown = cell->bytes < 24 ? (int)cell->bytes : 24;
    *label = f->classes != NULL ? uw_class_find(f->classes, f->classes_n, cell) : UINT32_MAX;
    if (*label != UINT32_MAX) {
        return UW_OK;
    }
    if (f->classes != NULL && cell->bytes != 0) {
        return uw_error_set(err, UW_ERR_CORRUPT, "label \"%.*s\" is none of the %u classes, %.24s "
                            "to %.24s", shown, cell->text, (unsigned)f->classes_n, f->classes[0],
                            f->classes[f->classes_n - 1u]);
    }
    if (!number && cell->bytes != 0) {
        return uw_error_set(err, UW_ERR_CORRUPT, "label \"%.*s\" is a word; classes=A+B+... names "
                            "the classes", shown, cell->text);
    }
    return check_label(value, at, label, err);
}

static uint32_t behind_n(const struct uw_stream_form *f)
{
    return f->behind == UW_STREAM_NOTHING ? 0 : f->behind_n != 0 ? f->behind_n : 1u;
}

/* Take what is behind the numbers: a label, or a value into *value. */
static int take_behind(const struct uw_stream_form *f, const struct uw_cell *cell, bool comma,
                       const char *at, float *value, uint32_t *label, struct uw_error *err)
{
    if (f->behind == UW_STREAM_LABEL) {
        return find_label(f, cell, at, label, err);
    }
    return uw_cell_number(cell, comma, value) ? UW_OK
           : behind_n(f) == 1 ? fail(err, at, "has no value, a number behind the sample")
           : uw_error_set(err, UW_ERR_CORRUPT, "\"%.16s\": needs %u values, numbers behind the "
                          "sample", at, (unsigned)behind_n(f));
}

/* ---- JSON ---- */

static bool is_json(const char *text)
{
    return *skip(text) == '{';
}

static bool is_number(const cJSON *item)
{
    return cJSON_IsNumber(item) && isfinite((float)item->valuedouble);
}

/* The item of that name, as it is written or else whatever its case, looked for from one on; NULL:
 * from the first. Items in the order of the features are found at once. */
static const cJSON *find_item(const cJSON *line, const char *name, const cJSON *from)
{
    const cJSON *first = from != NULL ? from : line->child, *item = first, *other = NULL;
    while (item != NULL) {
        if (strcmp(item->string, name) == 0) {
            return item;
        }
        other = other == NULL && strcasecmp(item->string, name) == 0 ? item : other;
        item = item->next != NULL ? item->next : line->child;
        item = item != first ? item : NULL;
    }
    return other;
}

/* Whether numbers are asked for by their names, not in a list "x". */
static bool is_named(const cJSON *line, const struct uw_stream_form *f)
{
    return cJSON_IsObject(line) && f->names != NULL && f->names->features != NULL &&
           f->names->features_n == f->sample_n &&
           !cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(line, "x"));
}

/* The label or value j of a line; NULL: there is none. */
static const cJSON *find_behind(const cJSON *line, const struct uw_stream_form *f, uint32_t j)
{
    const struct uw_data_columns *c = f->names;
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(line, "label");
    bool values = f->behind == UW_STREAM_VALUE;
    const char *name = c == NULL ? NULL
                       : !values ? c->label
                       : c->targets != NULL && j < c->targets_n ? c->targets[j] : NULL;
    const cJSON *named = name != NULL ? find_item(line, name, NULL) : NULL;
    if (named != NULL) {
        return named;
    }
    if (cJSON_IsArray(item) && values) {
        return (uint32_t)cJSON_GetArraySize(item) == behind_n(f) ? cJSON_GetArrayItem(item, (int)j)
                                                                 : NULL;
    }
    return behind_n(f) <= 1 ? item : NULL;
}

static void take_json_number(const struct uw_stream_form *f, const cJSON *item, uint32_t i,
                             float *x)
{
    x[i] = cJSON_IsNumber(item) ? (float)item->valuedouble : cJSON_IsTrue(item) ? 1.0f : 0.0f;
    if (f->gap != NULL) {
        f->gap[i] = cJSON_IsNull(item);
    }
}

static bool is_taken(const struct uw_stream_form *f, const cJSON *item, bool named)
{
    return is_number(item) || (named && cJSON_IsBool(item)) ||
           (f->gap != NULL && cJSON_IsNull(item));
}

/* Take the numbers of a list, and of the lists in it, in their order. Returns false if there is
 * something else. */
static bool take_list(const struct uw_stream_form *f, const cJSON *list, float *x, uint32_t *n)
{
    bool good = true;
    for (const cJSON *item = list->child; item != NULL && good; item = item->next) {
        if (cJSON_IsArray(item)) {
            good = take_list(f, item, x, n);
            continue;
        }
        good = is_taken(f, item, false);
        if (good && x != NULL && *n < f->sample_n) {
            take_json_number(f, item, *n, x);
        }
        ++*n;
    }
    return good;
}

/* Take the numbers of a line, all of them numbers, or null where gaps are allowed.
 *   x     [sample_n] written; NULL: they are counted
 *   miss  set to the name of the first one that is missing
 * Returns how many there are; 0: not all are numbers. */
static uint32_t take_features(const cJSON *line, const struct uw_stream_form *f, float *x,
                              const char **miss)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(line, "x"), *item = NULL;
    uint32_t n = 0;
    *miss = NULL;
    if (!is_named(line, f)) {
        return cJSON_IsArray(list) && take_list(f, list, x, &n) ? n : 0;
    }
    for (; n < f->sample_n; n++, item = item->next) {
        item = find_item(line, f->names->features[n], item);
        if (!is_taken(f, item, true)) {
            *miss = f->names->features[n];
            return 0;
        }
        if (x != NULL) {
            take_json_number(f, item, n, x);
        }
    }
    return n;
}

/* Take what is behind, each a number or a word. */
static int take_json_behind(const struct uw_stream_form *f, const cJSON *line, const char *text,
                            float *values, uint32_t *label, struct uw_error *err)
{
    int rc = UW_OK;
    for (uint32_t j = 0; j < behind_n(f) && rc == UW_OK; j++) {
        const cJSON *of = find_behind(line, f, j);
        char number[32] = "";
        struct uw_cell cell = {.text = number};
        if (is_number(of)) {
            cell.bytes = (size_t)snprintf(number, sizeof number, "%.9g", of->valuedouble);
        } else if (cJSON_IsString(of)) {
            cell = (struct uw_cell){.text = of->valuestring, .bytes = strlen(of->valuestring)};
        }
        rc = take_behind(f, &cell, false, text, values + j, label, err);
    }
    return rc;
}

static int read_json(const char *text, const struct uw_stream_form *f, float *x, uint32_t *label,
                     struct uw_error *err)
{
    cJSON *line = cJSON_ParseWithOpts(text, NULL, true);
    const char *miss;
    uint32_t n = take_features(line, f, x, &miss);
    int rc = UW_OK;
    if (miss != NULL) {
        rc = uw_error_set(err, UW_ERR_CORRUPT, "\"%.16s\": has no number \"%.40s\", nor a list "
                          "\"x\" of numbers", text, miss);
    } else if (n != f->sample_n) {
        rc = fail(err, text, line == NULL ? "is no JSON"
                             : n == 0     ? "has no list \"x\" of numbers"
                             : n < f->sample_n ? "too few numbers" : "too many numbers");
    }
    rc = rc < 0 ? rc : take_json_behind(f, line, text, x + f->sample_n, label, err);
    cJSON_Delete(line);
    return rc;
}

bool uw_stream_is_named(const char *text, const struct uw_stream_form *form)
{
    cJSON *line = is_json(text) ? cJSON_ParseWithOpts(text, NULL, true) : NULL;
    bool named = is_named(line, form);
    cJSON_Delete(line);
    return named;
}

/* ---- lines ---- */

/* Take the next cell as a word, without quotes. */
static struct uw_cell take_cell(struct cursor *c)
{
    const char *start = skip(c->at), *end = start;
    bool quoted = *start == '"' && strchr(start + 1, '"') != NULL;
    if (quoted) {
        start++;
        end = strchr(start, '"');
    } else {
        while (*end != '\0' && *end != c->separator && !(c->separator == ' ' && is_blank(*end))) {
            end++;
        }
    }
    struct uw_cell cell = {.text = start, .bytes = (size_t)(end - start)};
    while (!quoted && cell.bytes != 0 && is_blank(start[cell.bytes - 1])) {
        cell.bytes--;
    }
    c->at = skip(quoted ? end + 1 : end);
    if (*c->at == c->separator && *c->at != '\0') {
        c->at++;
    }
    return cell;
}

uint32_t uw_stream_count(const char *text, const struct uw_stream_form *form)
{
    struct cursor c = cursor_of(text);
    float value;
    uint32_t n = 0;
    int rc = 1;
    if (is_json(text)) {
        const char *miss;
        cJSON *line = cJSON_ParseWithOpts(text, NULL, true);
        n = take_features(line, form, NULL, &miss);
        n += n == 0 || find_behind(line, form, 0) == NULL ? 0
             : behind_n(form) != 0                        ? behind_n(form) : 1u;
        cJSON_Delete(line);
        return n;
    }
    while (rc > 0) {
        rc = take_number(&c, &value);
        n += rc > 0 ? 1u : 0u;
    }
    if (rc < 0 && n != 0) {         /* a word, if nothing is behind it */
        bool word = take_cell(&c).bytes != 0 && *skip(c.at) == '\0';
        return word ? n + 1u : 0;
    }
    return rc < 0 ? 0 : n;
}

/* Read a line whose cells are in the order of a header. */
static int read_ordered(const char *text, const struct uw_stream_form *f, float *x,
                        uint32_t *label, struct uw_error *err)
{
    const struct uw_stream_order *o = f->order;
    struct uw_lines l = {.text = text, .bytes = strlen(text), .delimiter = o->delimiter};
    bool comma = o->delimiter != ',';
    int rc = UW_OK;
    uint32_t n = uw_lines_next(&l) ? uw_lines_count(&l) : 0;
    if (n != o->cells_n) {
        return uw_error_set(err, UW_ERR_CORRUPT, "\"%.16s\": %u cells, the header has %u", text,
                            (unsigned)n, (unsigned)o->cells_n);
    }
    for (uint32_t i = 0; i < n && rc == UW_OK; i++) {
        const struct uw_cell cell = uw_lines_cell(&l);
        uint32_t k = o->place[i];
        if (k < f->sample_n) {
            bool good = uw_cell_number(&cell, comma, &x[k]) || uw_cell_truth(&cell, &x[k]);
            rc = good ? UW_OK : fail(err, cell.text, uw_cell_fault(&cell));
        } else if (k - f->sample_n < behind_n(f)) {
            rc = take_behind(f, &cell, comma, text, &x[k], label, err);
        }
    }
    return rc;
}

int uw_stream_read_line(const char *text, const struct uw_stream_form *form, float *x,
                        uint32_t *label, struct uw_error *err)
{
    struct cursor c = cursor_of(text);
    int rc = UW_OK;
    *label = 0;
    if (is_json(text)) {
        return read_json(text, form, x, label, err);
    }
    if (form->order != NULL) {
        return read_ordered(text, form, x, label, err);
    }
    for (uint32_t i = 0; i < form->sample_n; i++) {
        int n = take_number(&c, &x[i]);
        if (n != 1) {
            return fail(err, c.at, n < 0 ? "not a number" : "too few numbers");
        }
    }
    for (uint32_t j = 0; j < behind_n(form) && rc == UW_OK; j++) {
        const struct uw_cell cell = take_cell(&c);
        rc = take_behind(form, &cell, false, text, x + form->sample_n + j, label, err);
    }
    return rc == UW_OK && *skip(c.at) != '\0' ? fail(err, c.at, "too many numbers") : rc;
}
