/* SPDX-License-Identifier: Apache-2.0
 *
 * rows_moved.cuh - copy or add rows of floats from x to y by index (copy.cu, gather.cu)
 */
#ifndef UW_KERNELS_CUDA_ROWS_MOVED_CUH
#define UW_KERNELS_CUDA_ROWS_MOVED_CUH

#include "map.cuh"

/* W floats per access. A block covers `across` threads of a row, and as many rows as fit. */
template <int W, bool ADD, typename F>
static __global__ void uw_move_rows_kernel(size_t rows, size_t row_n, unsigned across,
                                           const float *x, float *y, F places)
{
    size_t high = blockDim.x / across, place = threadIdx.x % across;
    for (size_t r = blockIdx.x * high + threadIdx.x / across; r < rows; r += gridDim.x * high) {
        size_t from, to;
        if (!places.at(r, &from, &to)) {
            continue;
        }
        for (size_t i = W * (place + static_cast<size_t>(blockIdx.y) * across); i < row_n;
             i += static_cast<size_t>(W) * across * gridDim.y) {
            uw_floats<W> v = uw_load<W>(x + from + i);
            if (ADD) {
                const uw_floats<W> old = uw_load<W>(y + to + i);
#pragma unroll
                for (int k = 0; k < W; k++) {
                    v.v[k] = old.v[k] + v.v[k];
                }
            }
            uw_store<W>(y + to + i, v);
        }
    }
}

/* places.at(r, &from, &to): offsets of row r in x and y; false: skip it. whole_quads: from and to
 * are multiples of 4. */
template <typename F>
static inline int uw_move_rows(const struct uw_exec *e, size_t rows, size_t row_n,
                               bool whole_quads, const float *x, float *y, bool accumulate,
                               const F &places)
{
    if (rows == 0 || row_n == 0) {
        return UW_OK;
    }
    bool quads = whole_quads && row_n % 4 == 0 && uw_beyond_16(x) == 0 && uw_beyond_16(y) == 0;
    size_t wide = quads ? row_n / 4u : row_n;
    unsigned across = 1;
    while (across < UW_BLOCK && across < wide) {
        across *= 2;
    }
    unsigned blocks = uw_grid(e, rows * across, 1);
    /* Few long rows: several blocks per row. */
    size_t most = uw_cuda_of(e)->multiprocessors * 8u / blocks, cuts = (wide + across - 1u) / across;
    cuts = cuts < most ? cuts : most;
    dim3 grid(blocks, static_cast<unsigned>(cuts < 1 ? 1 : cuts));
    if (quads) {
        return uw_launch(e, grid, UW_BLOCK,
                         accumulate ? uw_move_rows_kernel<4, true, F>
                                    : uw_move_rows_kernel<4, false, F>,
                         rows, row_n, across, x, y, places);
    }
    return uw_launch(e, grid, UW_BLOCK,
                     accumulate ? uw_move_rows_kernel<1, true, F>
                                : uw_move_rows_kernel<1, false, F>,
                     rows, row_n, across, x, y, places);
}

/* gather.cu: slots of struct uw_copy_kernels */
int uw_gather_cuda(const struct uw_exec *e, size_t n, uint32_t rows, uint32_t row_n,
                   const float *x, const float *w, float *y);
int uw_scatter_add_cuda(const struct uw_exec *e, size_t n, uint32_t rows, uint32_t row_n,
                        const float *x, const float *dy, float scale, float *dw);

#endif
