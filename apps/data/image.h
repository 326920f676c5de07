/* SPDX-License-Identifier: Apache-2.0
 *
 * image.h - decode an image and bring it to a size (private)
 *
 * PNG and JPEG by their libraries, which a build may lack; PGM and PPM (binary) always.
 *
 * Memory     pixels from the heap      Context  any thread
 */
#ifndef UWASA_DATA_IMAGE_H
#define UWASA_DATA_IMAGE_H

#include "uwasa/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UW_IMAGE_SIDE_MAX 16384u

struct uw_image {
    uint32_t width, height;
    uint32_t channels;              /* 1 or 3 */
    uint8_t *pixels;                /* [height][width][channels] */
};

/* Whether a file's name is that of an image. */
bool uw_image_is_name(const char *name);

/* Decode a file of any of the kinds, told by its first bytes.
 * Returns UW_OK, UW_ERR_CORRUPT, UW_ERR_UNSUPPORTED (another kind, or this build lacks its
 * library), UW_ERR_TOOBIG, UW_ERR_NOMEM, or what uw_file_open returns; err names the file. Close in
 * any case. */
int uw_image_open(struct uw_image *m, const char *path, struct uw_error *err);

/* Decode bytes of one kind. Return UW_OK, UW_ERR_CORRUPT, UW_ERR_UNSUPPORTED (not in this build),
 * UW_ERR_TOOBIG, UW_ERR_NOMEM, without a sentence. */
int uw_image_decode_png(struct uw_image *m, const uint8_t *bytes, size_t n);
int uw_image_decode_jpeg(struct uw_image *m, const uint8_t *bytes, size_t n);

/* Allocate pixels for the sizes in m. Returns UW_OK, UW_ERR_TOOBIG, UW_ERR_NOMEM. */
int uw_image_allocate(struct uw_image *m);

/* Write the image as [channels][height][width], each pixel the mean of what it covers; grey and
 * colour become each other. */
void uw_image_fit(const struct uw_image *m, uint32_t channels, uint32_t height, uint32_t width,
                  uint8_t *out);

/* Safe on a zeroed struct and twice. */
void uw_image_close(struct uw_image *m);

#endif
