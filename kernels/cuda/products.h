/* SPDX-License-Identifier: Apache-2.0
 *
 * products.h - cuBLAS, cuDNN and what was measured (private to kernels/cuda)
 *
 * True fp32 unless TF32 is asked for: cuBLAS's default mode computes with the type of its operands,
 * and cuDNN's convolutions get CUDNN_FMA_MATH, because their default mode may take TF32 on its own.
 * Results of cuBLAS repeat, as all its work is on one stream with one workspace; cuDNN's algorithms
 * that add up in no fixed order are never taken.
 *
 * Memory     taken when a GPU is opened; afterwards a new shape of a convolution takes descriptors
 *            of the library, when its scratch is asked for
 */
#ifndef UW_KERNELS_CUDA_PRODUCTS_H
#define UW_KERNELS_CUDA_PRODUCTS_H

#include "choices.h"
#include "conv2d_plan.h"
#include "dense_plan.h"
#include "gpu.h"
#include "libraries.h"

struct uw_cuda_products {
    struct uw_cuda_libraries libraries;
    cublasHandle_t cublas;
    void *workspace;                /* cuBLAS's, the GPU's */
    cudnnHandle_t cudnn;
    size_t conv2d_limit;            /* algorithms with more workspace are not taken */
    size_t slice_bytes;             /* of Winograd's tiles: see conv2d_winograd.h */
    struct uw_cuda_choices choices;
    struct uw_conv2d_shapes shapes;
    struct uw_dense_shapes dense;
};

/* UW_OK, or UW_ERR_IO, UW_ERR_NOMEM, UW_ERR_UNSUPPORTED (cuDNN: this algorithm does not take it,
 * and nothing was done): what a library's status means. Waits when the table is blocking. */
int uw_cuda_blas_done(const struct uw_exec *e, cublasStatus_t status);
int uw_cuda_dnn_done(const struct uw_exec *e, cudnnStatus_t status);

#endif
