/* SPDX-License-Identifier: Apache-2.0 */
#include "open_file.h"
#include "sim.h"

#include <errno.h>
#include <string.h>

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
        return UW_OK;
    }
    fputs("label,nodes,epochs,steps,virtual_seconds,test_accuracy,worst_accuracy,"
          "lower_quartile_accuracy,upper_quartile_accuracy,best_accuracy,mean_model_accuracy,"
          "test_loss,bytes_sent,consensus_distance\n", r->csv);
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
