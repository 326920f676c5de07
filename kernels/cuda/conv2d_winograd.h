/* SPDX-License-Identifier: Apache-2.0
 *
 * conv2d_winograd.h - gradients of 3 x 3 convolutions with a quarter of the multiplications
 * (private to kernels/cuda)
 *
 *   bw_input   dx = A^T [(G w G^T) . (B^T dy B)] A, summed over output channels, the taps of w
 *              turned by half a circle
 *   bw_param   dw = G^T [(A dy A^T) . (B^T x B)] G, summed over tiles
 *
 * A tile is 4 x 4 results and the 6 x 6 values that they see, cut off at the edges. The sums are
 * 36 matrix products, which cuBLAS does; between them and memory stand kernels that transform.
 * Tiles are taken in slices: what a kernel leaves is in the GPU's cache when the next one reads it.
 * The points are those of the processor's tables, 0, 1, -1, 1/2, -2 and infinity: errors are about
 * four times those of the definition (root mean square). The losses of ten steps of vgg16 leave
 * PyTorch's by 4e-4 where fw rounds so: hence gradients alone, as there, and not with TF32.
 *
 * Layout     weights and sums over tiles [36][out_channels][in_channels], tiles
 *            [36][channels][uw_winograd_tiles.pitch], workspace: weights or sums, tiles of x (dy in
 *            bw_input), tiles of the result (dy in bw_param). In bw_param each of the 36 is as many
 *            parts, so that the products of few channels fill the GPU too
 * Memory     workspace from the caller, exact
 * Numerics   one order of sums, which depends on the shape, the minibatch, and the GPU's cache and
 *            multiprocessors. A NaN reaches all results of the tiles that see it; infinity may
 *            become NaN
 * Blocking   never: work for the GPU's stream, and may be recorded into a graph
 * Source     A. Lavin, S. Gray, "Fast Algorithms for Convolutional Neural Networks", 2016
 */
#ifndef UW_KERNELS_CUDA_CONV2D_WINOGRAD_H
#define UW_KERNELS_CUDA_CONV2D_WINOGRAD_H

#include "conv2d_own.h"
#include "gpu.h"

UW_C_BEGIN

struct uw_conv2d_job;

#define UW_WINOGRAD_POINTS 36u

/* What the transformed tiles of a slice may take, both kinds together: half of the GPU's cache. */
size_t uw_conv2d_winograd_slice_bytes(size_t cache_bytes);

/* Does it take this part, and with what workspace? Not fw, and not with TF32. */
bool uw_conv2d_winograd_takes(const struct uw_cuda *gpu, const struct uw_conv2d *c,
                              uint32_t batch_n, enum uw_conv2d_part part,
                              size_t *workspace_bytes);

/* Do tiles gain something here, and round little enough, to be measured: these, or cuDNN's? */
bool uw_conv2d_winograd_worth(const struct uw_conv2d *c, enum uw_conv2d_part part);

/* Put the job on the stream: without dbias in bw_param, out not NULL.
 * workspace: as many bytes as `takes` says, aligned to 16. Returns as slots. */
int uw_conv2d_winograd_run(const struct uw_exec *e, const struct uw_conv2d *c,
                           const struct uw_conv2d_job *j, void *workspace);

/* conv2d_winograd.cu -------------------------------------------------------------------------- */

/* A slice: tiles from tile `first` of an image on, row by row, image by image. Planes are [h][w]
 * floats; a tile's first value is at pad rows and columns before its first result. */
struct uw_winograd_tiles {
    uint32_t channels, h, w, pad_h, pad_w;
    uint32_t across, per_image;             /* tiles */
    uint32_t first, n;
    uint32_t parts, each, pitch;            /* parts * each >= n tiles: zeros behind the last */
};

/* u = G w G^T of n kernels of 9 taps, the last tap first. */
int uw_winograd_weights(const struct uw_exec *e, size_t n, const float *w, float *u);

/* v = B^T x B; x: the first tile's image */
int uw_winograd_input(const struct uw_exec *e, const struct uw_winograd_tiles *t, const float *x,
                      float *v);

/* y = A^T m A (+ y). There is one part, each == n, and no pad. */
int uw_winograd_output(const struct uw_exec *e, const struct uw_winograd_tiles *t, const float *m,
                       bool accumulate, float *y);

/* v = A dy A^T. There is no pad. */
int uw_winograd_spread(const struct uw_exec *e, const struct uw_winograd_tiles *t, const float *dy,
                       float *v);

/* dw += scale * G^T (sum of parts of s) G for n kernels of 9 taps */
int uw_winograd_taps(const struct uw_exec *e, size_t n, uint32_t parts, const float *s, float scale,
                     float *dw);

UW_C_END
#endif
