/* SPDX-License-Identifier: Apache-2.0
 *
 * conv2d_winograd.h - gradients of 3 x 3 convolutions with a quarter of the multiplications
 * (private to kernels/cuda)
 *
 *   bw_input   dx = A^T [(G w G^T) . (B^T dy B)] A, summed over output channels, the taps of w
 *              in reverse order
 *   bw_param   dw = G^T [(A dy A^T) . (B^T x B)] G, summed over tiles
 *
 * A tile is 4 x 4 results and the 6 x 6 values that they depend on, clipped at the edges. The sums
 * are 36 matrix products by cuBLAS, between our own transform kernels. Tiles are processed in
 * slices, so that each kernel's output is still in the GPU's cache for the next one. The points are
 * those of packed/winograd.h, 0, 1, -1, 1/2, -2 and infinity: the rounding error is about four
 * times that of a direct convolution (root mean square). With such an error in fw, the losses of
 * ten steps of vgg16 differ from PyTorch's by 4e-4: hence for gradients only, and not with TF32.
 *
 * Layout     weights and sums over tiles [36][out_channels][in_channels], tiles
 *            [36][channels][uw_winograd_tiles.pitch], workspace: weights or sums, tiles of x (dy in
 *            bw_input), tiles of the result (dy in bw_param). In bw_param each of the 36 products
 *            is divided into `parts`, so that few channels fill the GPU too
 * Memory     workspace from the caller, exact
 * Numerics   the order of sums depends on the shape, the minibatch, and the GPU's cache size and
 *            number of multiprocessors. A NaN reaches all results of the tiles that read it;
 *            infinity may become NaN
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

/* Limit of the transformed tiles of a slice, input and result together: half of the GPU's cache. */
size_t uw_conv2d_winograd_slice_bytes(size_t cache_bytes);

/* Is this part supported, and with what workspace? Not fw, and not with TF32. */
bool uw_conv2d_winograd_takes(const struct uw_cuda *gpu, const struct uw_conv2d *c,
                              uint32_t batch_n, enum uw_conv2d_part part,
                              size_t *workspace_bytes);

/* Are Winograd tiles, ours or cuDNN's, worth measuring: fast enough, and with little rounding? */
bool uw_conv2d_winograd_worth(const struct uw_conv2d *c, enum uw_conv2d_part part);

/* Put the job on the stream; out is not NULL, and dbias is not computed. workspace: of the size
 * from uw_conv2d_winograd_takes, aligned to 16. Returns as slots. */
int uw_conv2d_winograd_run(const struct uw_exec *e, const struct uw_conv2d *c,
                           const struct uw_conv2d_job *j, void *workspace);

/* conv2d_winograd.cu -------------------------------------------------------------------------- */

/* A slice: n tiles, row by row, image by image, beginning with tile `first` of an image. Planes are
 * [h][w] floats; a tile's first value is pad rows and columns before its first result. */
struct uw_winograd_tiles {
    uint32_t channels, h, w, pad_h, pad_w;
    uint32_t across, per_image;             /* tiles of a row, of an image */
    uint32_t first, n;
    uint32_t parts, each, pitch;            /* parts * each >= n tiles, padded with zeros */
};

/* u = G w G^T for n kernels of 9 taps in reverse order */
int uw_winograd_weights(const struct uw_exec *e, size_t n, const float *w, float *u);

/* v = B^T x B; x: the first tile's image */
int uw_winograd_input(const struct uw_exec *e, const struct uw_winograd_tiles *t, const float *x,
                      float *v);

/* y = A^T m A (+ y); needs parts == 1, each == n, no pad */
int uw_winograd_output(const struct uw_exec *e, const struct uw_winograd_tiles *t, const float *m,
                       bool accumulate, float *y);

/* v = A dy A^T; needs no pad */
int uw_winograd_spread(const struct uw_exec *e, const struct uw_winograd_tiles *t, const float *dy,
                       float *v);

/* dw += scale * G^T (sum of parts of s) G for n kernels of 9 taps */
int uw_winograd_taps(const struct uw_exec *e, size_t n, uint32_t parts, const float *s, float scale,
                     float *dw);

UW_C_END
#endif
