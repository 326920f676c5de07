/* SPDX-License-Identifier: Apache-2.0 */
#include "settings.h"

#include "samples.h"

#include "uwasa/mix.h"
#include "uwasa/radio.h"
#include "uwasa/secure.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define REAL_MOST 1000.0f

enum kind { TEXT, CHOICE, NUMBER, REAL };

struct setting {
    const char *name;
    enum kind kind;
    size_t offset, bytes;
    uint32_t least, most;               /* of a number */
    const char *words;                  /* of a choice: "one|other" */
};

#define A_TEXT(member)                                                                           \
    {#member, TEXT, offsetof(struct uw_settings, member),                                        \
     sizeof ((struct uw_settings *)0)->member, 0, 0, NULL}
#define A_CHOICE(member, words)                                                                  \
    {#member, CHOICE, offsetof(struct uw_settings, member), 0, 0, 0, words}
#define A_NUMBER(member, least, most)                                                            \
    {#member, NUMBER, offsetof(struct uw_settings, member), 0, least, most, NULL}
#define A_REAL(member)                                                                           \
    {#member, REAL, offsetof(struct uw_settings, member), 0, 0, 0, NULL}

static const struct setting table[] = {
    A_TEXT(name), A_TEXT(run), A_TEXT(key), A_TEXT(address), A_TEXT(gateway), A_TEXT(loopback),
    A_TEXT(advertise), A_TEXT(seeds), A_TEXT(classes), A_CHOICE(data, "digits|uart"),
    A_CHOICE(model, "mlp|lenet5"), A_CHOICE(link, "ethernet|serial|bus"),
    A_CHOICE(rule, "none|qg"), A_CHOICE(schedule, "constant|cosine"),
    A_CHOICE(events, "text|json"), A_TEXT(flash),
    A_NUMBER(batch, 1, 64), A_NUMBER(period, 1, 100000),
    A_NUMBER(steps, 0, 1000000000), A_NUMBER(seconds, 0, 100000000),
    A_NUMBER(elapsed, 0, 100000000), A_NUMBER(seed, 0, UINT32_MAX),
    A_NUMBER(consensus_rounds, 0, 1000), A_NUMBER(eval_seconds, 0, 100000),
    A_NUMBER(eval_samples, 1, 10000), A_NUMBER(checkpoint_seconds, 0, 1000000),
    A_NUMBER(window, 0, 1048576), A_NUMBER(samples, 0, UW_SAMPLES_MAX),
    A_NUMBER(ram, 0, UINT32_MAX), A_NUMBER(station, 0, UW_RADIO_ADDRESS_MAX),
    A_NUMBER(exit, 0, 1), A_REAL(lr)};
#define SETTINGS_N (sizeof table / sizeof table[0])

void uw_settings_init(struct uw_settings *s)
{
    *s = (struct uw_settings){.name = "board", .run = "run", .address = "10.0.2.15/24:4433",
                              .rule = UW_SET_RULE_QG, .batch = 8,
                              .period = 10, .seed = 1, .consensus_rounds = 8, .eval_seconds = 10,
                              .eval_samples = 200, .checkpoint_seconds = 60, .lr = 0.05f};
}

static bool parse_number(const char *text, size_t n, uint32_t *out)
{
    uint64_t value = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9' || value > UINT32_MAX) {
            return false;
        }
        value = value * 10u + (uint64_t)(text[i] - '0');
    }
    *out = (uint32_t)value;
    return n > 0 && value <= UINT32_MAX;
}

/* Parse plain decimals as write_one writes them: "0.05". */
static bool parse_real(const char *text, size_t n, float *out)
{
    const char *point = memchr(text, '.', n);
    size_t whole = point != NULL ? (size_t)(point - text) : n;
    uint32_t before = 0, after = 0;
    size_t decimals = point != NULL ? n - whole - 1u : 0;
    if (!parse_number(text, whole, &before) || decimals > 6u ||
        (point != NULL && !parse_number(point + 1, decimals, &after))) {
        return false;
    }
    double share = 1.0;
    for (size_t i = 0; i < decimals; i++) {
        share *= 10.0;
    }
    *out = (float)((double)before + (double)after / share);
    return *out <= REAL_MOST;
}

uint32_t uw_settings_classes(const char *text)
{
    uint32_t mask = 0;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9' || (text[1] != ',' && text[1] != '\0')) {
            return UINT32_MAX;
        }
        mask |= 1u << (*text - '0');
        text += text[1] == ',' ? 1 : 0;
    }
    return mask;
}

uint32_t uw_settings_seeds(char *text, const char *seed[UW_SETTINGS_SEEDS_MAX])
{
    uint32_t n = 0;
    while (*text != '\0' && n < UW_SETTINGS_SEEDS_MAX) {
        seed[n++] = text;
        text += strcspn(text, ",");
        if (*text == ',') {
            *text++ = '\0';
        }
    }
    return n;
}

/* Addresses with one comma between each. */
static bool are_seeds(const char *text, size_t n)
{
    uint32_t commas = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == ',' && (i == 0 || i + 1u == n || text[i - 1u] == ',' ||
                               ++commas == UW_SETTINGS_SEEDS_MAX)) {
            return false;
        }
    }
    return true;
}

/* Check a text that was set. */
static int check_text(const struct uw_settings *s, const char *name, struct uw_error *err)
{
    uint8_t key[UW_KEY_BYTES];
    if (strcmp(name, "key") == 0 && s->key[0] != '\0') {
        int rc = uw_key_parse(s->key, key);
        uw_key_wipe(key, sizeof key);
        return rc < 0 ? uw_error_set(err, rc, "key: needs 64 hex digits, as uwasa keygen writes")
                      : UW_OK;
    }
    if (strcmp(name, "classes") == 0 && uw_settings_classes(s->classes) == UINT32_MAX) {
        return uw_error_set(err, UW_ERR_INVALID, "classes=%s: digits with commas, 0,4,8",
                            s->classes);
    }
    return UW_OK;
}

/* Set a text; an invalid one leaves the setting unchanged. */
static int set_text(struct uw_settings *s, const struct setting *t, const char *value, size_t n,
                    struct uw_error *err)
{
    char *at = (char *)s + t->offset;
    char before[sizeof s->key];         /* the longest that check_text looks at */
    size_t kept = t->bytes < sizeof before ? t->bytes : sizeof before;
    if (strcmp(t->name, "seeds") == 0 && !are_seeds(value, n)) {
        return uw_error_set(err, UW_ERR_INVALID, "seeds: at most %u addresses with commas",
                            UW_SETTINGS_SEEDS_MAX);
    }
    memcpy(before, at, kept);
    memcpy(at, value, n);
    at[n] = '\0';
    int rc = check_text(s, t->name, err);
    if (rc < 0) {
        memcpy(at, before, kept);
    }
    uw_key_wipe(before, sizeof before);
    return rc;
}

/* The word at a place, and its length. */
static const char *word_at(const char *words, uint32_t place, size_t *n)
{
    for (; place != 0 && *words != '\0'; place--) {
        words += strcspn(words, "|");
        words += *words == '|' ? 1 : 0;
    }
    *n = strcspn(words, "|");
    return words;
}

/* The place of a word; UINT32_MAX: there is no such word. */
static uint32_t find_word(const char *words, const char *value, size_t value_n)
{
    size_t n;
    for (uint32_t i = 0;; i++) {
        const char *word = word_at(words, i, &n);
        if (n == 0 || (n == value_n && memcmp(word, value, n) == 0)) {
            return n != 0 ? i : UINT32_MAX;
        }
    }
}

static int set(struct uw_settings *s, const struct setting *t, const char *value, size_t n,
               struct uw_error *err)
{
    char *at = (char *)s + t->offset;
    uint32_t number = 0;
    float real = 0.0f;
    switch (t->kind) {
    case TEXT:
        if (n >= t->bytes) {
            return uw_error_set(err, UW_ERR_INVALID, "%s: at most %u characters", t->name,
                                (unsigned)(t->bytes - 1u));
        }
        return set_text(s, t, value, n, err);
    case CHOICE:
        number = find_word(t->words, value, n);
        if (number == UINT32_MAX) {
            return uw_error_set(err, UW_ERR_INVALID, "%s=%.*s: needs %s", t->name, (int)n, value,
                                t->words);
        }
        memcpy(at, &number, sizeof number);
        return UW_OK;
    case NUMBER:
        if (!parse_number(value, n, &number) || number < t->least || number > t->most) {
            return uw_error_set(err, UW_ERR_INVALID, "%s=%.*s: needs %u to %u", t->name, (int)n,
                                value, (unsigned)t->least, (unsigned)t->most);
        }
        memcpy(at, &number, sizeof number);
        return UW_OK;
    default:
        if (!parse_real(value, n, &real)) {
            return uw_error_set(err, UW_ERR_INVALID, "%s=%.*s: needs a number like 0.05, to 1000, "
                                                     "6 decimals", t->name, (int)n, value);
        }
        memcpy(at, &real, sizeof real);
        return UW_OK;
    }
}

int uw_settings_read(struct uw_settings *s, const char *words, struct uw_error *err)
{
    for (;;) {
        words += strspn(words, " \t\r\n");
        size_t n = strcspn(words, " \t\r\n");
        if (n == 0) {
            return UW_OK;
        }
        const char *equals = memchr(words, '=', n);
        const struct setting *found = NULL;
        for (size_t i = 0; i < SETTINGS_N && equals != NULL; i++) {
            size_t length = (size_t)(equals - words);
            if (strlen(table[i].name) == length && memcmp(table[i].name, words, length) == 0) {
                found = &table[i];
            }
        }
        if (found == NULL) {
            return uw_error_set(err, UW_ERR_INVALID, "%.*s: no such setting",
                                (int)(equals != NULL ? (size_t)(equals - words) : n), words);
        }
        int rc = set(s, found, equals + 1, n - (size_t)(equals + 1 - words), err);
        if (rc < 0) {
            return rc;
        }
        words += n;
    }
}

int uw_settings_check(const struct uw_settings *s, struct uw_error *err)
{
    return s->elapsed != 0 && s->seconds == 0
               ? uw_error_set(err, UW_ERR_INVALID, "elapsed: needs seconds")
               : UW_OK;
}

static int write_one(const struct uw_settings *s, const struct setting *t, bool secret,
                     char *text, size_t bytes)
{
    const char *at = (const char *)s + t->offset;
    uint32_t number;
    float real;
    size_t n;
    switch (t->kind) {
    case TEXT:
        if (strcmp(t->name, "key") == 0 && !secret) {
            at = *at != '\0' ? "(set)" : "(none)";
        }
        return snprintf(text, bytes, "%s=%s", t->name, at);
    case CHOICE: {
        memcpy(&number, at, sizeof number);
        const char *word = word_at(t->words, number, &n);
        return snprintf(text, bytes, "%s=%.*s", t->name, (int)n, word);
    }
    case NUMBER:
        memcpy(&number, at, sizeof number);
        return snprintf(text, bytes, "%s=%u", t->name, (unsigned)number);
    default:
        memcpy(&real, at, sizeof real);
        return snprintf(text, bytes, "%s=%.6f", t->name, (double)real);
    }
}

int uw_settings_format(const struct uw_settings *s, uint32_t index, char *text, size_t bytes)
{
    return index < SETTINGS_N ? write_one(s, &table[index], false, text, bytes)
                              : UW_ERR_NOTFOUND;
}

int uw_settings_write(const struct uw_settings *s, char *text, size_t bytes)
{
    size_t used = 0;
    for (size_t i = 0; i < SETTINGS_N; i++) {
        int n = write_one(s, &table[i], true, text + used, bytes - used);
        if (n < 0 || (size_t)n + 2u > bytes - used) {
            return UW_ERR_TOOBIG;
        }
        used += (size_t)n;
        text[used++] = ' ';
        text[used] = '\0';
    }
    return (int)used;
}
