/* SPDX-License-Identifier: Apache-2.0
 *
 * winograd_band.h - the pixels that a stretch of Winograd tiles sees, channels together
 *
 * Tiles are counted row by row through all images: tile row r is row r % tiles_h of image
 * r / tiles_h. A band holds some tile rows for UW_WINOGRAD_LANES channels as [row][pixel][lane],
 * with the zeros around; an image that the stretch enters begins with new rows.
 *
 * Units      floats, pixels, tile rows
 */
#ifndef UW_KERNELS_WINOGRAD_BAND_H
#define UW_KERNELS_WINOGRAD_BAND_H

#include "packed/tile.h"
#include "packed/winograd_tile.h"

/* Positions lie this much off a power of two, or all would share sets of the cache. */
#define UW_WINOGRAD_APART 80u

struct uw_band {
    const struct uw_tile *tile;
    const float *src;               /* [batch][channels][h][w], images image_n apart */
    size_t image_n;
    uint32_t channels, h, w;
    uint32_t pad_h, pad_w;          /* zeros above and left */
    uint32_t tiles_h, tiles_w;
    uint32_t step;                  /* pixels from tile to tile */
    uint32_t halo;                  /* pixels that two tiles share: kernel - 1, or 0 */
};

/* From one row of the band to the next. */
size_t uw_band_pitch(const struct uw_band *b);

/* Most floats that `rows` tile rows take. */
size_t uw_band_n(const struct uw_band *b, uint32_t rows);

/* Copy channels c0 .. of tile rows row0 .. row0+rows-1. Zeros, and lanes beyond the last channel,
 * are not written: band is zeroed before the first channels of a stretch. */
void uw_band_fill(const struct uw_band *b, uint32_t row0, uint32_t rows, uint32_t c0, float *band);

/* Where the tile row behind `row` begins, when `row` begins at `at`. */
const float *uw_band_next(const struct uw_band *b, uint32_t row, const float *at);

#endif
