/* SPDX-License-Identifier: Apache-2.0 */
#include "packed/sizes.h"
#include "packed/winograd_band.h"

#define LANES UW_WINOGRAD_LANES

size_t uw_band_pitch(const struct uw_band *b)
{
    return ((size_t)b->step * b->tiles_w + b->halo) * LANES;
}

size_t uw_band_n(const struct uw_band *b, uint32_t rows)
{
    uint32_t images = rows == 0 ? 0 : min_u32(rows, (rows - 1) / b->tiles_h + 2);
    return ((size_t)b->step * rows + (size_t)b->halo * images) * uw_band_pitch(b);
}

/* Copy rows of one image, starting at row `top` of the padded image. */
static void fill_rows(const struct uw_band *b, const float *plane, uint32_t channels,
                      uint32_t top, uint32_t rows, float *band)
{
    uint32_t width = b->step * b->tiles_w + b->halo;
    uint32_t n = width > b->pad_w ? min_u32(width - b->pad_w, b->w) : 0;
    for (uint32_t r = 0; r < rows; r++) {
        uint32_t at = top + r;
        if (at >= b->pad_h && at - b->pad_h < b->h) {
            b->tile->pack_transposed(channels, n, 1.0f, plane + (size_t)(at - b->pad_h) * b->w,
                                     (size_t)b->h * b->w,
                                     band + ((size_t)r * width + b->pad_w) * LANES, LANES);
        }
    }
}

void uw_band_fill(const struct uw_band *b, uint32_t row0, uint32_t rows, uint32_t c0, float *band)
{
    uint32_t channels = min_u32(LANES, b->channels - c0), end = row0 + rows;
    size_t plane_n = (size_t)b->h * b->w;
    for (uint32_t row = row0; row < end;) {
        uint32_t image = row / b->tiles_h, first = row % b->tiles_h;
        uint32_t n = min_u32(b->tiles_h - first, end - row);
        fill_rows(b, b->src + image * b->image_n + c0 * plane_n, channels,
                  b->step * first, b->step * n + b->halo, band);
        band += ((size_t)b->step * n + b->halo) * uw_band_pitch(b);
        row += n;
    }
}

const float *uw_band_next(const struct uw_band *b, uint32_t row, const float *at)
{
    bool last = (row + 1) % b->tiles_h == 0;
    return at + (b->step + (last ? (size_t)b->halo : 0)) * uw_band_pitch(b);
}
