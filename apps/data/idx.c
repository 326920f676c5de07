/* SPDX-License-Identifier: Apache-2.0 */
#include "sets.h"

#include <stdbool.h>

enum { RANK_MAX = 4, LABELS_AT = 8 };

#define LABELS_N 1024u              /* read at a time */
#define CLASSES_MAX 65536u          /* more means that the values are no labels */

/* Limit of values in a sample: more means a damaged header. */
#define SAMPLE_MAX_N (1u << 24)

struct header {
    uint8_t type, rank;
    uint32_t dim[RANK_MAX];
    uint64_t values_at, value_bytes;
};

static int read_header(const struct uw_file *f, struct header *h, struct uw_error *err)
{
    uint8_t start[4], dims[4 * RANK_MAX];
    if (f->bytes < sizeof start) {
        return uw_error_set(err, UW_ERR_CORRUPT,
                            "%.140s: %llu bytes, an IDX file starts with 4 bytes of type and rank",
                            f->path, (unsigned long long)f->bytes);
    }
    if (uw_file_read(f, 0, start, sizeof start) < 0) {
        return uw_file_read_error(f, 0, err);
    }
    if (start[0] != 0 || start[1] != 0) {
        return uw_error_set(err, UW_ERR_CORRUPT,
                            "%.140s: byte 0: 0x%02x 0x%02x, an IDX file starts with two zeros",
                            f->path, start[0], start[1]);
    }
    h->type = start[2];
    h->rank = start[3];
    h->value_bytes = uw_file_type_bytes((enum uw_file_type)h->type);
    if (h->value_bytes == 0) {
        return uw_error_set(err, UW_ERR_UNSUPPORTED,
                            "%.120s: byte 2: type 0x%02x; 0x08 (unsigned bytes), 0x09, 0x0b, 0x0c "
                            "(8, 16, 32 bits), 0x0d (floats) and 0x0e (doubles) can be read",
                            f->path, h->type);
    }
    if (h->rank == 0 || h->rank > RANK_MAX) {
        return uw_error_set(err, UW_ERR_UNSUPPORTED,
                            "%.120s: byte 3: %u dimensions; 1 (labels), 3 ([N][H][W]) and 4 "
                            "([N][C][H][W]) can be read",
                            f->path, h->rank);
    }
    h->values_at = sizeof start + 4u * h->rank;
    if (f->bytes < h->values_at) {
        return uw_error_set(err, UW_ERR_CORRUPT,
                            "%.140s: ends at byte %llu, inside its %llu bytes of header", f->path,
                            (unsigned long long)f->bytes, (unsigned long long)h->values_at);
    }
    if (uw_file_read(f, sizeof start, dims, 4u * h->rank) < 0) {
        return uw_file_read_error(f, sizeof start, err);
    }
    for (uint32_t i = 0; i < h->rank; i++) {
        const uint8_t *b = &dims[4 * i];
        h->dim[i] = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
    }
    return UW_OK;
}

/* Dimensions are 1 or more, a sample is not too large, and the file has the length that follows. */
static int check_size(const struct uw_file *f, const struct header *h, struct uw_error *err)
{
    uint64_t sample_n = 1;
    for (uint32_t i = 0; i < h->rank; i++) {
        if (h->dim[i] == 0 || h->dim[i] > INT32_MAX) {
            return uw_error_set(err, UW_ERR_CORRUPT,
                                "%.140s: byte %u: dimension %u is %u; 1 .. 2147483647 are allowed",
                                f->path, 4 + 4 * i, i, h->dim[i]);
        }
        if (i > 0) {
            sample_n *= h->dim[i];
        }
        if (sample_n > SAMPLE_MAX_N) {
            return uw_error_set(err, UW_ERR_TOOBIG,
                                "%.140s: byte %u: a sample has more than %u values", f->path,
                                4 + 4 * i, SAMPLE_MAX_N);
        }
    }
    uint64_t whole = h->values_at + h->dim[0] * sample_n * h->value_bytes;
    if (f->bytes != whole) {
        return uw_error_set(err, UW_ERR_CORRUPT,
                            "%.140s: %s: the header asks for %llu bytes, the file has %llu",
                            f->path, f->bytes < whole ? "cut off" : "too long",
                            (unsigned long long)whole, (unsigned long long)f->bytes);
    }
    return UW_OK;
}

static int open_images(struct uw_idx *d, const char *path, const char *hint, struct uw_error *err)
{
    struct header h;
    int rc = uw_file_open(&d->images, path, hint, err);
    if (rc < 0 || (rc = read_header(&d->images, &h, err)) < 0) {
        return rc;
    }
    if (h.rank < 3) {
        return uw_error_set(err, UW_ERR_UNSUPPORTED,
                            "%.140s: byte 3: %u dimensions; images have 3 ([N][H][W]) or 4 "
                            "([N][C][H][W])",
                            path, h.rank);
    }
    rc = check_size(&d->images, &h, err);
    d->base.samples_n = h.dim[0];
    d->base.channels = h.rank == 4 ? h.dim[1] : 1;
    d->base.height = h.dim[h.rank - 2];
    d->base.width = h.dim[h.rank - 1];
    d->images_at = h.values_at;
    d->type = (enum uw_file_type)h.type;
    return rc;
}

static int check_labels(struct uw_idx *d, const struct uw_idx_labels *known, struct uw_error *err)
{
    int32_t label[LABELS_N], largest = 0, least = INT32_MAX;
    uint32_t bytes = uw_file_type_bytes(d->label_type);
    bool open = known->classes == 0;
    int64_t first = open ? 0 : known->first;
    int64_t last = open ? (int64_t)CLASSES_MAX - 1 : first + known->classes - 1;
    for (uint32_t at = 0; at < d->base.samples_n; at += LABELS_N) {
        uint32_t left = d->base.samples_n - at;
        uint32_t part = left < LABELS_N ? left : LABELS_N;
        uint64_t from = LABELS_AT + (uint64_t)at * bytes;
        if (uw_file_read_wholes(&d->labels, from, d->label_type, label, part) < 0) {
            return uw_file_read_error(&d->labels, from, err);
        }
        for (uint32_t i = 0; i < part; i++) {
            if (label[i] < first || label[i] > last) {
                return uw_error_set(err, UW_ERR_CORRUPT,
                                    "%.140s: byte %llu: label %ld; %lld .. %lld are allowed",
                                    d->labels.path,
                                    (unsigned long long)(from + (uint64_t)i * bytes),
                                    (long)label[i], (long long)first, (long long)last);
            }
            largest = label[i] > largest ? label[i] : largest;
            least = label[i] < least ? label[i] : least;
        }
    }
    bool counted = open && least == 1 && (uint32_t)largest == known->outputs;
    d->first_label = counted ? 1 : known->first;
    d->least_label = (uint32_t)least;
    uint32_t most = (uint32_t)largest;
    most = most > d->first_label ? most - d->first_label : 1;
    d->base.classes = known->classes != 0 ? known->classes : most + 1;
    return UW_OK;
}

static int open_labels(struct uw_idx *d, const char *path, const char *hint, struct uw_error *err)
{
    struct header h;
    int rc = uw_file_open(&d->labels, path, hint, err);
    if (rc < 0 || (rc = read_header(&d->labels, &h, err)) < 0) {
        return rc;
    }
    d->label_type = (enum uw_file_type)h.type;
    bool whole = d->label_type != UW_FILE_F32 && d->label_type != UW_FILE_F64;
    if (h.rank != 1 || !whole) {
        return uw_error_set(err, UW_ERR_UNSUPPORTED,
                            "%.140s: byte 2: type 0x%02x with %u dimensions; labels are whole "
                            "numbers of 8, 16 or 32 bits (0x08, 0x09, 0x0b, 0x0c) with 1",
                            path, h.type, h.rank);
    }
    rc = check_size(&d->labels, &h, err);
    if (rc == UW_OK && h.dim[0] != d->base.samples_n) {
        rc = uw_error_set(err, UW_ERR_MISMATCH, "%.110s: %u labels for the %u images in %.80s",
                          path, h.dim[0], d->base.samples_n, d->images.path);
    }
    return rc;
}

static int read_idx(struct uw_dataset *base, uint64_t index, float *x, uint32_t *label)
{
    const struct uw_idx *d = (const struct uw_idx *)base;
    if (index >= base->samples_n) {
        return UW_ERR_INVALID;
    }
    size_t n = (size_t)base->channels * base->height * base->width;
    uint64_t at = d->images_at + index * n * uw_file_type_bytes(d->type);
    uint64_t label_at = LABELS_AT + index * uw_file_type_bytes(d->label_type);
    int rc = uw_file_read_label(&d->labels, label_at, d->label_type,
                                base->classes + d->first_label, label);
    if (rc == UW_OK && *label < d->first_label) {
        rc = UW_ERR_IO;         /* the file has changed */
    }
    *label -= rc == UW_OK ? d->first_label : 0;
    return rc < 0 ? rc : uw_file_read_values(&d->images, at, d->type, x, n);
}

static const struct uw_dataset_ops idx_ops = {.name = "idx", .read = read_idx};

int uw_idx_open(struct uw_idx *d, const char *images, const char *labels,
                const struct uw_idx_labels *known, const char *hint, struct uw_error *err)
{
    *d = (struct uw_idx){.base.ops = &idx_ops};
    int rc = open_images(d, images, hint, err);
    if (rc == UW_OK) {
        rc = open_labels(d, labels, hint, err);
    }
    if (rc == UW_OK) {
        rc = check_labels(d, known, err);
    }
    if (rc < 0) {
        uw_idx_close(d);
    }
    return rc;
}

void uw_idx_close(struct uw_idx *d)
{
    uw_file_close(&d->images);
    uw_file_close(&d->labels);
}
