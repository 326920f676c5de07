/* SPDX-License-Identifier: Apache-2.0
 *
 * Winograd gradients in slices of tiles: transform, 36 products, inverse transform. */
#include "conv2d_winograd.h"
#include "products.h"

#define MIB ((size_t)1 << 20)
#define TILE 4u                 /* results per row and column */
#define TAPS 3u
#define TILES_MIN 128u          /* least tiles of a slice (columns of a product), if there are */
#define TILES_EACH 32u          /* slices are multiples of this, except the last */
#define PITCH_EACH 8u           /* floats: aligns rows of tiles to memory sectors */
#define PART_MIN 128u           /* least tiles of a part of a sum */
#define PRODUCT_H 64u           /* approximate tile of cuBLAS */
#define PRODUCT_W 128u
#define CHANNELS_MAX 0xffffu
#define SIDE_MAX 0x8000u        /* of an image: tiles are counted in 32 bits */
#define CHANNELS_WORTH 16u
#define SUMMED_WORTH 32u        /* channels that a result is summed over */

/* The tiles of a part, and the layout of the workspace. */
struct layout {
    struct uw_winograd_tiles x;     /* 6 x 6: dy in bw_input, x in bw_param */
    struct uw_winograd_tiles y;     /* 4 x 4: dx in bw_input, dy in bw_param */
    uint64_t tiles;
    size_t weights, most;           /* most: largest number of tiles in a slice */
};

size_t uw_conv2d_winograd_slice_bytes(size_t cache_bytes)
{
    size_t half = cache_bytes / 2;
    return half < 4 * MIB ? 4 * MIB : half > 32 * MIB ? 32 * MIB : half;
}

static size_t up(size_t n, size_t each)
{
    return (n + each - 1u) / each * each;
}

/* Parts to divide sums over tiles into: products of few channels leave most of a GPU idle. */
static uint32_t parts_of(const struct uw_cuda *gpu, const struct uw_conv2d *c, size_t tiles)
{
    size_t blocks = (size_t)UW_WINOGRAD_POINTS * ((c->in_channels + PRODUCT_W - 1u) / PRODUCT_W) *
                    ((c->out_channels + PRODUCT_H - 1u) / PRODUCT_H);
    size_t parts = (2u * (size_t)gpu->multiprocessors + blocks - 1u) / blocks;
    parts = parts < tiles / PART_MIN ? parts : tiles / PART_MIN;
    return parts > 1 ? (uint32_t)parts : 1;
}

static struct layout layout_of(const struct uw_cuda *gpu, const struct uw_conv2d *c,
                               uint32_t batch_n, enum uw_conv2d_part part)
{
    const bool back = part == UW_CONV2D_BW_INPUT;
    const struct uw_winograd_tiles in = {.channels = c->in_channels, .h = c->in_h, .w = c->in_w};
    const struct uw_winograd_tiles out = {.channels = c->out_channels, .h = c->out_h,
                                          .w = c->out_w};
    struct layout l = {.x = back ? out : in, .y = back ? in : out};
    l.x.pad_h = back ? TAPS - 1u - c->pad_h : c->pad_h;
    l.x.pad_w = back ? TAPS - 1u - c->pad_w : c->pad_w;
    l.y.across = (l.y.w + TILE - 1u) / TILE;
    l.y.per_image = l.y.across * ((l.y.h + TILE - 1u) / TILE);
    l.x.across = l.y.across;
    l.x.per_image = l.y.per_image;
    l.tiles = (uint64_t)l.y.per_image * batch_n;
    l.weights = (size_t)c->in_channels * c->out_channels;
    size_t tile_bytes =
        UW_WINOGRAD_POINTS * sizeof(float) * ((size_t)c->in_channels + c->out_channels);
    size_t most = gpu->products->slice_bytes / tile_bytes / TILES_EACH * TILES_EACH;
    most = most < TILES_MIN ? TILES_MIN : most;
    l.most = l.tiles < most ? (size_t)l.tiles : most;
    l.y.parts = part == UW_CONV2D_BW_PARAM ? parts_of(gpu, c, l.most) : 1;
    l.y.pitch = (uint32_t)up((l.most + l.y.parts - 1u) / l.y.parts, PITCH_EACH);
    l.x.parts = l.y.parts;
    l.x.pitch = l.y.pitch;
    return l;
}

static bool is_three_by_three(const struct uw_conv2d *c)
{
    return c->kernel_h == TAPS && c->kernel_w == TAPS && c->stride_h == 1 && c->stride_w == 1 &&
           c->dilation_h == 1 && c->dilation_w == 1 && c->groups == 1 && !c->normed &&
           c->pad_h < TAPS && c->pad_w < TAPS;
}

static bool is_counted(const struct uw_conv2d *c)
{
    return c->in_channels <= CHANNELS_MAX && c->out_channels <= CHANNELS_MAX &&
           c->in_h <= SIDE_MAX && c->in_w <= SIDE_MAX && c->out_h <= SIDE_MAX &&
           c->out_w <= SIDE_MAX;
}

bool uw_conv2d_winograd_takes(const struct uw_cuda *gpu, const struct uw_conv2d *c,
                              uint32_t batch_n, enum uw_conv2d_part part, size_t *workspace_bytes)
{
    *workspace_bytes = 0;
    if (part == UW_CONV2D_FW || gpu->config.tf32 || !is_three_by_three(c) || !is_counted(c)) {
        return false;
    }
    const struct layout l = layout_of(gpu, c, batch_n, part);
    size_t tiles = (size_t)l.x.pitch * ((size_t)c->in_channels + c->out_channels);
    *workspace_bytes = UW_WINOGRAD_POINTS * sizeof(float) * l.y.parts * (l.weights + tiles);
    return true;
}

/* A result has the rounding error of all elements of its tile. That is too much for results that
 * sum few elements: few channels, or fewer taps inside the image than the corner has with half a
 * kernel of padding. In bw_input the padding of dy is kernel - 1 - pad. */
bool uw_conv2d_winograd_worth(const struct uw_conv2d *c, enum uw_conv2d_part part)
{
    uint32_t in = c->in_channels, out = c->out_channels, half_h = c->kernel_h / 2u;
    uint32_t half_w = c->kernel_w / 2u;
    if (in < CHANNELS_WORTH || out < CHANNELS_WORTH || c->in_h < TILE || c->in_w < TILE ||
        c->out_h < TILE || c->out_w < TILE) {
        return false;
    }
    if (part == UW_CONV2D_FW) {
        return in >= SUMMED_WORTH && c->pad_h <= half_h && c->pad_w <= half_w;
    }
    return part == UW_CONV2D_BW_PARAM ||
           (out >= SUMMED_WORTH && c->pad_h >= half_h && c->pad_w >= half_w);
}

/* Addresses in the workspace. */
struct buffers {
    float *weights, *x, *y;
};

static struct buffers buffers_of(const struct layout *l, void *workspace)
{
    struct buffers b = {.weights = workspace};
    size_t matrices = (size_t)UW_WINOGRAD_POINTS * l->y.parts;
    b.x = b.weights + matrices * l->weights;
    b.y = b.x + matrices * l->x.channels * l->x.pitch;
    return b;
}

/* Set the slice that begins at tile `from`; slices are about equal. Returns its first image. */
static size_t set_slice(struct layout *l, uint64_t from)
{
    uint64_t slices = (l->tiles + l->most - 1u) / l->most;
    uint64_t n = up((size_t)((l->tiles + slices - 1u) / slices), TILES_EACH);
    n = n < l->most ? n : l->most;
    n = n < l->tiles - from ? n : l->tiles - from;
    l->x.n = l->y.n = (uint32_t)n;
    l->x.each = l->y.each = (uint32_t)((n + l->y.parts - 1u) / l->y.parts);
    l->x.first = l->y.first = (uint32_t)(from % l->y.per_image);
    return (size_t)(from / l->y.per_image);
}

static size_t image_n(const struct uw_winograd_tiles *t)
{
    return (size_t)t->channels * t->h * t->w;
}

/* y = weights x for each of 36 positions; cuBLAS is column-major, so all are transposed there. */
static int multiply(const struct uw_exec *e, const struct layout *l, const struct buffers *b)
{
    const struct uw_cuda_products *p = uw_cuda_of(e)->products;
    const float one = 1.0f, zero = 0.0f;
    const int tiles = (int)l->y.n, pitch = (int)l->y.pitch;
    const int x_channels = (int)l->x.channels, y_channels = (int)l->y.channels;
    return uw_cuda_blas_done(
        e, p->libraries.cublasSgemmStridedBatched(
               p->cublas, CUBLAS_OP_N, CUBLAS_OP_T, tiles, y_channels, x_channels, &one, b->x,
               pitch, (long long)x_channels * pitch, b->weights, y_channels,
               (long long)l->weights, &zero, b->y, pitch, (long long)y_channels * pitch,
               (int)UW_WINOGRAD_POINTS));
}

/* A convolution of dy with reversed and transposed weights. */
static int run_input(const struct uw_exec *e, const struct uw_conv2d_job *j, struct layout *l,
                     const struct buffers *b)
{
    int rc = uw_winograd_weights(e, l->weights, j->b, b->weights);
    for (uint64_t from = 0; from < l->tiles && rc == UW_OK; from += l->y.n) {
        size_t image = set_slice(l, from);
        rc = uw_winograd_input(e, &l->x, j->a + image * image_n(&l->x), b->x);
        rc = rc < 0 ? rc : multiply(e, l, b);
        rc = rc < 0 ? rc : uw_winograd_output(e, &l->y, b->y, j->accumulate,
                                              j->out + image * image_n(&l->y));
    }
    return rc;
}

/* weights (+)= y x^T for each of 36 positions, part by part; the first slice overwrites. */
static int add_up(const struct uw_exec *e, const struct layout *l, const struct buffers *b,
                  bool first)
{
    const struct uw_cuda_products *p = uw_cuda_of(e)->products;
    const float one = 1.0f, beta = first ? 0.0f : 1.0f;
    const int in = (int)l->x.channels, out = (int)l->y.channels, pitch = (int)l->y.pitch;
    return uw_cuda_blas_done(
        e, p->libraries.cublasSgemmStridedBatched(
               p->cublas, CUBLAS_OP_T, CUBLAS_OP_N, in, out, (int)l->y.each, &one, b->x, pitch,
               (long long)in * pitch, b->y, pitch, (long long)out * pitch, &beta, b->weights, in,
               (long long)l->weights, (int)(UW_WINOGRAD_POINTS * l->y.parts)));
}

static int run_param(const struct uw_exec *e, const struct uw_conv2d_job *j, struct layout *l,
                     const struct buffers *b)
{
    int rc = UW_OK;
    for (uint64_t from = 0; from < l->tiles && rc == UW_OK; from += l->y.n) {
        size_t image = set_slice(l, from);
        rc = uw_winograd_input(e, &l->x, j->a + image * image_n(&l->x), b->x);
        rc = rc < 0 ? rc : uw_winograd_spread(e, &l->y, j->b + image * image_n(&l->y), b->y);
        rc = rc < 0 ? rc : add_up(e, l, b, from == 0);
    }
    return rc < 0 ? rc : uw_winograd_taps(e, l->weights, l->y.parts, b->weights, j->scale, j->out);
}

int uw_conv2d_winograd_run(const struct uw_exec *e, const struct uw_conv2d *c,
                           const struct uw_conv2d_job *j, void *workspace)
{
    struct layout l = layout_of(uw_cuda_of(e), c, j->batch_n, j->part);
    const struct buffers b = buffers_of(&l, workspace);
    return j->part == UW_CONV2D_BW_PARAM ? run_param(e, j, &l, &b) : run_input(e, j, &l, &b);
}
