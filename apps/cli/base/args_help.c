/* SPDX-License-Identifier: Apache-2.0
 *
 * The help of a command, from its table of options. */
#include "args.h"

#include <stdio.h>
#include <string.h>

#define COLUMNS 80u
#define HELP_COLUMN 31u

/* The next word, after spaces and line ends; a text in brackets, and "98 %", count as one word. */
static size_t next_word(const char **at)
{
    const char *p = *at + strspn(*at, " \n");
    size_t n = 0;
    uint32_t depth = 0;
    *at = p;
    for (; p[n] != '\0' && (depth > 0 || strchr(" \n", p[n]) == NULL || p[n + 1u] == '%'); n++) {
        if (p[n] == '[') {
            depth++;
        } else if (p[n] == ']' && depth > 0) {
            depth--;
        }
    }
    return n;
}

/* Words up to `end` in lines of 80 columns, from column `at` on, further lines indented. */
static void print_words(const char *text, const char *end, size_t at, size_t indent)
{
    bool first = true;
    for (size_t n; (n = next_word(&text)) > 0 && text < end; text += n) {
        if (!first && at + 1u + n > COLUMNS) {
            printf("\n%*s", (int)indent, "");
            at = indent;
        } else if (!first) {
            putchar(' ');
            at++;
        }
        printf("%.*s", (int)n, text);
        at += n;
        first = false;
    }
    putchar('\n');
}

void uw_text_print(const char *text)
{
    print_words(text, text + strlen(text), 0, 0);
}

/* A paragraph ends at an empty line or before a line that begins with a space, printed as it is. */
static void print_paragraphs(const char *text)
{
    while (*text != '\0') {
        const char *end = text + strcspn(text, "\n");
        if (*text == ' ' || *text == '\n') {
            printf("%.*s\n", (int)(end - text), text);
        } else {
            while (*end == '\n' && end[1] != ' ' && end[1] != '\n' && end[1] != '\0') {
                end += 1u + strcspn(end + 1, "\n");
            }
            print_words(text, end, 0, 0);
        }
        text = *end == '\n' ? end + 1 : end;
    }
}

/* A name and its words, on several lines if they are too long for one. */
static void print_left(const char *text)
{
    size_t indent = 2;
    while (indent + strlen(text) > COLUMNS) {
        size_t n = COLUMNS - indent;
        while (n > 1u && text[n - 1u] != '|') {
            n--;
        }
        printf("%*s%.*s\n", (int)indent, "", (int)n, text);
        text += n;
        indent = 6;
    }
    printf("%*s%s\n", (int)indent, "", text);
}

static void print_row(const struct uw_opt *o, bool keys)
{
    char left[256];
    const char *values = o->values != NULL                ? o->values
                         : keys && o->kind == UW_OPT_FLAG ? "true|false"
                                                          : "";
    snprintf(left, sizeof left, "%s%s %s", keys ? "" : "--", o->name, values);
    if (strlen(left) > HELP_COLUMN - 3u) {
        print_left(left);
        left[0] = '\0';
    }
    printf("  %-28s ", left);
    print_words(o->help, o->help + strlen(o->help), HELP_COLUMN, HELP_COLUMN);
}

/* Print the suffixes of sizes, if a row takes a size. */
static void print_suffixes(struct uw_opts opts)
{
    for (uint32_t i = 0; i < opts.n; i++) {
        if (uw_opt_is_bytes(&opts.row[i])) {
            printf("\nBYTES may end in K, M or G, also small, for powers of 1024.\n");
            return;
        }
    }
}

void uw_opts_print(struct uw_opts opts, bool keys)
{
    for (uint32_t i = 0; i < opts.n; i++) {
        print_row(&opts.row[i], keys);
    }
    print_suffixes(opts);
}

void uw_args_help(const struct uw_args_spec *spec)
{
    char line[512];
    snprintf(line, sizeof line, "uwasa %s: %s", spec->command, spec->summary);
    uw_text_print(line);
    size_t first = strcspn(spec->usage, "\n");
    snprintf(line, sizeof line, "Usage: uwasa %s %.*s", spec->command, (int)first, spec->usage);
    putchar('\n');
    print_words(line, line + strlen(line), 0, 7);
    if (spec->usage[first] == '\n') {
        const char *second = spec->usage + first + 1u;
        printf("%7s", "");
        print_words(second, second + strlen(second), 7, 7);
    }
    putchar('\n');
    const struct uw_args_heading *next = spec->headings;
    for (uint32_t i = 0; i < spec->opts.n; i++) {
        const struct uw_opt *o = &spec->opts.row[i];
        if (next != NULL && next->before != NULL && strcmp(next->before, o->name) == 0) {
            printf("%s%s:\n", next == spec->headings ? "" : "\n", next->text);
            next++;
        }
        print_row(o, false);
    }
    printf("  %-28s %s\n", "--help", "this text");
    print_suffixes(spec->opts);
    if (spec->epilogue != NULL) {
        putchar('\n');
        print_paragraphs(spec->epilogue);
    }
    printf("\nExample: %s\n", spec->example);
}
