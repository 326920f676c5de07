/* SPDX-License-Identifier: Apache-2.0 */
#include "choices.h"

#include "uwasa/status.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FIRST_LINE "uwasa choices 1\n"
#define LINE_BYTES 512
#define FOREIGN_MAX 4096u               /* most lines kept for other machines */

static const char *const parts[] = {"conv2d fw", "conv2d bw_input", "conv2d bw_param",
                                    "dense fw", "dense bw_input", "dense bw_param"};
#define PARTS_N (sizeof parts / sizeof *parts)

/* A number of up to nine digits, then a space. */
static bool number(const char **at, uint32_t *out)
{
    uint32_t value = 0, digits = 0;
    for (; **at >= '0' && **at <= '9' && digits < 9; digits++, (*at)++) {
        value = value * 10u + (uint32_t)(**at - '0');
    }
    if (digits == 0 || **at != ' ') {
        return false;
    }
    (*at)++;
    *out = value;
    return true;
}

static bool word(const char **at, const char *text)
{
    size_t n = strlen(text);
    if (strncmp(*at, text, n) != 0 || (*at)[n] != ' ') {
        return false;
    }
    *at += n + 1;
    return true;
}

static bool part_of(const char **at, uint32_t *part)
{
    for (uint32_t i = 0; i < PARTS_N; i++) {
        if (word(at, parts[i])) {
            *part = i;
            return true;
        }
    }
    return false;
}

static bool shape_of(const char **at, uint32_t *shape)
{
    for (uint32_t i = 0; i < UW_CUDA_CHOICES_SHAPE; i++) {
        if (!number(at, &shape[i])) {
            return false;
        }
    }
    return true;
}

/* Optional: "engine" and sixteen hexadecimal digits, not all 0. */
static bool engine_of(const char **at, uint64_t *engine)
{
    static const char digits[] = "0123456789abcdef";
    *engine = 0;
    if (!word(at, "engine")) {
        return true;
    }
    for (uint32_t i = 0; i < 16; i++, (*at)++) {
        const char *digit = **at != '\0' ? strchr(digits, **at) : NULL;
        if (digit == NULL) {
            return false;
        }
        *engine = *engine << 4 | (uint64_t)(digit - digits);
    }
    return *engine != 0 && word(at, "");
}

/* A number like 41.25, whatever the locale. */
static bool decimal(const char **at, double *out)
{
    uint32_t whole = 0, digits = 0;
    double value, unit = 1.0;
    for (; **at >= '0' && **at <= '9' && digits < 9; digits++, (*at)++) {
        whole = whole * 10u + (uint32_t)(**at - '0');
    }
    if (digits == 0 || **at != '.') {
        return false;
    }
    value = (double)whole;
    for ((*at)++; **at >= '0' && **at <= '9'; (*at)++) {
        unit /= 10.0;
        value += unit * (double)(**at - '0');
    }
    *out = value;
    return word(at, "");
}

/* Parse a line without its newline. machine: set to its rest. */
static bool parse(const char *line, struct uw_cuda_choice *c, const char **machine)
{
    uint32_t algorithm;
    bool ok = part_of(&line, &c->part) && word(&line, "batch") &&
              number(&line, &c->batch_n) && word(&line, "shape") && shape_of(&line, c->shape) &&
              word(&line, "algorithm") && number(&line, &algorithm) &&
              engine_of(&line, &c->engine) && word(&line, "us") &&
              decimal(&line, &c->us) && word(&line, "on") && *line != '\0';
    if (!ok || algorithm >= UW_CUDA_CHOICES_ALGORITHMS) {
        return false;
    }
    c->algorithm = (int32_t)algorithm;
    *machine = line;
    return true;
}

/* Read the next line without its newline; empty if it is too long or has no newline. */
static bool next_line(FILE *file, char line[LINE_BYTES])
{
    if (fgets(line, LINE_BYTES, file) == NULL) {
        return false;
    }
    size_t n = strcspn(line, "\n");
    if (line[n] == '\n') {
        line[n] = '\0';
        return true;
    }
    int c = 0;
    while (c != '\n' && c != EOF) {
        c = fgetc(file);
    }
    line[0] = '\0';
    return true;
}

/* NULL if there is no file, or it is not a file of choices. */
static FILE *open_old(const char *path)
{
    char line[sizeof FIRST_LINE];
    FILE *file = path != NULL ? fopen(path, "r") : NULL;
    if (file != NULL && (fgets(line, sizeof line, file) == NULL || strcmp(line, FIRST_LINE) != 0)) {
        fclose(file);
        return NULL;
    }
    return file;
}

static bool same(const struct uw_cuda_choice *c, uint32_t part, uint32_t batch_n,
                 const uint32_t *shape)
{
    return c->part == part && c->batch_n == batch_n &&
           memcmp(c->shape, shape, sizeof c->shape) == 0;
}

void uw_cuda_choices_load(struct uw_cuda_choices *h, const char *path, const char *machine)
{
    char line[LINE_BYTES];
    h->path = path;
    h->n = h->next = 0;
    snprintf(h->machine, sizeof h->machine, "%.159s", machine);
    FILE *file = open_old(path);
    while (file != NULL && next_line(file, line)) {
        struct uw_cuda_choice c;
        const char *on;
        if (parse(line, &c, &on) && strcmp(on, h->machine) == 0) {
            uw_cuda_choices_put(h, &c);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
}

/* Also finds entries with UW_CUDA_CHOICE_GONE. */
static const struct uw_cuda_choice *find(const struct uw_cuda_choices *h, uint32_t part,
                                         uint32_t batch_n, const uint32_t *shape)
{
    for (uint32_t i = 0; i < h->n; i++) {
        if (same(&h->at[i], part, batch_n, shape)) {
            return &h->at[i];
        }
    }
    return NULL;
}

const struct uw_cuda_choice *uw_cuda_choices_find(const struct uw_cuda_choices *h, uint32_t part,
                                                  uint32_t batch_n, const uint32_t *shape)
{
    const struct uw_cuda_choice *c = find(h, part, batch_n, shape);
    return c != NULL && c->algorithm != UW_CUDA_CHOICE_GONE ? c : NULL;
}

void uw_cuda_choices_put(struct uw_cuda_choices *h, const struct uw_cuda_choice *choice)
{
    for (uint32_t i = 0; i < h->n; i++) {
        if (same(&h->at[i], choice->part, choice->batch_n, choice->shape)) {
            h->at[i] = *choice;
            return;
        }
    }
    if (h->n < UW_CUDA_CHOICES_MAX) {
        h->at[h->n++] = *choice;
        return;
    }
    h->at[h->next] = *choice;
    h->next = (h->next + 1) % UW_CUDA_CHOICES_MAX;
}

static void write_choice(FILE *file, const struct uw_cuda_choice *c, const char *machine)
{
    double us = c->us >= 0.0 && c->us < 1e8 ? c->us : 0.0;
    uint32_t whole = (uint32_t)us, tenths = (uint32_t)((us - (double)whole) * 10.0);
    fprintf(file, "%s batch %" PRIu32 " shape", parts[c->part], c->batch_n);
    for (uint32_t i = 0; i < UW_CUDA_CHOICES_SHAPE; i++) {
        fprintf(file, " %" PRIu32, c->shape[i]);
    }
    fprintf(file, " algorithm %" PRId32, c->algorithm);
    if (c->engine != 0) {
        fprintf(file, " engine %016" PRIx64, c->engine);
    }
    fprintf(file, " us %" PRIu32 ".%" PRIu32 " on %s\n", whole, tenths, machine);
}

/* Copy those lines of the old file that h does not replace. */
static void keep_old(FILE *file, const struct uw_cuda_choices *h)
{
    char line[LINE_BYTES];
    FILE *old = open_old(h->path);
    for (uint32_t kept = 0; old != NULL && kept < FOREIGN_MAX && next_line(old, line);) {
        struct uw_cuda_choice c;
        const char *on;
        if (parse(line, &c, &on) &&
            (strcmp(on, h->machine) != 0 ||
             find(h, c.part, c.batch_n, c.shape) == NULL)) {
            fprintf(file, "%s\n", line);
            kept++;
        }
    }
    if (old != NULL) {
        fclose(old);
    }
}

int uw_cuda_choices_save(const struct uw_cuda_choices *h)
{
    char path[1024];
    if (h->path == NULL) {
        return UW_OK;
    }
    int n = snprintf(path, sizeof path, "%s.%ld", h->path, (long)getpid());
    FILE *file = n > 0 && (size_t)n < sizeof path ? fopen(path, "w") : NULL;
    if (file == NULL) {
        return UW_ERR_IO;
    }
    fputs(FIRST_LINE, file);
    for (uint32_t i = 0; i < h->n; i++) {
        if (h->at[i].algorithm != UW_CUDA_CHOICE_GONE) {
            write_choice(file, &h->at[i], h->machine);
        }
    }
    keep_old(file, h);
    bool written = ferror(file) == 0;
    written = fclose(file) == 0 && written;
    if (!written || rename(path, h->path) != 0) {
        (void)remove(path);
        return UW_ERR_IO;
    }
    return UW_OK;
}
