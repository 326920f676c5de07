/* SPDX-License-Identifier: Apache-2.0
 *
 * Which data a model takes. */
#include "job.h"

#include <stdio.h>

bool uw_job_has_labels(const struct uw_model_def *d)
{
    return d->losses == NULL || d->losses[0].target == UW_TARGET_LABEL;
}

/* Does the model take samples of that shape: as they are, in a row, or row by row? */
static bool takes(const struct uw_job *j, uint32_t channels, uint32_t height, uint32_t width)
{
    const struct uw_model_def *d = &j->file.def;
    uint32_t h = d->in_h != 0 ? d->in_h : 1, w = d->in_w != 0 ? d->in_w : 1;
    bool same = d->in_channels == channels && h == height && w == width;
    bool flat = (h == 1 && w == 1) || (height == 1 && width == 1);
    bool sequence = d->in_h == 0 && d->in_w != 0 && channels == 1 && height == d->in_channels &&
                    width == d->in_w;
    return same || sequence || (flat && j->need.input_n == (uint64_t)channels * height * width);
}

/* Data that the model takes, as --data has it. */
static const char *fitting(const struct uw_job *j, char text[64])
{
    static const struct {
        const char *data;
        uint32_t channels, height, width;
    } known[] = {{"digits or mnist:DIR", 1, 28, 28},
                 {"keywords", 1, 49, 10},
                 {"cifar10:DIR", 3, 32, 32}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (takes(j, known[i].channels, known[i].height, known[i].width)) {
            return known[i].data;
        }
    }
    snprintf(text, 64, "csv:FILE of %llu numbers and a label a line",
             (unsigned long long)j->need.input_n);
    return text;
}

int uw_job_check_data(const struct uw_job *j, const struct uw_dataset *data, const char *spec,
                      struct uw_error *err)
{
    const struct uw_model_def *d = &j->file.def;
    if (!takes(j, data->channels, data->height, data->width)) {
        char text[64];
        return uw_error_set(err, UW_ERR_MISMATCH,
                            "model %.40s takes %ux%ux%u samples, data %.60s has %ux%ux%u: "
                            "--data %s fits",
                            d->name, (unsigned)d->in_channels,
                            (unsigned)(d->in_h != 0 ? d->in_h : 1),
                            (unsigned)(d->in_w != 0 ? d->in_w : 1), spec,
                            (unsigned)data->channels, (unsigned)data->height,
                            (unsigned)data->width, fitting(j, text));
    }
    for (uint32_t i = 0; i < d->losses_n; i++) {
        if (d->losses[i].target == UW_TARGET_VALUES) {
            return uw_error_set(err, UW_ERR_MISMATCH,
                                "model %.40s: a loss with \"target\": \"values\" needs values "
                                "beside each sample, data %.80s has labels",
                                d->name, spec);
        }
    }
    if (uw_job_has_labels(d) && j->need.classes < data->classes) {
        return uw_error_set(err, UW_ERR_MISMATCH,
                            "model %.40s tells %u classes apart, data %.80s has labels up to %u: "
                            "its last layer needs more outputs",
                            d->name, (unsigned)j->need.classes, spec,
                            (unsigned)data->classes - 1u);
    }
    return UW_OK;
}
