/* SPDX-License-Identifier: Apache-2.0 */
#include "scores.h"
#include "job/job_data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int out_of_memory(struct uw_error *err)
{
    return uw_error_set(err, UW_ERR_NOMEM, "no memory for the figures of the test");
}

int uw_scores_open(struct uw_scores *s, const struct uw_answers *answers, struct uw_error *err)
{
    size_t n = answers->numbers_n, k = answers->classes_n;
    bool classes = k != 0, values = answers->kind == UW_ANSWER_VALUES && !classes;
    *s = (struct uw_scores){.answers = answers, .numbers = malloc(n * sizeof(float))};
    s->class = classes ? calloc(k, sizeof *s->class) : NULL;
    s->value = values ? calloc(n, sizeof *s->value) : NULL;
    bool pairs = classes && k <= UW_SCORES_PAIRS_MAX;
    s->pairs = pairs ? calloc(k * k, sizeof *s->pairs) : NULL;
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

static void add_class(struct uw_scores *s, uint32_t label, uint32_t class)
{
    s->judged_n++;
    s->class[label].samples_n++;
    s->class[class].answers_n++;
    if (class == label) {
        s->class[class].right_n++;
        s->right_n++;
    }
    if (s->pairs != NULL) {
        s->pairs[(size_t)label * s->answers->classes_n + class]++;
    }
}

static void add_values(struct uw_scores *s, const float *target)
{
    for (uint32_t i = 0; i < s->answers->numbers_n; i++) {
        struct uw_scores_value *v = &s->value[i];
        double t = (double)uw_answers_value(s->answers, i, target[i]);
        double d = (double)s->numbers[i] - t, before = t - v->mean;
        v->mean += before / (double)s->samples_n;
        v->spread += before * (t - v->mean);
        v->squared += d * d;
        v->absolute += fabs(d);
    }
}

/* Remember a number for the ROC curve. */
static int add_ranked(struct uw_scores *s, float number, uint32_t label, struct uw_error *err)
{
    size_t at = s->errors_n;
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
    s->errors_n++;
    s->error[at] = number;
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

/* The values beside sample i; NULL: it has none. */
static const float *target_of(const struct uw_scores *s, const struct uw_minibatch *b, uint32_t i)
{
    return uw_answers_target(s->answers, b->target, i);
}

static uint32_t label_of(const struct uw_scores *s, const struct uw_minibatch *b, uint32_t i)
{
    return uw_answers_label(s->answers, b->label != NULL ? b->label[i] : 0, target_of(s, b, i));
}

static int refuse_label(const struct uw_scores *s, double label, struct uw_error *err)
{
    return uw_error_set(err, UW_ERR_INVALID, "label %g: the model has %u classes", label,
                        (unsigned)s->answers->classes_n);
}

static int check_labels(const struct uw_scores *s, const struct uw_minibatch *b,
                        struct uw_error *err)
{
    bool mask = s->answers->kind == UW_ANSWER_MASK, one = s->answers->kind == UW_ANSWER_CLASS;
    for (uint32_t i = 0; i < b->n && one; i++) {
        uint32_t label = label_of(s, b, i);
        if (label != UW_ANSWER_NO_LABEL && label >= s->answers->classes_n) {
            return refuse_label(s, label, err);
        }
    }
    for (uint32_t i = 0; i < b->n && mask; i++) {
        const float *t = target_of(s, b, i);
        for (uint32_t k = 0; k < s->answers->numbers_n; k++) {
            if (!(t[k] < (float)s->answers->classes_n) || (t[k] >= 0.0f && t[k] != floorf(t[k]))) {
                return refuse_label(s, (double)t[k], err);
            }
        }
    }
    return UW_OK;
}

/* A class for each position, or the probability that it is 1. */
static void add_positions(struct uw_scores *s, const float *target)
{
    if (s->answers->kind == UW_ANSWER_VALUES) {
        for (uint32_t k = 0; k < s->answers->numbers_n; k++) {
            add_class(s, target[k] > 0.5f, s->numbers[k] > 0.5f);
        }
        return;
    }
    for (uint32_t k = 0; k < s->answers->numbers_n; k++) {
        if (target[k] >= 0.0f) {
            add_class(s, (uint32_t)target[k], (uint32_t)s->numbers[k]);
        }
    }
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
        if (a->kind != UW_ANSWER_CLASS && s->class != NULL) {
            add_positions(s, target_of(s, b, i));
        } else if (s->class != NULL && label_of(s, b, i) != UW_ANSWER_NO_LABEL) {
            uint32_t label = label_of(s, b, i);
            add_class(s, label, uw_answers_class(a, s->numbers));
            rc = a->numbers_n == 2 ? add_ranked(s, s->numbers[1], label, err) : UW_OK;
        } else if (s->value != NULL) {
            add_values(s, target_of(s, b, i));
        } else if (s->class == NULL) {
            rc = add_ranked(s, s->numbers[0], b->label != NULL ? b->label[i] : 0, err);
        }
    }
    if (rc == UW_OK) {
        s->loss_sum += uw_answers_loss(a, b->n, out, b->x, b->label, b->target, s->room);
    }
    return rc;
}

int uw_scores_run(struct uw_scores *s, struct uw_job *job, struct uw_dataset *data,
                  bool (*stop)(void *), void *arg, struct uw_error *err)
{
    struct uw_model *m = &job->model;
    struct uw_loader loader;
    int rc = uw_loader_init(&loader, &(struct uw_loader_config){.dataset = data,
                                                                .batch_n = job->config.batch_n,
                                                                .no_shuffle = true});
    while (rc >= 0 && loader.epoch == 0) {
        const float *out;
        if (stop != NULL && stop(arg)) {
            return UW_ERR_AGAIN;
        }
        float *target = job->compares_nothing ? NULL : uw_job_target(m);
        rc = uw_loader_next(&loader, m->input, m->label, target);
        const struct uw_minibatch b = {.x = m->input, .label = m->label,
                                       .target = target,
                                       .n = rc > 0 ? (uint32_t)rc : 0};
        rc = rc < 0 ? rc : uw_model_forward(m, m->input, b.n, &out);
        if (rc >= 0 && job->compares_nothing) {
            s->samples_n += b.n;
        } else {
            rc = rc < 0 ? rc : uw_scores_add(s, out, &b, err);
        }
    }
    return rc < 0 ? rc : UW_OK;
}

/* ---- figures ---- */

double uw_scores_accuracy(const struct uw_scores *s)
{
    return s->judged_n != 0 ? (double)s->right_n / (double)s->judged_n : 0.0;
}

double uw_scores_loss(const struct uw_scores *s)
{
    bool each = s->answers->kind == UW_ANSWER_MASK || s->answers->kind == UW_ANSWER_CLASS;
    uint64_t n = each ? s->judged_n : s->samples_n;     /* those that count */
    return n != 0 ? s->loss_sum / (double)n : 0.0;
}

/* a / b; NAN where b is 0. */
static double share(uint64_t a, uint64_t b)
{
    return b != 0 ? (double)a / (double)b : (double)NAN;
}

struct uw_scores_figures uw_scores_of_class(const struct uw_scores_class *c)
{
    return (struct uw_scores_figures){.precision = share(c->right_n, c->answers_n),
                            .recall = share(c->right_n, c->samples_n),
                            .f1 = share(2 * c->right_n, c->answers_n + c->samples_n),
                            .iou = share(c->right_n,
                                         c->answers_n + c->samples_n - c->right_n)};
}

struct uw_scores_figures uw_scores_means(const struct uw_scores *s)
{
    struct uw_scores_figures sum = {0.0, 0.0, 0.0, 0.0};
    uint32_t n = 0;
    for (uint32_t c = 0; c < s->answers->classes_n; c++) {
        if (s->class[c].samples_n != 0) {
            struct uw_scores_figures f = uw_scores_of_class(&s->class[c]);
            sum.precision += isnan(f.precision) ? 0.0 : f.precision;
            sum.recall += f.recall;
            sum.f1 += f.f1;
            sum.iou += f.iou;
            n++;
        }
    }
    return (struct uw_scores_figures){sum.precision / n, sum.recall / n, sum.f1 / n,
                                      sum.iou / n};
}

double uw_scores_r2(const struct uw_scores_value *v)
{
    return v->spread > 0.0 ? 1.0 - v->squared / v->spread : (double)NAN;
}

struct uw_scores_values uw_scores_values(const struct uw_scores *s)
{
    struct uw_scores_values f = {0.0, 0.0, 0.0};
    uint32_t n = s->answers->numbers_n;
    for (uint32_t i = 0; i < n; i++) {
        f.mae += s->value[i].absolute / n;
        f.rmse += s->value[i].squared / n;
        f.r2 += uw_scores_r2(&s->value[i]) / n;
    }
    f.mae /= (double)s->samples_n;
    f.rmse = sqrt(f.rmse / (double)s->samples_n);
    return f;
}

/* ---- errors ---- */

struct ranked {
    float error;
    uint32_t label;
};

static int by_error(const void *a, const void *b)
{
    float x = ((const struct ranked *)a)->error, y = ((const struct ranked *)b)->error;
    return (x > y) - (x < y);
}

/* The errors in order with their labels; NULL: there are none, or no memory. */
static struct ranked *rank(const struct uw_scores *s)
{
    size_t n = s->errors_n;
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
    size_t n = s->errors_n;
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

void uw_scores_judge(const struct uw_scores *s, struct uw_scores_class of[2])
{
    memset(of, 0, 2 * sizeof *of);
    for (size_t i = 0; i < s->errors_n; i++) {
        uint32_t label = s->label[i] != 0, found = !(s->error[i] <= s->threshold);
        of[label].samples_n++;
        of[found].answers_n++;
        of[label].right_n += label == found;
    }
}
