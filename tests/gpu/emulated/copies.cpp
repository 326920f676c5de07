/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies. Of memory that is not pinned the real ones wait, or take it away before they return: so do
 * these. In a graph it would have to be what and where it was, whenever that is played: refused. */
#include "runtime.h"

/* May `at` .. be on that side of a copy? */
static bool suits(const void *at, size_t bytes, bool as_device)
{
    const struct memory *m = memory_find(at);
    if (m == nullptr) {
        return !as_device;
    }
    uintptr_t from = reinterpret_cast<uintptr_t>(at);
    const struct memory *last = memory_find(reinterpret_cast<const void *>(from + bytes - 1u));
    return last == m && (as_device || m->kind != OF_DEVICE || gpu_now().integrated);
}

static cudaError_t check(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (kind == cudaMemcpyDefault) {
        to_device = memory_find(to) != nullptr;
        from_device = memory_find(from) != nullptr;
    }
    return suits(to, bytes, to_device) && suits(from, bytes, from_device) ? cudaSuccess
                                                                          : cudaErrorInvalidValue;
}

static const void *const copy_what = "copy";
static const void *const set_what = "set";

static cudaError_t copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                        cudaStream_t stream, bool wait)
{
    guard hold(gpu_now().lock);
    cudaError_t rc = gpu_state();
    if (rc != cudaSuccess || bytes == 0) {
        return gpu_error(rc);
    }
    rc = check(to, from, bytes, kind);
    if (rc != cudaSuccess) {
        return gpu_error(rc);
    }
    if (wait && capture_refuses()) {
        return gpu_error(cudaErrorStreamCaptureImplicit);
    }
    bool captured = stream_of(stream)->capture != nullptr;
    if (captured && (memory_find(from) == nullptr || memory_find(to) == nullptr)) {
        stream_of(stream)->capture->invalid = true;
        return gpu_error(cudaErrorStreamCaptureUnsupported);
    }
    if (memory_find(from) == nullptr && !captured && !wait) {
        std::vector<char> kept(static_cast<const char *>(from),
                               static_cast<const char *>(from) + bytes);
        return stream_put(stream, copy_what, [=]() { memcpy(to, kept.data(), bytes); });
    }
    rc = stream_put(stream, copy_what, [=]() { memmove(to, from, bytes); });
    if (rc == cudaSuccess && !captured && (wait || memory_find(to) == nullptr)) {
        rc = run_until(stream_of(stream)->last);
    }
    return gpu_error(rc);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    return copy(to, from, bytes, kind, stream, false);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    return copy(to, from, bytes, kind, nullptr, true);
}

cudaError_t cudaMemsetAsync(void *at, int value, size_t bytes, cudaStream_t stream)
{
    guard hold(gpu_now().lock);
    cudaError_t rc = gpu_state();
    if (rc != cudaSuccess || bytes == 0) {
        return gpu_error(rc);
    }
    if (!suits(at, bytes, true)) {
        return gpu_error(cudaErrorInvalidValue);
    }
    return stream_put(stream, set_what, [=]() { memset(at, value, bytes); });
}

cudaError_t cudaMemset2DAsync(void *at, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream)
{
    guard hold(gpu_now().lock);
    cudaError_t rc = gpu_state();
    if (rc != cudaSuccess || width == 0 || height == 0) {
        return gpu_error(rc);
    }
    if (width > pitch || !suits(at, pitch * (height - 1u) + width, true)) {
        return gpu_error(cudaErrorInvalidValue);
    }
    return stream_put(stream, set_what, [=]() {
        for (size_t i = 0; i < height; i++) {
            memset(static_cast<char *>(at) + i * pitch, value, width);
        }
    });
}

cudaError_t cudaMemset(void *at, int value, size_t bytes)
{
    return cudaMemsetAsync(at, value, bytes, nullptr);
}
