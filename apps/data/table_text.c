/* SPDX-License-Identifier: Apache-2.0 */
#include "table_text.h"

#include "file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { NUMBER_BYTES = 64, LOOKED_AT_BYTES = 1 << 22, WIDTHS_N = 4096 };

/* ---- the file ---- */

/* Refuse a file that is not text before allocating memory for it. */
static int check_is_text(const struct uw_file *f, struct uw_error *err)
{
    char start[4096];
    size_t n = f->bytes < sizeof start ? (size_t)f->bytes : sizeof start;
    if (n != 0 && uw_file_read(f, 0, start, n) < 0) {
        return uw_file_read_error(f, 0, err);
    }
    const char *zero = memchr(start, '\0', n);
    if (n >= 2 && (memcmp(start, "\xff\xfe", 2) == 0 || memcmp(start, "\xfe\xff", 2) == 0)) {
        return uw_error_set(err, UW_ERR_CORRUPT,
                            "%.120s: is UTF-16: save it as UTF-8 or plain text", f->path);
    }
    return zero == NULL ? UW_OK
                        : uw_error_set(err, UW_ERR_CORRUPT,
                                       "%.120s: byte %zu is zero: a table is a file of text",
                                       f->path, (size_t)(zero - start));
}

/* Lines may end with a carriage return alone. */
static void mend_ends(char *text, size_t bytes)
{
    if (memchr(text, '\n', bytes) == NULL) {
        for (char *at = text; (at = memchr(at, '\r', bytes - (size_t)(at - text))) != NULL;) {
            *at = '\n';
        }
    }
}

int uw_table_load(const char *path, char **text, size_t *bytes, struct uw_error *err)
{
    struct uw_file f;
    uint8_t *all = NULL;
    int rc = uw_file_open(&f, path, NULL, err);
    if (rc == UW_OK) {
        rc = check_is_text(&f, err);
        rc = rc < 0 ? rc : uw_file_load(&f, &all, err);
        uw_file_close(&f);
    }
    if (rc == UW_OK) {
        all[f.bytes] = '\0';        /* there is room for it */
        mend_ends((char *)all, (size_t)f.bytes);
    }
    *text = (char *)all;
    *bytes = (size_t)f.bytes;
    return rc;
}

/* ---- lines ---- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* The byte behind the line's end. */
static size_t behind_line(const struct uw_lines *l, size_t at)
{
    const char *end = memchr(l->text + at, '\n', l->bytes - at);
    return end == NULL ? l->bytes : (size_t)(end - l->text) + 1;
}

/* Whether text begins with what spreadsheets write for a value that they cannot compute. */
static bool is_error(const char *text, size_t bytes)
{
    static const char *const words[] = {"#N/A", "#DIV/0!", "#REF!", "#NAME?", "#VALUE!", "#NUM!",
                                        "#NULL!"};
    bool found = false;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t n = strlen(words[i]);
        found = found || (bytes >= n && memcmp(text, words[i], n) == 0);
    }
    return found;
}

/* Whether the line has nothing but blanks and delimiters, or is a comment. */
static bool is_nothing(const struct uw_lines *l)
{
    size_t at = l->at;
    while (at < l->bytes && l->text[at] != '\n' &&
           (is_blank(l->text[at]) || l->text[at] == l->delimiter)) {
        at++;
    }
    return at == l->bytes || l->text[at] == '\n' ||
           (l->text[at] == '#' && !is_error(l->text + at, l->bytes - at));
}

bool uw_lines_next(struct uw_lines *l)
{
    while (l->at < l->bytes) {
        l->line += 1 + l->breaks_n;
        l->breaks_n = 0;
        l->line_at = l->at;
        if (!is_nothing(l)) {
            return true;
        }
        l->at = behind_line(l, l->at);
    }
    return false;
}

/* Whether the cell ends before byte `at`. */
static bool ends_at(const struct uw_lines *l, size_t at)
{
    char c = at < l->bytes ? l->text[at] : '\n';
    return c == '\n' || c == l->delimiter ||
           (l->delimiter == UW_DELIMITER_BLANKS && is_blank(c));
}

static size_t skip_blanks(const struct uw_lines *l, size_t at)
{
    while (at < l->bytes && is_blank(l->text[at]) &&
           (l->text[at] != l->delimiter || l->delimiter == UW_DELIMITER_BLANKS)) {
        at++;
    }
    return at;
}

/* Where a cell in quotes that starts at byte `at` ends, its second quote; 0: it has none. A cell
 * between " may have breaks of lines, UW_LINE_BREAKS_MAX at most. */
static size_t closing_quote(const struct uw_lines *l, size_t at)
{
    char quote = l->text[at];
    uint32_t breaks_n = 0;
    for (size_t i = at + 1; i < l->bytes; i++) {
        if (l->text[i] == '\n' && (quote != '"' || ++breaks_n > UW_LINE_BREAKS_MAX)) {
            return 0;
        }
        if (l->text[i] == quote && i + 1 < l->bytes && l->text[i + 1] == quote) {
            i++;
        } else if (l->text[i] == quote) {
            size_t behind = skip_blanks(l, i + 1);
            bool blanks = l->delimiter == UW_DELIMITER_BLANKS && behind > i + 1;
            return blanks || ends_at(l, behind) ? i : 0;
        }
    }
    return 0;
}

struct uw_cell uw_lines_cell(struct uw_lines *l)
{
    size_t start = skip_blanks(l, l->at), end = start, behind;
    size_t quote = start < l->bytes && (l->text[start] == '"' || l->text[start] == '\'')
                       ? closing_quote(l, start) : 0;
    if (quote != 0) {
        start++;
        end = quote;
        for (size_t i = start; i < end; i++) {
            l->breaks_n += l->text[i] == '\n';
        }
        behind = skip_blanks(l, quote + 1);
    } else {
        while (!ends_at(l, end)) {
            end++;
        }
        behind = skip_blanks(l, end);
        while (end > start && is_blank(l->text[end - 1])) {
            end--;
        }
    }
    bool is_last = behind >= l->bytes || l->text[behind] == '\n';
    bool one = behind < l->bytes && (is_last || l->delimiter != UW_DELIMITER_BLANKS);
    l->at = behind + (one ? 1 : 0);
    return (struct uw_cell){.text = l->text + start, .bytes = end - start, .is_last = is_last};
}

uint32_t uw_lines_count(const struct uw_lines *l)
{
    struct uw_lines ahead = *l;
    uint32_t n = 1;
    while (!uw_lines_cell(&ahead).is_last) {
        n++;
    }
    return n;
}

bool uw_lines_open(struct uw_lines l)
{
    struct uw_cell cell = {.is_last = false};
    bool open = false;
    while (!cell.is_last) {
        cell = uw_lines_cell(&l);
        bool quote = cell.bytes != 0 && cell.text[0] == '"';
        open = open || (quote && (cell.text == l.text || cell.text[-1] != '"'));
    }
    return open;
}

/* ---- the delimiter ---- */

/* The share of lines that have the most frequent number of cells, above one; 0: there is none. */
static double agreement(const char *text, size_t bytes, char delimiter)
{
    struct uw_lines l = {.text = text, .bytes = bytes, .delimiter = delimiter};
    uint32_t widths[WIDTHS_N] = {0}, best = 0, lines_n = 0;
    while (uw_lines_next(&l)) {
        uint32_t n = 1;
        while (!uw_lines_cell(&l).is_last) {
            n++;
        }
        lines_n++;
        n = n < WIDTHS_N ? n : WIDTHS_N - 1;
        widths[n]++;
        best = n > 1 && widths[n] > best ? widths[n] : best;
    }
    return lines_n != 0 ? (double)best / lines_n : 0.0;
}

char uw_lines_delimiter(const char *text, size_t bytes)
{
    static const char known[] = {'\t', ';', ',', UW_DELIMITER_BLANKS, '|'};
    char best = ',';
    double share = 0.0;
    if (bytes > LOOKED_AT_BYTES) {
        const char *end = memchr(text + LOOKED_AT_BYTES, '\n', bytes - LOOKED_AT_BYTES);
        bytes = end != NULL ? (size_t)(end - text) + 1 : bytes;
    }
    for (size_t i = 0; i < sizeof known; i++) {
        double mine = memchr(text, known[i], bytes) != NULL || known[i] == UW_DELIMITER_BLANKS
                          ? agreement(text, bytes, known[i]) : 0.0;
        if (mine > share) {
            best = known[i];
            share = mine;
        }
    }
    return best;
}

const char *uw_lines_delimiter_text(char delimiter, char text[24])
{
    switch (delimiter) {
    case ',': return "commas";
    case ';': return "semicolons";
    case '\t': return "tabs";
    case UW_DELIMITER_BLANKS: return "blanks";
    default: snprintf(text, 24, "the character %c", delimiter); return text;
    }
}

/* ---- cells ---- */

/* A number of few digits without an exponent: the quotient of two floats that are exact. */
static bool parse_short(const char *text, size_t bytes, float *value)
{
    static const float tens[] = {1.0f, 1e1f, 1e2f, 1e3f, 1e4f, 1e5f, 1e6f, 1e7f};
    bool minus = text[0] == '-', point = false;
    uint32_t digits = 0, after = 0, number = 0;
    for (size_t i = minus ? 1 : 0; i < bytes; i++) {
        if (text[i] >= '0' && text[i] <= '9') {
            number = number * 10u + (uint32_t)(text[i] - '0');
            after += point ? 1u : 0u;
            if (++digits > 7) {
                return false;
            }
        } else if (text[i] == '.' && !point) {
            point = true;
        } else {
            return false;
        }
    }
    float quotient = (float)number / tens[after];
    *value = minus ? -quotient : quotient;
    return digits > 0;
}

/* strtof alone would also take "nan", "inf" and hexadecimal. */
bool uw_cell_number(const struct uw_cell *c, bool comma, float *value)
{
    char copy[NUMBER_BYTES];
    if (c->bytes == 0 || c->bytes >= sizeof copy) {
        return false;
    }
    if (parse_short(c->text, c->bytes, value)) {
        return true;
    }
    memcpy(copy, c->text, c->bytes);
    copy[c->bytes] = '\0';
    char *point = comma ? strchr(copy, ',') : NULL;
    if (point != NULL) {
        *point = '.';
    }
    if (strspn(copy, "0123456789+-.eE") != c->bytes) {
        return false;
    }
    char *end;
    *value = strtof(copy, &end);
    return end == copy + c->bytes && isfinite(*value);
}

const char *uw_cell_fault(const struct uw_cell *c)
{
    char copy[NUMBER_BYTES], *end = copy;
    size_t n = c->bytes < sizeof copy ? c->bytes : 0;
    memcpy(copy, c->text, n);
    copy[n] = '\0';
    if (uw_cell_missing(c)) {
        return "the value is missing";
    }
    return n != 0 && isinf(strtof(copy, &end)) && end == copy + n
               ? "not finite; a value is needed in its place, or no such line"
               : "not a number";
}

bool uw_cell_is(const struct uw_cell *c, const char *word)
{
    return strlen(word) == c->bytes && strncasecmp(c->text, word, c->bytes) == 0;
}

bool uw_cell_truth(const struct uw_cell *c, float *value)
{
    *value = uw_cell_is(c, "true") ? 1.0f : 0.0f;
    return *value != 0.0f || uw_cell_is(c, "false");
}

bool uw_cell_missing(const struct uw_cell *c)
{
    static const char *const words[] = {"?", "na", "n/a", "nan", "null", "none", "<na>"};
    bool missing = c->bytes == 0 || is_error(c->text, c->bytes);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        missing = missing || uw_cell_is(c, words[i]);
    }
    return missing;
}
