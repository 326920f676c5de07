/* SPDX-License-Identifier: Apache-2.0 */
#include "answer.h"

#include "uwasa/backends.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static enum uw_loss_kind kind_of(const struct uw_answers *a)
{
    return a->loss != NULL ? a->loss->kind : UW_LOSS_CROSS_ENTROPY;
}

static enum uw_target_kind target_of(const struct uw_answers *a)
{
    return a->loss != NULL ? a->loss->target : UW_TARGET_LABEL;
}

/* Whether one output stands for two classes. */
static bool is_pair(const struct uw_answers *a)
{
    return a->outputs_n == 1 && kind_of(a) == UW_LOSS_BINARY_CROSS_ENTROPY &&
           target_of(a) != UW_TARGET_INPUT;
}

/* Whether the targets are classes, of one position or many. */
static bool has_positions(const struct uw_answers *a)
{
    return kind_of(a) == UW_LOSS_CROSS_ENTROPY && target_of(a) == UW_TARGET_VALUES;
}

void uw_answers_init(struct uw_answers *a, const struct uw_job *j)
{
    const struct uw_model_def *d = &j->file.def;
    const struct uw_kernels *k = j->config.kernels;
    *a = (struct uw_answers){.loss = d->losses,
                             .kernels = k->device == NULL ? k : uw_kernels_find("ref"),
                             .outputs_n = j->model.classes,
                             .input_n = j->model.input_n, .target_n = j->model.target_n};
    uint32_t positions_n = has_positions(a) ? uw_model_positions(&j->model) : 1;
    a->weight = a->loss == NULL || a->loss->weight == 0.0f ? 1.0f : a->loss->weight;
    a->kind = positions_n > 1 ? UW_ANSWER_MASK
              : target_of(a) == UW_TARGET_LABEL || is_pair(a) || has_positions(a) ? UW_ANSWER_CLASS
              : target_of(a) == UW_TARGET_INPUT ? UW_ANSWER_ERROR
                                                : UW_ANSWER_VALUES;
    a->probabilities = a->kind != UW_ANSWER_ERROR && a->kind != UW_ANSWER_MASK &&
                       (kind_of(a) == UW_LOSS_CROSS_ENTROPY ||
                        kind_of(a) == UW_LOSS_BINARY_CROSS_ENTROPY);
    a->numbers_n = a->kind == UW_ANSWER_ERROR  ? 1u
                   : a->kind == UW_ANSWER_MASK ? positions_n
                   : is_pair(a)                ? 2u
                                               : a->outputs_n;
    a->classes_n = a->kind == UW_ANSWER_CLASS  ? a->numbers_n
                   : a->kind == UW_ANSWER_MASK ? a->outputs_n / positions_n
                   : a->kind == UW_ANSWER_VALUES && a->probabilities ? 2u : 0;
}

const char *const *uw_answers_names(const struct uw_answers *a, const struct uw_data_columns *c)
{
    bool fits = a->classes_n != 0 && c->classes != NULL && c->classes_n == a->classes_n;
    return fits ? (const char *const *)c->classes : NULL;
}

void uw_answers_take(struct uw_answers *a, const struct uw_data_columns *c)
{
    if (c == NULL) {
        return;
    }
    a->names = uw_answers_names(a, c);
    bool scaled = a->kind == UW_ANSWER_VALUES && !a->probabilities && c->target_mean != NULL &&
                  c->targets_n == a->numbers_n;
    a->mean = scaled ? c->target_mean : NULL;
    a->inverse = scaled ? c->target_inverse : NULL;
}

/* Of n numbers, `stride` apart in z and in p. */
static void softmax(uint32_t n, size_t stride, const float *z, float *p)
{
    double max = (double)z[0], sum = 0.0;
    for (uint32_t i = 1; i < n; i++) {
        max = (double)z[i * stride] > max ? (double)z[i * stride] : max;
    }
    for (uint32_t i = 0; i < n; i++) {
        sum += exp((double)z[i * stride] - max);
    }
    for (uint32_t i = 0; i < n; i++) {
        p[i * stride] = (float)(exp((double)z[i * stride] - max) / sum);
    }
}

static float sigmoid(float z)
{
    return (float)(1.0 / (1.0 + exp(-(double)z)));
}

/* Where the logits of a position are, and how far apart. */
static const float *position_of(const struct uw_answers *a, const float *out, uint32_t k,
                                size_t *stride)
{
    *stride = a->loss->classes_last ? 1 : a->numbers_n;
    return out + (a->loss->classes_last ? (size_t)k * a->classes_n : k);
}

static void classes_of_positions(const struct uw_answers *a, const float *out, float *numbers)
{
    for (uint32_t k = 0; k < a->numbers_n; k++) {
        size_t stride;
        const float *z = position_of(a, out, k, &stride);
        uint32_t top = 0;
        for (uint32_t c = 1; c < a->classes_n; c++) {
            top = z[c * stride] > z[top * stride] ? c : top;
        }
        numbers[k] = (float)top;
    }
}

void uw_answers_probabilities(const struct uw_answers *a, const float *out, float *p)
{
    for (uint32_t k = 0; k < a->numbers_n; k++) {
        size_t stride;
        const float *z = position_of(a, out, k, &stride);
        softmax(a->classes_n, stride, z, p + (z - out));
    }
}

/* The loss of position k, which has that class. */
static double position_loss(const struct uw_answers *a, const float *out, uint32_t k,
                            uint32_t class)
{
    size_t stride;
    const float *z = position_of(a, out, k, &stride);
    double smoothing = (double)a->loss->label_smoothing, total = 0.0, mean = 0.0;
    float max = z[0];
    for (uint32_t c = 1; c < a->classes_n; c++) {
        max = z[c * stride] > max ? z[c * stride] : max;
    }
    for (uint32_t c = 0; c < a->classes_n; c++) {
        double down = (double)z[c * stride] - (double)max;
        total += exp(down);
        mean += down / a->classes_n;
    }
    double own = (double)z[class * stride] - (double)max;
    return log(total) - (1.0 - smoothing) * own - smoothing * mean;
}

/* Sum of the losses of the positions that count. */
static double mask_loss(const struct uw_answers *a, const float *out, const float *target)
{
    double sum = 0.0;
    for (uint32_t k = 0; k < a->numbers_n; k++) {
        sum += target[k] >= 0.0f ? position_loss(a, out, k, (uint32_t)target[k]) : 0.0;
    }
    return (double)a->weight * sum;
}

/* Loss between n outputs and n targets, their mean. */
static double elementwise(const struct uw_answers *a, const float *out, const float *target)
{
    static const enum uw_elementwise_loss kinds[] = {
        [UW_LOSS_BINARY_CROSS_ENTROPY] = UW_ELEMENTWISE_BCE, [UW_LOSS_MSE] = UW_ELEMENTWISE_MSE,
        [UW_LOSS_L1] = UW_ELEMENTWISE_L1, [UW_LOSS_HUBER] = UW_ELEMENTWISE_HUBER};
    const struct uw_exec exec = {.kernels = a->kernels};
    float delta = a->loss->delta != 0.0f ? a->loss->delta : 1.0f;
    double sum = 0.0;
    a->kernels->loss->forward(&exec, kinds[a->loss->kind], delta, a->outputs_n, out, target, &sum);
    return (double)a->weight * sum / a->outputs_n;
}

void uw_answers_read(const struct uw_answers *a, const float *out, const float *x, float *numbers)
{
    if (a->kind == UW_ANSWER_ERROR) {
        numbers[0] = (float)elementwise(a, out, x);
    } else if (a->kind == UW_ANSWER_MASK) {
        classes_of_positions(a, out, numbers);
    } else if (kind_of(a) == UW_LOSS_CROSS_ENTROPY) {
        softmax(a->outputs_n, 1, out, numbers);
    } else if (is_pair(a)) {
        numbers[0] = sigmoid(-out[0]);
        numbers[1] = sigmoid(out[0]);
    } else {
        for (uint32_t i = 0; i < a->outputs_n; i++) {
            numbers[i] = a->probabilities ? sigmoid(out[i]) : uw_answers_value(a, i, out[i]);
        }
    }
}

#define FORM_PROBABILITIES 0x100u

uint32_t uw_answers_form(const struct uw_answers *a)
{
    return (uint32_t)a->kind | (a->probabilities ? FORM_PROBABILITIES : 0);
}

int uw_answers_told(struct uw_answers *a, uint32_t form, uint32_t numbers_n)
{
    uint32_t kind = form & ~FORM_PROBABILITIES;
    *a = (struct uw_answers){.kind = (enum uw_answer_kind)kind, .numbers_n = numbers_n,
                             .classes_n = kind == UW_ANSWER_CLASS ? numbers_n : 0,
                             .probabilities = (form & FORM_PROBABILITIES) != 0};
    return kind <= UW_ANSWER_MASK ? UW_OK : UW_ERR_UNSUPPORTED;
}

uint32_t uw_answers_class(const struct uw_answers *a, const float *numbers)
{
    uint32_t top = 0;
    for (uint32_t i = 1; i < a->numbers_n; i++) {
        top = numbers[i] > numbers[top] ? i : top;
    }
    return top;
}

void uw_answers_top(const struct uw_answers *a, const float *numbers, uint32_t n, uint32_t *top)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < a->numbers_n; i++) {
        uint32_t at = found < n ? found++ : n;
        for (; at > 0 && numbers[i] > numbers[top[at - 1]]; at--) {
            if (at < n) {
                top[at] = top[at - 1];
            }
        }
        if (at < n) {
            top[at] = i;
        }
    }
}

uint32_t uw_answers_label(const struct uw_answers *a, uint32_t label, const float *target)
{
    if (target == NULL || !(is_pair(a) || has_positions(a))) {
        return label;
    }
    return is_pair(a)           ? target[0] > 0.5f
           : target[0] >= 0.0f ? (uint32_t)target[0]
                               : UW_ANSWER_NO_LABEL;
}

const float *uw_answers_target(const struct uw_answers *a, const float *target, uint32_t i)
{
    size_t first = a->loss != NULL ? a->loss->first : 0;
    return target != NULL ? target + (size_t)i * a->target_n + first : NULL;
}

double uw_answers_loss(const struct uw_answers *a, uint32_t rows, const float *out, const float *x,
                       const uint32_t *label, const float *target, float *room)
{
    const struct uw_exec exec = {.kernels = a->kernels};
    float smoothing = a->loss != NULL ? a->loss->label_smoothing : 0.0f;
    double loss = 0.0;
    for (uint32_t i = 0; i < rows; i++, out += a->outputs_n) {
        const float *values = uw_answers_target(a, target, i);
        uint32_t own = a->kind == UW_ANSWER_CLASS
                           ? uw_answers_label(a, label != NULL ? label[i] : 0, values) : 0;
        double one = 0.0;
        uint32_t correct_n;
        if (own == UW_ANSWER_NO_LABEL) {
            continue;
        }
        if (a->kind == UW_ANSWER_MASK) {
            loss += mask_loss(a, out, values);
        } else if (kind_of(a) == UW_LOSS_CROSS_ENTROPY) {
            a->kernels->softmax_xent_fw(&exec, 1, a->outputs_n, smoothing, out, &own, room, &one,
                                        &correct_n);
            loss += (double)a->weight * one;
        } else if (target_of(a) == UW_TARGET_INPUT) {
            loss += elementwise(a, out, x + (size_t)i * a->input_n);
        } else if (target_of(a) == UW_TARGET_VALUES && values != NULL) {
            loss += elementwise(a, out, values);
        } else {
            memset(room, 0, a->outputs_n * sizeof *room);
            room[is_pair(a) ? 0 : own] = is_pair(a) ? (float)own : 1.0f;
            loss += elementwise(a, out, room);
        }
    }
    return loss;
}

const char *uw_answers_name(const struct uw_answers *a, uint32_t class,
                            char text[UW_ANSWER_TEXT_BYTES])
{
    if (a->names != NULL) {
        return a->names[class];
    }
    snprintf(text, UW_ANSWER_TEXT_BYTES, "%u", (unsigned)class);
    return text;
}
