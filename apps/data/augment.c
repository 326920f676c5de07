/* SPDX-License-Identifier: Apache-2.0 */
#include "sets.h"

#include "uwasa/rng.h"
#include "uwasa/status.h"

#include <string.h>

/* Row `from` moved by dx into row `to` of the same plane; a row outside is zeros. */
static void move_row(float *plane, uint32_t height, uint32_t width, int64_t from, uint32_t to,
                     int32_t dx)
{
    float *y = plane + (size_t)to * width;
    uint32_t gap = (uint32_t)(dx < 0 ? -dx : dx);

    if (from < 0 || from >= height || gap >= width) {
        memset(y, 0, width * sizeof *y);
        return;
    }
    const float *x = plane + (size_t)from * width;
    memmove(y + (dx > 0 ? gap : 0), x + (dx < 0 ? gap : 0), (width - gap) * sizeof *y);
    memset(y + (dx > 0 ? 0 : width - gap), 0, gap * sizeof *y);
}

/* Shift in place: the order of rows ensures that none is overwritten before it is moved. */
static void shift(float *plane, uint32_t height, uint32_t width, int32_t dy, int32_t dx)
{
    for (uint32_t i = 0; i < height; i++) {
        uint32_t row = dy > 0 ? height - 1 - i : i;
        move_row(plane, height, width, (int64_t)row - dy, row, dx);
    }
}

static void mirror(float *plane, uint32_t height, uint32_t width)
{
    for (uint32_t row = 0; row < height; row++, plane += width) {
        for (uint32_t i = 0; i < width / 2; i++) {
            float left = plane[i];
            plane[i] = plane[width - 1 - i];
            plane[width - 1 - i] = left;
        }
    }
}

/* Move planes as the sample of this index is moved. */
static void move(const struct uw_augment *a, uint64_t index, uint32_t planes_n, float *plane)
{
    const struct uw_dataset *base = &a->base;
    struct uw_rng r;
    uw_rng_seed(&r, uw_rng_mix(a->seed, index));
    int32_t dy = (int32_t)uw_rng_below(&r, 2 * a->crop + 1) - (int32_t)a->crop;
    int32_t dx = (int32_t)uw_rng_below(&r, 2 * a->crop + 1) - (int32_t)a->crop;
    bool flip = a->flip && uw_rng_below(&r, 2) == 1;
    for (uint32_t c = 0; c < planes_n; c++, plane += (size_t)base->height * base->width) {
        shift(plane, base->height, base->width, dy, dx);
        if (flip) {
            mirror(plane, base->height, base->width);
        }
    }
}

static uint64_t inner_index(const struct uw_augment *a, uint64_t index)
{
    return a->inner->endless ? index : index % a->base.samples_n;
}

static int read_augmented(struct uw_dataset *base, uint64_t index, float *x, uint32_t *label)
{
    const struct uw_augment *a = (const struct uw_augment *)base;
    int rc = a->inner->ops->read(a->inner, inner_index(a, index), x, label);
    if (rc == UW_OK) {
        move(a, index, base->channels, x);
    }
    return rc;
}

/* Values as many as pixels are an image, such as a mask, and go with the sample. */
static int read_augmented_target(struct uw_dataset *base, uint64_t index, float *target)
{
    const struct uw_augment *a = (const struct uw_augment *)base;
    uint32_t plane_n = base->height * base->width;
    int rc = a->inner->ops->read_target(a->inner, inner_index(a, index), target);
    if (rc == UW_OK && base->targets_n % plane_n == 0) {
        move(a, index, base->targets_n / plane_n, target);
    }
    return rc;
}

static const struct uw_dataset_ops augment_ops = {
    .name = "augment", .read = read_augmented, .read_target = read_augmented_target};

void uw_augment_init(struct uw_augment *a, struct uw_dataset *inner, uint64_t seed, uint32_t crop,
                     bool flip)
{
    *a = (struct uw_augment){
        .base = *inner, .inner = inner, .seed = seed, .crop = crop, .flip = flip};
    a->base.ops = &augment_ops;
    a->base.endless = true;
}
