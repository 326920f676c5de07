/* SPDX-License-Identifier: Apache-2.0
 *
 * winograd_band.h - input pixels of some rows of Winograd tiles, with the channels innermost
 *
 * Tile rows are counted through all images: tile row r is row r % tiles_h of image r / tiles_h. A
 * band is a buffer with the pixels of some tile rows for UW_WINOGRAD_LANES channels,
 * [row][pixel][lane], with padding. Where the next image begins, no rows are shared.
 *
 * Units      floats, pixels, tile rows
 */
#ifndef UW_KERNELS_WINOGRAD_BAND_H
#define UW_KERNELS_WINOGRAD_BAND_H

#include "packed/tile.h"
#include "packed/winograd_tile.h"

/* Added to the distance between positions: at a power of two they would share cache sets. */
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

/* Upper limit of the floats for that many tile rows. */
size_t uw_band_n(const struct uw_band *b, uint32_t rows);

/* Copy channels c0 .. of tile rows row0 .. row0+rows-1. Padding, and lanes after the last channel,
 * are not written: the caller zeroes band before the first channels. */
void uw_band_fill(const struct uw_band *b, uint32_t row0, uint32_t rows, uint32_t c0, float *band);

/* The address of tile row `row` + 1 in the band, when `row` is at `at`. */
const float *uw_band_next(const struct uw_band *b, uint32_t row, const float *at);

#endif
