/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading goes down by recursion, CJSON_NESTING_LIMIT deep at most. */
#include "json_tree.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    const char *at, *end;       /* *end is the text's NUL, or the byte behind it */
    uint32_t depth;
};

static cJSON *read_value(struct reader *r);

static void skip_blanks(struct reader *r)
{
    while (r->at < r->end && *r->at != '\0' && (unsigned char)*r->at <= ' ') {
        r->at++;
    }
}

static bool take(struct reader *r, char c)
{
    skip_blanks(r);
    if (r->at == r->end || *r->at != c) {
        return false;
    }
    r->at++;
    return true;
}

static bool take_word(struct reader *r, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0) {
        return false;
    }
    r->at += n;
    return true;
}

static bool digits(struct reader *r)
{
    const char *from = r->at;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9') {
        r->at++;
    }
    return r->at > from;
}

/* Of a number's form; strtod then reads just those characters. */
static bool take_number(struct reader *r, double *x)
{
    char text[64];
    const char *from = r->at;
    (void)(r->at < r->end && *r->at == '-' ? r->at++ : r->at);
    if (!digits(r)) {
        return false;
    }
    if (r->at < r->end && *r->at == '.') {
        r->at++;
        if (!digits(r)) {
            return false;
        }
    }
    if (r->at < r->end && (*r->at == 'e' || *r->at == 'E')) {
        r->at++;
        (void)(r->at < r->end && (*r->at == '-' || *r->at == '+') ? r->at++ : r->at);
        if (!digits(r)) {
            return false;
        }
    }
    size_t n = (size_t)(r->at - from);
    if (n >= sizeof text) {
        r->at = from;
        return false;
    }
    memcpy(text, from, n);
    text[n] = '\0';
    *x = strtod(text, NULL);
    return true;
}

static bool take_hex(const char *at, const char *end, uint32_t *code)
{
    *code = 0;
    for (int i = 0; i < 4; i++, at++) {
        char c = at < end ? *at : '\0';
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a') + 10u
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A') + 10u
                                                : 16u;
        if (digit > 15u) {
            return false;
        }
        *code = *code << 4 | digit;
    }
    return true;
}

/* One code point as UTF-8. Returns its bytes. */
static size_t put_utf8(char *out, uint32_t code)
{
    if (code < 0x80u) {
        out[0] = (char)code;
        return 1;
    }
    size_t n = code < 0x800u ? 2 : code < 0x10000u ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, code >>= 6) {
        out[i] = (char)(0x80u | (code & 0x3fu));
    }
    out[0] = (char)((0xf00u >> n & 0xffu) | code);
    return n;
}

/* What follows "\u", a pair of surrogates taken together. */
static bool take_code(struct reader *r, char **out)
{
    uint32_t code, low;
    if (!take_hex(r->at, r->end, &code)) {
        return false;
    }
    r->at += 4;
    if (code >= 0xd800u && code < 0xdc00u && r->end - r->at >= 6 && r->at[0] == '\\' &&
        r->at[1] == 'u' && take_hex(r->at + 2, r->end, &low) && low >= 0xdc00u && low < 0xe000u) {
        code = 0x10000u + ((code & 0x3ffu) << 10) + (low & 0x3ffu);
        r->at += 6;
    }
    if (code >= 0xd800u && code < 0xe000u) {
        return false;
    }
    *out += put_utf8(*out, code);
    return true;
}

static bool take_escape(struct reader *r, char **out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char c = r->at < r->end ? *r->at : '\0';
    const char *found = c != '\0' ? strchr(from, c) : NULL;
    if (c != 'u' && found == NULL) {
        return false;
    }
    r->at++;
    if (c == 'u') {
        return take_code(r, out);
    }
    *(*out)++ = to[found - from];
    return true;
}

/* The text behind a quotation mark; it never becomes longer than it was written. */
static char *read_text(struct reader *r)
{
    const char *close = r->at;
    while (close < r->end && *close != '"' && *close != '\0') {
        close += *close == '\\' && close + 1 < r->end ? 2 : 1;
    }
    if (close >= r->end || *close != '"') {
        r->at = close < r->end ? close : r->end;
        return NULL;
    }
    char *text = malloc((size_t)(close - r->at) + 1);
    char *out = text;
    while (text != NULL && r->at < close) {
        if (*r->at != '\\') {
            *out++ = *r->at++;
            continue;
        }
        r->at++;
        if (!take_escape(r, &out)) {
            free(text);
            return NULL;
        }
    }
    if (text != NULL) {
        *out = '\0';
        r->at = close + 1;
    }
    return text;
}

/* A member's key and its value, or an element. */
static cJSON *read_child(struct reader *r, bool member)
{
    char *key = NULL;
    if (member) {
        key = take(r, '"') ? read_text(r) : NULL;
        if (key == NULL || !take(r, ':')) {
            free(key);
            return NULL;
        }
    }
    cJSON *item = read_value(r);
    if (item == NULL) {
        free(key);
        return NULL;
    }
    item->string = key;
    return item;
}

static bool read_children(struct reader *r, cJSON *parent, char close)
{
    if (take(r, close)) {
        return true;
    }
    do {
        cJSON *item = read_child(r, parent->type == cJSON_Object);
        if (item == NULL) {
            return false;
        }
        uw_json_append(parent, item);
    } while (take(r, ','));
    return take(r, close);
}

static bool fill(struct reader *r, cJSON *item)
{
    char c = r->at < r->end ? *r->at : '\0';
    switch (c) {
    case '{':
    case '[':
        item->type = c == '{' ? cJSON_Object : cJSON_Array;
        r->at++;
        return r->depth <= CJSON_NESTING_LIMIT && read_children(r, item, c == '{' ? '}' : ']');
    case '"':
        item->type = cJSON_String;
        r->at++;
        item->valuestring = read_text(r);
        return item->valuestring != NULL;
    case 't':
        item->type = cJSON_True;
        return take_word(r, "true");
    case 'f':
        item->type = cJSON_False;
        return take_word(r, "false");
    case 'n':
        item->type = cJSON_NULL;
        return take_word(r, "null");
    default:
        item->type = cJSON_Number;
        return take_number(r, &item->valuedouble);
    }
}

static cJSON *read_value(struct reader *r)
{
    cJSON *item = uw_json_new(cJSON_NULL);
    skip_blanks(r);
    r->depth++;
    if (item != NULL && !fill(r, item)) {
        cJSON_Delete(item);
        item = NULL;
    }
    r->depth--;
    return item;
}

cJSON *cJSON_ParseWithLengthOpts(const char *text, size_t bytes, const char **end,
                                 cJSON_bool nothing_follows)
{
    struct reader r = {.at = text, .end = text + bytes};
    (void)take_word(&r, "\xef\xbb\xbf");
    cJSON *item = read_value(&r);
    skip_blanks(&r);
    if (item != NULL && nothing_follows && r.at < r.end && *r.at != '\0') {
        cJSON_Delete(item);
        item = NULL;
    }
    if (end != NULL) {
        *end = r.at;
    }
    return item;
}
