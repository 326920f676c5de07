/* SPDX-License-Identifier: Apache-2.0 */
#include "sets.h"

#include "uwasa/status.h"

#include <stdlib.h>
#include <string.h>

static int read_turned(struct uw_dataset *base, uint64_t index, float *x, uint32_t *label)
{
    struct uw_dataset *inner = ((struct uw_turned *)base)->inner;
    size_t channels = inner->channels, plane = (size_t)inner->height * inner->width;
    float *copy = malloc(channels * plane * sizeof *copy);  /* several threads may read */
    int rc = copy != NULL ? inner->ops->read(inner, index, copy, label) : UW_ERR_NOMEM;
    for (size_t i = 0; i < plane && rc == UW_OK; i++) {
        for (size_t c = 0; c < channels; c++) {
            x[i * channels + c] = copy[c * plane + i];
        }
    }
    free(copy);
    return rc;
}

static int read_turned_target(struct uw_dataset *base, uint64_t index, float *target)
{
    struct uw_dataset *inner = ((struct uw_turned *)base)->inner;
    return inner->ops->read_target(inner, index, target);
}

static const struct uw_dataset_ops turned_ops = {
    .name = "turned", .read = read_turned, .read_target = read_turned_target};

void uw_turned_init(struct uw_turned *d, struct uw_dataset *inner)
{
    *d = (struct uw_turned){.base = *inner, .inner = inner};
    d->base.ops = &turned_ops;
    d->base.channels = inner->height;
    d->base.height = inner->width;
    d->base.width = inner->channels;
}
