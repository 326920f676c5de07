/* SPDX-License-Identifier: Apache-2.0
 *
 * conv2d_plan.h - choose the algorithm of a convolution (private to kernels/cuda)
 *
 * Candidates for each shape, minibatch and part are cuDNN's algorithms and the engines of its graph
 * API, our own kernels, for 1 x 1 ones a product by cuBLAS, for gradients of 3 x 3 ones Winograd
 * tiles (not for fw: as on the processor, the rounding of 4 x 4 tiles in activations may change the
 * trajectory of training). A query of the scratch of a shape measures them once and stores the
 * fastest, in memory and in the file of choices. A smaller minibatch uses the same one if its
 * scratch suffices, else one that needs none. Engines are opened for the planned minibatch, scale 1
 * and aligned addresses; other work of that plan uses the first algorithm for which its scratch
 * suffices. Two runs without a common file may choose differently; their results differ by
 * rounding.
 *
 * Excluded are algorithms that sum in no fixed order (BWD_DATA_ALGO_0, BWD_FILTER_ALGO_0 and 3),
 * and Fourier ones, which spread a NaN over an image and need much scratch. cuDNN's Winograd tiles
 * have the same limits as ours: 4 x 4 results for gradients only, 2 x 2 for fw, none for
 * convolutions of few channels.
 *
 * Memory     tables of fixed size in struct uw_cuda_products; while it measures, blocks of the
 *            GPU's memory as large as the tensors. Slots allocate only for a new shape
 * Blocking   uw_conv2d_planned_bytes waits for the GPU; the others never
 */
#ifndef UW_KERNELS_CUDA_CONV2D_PLAN_H
#define UW_KERNELS_CUDA_CONV2D_PLAN_H

#include "choices.h"
#include "conv2d_graph.h"
#include "gpu.h"
#include "libraries.h"

#define UW_CONV2D_PARTS 3u
#define UW_CONV2D_SHAPES_MAX 256u       /* a full table replaces the oldest */
#define UW_CONV2D_PLANS_MAX 4u          /* minibatch sizes of a shape */
#define UW_CONV2D_CANDIDATES_MAX (9u + UW_CONV2D_ENGINES_MAX)

/* Alignment of cuDNN's workspace; that of scratch is UW_ARENA_ALIGN. */
#define UW_CONV2D_ALIGN 256u

/* Algorithms by number, as the file of choices has them. */
enum {
    UW_CONV2D_OWN = 0,
    UW_CONV2D_GEMM = 1,
    UW_CONV2D_GRAPH = 2,                /* an engine, see its key */
    UW_CONV2D_OWN_SPLIT = 3,            /* our own, each sum divided among blocks */
    UW_CONV2D_WINOGRAD = 4,             /* our own transforms around products by cuBLAS */
    UW_CONV2D_DNN = 8                   /* + cudnnConvolution...Algo_t of the part */
};

struct uw_conv2d_choice {
    int32_t algorithm;
    size_t workspace_bytes;
    uint64_t engine;                    /* 0: algorithm is none of the graph API */
};

/* Engines that are ready, by part; bw_input has one for each value of accumulate. */
enum {
    UW_CONV2D_BW_INPUT_ADDS = UW_CONV2D_PARTS,
    UW_CONV2D_GRAPHS
};

struct uw_conv2d_plan {
    uint32_t batch_n;
    bool settled;                       /* scratch was queried and algorithms chosen */
    struct uw_conv2d_choice part[UW_CONV2D_PARTS];
    struct uw_conv2d_graph graphs[UW_CONV2D_GRAPHS];
};

struct uw_conv2d_shape {
    struct uw_conv2d conv;
    uint32_t key[UW_CUDA_CHOICES_SHAPE];
    bool dnn;                           /* cuDNN supports it; the descriptors below are set */
    cudnnTensorDescriptor_t x, y;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t how;
    uint32_t batch_n;                   /* of x and y */
    uint32_t plans_n, plans_next;
    struct uw_conv2d_plan plans[UW_CONV2D_PLANS_MAX];
};

struct uw_conv2d_shapes {
    uint32_t n, next;
    struct uw_conv2d_shape at[UW_CONV2D_SHAPES_MAX];
};

/* One part of one convolution: out = scale * product of a and b (+ out).
 *   fw         a = x, b = w,  out = y;  bias is added; a ceiling above 0: then a ReLU up to it
 *   bw_input   a = dy, b = w, out = dx
 *   bw_param   a = x, b = dy, out = dw; accumulates always, dbias += scale * sums. out, dbias may
 *              be NULL */
struct uw_conv2d_job {
    enum uw_conv2d_part part;
    uint32_t batch_n;
    const float *a, *b;
    float *out;
    float scale;
    bool accumulate;
    const float *bias;
    float ceiling;
    float *dbias;
};

/* conv2d_plan.c ------------------------------------------------------------------------------- */

/* The shape's entry; created if there is none. */
struct uw_conv2d_shape *uw_conv2d_shape_of(struct uw_cuda *c, const struct uw_conv2d *conv);

/* Set the descriptors of x and y for batch_n; false: cuDNN does not support it. */
bool uw_conv2d_set_batch(const struct uw_cuda *c, struct uw_conv2d_shape *s, uint32_t batch_n);

/* Get the workspace of an algorithm, and set descriptors for batch_n; false: not supported. */
bool uw_conv2d_takes(struct uw_cuda *c, struct uw_conv2d_shape *s, uint32_t batch_n,
                     enum uw_conv2d_part part, int32_t algorithm, size_t *workspace_bytes);

/* List algorithms with a workspace up to limit, then the engines of graph (may be NULL). Returns
 * their number, at least 1. */
uint32_t uw_conv2d_candidates(struct uw_cuda *c, struct uw_conv2d_shape *s, uint32_t batch_n,
                              enum uw_conv2d_part part, size_t limit,
                              const struct uw_conv2d_graph *graph,
                              struct uw_conv2d_choice out[UW_CONV2D_CANDIDATES_MAX]);

/* The plan for batch_n; created without measuring if there is none. */
struct uw_conv2d_plan *uw_conv2d_plan_of(struct uw_cuda *c, struct uw_conv2d_shape *s,
                                         uint32_t batch_n);

/* Scratch for minibatches of up to batch_n; measures what is not known. */
size_t uw_conv2d_planned_bytes(struct uw_cuda *c, const struct uw_conv2d *conv, uint32_t batch_n);

void uw_conv2d_shapes_close(const struct uw_cuda_libraries *l, struct uw_conv2d_shapes *all);

/* conv2d_measure.c: find the fastest of n candidates; each runs at least once. graph: the engines
 * among them; NULL: none. *best is written on UW_OK only. us: time of one run.
 *
 * Returns UW_OK, UW_ERR_AGAIN (nothing was tried: no memory, too much work, or a step is open) or
 * UW_ERR_IO (none of them runs). */
int uw_conv2d_measure(struct uw_cuda *c, struct uw_conv2d_shape *s, uint32_t batch_n,
                      enum uw_conv2d_part part, struct uw_conv2d_graph *graph,
                      const struct uw_conv2d_choice *candidates, uint32_t n,
                      struct uw_conv2d_choice *best, double *us);

/* conv2d_cuda.c: put the job on the stream with this algorithm and its workspace. graph: has the
 * choice's engine, if any. Returns as slots. */
int uw_conv2d_run(const struct uw_exec *e, struct uw_conv2d_shape *s,
                  const struct uw_conv2d_job *job, const struct uw_conv2d_choice *choice,
                  struct uw_conv2d_graph *graph, void *workspace);

#endif
