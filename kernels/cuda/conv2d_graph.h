/* SPDX-License-Identifier: Apache-2.0
 *
 * conv2d_graph.h - convolutions by cuDNN's graph API (private to kernels/cuda)
 *
 * A part of a convolution is described as a graph of one operation. cuDNN's heuristics list engines
 * for it, first fast ones, then general ones. An engine that can be finalized is a candidate of
 * conv2d_plan.h. Its key is a hash of its number and the values of its knobs: the file of choices
 * stores the key, and the next start searches it in the heuristics' list.
 *
 * Excluded, by the engines' notes: sums in no fixed order; Fourier and large Winograd tiles (see
 * conv2d_plan.h); sums of less than fp32; TF32 and other narrower factors unless TF32 is allowed;
 * and engines compiled at run time, which take about a second each at every start, and whose code
 * is freed with the plan while recorded steps still use it. Only engines of that last kind fuse
 * bias and ReLU for [N][C][H][W] in fp32, which are therefore separate passes.
 *
 * On any failure (an older cuDNN, no heuristics, no suitable engine) g stays empty.
 *
 * Memory     the library's own descriptors, all of them when a graph is opened; a variant pack
 *            when one runs at other addresses than before. Workspace is the caller's
 * Blocking   never; running one may be recorded
 */
#ifndef UW_KERNELS_CUDA_CONV2D_GRAPH_H
#define UW_KERNELS_CUDA_CONV2D_GRAPH_H

#include "conv2d_own.h"
#include "gpu.h"
#include "libraries.h"

#define UW_CONV2D_ENGINES_MAX 8u

struct uw_conv2d_engine {
    uint64_t key;                       /* never 0 */
    size_t workspace_bytes;
    cudnnBackendDescriptor_t config, plan;
};

struct uw_conv2d_graph {
    bool accumulate;                    /* into out */
    uint32_t tile_most;                 /* largest tile of an engine, values each way */
    uint32_t made_n, engines_n;         /* 0: it is not open */
    cudnnBackendDescriptor_t made[6];   /* three tensors, the convolution, operation, graph */
    struct uw_conv2d_engine engines[UW_CONV2D_ENGINES_MAX];
    cudnnBackendDescriptor_t pack;      /* of the addresses at: a, b, out, workspace */
    void *at[4];
};

/* Open the engines for a part of a minibatch of batch_n with a workspace of up to limit, in the
 * heuristics' order. wanted: the key of a single engine; 0: all. g is overwritten.
 *
 * Returns whether there is one; if not, g is empty. */
bool uw_conv2d_graph_open(struct uw_cuda *c, const struct uw_conv2d *conv, uint32_t batch_n,
                          enum uw_conv2d_part part, bool accumulate, size_t limit, uint64_t wanted,
                          struct uw_conv2d_graph *g);

/* Free all engines except that of the key; all of g if it is not there. */
void uw_conv2d_graph_keep(const struct uw_cuda_libraries *l, struct uw_conv2d_graph *g,
                          uint64_t key);

/* Free everything; g is empty afterwards. Safe on a zeroed or empty one. */
void uw_conv2d_graph_close(const struct uw_cuda_libraries *l, struct uw_conv2d_graph *g);

/* The engine of a key; NULL: it is not in g. */
const struct uw_conv2d_engine *uw_conv2d_graph_find(const struct uw_conv2d_graph *g, uint64_t key);

/* Are these addresses aligned as engines require? */
bool uw_conv2d_graph_aligned(const float *a, const float *b, const float *out);

/* Put out = product (+ out) on the stream: a, b, out as in struct uw_conv2d_job, workspace of the
 * engine's size. Returns as slots; UW_ERR_UNSUPPORTED: nothing was done. */
int uw_conv2d_graph_run(const struct uw_exec *e, struct uw_conv2d_graph *g,
                        const struct uw_conv2d_engine *engine, const float *a, const float *b,
                        float *out, void *workspace);

#endif
