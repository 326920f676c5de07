/* SPDX-License-Identifier: Apache-2.0 */
#include "table_options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEST_SHARE (1.0 / 6.0)

static int read_test(struct uw_table_options *o, const char *value, struct uw_error *err)
{
    char *end;
    double share = strtod(value, &end);
    if (*end != '\0' || end == value || access(value, F_OK) == 0) {
        o->test = value;
        return UW_OK;
    }
    o->test_share = share;
    return share >= 0.0 && share < 1.0
               ? UW_OK
               : uw_error_set(err, UW_ERR_INVALID,
                              "test=%.40s: needs a file, or a share of the lines from 0 to below 1",
                              value);
}

static int read_scale(struct uw_table_options *o, const char *value, struct uw_error *err)
{
    static const char *const words[] = {"none", "255", "standard"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(value, words[i]) == 0) {
            o->scale = (enum uw_table_scale)i;
            o->scale_said = true;
            return UW_OK;
        }
    }
    return uw_error_set(err, UW_ERR_INVALID, "scale=%.40s: needs none, 255 or standard", value);
}

static int read_target_scale(struct uw_table_options *o, const char *value, struct uw_error *err)
{
    char *end;
    if (strcmp(value, "none") == 0 || strcmp(value, "standard") == 0) {
        o->target_scale = value[0] == 'n' ? UW_TARGET_SCALE_NONE : UW_TARGET_SCALE_STANDARD;
        return UW_OK;
    }
    o->target_scale = UW_TARGET_SCALE_DIVIDE;
    o->divisor = strtof(value, &end);
    return *end == '\0' && end != value && o->divisor > 0.0f && isfinite(1.0f / o->divisor) &&
                   isfinite(o->divisor)
               ? UW_OK
               : uw_error_set(err, UW_ERR_INVALID, "target-scale=%.40s: needs none, standard or a "
                              "number above 0, which values are divided by", value);
}

static int read_missing(struct uw_table_options *o, const char *value, struct uw_error *err)
{
    static const char *const words[] = {"auto", "refuse", "mean", "drop"};
    for (int i = UW_MISSING_REFUSE; i <= UW_MISSING_DROP; i++) {
        if (strcmp(value, words[i]) == 0) {
            o->missing = (enum uw_table_missing)i;
            return UW_OK;
        }
    }
    return uw_error_set(err, UW_ERR_INVALID, "missing=%.40s: needs refuse, mean or drop", value);
}

static int read_delimiter(struct uw_table_options *o, const char *value, struct uw_error *err)
{
    static const struct {
        const char *word;
        char c;
    } words[] = {{"comma", ','}, {"semicolon", ';'}, {"tab", '\t'}, {"\\t", '\t'}, {"blank", ' '},
                 {"", ','}};
    o->delimiter = strlen(value) == 1 ? value[0] : '\0';
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        o->delimiter = strcmp(value, words[i].word) == 0 ? words[i].c : o->delimiter;
    }
    return o->delimiter != '\0' && o->delimiter != '\n' && o->delimiter != '"'
               ? UW_OK
               : uw_error_set(err, UW_ERR_INVALID,
                              "delimiter=%.40s: needs one character, or comma, semicolon, tab or "
                              "blank", value);
}

static int read_skip(struct uw_table_options *o, const char *value, struct uw_error *err)
{
    char *end;
    long n = strtol(value, &end, 10);
    o->skip = n >= 0 && n <= 1000000 ? (int)n : -1;
    return *end == '\0' && end != value && o->skip >= 0
               ? UW_OK
               : uw_error_set(err, UW_ERR_INVALID, "skip=%.40s: needs a number of lines", value);
}

/* A name, a file or a list. */
static const char **text_of(struct uw_table_options *o, const char *key)
{
    const struct {
        const char *key;
        const char **value;
    } texts[] = {{"label", &o->label},   {"target", &o->target},   {"targets", &o->target},
                 {"drop", &o->drop},     {"classes", &o->classes}, {"labels", &o->labels},
                 {"test-labels", &o->test_labels}, {"x", &o->x}, {"y", &o->y},
                 {"test-x", &o->test_x}, {"test-y", &o->test_y}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (strcmp(key, texts[i].key) == 0) {
            return texts[i].value;
        }
    }
    return NULL;
}

/* Each name of a list is there once. */
static int check_each_once(const char *key, const char *all, struct uw_error *err)
{
    for (const char *list = all, *word, *other; list != NULL;) {
        size_t n = uw_list_next(&list, &word);
        for (const char *later = list; later != NULL;) {
            if (uw_list_next(&later, &other) == n && memcmp(word, other, n) == 0) {
                return uw_error_set(err, UW_ERR_INVALID, "%s=%.60s: names \"%.*s\" twice", key, all,
                                    (int)(n < 40 ? n : 40), word);
            }
        }
    }
    return UW_OK;
}

static int read_option(struct uw_table_options *o, const char *key, const char *value,
                       const char *options, struct uw_error *err)
{
    static const struct {
        const char *key;
        int (*read)(struct uw_table_options *o, const char *value, struct uw_error *err);
    } keys[] = {{"test", read_test},   {"scale", read_scale},         {"missing", read_missing},
                {"skip", read_skip},   {"delimiter", read_delimiter},
                {"target-scale", read_target_scale}};
    const char **text = text_of(o, key);
    if (text != NULL) {
        *text = value;
        return *value == '\0' ? uw_error_set(err, UW_ERR_INVALID, "%s=: has nothing behind it", key)
               : text == &o->classes ? check_each_once(key, value, err)
                                     : UW_OK;
    }
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (strcmp(key, keys[i].key) == 0) {
            return keys[i].read(o, value, err);
        }
    }
    return uw_error_set(err, UW_ERR_INVALID, "no option %.40s=; there are %s", key, options);
}

/* Whether the part is an option, and not a file with such a name. */
static bool is_option(const char *part)
{
    size_t n = strspn(part, "abcdefghijklmnopqrstuvwxyz-");
    return n > 0 && part[n] == '=' && access(part, F_OK) != 0;
}

static int read_part(struct uw_table_options *o, char *part, const struct uw_table_form *form,
                     struct uw_error *err)
{
    char *equals = strchr(part, '=');
    if (is_option(part)) {
        *equals = '\0';
        return read_option(o, part, equals + 1, form->options, err);
    }
    if (o->parts_n == form->files_max || *part == '\0') {
        return uw_error_set(err, UW_ERR_INVALID, "\"%.100s\": allowed are %.80s, and then "
                            "OPTION=VALUE,...", part, form->files);
    }
    o->part[o->parts_n++] = part;
    return UW_OK;
}

int uw_table_options_read(struct uw_table_options *o, const char *text,
                          const struct uw_table_form *form, struct uw_error *err)
{
    *o = (struct uw_table_options){.test_share = TEST_SHARE, .skip = -1};
    if (strlen(text) >= sizeof o->copy) {
        return uw_error_set(err, UW_ERR_INVALID, "csv:%.40s...: path longer than %d bytes", text,
                            (int)UW_FILE_PATH_BYTES - 1);
    }
    memcpy(o->copy, text, strlen(text) + 1);
    for (char *next = o->copy; next != NULL;) {
        char *part = next;
        next = strchr(part, ',');
        if (next != NULL) {
            *next++ = '\0';
        }
        if (strcmp(part, "delimiter=") == 0 && next != NULL && *next == ',') {
            next++;         /* delimiter=, */
        }
        int rc = read_part(o, part, form, err);
        if (rc < 0) {
            return rc;
        }
    }
    if (o->parts_n == 0) {
        return uw_error_set(err, UW_ERR_INVALID, "\"%.100s\": allowed are %.80s", text,
                            form->files);
    }
    o->file = o->part[0];
    return UW_OK;
}

size_t uw_list_next(const char **list, const char **word)
{
    const char *plus = strchr(*list, '+');
    size_t n = plus != NULL ? (size_t)(plus - *list) : strlen(*list);
    *word = *list;
    *list = plus != NULL ? plus + 1 : NULL;
    return n;
}

uint32_t uw_list_count(const char *list)
{
    uint32_t n = 0;
    for (const char *word; list != NULL; n++) {
        uw_list_next(&list, &word);
    }
    return n;
}
