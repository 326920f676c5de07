/* SPDX-License-Identifier: Apache-2.0 */
#include "json_read.h"

#include "open_file.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXACT_MAX 9007199254740992.0    /* 2^53: every whole number up to it is a double */
#define FLOAT_BEYOND 0x1.ffffffp127     /* the least double that rounds to an infinite float */

static uint32_t line_at(const char *text, const char *at)
{
    uint32_t line = 1;
    for (const char *p = text; p < at; p++) {
        line += *p == '\n' ? 1u : 0u;
    }
    return line;
}

/* Find a NUL, as a byte or escaped, which would end the text early; NULL: none. */
static const char *find_nul(const char *text, size_t text_bytes)
{
    const char *end = text + text_bytes;
    for (const char *p = text; p < end; p++) {
        if (*p == '\0' || (*p == '\\' && end - p >= 6 && memcmp(p + 1, "u0000", 5) == 0)) {
            return p;
        }
        p += *p == '\\' ? 1 : 0;
    }
    return NULL;
}

int uw_json_open_text(struct uw_json *j, const char *file, const char *text, size_t text_bytes)
{
    *j = (struct uw_json){.file = file};
    if (text_bytes > UW_JSON_BYTES_MAX) {
        return uw_error_set(&j->err, UW_ERR_TOOBIG, "%s: larger than %u bytes", file,
                            UW_JSON_BYTES_MAX);
    }
    j->text = malloc(text_bytes + 1u);
    if (j->text == NULL) {
        return uw_error_set(&j->err, UW_ERR_NOMEM, "%s: out of memory", file);
    }
    memcpy(j->text, text, text_bytes);
    j->text[text_bytes] = '\0';
    j->text_bytes = text_bytes;

    const char *end = j->text;
    j->root = cJSON_ParseWithLengthOpts(j->text, text_bytes + 1u, &end, 1);
    if (j->root == NULL) {
        const char *limit = j->text + text_bytes;
        end = end > limit ? limit : end;
        if (end == limit) {
            return uw_error_set(&j->err, UW_ERR_CORRUPT,
                                "%s:%u: not valid JSON: it ends too early", file,
                                (unsigned)line_at(j->text, end));
        }
        return uw_error_set(&j->err, UW_ERR_CORRUPT, "%s:%u: not valid JSON near \"%.12s\"", file,
                            (unsigned)line_at(j->text, end), end);
    }
    const char *nul = find_nul(j->text, text_bytes);
    return nul == NULL ? UW_OK
                       : uw_error_set(&j->err, UW_ERR_CORRUPT,
                                      "%s:%u: a text with the character 0 is not allowed", file,
                                      (unsigned)line_at(j->text, nul));
}

int uw_json_open_file(struct uw_json *j, const char *file)
{
    size_t n;
    char *text = uw_read_file(file, UW_JSON_BYTES_MAX, &n);
    *j = (struct uw_json){.file = file};
    if (text == NULL) {
        int rc = errno == ENOENT   ? UW_ERR_NOTFOUND
                 : errno == EACCES ? UW_ERR_DENIED
                 : errno == EFBIG  ? UW_ERR_TOOBIG
                 : errno == ENOMEM ? UW_ERR_NOMEM
                                   : UW_ERR_IO;
        return uw_error_set(&j->err, rc, "%s: %s", file, strerror(errno));
    }
    int rc = uw_json_open_text(j, file, text, n);
    free(text);
    return rc;
}

void uw_json_close(struct uw_json *j)
{
    cJSON_Delete(j->root);
    free(j->text);
    j->root = NULL;
    j->text = NULL;
    while (j->kept != NULL) {
        struct uw_json_kept *next = j->kept->next;
        free(j->kept);
        j->kept = next;
    }
}

void *uw_json_keep(struct uw_json *j, size_t bytes)
{
    struct uw_json_kept *k = malloc(sizeof *k + bytes);
    if (k == NULL) {
        uw_error_set(&j->err, UW_ERR_NOMEM, "%s: out of memory", j->file);
        return NULL;
    }
    k->next = j->kept;
    j->kept = k;
    return k + 1;
}

/* The functions below read text that cJSON has accepted, so they need not check it. cJSON treats
 * every byte up to ' ' as white space. */
static const char *skip_space(const char *p, const char *end)
{
    while (p < end && (unsigned char)*p <= ' ') {
        p++;
    }
    return p;
}

static const char *skip_string(const char *p, const char *end)
{
    for (p++; p < end && *p != '"'; p++) {
        p += *p == '\\' ? 1 : 0;
    }
    return p < end ? p + 1 : end;
}

/* Skip `node`, whose text starts at p. Returns the position after it. If it contains `target`, sets
 * *found to the target's position. */
static const char *walk(const char *p, const char *end, const cJSON *node, const cJSON *target,
                        const char **found)
{
    p = skip_space(p, end);
    if (node == target && *found == NULL) {
        *found = p;
    }
    if (cJSON_IsString(node)) {
        return skip_string(p, end);
    }
    if (!cJSON_IsObject(node) && !cJSON_IsArray(node)) {
        while (p < end && (unsigned char)*p > ' ' && strchr(",]}", *p) == NULL) {
            p++;
        }
        return p;
    }
    for (const cJSON *child = node->child; child != NULL && *found == NULL; child = child->next) {
        p = skip_space(p + 1, end); /* the bracket or a comma */
        if (child == target) {
            *found = p;
        }
        if (cJSON_IsObject(node)) {
            p = skip_space(skip_string(p, end), end) + 1;
        }
        p = skip_space(walk(p, end, child, target, found), end);
    }
    if (node->child == NULL) {
        p = skip_space(p + 1, end);
    }
    return p + 1;
}

uint32_t uw_json_line(const struct uw_json *j, const cJSON *value)
{
    const char *found = NULL;
    const char *end = j->text + j->text_bytes;
    const char *start = j->text;
    if (j->text_bytes >= 3 && memcmp(start, "\xef\xbb\xbf", 3) == 0) {
        start += 3;
    }
    walk(start, end, j->root, value, &found);
    return line_at(j->text, found != NULL && found < end ? found : start);
}

int uw_json_fail(struct uw_json *j, const cJSON *at, const char *format, ...)
{
    if (j->err.code == UW_OK) {
        char sentence[UW_ERROR_TEXT_BYTES] = "";
        va_list args;
        va_start(args, format);
        (void)vsnprintf(sentence, sizeof sentence, format, args);
        va_end(args);
        uw_error_set(&j->err, UW_ERR_INVALID, "%s:%u: %s", j->file,
                     (unsigned)uw_json_line(j, at), sentence);
    }
    return UW_ERR_INVALID;
}

static void check_duplicates(struct uw_json *j, const cJSON *object)
{
    for (const cJSON *a = object->child; a != NULL; a = a->next) {
        for (const cJSON *b = object->child; b != a; b = b->next) {
            if (strcmp(a->string, b->string) == 0) {
                uw_json_fail(j, a, "key \"%s\" comes twice", a->string);
                return;
            }
        }
    }
}

void uw_json_keys(struct uw_json *j, const cJSON *object, const char *what, const char *keys)
{
    if (!cJSON_IsObject(object)) {
        uw_json_fail(j, object, "%s needs an object {...} with %s", what, keys);
        return;
    }
    for (const cJSON *m = object->child; m != NULL; m = m->next) {
        struct uw_guess g = {.word = m->string, .word_bytes = strlen(m->string)};
        if (uw_word_find(keys, &g) < 0) {
            uw_json_fail(j, m, "unknown key \"%s\" in %s%s%s", m->string, what,
                         uw_guess_hint(&g, "\"", "; allowed: "), g.nearest != NULL ? "" : keys);
            return;
        }
    }
    check_duplicates(j, object);
}

const cJSON *uw_json_member(struct uw_json *j, const cJSON *object, const char *key,
                            bool required)
{
    const cJSON *m = cJSON_IsObject(object) ? cJSON_GetObjectItemCaseSensitive(object, key) : NULL;
    if (m == NULL && required) {
        uw_json_fail(j, object, "key \"%s\" is missing here", key);
    }
    return m;
}

const char *uw_json_text(struct uw_json *j, const cJSON *object, const char *key,
                         const char *fallback)
{
    const cJSON *m = uw_json_member(j, object, key, fallback == NULL);
    if (m == NULL) {
        return fallback != NULL ? fallback : "";
    }
    if (!cJSON_IsString(m) || m->valuestring[0] == '\0') {
        uw_json_fail(j, m, "\"%s\" needs a text that is not empty", key);
        return "";
    }
    return m->valuestring;
}

/* A whole number in a range, min after a mistake. */
static double whole(struct uw_json *j, const cJSON *value, const char *key, double min, double max)
{
    double v = cJSON_IsNumber(value) ? value->valuedouble : NAN;
    if (!(v >= min && v <= max && floor(v) == v)) {
        uw_json_fail(j, value, "\"%s\" needs a whole number from %.0f to %.0f", key, min, max);
        return min;
    }
    return v;
}

uint32_t uw_json_u32(struct uw_json *j, const cJSON *value, const char *key, uint32_t min,
                     uint32_t max)
{
    return (uint32_t)whole(j, value, key, min, max);
}

int32_t uw_json_i32(struct uw_json *j, const cJSON *value, const char *key, int32_t min,
                    int32_t max)
{
    return (int32_t)whole(j, value, key, min, max);
}

float uw_json_real(struct uw_json *j, const cJSON *value, const char *key, enum uw_real_range range)
{
    static const char *const allowed[] = {
        [UW_REAL_POSITIVE] = "above 0", [UW_REAL_SHARE] = "from 0 to below 1",
        [UW_REAL_POSITIVE_SHARE] = "above 0, at most 1", [UW_REAL_NOT_NEGATIVE] = "of 0 or above",
        [UW_REAL_NOT_ZERO] = "other than 0", [UW_REAL_ANY] = "that a float holds"};
    double v = cJSON_IsNumber(value) ? value->valuedouble : NAN;
    float f = fabs(v) < FLOAT_BEYOND ? (float)v : NAN;
    bool fits = range == UW_REAL_POSITIVE         ? f > 0.0f
                : range == UW_REAL_SHARE          ? v >= 0.0 && f < 1.0f
                : range == UW_REAL_POSITIVE_SHARE ? f > 0.0f && v <= 1.0
                : range == UW_REAL_NOT_NEGATIVE   ? f >= 0.0f
                : range == UW_REAL_NOT_ZERO       ? f < 0.0f || f > 0.0f
                                                  : f <= FLT_MAX;
    if (!fits) {
        uw_json_fail(j, value, "\"%s\" needs a number %s", key, allowed[range]);
        return 0.0f;
    }
    return f;
}

uint32_t uw_json_choice(struct uw_json *j, const cJSON *value, const char *key,
                        const char *choices)
{
    if (!cJSON_IsString(value)) {
        uw_json_fail(j, value, "\"%s\" needs one of %s", key, choices);
        return 0;
    }
    struct uw_guess g = {.word = value->valuestring, .word_bytes = strlen(value->valuestring)};
    int place = uw_word_find(choices, &g);
    if (place >= 0) {
        return (uint32_t)place;
    }
    uw_json_fail(j, value, "unknown %s \"%s\"%s%s", key, value->valuestring,
                 uw_guess_hint(&g, "\"", "; allowed: "), g.nearest != NULL ? "" : choices);
    return 0;
}

uint32_t uw_json_elements(struct uw_json *j, const cJSON *value, const char *key, uint32_t max,
                          const char *what)
{
    int n = cJSON_IsArray(value) ? cJSON_GetArraySize(value) : 0;
    if (n < 1 || (uint32_t)n > max) {
        uw_json_fail(j, value, "\"%s\" needs an array of 1 to %u %s", key, (unsigned)max, what);
        return 0;
    }
    return (uint32_t)n;
}

bool uw_json_bool(struct uw_json *j, const cJSON *object, const char *key, bool fallback)
{
    const cJSON *m = uw_json_member(j, object, key, false);
    if (m == NULL) {
        return fallback;
    }
    if (!cJSON_IsBool(m)) {
        uw_json_fail(j, m, "\"%s\" needs true or false", key);
    }
    return cJSON_IsTrue(m);
}

void uw_json_option(struct uw_json *j, const struct uw_opt *o, const cJSON *value, void *out)
{
    char number[40];
    char allowed[160];
    const char *text = NULL;
    bool wants_text = o->kind == UW_OPT_TEXT || o->kind == UW_OPT_CHOICE ||
                      o->kind == UW_OPT_CHOICES ||
                      o->kind == UW_OPT_BITS || o->kind == UW_OPT_LIST;
    bool takes_text = wants_text || uw_opt_is_bytes(o) || o->kind == UW_OPT_U64 ||
                      o->kind == UW_OPT_U32_PHASES;
    if (cJSON_IsString(value) && takes_text) {
        text = value->valuestring;
    } else if (cJSON_IsBool(value) && o->kind == UW_OPT_FLAG) {
        text = cJSON_IsTrue(value) ? "true" : "false";
    } else if (cJSON_IsNumber(value) && !wants_text && o->kind != UW_OPT_FLAG) {
        bool whole = floor(value->valuedouble) == value->valuedouble &&
                     fabs(value->valuedouble) < 1e19;
        if (o->kind == UW_OPT_U64 && fabs(value->valuedouble) > EXACT_MAX) {
            uw_json_fail(j, value, "\"%s\" needs quotes above %.0f, where JSON's numbers are not "
                                   "exact", o->name, EXACT_MAX);
            return;
        }
        snprintf(number, sizeof number, whole ? "%.0f" : "%.17g", value->valuedouble);
        text = number;
    }
    if (text == NULL || uw_opt_set(o, text, out) < 0) {
        uw_opt_allowed(o, allowed, sizeof allowed);
        uw_json_fail(j, value, "\"%s\" %s", o->name, allowed);
    }
}

/* Set a row of bits from [0, 2], by way of "0,2". */
static void set_bits(struct uw_json *j, const struct uw_opt *o, const cJSON *array, void *out)
{
    char text[256];
    size_t used = 0;
    text[0] = '\0';
    for (const cJSON *e = array->child; e != NULL && used < sizeof text; e = e->next) {
        double v = cJSON_IsNumber(e) ? e->valuedouble : -1.0;
        int n = snprintf(text + used, sizeof text - used, "%s%.17g", e != array->child ? "," : "",
                         v);
        used += n > 0 ? (size_t)n : sizeof text;
    }
    if (used >= sizeof text || uw_opt_set(o, text, out) < 0) {
        char allowed[160];
        uw_opt_allowed(o, allowed, sizeof allowed);
        uw_json_fail(j, array, "\"%s\" %s", o->name, allowed);
    }
}

/* Whether there are rows for keys of an object of that name. */
static bool has_parts(struct uw_opts opts, const char *name)
{
    size_t n = strlen(name);
    for (uint32_t i = 0; i < opts.n; i++) {
        if (strncmp(opts.row[i].name, name, n) == 0 && opts.row[i].name[n] == '.') {
            return true;
        }
    }
    return false;
}

static void read_object(struct uw_json *j, const cJSON *object, const char *prefix,
                        struct uw_opts opts, void *out)
{
    for (const cJSON *m = object->child; m != NULL && j->err.code == UW_OK; m = m->next) {
        char name[64];
        int n = snprintf(name, sizeof name, "%s%s", prefix, m->string);
        size_t name_bytes = n < (int)sizeof name ? (size_t)n : sizeof name - 1u;
        const struct uw_opt *o = uw_opt_find(opts, name, name_bytes);
        bool parts = o == NULL || has_parts(opts, name);
        bool says = o == NULL || m->child != NULL;      /* {} in place of a text means no value */
        if (parts && says && prefix[0] == '\0' && cJSON_IsObject(m)) {
            snprintf(name, sizeof name, "%.60s.", m->string);
            read_object(j, m, name, opts, out);
        } else if (o == NULL) {
            struct uw_guess g = {.word = name, .word_bytes = name_bytes};
            uw_guess_opts(&g, &opts);
            uw_json_fail(j, m, "unknown key \"%s\"%s", name, uw_guess_hint(&g, "\"", ""));
        } else if (o->kind == UW_OPT_LIST && cJSON_IsArray(m)) {
            for (const cJSON *e = m->child; e != NULL && j->err.code == UW_OK; e = e->next) {
                uw_json_option(j, o, e, out);
            }
        } else if (o->kind == UW_OPT_BITS && cJSON_IsArray(m)) {
            set_bits(j, o, m, out);
        } else {
            uw_json_option(j, o, m, out);
        }
    }
    if (j->err.code == UW_OK) {
        check_duplicates(j, object);
    }
}

void uw_json_options(struct uw_json *j, const cJSON *object, struct uw_opts opts, void *out)
{
    if (!cJSON_IsObject(object)) {
        uw_json_fail(j, object, "needs an object {...}");
        return;
    }
    read_object(j, object, "", opts, out);
}
