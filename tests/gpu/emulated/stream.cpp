/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams, events, and what runs next. */
#include "runtime.h"

cudaStream_t stream_of(cudaStream_t stream)
{
    return stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread
               ? &gpu_now().legacy
               : stream;
}

static bool known(cudaStream_t stream)
{
    return stream == &gpu_now().legacy || gpu_now().streams.count(stream) == 1;
}

/* A blocking stream waits for what is in the legacy stream, and the other way round. */
static void after_legacy(cudaStream_t stream, struct piece *p)
{
    struct gpu &g = gpu_now();
    if (stream != &g.legacy) {
        if (stream->blocking && g.legacy.last != nullptr) {
            p->after.push_back(g.legacy.last);
        }
        return;
    }
    for (cudaStream_t s : g.streams) {
        if (s->blocking && s->last != nullptr) {
            p->after.push_back(s->last);
        }
    }
}

cudaError_t stream_put_piece(cudaStream_t stream, struct piece p)
{
    p.done = p.done != nullptr ? p.done : std::make_shared<struct mark>();
    after_legacy(stream, &p);
    stream->last = p.done;
    stream->pieces.push_back(p);
    memory_work_came();
    return cudaSuccess;
}

bool stream_any_busy(void)
{
    const struct gpu &g = gpu_now();
    bool busy = !g.legacy.pieces.empty();
    for (cudaStream_t s : g.streams) {
        busy = busy || !s->pieces.empty();
    }
    return busy;
}

cudaError_t stream_put(cudaStream_t stream, const void *what, std::function<void()> run)
{
    guard hold(gpu_now().lock);
    stream = stream_of(stream);
    cudaError_t rc = gpu_state();
    if (rc != cudaSuccess || !known(stream)) {
        return gpu_error(rc != cudaSuccess ? rc : cudaErrorInvalidResourceHandle);
    }
    struct capture *c = stream->capture;
    if (c != nullptr) {
        if (c->invalid) {
            return gpu_error(cudaErrorStreamCaptureInvalidated);
        }
        c->nodes->push_back({what, run, stream->ends});
        stream->ends = {c->nodes->size() - 1u};
        return cudaSuccess;
    }
    if (stream == &gpu_now().legacy && capture_refuses()) {
        return gpu_error(cudaErrorStreamCaptureImplicit);
    }
    struct piece p;
    p.step = [run]() {
        run();
        return true;
    };
    return stream_put_piece(stream, p);
}

static bool may_run(const struct CUstream_st *s)
{
    if (s->pieces.empty()) {
        return false;
    }
    for (const mark_at &m : s->pieces.front().after) {
        if (!m->done) {
            return false;
        }
    }
    return true;
}

static uint64_t draw(void)
{
    struct gpu &g = gpu_now();
    g.random = g.random * 6364136223846793005u + 1442695040888963407u;
    return g.random >> 33;
}

static void finish(struct CUstream_st *s)
{
    mark_at done = s->pieces.front().done;
    s->pieces.pop_front();
    done->done = true;
    done->at_ms = gpu_now_ms();
}

/* A GPU that failed does nothing any more, but nobody waits for ever. */
bool run_one(void)
{
    struct gpu &g = gpu_now();
    std::vector<struct CUstream_st *> ready;
    if (may_run(&g.legacy)) {
        ready.push_back(&g.legacy);
    }
    for (cudaStream_t s : g.streams) {
        if (may_run(s)) {
            ready.push_back(s);
        }
    }
    if (ready.empty()) {
        return false;
    }
    struct CUstream_st *s = ready[draw() % ready.size()];
    if (g.fail_after != 0 && g.pieces_n + 1u >= g.fail_after && g.broken == cudaSuccess) {
        g.broken = g.last = cudaErrorLaunchFailure;
    }
    g.pieces_n++;
    if (g.broken != cudaSuccess || s->pieces.front().step()) {
        finish(s);
    }
    return true;
}

cudaError_t run_until(const mark_at &m)
{
    if (m != nullptr && !m->done) {
        memory_open();
        while (!m->done) {
            if (!run_one()) {
                give_up("somebody waits for work that can never run");
            }
        }
        memory_close();
    }
    return gpu_state();
}

cudaError_t run_all(void)
{
    memory_open();
    while (run_one()) {
    }
    memory_close();
    return gpu_state();
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int)
{
    struct gpu &g = gpu_now();
    guard hold(g.lock);
    cudaError_t rc = gpu_state();
    *stream = nullptr;
    if (rc == cudaSuccess) {
        *stream = new struct CUstream_st;
        (*stream)->blocking = (flags & cudaStreamNonBlocking) == 0;
        g.streams.insert(*stream);
    }
    return gpu_error(rc);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    struct gpu &g = gpu_now();
    guard hold(g.lock);
    if (stream == nullptr || g.streams.count(stream) == 0) {
        return gpu_error(cudaErrorInvalidResourceHandle);
    }
    (void)run_until(stream->last);
    if (stream->capture != nullptr) {
        stream->capture->streams.erase(stream);
        stream->capture->invalid = true;
    }
    g.streams.erase(stream);
    delete stream;
    return gpu_state();
}

/* To wait for a stream, or ask how it is: not while it is captured, nor, whichever it is, while this
 * thread captures one. */
static bool ends_capture(cudaStream_t stream)
{
    bool captured = stream->capture != nullptr;
    if (captured) {
        stream->capture->invalid = true;
    }
    return capture_refuses() || captured;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    guard hold(gpu_now().lock);
    stream = stream_of(stream);
    if (!known(stream)) {
        return gpu_error(cudaErrorInvalidResourceHandle);
    }
    if (ends_capture(stream)) {
        return gpu_error(cudaErrorStreamCaptureUnsupported);
    }
    return gpu_error(run_until(stream->last));
}

/* Whoever asks again and again sees an end. */
cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    guard hold(gpu_now().lock);
    stream = stream_of(stream);
    if (ends_capture(stream)) {
        return gpu_error(cudaErrorStreamCaptureUnsupported);
    }
    memory_open();
    if (stream->last != nullptr && !stream->last->done) {
        (void)run_one();
    }
    memory_close();
    cudaError_t rc = gpu_state();
    return rc != cudaSuccess                               ? gpu_error(rc)
           : stream->last == nullptr || stream->last->done ? cudaSuccess
                                                           : cudaErrorNotReady;
}

cudaError_t cudaDeviceSynchronize(void)
{
    guard hold(gpu_now().lock);
    if (capture_refuses()) {
        return gpu_error(cudaErrorStreamCaptureUnsupported);
    }
    return gpu_error(run_all());
}

/* The function sees no memory of the device, as on a GPU. */
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data)
{
    return stream_put(stream, reinterpret_cast<const void *>(function), [=]() {
        unsigned opened = gpu_now().opened;
        gpu_now().opened = 1;
        memory_close();
        function(data);
        memory_open();
        gpu_now().opened = opened;
    });
}
