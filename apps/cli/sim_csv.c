/* SPDX-License-Identifier: Apache-2.0 */
#include "open_file.h"
#include "sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEADER "label,nodes,epochs,steps,virtual_seconds,test_accuracy,worst_accuracy," \
               "lower_quartile_accuracy,upper_quartile_accuracy,best_accuracy," \
               "mean_model_accuracy,test_loss,bytes_sent,consensus_distance\n"
#define BEHIND_TIME 9u          /* columns */

/* virtual_seconds of the row that ends in this line; below 0: none does, it is cut or is of a label
 * of several lines. */
static double time_of(const char *line, size_t bytes)
{
    uint32_t commas = 0;
    size_t at = bytes;
    while (at > 0 && commas <= BEHIND_TIME) {
        commas += line[--at] == ',';
    }
    char *end = NULL;
    double seconds = commas > BEHIND_TIME ? strtod(line + at + 1, &end) : -1.0;
    return end != NULL && *end == ',' && line[bytes - 1u] == '\n' ? seconds : -1.0;
}

/* Bytes of the file up to the first row after that time or one that was cut; -1: it is no table. */
static off_t bytes_until(FILE *f, double seconds)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t n = getline(&line, &room, f);
    off_t at = n, kept = n > 0 && strcmp(line, HEADER) == 0 ? at : -1;
    while (kept > 0 && (n = getline(&line, &room, f)) > 0) {
        double row = time_of(line, (size_t)n);
        at += n;
        if (row > seconds) {
            break;
        }
        kept = row >= 0.0 ? at : kept;
    }
    free(line);
    return kept;
}

/* A run that was killed goes on from before its last rows: they come again. */
static void drop_rows(const struct uw_sim_report *r)
{
    FILE *f = uw_open_file(r->o->csv, false);
    off_t kept = f != NULL ? bytes_until(f, r->resumed_s) : -1;
    if (f != NULL) {
        fclose(f);
    }
    if (kept >= 0 && ftruncate(fileno(r->csv), kept) == 0) {
        (void)fseek(r->csv, 0, SEEK_END);
    }
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

void uw_sim_csv_put(struct uw_sim_report *r, const struct uw_sim_moment *m)
{
    const struct uw_sim_score *s = m->score;
    const double values[] = {(double)r->o->nodes, m->epochs, (double)m->step, m->virtual_seconds,
                             s->accuracy, s->worst, s->lower_quartile, s->upper_quartile, s->best,
                             s->mean_model_accuracy, s->loss, m->bytes_sent,
                             s->consensus_distance};
    if (r->csv == NULL) {
        return;
    }
    put_text(r->csv, r->o->label != NULL ? r->o->label : "");
    for (uint32_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        put_number(r->csv, values[i]);
    }
    fputc('\n', r->csv);
    fflush(r->csv);             /* a run that is stopped keeps its rows */
}

int uw_sim_csv_close(struct uw_sim_report *r, struct uw_error *err)
{
    bool failed = r->csv != NULL && ferror(r->csv) != 0;
    failed = (r->csv != NULL && fclose(r->csv) != 0) || failed;
    r->csv = NULL;
    return failed ? uw_error_set(err, UW_ERR_IO, "--csv %s: a row could not be written", r->o->csv)
                  : UW_OK;
}
