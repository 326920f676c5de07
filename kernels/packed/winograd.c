/* SPDX-License-Identifier: Apache-2.0
 *
 * Which convolutions Winograd's way is for, and what all its parts need. */
#include "packed/winograd.h"
#include "packed/sizes.h"

#define CHANNELS_MIN 16u
#define CHANNELS_MAX 8192u
#define TILES_W_MAX 256u
#define TILES_MIN 64u
#define IMAGES_BYTES_MIN (256u << 10)   /* a small model's single sample keeps its plan */
#define SCRATCH_BYTES_MAX (24u << 20)
#define SCRATCH_BYTES_FREE (2u << 20)
#define SETTLED_TILES 2048u /* so many, and blocks grow no more: >= KEPT_N / 16 / CHANNELS_MIN */

const struct uw_winograd_kind *uw_winograd_kind(const struct uw_tile *t,
                                                const struct uw_conv2d *c)
{
    if (t->winograd == NULL || c->kernel_h != c->kernel_w) {
        return NULL;
    }
    switch (c->kernel_h) {
    case 3: return t->winograd->f2x3;
    case 5: return t->winograd->f2x5;
    default: return NULL;
    }
}

static double images_bytes(const struct uw_conv2d *c, uint32_t batch_n)
{
    double values = (double)c->in_channels * c->in_h * c->in_w +
                    (double)c->out_channels * c->out_h * c->out_w;
    return sizeof(float) * values * batch_n;
}

size_t uw_winograd_scratch_limit(const struct uw_conv2d *c, uint32_t batch_n)
{
    double bytes = 4.0 * images_bytes(c, batch_n);
    if (bytes > SCRATCH_BYTES_MAX) {
        return SCRATCH_BYTES_MAX;
    }
    return bytes > SCRATCH_BYTES_FREE ? (size_t)bytes : SCRATCH_BYTES_FREE;
}

static size_t part_bytes(const struct uw_tile *t, const struct uw_conv2d *c,
                         enum uw_winograd_part part, uint32_t batch_n, uint32_t threads)
{
    if (part == UW_WINOGRAD_BW_PARAM) {
        return uw_winograd_param_scratch_bytes(t, c, batch_n, threads);
    }
    return uw_winograd_image_scratch_bytes(t, c, part == UW_WINOGRAD_BW_INPUT, batch_n, threads);
}

/* Tiles of 6 x 6 that lie mostly beside an image gain nothing. */
static bool sides_fit(const struct uw_winograd_kind *kind, const struct uw_conv2d *c)
{
    uint32_t least = min_u32(min_u32(c->in_h, c->in_w), min_u32(c->out_h, c->out_w));
    return kind->in < 6 || least >= kind->in;
}

/* A result has the rounding of all elements of its tile: with tiles of 6 x 6, too much for one
 * that sees less than the part of them that it has in a corner of an image with half a kernel of
 * zeros around. */
static bool pads_fit(const struct uw_winograd_kind *kind, const struct uw_conv2d *c,
                     enum uw_winograd_part part)
{
    uint32_t most = kind->kernel / 2;
    if (kind->in < 6 || part == UW_WINOGRAD_BW_PARAM) {
        return true;
    }
    return part == UW_WINOGRAD_FW
               ? c->pad_h <= most && c->pad_w <= most
               : c->pad_h + most >= kind->kernel - 1 && c->pad_w + most >= kind->kernel - 1;
}

static bool shape_fits(const struct uw_tile *t, const struct uw_conv2d *c)
{
    const struct uw_winograd_kind *kind = uw_winograd_kind(t, c);
    uint32_t least = min_u32(c->in_channels, c->out_channels) / c->groups;
    return kind != NULL && sides_fit(kind, c) && c->stride_h == 1 && c->stride_w == 1 &&
           c->dilation_h == 1 && c->dilation_w == 1 &&
           c->pad_h < c->kernel_h && c->pad_w < c->kernel_w && least >= CHANNELS_MIN &&
           c->in_channels <= CHANNELS_MAX && c->out_channels <= CHANNELS_MAX &&
           c->in_w <= 2 * TILES_W_MAX && c->out_w <= 2 * TILES_W_MAX;
}

static double tiles_of(const struct uw_conv2d *c, uint32_t batch_n)
{
    return (double)div_up(c->out_h, 2) * div_up(c->out_w, 2) * batch_n;
}

bool uw_winograd_fits(const struct uw_tile *t, const struct uw_conv2d *c,
                      enum uw_winograd_part part, uint32_t batch_n)
{
    if (!shape_fits(t, c) || tiles_of(c, batch_n) < TILES_MIN ||
        images_bytes(c, batch_n) < IMAGES_BYTES_MIN ||
        (double)c->in_h * c->in_w * batch_n > UINT32_MAX / 2) {
        return false;
    }
    return pads_fit(uw_winograd_kind(t, c), c, part) &&
           part_bytes(t, c, part, batch_n, 1) <= uw_winograd_scratch_limit(c, batch_n);
}

static size_t most_bytes(const struct uw_tile *t, const struct uw_conv2d *c, uint32_t batch_n,
                         uint32_t threads)
{
    size_t most = 0;
    for (int i = UW_WINOGRAD_FW; i <= UW_WINOGRAD_BW_PARAM; i++) {
        enum uw_winograd_part part = (enum uw_winograd_part)i;
        if (uw_winograd_fits(t, c, part, batch_n)) {
            most = larger(most, part_bytes(t, c, part, batch_n, threads));
        }
    }
    return most;
}

size_t uw_winograd_scratch_bytes(const struct uw_tile *t, const struct uw_conv2d *c,
                                 uint32_t batch_n, uint32_t threads)
{
    if (!shape_fits(t, c)) {
        return 0;
    }
    size_t most = most_bytes(t, c, batch_n, threads);
    for (uint32_t n = 1; n < batch_n && tiles_of(c, n - 1) < SETTLED_TILES; n++) {
        most = larger(most, most_bytes(t, c, n, threads)); /* it may be cut in another way */
    }
    return most;
}
