/* SPDX-License-Identifier: Apache-2.0 */
#include "train.h"

#include <stdlib.h>
#include <string.h>

/* "flip", "crop:4", "flip,crop:4" */
static int read_augment(const char *text, struct uw_data_config *config, struct uw_error *err)
{
    const char *rest = text;
    char *end;

    if (text == NULL) {
        return UW_OK;
    }
    if (strncmp(rest, "flip", 4) == 0 && (rest[4] == ',' || rest[4] == '\0')) {
        config->flip = true;
        rest += rest[4] == ',' ? 5 : 4;
    }
    if (strncmp(rest, "crop:", 5) == 0 && rest[5] >= '1' && rest[5] <= '9') {
        unsigned long n = strtoul(rest + 5, &end, 10);
        config->crop = n <= 1024 ? (uint32_t)n : 0;
        rest = config->crop != 0 ? end : rest;
    }
    if (*rest != '\0' || (!config->flip && config->crop == 0)) {
        return uw_error_set(err, UW_ERR_INVALID,
                            "--augment %.60s: needs flip, crop:N or flip,crop:N, N from 1 to 1024",
                            text);
    }
    return UW_OK;
}

int uw_train_open_data(struct uw_train *t)
{
    const struct uw_train_options *o = t->o;
    const struct uw_model_def *def = &t->job.file.def;
    struct uw_data_config config = {.seed = o->seed, .channels = def->in_channels,
                                    .height = def->in_h, .width = def->in_w};
    int rc = read_augment(o->augment, &config, &t->err);
    rc = rc < 0 ? rc : uw_data_open(&t->data, o->data, &config, &t->err);
    if (rc == UW_OK) {
        rc = uw_data_open(&t->test, o->data,
                          &(struct uw_data_config){.seed = o->seed, .test = true}, &t->err);
    }
    if (rc == UW_OK) {
        rc = uw_job_check_data(&t->job, t->data.base, o->data, &t->err);
    }
    if (rc == UW_OK) {
        rc = uw_loader_init(&t->loader, &(struct uw_loader_config){.dataset = t->data.base,
                                                                   .batch_n = o->batch,
                                                                   .seed = o->seed,
                                                                   .no_shuffle = o->no_shuffle});
    }
    if (rc < 0) {
        return rc;
    }
    uint64_t per_epoch = ((uint64_t)t->data.base->samples_n + o->batch - 1u) / o->batch;
    t->steps = o->steps != 0 ? o->steps : per_epoch * (o->epochs != 0 ? o->epochs : 1u);
    return UW_OK;
}
