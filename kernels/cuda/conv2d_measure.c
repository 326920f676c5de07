/* SPDX-License-Identifier: Apache-2.0
 *
 * Which candidate is fastest. Runs of one are recorded into a graph, as steps are: what the
 * processor needs to launch them does not count. */
#include "products.h"

#include <string.h>

/* Multiplications of a convolution that may be tried: a second on the smallest GPU. One that is
 * emulated does a few millions a second. */
#ifdef UW_CUDA_EMULATED
#define PRODUCTS_MAX ((uint64_t)1 << 16)
#else
#define PRODUCTS_MAX ((uint64_t)1 << 40)
#endif

#define RUNS_MAX 16u                    /* in a graph */
#define RUNS_MS 0.3f                    /* enough for the clock of events */
#define REPEATS 5u
#define HOPELESS 3.0f                   /* times the best: not looked at any longer */

struct trial {
    struct uw_exec exec;
    struct uw_conv2d_shape *shape;
    struct uw_conv2d_job job;
    void *memory, *workspace;
    cudaEvent_t from, to;
};

static size_t padded(size_t bytes)
{
    return (bytes + UW_CONV2D_ALIGN - 1u) / UW_CONV2D_ALIGN * UW_CONV2D_ALIGN;
}

static uint64_t products_n(const struct uw_conv2d *c, uint32_t batch_n)
{
    double n = (double)batch_n * c->out_channels * c->out_h * c->out_w *
               (c->in_channels / c->groups) * c->kernel_h * c->kernel_w;
    return n < 1e18 ? (uint64_t)n : (uint64_t)1e18;
}

/* Memory for x, y, w and the largest workspace, filled with small numbers. */
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
        (void)cudaGetLastError();       /* it is no error of a later call */
        t->memory = NULL;
        return false;
    }
    /* Each byte 0x3c: floats of 0.0115. */
    if (cudaMemsetAsync(t->memory, 0x3c, all, c->stream) != cudaSuccess ||
        cudaEventCreate(&t->from) != cudaSuccess || cudaEventCreate(&t->to) != cudaSuccess) {
        return false;
    }
    float *at_x = t->memory, *at_y = at_x + x / sizeof(float), *at_w = at_y + y / sizeof(float);
    t->workspace = (unsigned char *)t->memory + x + y + w;
    t->exec = (struct uw_exec){.kernels = &c->kernels};
    t->job = (struct uw_conv2d_job){
        .part = part, .batch_n = batch_n, .a = part == UW_CONV2D_BW_INPUT ? at_y : at_x,
        .b = part == UW_CONV2D_BW_PARAM ? at_y : at_w,
        .out = part == UW_CONV2D_FW ? at_y : part == UW_CONV2D_BW_INPUT ? at_x : at_w,
        .scale = 1.0f, .accumulate = part == UW_CONV2D_BW_PARAM};
    return true;
}

static void end(struct trial *t)
{
    if (t->from != NULL) {
        (void)cudaEventDestroy(t->from);
    }
    if (t->to != NULL) {
        (void)cudaEventDestroy(t->to);
    }
    if (t->memory != NULL) {
        (void)cudaFree(t->memory);
    }
    (void)cudaGetLastError();
}

static bool run(struct trial *t, const struct uw_conv2d_choice *choice, uint32_t runs)
{
    int rc = UW_OK;
    for (uint32_t i = 0; i < runs && rc == UW_OK; i++) {
        rc = uw_conv2d_run(&t->exec, t->shape, &t->job, choice->algorithm,
                           choice->workspace_bytes == 0 ? NULL : t->workspace,
                           choice->workspace_bytes);
    }
    return rc == UW_OK;
}

/* NULL: this work cannot be recorded. */
static cudaGraphExec_t record(struct trial *t, const struct uw_conv2d_choice *choice,
                              uint32_t runs)
{
    cudaStream_t stream = uw_cuda_of(&t->exec)->stream;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t made = NULL;
    if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed) != cudaSuccess) {
        return NULL;
    }
    bool good = run(t, choice, runs);
    if (cudaStreamEndCapture(stream, &graph) != cudaSuccess || graph == NULL) {
        (void)cudaGetLastError();
        return NULL;
    }
    if (!good || cudaGraphInstantiate(&made, graph, 0) != cudaSuccess) {
        made = NULL;
    }
    (void)cudaGraphDestroy(graph);
    return made;
}

/* Milliseconds of a graph, or of runs without one; negative: it failed. */
static float time_once(struct trial *t, const struct uw_conv2d_choice *choice,
                       cudaGraphExec_t graph, uint32_t runs)
{
    cudaStream_t stream = uw_cuda_of(&t->exec)->stream;
    float ms = -1.0f;
    bool good = cudaEventRecord(t->from, stream) == cudaSuccess;
    good = good && (graph != NULL ? cudaGraphLaunch(graph, stream) == cudaSuccess
                                  : run(t, choice, runs));
    good = good && cudaEventRecord(t->to, stream) == cudaSuccess &&
           cudaEventSynchronize(t->to) == cudaSuccess &&
           cudaEventElapsedTime(&ms, t->from, t->to) == cudaSuccess;
    return good ? ms : -1.0f;
}

static float median(float *ms, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++) {
        float v = ms[i];
        uint32_t at = i;
        for (; at > 0 && ms[at - 1] > v; at--) {
            ms[at] = ms[at - 1];
        }
        ms[at] = v;
    }
    return ms[n / 2];
}

/* Milliseconds of one run; negative: it failed. best: of those before it, negative where none. */
static float time_of(struct trial *t, const struct uw_conv2d_choice *choice, float best)
{
    cudaStream_t stream = uw_cuda_of(&t->exec)->stream;
    float ms[REPEATS];
    if (!run(t, choice, 1) || cudaStreamSynchronize(stream) != cudaSuccess) {
        return -1.0f;                   /* this run loads its code */
    }
    float one = time_once(t, choice, NULL, 1);
    if (one < 0.0f || (best >= 0.0f && one > HOPELESS * best + RUNS_MS)) {
        return one;
    }
    uint32_t runs = one * (float)RUNS_MAX <= RUNS_MS ? RUNS_MAX : (uint32_t)(RUNS_MS / one) + 1u;
    cudaGraphExec_t graph = record(t, choice, runs);
    bool good = time_once(t, choice, graph, runs) >= 0.0f;
    for (uint32_t i = 0; i < REPEATS && good; i++) {
        ms[i] = time_once(t, choice, graph, runs);
        good = ms[i] >= 0.0f;
    }
    if (graph != NULL) {
        (void)cudaGraphExecDestroy(graph);
    }
    return good ? median(ms, REPEATS) / (float)runs : -1.0f;
}

int uw_conv2d_measure(struct uw_cuda *c, struct uw_conv2d_shape *s, uint32_t batch_n,
                      enum uw_conv2d_part part, const struct uw_conv2d_choice *candidates,
                      uint32_t n, struct uw_conv2d_choice *best, double *us)
{
    struct trial t = {.shape = s};
    size_t workspace_bytes = 0;
    float best_ms = -1.0f;
    bool blocking = c->config.blocking;
    for (uint32_t i = 0; i < n; i++) {
        size_t bytes = candidates[i].workspace_bytes;
        workspace_bytes = bytes > workspace_bytes ? bytes : workspace_bytes;
    }
    if (c->in_step || products_n(&s->conv, batch_n) > PRODUCTS_MAX) {
        return UW_ERR_AGAIN;
    }
    c->config.blocking = false;         /* nothing may wait while it is recorded */
    bool ready = begin(&t, c, batch_n, part, workspace_bytes);
    for (uint32_t i = 0; i < n && ready; i++) {
        struct uw_conv2d_choice candidate = candidates[i];
        float ms = n == 1 ? (run(&t, &candidate, 1) ? 0.0f : -1.0f)
                          : time_of(&t, &candidate, best_ms);
        if (ms >= 0.0f && (best_ms < 0.0f || ms < best_ms)) {
            best_ms = ms;
            *best = candidate;
        }
    }
    (void)cudaStreamSynchronize(c->stream);
    end(&t);
    c->config.blocking = blocking;
    *us = best_ms * 1000.0;
    return best_ms >= 0.0f ? UW_OK : ready ? UW_ERR_IO : UW_ERR_AGAIN;
}
