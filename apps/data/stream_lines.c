/* SPDX-License-Identifier: Apache-2.0 */
#include "stream_lines.h"

#include <cjson/cJSON.h>
#include <math.h>
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

static bool is_json(const char *text)
{
    return *skip(text) == '{';
}

/* ---- JSON ---- */

static bool is_number(const cJSON *item)
{
    return cJSON_IsNumber(item) && isfinite((float)item->valuedouble);
}

/* Elements of "x", all of them numbers, and 1 more for a label; 0: the line has no such list. */
static uint32_t count_json(const cJSON *line)
{
    const cJSON *x = cJSON_GetObjectItemCaseSensitive(line, "x"), *item;
    uint32_t n = 0;
    bool good = cJSON_IsArray(x);
    cJSON_ArrayForEach(item, x) {
        good = good && is_number(item);
        n++;
    }
    n += cJSON_GetObjectItemCaseSensitive(line, "label") != NULL && n != 0 ? 1u : 0u;
    return good ? n : 0;
}

static int fail(struct uw_error *err, const char *at, const char *what)
{
    return uw_error_set(err, UW_ERR_CORRUPT, "\"%.16s\": %s", at, what);
}

static int check_label(float value, const char *at, uint32_t *label, struct uw_error *err)
{
    if (!(value >= 0.0f && value <= LABEL_MAX) || value != floorf(value)) {
        return fail(err, at, "has no label, a whole number from 0 to 65535");
    }
    *label = (uint32_t)value;
    return UW_OK;
}

static int read_json(const char *text, bool labelled, uint32_t sample_n, float *x, uint32_t *label,
                     struct uw_error *err)
{
    cJSON *line = cJSON_ParseWithOpts(text, NULL, true);
    const cJSON *item, *of = cJSON_GetObjectItemCaseSensitive(line, "label");
    uint32_t n = count_json(line), i = 0;
    int rc = UW_OK;
    n -= n != 0 && of != NULL ? 1u : 0u;
    if (n != sample_n) {
        rc = fail(err, text, line == NULL ? "is no JSON"
                             : n == 0     ? "has no list \"x\" of numbers"
                             : n < sample_n ? "too few numbers" : "too many numbers");
    }
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(line, "x")) {
        if (rc == UW_OK) {
            x[i++] = (float)item->valuedouble;
        }
    }
    if (rc == UW_OK && labelled) {
        rc = check_label(is_number(of) ? (float)of->valuedouble : -1.0f, text, label, err);
    }
    cJSON_Delete(line);
    return rc;
}

/* ---- lines ---- */

uint32_t uw_stream_count(const char *text)
{
    struct cursor c = cursor_of(text);
    float value;
    uint32_t n = 0;
    int rc = 1;
    if (is_json(text)) {
        cJSON *line = cJSON_ParseWithOpts(text, NULL, true);
        n = count_json(line);
        cJSON_Delete(line);
        return n;
    }
    while (rc > 0) {
        rc = take_number(&c, &value);
        n += rc > 0 ? 1u : 0u;
    }
    return rc < 0 ? 0 : n;
}

int uw_stream_read_line(const char *text, bool labelled, uint32_t sample_n, float *x,
                        uint32_t *label, struct uw_error *err)
{
    struct cursor c = cursor_of(text);
    float value = -1.0f;
    int rc = UW_OK;
    *label = 0;
    if (is_json(text)) {
        return read_json(text, labelled, sample_n, x, label, err);
    }
    for (uint32_t i = 0; i < sample_n; i++) {
        int n = take_number(&c, &x[i]);
        if (n != 1) {
            return fail(err, c.at, n < 0 ? "not a number" : "too few numbers");
        }
    }
    if (labelled) {
        rc = check_label(take_number(&c, &value) == 1 ? value : -1.0f, text, label, err);
    }
    if (rc == UW_OK && take_number(&c, &value) != 0) {
        return fail(err, c.at, "too many numbers");
    }
    return rc;
}
