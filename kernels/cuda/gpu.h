/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu.h - an open GPU (private to kernels/cuda)
 *
 * The table is the handle's first member: a slot finds its GPU from e->kernels. All slots put their
 * work on one stream, in the order of the calls; results do not depend on anything but that order.
 *
 * Files      open.c       the handle, memory, the table   libraries.c  cuBLAS and cuDNN, loaded
 *            queue.c      steps, graphs, copies           choices.c    measured algorithms
 *            probe.c      what there is, shared pages    group.c      averages by NCCL
 *            *.cu         slots with kernels of their own, launch.cuh and reduce.cuh beneath
 */
#ifndef UW_KERNELS_CUDA_GPU_H
#define UW_KERNELS_CUDA_GPU_H

#include "uwasa/cplusplus.h"
#include "uwasa/cuda.h"
#include "uwasa/slots.h"

#include <cuda_runtime_api.h>

UW_C_BEGIN

/* Partial results of reductions: what one slot leaves here the same slot reads. */
#define UW_CUDA_PARTIALS_BYTES (1u << 20)

struct uw_cuda_products;                /* private to the files of cuBLAS and cuDNN */
struct uw_cuda_queue;                   /* private to queue.c */

/* What kernels read of the open step, in the GPU's memory. */
struct uw_cuda_step {
    struct uw_device_values values;
    struct uw_device_sums sums;
};

/* Counters of blocks that wait for nobody, see uw_last_block of reduce.cuh; 0 between launches.
 * They stand behind the step, in one block of memory. */
#define UW_CUDA_TICKETS 4096u
#define UW_CUDA_STEP_BYTES (sizeof(struct uw_cuda_step) + UW_CUDA_TICKETS * sizeof(uint32_t))

/* Numbers on their way to the processor, outside of steps. */
struct uw_cuda_numbers {
    double d[2];
    uint32_t u[4];
};

#define UW_CUDA_BLOCKS_MAX 64u

struct uw_cuda_block {
    void *at;
    bool pinned;                        /* the processor's */
};

struct uw_cuda {
    struct uw_kernels kernels;          /* first: see uw_cuda_of */
    struct uw_device_kernels device;
    struct uw_cuda_config config;
    struct uw_cuda_info info;
    uint32_t multiprocessors;
    size_t shared_bytes;                /* the most dynamic shared memory of a block */
    cudaStream_t stream;
    void *partials;                     /* [UW_CUDA_PARTIALS_BYTES], the GPU's */
    uint32_t *tickets;                  /* [UW_CUDA_TICKETS], the GPU's */
    struct uw_cuda_numbers *numbers;    /* both see it; `numbers_at` is where the GPU does */
    struct uw_cuda_numbers *numbers_at;
    struct uw_cuda_step *step;          /* the GPU's */
    bool in_step;                       /* between begin and end */
    struct uw_device_segment segments[UW_DEVICE_SEGMENTS_MAX];  /* of the next update */
    uint32_t segments_n;
    struct uw_cuda_queue *queue;
    struct uw_cuda_products *products;  /* NULL: unseen, for planning alone */
    size_t own_bytes;
    char failure[96];                   /* the first call that failed, in its library's words; "" */
    bool stuck;                         /* a group was not left: nothing can be given back */
    struct uw_cuda_block blocks[UW_CUDA_BLOCKS_MAX];    /* what uw_cuda_take took */
    uint32_t blocks_n;
};

static inline struct uw_cuda *uw_cuda_of(const struct uw_exec *e)
{
    return (struct uw_cuda *)(void *)e->kernels;
}

/* The open step as kernels take it; NULL outside of one. */
static inline const struct uw_cuda_step *uw_cuda_open_step(const struct uw_exec *e)
{
    return uw_cuda_of(e)->in_step ? uw_cuda_of(e)->step : NULL;
}

/* UW_OK, UW_ERR_NOMEM, or UW_ERR_IO: the GPU failed. */
int uw_cuda_status(cudaError_t rc);

/* probe.c: new pages of a kind, not UW_CUDA_PAGES_NONE. Managed ones wait until the GPU rests. */
cudaError_t uw_cuda_pages_new(enum uw_cuda_pages pages, size_t bytes, void **out);

/* open.c: keep why a call failed, of the first that did: what follows comes of it. Forget it
 * where the call was only tried, and nothing depends on it. */
void uw_cuda_keep_failure(struct uw_cuda *c, const char *who, const char *why);
void uw_cuda_forget_failure(struct uw_cuda *c);

/* After a launch or a library's call: UW_OK, or UW_ERR_IO. Waits when the table is blocking. */
int uw_cuda_launched(const struct uw_exec *e, cudaError_t rc);

/* Wait for the stream, and give the numbers that kernels wrote to c->numbers_at. */
int uw_cuda_numbers(const struct uw_exec *e, struct uw_cuda_numbers *out);

/* The slots: pointwise.cu, activation.cu, copy.cu, sequence.cu, norm.cu, norm_group.cu, lrn.cu,
 * pool.cu, channels.cu, dense_cuda.c, and
 *   update.cu  inside a step they read its values, and change nothing once it is stopped
 *   loss.cu    inside a step loss_sum, correct_n, sum are the GPU's, one of struct uw_device_sums
 *   conv2d_cuda.c   cuDNN, or conv2d_own.cu where that is faster
 * Contracts: uwasa/kernels.h, uwasa/kernels_layers.h. */
UW_SLOTS(cuda);

/* What else a table has, by file. */
extern const struct uw_recurrence_kernels uw_recurrence_cuda;   /* recurrence.cu */
/* recurrence_param.cu: struct uw_recurrence_kernels */
int uw_recurrence_bw_param_cuda(const struct uw_exec *e, const struct uw_recurrence *r,
                                const float *a, const float *h, float scale, float *dw_hh,
                                float *db_ih, float *db_hh);
size_t uw_recurrence_scratch_bytes_cuda(const struct uw_kernels *k, const struct uw_recurrence *r);
/* loss.cu */
int uw_add_losses_cuda(const struct uw_exec *e, const float *weight, uint32_t heads_n,
                       uint32_t samples);                       /* device's, as the next three */
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

/* products: the libraries' handles on c->stream, and their workspaces in c->own_bytes. */
int uw_cuda_products_open(struct uw_cuda *c, struct uw_error *err);
void uw_cuda_products_close(struct uw_cuda *c);

/* queue.c: fills c->device, c->step. */
int uw_cuda_queue_open(struct uw_cuda *c, struct uw_error *err);
void uw_cuda_queue_close(struct uw_cuda *c);

UW_C_END
#endif
