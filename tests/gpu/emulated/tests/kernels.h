/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels.h - small kernels that test the emulated GPU. Each launch returns as cudaGetLastError. */
#ifndef UW_EMULATED_TEST_KERNELS_H
#define UW_EMULATED_TEST_KERNELS_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* x[i] += by, of n; any launch configuration */
cudaError_t launch_add(cudaStream_t stream, unsigned blocks, unsigned threads, size_t shared_bytes,
                       size_t n, float by, float *x);
/* y[i] = x[i] for `from` as it is when the kernel runs */
cudaError_t launch_copy(cudaStream_t stream, size_t n, const float *x, float *y);
/* sums[block] of the block's part of x, by shared memory, with and without its barriers */
cudaError_t launch_sum(cudaStream_t stream, unsigned blocks, const float *x, float *sums);
cudaError_t launch_sum_without_barriers(cudaStream_t stream, unsigned blocks, const float *x,
                                        float *sums);
/* The same by shuffles. */
cudaError_t launch_warp_sum(cudaStream_t stream, unsigned blocks, const float *x, float *sums);
/* out[0] lanes, out[1] ballot of the odd ones, out[2] from the lane above, out[3] below, out[4] of
 * 16 lanes the first, out[5] __syncthreads_count of the odd ones: each summed up over 64 threads */
cudaError_t launch_warp_functions(cudaStream_t stream, unsigned *out);
/* y[i] = shared memory that nobody wrote: static, dynamic */
cudaError_t launch_read_shared(cudaStream_t stream, float *y);
/* Half of the threads skip a barrier; a mask that names lanes that have ended. */
cudaError_t launch_half_at_barrier(cudaStream_t stream);
cudaError_t launch_half_in_mask(cudaStream_t stream);
/* y[i] gets what a neighbour had: of the block, of the warp, or the sum of what all blocks left,
 * taken by the last of two; in between is what orders them, or too little. `turned`: read first,
 * then write. */
enum launch_between {
    BETWEEN_BARRIER,
    BETWEEN_WARP_SYNC,
    BETWEEN_SHUFFLE,
    BETWEEN_FENCES,
    BETWEEN_TICKET,
    BETWEEN_NOTHING
};
cudaError_t launch_neighbours(cudaStream_t stream, enum launch_between between, int turned,
                              float *y);
cudaError_t launch_last_block(cudaStream_t stream, enum launch_between between, unsigned *ticket,
                              float *parts, float *y);
/* Every thread of two blocks writes 1 to flag, as it is or as volatile. */
cudaError_t launch_raise(cudaStream_t stream, int is_volatile, unsigned *flag);
/* The number of blocks in the grid that came before, counted by atomics. */
cudaError_t launch_count(cudaStream_t stream, dim3 grid, dim3 threads, unsigned *counter);

#ifdef __cplusplus
}
#endif

#endif
