/* SPDX-License-Identifier: Apache-2.0 */
#include "predict.h"

#include <stdio.h>

bool uw_predict_has_classes(const struct uw_predict *p)
{
    return p->answers.kind == UW_ANSWER_CLASS;
}

static bool is_anomaly(const struct uw_predict *p)
{
    return !(p->numbers[0] <= p->threshold);
}

static void print_answer(const struct uw_predict *p)
{
    const struct uw_answers *a = &p->answers;
    const char *number = a->probabilities ? "%s%.4f" : "%s%.6g", *gap = "";
    char name[UW_ANSWER_TEXT_BYTES];
    uint32_t tops = uw_predict_has_classes(p) ? p->o->top : 0;
    for (uint32_t i = 0; i < tops; i++) {
        printf("%s%s", gap, uw_answers_name(a, p->top[i], name));
        gap = "\t";
        printf(number, gap, (double)p->numbers[p->top[i]]);
    }
    for (uint32_t i = 0; i < a->numbers_n && (tops == 0 || p->o->probabilities); i++) {
        if (a->kind == UW_ANSWER_MASK) {
            printf("%s%s", gap, uw_answers_name(a, (uint32_t)p->numbers[i], name));
        } else {
            printf(number, gap, (double)p->numbers[i]);
        }
        gap = "\t";
    }
    for (uint32_t i = 0; p->each != NULL && i < a->outputs_n; i++) {
        printf("\t%.4f", (double)p->each[i]);
    }
    if (p->threshold > 0.0f) {
        printf("\t%s", is_anomaly(p) ? "anomaly" : "normal");
    }
    putchar('\n');
}

static void add_class(const struct uw_predict *p, cJSON *to, uint32_t class)
{
    const char *score = p->answers.probabilities ? "probability" : "value";
    cJSON_AddNumberToObject(to, "class", class);
    if (p->answers.names != NULL) {
        cJSON_AddStringToObject(to, "name", p->answers.names[class]);
    }
    uw_event_float(to, score, p->numbers[class]);
}

static void add_floats(cJSON *ev, const char *key, const float *x, uint32_t n)
{
    cJSON *list = cJSON_AddArrayToObject(ev, key);
    for (uint32_t i = 0; i < n; i++) {
        cJSON *one = cJSON_CreateObject();      /* of one member, for its few digits */
        uw_event_float(one, "n", x[i]);
        cJSON_AddItemToArray(list, cJSON_DetachItemFromObject(one, "n"));
        cJSON_Delete(one);
    }
}

static void add_numbers(const struct uw_predict *p, cJSON *ev, const char *key)
{
    add_floats(ev, key, p->numbers, p->answers.numbers_n);
}

static void put_answer(struct uw_predict *p, const uint32_t *label)
{
    const struct uw_answers *a = &p->answers;
    cJSON *ev = uw_event("answer");
    cJSON_AddNumberToObject(ev, "sample", (double)p->samples);
    if (label != NULL) {
        cJSON_AddNumberToObject(ev, "label", *label);
    }
    if (uw_predict_has_classes(p)) {
        add_class(p, ev, p->top[0]);
        cJSON *list = p->o->top > 1 ? cJSON_AddArrayToObject(ev, "top") : NULL;
        for (uint32_t i = 0; list != NULL && i < p->o->top; i++) {
            cJSON *one = cJSON_CreateObject();
            add_class(p, one, p->top[i]);
            cJSON_AddItemToArray(list, one);
        }
        if (p->o->probabilities) {
            add_numbers(p, ev, a->probabilities ? "probabilities" : "values");
        }
    } else if (a->kind == UW_ANSWER_VALUES) {
        add_numbers(p, ev, a->probabilities ? "probabilities" : "values");
    } else if (a->kind == UW_ANSWER_MASK) {
        add_numbers(p, ev, "classes");
        if (p->each != NULL) {
            add_floats(ev, "probabilities", p->each, a->outputs_n);
        }
    } else {
        uw_event_float(ev, "error", p->numbers[0]);
        if (p->threshold > 0.0f) {
            cJSON_AddBoolToObject(ev, "anomaly", is_anomaly(p));
        }
    }
    uw_events_put(&p->events, ev);
}

void uw_predict_say(struct uw_predict *p, const uint32_t *label)
{
    if (uw_predict_has_classes(p)) {
        uw_answers_top(&p->answers, p->numbers, p->o->top, p->top);
    }
    p->samples++;
    if (p->events.file != NULL) {
        put_answer(p, label);
    }
    if (p->array.file != NULL) {
        uw_predict_array_add(&p->array, p->each != NULL ? p->each : p->numbers);
    } else if (!uw_events_take_stdout(&p->events)) {
        print_answer(p);
    }
}
