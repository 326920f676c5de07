/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime.h"

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    guard hold(gpu_now().lock);
    cudaError_t rc = gpu_state();
    *event = nullptr;
    if (rc == cudaSuccess) {
        *event = new struct CUevent_st;
        (*event)->timed = (flags & cudaEventDisableTiming) == 0;
    }
    return gpu_error(rc);
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    guard hold(gpu_now().lock);
    delete event;
    return gpu_state();
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    guard hold(gpu_now().lock);
    cudaError_t rc = gpu_state();
    if (rc != cudaSuccess) {
        return gpu_error(rc);
    }
    stream = stream_of(stream);
    event->capture = stream->capture;
    event->ends = stream->ends;
    if (stream->capture != nullptr) {
        return gpu_error(stream->capture->invalid ? cudaErrorStreamCaptureInvalidated
                                                  : cudaSuccess);
    }
    struct piece p;
    p.step = []() { return true; };
    p.done = event->mark = std::make_shared<struct mark>();
    return gpu_error(stream_put_piece(stream, p));
}

/* While a stream is captured: its next piece is after what the event stands for as well. */
static cudaError_t join(cudaStream_t stream, cudaEvent_t event)
{
    struct capture *c = event->capture;
    if (c == nullptr || gpu_now().captures.count(c) == 0) {
        stream->capture->invalid = true;
        return cudaErrorStreamCaptureIsolation;
    }
    if (stream->capture != nullptr && stream->capture != c) {
        c->invalid = stream->capture->invalid = true;
        return cudaErrorStreamCaptureMerge;
    }
    if (c->invalid) {
        return cudaErrorStreamCaptureInvalidated;
    }
    if (stream->capture == nullptr) {
        stream->capture = c;
        stream->ends.clear();
        c->streams.insert(stream);
    }
    stream->ends.insert(stream->ends.end(), event->ends.begin(), event->ends.end());
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    guard hold(gpu_now().lock);
    cudaError_t rc = gpu_state();
    stream = stream_of(stream);
    if (rc != cudaSuccess) {
        return gpu_error(rc);
    }
    if (stream->capture != nullptr && event->capture == nullptr &&
        (flags & cudaEventWaitExternal) != 0) {
        give_up("external events of captures are not emulated");
    }
    if (event->capture != nullptr || stream->capture != nullptr) {
        return gpu_error(join(stream, event));
    }
    if (event->mark == nullptr || event->mark->done) {
        return cudaSuccess;
    }
    struct piece p;
    p.step = []() { return true; };
    p.after = {event->mark};
    return gpu_error(stream_put_piece(stream, p));
}

static cudaError_t captured(cudaEvent_t event)
{
    if (event->capture != nullptr && gpu_now().captures.count(event->capture) != 0) {
        event->capture->invalid = true;
        return cudaErrorCapturedEvent;
    }
    if (capture_refuses()) {            /* of one that was recorded before, too */
        return cudaErrorStreamCaptureUnsupported;
    }
    return gpu_state();
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    guard hold(gpu_now().lock);
    cudaError_t rc = captured(event);
    return gpu_error(rc != cudaSuccess ? rc : run_until(event->mark));
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    guard hold(gpu_now().lock);
    cudaError_t rc = captured(event);
    if (rc == cudaSuccess && event->mark != nullptr && !event->mark->done) {
        memory_open();
        (void)run_one();
        memory_close();
        rc = gpu_state();
    }
    if (rc != cudaSuccess) {
        return gpu_error(rc);
    }
    return event->mark == nullptr || event->mark->done ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    guard hold(gpu_now().lock);
    cudaError_t rc = gpu_state();
    if (rc != cudaSuccess) {
        return gpu_error(rc);
    }
    if (!from->timed || !to->timed || from->mark == nullptr || to->mark == nullptr) {
        return gpu_error(cudaErrorInvalidResourceHandle);
    }
    if (!from->mark->done || !to->mark->done) {
        return cudaErrorNotReady;
    }
    *ms = static_cast<float>(to->mark->at_ms - from->mark->at_ms);
    return cudaSuccess;
}
