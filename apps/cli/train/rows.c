/* SPDX-License-Identifier: Apache-2.0 */
#include "rows.h"

#include "base/open_file.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NUMBER_BYTES 64u

int uw_rows_open(struct uw_rows *r, const char *path, struct uw_error *err)
{
    struct stat st;
    bool input = strcmp(path, "-") == 0;
    *r = (struct uw_rows){.name = input ? "standard input" : path};
    r->file = input ? stdin : uw_open_file(path, false);
    if (r->file == NULL) {
        int rc = errno == ENOENT ? UW_ERR_NOTFOUND : errno == EACCES ? UW_ERR_DENIED : UW_ERR_IO;
        return uw_error_set(err, rc, "%.160s: %s", path, strerror(errno));
    }
    bool known = fstat(fileno(r->file), &st) == 0;
    if (known && S_ISDIR(st.st_mode)) {
        uw_rows_close(r);
        return uw_error_set(err, UW_ERR_IO, "%.160s: is a folder, needs a file of rows", path);
    }
    r->arrives = !known || !S_ISREG(st.st_mode);
    return UW_OK;
}

void uw_rows_close(struct uw_rows *r)
{
    if (r->file != NULL && r->file != stdin) {
        fclose(r->file);
    }
    free(r->line);
    r->file = NULL;
    r->line = NULL;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* A field of the line, without the blanks around it. */
struct field {
    const char *text;
    size_t bytes;
};

/* Take the next field off *at; false at the end of the line. */
static bool next_field(char separator, const char **at, struct field *f)
{
    const char *p = *at;
    if (p == NULL) {
        return false;
    }
    while (is_blank(*p)) {
        p++;
    }
    const char *end = p;
    while (*end != '\0' && (separator == ' ' ? !is_blank(*end) : *end != separator)) {
        end++;
    }
    const char *next = end;
    if (separator == ' ') {
        while (is_blank(*next)) {
            next++;
        }
        *at = *next != '\0' ? next : NULL;
    } else {
        *at = *end != '\0' ? end + 1 : NULL;
    }
    while (end > p && is_blank(end[-1])) {
        end--;
    }
    *f = (struct field){.text = p, .bytes = (size_t)(end - p)};
    return true;
}

/* A finite decimal number and nothing else but quotation marks around it.
 *   comma  a comma counts as the decimal point; set to whether there was one */
static bool parse_number(const struct field *f, bool *comma, float *value)
{
    char copy[NUMBER_BYTES], *end;
    bool quoted = f->bytes > 2 && f->text[0] == '"' && f->text[f->bytes - 1] == '"';
    size_t bytes = quoted ? f->bytes - 2 : f->bytes;
    if (bytes == 0 || bytes >= sizeof copy) {
        return false;
    }
    memcpy(copy, f->text + quoted, bytes);
    copy[bytes] = '\0';
    char *at = *comma ? strchr(copy, ',') : NULL;
    if (at != NULL) {
        *at = '.';
    }
    *comma = at != NULL;
    if (strspn(copy, "0123456789+-.eE") != bytes) {
        return false;
    }
    *value = strtof(copy, &end);
    return end == copy + bytes && isfinite(*value);
}

/* Whether a field of the line is a number. */
static bool has_number(char separator, const char *line)
{
    struct field f;
    float value;
    while (next_field(separator, &line, &f)) {
        bool comma = separator == ';';
        if (parse_number(&f, &comma, &value)) {
            return true;
        }
    }
    return false;
}

static char separator_of(const char *line)
{
    return strchr(line, ';') != NULL ? ';' : strchr(line, ',') != NULL ? ',' : ' ';
}

/* Read a line that is not empty, without its end. Returns 1, 0 at the end, or UW_ERR_IO. */
static int next_line(struct uw_rows *r, struct uw_error *err)
{
    const char *text;
    do {
        errno = 0;
        ssize_t n = getline(&r->line, &r->line_cap, r->file);
        if (n < 0) {
            return ferror(r->file) || errno == ENOMEM
                       ? uw_error_set(err, UW_ERR_IO, "%.160s: %s", r->name, strerror(errno))
                       : 0;
        }
        r->line_n++;
        bool mark = r->line_n == 1 && strncmp(r->line, "\xef\xbb\xbf", 3) == 0;     /* UTF-8's */
        if (mark) {
            memset(r->line, ' ', 3);
        }
        r->line[strcspn(r->line, "\r\n")] = '\0';
        text = r->line + strspn(r->line, " \t");
    } while (*text == '\0');
    return 1;
}

static int count(char separator, const char *line)
{
    struct field f;
    int n = 0;
    while (next_field(separator, &line, &f)) {
        n++;
    }
    return n;
}

int uw_rows_next(struct uw_rows *r, float *x, uint32_t n, struct uw_error *err)
{
    struct field f;
    int rc = next_line(r, err);
    if (rc > 0 && r->separator == '\0') {
        char separator = separator_of(r->line);
        if (r->line_n == 1 && !has_number(separator, r->line)) {
            r->header = true;
            return uw_rows_next(r, x, n, err);
        }
        r->separator = separator;
    }
    if (rc <= 0) {
        return rc;
    }
    const char *at = r->line;
    for (uint32_t i = 0; i < n && next_field(r->separator, &at, &f); i++) {
        bool comma = r->separator == ';';
        bool good = parse_number(&f, &comma, &x[i]);
        r->commas = r->commas || comma;
        if (!good) {
            return uw_error_set(err, UW_ERR_CORRUPT,
                                "%.90s:%llu:%zu: \"%.*s\": not a number; a row has %u decimal "
                                "numbers", r->name, (unsigned long long)r->line_n,
                                (size_t)(f.text - r->line) + 1,
                                (int)(f.bytes < 24 ? f.bytes : 24), f.text, (unsigned)n);
        }
    }
    int have = count(r->separator, r->line);
    if (have != (int)n) {
        return uw_error_set(err, UW_ERR_MISMATCH,
                            "%.90s:%llu: %d numbers, the model takes %u%s", r->name,
                            (unsigned long long)r->line_n, have, (unsigned)n,
                            have == (int)n + 1 ? "; a table with labels goes with --data csv:FILE"
                                               : "");
    }
    return 1;
}
