/* SPDX-License-Identifier: Apache-2.0
 *
 * Measure candidates for a convolution in temporary memory. */
#include "measure.h"
#include "products.h"

struct trial {
    struct uw_conv2d_shape *shape;
    struct uw_conv2d_graph *graph;
    const struct uw_conv2d_choice *candidates;
    struct uw_conv2d_job job;
    void *memory, *workspace;
};

static size_t padded(size_t bytes)
{
    return (bytes + UW_CONV2D_ALIGN - 1u) / UW_CONV2D_ALIGN * UW_CONV2D_ALIGN;
}

static double products_n(const struct uw_conv2d *c, uint32_t batch_n)
{
    return (double)batch_n * c->out_channels * c->out_h * c->out_w *
           (c->in_channels / c->groups) * c->kernel_h * c->kernel_w;
}

/* Allocate x, y, w and the largest workspace, filled with small numbers. */
static bool begin(struct trial *t, struct uw_cuda *c, uint32_t batch_n, enum uw_conv2d_part part,
                  size_t workspace_bytes)
{
    const struct uw_conv2d *v = &t->shape->conv;
    size_t x = padded((size_t)batch_n * v->in_channels * v->in_h * v->in_w * sizeof(float));
    size_t y = padded((size_t)batch_n * v->out_channels * v->out_h * v->out_w * sizeof(float));
    size_t w = padded((size_t)v->out_channels * (v->in_channels / v->groups) * v->kernel_h *
                      v->kernel_w * sizeof(float));
    size_t all = x + y + w + workspace_bytes;
    if (cudaMalloc(&t->memory, all) != cudaSuccess) {
        (void)cudaGetLastError();       /* clear the error */
        t->memory = NULL;
        return false;
    }
    /* Bytes of 0x3c make floats of 0.0115. */
    if (cudaMemsetAsync(t->memory, 0x3c, all, c->stream) != cudaSuccess) {
        return false;
    }
    float *at_x = t->memory, *at_y = at_x + x / sizeof(float), *at_w = at_y + y / sizeof(float);
    t->workspace = (unsigned char *)t->memory + x + y + w;
    t->job = (struct uw_conv2d_job){
        .part = part, .batch_n = batch_n, .a = part == UW_CONV2D_BW_INPUT ? at_y : at_x,
        .b = part == UW_CONV2D_BW_PARAM ? at_y : at_w,
        .out = part == UW_CONV2D_FW ? at_y : part == UW_CONV2D_BW_INPUT ? at_x : at_w,
        .scale = 1.0f,
        .accumulate = t->graph != NULL ? t->graph->accumulate : part == UW_CONV2D_BW_PARAM};
    return true;
}

static int run(const struct uw_exec *e, void *job, uint32_t i)
{
    struct trial *t = job;
    const struct uw_conv2d_choice *way = &t->candidates[i];
    return uw_conv2d_run(e, t->shape, &t->job, way, t->graph,
                         way->workspace_bytes == 0 ? NULL : t->workspace);
}

int uw_conv2d_measure(struct uw_cuda *c, struct uw_conv2d_shape *s, uint32_t batch_n,
                      enum uw_conv2d_part part, struct uw_conv2d_graph *graph,
                      const struct uw_conv2d_choice *candidates, uint32_t n,
                      struct uw_conv2d_choice *best, double *us)
{
    struct trial t = {.shape = s, .graph = graph, .candidates = candidates};
    size_t workspace_bytes = 0;
    uint32_t fastest = 0;
    for (uint32_t i = 0; i < n; i++) {
        size_t bytes = candidates[i].workspace_bytes;
        workspace_bytes = bytes > workspace_bytes ? bytes : workspace_bytes;
    }
    if (!uw_cuda_is_measured(c, products_n(&s->conv, batch_n))) {
        return UW_ERR_AGAIN;
    }
    int rc = begin(&t, c, batch_n, part, workspace_bytes)
                 ? uw_cuda_fastest(c, run, &t, n, &fastest, us)
                 : UW_ERR_AGAIN;
    if (rc == UW_OK) {
        *best = candidates[fastest];
    }
    if (t.memory != NULL) {
        (void)cudaFree(t.memory);
    }
    return rc;
}
