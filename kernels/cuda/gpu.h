/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu.h - an open GPU (private to kernels/cuda)
 *
 * The table is the handle's first member: a slot finds its GPU from e->kernels. All slots put their
 * work on one stream, in the order of the calls; results depend on that order only.
 *
 * Files      open.c       handle, memory, table           libraries.c  load cuBLAS and cuDNN
 *            queue.c      steps, graphs, copies           choices.c    measured algorithms
 *            probe.c      devices, shared pages           group.c      averages by NCCL
 *            *.cu         our own kernels, on launch.cuh and reduce.cuh
 */
#ifndef UW_KERNELS_CUDA_GPU_H
#define UW_KERNELS_CUDA_GPU_H

#include "uwasa/cplusplus.h"
#include "uwasa/cuda.h"
#include "uwasa/slots.h"

#include <cuda_runtime_api.h>

UW_C_BEGIN

/* Partial results of reductions; valid within one slot call. */
#define UW_CUDA_PARTIALS_BYTES (1u << 20)

struct uw_cuda_products;                /* private to the files of cuBLAS and cuDNN */
struct uw_cuda_queue;                   /* private to queue.c */

/* The open step's values and sums, in the GPU's memory. */
struct uw_cuda_step {
    struct uw_device_values values;
    struct uw_device_sums sums;
};

/* Counters of finished blocks, see uw_last_block of reduce.cuh; 0 between launches. They follow the
 * step in the same allocation. */
#define UW_CUDA_TICKETS 4096u
#define UW_CUDA_STEP_BYTES (sizeof(struct uw_cuda_step) + UW_CUDA_TICKETS * sizeof(uint32_t))

/* Results that a slot returns to the processor outside of steps. */
struct uw_cuda_numbers {
    double d[2];
    uint32_t u[4];
};

#define UW_CUDA_BLOCKS_MAX 64u

struct uw_cuda_block {
    void *at;
    bool pinned;                        /* processor memory */
};

struct uw_cuda {
    struct uw_kernels kernels;          /* first: see uw_cuda_of */
    struct uw_device_kernels device;
    struct uw_cuda_config config;
    struct uw_cuda_info info;
    uint32_t multiprocessors;
    size_t shared_bytes;                /* most dynamic shared memory of a block */
    cudaStream_t stream;
    void *partials;                     /* [UW_CUDA_PARTIALS_BYTES], GPU memory */
    uint32_t *tickets;                  /* [UW_CUDA_TICKETS], GPU memory */
    struct uw_cuda_numbers *numbers;    /* pinned memory */
    struct uw_cuda_numbers *numbers_at; /* its address on the GPU */
    struct uw_cuda_step *step;          /* GPU memory */
    bool in_step;                       /* between begin and end */
    struct uw_device_segment segments[UW_DEVICE_SEGMENTS_MAX];  /* of the next update */
    uint32_t segments_n;
    struct uw_cuda_queue *queue;
    struct uw_cuda_products *products;  /* NULL: opened without a GPU, for planning only */
    size_t own_bytes;
    char failure[96];                   /* error text of the first failed call; "": none */
    bool stuck;                         /* leaving a group failed: nothing can be freed */
    struct uw_cuda_block blocks[UW_CUDA_BLOCKS_MAX];    /* from uw_cuda_take */
    uint32_t blocks_n;
};

static inline struct uw_cuda *uw_cuda_of(const struct uw_exec *e)
{
    return (struct uw_cuda *)(void *)e->kernels;
}

/* The open step, GPU memory; NULL outside of one. */
static inline const struct uw_cuda_step *uw_cuda_open_step(const struct uw_exec *e)
{
    return uw_cuda_of(e)->in_step ? uw_cuda_of(e)->step : NULL;
}

/* UW_OK, UW_ERR_NOMEM, or UW_ERR_IO: the GPU failed. */
int uw_cuda_status(cudaError_t rc);

/* probe.c: allocate pages of a kind other than UW_CUDA_PAGES_NONE. Managed ones wait until the GPU
 * is idle. */
cudaError_t uw_cuda_pages_new(enum uw_cuda_pages pages, size_t bytes, void **out);

/* open.c: store the error text of a failed call, unless there is one: later failures usually follow
 * from the first. Forget: where the failed call was only an attempt. */
void uw_cuda_keep_failure(struct uw_cuda *c, const char *who, const char *why);
void uw_cuda_forget_failure(struct uw_cuda *c);

/* After a launch or a library's call: UW_OK, or UW_ERR_IO. Waits when the table is blocking. */
int uw_cuda_launched(const struct uw_exec *e, cudaError_t rc);

/* Wait for the stream and copy the numbers that kernels wrote to c->numbers_at. */
int uw_cuda_numbers(const struct uw_exec *e, struct uw_cuda_numbers *out);

/* The slots: pointwise.cu, activation.cu, copy.cu, sequence.cu, norm.cu, norm_group.cu, lrn.cu,
 * pool.cu, channels.cu, dense_cuda.c, and
 *   update.cu  inside a step: read the step's values; change nothing once it is stopped
 *   loss.cu    inside a step: loss_sum, correct_n, sum point into struct uw_device_sums, on the GPU
 *   conv2d_cuda.c   cuDNN, or conv2d_own.cu where that is faster
 * Contracts: uwasa/kernels.h, uwasa/kernels_layers.h. */
UW_SLOTS(cuda);

/* Other entries of the table, by file. */
extern const struct uw_recurrence_kernels uw_recurrence_cuda;   /* recurrence.cu */
/* recurrence_param.cu: struct uw_recurrence_kernels */
int uw_recurrence_bw_param_cuda(const struct uw_exec *e, const struct uw_recurrence *r,
                                const float *a, const float *h, float scale, float *dw_hh,
                                float *db_ih, float *db_hh);
size_t uw_recurrence_scratch_bytes_cuda(const struct uw_kernels *k, const struct uw_recurrence *r);
/* loss.cu */
int uw_add_losses_cuda(const struct uw_exec *e, const float *weight, uint32_t heads_n,
                       uint32_t samples);                       /* struct uw_device_kernels */
int uw_xent_step_cuda(const struct uw_exec *e, const struct uw_device_xent *x);
int uw_onehot_cuda(const struct uw_exec *e, uint32_t rows, uint32_t n, const uint32_t *label,
                   const float *z, float *t, uint32_t *correct_n);
int uw_clip_cuda(const struct uw_exec *e, float most, size_t n, float *g);      /* update.cu */
void uw_segments_cuda(const struct uw_exec *e, const struct uw_device_segment *s, uint32_t n);
/* norm.cu */
int uw_batchnorm_bw_cuda(const struct uw_exec *e, const struct uw_norm *n, uint32_t batch_n,
                         const float *x, const struct uw_input_norm *norm, const float *dy,
                         float *dgamma, float *dbeta, float *dx, bool accumulate);
/* channels.cu, fused.c */
extern const struct uw_fused_kernels uw_fused_cuda;
int uw_bias_relu_cuda(const struct uw_exec *e, uint32_t batch_n, uint32_t channels, size_t inner_n,
                      const float *b, float ceiling, float *y);
int uw_relu_bw_cuda(const struct uw_exec *e, uint32_t batch_n, uint32_t channels, size_t inner_n,
                    float ceiling, const float *y, float *dy, float *sums);
int uw_relu_bw_copy_cuda(const struct uw_exec *e, size_t n, float ceiling, const float *y,
                         float *dy, float *dx, bool accumulate);
int uw_add_relu_cuda(const struct uw_exec *e, size_t n, const float *a, const float *b,
                     float ceiling, float *y);
/* dense_cuda.c */
int uw_gemm_batch_cuda(const struct uw_exec *e, const struct uw_gemm *g,
                       const struct uw_gemm_batch *batch, const float *a, const float *b, float *c);
/* conv2d_cuda.c */
int uw_conv2d_bias_relu_cuda(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                             const float *x, const float *w, const float *b, float ceiling,
                             float *y);

/* products.c: the libraries' handles on c->stream; their workspaces count in c->own_bytes. */
int uw_cuda_products_open(struct uw_cuda *c, struct uw_error *err);
void uw_cuda_products_close(struct uw_cuda *c);

/* queue.c: fills c->device, c->step. */
int uw_cuda_queue_open(struct uw_cuda *c, struct uw_error *err);
void uw_cuda_queue_close(struct uw_cuda *c);

UW_C_END
#endif
