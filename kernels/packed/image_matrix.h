/* SPDX-License-Identifier: Apache-2.0
 *
 * image_matrix.h - an image as the right-hand matrix of a product, packed without a full im2col
 *
 * The image rows that a block of B needs are first copied, with their padding, into a small buffer
 * (the band). The element for (pixel, tap) lies there at pixel_at[pixel] + tap_at[tap], so packing
 * only copies along either axis. All three parts of a convolution are such products:
 *
 *   fw        y[co][pixel]   = sum over taps of w[co][tap] * x(tap, pixel)
 *   bw_input  dx[ci][pixel]  = sum over taps of w[tap][ci] * dy(tap, pixel), the taps mirrored; one
 *             product for each phase of the stride
 *   bw_param  dw[co][tap]    = sum over pixels of dy[co][pixel] * x(tap, pixel)
 *
 * Units      floats, pixels
 * Memory     the band and its offset lists are in the product's work area
 */
#ifndef UW_KERNELS_IMAGE_MATRIX_H
#define UW_KERNELS_IMAGE_MATRIX_H

#include "packed/phase.h"
#include "packed/product.h"

struct uw_image {
    const float *src;               /* [batch][group][channels][h][w] by the strides below */
    size_t image_stride, group_stride;
    uint32_t batch_n, channels;     /* channels of one group */
    const struct uw_input_norm *norm;   /* applied when packing; only if plain and one group */
    uint32_t h, w;
    int64_t top, left;              /* zeros above and left of the image; may be < 0 */
    uint32_t out_h, out_w;          /* pixels */
    uint32_t pitch;                 /* columns of B per row of pixels, >= out_w: uw_image_widen */
    uint32_t step_h, step_w;        /* stride */
    uint32_t kernel_h, kernel_w, dilation_h, dilation_w;
    bool mirror;                    /* taps in reverse order */
    bool pixels_inner;              /* bw_param: pixels are the inner index, taps the columns */
    bool taps_outer;                /* columns are all channels of a tap, tap by tap; else all taps
                                       of a channel. For taps that are not adjacent */
    bool plain;                     /* 1 x 1, no stride, no padding: used in place, no band */
};

struct uw_image uw_image_of_input(const struct uw_conv2d *c, uint32_t batch_n, const float *x,
                                  bool pixels_inner);
/* phase must have taps. */
struct uw_image uw_image_of_output_gradient(const struct uw_conv2d *c,
                                            const struct uw_phase *phase, uint32_t batch_n,
                                            const float *dy);

/* Set pitch to the width of the band, so that all pixels of an image are consecutive in it and need
 * no packing. Results for columns from out_w on are meaningless. Only without strides (step_h and
 * step_w are 1). */
void uw_image_widen(struct uw_image *v);

/* Columns of one image and of the whole batch; taps of a group. */
uint32_t uw_image_cols(const struct uw_image *v);
uint32_t uw_image_pixels(const struct uw_image *v);
uint32_t uw_image_taps(const struct uw_image *v);

/* Do the pixels of one image, the taps, and the band of any block in a batch of any size fit in
 * 32-bit counts? The other functions require it. */
bool uw_image_fits(const struct uw_image *v, const struct uw_tile *t);

/* Work area for blocks of at most pixels_n times taps_n; SIZE_MAX when that overflows. */
size_t uw_image_work_bytes(const struct uw_image *v, uint32_t pixels_n, uint32_t taps_n);

/* struct uw_right's pack; its source is a struct uw_image. */
void uw_image_pack(const struct uw_product *p, const struct uw_block *block, float *panels,
                   void *work);

/* Can uw_image_locate replace packing (pixels are consecutive in pieces), and is it faster for a
 * product with that many rows? */
bool uw_image_has_runs(const struct uw_image *v, const struct uw_tile *t, uint32_t rows);

/* struct uw_right's locate; its source is a struct uw_image for which uw_image_has_runs. */
void uw_image_locate(const struct uw_product *p, const struct uw_block *block, void *work,
                     struct uw_columns *columns);

#endif
