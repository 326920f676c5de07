/* SPDX-License-Identifier: Apache-2.0
 *
 * conv2d_plan.h - which algorithm computes a convolution (private to kernels/cuda)
 *
 * For each shape, minibatch and part there are cuDNN's algorithms and the engines of its graph
 * API, our own kernels, for 1 x 1 ones a product by cuBLAS, for gradients of 3 x 3 ones Winograd's
 * way (not for fw: as on the processor, what tiles of 4 x 4 add to activations may leave the
 * trajectory that training has otherwise). When the scratch of a shape is asked for they are
 * measured once and the fastest is kept, in memory and in the file of choices; a smaller minibatch
 * takes the same one where its scratch suffices, else one that needs none.
 * Engines are ready for the minibatch that was planned, scale 1 and aligned addresses; any other
 * work of that plan takes the first algorithm that its scratch suffices for. Two runs without a
 * common file may choose differently, and their results differ by rounding.
 *
 * Never taken: what adds up in no fixed order (BWD_DATA_ALGO_0, BWD_FILTER_ALGO_0 and 3), and the
 * Fourier ones, which would show a NaN all over an image and want much scratch. cuDNN's Winograd
 * tiles have the rule of ours, for the same rounding: tiles of 4 x 4 results are for gradients, fw
 * has those of 2 x 2, and convolutions of few channels have none.
 *
 * Memory     tables of fixed size in struct uw_cuda_products; while it measures, blocks of the
 *            GPU's memory as large as the tensors. Slots take nothing, but for a new shape
 * Blocking   uw_conv2d_planned_bytes waits for the GPU; the others never
 */
#ifndef UW_KERNELS_CUDA_CONV2D_PLAN_H
#define UW_KERNELS_CUDA_CONV2D_PLAN_H

#include "choices.h"
#include "conv2d_graph.h"
#include "gpu.h"
#include "libraries.h"

#define UW_CONV2D_PARTS 3u
#define UW_CONV2D_SHAPES_MAX 256u       /* the oldest goes when there are more */
#define UW_CONV2D_PLANS_MAX 4u          /* minibatch sizes of a shape */
#define UW_CONV2D_CANDIDATES_MAX (9u + UW_CONV2D_ENGINES_MAX)

/* How cuDNN's workspace is aligned; scratch is to UW_ARENA_ALIGN. */
#define UW_CONV2D_ALIGN 256u

/* Algorithms by number, as the file of choices has them. */
enum {
    UW_CONV2D_OWN = 0,
    UW_CONV2D_GEMM = 1,
    UW_CONV2D_GRAPH = 2,                /* an engine, which its key tells */
    UW_CONV2D_OWN_SPLIT = 3,            /* our own, its depth shared */
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
    bool settled;                       /* its scratch was asked for */
    struct uw_conv2d_choice part[UW_CONV2D_PARTS];
    struct uw_conv2d_graph graphs[UW_CONV2D_GRAPHS];
};

struct uw_conv2d_shape {
    struct uw_conv2d conv;
    uint32_t key[UW_CUDA_CHOICES_SHAPE];
    bool dnn;                           /* cuDNN takes it, and the descriptors below are there */
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

/* The shape's entry, made where there is none. */
struct uw_conv2d_shape *uw_conv2d_shape_of(struct uw_cuda *c, const struct uw_conv2d *conv);

/* Descriptors of x and y for batch_n; false: cuDNN does not take so many. */
bool uw_conv2d_set_batch(const struct uw_cuda *c, struct uw_conv2d_shape *s, uint32_t batch_n);

/* Workspace of an algorithm, and descriptors set for batch_n; false: it does not take this. */
bool uw_conv2d_takes(struct uw_cuda *c, struct uw_conv2d_shape *s, uint32_t batch_n,
                     enum uw_conv2d_part part, int32_t algorithm, size_t *workspace_bytes);

/* Algorithms that take it with workspace up to limit, then the engines of graph, if it is not
 * NULL; returns their number, 1 at least. */
uint32_t uw_conv2d_candidates(struct uw_cuda *c, struct uw_conv2d_shape *s, uint32_t batch_n,
                              enum uw_conv2d_part part, size_t limit,
                              const struct uw_conv2d_graph *graph,
                              struct uw_conv2d_choice out[UW_CONV2D_CANDIDATES_MAX]);

/* The plan for batch_n, made unmeasured where there is none. */
struct uw_conv2d_plan *uw_conv2d_plan_of(struct uw_cuda *c, struct uw_conv2d_shape *s,
                                         uint32_t batch_n);

/* Scratch for minibatches of up to batch_n; measures what is not known. */
size_t uw_conv2d_planned_bytes(struct uw_cuda *c, const struct uw_conv2d *conv, uint32_t batch_n);

void uw_conv2d_shapes_close(const struct uw_cuda_libraries *l, struct uw_conv2d_shapes *all);

/* conv2d_measure.c: the fastest of n candidates; each of them has run once. graph: of the engines
 * among them; NULL: there are none. *best is as it was unless it returns UW_OK. us: what one run
 * takes.
 *
 * Returns UW_OK, UW_ERR_AGAIN (nothing was tried: no memory, too much work, or a step is open) or
 * UW_ERR_IO (none of them runs). */
int uw_conv2d_measure(struct uw_cuda *c, struct uw_conv2d_shape *s, uint32_t batch_n,
                      enum uw_conv2d_part part, struct uw_conv2d_graph *graph,
                      const struct uw_conv2d_choice *candidates, uint32_t n,
                      struct uw_conv2d_choice *best, double *us);

/* conv2d_cuda.c: put the job on the stream, by this choice with its workspace. graph: where the
 * engine is, of a choice that is one. Returns as slots. */
int uw_conv2d_run(const struct uw_exec *e, struct uw_conv2d_shape *s,
                  const struct uw_conv2d_job *job, const struct uw_conv2d_choice *choice,
                  struct uw_conv2d_graph *graph, void *workspace);

#endif
