/* SPDX-License-Identifier: Apache-2.0
 *
 * products.h - cuBLAS, cuDNN and measured choices (private to kernels/cuda)
 *
 * True fp32 unless TF32 is enabled: cuBLAS's default mode computes with the type of its operands,
 * and cuDNN's convolutions get CUDNN_FMA_MATH, because their default mode may use TF32. Results of
 * cuBLAS are reproducible, since all its work is on one stream with one workspace. Algorithms of
 * cuDNN with no fixed order of sums are never used.
 *
 * Memory     allocated when a GPU is opened; later, querying the scratch of a new convolution
 *            allocates descriptors of the library
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
    void *workspace;                /* of cuBLAS, GPU memory */
    cudnnHandle_t cudnn;
    size_t conv2d_limit;            /* largest workspace of an algorithm */
    size_t slice_bytes;             /* of Winograd's tiles: see conv2d_winograd.h */
    struct uw_cuda_choices choices;
    struct uw_conv2d_shapes shapes;
    struct uw_dense_shapes dense;
};

/* Translate a library's status to UW_OK, UW_ERR_IO, UW_ERR_NOMEM or UW_ERR_UNSUPPORTED (cuDNN: the
 * algorithm does not support this; nothing was done). Waits when the table is blocking. */
int uw_cuda_blas_done(const struct uw_exec *e, cublasStatus_t status);
int uw_cuda_dnn_done(const struct uw_exec *e, cudnnStatus_t status);

#endif
