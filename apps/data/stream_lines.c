/* SPDX-License-Identifier: Apache-2.0 */
#include "stream_lines.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LABEL_MAX 65535.0f

/* Numbers of a line, one at a time. */
struct cursor {
    const char *at;
    char separator;             /* ' ' stands for blanks */
    bool closed;                /* by ']' */
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
    if (*c->at == '\0' || c->closed) {
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
    if (*next == ']') {
        c->closed = true;
        c->at = next + 1;
    } else if (*next == c->separator) {
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

/* The value of a key in a JSON object of one level, or NULL. */
static const char *value_of(const char *text, const char *key)
{
    const char *p = strstr(text, key);
    p = p != NULL ? skip(p + strlen(key)) : NULL;
    return p != NULL && *p == ':' ? skip(p + 1) : NULL;
}

static bool is_json(const char *text)
{
    return *skip(text) == '{';
}

static struct cursor json_cursor(const char *text)
{
    const char *list = value_of(text, "\"x\"");
    return (struct cursor){.at = list != NULL && *list == '[' ? list + 1 : "", .separator = ','};
}

uint32_t uw_stream_count(const char *text)
{
    struct cursor c = is_json(text) ? json_cursor(text) : cursor_of(text);
    float value;
    uint32_t n = 0;
    int rc = 1;
    while (rc > 0) {
        rc = take_number(&c, &value);
        n += rc > 0 ? 1u : 0u;
    }
    bool labelled = is_json(text) && value_of(text, "\"label\"") != NULL;
    return rc < 0 || n == 0 ? 0 : n + (labelled ? 1u : 0u);
}

static int fail(struct uw_error *err, const char *at, const char *what)
{
    return uw_error_set(err, UW_ERR_CORRUPT, "\"%.16s\": %s", at, what);
}

/* Take the label, at the end of a row or as a member of JSON. */
static int take_label(const char *text, struct cursor *c, uint32_t *label, struct uw_error *err)
{
    struct cursor of_json = {.separator = ','};
    float value = -1.0f;
    if (is_json(text)) {
        const char *p = value_of(text, "\"label\"");
        of_json.at = p != NULL ? p : "";
        char *end = NULL;
        value = p != NULL ? strtof(p, &end) : -1.0f;
    } else if (take_number(c, &value) != 1) {
        value = -1.0f;
    }
    if (value < 0.0f || value > LABEL_MAX || value != floorf(value)) {
        return fail(err, is_json(text) ? of_json.at : text,
                    "has no label, a whole number from 0 to 65535");
    }
    *label = (uint32_t)value;
    return UW_OK;
}

int uw_stream_read_line(const char *text, bool labelled, uint32_t sample_n, float *x,
                        uint32_t *label, struct uw_error *err)
{
    struct cursor c = is_json(text) ? json_cursor(text) : cursor_of(text);
    float value;
    int rc = UW_OK;
    *label = 0;
    for (uint32_t i = 0; i < sample_n; i++) {
        int n = take_number(&c, &x[i]);
        if (n != 1) {
            return fail(err, c.at, n < 0 ? "not a number" : "too few numbers");
        }
    }
    if (labelled) {
        rc = take_label(text, &c, label, err);
    }
    if (rc == UW_OK && take_number(&c, &value) != 0) {
        return fail(err, c.at, "too many numbers");
    }
    return rc;
}
