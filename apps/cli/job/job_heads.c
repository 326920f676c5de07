/* SPDX-License-Identifier: Apache-2.0 */
#include "job_heads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool uw_job_wants_each(const struct uw_job *j, struct uw_choice loss)
{
    return (loss.word != NULL && strchr(loss.word, ',') != NULL) ||
           (j->loss_is_open && j->onnx.outputs_n > 1);
}

bool uw_job_words_fit(const struct uw_job *j, struct uw_choice loss)
{
    uint32_t n = 1;
    for (const char *more = loss.word; more != NULL && (more = strchr(more, ',')) != NULL; more++) {
        n++;
    }
    return n == 1 || n == j->onnx.outputs_n;
}

/* Whether the classes of output i are usually along its last axis: a softmax at its end says so;
 * otherwise those of [tokens][classes] are, and those of [classes][h][w] are not. */
static bool has_classes_last(const struct uw_job *j, uint32_t i)
{
    const struct uw_convert_end *end = &j->onnx.output[i];
    if (i >= j->onnx.outputs_n) {
        return false;
    }
    int64_t axis = end->axis < 0 ? end->axis + end->rank : end->axis;
    return end->left_out != NULL ? axis + 1 == (int64_t)end->rank : end->rank == 3;
}

static void set_positions(struct uw_job *j, bool classes_last)
{
    j->losses[0] = (struct uw_loss_def){.kind = UW_LOSS_CROSS_ENTROPY,
                                        .target = UW_TARGET_VALUES, .classes_last = classes_last,
                                        .label_smoothing = j->smoothing};
    j->file.def.losses = j->losses;
    j->file.def.losses_n = 1;
}

int uw_job_set_positions(struct uw_job *j, uint32_t targets_n, const char *spec,
                         struct uw_error *err)
{
    bool last = has_classes_last(j, 0);
    for (int turn = 0; turn < 2; turn++) {
        set_positions(j, turn == 0 ? last : !last);
        int rc = uw_job_measure(j, &j->config, &j->need, err);
        if (rc < 0 || targets_n == 0 || targets_n == j->need.target_n) {
            return rc;
        }
    }
    return uw_error_set(err, UW_ERR_MISMATCH, "model %.40s has %u outputs, data %.60s %u values "
                        "beside each sample: --loss cross_entropy needs a class for each position, "
                        "a mask as large as the output without its axis of classes, as argmax "
                        "over that axis makes of a one-hot one",
                        j->file.def.name, (unsigned)j->need.classes, spec, (unsigned)targets_n);
}

bool uw_job_values_are_classes(const struct uw_job *j, struct uw_dataset *data)
{
    uint32_t n = data->targets_n, classes = n != 0 ? j->need.classes / n : 0;
    float *t = classes > 1 && classes * n == j->need.classes ? malloc(n * sizeof *t) : NULL;
    bool good = t != NULL;
    for (uint32_t i = 0; good && i < data->samples_n; i++) {
        good = data->ops->read_target(data, i, t) == UW_OK;
        for (uint32_t k = 0; good && k < n; k++) {
            good = t[k] < (float)classes && t[k] == (float)(int32_t)t[k];
        }
    }
    free(t);
    return good;
}

/* Values beside a sample that output i takes. */
static uint32_t values_of(const struct uw_job *j, uint32_t i, enum uw_loss_kind kind)
{
    const struct uw_convert_end *end = &j->onnx.output[i];
    uint32_t n = 1, first = 0, last = 1;
    for (uint32_t a = 0; a < end->rank; a++) {
        if (a != end->batch) {
            n *= end->dim[a];
            first = first == 0 ? end->dim[a] : first;
            last = end->dim[a];
        }
    }
    uint32_t classes = has_classes_last(j, i) ? last : first;
    return kind == UW_LOSS_CROSS_ENTROPY && classes != 0 ? n / classes : n;
}

void uw_job_list_classes(const struct uw_job *j, uint32_t *classes)
{
    memset(classes, 0, j->need.target_n * sizeof *classes);
    for (uint32_t i = 0; i < j->file.def.losses_n && i < j->onnx.outputs_n; i++) {
        const struct uw_loss_def *l = &j->file.def.losses[i];
        bool own = l->kind == UW_LOSS_CROSS_ENTROPY && l->target == UW_TARGET_VALUES;
        uint32_t n = own ? values_of(j, i, UW_LOSS_CROSS_ENTROPY) : 0;
        for (uint32_t k = l->first; k < l->first + n && k < j->need.target_n; k++) {
            classes[k] = values_of(j, i, UW_LOSS_MSE) / n;
        }
    }
}

int uw_job_set_each(struct uw_job *j, struct uw_choice loss, struct uw_error *err)
{
    static const enum uw_loss_kind kinds[] = {
        [UW_LOSS_WORD_CROSS_ENTROPY] = UW_LOSS_CROSS_ENTROPY,
        [UW_LOSS_WORD_BINARY] = UW_LOSS_BINARY_CROSS_ENTROPY, [UW_LOSS_WORD_MSE] = UW_LOSS_MSE,
        [UW_LOSS_WORD_L1] = UW_LOSS_L1, [UW_LOSS_WORD_HUBER] = UW_LOSS_HUBER,
        [UW_LOSS_WORD_AUTOENCODER] = UW_LOSS_MSE};
    const char *words = loss.word != NULL ? loss.word : "auto";
    uint32_t n = 0, first = 0, outputs_n = j->onnx.outputs_n > 0 ? j->onnx.outputs_n : 1;
    int word;
    for (; (word = uw_words_find(UW_LOSS_WORDS, words, n)) > UW_LOSS_AUTO && n < j->onnx.outputs_n;
         n++) {
        struct uw_loss_def *l = &j->losses[n];
        bool itself = word == UW_LOSS_WORD_AUTOENCODER;
        *l = (struct uw_loss_def){
            .layer = j->onnx.def.losses != NULL ? j->onnx.def.losses[n].layer : NULL,
            .kind = kinds[word], .target = itself ? UW_TARGET_INPUT : UW_TARGET_VALUES,
            .classes_last = has_classes_last(j, n), .first = itself ? 0 : first};
        first += itself ? 0 : values_of(j, n, l->kind);
    }
    j->file.def.losses = j->losses;
    j->file.def.losses_n = n;
    j->each_loss = word == UW_WORDS_END && n == j->onnx.outputs_n;
    if (j->each_loss) {
        return UW_OK;
    }
    return outputs_n > 1
               ? uw_error_set(err, UW_ERR_INVALID, "--loss %.60s: model %.60s has %u outputs and "
                              "wants a loss for each, as --loss cross_entropy,mse", words,
                              j->file.def.name, (unsigned)outputs_n)
               : uw_error_set(err, UW_ERR_INVALID, "--loss %.60s: several words are for several "
                              "outputs of an ONNX file, --output A,B; model %.60s has one", words,
                              j->file.def.name);
}
