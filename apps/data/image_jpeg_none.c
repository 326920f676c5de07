/* SPDX-License-Identifier: Apache-2.0 */
#include "image.h"

int uw_image_decode_jpeg(struct uw_image *m, const uint8_t *bytes, size_t n)
{
    (void)m;
    (void)bytes;
    (void)n;
    return UW_ERR_UNSUPPORTED;
}
