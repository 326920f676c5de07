/* SPDX-License-Identifier: Apache-2.0 */
#include "sim.h"
#include "base/open_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEADER "label,nodes,epochs,steps,virtual_seconds,test_accuracy,worst_accuracy," \
               "lower_quartile_accuracy,upper_quartile_accuracy,best_accuracy," \
               "mean_model_accuracy,test_loss,bytes_sent,consensus_distance\n"
/* In quotes when it needs some (RFC 4180, section 2). */
static void put_text(FILE *file, const char *text)
{
    bool plain = strpbrk(text, "\",\r\n") == NULL;
    if (!plain) {
        fputc('"', file);
    }
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '"') {
            fputc('"', file);
        }
        fputc(*c, file);
    }
    if (!plain) {
        fputc('"', file);
    }
}

/* In the digits that the events have. */
static void put_number(FILE *file, double value)
{
    cJSON *number = cJSON_CreateNumber(value);
    char *text = cJSON_PrintUnformatted(number);
    fprintf(file, ",%s", text != NULL ? text : "");
    cJSON_free(text);
    cJSON_Delete(number);
}

/* What every row of this run begins with. */
static void put_run(FILE *file, const struct uw_sim_options *o)
{
    put_text(file, o->label != NULL ? o->label : "");
    put_number(file, (double)o->nodes);
}

/* What a FILE of memory holds once it is closed; NULL: out of memory. The caller frees it. */
static char *close_text(FILE *file, char **text)
{
    if (file != NULL && fclose(file) != 0) {
        free(*text);
        *text = NULL;
    }
    return *text;
}

static char *text_of_run(const struct uw_sim_options *o)
{
    char *text = NULL;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    if (file != NULL) {
        put_run(file, o);
        fputc(',', file);
    }
    return close_text(file, &text);
}

/* ---- a table that goes on ---- */

static char *read_table(const char *path, size_t *bytes)
{
    FILE *f = uw_open_file(path, false);
    long size = f != NULL && fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;
    char *text = size > 0 ? malloc((size_t)size + 1u) : NULL;
    if (text != NULL) {
        rewind(f);
        *bytes = fread(text, 1, (size_t)size, f);
        text[*bytes] = '\0';
    }
    if (f != NULL) {
        fclose(f);
    }
    return text;
}

/* Bytes of the row that begins there, with its end; a label may have several lines. */
static size_t row_bytes(const char *row, bool *whole)
{
    bool quoted = false;
    const char *c = row;
    for (; *c != '\0' && (quoted || *c != '\n'); c++) {
        quoted = quoted != (*c == '"');
    }
    *whole = *c == '\n';
    return (size_t)(c - row) + *whole;
}

/* Bytes of the table up to the rows at its end that this run wrote after that time, or that were
 * cut; -1: it is no table. last: the row before, if it is this run's, in the text. */
static off_t bytes_until(const char *text, const char *run, double seconds, const char **last)
{
    const char *row = text + strlen(HEADER), *kept = row;
    bool whole;
    if (strncmp(text, HEADER, strlen(HEADER)) != 0) {
        return -1;
    }
    while (*row != '\0') {
        size_t bytes = row_bytes(row, &whole), n = strlen(run);
        bool own = strncmp(row, run, whole || bytes > n ? n : bytes) == 0;
        double at = -1.0;
        if (own && whole) {
            (void)sscanf(row + n, "%*[^,\n],%*[^,\n],%lf", &at);   /* behind epochs and steps */
        }
        if (!own || (whole && at <= seconds)) {
            kept = row + bytes;
            *last = own ? row : NULL;
        }
        row += bytes;
    }
    return kept - text;
}

/* A run that was killed goes on from before its last rows: they come again. So does the last row of
 * one that had ended. */
static void drop_rows(struct uw_sim_report *r)
{
    size_t bytes = 0;
    const char *last = NULL;
    bool whole;
    char *run = text_of_run(r->o), *text = run != NULL ? read_table(r->o->csv, &bytes) : NULL;
    off_t kept = text != NULL ? bytes_until(text, run, r->resumed_s, &last) : -1;
    if (kept >= 0 && (kept == (off_t)bytes || ftruncate(fileno(r->csv), kept) == 0)) {
        (void)fseek(r->csv, 0, SEEK_END);
        r->csv_last = last != NULL ? strndup(last, row_bytes(last, &whole)) : NULL;
        if (text[kept - 1] != '\n') {
            fputc('\n', r->csv);        /* of another run, cut */
        }
    }
    free(text);
    free(run);
}

int uw_sim_csv_open(struct uw_sim_report *r, struct uw_error *err)
{
    const char *path = r->o->csv;
    r->csv = path != NULL ? uw_open_file_again(path) : NULL;
    if (path == NULL) {
        return UW_OK;
    }
    if (r->csv == NULL) {
        return uw_error_set(err, UW_ERR_IO, "--csv %s: %s", path, strerror(errno));
    }
    if (!r->resumed) {
        uw_empty_file(r->csv);
    } else if (ftell(r->csv) > 0) {
        drop_rows(r);
        return UW_OK;
    }
    fputs(HEADER, r->csv);
    return UW_OK;
}

static char *text_of_row(const struct uw_sim_report *r, const struct uw_sim_moment *m)
{
    const struct uw_sim_score *s = m->score;
    const double values[] = {m->epochs, (double)m->step, m->virtual_seconds, s->accuracy, s->worst,
                             s->lower_quartile, s->upper_quartile, s->best,
                             s->mean_model_accuracy, s->loss, m->bytes_sent,
                             s->consensus_distance};
    char *text = NULL;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    if (file != NULL) {
        put_run(file, r->o);
        for (uint32_t i = 0; i < sizeof values / sizeof values[0]; i++) {
            put_number(file, values[i]);
        }
        fputc('\n', file);
    }
    return close_text(file, &text);
}

void uw_sim_csv_put(struct uw_sim_report *r, const struct uw_sim_moment *m)
{
    char *row = r->csv != NULL ? text_of_row(r, m) : NULL;
    if (row != NULL && (r->csv_last == NULL || strcmp(row, r->csv_last) != 0)) {
        fputs(row, r->csv);
        fflush(r->csv);         /* a run that is stopped keeps its rows */
    }
    r->csv_failed = r->csv_failed || (r->csv != NULL && row == NULL);
    free(row);
    free(r->csv_last);
    r->csv_last = NULL;
}

int uw_sim_csv_close(struct uw_sim_report *r, struct uw_error *err)
{
    bool failed = r->csv_failed || (r->csv != NULL && ferror(r->csv) != 0);
    failed = (r->csv != NULL && fclose(r->csv) != 0) || failed;
    r->csv = NULL;
    free(r->csv_last);
    r->csv_last = NULL;
    return failed ? uw_error_set(err, UW_ERR_IO, "--csv %s: a row could not be written", r->o->csv)
                  : UW_OK;
}
