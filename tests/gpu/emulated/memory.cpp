/* SPDX-License-Identifier: Apache-2.0
 *
 * Each block has pages of its own, as near to their end as its alignment allows, and a page behind
 * them that nobody may touch. */
#include "runtime.h"

#include <sys/mman.h>
#include <unistd.h>

#define ALIGN 256u
#define NOTHING 0xff            /* NaN */
#define FILLED_BYTES (size_t(256) << 20)

static size_t page_bytes(void)
{
    return static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

static bool is_to_be_closed(const struct memory &m, bool busy)
{
    const struct gpu &g = gpu_now();
    bool closed = g.integrated ? !g.concurrent && (m.kind == OF_DEVICE || (m.kind == MANAGED && busy))
                               : m.kind == OF_DEVICE;
    return closed && g.opened == 0;
}

static void protect(struct memory &m, bool closed)
{
    if (closed != m.closed && mprotect(m.map, m.map_bytes - page_bytes(),
                                       closed ? PROT_NONE : PROT_READ | PROT_WRITE) != 0) {
        give_up("memory cannot be protected");
    }
    m.closed = closed;
}

static void protect_all(void)
{
    bool busy = stream_any_busy();
    for (auto &b : gpu_now().blocks) {
        protect(b.second, is_to_be_closed(b.second, busy));
    }
}

void memory_work_came(void)
{
    if (gpu_now().opened == 0) {
        protect_all();
    }
}

void memory_open(void)
{
    if (gpu_now().opened++ == 0) {
        protect_all();
    }
}

void memory_close(void)
{
    if (--gpu_now().opened == 0) {
        protect_all();
    }
}

struct memory *memory_find(const void *at)
{
    struct gpu &g = gpu_now();
    auto b = g.blocks.upper_bound(reinterpret_cast<uintptr_t>(at));
    if (b == g.blocks.begin()) {
        return nullptr;
    }
    --b;
    return reinterpret_cast<uintptr_t>(at) < b->first + b->second.bytes ? &b->second : nullptr;
}

/* One that points behind a block, for no elements, is right too. */
void uw_emulated_check_address(const void *at)
{
    guard hold(gpu_now().lock);
    const void *before = reinterpret_cast<const void *>(reinterpret_cast<uintptr_t>(at) - 1u);
    if (!gpu_now().sees_host && at != nullptr && memory_find(at) == nullptr && memory_find(before) == nullptr) {
        give_up("a kernel is given %p, memory of the processor that the GPU does not see", at);
    }
}

static cudaError_t map(size_t bytes, enum memory_kind kind, void **out)
{
    struct gpu &g = gpu_now();
    size_t page = page_bytes(), rounded = (bytes + ALIGN - 1u) / ALIGN * ALIGN;
    struct memory m = {nullptr, (rounded + page - 1u) / page * page + page, bytes, kind, false};
    m.map = mmap(nullptr, m.map_bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m.map == MAP_FAILED) {
        return cudaErrorMemoryAllocation;
    }
    unsigned char *end = static_cast<unsigned char *>(m.map) + m.map_bytes - page;
    (void)mprotect(end, page, PROT_NONE);
    memset(end - rounded, NOTHING, rounded < FILLED_BYTES ? rounded : FILLED_BYTES);
    memset(end - (rounded - bytes), NOTHING, rounded - bytes);
    *out = end - rounded;
    protect(m, is_to_be_closed(m, stream_any_busy()));
    g.blocks[reinterpret_cast<uintptr_t>(*out)] = m;
    return cudaSuccess;
}

static bool counts(enum memory_kind kind)
{
    return kind != OF_HOST || gpu_now().integrated;
}

static cudaError_t take(size_t bytes, enum memory_kind kind, void **out)
{
    struct gpu &g = gpu_now();
    guard hold(g.lock);
    cudaError_t rc = gpu_state();
    if (rc != cudaSuccess || out == nullptr) {
        return gpu_error(rc != cudaSuccess ? rc : cudaErrorInvalidValue);
    }
    *out = nullptr;
    if (capture_refuses()) {
        return gpu_error(cudaErrorStreamCaptureUnsupported);
    }
    if (bytes == 0) {
        return cudaSuccess;
    }
    if (bytes > g.total_bytes || (counts(kind) && bytes > g.total_bytes - g.used_bytes)) {
        return gpu_error(cudaErrorMemoryAllocation);
    }
    rc = map(bytes, kind, out);
    if (rc == cudaSuccess) {
        g.taken_n++;
        g.used_bytes += counts(kind) ? bytes : 0;
    }
    return gpu_error(rc);
}

/* The bytes behind the block, up to its alignment, are as they were. */
static void check_end(uintptr_t at, const struct memory &m)
{
    size_t rounded = (m.bytes + ALIGN - 1u) / ALIGN * ALIGN;
    const unsigned char *from = reinterpret_cast<const unsigned char *>(at);
    for (size_t i = m.bytes; i < rounded; i++) {
        if (from[i] != NOTHING) {
            give_up("byte %zu of a block of %zu was written", i, m.bytes);
        }
    }
}

static cudaError_t give_back(void *at, bool host)
{
    struct gpu &g = gpu_now();
    guard hold(g.lock);
    cudaError_t rc = gpu_state();
    if (at == nullptr || rc == cudaErrorInsufficientDriver || rc == cudaErrorNoDevice) {
        return rc;
    }
    if (capture_refuses()) {
        return gpu_error(cudaErrorStreamCaptureUnsupported);
    }
    auto b = g.blocks.find(reinterpret_cast<uintptr_t>(at));
    if (b == g.blocks.end() || (b->second.kind == OF_HOST) != host) {
        return gpu_error(cudaErrorInvalidValue);
    }
    rc = run_all();
    memory_open();
    check_end(b->first, b->second);
    memory_close();
    g.used_bytes -= counts(b->second.kind) ? b->second.bytes : 0;
    (void)munmap(b->second.map, b->second.map_bytes);
    g.blocks.erase(b);
    return gpu_error(rc);
}

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    return take(bytes, OF_DEVICE, out);
}

cudaError_t cudaMallocManaged(void **out, size_t bytes, unsigned)
{
    if (!gpu_now().managed) {
        return gpu_error(cudaErrorNotSupported);
    }
    return take(bytes, MANAGED, out);
}

cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned)
{
    return take(bytes, OF_HOST, out);
}

cudaError_t cudaMallocHost(void **out, size_t bytes)
{
    return take(bytes, OF_HOST, out);
}

cudaError_t cudaFree(void *at)
{
    return give_back(at, false);
}

cudaError_t cudaFreeHost(void *at)
{
    return give_back(at, true);
}

cudaError_t cudaHostGetDevicePointer(void **out, void *host, unsigned)
{
    guard hold(gpu_now().lock);
    const struct memory *m = memory_find(host);
    *out = host;
    return gpu_error(m != nullptr && m->kind == OF_HOST ? gpu_state() : cudaErrorInvalidValue);
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *a, const void *at)
{
    guard hold(gpu_now().lock);
    const struct memory *m = memory_find(at);
    memset(static_cast<void *>(a), 0, sizeof *a);
    a->type = m == nullptr             ? cudaMemoryTypeUnregistered
              : m->kind == OF_DEVICE ? cudaMemoryTypeDevice
              : m->kind == OF_HOST   ? cudaMemoryTypeHost
                                     : cudaMemoryTypeManaged;
    a->devicePointer = m != nullptr ? const_cast<void *>(at) : nullptr;
    a->hostPointer = m != nullptr && m->kind != OF_DEVICE ? const_cast<void *>(at) : nullptr;
    return gpu_error(gpu_state());
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *all_bytes)
{
    const struct gpu &g = gpu_now();
    guard hold(gpu_now().lock);
    *free_bytes = g.total_bytes - (g.used_bytes < g.total_bytes ? g.used_bytes : g.total_bytes);
    *all_bytes = g.total_bytes;
    return gpu_error(gpu_state());
}
