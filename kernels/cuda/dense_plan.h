/* SPDX-License-Identifier: Apache-2.0
 *
 * dense_plan.h - cuBLAS or a kernel of our own for a dense layer (private to kernels/cuda)
 *
 * A query of the layer's scratch measures both for the largest minibatch; smaller ones use the same
 * choice. Without a measurement: our own for few samples.
 *
 * Memory     a table of fixed size in struct uw_cuda_products; while it measures, blocks as large
 *            as the tensors
 */
#ifndef UW_KERNELS_CUDA_DENSE_PLAN_H
#define UW_KERNELS_CUDA_DENSE_PLAN_H

#include "conv2d_own.h"
#include "dense_small.h"

#define UW_DENSE_SHAPES_MAX 64u         /* a full table replaces the oldest */
#define UW_DENSE_PARTS 3u

struct uw_dense_shape {
    struct uw_dense dense;
    uint32_t batch_n;
    bool small[UW_DENSE_PARTS];         /* by enum uw_conv2d_part */
};

struct uw_dense_shapes {
    uint32_t n, next;
    struct uw_dense_shape at[UW_DENSE_SHAPES_MAX];
};

/* One part, with members as in struct uw_conv2d_job. bw_param: out = keep * out + scale * gradient,
 * dbias likewise; out is not NULL. */
struct uw_dense_job {
    enum uw_conv2d_part part;
    uint32_t batch_n;
    const float *a, *b;
    float *out;
    float keep, scale;
    bool accumulate;
    const float *bias;
    float *dbias;
};

/* dense_cuda.c: by dense_small.cu or by cuBLAS. Returns as slots. */
int uw_dense_run(const struct uw_exec *e, const struct uw_dense *d, const struct uw_dense_job *j,
                 bool small);

/* The choice for this minibatch, or for the next larger one. */
bool uw_dense_is_small(const struct uw_cuda *c, const struct uw_dense *d, uint32_t batch_n,
                       enum uw_conv2d_part part);

/* Measure minibatches of up to batch_n, unless known or in the file. */
void uw_dense_settle(struct uw_cuda *c, const struct uw_dense *d, uint32_t batch_n);

#endif
