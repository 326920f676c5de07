/* SPDX-License-Identifier: Apache-2.0 */
#include "job_check.h"

#include "job_data.h"

#include <stdio.h>
#include <string.h>

/* Whether two shapes are equal but for axes of 1: [28][28][1] has the numbers of [1][28][28]. */
static bool same_axes(const uint32_t a[3], const uint32_t b[3])
{
    uint32_t x[3] = {1, 1, 1}, y[3] = {1, 1, 1};
    for (uint32_t i = 0, n = 0, k = 0; i < 3; i++) {
        if (a[i] != 1) {
            x[n++] = a[i];
        }
        if (b[i] != 1) {
            y[k++] = b[i];
        }
    }
    return memcmp(x, y, sizeof x) == 0;
}

/* Whether the model takes samples of that shape: as they are, flattened, or row by row. */
static bool takes(const struct uw_job *j, uint32_t channels, uint32_t height, uint32_t width)
{
    const struct uw_model_def *d = &j->file.def;
    uint32_t h = d->in_h != 0 ? d->in_h : 1, w = d->in_w != 0 ? d->in_w : 1;
    const uint32_t mine[3] = {d->in_channels, h, w}, its[3] = {channels, height, width};
    bool same = same_axes(mine, its);
    bool flat = (h == 1 && w == 1) || (height == 1 && width == 1);
    bool sequence = d->in_h == 0 && d->in_w != 0 && channels == 1 && height == d->in_channels &&
                    width == d->in_w;
    return same || sequence || (flat && j->need.input_n == (uint64_t)channels * height * width);
}

/* Data that the model takes, in the form of --data. */
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
    uint32_t values_n = j->compares_nothing ? 0 : j->need.target_n;
    if (values_n > 1 && data->targets_n == 0) {
        return uw_error_set(err, UW_ERR_MISMATCH,
                            "model %.40s: a loss with \"target\": \"values\" needs values "
                            "beside each sample, data %.80s has labels",
                            d->name, spec);
    }
    if (values_n != 0 && data->targets_n != 0 && data->targets_n != values_n) {
        bool mask = !uw_job_has_logits(j) && j->need.classes % data->targets_n == 0;
        return mask ? uw_error_set(err, UW_ERR_MISMATCH,
                                   "model %.40s computes %u values, data %.50s has %u beside each "
                                   "sample; as a mask it needs whole numbers from 0 to %u, or "
                                   "below 0 where a place does not count", d->name,
                                   (unsigned)values_n, spec, (unsigned)data->targets_n,
                                   (unsigned)(j->need.classes / data->targets_n) - 1u)
                    : uw_error_set(err, UW_ERR_MISMATCH,
                                   "model %.40s computes %u values, data %.60s has %u beside each "
                                   "sample%s",
                                   d->name, (unsigned)values_n, spec, (unsigned)data->targets_n,
                                   strncmp(spec, "arrays", 6) == 0
                                       ? "" : ": csv:FILE,target=A+B names their columns");
    }
    bool labels = d->losses == NULL || d->losses[0].target == UW_TARGET_LABEL;
    if (labels && data->targets_n != 0) {
        return uw_error_set(err, UW_ERR_MISMATCH,
                            "model %.40s tells classes apart, data %.60s has values: --loss mse "
                            "trains on them, csv:FILE,label=NAME names a column of classes",
                            d->name, spec);
    }
    if (labels && j->need.classes < data->classes) {
        return uw_error_set(err, UW_ERR_MISMATCH,
                            "model %.40s has %u classes, data %.80s has labels up to %u: its last "
                            "layer needs more outputs",
                            d->name, (unsigned)j->need.classes, spec,
                            (unsigned)data->classes - 1u);
    }
    return UW_OK;
}
