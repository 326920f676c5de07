/* SPDX-License-Identifier: Apache-2.0 */
#include "args.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD_MAX 48u

int uw_cli_error(const char *command, int status, const char *format, ...)
{
    char line[1024] = "";
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    for (char *c = line; *c != '\0'; c++) {
        if ((unsigned char)*c < ' ') {
            *c = ' ';
        }
    }
    fprintf(stderr, "uwasa%s%s: %s\n", command[0] != '\0' ? " " : "", command, line);
    return status;
}

const char *uw_error_sentence(const struct uw_error *err, int rc)
{
    return err->text[0] != '\0' ? err->text : uw_status_text(rc);
}

struct uw_rule uw_rule_broken(const struct uw_rule *rules)
{
    while (rules->sentence != NULL && !rules->broken) {
        rules++;
    }
    return *rules;
}

int uw_rules_check(const struct uw_rule *rules, struct uw_error *err)
{
    struct uw_rule r = uw_rule_broken(rules);
    return !r.broken ? UW_OK : uw_error_set(err, UW_ERR_INVALID, "--%s: %s", r.name, r.sentence);
}

/* Cost of an edit. A swap costs less than another edit, but two swaps cost more. */
#define EDIT_COST 3u
#define SWAP_COST 2u

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Edit distance with swaps of neighbours (optimal string alignment), three rows at a time. */
static size_t edit_cost(const char *word, size_t word_bytes, const char *wanted,
                        size_t wanted_bytes)
{
    size_t rows[3][WORD_MAX + 1u] = {{0}};
    for (size_t i = 0; i <= word_bytes; i++) {
        size_t *row = rows[i % 3u], *above = rows[(i + 2u) % 3u], *second = rows[(i + 1u) % 3u];
        for (size_t j = 0; j <= wanted_bytes; j++) {
            if (i == 0 || j == 0) {
                row[j] = EDIT_COST * (i + j);
                continue;
            }
            bool same = word[i - 1u] == wanted[j - 1u];
            row[j] = above[j - 1u] + (same ? 0u : EDIT_COST);
            row[j] = min_size(row[j], min_size(above[j], row[j - 1u]) + EDIT_COST);
            if (!same && i > 1 && j > 1 && word[i - 1u] == wanted[j - 2u] &&
                word[i - 2u] == wanted[j - 1u]) {
                row[j] = min_size(row[j], second[j - 2u] + SWAP_COST);
            }
        }
    }
    return rows[word_bytes % 3u][wanted_bytes];
}

void uw_guess_try(struct uw_guess *g, const char *wanted, size_t wanted_bytes)
{
    if (g->word_bytes > WORD_MAX || wanted_bytes > WORD_MAX) {
        return;
    }
    size_t cost = edit_cost(g->word, g->word_bytes, wanted, wanted_bytes);
    if (cost <= EDIT_COST * (1u + wanted_bytes / 4u) && cost < EDIT_COST * wanted_bytes &&
        (g->nearest == NULL || cost < g->cost)) {
        g->nearest = wanted;
        g->nearest_bytes = wanted_bytes;
        g->cost = cost;
    }
}

bool uw_args_ends_in(const char *name, const char *tail)
{
    size_t n = strlen(name), k = strlen(tail);
    return n > k && strcmp(name + n - k, tail) == 0;
}

/* Dash and underscore are equal: "weight-decay" as a flag, "weight_decay" as a key. */
static bool is_name(const char *name, const char *text, size_t text_bytes)
{
    size_t n = 0;
    while (n < text_bytes && name[n] != '\0' &&
           (name[n] == text[n] || (strchr("-_", name[n]) && strchr("-_", text[n])))) {
        n++;
    }
    return n == text_bytes && name[n] == '\0';
}

const struct uw_opt *uw_opt_find(struct uw_opts opts, const char *name, size_t name_bytes)
{
    for (uint32_t i = 0; i < opts.n; i++) {
        if (is_name(opts.row[i].name, name, name_bytes)) {
            return &opts.row[i];
        }
    }
    return NULL;
}

void uw_guess_opts(struct uw_guess *g, const struct uw_opts *opts)
{
    for (uint32_t i = 0; opts != NULL && i < opts->n; i++) {
        uw_guess_try(g, opts->row[i].name, strlen(opts->row[i].name));
    }
}

const char *uw_guess_hint(struct uw_guess *g, const char *mark, const char *otherwise)
{
    if (g->nearest == NULL) {
        snprintf(g->hint, sizeof g->hint, "%s", otherwise);
    } else {
        snprintf(g->hint, sizeof g->hint, ", did you mean %s%.*s%s?", mark, (int)g->nearest_bytes,
                 g->nearest, mark[0] == '"' ? mark : "");
    }
    return g->hint;
}

void uw_opt_allowed(const struct uw_opt *o, char *text, size_t text_bytes)
{
    const char *whole = o->kind == UW_OPT_REAL ? "a number" : "a whole number";
    switch (o->kind) {
    case UW_OPT_FLAG:
        snprintf(text, text_bytes, "needs true or false");
        return;
    case UW_OPT_CHOICE:
    case UW_OPT_CHOICES: {
        const char *some = o->kind == UW_OPT_CHOICES ? ", or several, WORD,WORD" : "";
        int n = snprintf(text, text_bytes, "needs one of %s%s", o->values, some);
        for (int i = 0; i < n && (size_t)i < text_bytes; i++) {
            text[i] = text[i] == '|' ? ' ' : text[i];
        }
        return;
    }
    case UW_OPT_TEXT:
        snprintf(text, text_bytes, "needs a text that is not empty");
        return;
    case UW_OPT_BITS:
        snprintf(text, text_bytes, "needs whole numbers from 0 to 31, [0, 2] or \"0,2\"");
        return;
    case UW_OPT_LIST:
        snprintf(text, text_bytes, "needs 1 to %d texts that are not empty", UW_OPT_LIST_MAX);
        return;
    case UW_OPT_SET:
        snprintf(text, text_bytes, "needs KEY=VALUE, %d times at most", UW_OPT_LIST_MAX);
        return;
    case UW_OPT_BYTES:
    case UW_OPT_BYTES_U32:
        whole = "a whole number of bytes (K, M, G for powers of 1024)";
        break;
    case UW_OPT_U32_PHASES:
        snprintf(text, text_bytes, "needs a whole number from %.10g to %.10g, auto, or up to %d "
                 "phases such as 100:0.9,10", o->min, o->max, UW_PHASES_MAX);
        return;
    case UW_OPT_U32:
    case UW_OPT_U64:
    case UW_OPT_REAL:
        break;
    }
    if (o->max > 0.0) {
        snprintf(text, text_bytes, "needs %s from %.10g to %.10g", whole, o->min, o->max);
    } else if (o->min == 1.0 && !uw_opt_is_bytes(o)) {
        snprintf(text, text_bytes, "needs %s, 1 or more", whole);
    } else if (o->kind == UW_OPT_U32) {
        snprintf(text, text_bytes, "needs %s from %.10g to %lu", whole, o->min,
                 (unsigned long)UINT32_MAX);
    } else {
        snprintf(text, text_bytes, "needs %s, %.10g or more%s", whole, o->min,
                 o->kind == UW_OPT_U64 ? ", such as 10000000 or 1e7" : "");
    }
}

static bool parse_real(const char *text, double *value)
{
    char *end;
    if (text[0] == '\0' || strspn(text, "0123456789+-.eE") != strlen(text)) {
        return false;
    }
    *value = strtod(text, &end);
    return *end == '\0' && isfinite(*value);
}

/* Parse "1e7", as in files; up to the largest range in which doubles hold every whole number. */
static bool parse_power(const char *text, uint64_t *value)
{
    double real;
    if (!parse_real(text, &real) || !(real >= 0.0 && real <= 9007199254740992.0) ||
        real != floor(real)) {
        return false;
    }
    *value = (uint64_t)real;
    return true;
}

static bool parse_u64(const char *text, bool suffix, uint64_t *value)
{
    char *end;
    if (text[0] < '0' || text[0] > '9') {
        return false;
    }
    errno = 0;
    *value = strtoull(text, &end, 10);
    if (errno != 0) {
        return false;
    }
    if (*end == 'e' || *end == 'E' || *end == '.') {
        return parse_power(text, value);
    }
    unsigned shift = 0;
    if (suffix && *end != '\0') {
        shift = *end == 'K' || *end == 'k'   ? 10u
                : *end == 'M' || *end == 'm' ? 20u
                : *end == 'G' || *end == 'g' ? 30u
                                             : 0u;
        end += shift != 0 ? 1 : 0;
    }
    if (*end != '\0' || *value > UINT64_MAX >> shift) {
        return false;
    }
    *value <<= shift;
    return true;
}

int uw_word_find(const char *words, struct uw_guess *g)
{
    int at = 0;
    for (const char *p = words; *p != '\0'; at++) {
        size_t n = strcspn(p, "|");
        if (n == g->word_bytes && memcmp(p, g->word, n) == 0) {
            return at;
        }
        uw_guess_try(g, p, n);
        p += n + (p[n] == '|' ? 1u : 0u);
    }
    return -1;
}

static bool in_range(const struct uw_opt *o, double value)
{
    return value >= o->min && (o->max <= 0.0 || value <= o->max);
}

static int set_whole(const struct uw_opt *o, const char *text, void *at)
{
    uint64_t u = 0;
    if (!parse_u64(text, uw_opt_is_bytes(o), &u) || !in_range(o, (double)u)) {
        return UW_ERR_INVALID;
    }
    if (o->kind == UW_OPT_U64 || o->kind == UW_OPT_BYTES) {
        *(uint64_t *)at = u;
    } else if (u > UINT32_MAX) {
        return UW_ERR_INVALID;
    } else {
        *(uint32_t *)at = (uint32_t)u;
    }
    return UW_OK;
}

uint32_t uw_phases_at(const struct uw_phases *p, double share)
{
    uint32_t n = p->n;
    for (uint32_t i = 0; i < p->later_n && share >= p->later[i].from; i++) {
        n = p->later[i].n;
    }
    return n;
}

/* "10", "auto", or "100:0.9,10". */
static int set_phases(const struct uw_opt *o, const char *text, struct uw_phases *p)
{
    char part[64];
    double from = 0.0;
    *p = (struct uw_phases){.automatic = strcmp(text, "auto") == 0};
    for (uint32_t i = 0; !p->automatic && text != NULL; i++) {
        size_t bytes = strcspn(text, ",");
        uint64_t n;
        if (i == UW_PHASES_MAX || bytes >= sizeof part) {
            return UW_ERR_INVALID;
        }
        memcpy(part, text, bytes);
        part[bytes] = '\0';
        char *until = strchr(part, ':');
        bool last = text[bytes] == '\0';
        if (until != NULL) {
            *until++ = '\0';
        }
        if (last == (until != NULL) || !parse_u64(part, false, &n) || !in_range(o, (double)n)) {
            return UW_ERR_INVALID;
        }
        if (i == 0) {
            p->n = (uint32_t)n;
        } else {
            p->later[p->later_n++] = (struct uw_phase){from, (uint32_t)n};
        }
        double before = from;
        if (!last && (!parse_real(until, &from) || from <= before || from >= 1.0)) {
            return UW_ERR_INVALID;
        }
        text = last ? NULL : text + bytes + 1;
    }
    return UW_OK;
}

void uw_phases_text(const struct uw_phases *p, char text[UW_PHASES_BYTES])
{
    int at = snprintf(text, UW_PHASES_BYTES, p->automatic ? "auto" : "%u", (unsigned)p->n);
    for (uint32_t i = 0; i < p->later_n; i++) {     /* 32 bytes each at most */
        at += snprintf(text + at, UW_PHASES_BYTES - (size_t)at, ":%.12g,%u", p->later[i].from,
                       (unsigned)p->later[i].n);
    }
}

/* "0,2,5", or "[0, 2, 5]" as in JSON, into bits. */
static int set_bits(uint32_t *bits, const char *text)
{
    uint32_t all = 0;
    bool more = true;
    bool list = text[0] == '[';
    for (text += list; more;) {
        text += strspn(text, " ");
        char *end;
        unsigned long n = text[0] >= '0' && text[0] <= '9' ? strtoul(text, &end, 10) : 32;
        if (n > 31) {
            return UW_ERR_INVALID;
        }
        all |= 1u << n;
        text = end + strspn(end, " ");
        more = *text == ',';
        text += more;
    }
    if (strcmp(text, list ? "]" : "") != 0) {
        return UW_ERR_INVALID;
    }
    *bits = all;
    return UW_OK;
}

static int set_list(struct uw_opt_list *list, const char *text)
{
    if (text[0] == '\0' || list->n == UW_OPT_LIST_MAX) {
        return UW_ERR_INVALID;
    }
    list->item[list->n++] = text;
    return UW_OK;
}

int uw_words_find(const char *words, const char *text, uint32_t i)
{
    for (; i > 0; i--) {
        text = strchr(text, ',');
        if (text == NULL) {
            return UW_WORDS_END;
        }
        text++;
    }
    return uw_word_find(words, &(struct uw_guess){.word = text, .word_bytes = strcspn(text, ",")});
}

static int set_choice(const struct uw_opt *o, struct uw_choice *choice, const char *text)
{
    uint32_t n = 1;
    while (o->kind == UW_OPT_CHOICES && uw_words_find(o->values, text, n) >= 0) {
        n++;
    }
    bool all = uw_words_find(o->values, text, n) == UW_WORDS_END;
    *choice = (struct uw_choice){text, uw_words_find(o->values, text, 0)};
    return choice->at >= 0 && all ? UW_OK : UW_ERR_INVALID;
}

static int set_key(struct uw_opt_sets *sets, const struct uw_opt_given *given)
{
    if (given->value == NULL || sets->n == UW_OPT_LIST_MAX) {
        return UW_ERR_INVALID;
    }
    sets->item[sets->n++] = *given;
    return UW_OK;
}

int uw_opt_set(const struct uw_opt *o, const char *text, void *out)
{
    void *at = (uint8_t *)out + o->offset;
    switch (o->kind) {
    case UW_OPT_FLAG:
        if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0) {
            return UW_ERR_INVALID;
        }
        *(bool *)at = text[0] == 't';
        return UW_OK;
    case UW_OPT_TEXT:
        if (text[0] == '\0') {
            return UW_ERR_INVALID;
        }
        *(const char **)at = text;
        return UW_OK;
    case UW_OPT_CHOICE:
    case UW_OPT_CHOICES:
        return set_choice(o, at, text);
    case UW_OPT_BITS:
        return set_bits(at, text);
    case UW_OPT_LIST:
        return set_list(at, text);
    case UW_OPT_SET: {
        const char *equals = strchr(text, '=');
        return set_key(at, &(struct uw_opt_given){text, equals != NULL ? equals + 1 : NULL, false});
    }
    case UW_OPT_REAL: {
        double real;
        if (!parse_real(text, &real) || !in_range(o, real)) {
            return UW_ERR_INVALID;
        }
        *(double *)at = real;
        return UW_OK;
    }
    case UW_OPT_U32_PHASES:
        return set_phases(o, text, at);
    case UW_OPT_U32:
    case UW_OPT_U64:
    case UW_OPT_BYTES:
    case UW_OPT_BYTES_U32:
        return set_whole(o, text, at);
    }
    return UW_ERR_INVALID;
}

void uw_opt_text(const struct uw_opt *o, const void *options, char *text, size_t text_bytes)
{
    const void *at = (const uint8_t *)options + o->offset;
    text[0] = '\0';
    switch (o->kind) {
    case UW_OPT_FLAG:
        snprintf(text, text_bytes, "%s", *(const bool *)at ? "true" : "false");
        break;
    case UW_OPT_TEXT:
    case UW_OPT_CHOICE:
    case UW_OPT_CHOICES: {
        const char *word = *(const char *const *)at;
        snprintf(text, text_bytes, "%s", word != NULL ? word : "");
        break;
    }
    case UW_OPT_REAL: {
        double real = *(const double *)at;
        snprintf(text, text_bytes, "%.15g", real);
        if (strtod(text, NULL) != real) {
            snprintf(text, text_bytes, "%.17g", real);
        }
        break;
    }
    case UW_OPT_U32_PHASES: {
        char phases[UW_PHASES_BYTES];
        uw_phases_text(at, phases);
        snprintf(text, text_bytes, "%s", phases);
        break;
    }
    case UW_OPT_U32:
    case UW_OPT_BYTES_U32:
    case UW_OPT_BITS:
        snprintf(text, text_bytes, "%u", (unsigned)*(const uint32_t *)at);
        break;
    case UW_OPT_U64:
    case UW_OPT_BYTES:
        snprintf(text, text_bytes, "%llu", (unsigned long long)*(const uint64_t *)at);
        break;
    case UW_OPT_LIST:
    case UW_OPT_SET:
        break;
    }
}

void uw_opt_key(const char *name, char *key, size_t key_bytes)
{
    snprintf(key, key_bytes, "%s", name);
    for (char *c = strchr(key, '-'); c != NULL; c = strchr(c, '-')) {
        *c = '_';
    }
}

const char *uw_opt_given_text(const struct uw_opt_given *given, char *text, size_t text_bytes)
{
    snprintf(text, text_bytes, "--%s%.*s%s%s", given->flag ? "" : "set ",
             (int)strcspn(given->key, "="), given->key, given->flag ? " " : "=", given->value);
    return text;
}

bool uw_opt_gives(const struct uw_opt_given *given, const char *key)
{
    return is_name(key, given->key, strcspn(given->key, "="));
}

int uw_opt_assign(struct uw_opts opts, const struct uw_opt_given *given, void *out,
                  struct uw_error *err)
{
    size_t name_bytes = strcspn(given->key, "=");
    const struct uw_opt *o = uw_opt_find(opts, given->key, name_bytes);
    char text[128];
    uw_opt_given_text(given, text, sizeof text);
    if (o == NULL) {
        struct uw_guess g = {.word = given->key, .word_bytes = name_bytes};
        uw_guess_opts(&g, &opts);
        return uw_error_set(err, UW_ERR_INVALID, "%s: no such key%s", text,
                            uw_guess_hint(&g, "", ""));
    }
    if (uw_opt_set(o, given->value, out) < 0) {
        char allowed[160];
        uw_opt_allowed(o, allowed, sizeof allowed);
        return uw_error_set(err, UW_ERR_INVALID, "%s: %s", text, allowed);
    }
    return UW_OK;
}

static int unknown_flag(const struct uw_args_spec *spec, const char *arg, size_t name_bytes)
{
    struct uw_guess g = {.word = arg + 2, .word_bytes = name_bytes};
    char help[64];
    snprintf(help, sizeof help, ", see uwasa %s --help", spec->command);
    uw_guess_opts(&g, &spec->opts);
    uw_guess_opts(&g, spec->keys);
    return uw_cli_error(spec->command, UW_EXIT_USAGE, "%s: no such flag%s", arg,
                        uw_guess_hint(&g, "--", help));
}

/* Read the flag at argv[*i] and its value. Returns -1 or an exit status. */
static int parse_flag(const struct uw_args_spec *spec, int argc, char **argv, int *i, void *out)
{
    const char *arg = argv[*i];
    const char *equals = strchr(arg, '=');
    size_t name_bytes = equals != NULL ? (size_t)(equals - arg) - 2u : strlen(arg) - 2u;
    const struct uw_opt *o = uw_opt_find(spec->opts, arg + 2, name_bytes);
    bool key = o == NULL && spec->keys != NULL;
    o = key ? uw_opt_find(*spec->keys, arg + 2, name_bytes) : o;
    if (o == NULL) {
        return unknown_flag(spec, arg, name_bytes);
    }
    const char *value = equals != NULL ? equals + 1 : NULL;
    if (o->kind == UW_OPT_FLAG) {
        if (value != NULL && !key) {
            return uw_cli_error(spec->command, UW_EXIT_USAGE, "--%s %s: takes no value", o->name,
                                value);
        }
        const char *next = *i + 1 < argc ? argv[*i + 1] : "";
        bool given = key && (strcmp(next, "true") == 0 || strcmp(next, "false") == 0);
        value = value != NULL ? value : given ? argv[++*i] : "true";
    } else if (value == NULL) {
        if (*i + 1 >= argc) {
            return uw_cli_error(spec->command, UW_EXIT_USAGE, "--%s: needs a value, %s", o->name,
                                o->values);
        }
        value = argv[++*i];
    }
    const struct uw_opt_given given = {o->name, value, true};
    if (key) {
        return set_key((void *)((uint8_t *)out + spec->keys_at), &given) == UW_OK ? -1
                   : uw_cli_error(spec->command, UW_EXIT_USAGE, "--%s: is one key too many, "
                                  "%d are allowed", o->name, UW_OPT_LIST_MAX);
    }
    if (uw_opt_set(o, value, out) < 0) {
        char allowed[160];
        uw_opt_allowed(o, allowed, sizeof allowed);
        return uw_cli_error(spec->command, UW_EXIT_USAGE, "--%s %s: %s", o->name, value, allowed);
    }
    return -1;
}

static int unexpected(const struct uw_args_spec *spec, const char *arg)
{
    if (uw_args_ends_in(arg, ".json") && uw_opt_find(spec->opts, "config", 6) != NULL) {
        return uw_cli_error(spec->command, UW_EXIT_USAGE,
                            "%s: not expected here, did you mean --config %s?", arg, arg);
    }
    return uw_cli_error(spec->command, UW_EXIT_USAGE,
                        spec->positional_max != 0 ? "%s: is one too many, see uwasa %s --help"
                                                  : "%s: not expected here, see uwasa %s --help",
                        arg, spec->command);
}

int uw_args_parse(const struct uw_args_spec *spec, int argc, char **argv, void *out,
                  const char **positional)
{
    uint32_t positional_n = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            uw_args_help(spec);
            return UW_EXIT_DONE;
        }
    }
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) == 0 && argv[i][2] != '\0') {
            int status = parse_flag(spec, argc, argv, &i, out);
            if (status >= 0) {
                return status;
            }
        } else if (argv[i][0] == '-' && argv[i][1] != '\0') {
            return uw_cli_error(spec->command, UW_EXIT_USAGE, "%s: flags start with two dashes",
                                argv[i]);
        } else if (positional_n == spec->positional_max) {
            return unexpected(spec, argv[i]);
        } else {
            positional[positional_n++] = argv[i];
        }
    }
    return -1;
}
