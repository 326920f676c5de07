/* SPDX-License-Identifier: Apache-2.0 */
#include "folders.h"
#include "image.h"
#include "sets.h"

#include <stdlib.h>

static const struct uw_folder_kind images = {.prefix = "images", .thing = "image",
                                             .endings = ".png, .jpg, .ppm or .pgm",
                                             .options = "test, classes and label=none",
                                             .is_name = uw_image_is_name};

struct opening {
    struct uw_images *d;
    struct uw_folders f;
    uint32_t resized_n;
    uint32_t width, height;         /* of the first image that was resized */
};

/* ---- sizes ---- */

static uint32_t side_of(uint32_t n)
{
    uint32_t side = 1;
    while (side * side < n && side < UW_IMAGE_SIDE_MAX) {
        side++;
    }
    return side * side == n ? side : 0;
}

/* A model of n inputs without axes takes a square, grey or in colour, unless images fit. */
static void choose_flat(struct uw_dataset *base, uint32_t n)
{
    uint32_t pixels_n = base->height * base->width, grey = side_of(n);
    uint32_t colour = n % 3u == 0 ? side_of(n / 3u) : 0;
    if (n == pixels_n || n == 3u * pixels_n) {
        base->channels = n == pixels_n ? 1 : 3;
    } else if (grey != 0 || colour != 0) {
        base->channels = grey != 0 ? 1 : 3;
        base->height = base->width = grey != 0 ? grey : colour;
    }
}

/* The size of all images: the model's, or that of the first image. */
static int choose_size(struct opening *p)
{
    const struct uw_data_config *c = p->f.config;
    struct uw_dataset *base = &p->d->base;
    struct uw_image first;
    int rc = uw_image_open(&first, p->f.list[0].paths[0], p->f.err);
    base->channels = first.channels;
    base->height = first.height;
    base->width = first.width;
    uw_image_close(&first);
    if (rc < 0 || c->channels == 0) {
        return rc;
    }
    bool last = c->height > 4 && (c->width == 1 || c->width == 3) && c->channels > 4;
    if (c->height == 0 && c->width == 0) {
        choose_flat(base, c->channels);
    } else if (c->height == 0) {            /* a sequence of rows */
        base->channels = 1;
        base->height = c->channels;
        base->width = c->width;
    } else {
        base->channels = last ? c->width : c->channels;
        base->height = last ? c->channels : c->height;
        base->width = last ? c->height : c->width;
    }
    return base->channels == 1 || base->channels == 3
               ? UW_OK
               : uw_error_set(p->f.err, UW_ERR_MISMATCH,
                              "images:%.100s: images have 1 or 3 channels, the model takes %u",
                              p->f.o.file, (unsigned)base->channels);
}

/* ---- samples ---- */

static int decode_one(struct opening *p, const char *path, uint8_t *out)
{
    const struct uw_dataset *base = &p->d->base;
    struct uw_image m;
    int rc = uw_image_open(&m, path, p->f.err);
    if (rc == UW_OK) {
        bool same = m.width == base->width && m.height == base->height;
        if (!same && p->resized_n++ == 0) {
            p->width = m.width;
            p->height = m.height;
        }
        uw_image_fit(&m, base->channels, base->height, base->width, out);
    }
    uw_image_close(&m);
    return rc;
}

static int decode(struct opening *p)
{
    struct uw_images *d = p->d;
    const struct uw_folder_list *l = p->f.files;
    size_t bytes = (size_t)d->base.channels * d->base.height * d->base.width;
    uint32_t n = 0;
    for (uint32_t i = 0; i < l->n; i++) {
        n += uw_folders_wants(&p->f, i);
    }
    d->bytes = bytes < SIZE_MAX / ((size_t)n + 1u) ? malloc(bytes * n + 1u) : NULL;
    d->labels = calloc((size_t)n + 1u, sizeof *d->labels);
    if (d->bytes == NULL || d->labels == NULL) {
        return uw_folders_no_memory(&p->f);
    }
    int rc = UW_OK;
    for (uint32_t i = 0; i < l->n && rc == UW_OK; i++) {
        if (uw_folders_wants(&p->f, i)) {
            d->labels[d->base.samples_n] = l->classes_n != 0 ? l->labels[i] : 0;
            rc = decode_one(p, l->paths[i], d->bytes + bytes * d->base.samples_n++);
        }
    }
    return rc;
}

static void tell(struct opening *p)
{
    uw_folders_tell(&p->f, "", "; bytes divided by 255");
    if (p->resized_n != 0) {
        uw_note(&p->d->notes, "%u images are brought to %u x %u, the first from %u x %u",
                (unsigned)p->resized_n, (unsigned)p->d->base.width, (unsigned)p->d->base.height,
                (unsigned)p->width, (unsigned)p->height);
    }
}

/* ---- the dataset ---- */

static int read_images(struct uw_dataset *base, uint64_t index, float *x, uint32_t *label)
{
    const struct uw_images *d = (const struct uw_images *)base;
    size_t n = d->columns.features_n;
    if (index >= base->samples_n) {
        return UW_ERR_INVALID;
    }
    const uint8_t *bytes = d->bytes + index * n;
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)bytes[i] / 255.0f;
    }
    *label = d->labels[index];
    return UW_OK;
}

static const struct uw_dataset_ops images_ops = {.name = "images", .read = read_images};

int uw_images_open(struct uw_images *d, const char *text, const struct uw_data_config *config,
                   struct uw_error *err)
{
    *d = (struct uw_images){.base = {.ops = &images_ops}};
    struct opening *p = calloc(1, sizeof *p);
    if (p == NULL) {
        return uw_error_set(err, UW_ERR_NOMEM, "images:%.100s: no memory", text);
    }
    p->d = d;
    p->f = (struct uw_folders){.kind = &images, .config = config, .columns = &d->columns,
                               .notes = &d->notes, .err = err};
    int rc = uw_folders_open(&p->f, text);
    rc = rc < 0 ? rc : uw_folders_number(&p->f);
    rc = rc < 0 ? rc : choose_size(p);
    if (rc == UW_OK) {
        d->columns.features_n = d->base.channels * d->base.height * d->base.width;
        d->base.classes = d->columns.classes_n > 2 ? d->columns.classes_n : 2;
        rc = decode(p);
    }
    if (rc == UW_OK) {
        tell(p);
    }
    uw_folders_close(&p->f);
    free(p);
    if (rc < 0) {
        uw_images_close(d);
    }
    return rc;
}

void uw_images_close(struct uw_images *d)
{
    uw_data_columns_free(&d->columns);
    free(d->bytes);
    free(d->labels);
    d->bytes = NULL;
    d->labels = NULL;
}
