/* SPDX-License-Identifier: Apache-2.0
 *
 * args.h - one table of options for flags, configuration keys and help
 *
 * A command describes its options once: name, kind, where the value goes, what is allowed, a line
 * of help. The same row reads `--batch 20`, `--set batch=20` and `"batch": 20` of a
 * configuration file, so the three always agree. A command with such a file takes its keys as
 * flags, too.
 *
 * Memory     texts point into argv (or the configuration) and must outlive the options
 * Blocking   never      Context  main thread
 */
#ifndef UWASA_CLI_ARGS_H
#define UWASA_CLI_ARGS_H

#include "uwasa/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exit statuses of the program. */
enum uw_exit { UW_EXIT_DONE = 0, UW_EXIT_FAILED = 1, UW_EXIT_USAGE = 2 };

enum uw_opt_kind {
    UW_OPT_FLAG,        /* bool; the flag takes no value */
    UW_OPT_TEXT,        /* const char * */
    UW_OPT_CHOICE,      /* struct uw_choice, one of the words in `values` ("sgd|momentum") */
    UW_OPT_U32,         /* uint32_t; "1e7" and "1.5e6" are whole numbers too */
    UW_OPT_U32_AUTO,    /* struct uw_or_auto: the same, or "auto" */
    UW_OPT_U64,         /* uint64_t, the same */
    UW_OPT_REAL,        /* double, finite */
    UW_OPT_BYTES,       /* uint64_t; suffixes K, M, G, also small: powers of 1024 */
    UW_OPT_BYTES_U32,   /* uint32_t, the same */
    UW_OPT_BITS,        /* uint32_t, bit n for each n of "0,2,5"; 31 at most */
    UW_OPT_LIST,        /* struct uw_opt_list; the flag may be repeated */
    UW_OPT_SET          /* struct uw_opt_sets, the same: KEY=VALUE */
};

#define UW_OPT_LIST_MAX 64

struct uw_choice {
    const char *word;       /* NULL: none was given. First, as in a text */
    int at;                 /* its place among the words, from 0: an enumerator of the command's */
};

struct uw_or_auto {
    bool automatic;
    uint32_t n;             /* where it is not */
};

struct uw_opt_list {
    uint32_t n;
    const char *item[UW_OPT_LIST_MAX];
};

/* Keys of a configuration that the command line gives. */
struct uw_opt_sets {
    uint32_t n;
    struct uw_opt_given {
        const char *key, *value;            /* the key ends with its NUL or at '=' */
        bool flag;                          /* --key value; else --set key=value */
    } item[UW_OPT_LIST_MAX];
};

struct uw_opt {
    const char *name;       /* "batch": flag --batch, key "batch"; "a.b": key "b" of object "a" */
    enum uw_opt_kind kind;
    size_t offset;          /* of the value in the command's options */
    double min, max;        /* of numbers; max 0: no upper limit */
    const char *values;     /* placeholder in help, "N"; for UW_OPT_CHOICE the words */
    const char *help;
};

/* A row whose value is a member of `options`: ..., min, max, values, help. */
#define UW_OPT_ROW(options, name, kind, member, ...) \
    {name, kind, offsetof(options, member), __VA_ARGS__}

struct uw_opts {
    const struct uw_opt *row;
    uint32_t n;
};

/* A line of help above a row. */
struct uw_args_heading {
    const char *before;         /* the row's name; NULL ends the list */
    const char *text;
};

struct uw_args_spec {
    const char *command;        /* "train" */
    const char *summary;        /* first line of help */
    const char *usage;          /* after "uwasa train " */
    const char *example;        /* whole command line */
    const char *epilogue;       /* more help, or NULL */
    struct uw_opts opts;
    const struct uw_opts *keys; /* that are flags as well; NULL: none */
    size_t keys_at;             /* of the struct uw_opt_sets that gets those, in the options */
    const struct uw_args_heading *headings;     /* or NULL; in the order of the rows */
    uint32_t positional_max;
};

/* What a row allows, "needs 1 or more"; written to text, cut to fit. */
void uw_opt_allowed(const struct uw_opt *o, char *text, size_t text_bytes);

/* Does a file's name end so, with something in front? */
bool uw_args_ends_in(const char *name, const char *tail);

/* Find a row by name; NULL when there is none. */
const struct uw_opt *uw_opt_find(struct uw_opts opts, const char *name, size_t name_bytes);

/* The best suggestion for a mistyped word so far. */
struct uw_guess {
    const char *word;           /* [word_bytes] as typed */
    size_t word_bytes;
    const char *nearest;        /* [nearest_bytes]; NULL: nothing is near enough */
    size_t nearest_bytes;
    size_t cost;                /* of the edits from word to nearest */
    char hint[128];             /* see uw_guess_hint */
};

/* Consider one more candidate: it is taken when it is near enough and nearer than the one before.
 * Letters left out, added, changed or swapped with their neighbour count; a swap a little less. */
void uw_guess_try(struct uw_guess *g, const char *wanted, size_t wanted_bytes);

/* The same of the names of rows; opts NULL: none. */
void uw_guess_opts(struct uw_guess *g, const struct uw_opts *opts);

/* What follows "no such flag": ", did you mean --batch?" where a word is near enough, else
 * `otherwise`; in g->hint, cut to fit.
 *   mark  "", "--", or a quotation mark, which then follows the word, too */
const char *uw_guess_hint(struct uw_guess *g, const char *mark, const char *otherwise);

/* The place of g->word among "a|b|c", from 0. Returns -1 when it is none of them; g then has the
 * nearest one. */
int uw_word_find(const char *words, struct uw_guess *g);

/* A rule that options may break. A list of rules ends with one whose sentence is NULL: UW_RULES. */
struct uw_rule {
    bool broken;
    const char *name;           /* of the option at fault */
    const char *sentence;       /* what it needs, to stand behind its name */
};
#define UW_RULES(...) (const struct uw_rule[]){__VA_ARGS__, {false, NULL, NULL}}

/* The first rule that is broken; one that is not: all are kept. */
struct uw_rule uw_rule_broken(const struct uw_rule *rules);

/* The same in a sentence that begins with the flag. Returns UW_OK or UW_ERR_INVALID, err filled. */
int uw_rules_check(const struct uw_rule *rules, struct uw_error *err);

/* Set the option's value in `out` from text; a flag takes "true" or "false".
 * Returns UW_OK or UW_ERR_INVALID (out unchanged; see uw_opt_allowed). */
int uw_opt_set(const struct uw_opt *o, const char *text, void *out);

/* The option's value in `options` as text, cut to fit: what uw_opt_set reads for numbers, words and
 * flags; "" for a text that is not given and for lists; the number itself for bits. */
void uw_opt_text(const struct uw_opt *o, const void *options, char *text, size_t text_bytes);

/* The key of a flag in files and events: "lr_schedule" of "lr-schedule"; cut to fit. */
void uw_opt_key(const char *name, char *key, size_t key_bytes);

/* Set one option by its key. Returns UW_OK or UW_ERR_INVALID with err filled. */
int uw_opt_assign(struct uw_opts opts, const struct uw_opt_given *given, void *out,
                  struct uw_error *err);

/* "--set batch=20" or "--batch 20", as it was given; cut to fit. Returns text. */
const char *uw_opt_given_text(const struct uw_opt_given *given, char *text, size_t text_bytes);

/* Is it of this key? */
bool uw_opt_gives(const struct uw_opt_given *given, const char *key);

/* Read a command's arguments, argv[0] being the command's name.
 *
 *   out           the command's options, defaults already in place
 *   positional    [spec->positional_max] filled from the front, rest untouched
 *
 * --help prints the help to standard output; a mistake prints one line to standard error.
 * Returns -1 to go on, or the status to exit with. */
int uw_args_parse(const struct uw_args_spec *spec, int argc, char **argv, void *out,
                  const char **positional);

/* Print one line "uwasa <command>: <sentence>" to standard error. Returns status. */
int uw_cli_error(const char *command, int status, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

/* The sentence of an error, or where none was set that of its code. */
const char *uw_error_sentence(const struct uw_error *err, int rc);

/* Print a text in lines of 80 columns. */
void uw_text_print(const char *text);

/* The same, but for commands to copy and longer words. An option table:
 * "  --batch N      samples in a minibatch"; keys: without the dashes. */
void uw_opts_print(struct uw_opts opts, bool keys);

/* Does the option take a number of bytes, with a suffix? */
static inline bool uw_opt_is_bytes(const struct uw_opt *o)
{
    return o->kind == UW_OPT_BYTES || o->kind == UW_OPT_BYTES_U32;
}

#endif
