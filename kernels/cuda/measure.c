/* SPDX-License-Identifier: Apache-2.0 */
#include "measure.h"

#define RUNS_MS 0.3f                    /* long enough for the resolution of events */
#define HOPELESS 3.0f                   /* this many times slower than the best: dropped */
#define CLEARLY 0.98f                   /* a later one must take less than this share of the best */
#define REPEATS_MOST 5u

_Static_assert(UW_CUDA_MEASURED_REPEATS <= REPEATS_MOST, "they have room");

struct trial {
    struct uw_exec exec;
    uw_cuda_way way;
    void *job;
    cudaEvent_t from, to;
    uint32_t runs, repeats;
};

static bool run(struct trial *t, uint32_t way, uint32_t runs)
{
    int rc = UW_OK;
    for (uint32_t i = 0; i < runs && rc == UW_OK; i++) {
        rc = t->way(&t->exec, t->job, way);
    }
    return rc == UW_OK;
}

/* Capture runs as a graph. NULL: capture failed, so it cannot be used in a step either. */
static cudaGraphExec_t record(struct trial *t, uint32_t way, uint32_t runs)
{
    cudaStream_t stream = uw_cuda_of(&t->exec)->stream;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t made = NULL;
    if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) != cudaSuccess) {
        return NULL;
    }
    bool good = run(t, way, runs);
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

/* Milliseconds of one launch of graph, or without one (NULL) of runs; negative: it failed. */
static float time_once(struct trial *t, uint32_t way, cudaGraphExec_t graph, uint32_t runs)
{
    cudaStream_t stream = uw_cuda_of(&t->exec)->stream;
    float ms = -1.0f;
    bool good = cudaEventRecord(t->from, stream) == cudaSuccess;
    good = good && (graph != NULL ? cudaGraphLaunch(graph, stream) == cudaSuccess
                                  : run(t, way, runs));
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

/* Milliseconds of one run; negative: it failed. best: least time so far, negative if none. */
static float time_of(struct trial *t, uint32_t way, float best)
{
    cudaStream_t stream = uw_cuda_of(&t->exec)->stream;
    float ms[REPEATS_MOST];
    if (!run(t, way, 1) || cudaStreamSynchronize(stream) != cudaSuccess) {
        return -1.0f;                   /* this run loads its code */
    }
    float one = time_once(t, way, NULL, 1);
    if (one < 0.0f || (best >= 0.0f && one > HOPELESS * best + RUNS_MS)) {
        return one;
    }
    uint32_t runs = t->runs;
    if (one * (float)runs > RUNS_MS) {
        runs = (uint32_t)(RUNS_MS / one) + 1u;
    }
    cudaGraphExec_t graph = record(t, way, runs);
    bool good = graph != NULL && time_once(t, way, graph, runs) >= 0.0f;
    for (uint32_t i = 0; i < t->repeats && good; i++) {
        ms[i] = time_once(t, way, graph, runs);
        good = ms[i] >= 0.0f;
    }
    if (graph != NULL) {
        (void)cudaGraphExecDestroy(graph);
    }
    return good ? median(ms, t->repeats) / (float)runs : -1.0f;
}

/* Milliseconds of the fastest one; negative: none runs. */
static float fastest(struct trial *t, uint32_t n, uint32_t *best)
{
    float best_ms = -1.0f;
    for (uint32_t i = 0; i < n; i++) {
        float ms = n == 1 ? (run(t, i, 1) ? 0.0f : -1.0f) : time_of(t, i, best_ms);
        (void)cudaGetLastError();       /* clear the error of one that does not run */
        if (ms >= 0.0f && (best_ms < 0.0f || ms < CLEARLY * best_ms)) {
            best_ms = ms;
            *best = i;
        }
    }
    return best_ms;
}

int uw_cuda_fastest(struct uw_cuda *c, uw_cuda_way way, void *job, uint32_t n, uint32_t *best,
                    double *us)
{
    /* Blocking tables are for tests: hundreds of shapes, whose speed does not matter. */
    bool blocking = c->config.blocking;
    struct trial t = {.exec = {.kernels = &c->kernels}, .way = way, .job = job,
                      .runs = blocking ? 1 : UW_CUDA_MEASURED_RUNS,
                      .repeats = blocking ? 1 : UW_CUDA_MEASURED_REPEATS};
    float ms = -1.0f;
    if (c->in_step) {
        return UW_ERR_AGAIN;
    }
    c->config.blocking = false;         /* waiting is not allowed during capture */
    if (cudaEventCreate(&t.from) == cudaSuccess && cudaEventCreate(&t.to) == cudaSuccess) {
        ms = fastest(&t, n, best);
    }
    (void)cudaStreamSynchronize(c->stream);
    if (t.from != NULL) {
        (void)cudaEventDestroy(t.from);
    }
    if (t.to != NULL) {
        (void)cudaEventDestroy(t.to);
    }
    (void)cudaGetLastError();           /* clear the error */
    uw_cuda_forget_failure(c);
    c->config.blocking = blocking;
    *us = ms * 1000.0;
    return ms >= 0.0f ? UW_OK : UW_ERR_IO;
}
