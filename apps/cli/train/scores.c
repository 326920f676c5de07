/* SPDX-License-Identifier: Apache-2.0 */
#include "scores.h"

#include "base/events.h"

#include "uwasa/anomaly.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int out_of_memory(struct uw_error *err)
{
    return uw_error_set(err, UW_ERR_NOMEM, "no memory for the figures of the test");
}

int uw_scores_open(struct uw_scores *s, const struct uw_answers *answers, struct uw_error *err)
{
    size_t n = answers->numbers_n;
    bool classes = answers->kind == UW_ANSWER_CLASS, values = answers->kind == UW_ANSWER_VALUES;
    *s = (struct uw_scores){.answers = answers, .numbers = malloc(n * sizeof(float))};
    s->class = classes ? calloc(n, sizeof *s->class) : NULL;
    s->value = values ? calloc(n, sizeof *s->value) : NULL;
    bool pairs = classes && n <= UW_SCORES_PAIRS_MAX;
    s->pairs = pairs ? calloc(n * n, sizeof *s->pairs) : NULL;
    bool good = s->numbers != NULL && (!classes || s->class != NULL) &&
                (!values || s->value != NULL) && (!pairs || s->pairs != NULL);
    return good ? UW_OK : out_of_memory(err);
}

void uw_scores_close(struct uw_scores *s)
{
    free(s->class);
    free(s->pairs);
    free(s->value);
    free(s->error);
    free(s->label);
    free(s->numbers);
    free(s->room);
    *s = (struct uw_scores){.answers = NULL};
}

/* ---- counting ---- */

static void add_class(struct uw_scores *s, uint32_t label)
{
    uint32_t class = uw_answers_class(s->answers, s->numbers);
    s->class[label].samples_n++;
    s->class[class].answers_n++;
    if (class == label) {
        s->class[class].right_n++;
        s->right_n++;
    }
    if (s->pairs != NULL) {
        s->pairs[(size_t)label * s->answers->numbers_n + class]++;
    }
}

static void add_values(struct uw_scores *s, const float *target)
{
    for (uint32_t i = 0; i < s->answers->numbers_n; i++) {
        struct uw_scores_value *v = &s->value[i];
        double t = (double)target[i], d = (double)s->numbers[i] - t, before = t - v->mean;
        v->mean += before / (double)s->samples_n;
        v->spread += before * (t - v->mean);
        v->squared += d * d;
        v->absolute += fabs(d);
    }
}

static int add_error(struct uw_scores *s, uint32_t label, struct uw_error *err)
{
    size_t at = (size_t)s->samples_n - 1u;
    if (at == s->errors_cap) {
        size_t cap = s->errors_cap < 256 ? 256 : 2 * s->errors_cap;
        float *error = realloc(s->error, cap * sizeof *error);
        s->error = error != NULL ? error : s->error;
        uint32_t *labels = realloc(s->label, cap * sizeof *labels);
        s->label = labels != NULL ? labels : s->label;
        if (error == NULL || labels == NULL) {
            return out_of_memory(err);
        }
        s->errors_cap = cap;
    }
    s->error[at] = s->numbers[0];
    s->label[at] = label;
    s->labels_max = label > s->labels_max ? label : s->labels_max;
    return UW_OK;
}

static int take_room(struct uw_scores *s, size_t n, struct uw_error *err)
{
    if (n > s->room_n) {
        free(s->room);
        s->room = malloc(n * sizeof *s->room);
        s->room_n = s->room != NULL ? n : 0;
    }
    return s->room != NULL ? UW_OK : out_of_memory(err);
}

static int check_labels(const struct uw_scores *s, const struct uw_minibatch *b,
                        struct uw_error *err)
{
    for (uint32_t i = 0; i < b->n && s->class != NULL; i++) {
        if (b->label[i] >= s->answers->numbers_n) {
            return uw_error_set(err, UW_ERR_INVALID, "label %u: the model has %u classes",
                                (unsigned)b->label[i], (unsigned)s->answers->numbers_n);
        }
    }
    return UW_OK;
}

int uw_scores_add(struct uw_scores *s, const float *out, const struct uw_minibatch *b,
                  struct uw_error *err)
{
    const struct uw_answers *a = s->answers;
    int rc = check_labels(s, b, err);
    rc = rc < 0 ? rc : take_room(s, (size_t)b->n * a->outputs_n, err);
    for (uint32_t i = 0; i < b->n && rc == UW_OK; i++) {
        const float *x = b->x + (size_t)i * a->input_n;
        uw_answers_read(a, out + (size_t)i * a->outputs_n, x, s->numbers);
        s->samples_n++;
        if (s->class != NULL) {
            add_class(s, b->label[i]);
        } else if (s->value != NULL) {
            add_values(s, b->target + (size_t)i * a->outputs_n);
        } else {
            rc = add_error(s, b->label != NULL ? b->label[i] : 0, err);
        }
    }
    if (rc == UW_OK) {
        s->loss_sum += uw_answers_loss(a, b->n, out, b->x, b->label, b->target, s->room);
    }
    return rc;
}

/* ---- figures ---- */

double uw_scores_accuracy(const struct uw_scores *s)
{
    return s->samples_n != 0 ? (double)s->right_n / (double)s->samples_n : 0.0;
}

double uw_scores_loss(const struct uw_scores *s)
{
    return s->samples_n != 0 ? s->loss_sum / (double)s->samples_n : 0.0;
}

/* a / b; NAN where b is 0. */
static double share(uint64_t a, uint64_t b)
{
    return b != 0 ? (double)a / (double)b : (double)NAN;
}

struct figures {
    double precision, recall, f1;   /* NAN: there is none */
};

static struct figures figures_of(const struct uw_scores_class *c)
{
    return (struct figures){.precision = share(c->right_n, c->answers_n),
                            .recall = share(c->right_n, c->samples_n),
                            .f1 = share(2 * c->right_n, c->answers_n + c->samples_n)};
}

/* The means over the classes with samples; a precision that there is not counts as 0. */
static struct figures means_of(const struct uw_scores *s)
{
    struct figures sum = {0.0, 0.0, 0.0};
    uint32_t n = 0;
    for (uint32_t c = 0; c < s->answers->numbers_n; c++) {
        if (s->class[c].samples_n != 0) {
            struct figures f = figures_of(&s->class[c]);
            sum.precision += isnan(f.precision) ? 0.0 : f.precision;
            sum.recall += f.recall;
            sum.f1 += f.f1;
            n++;
        }
    }
    return (struct figures){sum.precision / n, sum.recall / n, sum.f1 / n};
}

static double r2_of(const struct uw_scores_value *v)
{
    return v->spread > 0.0 ? 1.0 - v->squared / v->spread : (double)NAN;
}

struct value_figures {
    double mae, rmse, r2;
};

static struct value_figures values_of(const struct uw_scores *s)
{
    struct value_figures f = {0.0, 0.0, 0.0};
    uint32_t n = s->answers->numbers_n;
    for (uint32_t i = 0; i < n; i++) {
        f.mae += s->value[i].absolute / n;
        f.rmse += s->value[i].squared / n;
        f.r2 += r2_of(&s->value[i]) / n;
    }
    f.mae /= (double)s->samples_n;
    f.rmse = sqrt(f.rmse / (double)s->samples_n);
    return f;
}

/* ---- errors ---- */

static const double percentiles[] = {50.0, 90.0, 95.0, 99.0, 99.9, 100.0};
enum { PERCENTILES_N = sizeof percentiles / sizeof *percentiles };

struct ranked {
    float error;
    uint32_t label;
};

static int by_error(const void *a, const void *b)
{
    float x = ((const struct ranked *)a)->error, y = ((const struct ranked *)b)->error;
    return (x > y) - (x < y);
}

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

/* The errors in order with their labels; NULL: there are none, or no memory. */
static struct ranked *rank(const struct uw_scores *s)
{
    size_t n = (size_t)s->samples_n;
    struct ranked *r = n != 0 ? malloc(n * sizeof *r) : NULL;
    for (size_t i = 0; i < n && r != NULL; i++) {
        r[i] = (struct ranked){.error = s->error[i], .label = s->label[i]};
    }
    if (r != NULL) {
        qsort(r, n, sizeof *r, by_error);
    }
    return r;
}

double uw_scores_auc(const struct uw_scores *s)
{
    size_t n = (size_t)s->samples_n;
    struct ranked *r = s->labels_max == 1 ? rank(s) : NULL;
    double ranks = 0.0, ones = 0.0;
    for (size_t i = 0, end; r != NULL && i < n; i = end) {
        for (end = i; end < n && !(r[end].error > r[i].error); end++) {
        }
        for (size_t k = i; k < end; k++) {      /* equal ones share their mean rank */
            ranks += r[k].label != 0 ? (double)(i + 1 + end) / 2.0 : 0.0;
            ones += r[k].label != 0 ? 1.0 : 0.0;
        }
    }
    free(r);
    double zeros = (double)n - ones;
    return ones > 0.0 && zeros > 0.0 ? (ranks - ones * (ones + 1.0) / 2.0) / (ones * zeros)
                                     : (double)NAN;
}

/* What the threshold says of the samples, as of two classes: normal and anomaly. */
static void judge(const struct uw_scores *s, struct uw_scores_class of[2])
{
    memset(of, 0, 2 * sizeof *of);
    for (uint64_t i = 0; i < s->samples_n; i++) {
        uint32_t label = s->label[i] != 0, found = !(s->error[i] <= s->threshold);
        of[label].samples_n++;
        of[found].answers_n++;
        of[label].right_n += label == found;
    }
}

/* ---- for people ---- */

static const char *percent(double value, char text[16])
{
    snprintf(text, 16, isnan(value) ? "-" : "%.2f %%", 100.0 * value);
    return text;
}

static void print_class(const char *name, uint64_t samples_n, const struct figures *f)
{
    char a[16], b[16], c[16];
    printf("%-14.14s %8llu %10s %10s %10s\n", name, (unsigned long long)samples_n,
           percent(f->precision, a), percent(f->recall, b), percent(f->f1, c));
}

static void print_pairs(const struct uw_scores *s)
{
    uint32_t n = s->answers->numbers_n;
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

static void print_classes(const struct uw_scores *s)
{
    const struct figures means = means_of(s);
    uint32_t n = s->answers->numbers_n;
    char text[UW_ANSWER_TEXT_BYTES];
    if (n > UW_SCORES_SHOWN_MAX) {
        char a[16], b[16], c[16];
        printf("mean of classes  precision %s, recall %s, F1 %s; --json has each class\n",
               percent(means.precision, a), percent(means.recall, b), percent(means.f1, c));
        return;
    }
    printf("\n%-14s %8s %10s %10s %10s\n", "class", "samples", "precision", "recall", "F1");
    for (uint32_t c = 0; c < n; c++) {
        const struct figures f = figures_of(&s->class[c]);
        print_class(uw_answers_name(s->answers, c, text), s->class[c].samples_n, &f);
    }
    print_class("mean", s->samples_n, &means);
    print_pairs(s);
}

static void print_values(const struct uw_scores *s)
{
    const struct value_figures f = values_of(s);
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
    double auc = uw_scores_auc(s);
    if (!isnan(auc)) {
        printf("ROC area       %.4f\n", auc);
    }
    if (s->threshold != 0.0f) {
        struct uw_scores_class of[2];
        char a[16], b[16];
        judge(s, of);
        printf("threshold      %.6g\nanomalies      %llu of %llu samples\n",
               (double)s->threshold, (unsigned long long)of[1].answers_n,
               (unsigned long long)s->samples_n);
        if (!isnan(auc)) {
            const struct figures f = figures_of(&of[1]);
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

static void add_figures(cJSON *to, const struct figures *f)
{
    add_number(to, "precision", f->precision);
    add_number(to, "recall", f->recall);
    add_number(to, "f1", f->f1);
}

static void json_classes(const struct uw_scores *s, cJSON *ev)
{
    const struct figures means = means_of(s);
    uint32_t n = s->answers->numbers_n;
    cJSON *mean = cJSON_AddObjectToObject(ev, "mean_of_classes");
    add_figures(mean, &means);
    cJSON *list = cJSON_AddArrayToObject(ev, "classes");
    for (uint32_t c = 0; c < n; c++) {
        const struct figures f = figures_of(&s->class[c]);
        cJSON *one = cJSON_CreateObject();
        cJSON_AddNumberToObject(one, "class", c);
        if (s->answers->names != NULL) {
            cJSON_AddStringToObject(one, "name", s->answers->names[c]);
        }
        UW_EVENT_NUMBERS(one, {"samples", (double)s->class[c].samples_n},
                         {"answers", (double)s->class[c].answers_n});
        add_figures(one, &f);
        cJSON_AddItemToArray(list, one);
    }
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
    const struct value_figures f = values_of(s);
    add_number(ev, "mae", f.mae);
    add_number(ev, "rmse", f.rmse);
    add_number(ev, "r2", f.r2);
    cJSON *list = cJSON_AddArrayToObject(ev, "values");
    for (uint32_t i = 0; i < s->answers->numbers_n; i++) {
        const struct uw_scores_value *v = &s->value[i];
        cJSON *one = cJSON_CreateObject();
        add_number(one, "mae", v->absolute / (double)s->samples_n);
        add_number(one, "rmse", sqrt(v->squared / (double)s->samples_n));
        add_number(one, "r2", r2_of(v));
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
    double auc = uw_scores_auc(s);
    if (!isnan(auc)) {
        cJSON_AddNumberToObject(ev, "roc_area", auc);
    }
    if (s->threshold != 0.0f) {
        struct uw_scores_class of[2];
        judge(s, of);
        uw_event_float(ev, "anomaly_threshold", s->threshold);
        cJSON_AddNumberToObject(ev, "anomalies", (double)of[1].answers_n);
        if (!isnan(auc)) {
            const struct figures f = figures_of(&of[1]);
            add_figures(ev, &f);
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
