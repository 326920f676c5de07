/* SPDX-License-Identifier: Apache-2.0
 *
 * args.h - one table of options for flags, configuration keys and help
 *
 * A command describes each option once: name, kind, where to store the value, allowed values, a
 * line of help. The same row reads `--batch 20`, `--set batch=20` and `"batch": 20` in a
 * configuration file, so the three always agree. A command with a configuration file also takes
 * its keys as flags.
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
enum uw_exit {
    UW_EXIT_DONE = 0,
    UW_EXIT_FAILED = 1,
    UW_EXIT_USAGE = 2,
    UW_EXIT_STILL = 3               /* of a node: its training stood still at its end */
};

enum uw_opt_kind {
    UW_OPT_FLAG,        /* bool; the flag takes no value */
    UW_OPT_TEXT,        /* const char * */
    UW_OPT_CHOICE,      /* struct uw_choice, one of the words in `values` ("sgd|momentum") */
    UW_OPT_CHOICES,     /* the same, or several with commas between them: `at` is of the first */
    UW_OPT_U32,         /* uint32_t; "1e7" and "1.5e6" count as whole numbers */
    UW_OPT_U32_PHASES,  /* struct uw_phases: the same, "auto", or phases: "100:0.9,10:0.99,1" */
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
    const char *word;       /* the text as given; NULL: it was not. Must come first, so that it
                               can be read as a text */
    int at;                 /* index of the word among `values`: an enumerator of the command's */
};

/* A number that may change in the course of a run: "100:0.9,10:0.99,1" is 100 until 0.9 of the run,
 * then 10 until 0.99, then 1. */
#define UW_PHASES_MAX 8

struct uw_phases {
    bool automatic;
    uint32_t n;             /* of the first phase; 0 if automatic */
    uint32_t later_n;
    struct uw_phase {
        double from;        /* share of the run */
        uint32_t n;
    } later[UW_PHASES_MAX - 1];
};

/* The number at this share of the run. */
uint32_t uw_phases_at(const struct uw_phases *p, double share);

/* The text as it was given. */
#define UW_PHASES_BYTES 256
void uw_phases_text(const struct uw_phases *p, char text[UW_PHASES_BYTES]);

struct uw_opt_list {
    uint32_t n;
    const char *item[UW_OPT_LIST_MAX];
};

/* Configuration keys given on the command line. */
struct uw_opt_sets {
    uint32_t n;
    struct uw_opt_given {
        const char *key, *value;            /* the key ends at NUL or '=' */
        bool flag;                          /* given as --key value, not as --set key=value */
    } item[UW_OPT_LIST_MAX];
};

struct uw_opt {
    const char *name;       /* "batch": flag --batch, key "batch"; "a.b": key "b" of object "a" */
    enum uw_opt_kind kind;
    size_t offset;          /* of the value in the command's struct of options */
    double min, max;        /* for numbers; max 0: no upper limit */
    const char *values;     /* placeholder in help, "N"; for UW_OPT_CHOICE and _CHOICES its words */
    const char *help;
};

/* A row whose value is `member` of struct `options`. Then follow min, max, values, help. */
#define UW_OPT_ROW(options, name, kind, member, ...) \
    {name, kind, offsetof(options, member), __VA_ARGS__}

struct uw_opts {
    const struct uw_opt *row;
    uint32_t n;
};

/* A heading in the help, above a row. */
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
    const struct uw_opts *keys; /* configuration keys, accepted as flags; NULL: none */
    size_t keys_at;             /* offset in the options of the struct uw_opt_sets for them */
    const struct uw_args_heading *headings;     /* in the order of the rows, or NULL */
    uint32_t positional_max;
};

/* Print the help of a command. */
void uw_args_help(const struct uw_args_spec *spec);

/* Write the values that a row allows to text, "needs a whole number, 1 or more";
 * truncated to fit. */
void uw_opt_allowed(const struct uw_opt *o, char *text, size_t text_bytes);

/* Whether a file name ends in tail and is longer than it. */
bool uw_args_ends_in(const char *name, const char *tail);

/* Find a row by name; NULL: not found. */
const struct uw_opt *uw_opt_find(struct uw_opts opts, const char *name, size_t name_bytes);

/* The best suggestion for a mistyped word so far. */
struct uw_guess {
    const char *word;           /* [word_bytes] as typed */
    size_t word_bytes;
    const char *nearest;        /* [nearest_bytes]; NULL: nothing is near enough */
    size_t nearest_bytes;
    size_t cost;                /* edit distance from word to nearest */
    char hint[128];             /* see uw_guess_hint */
};

/* Consider a candidate: it becomes `nearest` if it is near enough and nearer than the one before.
 * An edit omits, adds or changes a letter, or swaps two neighbours, which counts a little less. */
void uw_guess_try(struct uw_guess *g, const char *wanted, size_t wanted_bytes);

/* The same for the names of all rows; opts NULL: none. */
void uw_guess_opts(struct uw_guess *g, const struct uw_opts *opts);

/* The text to put after "no such flag": ", did you mean --batch?" if a word is near enough, else
 * `otherwise`. It is in g->hint, truncated to fit.
 *   mark  "", "--", or a quotation mark, which is also put after the word */
const char *uw_guess_hint(struct uw_guess *g, const char *mark, const char *otherwise);

/* Index of g->word among "a|b|c", from 0. Returns -1 if it is none of them; g then has the nearest
 * one. */
int uw_word_find(const char *words, struct uw_guess *g);

/* The same for word i of "word,word": UW_WORDS_END if the text has no more. */
#define UW_WORDS_END (-2)
int uw_words_find(const char *words, const char *text, uint32_t i);

/* A rule that options must keep. UW_RULES makes a list, ended by a sentence of NULL. */
struct uw_rule {
    bool broken;
    const char *name;           /* the option at fault */
    const char *sentence;       /* what it needs; printed after its name */
};
#define UW_RULES(...) (const struct uw_rule[]){__VA_ARGS__, {false, NULL, NULL}}

/* The first broken rule; if none is, a rule that is not broken. */
struct uw_rule uw_rule_broken(const struct uw_rule *rules);

/* The same as an error that begins with the flag. Returns UW_OK or UW_ERR_INVALID, err filled. */
int uw_rules_check(const struct uw_rule *rules, struct uw_error *err);

/* Set the option's value in `out` from text; a flag takes "true" or "false".
 * Returns UW_OK or UW_ERR_INVALID (out unchanged; see uw_opt_allowed). */
int uw_opt_set(const struct uw_opt *o, const char *text, void *out);

/* Write the option's value in `options` as text, truncated to fit: numbers, words and flags as
 * uw_opt_set reads them, bits as one number; "" for lists and for a text that is not given. */
void uw_opt_text(const struct uw_opt *o, const void *options, char *text, size_t text_bytes);

/* The key for a flag in files and events: "lr_schedule" for "lr-schedule"; truncated to fit. */
void uw_opt_key(const char *name, char *key, size_t key_bytes);

/* Set one option by its key. Returns UW_OK or UW_ERR_INVALID with err filled. */
int uw_opt_assign(struct uw_opts opts, const struct uw_opt_given *given, void *out,
                  struct uw_error *err);

/* "--set batch=20" or "--batch 20", as it was given; truncated to fit. Returns text. */
const char *uw_opt_given_text(const struct uw_opt_given *given, char *text, size_t text_bytes);

/* Whether `given` is for this key. */
bool uw_opt_gives(const struct uw_opt_given *given, const char *key);

/* Read a command's arguments, argv[0] being the command's name.
 *
 *   out           the command's options, already set to defaults
 *   positional    [spec->positional_max], filled from the front; the rest stays unchanged
 *
 * --help prints the help to standard output; a mistake prints one line to standard error.
 * Returns -1 to continue, or the exit status. */
int uw_args_parse(const struct uw_args_spec *spec, int argc, char **argv, void *out,
                  const char **positional);

/* Print one line "uwasa <command>: <sentence>" to standard error. Returns status. */
int uw_cli_error(const char *command, int status, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

/* The sentence of an error, or that of its code if none was set. */
const char *uw_error_sentence(const struct uw_error *err, int rc);

/* Print a text wrapped to 80 columns. */
void uw_text_print(const char *text);

/* Print an option table in 80 columns, except commands to copy and longer words:
 * "  --batch N      samples in a minibatch"; keys: without the dashes. */
void uw_opts_print(struct uw_opts opts, bool keys);

/* Whether the option takes a number of bytes, with a suffix. */
static inline bool uw_opt_is_bytes(const struct uw_opt *o)
{
    return o->kind == UW_OPT_BYTES || o->kind == UW_OPT_BYTES_U32;
}

#endif
