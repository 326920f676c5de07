/* SPDX-License-Identifier: Apache-2.0
 *
 * image_matrix.h - an image as the right-hand matrix of a product, packed without unrolling it
 *
 * The rows that a block of B needs are first copied, with their padding, into a narrow band; in
 * it the element for (pixel, tap) lies at pixel_at[pixel] + tap_at[tap], so that packing is
 * copying along either axis. All three parts of a convolution are such products:
 *
 *   fw        y[co][pixel]   = sum over taps of w[co][tap] * x(tap, pixel)
 *   bw_input  dx[ci][pixel]  = sum over taps of w[tap][ci] * dy(tap, pixel), the taps mirrored; one
 *             product for each phase of the stride
 *   bw_param  dw[co][tap]    = sum over pixels of dy[co][pixel] * x(tap, pixel)
 *
 * Units      floats, pixels
 * Memory     the band and its index lists live in the product's work area
 */
#ifndef UW_KERNELS_IMAGE_MATRIX_H
#define UW_KERNELS_IMAGE_MATRIX_H

#include "packed/phase.h"
#include "packed/product.h"

struct uw_image {
    const float *src;               /* [batch][group][channels][h][w] by the strides below */
    size_t image_stride, group_stride;
    uint32_t batch_n, channels;     /* channels of one group */
    const struct uw_input_norm *norm;   /* of a plain image of one group: packed is what it gives */
    uint32_t h, w;
    int64_t top, left;              /* zeros above and left of the image; may be < 0 */
    uint32_t out_h, out_w;          /* pixels */
    uint32_t pitch;                 /* pixels counted in a row, out_w or more: see uw_image_widen */
    uint32_t step_h, step_w;        /* from pixel to pixel */
    uint32_t kernel_h, kernel_w, dilation_h, dilation_w;
    bool mirror;                    /* tap (0, 0) is the last one */
    bool pixels_inner;              /* bw_param: pixels are the inner index, taps the columns */
    bool plain;                     /* pixels see one tap, their own: used where it lies */
};

struct uw_image uw_image_of_input(const struct uw_conv2d *c, uint32_t batch_n, const float *x,
                                  bool pixels_inner);
/* The phase has taps. */
struct uw_image uw_image_of_output_gradient(const struct uw_conv2d *c,
                                            const struct uw_phase *phase, uint32_t batch_n,
                                            const float *dy);

/* Count pixels in rows as wide as the band's, so that all pixels of an image lie in one run and
 * nothing has to be packed. What is computed for pixels beyond out_w means nothing. Only without
 * strides (step_h, step_w 1). */
void uw_image_widen(struct uw_image *v);

/* Pixels of an image and of the whole batch, taps of a group. */
uint32_t uw_image_cols(const struct uw_image *v);
uint32_t uw_image_pixels(const struct uw_image *v);
uint32_t uw_image_taps(const struct uw_image *v);

/* Can the pixels of one image, the taps, and the band of any block in a batch of any size be
 * counted in 32 bits? The rest of this file asks for that. */
bool uw_image_fits(const struct uw_image *v, const struct uw_tile *t);

/* Work area for blocks of at most pixels_n times taps_n; SIZE_MAX when that overflows. */
size_t uw_image_work_bytes(const struct uw_image *v, uint32_t pixels_n, uint32_t taps_n);

/* struct uw_right's pack; its source is a struct uw_image. */
void uw_image_pack(const struct uw_product *p, const struct uw_block *block, float *panels,
                   void *work);

/* Whether uw_image_locate may stand in for packing, and does it better for a product with so many
 * rows: pieces of pixels lie in a row. */
bool uw_image_has_runs(const struct uw_image *v, const struct uw_tile *t, uint32_t rows);

/* struct uw_right's locate; its source is a struct uw_image with runs. */
void uw_image_locate(const struct uw_product *p, const struct uw_block *block, void *work,
                     struct uw_columns *columns);

#endif
