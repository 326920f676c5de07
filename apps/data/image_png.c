/* SPDX-License-Identifier: Apache-2.0
 *
 * PNG by libpng. Transparency is dropped, 16 bits become 8. */
#include "image.h"

#include <png.h>
#include <stdlib.h>
#include <string.h>

/* Drop the last of n + 1 channels. */
static void drop_alpha(struct uw_image *m, const uint8_t *from)
{
    for (size_t i = 0; i < (size_t)m->width * m->height; i++) {
        memcpy(m->pixels + i * m->channels, from + i * (m->channels + 1u), m->channels);
    }
}

int uw_image_decode_png(struct uw_image *m, const uint8_t *bytes, size_t n)
{
    png_image image = {.version = PNG_IMAGE_VERSION};
    if (!png_image_begin_read_from_memory(&image, bytes, n)) {
        return UW_ERR_CORRUPT;
    }
    bool colour = (image.format & PNG_FORMAT_FLAG_COLOR) != 0;
    m->width = image.width;
    m->height = image.height;
    m->channels = colour ? 3 : 1;
    int rc = uw_image_allocate(m);
    image.format = colour ? PNG_FORMAT_RGBA : PNG_FORMAT_GA;
    uint8_t *all = rc == UW_OK ? malloc(PNG_IMAGE_SIZE(image)) : NULL;
    if (rc == UW_OK && all == NULL) {
        rc = UW_ERR_NOMEM;
    }
    if (rc == UW_OK && !png_image_finish_read(&image, NULL, all, 0, NULL)) {
        rc = UW_ERR_CORRUPT;
    }
    if (rc == UW_OK) {
        drop_alpha(m, all);
    }
    free(all);
    png_image_free(&image);
    return rc;
}
