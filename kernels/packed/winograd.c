/* SPDX-License-Identifier: Apache-2.0
 *
 * Which convolutions use Winograd, with which tile size. */
#include "packed/winograd.h"
#include "packed/sizes.h"

#define CHANNELS_MIN 16u
#define CHANNELS_MIN_4X3 32u
#define CHANNELS_MAX 8192u
#define TILES_W_MAX 256u
#define TILES_MIN 64u
#define IMAGES_BYTES_MIN (256u << 10)   /* keeps the scratch of small models with batch 1 small */
#define SCRATCH_BYTES_MAX (24u << 20)
#define SCRATCH_BYTES_FREE (2u << 20)

/* May a part use 6 x 6 tiles? They gain nothing on images smaller than a tile. Also, a result has
 * the rounding error of all elements of its tile. That is too much for results that sum few
 * elements: few channels, or fewer taps inside the image than the corner has with half a kernel of
 * padding. F(4 x 4, 3 x 3) is for gradients only: in the activations of a deep model its error
 * changes the sign of enough ReLU inputs to leave PyTorch's trajectory. */
static bool six_fits(const struct uw_conv2d *c, enum uw_winograd_part part)
{
    uint32_t least = min_u32(min_u32(c->in_h, c->in_w), min_u32(c->out_h, c->out_w));
    uint32_t most = c->kernel_h / 2;
    if (least < 6) {
        return false;
    }
    switch (part) {
    case UW_WINOGRAD_FW: return c->kernel_h == 5 && c->pad_h <= most && c->pad_w <= most;
    case UW_WINOGRAD_BW_INPUT:
        return c->pad_h >= most && c->pad_w >= most &&
               (c->kernel_h == 5 || c->out_channels / c->groups >= CHANNELS_MIN_4X3);
    default: return true;
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

static size_t part_bytes(const struct uw_tile *t, const struct uw_winograd_kind *kind,
                         const struct uw_conv2d *c, enum uw_winograd_part part, uint32_t batch_n,
                         uint32_t threads)
{
    if (part == UW_WINOGRAD_BW_PARAM) {
        return uw_winograd_param_scratch_bytes(t, kind, c, batch_n, threads);
    }
    return uw_winograd_image_scratch_bytes(t, kind, c, part == UW_WINOGRAD_BW_INPUT, batch_n,
                                           threads);
}

static bool shape_fits(const struct uw_tile *t, const struct uw_conv2d *c)
{
    uint32_t least = min_u32(c->in_channels, c->out_channels) / c->groups;
    return t->winograd != NULL && c->kernel_h == c->kernel_w &&
           (c->kernel_h == 3 || c->kernel_h == 5) && c->stride_h == 1 && c->stride_w == 1 &&
           c->dilation_h == 1 && c->dilation_w == 1 && c->pad_h < c->kernel_h &&
           c->pad_w < c->kernel_w && least >= CHANNELS_MIN && c->in_channels <= CHANNELS_MAX &&
           c->out_channels <= CHANNELS_MAX && c->in_w <= 2 * TILES_W_MAX &&
           c->out_w <= 2 * TILES_W_MAX;
}

static double tiles_of(const struct uw_conv2d *c, uint32_t batch_n)
{
    return (double)div_up(c->out_h, 2) * div_up(c->out_w, 2) * batch_n;
}

const struct uw_winograd_kind *uw_winograd_kind(const struct uw_tile *t,
                                                const struct uw_conv2d *c,
                                                enum uw_winograd_part part, uint32_t batch_n)
{
    if (!shape_fits(t, c) || tiles_of(c, batch_n) < TILES_MIN ||
        images_bytes(c, batch_n) < IMAGES_BYTES_MIN ||
        (double)c->in_h * c->in_w * batch_n > UINT32_MAX / 2) {
        return NULL;
    }
    const struct uw_winograd_ops *ops = t->winograd;
    const struct uw_winograd_kind *six = c->kernel_h == 3 ? ops->f4x3 : ops->f2x5;
    const struct uw_winograd_kind *four = c->kernel_h == 3 ? ops->f2x3 : NULL;
    size_t limit = uw_winograd_scratch_limit(c, batch_n);
    if (six_fits(c, part) && part_bytes(t, six, c, part, batch_n, 1) <= limit) {
        return six;
    }
    return four != NULL && part_bytes(t, four, c, part, batch_n, 1) <= limit ? four : NULL;
}

size_t uw_winograd_scratch_bytes(const struct uw_tile *t, const struct uw_conv2d *c,
                                 uint32_t batch_n, uint32_t threads)
{
    size_t most = 0;
    for (int i = UW_WINOGRAD_FW; i <= UW_WINOGRAD_BW_PARAM; i++) {
        enum uw_winograd_part part = (enum uw_winograd_part)i;
        const struct uw_winograd_kind *kind = uw_winograd_kind(t, c, part, batch_n);
        if (kind != NULL) {
            most = larger(most, part_bytes(t, kind, c, part, batch_n, threads));
        }
    }
    return most;
}
