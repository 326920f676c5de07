/* SPDX-License-Identifier: Apache-2.0
 *
 * The figures of a test, printed and as an event. */
#include "scores.h"

#include "base/events.h"

#include "uwasa/anomaly.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double percentiles[] = {50.0, 90.0, 95.0, 99.0, 99.9, 100.0};
enum { PERCENTILES_N = sizeof percentiles / sizeof *percentiles };

/* A copy of the errors; NULL: there are none, or no memory. */
static float *copy_errors(const struct uw_scores *s)
{
    size_t bytes = (size_t)s->samples_n * sizeof(float);
    float *copy = bytes != 0 ? malloc(bytes) : NULL;
    if (copy != NULL) {
        memcpy(copy, s->error, bytes);
    }
    return copy;
}

/* ---- for people ---- */

static const char *percent(double value, char text[16])
{
    snprintf(text, 16, isnan(value) ? "-" : "%.2f %%", 100.0 * value);
    return text;
}

static void print_class(const struct uw_scores *s, const char *name, uint64_t samples_n,
                        const struct uw_scores_figures *f)
{
    char a[16], b[16], c[16], d[16];
    bool mask = s->answers->kind != UW_ANSWER_CLASS;
    printf("%-14.14s %8llu %10s %10s %10s%s%s\n", name, (unsigned long long)samples_n,
           percent(f->precision, a), percent(f->recall, b), percent(f->f1, c), mask ? " " : "",
           mask ? percent(f->iou, d) : "");
}

static void print_pairs(const struct uw_scores *s)
{
    uint32_t n = s->answers->classes_n;
    char text[UW_ANSWER_TEXT_BYTES];
    printf("\nconfusion      a row a label, a column an answer\n%-8s", "");
    for (uint32_t c = 0; c < n; c++) {
        printf(" %6.6s", uw_answers_name(s->answers, c, text));
    }
    putchar('\n');
    for (uint32_t l = 0; l < n; l++) {
        printf("%-8.8s", uw_answers_name(s->answers, l, text));
        for (uint32_t c = 0; c < n; c++) {
            printf(" %6llu", (unsigned long long)s->pairs[(size_t)l * n + c]);
        }
        putchar('\n');
    }
}

/* Returns it; NAN: there is none. */
static double print_auc(const struct uw_scores *s)
{
    double auc = uw_scores_auc(s);
    if (!isnan(auc)) {
        printf("ROC area       %.4f\n", auc);
    }
    return auc;
}

static void print_classes(const struct uw_scores *s)
{
    const struct uw_scores_figures means = uw_scores_means(s);
    uint32_t n = s->answers->classes_n;
    char text[UW_ANSWER_TEXT_BYTES];
    bool mask = s->answers->kind != UW_ANSWER_CLASS;
    print_auc(s);
    if (n > UW_SCORES_SHOWN_MAX) {
        char a[16], b[16], c[16], d[16];
        printf("mean of classes  precision %s, recall %s, F1 %s%s%s; --json has each class\n",
               percent(means.precision, a), percent(means.recall, b), percent(means.f1, c),
               mask ? ", IoU " : "", mask ? percent(means.iou, d) : "");
        return;
    }
    printf("\n%-14s %8s %10s %10s %10s%s\n", "class", mask ? "places" : "samples", "precision",
           "recall", "F1", mask ? "        IoU" : "");
    for (uint32_t c = 0; c < n; c++) {
        const struct uw_scores_figures f = uw_scores_of_class(&s->class[c]);
        print_class(s, uw_answers_name(s->answers, c, text), s->class[c].samples_n, &f);
    }
    print_class(s, "mean", s->judged_n, &means);
    print_pairs(s);
}

static void print_values(const struct uw_scores *s)
{
    const struct uw_scores_values f = uw_scores_values(s);
    printf("MAE            %.6g\nRMSE           %.6g\n", f.mae, f.rmse);
    if (!isnan(f.r2)) {
        printf("R2             %.4f\n", f.r2);
    }
}

static void print_errors(const struct uw_scores *s)
{
    float *x = copy_errors(s);
    for (int i = 0; i < PERCENTILES_N && x != NULL; i++) {
        printf("%s%5.1f %%  %.6g\n", i == 0 ? "error          " : "               ",
               percentiles[i],
               (double)uw_anomaly_percentile(x, (uint32_t)s->samples_n, percentiles[i]));
    }
    free(x);
    double auc = print_auc(s);
    if (s->threshold != 0.0f) {
        struct uw_scores_class of[2];
        char a[16], b[16];
        uw_scores_judge(s, of);
        printf("threshold      %.6g\nanomalies      %llu of %llu samples\n",
               (double)s->threshold, (unsigned long long)of[1].answers_n,
               (unsigned long long)s->samples_n);
        if (!isnan(auc)) {
            const struct uw_scores_figures f = uw_scores_of_class(&of[1]);
            printf("               precision %s, recall %s of label 1\n",
                   percent(f.precision, a), percent(f.recall, b));
        }
    }
}

void uw_scores_print(const struct uw_scores *s)
{
    if (s->class != NULL) {
        print_classes(s);
    } else if (s->value != NULL) {
        print_values(s);
    } else {
        print_errors(s);
    }
}

/* ---- for programs ---- */

/* A number, or null where there is none. */
static void add_number(cJSON *to, const char *key, double value)
{
    if (isnan(value)) {
        cJSON_AddNullToObject(to, key);
    } else {
        cJSON_AddNumberToObject(to, key, value);
    }
}

static void add_figures(cJSON *to, const struct uw_scores *s, const struct uw_scores_figures *f)
{
    add_number(to, "precision", f->precision);
    add_number(to, "recall", f->recall);
    add_number(to, "f1", f->f1);
    if (s->class != NULL && s->answers->kind != UW_ANSWER_CLASS) {
        add_number(to, "iou", f->iou);
    }
}

/* Returns it; NAN: there is none. */
static double add_auc(cJSON *ev, const struct uw_scores *s)
{
    double auc = uw_scores_auc(s);
    if (!isnan(auc)) {
        cJSON_AddNumberToObject(ev, "roc_area", auc);
    }
    return auc;
}

static void json_classes(const struct uw_scores *s, cJSON *ev)
{
    const struct uw_scores_figures means = uw_scores_means(s);
    uint32_t n = s->answers->classes_n;
    cJSON *mean = cJSON_AddObjectToObject(ev, "mean_of_classes");
    add_figures(mean, s, &means);
    cJSON *list = cJSON_AddArrayToObject(ev, "classes");
    for (uint32_t c = 0; c < n; c++) {
        const struct uw_scores_figures f = uw_scores_of_class(&s->class[c]);
        cJSON *one = cJSON_CreateObject();
        cJSON_AddNumberToObject(one, "class", c);
        if (s->answers->names != NULL) {
            cJSON_AddStringToObject(one, "name", s->answers->names[c]);
        }
        UW_EVENT_NUMBERS(one, {"samples", (double)s->class[c].samples_n},
                         {"answers", (double)s->class[c].answers_n});
        add_figures(one, s, &f);
        cJSON_AddItemToArray(list, one);
    }
    add_auc(ev, s);
    cJSON *rows = s->pairs != NULL ? cJSON_AddArrayToObject(ev, "confusion") : NULL;
    for (uint32_t l = 0; l < n && rows != NULL; l++) {
        cJSON *row = cJSON_CreateArray();
        for (uint32_t c = 0; c < n; c++) {
            cJSON_AddItemToArray(row,
                                 cJSON_CreateNumber((double)s->pairs[(size_t)l * n + c]));
        }
        cJSON_AddItemToArray(rows, row);
    }
}

static void json_values(const struct uw_scores *s, cJSON *ev)
{
    const struct uw_scores_values f = uw_scores_values(s);
    add_number(ev, "mae", f.mae);
    add_number(ev, "rmse", f.rmse);
    add_number(ev, "r2", f.r2);
    cJSON *list = cJSON_AddArrayToObject(ev, "values");
    for (uint32_t i = 0; i < s->answers->numbers_n; i++) {
        const struct uw_scores_value *v = &s->value[i];
        cJSON *one = cJSON_CreateObject();
        add_number(one, "mae", v->absolute / (double)s->samples_n);
        add_number(one, "rmse", sqrt(v->squared / (double)s->samples_n));
        add_number(one, "r2", uw_scores_r2(v));
        cJSON_AddItemToArray(list, one);
    }
}

static void json_errors(const struct uw_scores *s, cJSON *ev)
{
    float *x = copy_errors(s);
    cJSON *object = cJSON_AddObjectToObject(ev, "error_percentiles");
    for (int i = 0; i < PERCENTILES_N && x != NULL; i++) {
        char key[16];
        snprintf(key, sizeof key, "%g", percentiles[i]);
        uw_event_float(object, key,
                       uw_anomaly_percentile(x, (uint32_t)s->samples_n, percentiles[i]));
    }
    free(x);
    double auc = add_auc(ev, s);
    if (s->threshold != 0.0f) {
        struct uw_scores_class of[2];
        uw_scores_judge(s, of);
        uw_event_float(ev, "anomaly_threshold", s->threshold);
        cJSON_AddNumberToObject(ev, "anomalies", (double)of[1].answers_n);
        if (!isnan(auc)) {
            const struct uw_scores_figures f = uw_scores_of_class(&of[1]);
            add_figures(ev, s, &f);
        }
    }
}

void uw_scores_json(const struct uw_scores *s, cJSON *ev)
{
    if (s->class != NULL) {
        json_classes(s, ev);
    } else if (s->value != NULL) {
        json_values(s, ev);
    } else {
        json_errors(s, ev);
    }
}
