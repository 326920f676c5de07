/* SPDX-License-Identifier: Apache-2.0 */
#include "stream_lines.h"

#include "table_labels.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static bool has_number(const struct uw_stream_form *f)
{
    bool found = false;
    float value;
    for (uint32_t k = 0; k < f->classes_n; k++) {
        const struct uw_cell name = {.text = f->classes[k], .bytes = strlen(f->classes[k])};
        found = found || uw_cell_number(&name, false, &value);
    }
    return found;
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
    if (number && f->classes != NULL && !has_number(f) && value >= 0.0f &&
        value < (float)f->classes_n && value == floorf(value)) {
        *label = (uint32_t)value;
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

/* Take what is behind the numbers: a label, or a value into *value. */
static int take_behind(const struct uw_stream_form *f, const struct uw_cell *cell, const char *at,
                       float *value, uint32_t *label, struct uw_error *err)
{
    if (f->behind == UW_STREAM_LABEL) {
        return find_label(f, cell, at, label, err);
    }
    return uw_cell_number(cell, false, value)
               ? UW_OK : fail(err, at, "has no value, a number behind the sample");
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

/* Elements of "x", all of them numbers, or null where gaps are allowed, and 1 more for a label; 0:
 * the line has no such list. */
static uint32_t count_json(const cJSON *line, bool gaps)
{
    const cJSON *x = cJSON_GetObjectItemCaseSensitive(line, "x"), *item;
    uint32_t n = 0;
    bool good = cJSON_IsArray(x);
    cJSON_ArrayForEach(item, x) {
        good = good && (is_number(item) || (gaps && cJSON_IsNull(item)));
        n++;
    }
    n += cJSON_GetObjectItemCaseSensitive(line, "label") != NULL && n != 0 ? 1u : 0u;
    return good ? n : 0;
}

/* Take "label", a number or a word. */
static int take_json_behind(const struct uw_stream_form *f, const cJSON *of, const char *text,
                            float *value, uint32_t *label, struct uw_error *err)
{
    char number[32] = "";
    struct uw_cell cell = {.text = number};
    if (is_number(of)) {
        cell.bytes = (size_t)snprintf(number, sizeof number, "%.9g", of->valuedouble);
    } else if (cJSON_IsString(of)) {
        cell = (struct uw_cell){.text = of->valuestring, .bytes = strlen(of->valuestring)};
    }
    return take_behind(f, &cell, text, value, label, err);
}

static int read_json(const char *text, const struct uw_stream_form *f, float *x, uint32_t *label,
                     struct uw_error *err)
{
    cJSON *line = cJSON_ParseWithOpts(text, NULL, true);
    const cJSON *item, *of = cJSON_GetObjectItemCaseSensitive(line, "label");
    uint32_t n = count_json(line, f->gap != NULL), i = 0;
    int rc = UW_OK;
    n -= n != 0 && of != NULL ? 1u : 0u;
    if (n != f->sample_n) {
        rc = fail(err, text, line == NULL ? "is no JSON"
                             : n == 0     ? "has no list \"x\" of numbers"
                             : n < f->sample_n ? "too few numbers" : "too many numbers");
    }
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(line, "x")) {
        if (rc == UW_OK && f->gap != NULL) {
            f->gap[i] = cJSON_IsNull(item);
        }
        if (rc == UW_OK) {
            x[i++] = cJSON_IsNull(item) ? 0.0f : (float)item->valuedouble;
        }
    }
    if (rc == UW_OK && f->behind != UW_STREAM_NOTHING) {
        rc = take_json_behind(f, of, text, x + f->sample_n, label, err);
    }
    cJSON_Delete(line);
    return rc;
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

uint32_t uw_stream_count(const char *text)
{
    struct cursor c = cursor_of(text);
    float value;
    uint32_t n = 0;
    int rc = 1;
    if (is_json(text)) {
        cJSON *line = cJSON_ParseWithOpts(text, NULL, true);
        n = count_json(line, false);
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

int uw_stream_read_line(const char *text, const struct uw_stream_form *form, float *x,
                        uint32_t *label, struct uw_error *err)
{
    struct cursor c = cursor_of(text);
    int rc = UW_OK;
    *label = 0;
    if (is_json(text)) {
        return read_json(text, form, x, label, err);
    }
    for (uint32_t i = 0; i < form->sample_n; i++) {
        int n = take_number(&c, &x[i]);
        if (n != 1) {
            return fail(err, c.at, n < 0 ? "not a number" : "too few numbers");
        }
    }
    if (form->behind != UW_STREAM_NOTHING) {
        const struct uw_cell cell = take_cell(&c);
        rc = take_behind(form, &cell, text, x + form->sample_n, label, err);
    }
    return rc == UW_OK && *skip(c.at) != '\0' ? fail(err, c.at, "too many numbers") : rc;
}
