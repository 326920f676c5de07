/* SPDX-License-Identifier: Apache-2.0
 *
 * Captures and graphs. A graph keeps what each piece was called with when it was captured. */
#include "runtime.h"

bool capture_refuses(void)
{
    bool any = false;
    for (struct capture *c : gpu_now().captures) {
        bool own = c->thread == std::this_thread::get_id();
        if (c->mode == cudaStreamCaptureModeGlobal ||
            (c->mode == cudaStreamCaptureModeThreadLocal && own)) {
            c->invalid = any = true;
        }
    }
    return any;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    struct gpu &g = gpu_now();
    guard hold(g.lock);
    cudaError_t rc = gpu_state();
    if (rc != cudaSuccess) {
        return gpu_error(rc);
    }
    if (stream_of(stream) == &g.legacy) {
        return gpu_error(cudaErrorStreamCaptureUnsupported);
    }
    if (stream->capture != nullptr) {
        return gpu_error(cudaErrorIllegalState);
    }
    g.recordings_n++;
    stream->capture = new struct capture;
    stream->capture->origin = stream;
    stream->capture->mode = mode;
    stream->capture->thread = std::this_thread::get_id();
    stream->capture->streams.insert(stream);
    stream->ends.clear();
    g.captures.insert(stream->capture);
    return cudaSuccess;
}

/* Has every branch come back to the stream where the capture began? */
static bool joined(const struct capture *c)
{
    std::vector<bool> inner(c->nodes->size(), false);
    for (const struct node &n : *c->nodes) {
        for (size_t i : n.after) {
            inner[i] = true;
        }
    }
    for (size_t i : c->origin->ends) {
        inner[i] = true;
    }
    for (bool b : inner) {
        if (!b) {
            return false;
        }
    }
    return true;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    struct gpu &g = gpu_now();
    guard hold(g.lock);
    struct capture *c = stream_of(stream)->capture;
    *graph = nullptr;
    if (c == nullptr) {
        return gpu_error(cudaErrorIllegalState);
    }
    bool here = c->mode == cudaStreamCaptureModeRelaxed || c->thread == std::this_thread::get_id();
    cudaError_t rc = c->origin != stream ? cudaErrorStreamCaptureUnmatched
                     : !here           ? cudaErrorStreamCaptureWrongThread
                     : c->invalid      ? cudaErrorStreamCaptureInvalidated
                     : !joined(c)      ? cudaErrorStreamCaptureUnjoined
                                       : gpu_state();
    if (rc == cudaErrorStreamCaptureUnmatched || rc == cudaErrorStreamCaptureWrongThread) {
        c->invalid = true;
        return gpu_error(rc);
    }
    if (rc == cudaSuccess) {
        *graph = new struct CUgraph_st;
        (*graph)->nodes = c->nodes;
    }
    for (cudaStream_t s : c->streams) {
        s->capture = nullptr;
        s->ends.clear();
    }
    g.captures.erase(c);
    delete c;
    return gpu_error(rc);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    guard hold(gpu_now().lock);
    const struct capture *c = stream_of(stream)->capture;
    *status = c == nullptr  ? cudaStreamCaptureStatusNone
              : c->invalid ? cudaStreamCaptureStatusInvalidated
                           : cudaStreamCaptureStatusActive;
    return gpu_error(gpu_state());
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long)
{
    guard hold(gpu_now().lock);
    cudaError_t rc = gpu_state();
    *out = nullptr;
    if (rc == cudaSuccess) {
        *out = new struct CUgraphExec_st;
        (*out)->nodes = graph->nodes;
    }
    return gpu_error(rc);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *out, cudaGraph_t graph,
                                          unsigned long long flags)
{
    return cudaGraphInstantiate(out, graph, flags);
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *, size_t *n)
{
    guard hold(gpu_now().lock);
    *n = graph->nodes->size();
    return cudaSuccess;
}

/* One launch: nodes in an order that their dependencies allow, the first or the last that may run. */
struct launch {
    nodes_at nodes;
    std::vector<bool> done;
    size_t left;
};

static bool free_to_run(const struct launch &l, size_t i)
{
    for (size_t before : (*l.nodes)[i].after) {
        if (!l.done[before]) {
            return false;
        }
    }
    return !l.done[i];
}

static bool run_node(struct launch *l)
{
    size_t n = l->nodes->size();
    if (l->left == 0) {
        return true;
    }
    for (size_t at = 0; at < n; at++) {
        size_t i = (gpu_now().order & 1u) != 0 ? n - 1u - at : at;
        if (free_to_run(*l, i)) {
            (*l->nodes)[i].run();
            l->done[i] = true;
            return --l->left == 0;
        }
    }
    give_up("a graph that cannot end");
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    struct gpu &g = gpu_now();
    guard hold(g.lock);
    cudaError_t rc = gpu_state();
    stream = stream_of(stream);
    if (rc != cudaSuccess) {
        return gpu_error(rc);
    }
    if (stream->capture != nullptr) {
        give_up("graphs within captures are not emulated");
    }
    auto l = std::make_shared<struct launch>();
    l->nodes = exec->nodes;
    l->left = exec->nodes->size();
    l->done.assign(l->left, false);
    struct piece p;
    p.step = [l]() { return run_node(l.get()); };
    if (exec->last != nullptr) {
        p.after.push_back(exec->last);      /* never beside itself */
    }
    p.done = exec->last = std::make_shared<struct mark>();
    return gpu_error(stream_put_piece(stream, p));
}

cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t)
{
    guard hold(gpu_now().lock);
    return gpu_error(gpu_state());
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo *result)
{
    guard hold(gpu_now().lock);
    const std::vector<struct node> &old = *exec->nodes, &now = *graph->nodes;
    bool same = old.size() == now.size();
    for (size_t i = 0; same && i < old.size(); i++) {
        same = old[i].what == now[i].what && old[i].after == now[i].after;
    }
    memset(static_cast<void *>(result), 0, sizeof *result);
    result->result = same ? cudaGraphExecUpdateSuccess : cudaGraphExecUpdateErrorTopologyChanged;
    if (!same) {
        return gpu_error(cudaErrorGraphExecUpdateFailure);
    }
    exec->nodes = graph->nodes;
    return gpu_error(gpu_state());
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    guard hold(gpu_now().lock);
    delete exec;
    return gpu_state();
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    guard hold(gpu_now().lock);
    delete graph;
    return gpu_state();
}
