/* SPDX-License-Identifier: Apache-2.0 */
#include "sets.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEATURES_MAX = 1 << 20, LABEL_MAX = 65535, TEST_EVERY = 6, NUMBER_BYTES = 64 };

struct reader {
    struct uw_csv *d;
    struct uw_error *err;
    const char *path;
    const char *text; /* the file */
    size_t bytes, at;
    uint32_t line; /* from 1 */
    size_t line_at; /* byte where it starts */
    uint32_t features_n; /* 0 until the first row */
    size_t values_n, values_cap_n, rows_cap_n;
};

struct field {
    const char *text;
    size_t bytes;
    bool is_last; /* of its line */
};

static int fail(const struct reader *r, const struct field *f, const char *what)
{
    return uw_error_set(r->err, UW_ERR_CORRUPT, "%.90s:%u:%zu: \"%.*s\": %s", r->path, r->line,
                        (size_t)(f->text - r->text) - r->line_at + 1,
                        (int)(f->bytes < 24 ? f->bytes : 24), f->text, what);
}

/* The next field of the line; spaces around it and the end of the line are dropped. */
static struct field next_field(struct reader *r)
{
    const char *start = r->text + r->at, *end = start, *limit = r->text + r->bytes;
    while (end < limit && *end != ',' && *end != '\n') {
        end++;
    }
    bool is_last = end == limit || *end == '\n';
    r->at = (size_t)(end - r->text) + (end < limit ? 1 : 0);
    while (end > start && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r')) {
        end--;
    }
    while (start < end && (*start == ' ' || *start == '\t')) {
        start++;
    }
    return (struct field){.text = start, .bytes = (size_t)(end - start), .is_last = is_last};
}

/* A finite decimal number and nothing else. strtof alone would also take "nan", "inf" and
 * hexadecimal. */
static bool parse_number(const struct field *f, float *value)
{
    char copy[NUMBER_BYTES];
    if (f->bytes == 0 || f->bytes >= sizeof copy) {
        return false;
    }
    memcpy(copy, f->text, f->bytes);
    copy[f->bytes] = '\0';
    if (strspn(copy, "0123456789+-.eE") != f->bytes) {
        return false;
    }
    char *end;
    *value = strtof(copy, &end);
    return end == copy + f->bytes && isfinite(*value);
}

/* Room for one more element of 4 bytes. Returns NULL when there is no memory, and sets r->err. */
static void *grow(struct reader *r, void *p, size_t *cap_n, size_t n, const char *what)
{
    if (n < *cap_n) {
        return p;
    }
    size_t cap = *cap_n < 64 ? 64 : *cap_n * 2;
    void *bigger = cap > SIZE_MAX / 4 ? NULL : realloc(p, cap * 4);
    if (bigger == NULL) {
        (void)uw_error_set(r->err, UW_ERR_NOMEM, "%.120s:%u: no memory for more %s", r->path,
                           r->line, what);
        return NULL;
    }
    *cap_n = cap;
    return bigger;
}

static int add_value(struct reader *r, float value)
{
    float *values = grow(r, r->d->values, &r->values_cap_n, r->values_n, "values");
    if (values == NULL) {
        return UW_ERR_NOMEM;
    }
    r->d->values = values;
    values[r->values_n++] = value;
    return UW_OK;
}

static int add_label(struct reader *r, uint32_t label)
{
    uint32_t *labels = grow(r, r->d->labels, &r->rows_cap_n, r->d->rows_n, "lines");
    if (labels == NULL) {
        return UW_ERR_NOMEM;
    }
    r->d->labels = labels;
    labels[r->d->rows_n++] = label;
    r->d->base.classes = label < r->d->base.classes ? r->d->base.classes : label + 1;
    return r->d->rows_n < INT32_MAX
               ? UW_OK
               : uw_error_set(r->err, UW_ERR_TOOBIG, "%.120s:%u: too many lines", r->path, r->line);
}

static int read_label(struct reader *r, const struct field *f, uint32_t features_n)
{
    float value;
    if (!parse_number(f, &value)) {
        return fail(r, f, "not a number; the last field is the label");
    }
    if (r->d->rows_n != 0 && features_n != r->features_n) {
        return uw_error_set(r->err, UW_ERR_CORRUPT,
                            "%.120s:%u:1: %u fields; the lines before have %u", r->path, r->line,
                            features_n + 1, r->features_n + 1);
    }
    if (value < 0.0f || value > LABEL_MAX || value != floorf(value)) {
        return fail(r, f, "labels are whole numbers, 0 .. 65535");
    }
    if (features_n == 0) {
        return fail(r, f, "a line has one feature or more and then a label");
    }
    r->features_n = features_n;
    return add_label(r, (uint32_t)value);
}

static int read_row(struct reader *r)
{
    for (uint32_t features_n = 0; features_n <= FEATURES_MAX; features_n++) {
        struct field f = next_field(r);
        if (f.is_last) {
            return read_label(r, &f, features_n);
        }
        float value;
        if (!parse_number(&f, &value)) {
            return fail(r, &f, "not a number; fields are decimal numbers between commas");
        }
        int rc = add_value(r, value);
        if (rc < 0) {
            return rc;
        }
    }
    return uw_error_set(r->err, UW_ERR_TOOBIG, "%.120s:%u: more than %d features", r->path, r->line,
                        FEATURES_MAX);
}

/* Find out, without consuming the line, whether it is empty and whether its last field is a
 * number. */
static void look_at_line(const struct reader *r, bool *empty, bool *ends_in_number)
{
    struct reader ahead = *r;
    struct field f = next_field(&ahead);
    float value;
    *empty = f.is_last && f.bytes == 0;
    while (!f.is_last) {
        f = next_field(&ahead);
    }
    *ends_in_number = parse_number(&f, &value);
}

static void skip_line(struct reader *r)
{
    while (!next_field(r).is_last) {
    }
}

static int read_rows(struct reader *r)
{
    int rc = UW_OK;
    for (r->line = 1; r->at < r->bytes && rc == UW_OK; r->line++) {
        bool empty, ends_in_number = true;
        r->line_at = r->at;
        if (r->line == 1 || r->text[r->at] == '\n' || r->text[r->at] == '\r' ||
            r->text[r->at] == ' ') {
            look_at_line(r, &empty, &ends_in_number);
            if (empty || (r->line == 1 && !ends_in_number)) {
                skip_line(r);
                continue;
            }
        }
        rc = read_row(r);
    }
    if (rc == UW_OK && r->d->rows_n == 0) {
        rc = uw_error_set(r->err, UW_ERR_CORRUPT, "%.160s: no line of numbers inside", r->path);
    }
    return rc;
}

/* Refuse a file that is not text before allocating memory for it. */
static int check_is_text(const struct uw_file *f, struct uw_error *err)
{
    char start[4096];
    if (f->bytes <= sizeof start) {
        return UW_OK; /* small: the reader names the line */
    }
    if (uw_file_read(f, 0, start, sizeof start) < 0) {
        return uw_file_read_error(f, 0, err);
    }
    const char *zero = memchr(start, '\0', sizeof start);
    return zero == NULL ? UW_OK
                        : uw_error_set(err, UW_ERR_CORRUPT,
                                       "%.160s: byte %zu is zero: a CSV file is text", f->path,
                                       (size_t)(zero - start));
}

static int load_text(const char *path, char **text, size_t *bytes, struct uw_error *err)
{
    struct uw_file f;
    int rc = uw_file_open(&f, path, NULL, err);
    if (rc < 0) {
        return rc;
    }
    rc = check_is_text(&f, err);
    if (rc < 0) {
        uw_file_close(&f);
        return rc;
    }
    *bytes = (size_t)f.bytes;
    *text = f.bytes < SIZE_MAX ? malloc(*bytes + 1) : NULL;
    if (*text == NULL) {
        rc = uw_error_set(err, UW_ERR_NOMEM, "%.160s: no memory for its %llu bytes", path,
                          (unsigned long long)f.bytes);
    } else if (uw_file_read(&f, 0, *text, *bytes) < 0) {
        rc = uw_file_read_error(&f, 0, err);
    }
    uw_file_close(&f);
    return rc;
}

static int read_csv(struct uw_dataset *base, uint64_t index, float *x, uint32_t *label)
{
    const struct uw_csv *d = (const struct uw_csv *)base;
    if (index >= base->samples_n) {
        return UW_ERR_INVALID;
    }
    if (d->rows == UW_CSV_TEST) {
        index = index * TEST_EVERY + TEST_EVERY - 1;
    } else if (d->rows == UW_CSV_TRAIN) {
        index += index / (TEST_EVERY - 1);
    }
    memcpy(x, d->values + index * d->features_n, d->features_n * sizeof *x);
    *label = d->labels[index];
    return UW_OK;
}

static const struct uw_dataset_ops csv_ops = {.name = "csv", .read = read_csv};

int uw_csv_open(struct uw_csv *d, const char *path, enum uw_csv_rows rows, struct uw_error *err)
{
    *d = (struct uw_csv){.base = {.ops = &csv_ops, .height = 1, .width = 1, .classes = 2}};
    char *text = NULL;
    struct reader r = {.d = d, .err = err, .path = path};
    int rc = load_text(path, &text, &r.bytes, err);
    if (rc == UW_OK) {
        r.text = text;
        r.at = r.bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* UTF-8's mark */
        rc = read_rows(&r);
    }
    free(text);
    if (rc < 0) {
        uw_csv_close(d);
        return rc;
    }
    uint32_t test_n = d->rows_n / TEST_EVERY;
    d->rows = test_n == 0 ? UW_CSV_ALL : rows;
    d->base.channels = d->features_n = r.features_n;
    d->base.samples_n = d->rows == UW_CSV_ALL    ? d->rows_n
                        : d->rows == UW_CSV_TEST ? test_n
                                                 : d->rows_n - test_n;
    return UW_OK;
}

void uw_csv_close(struct uw_csv *d)
{
    free(d->values);
    free(d->labels);
    d->values = NULL;
    d->labels = NULL;
}
