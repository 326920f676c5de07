/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings, properties, errors. */
#include "control.h"
#include "runtime.h"

#include <stdlib.h>
#include <time.h>

#define EMULATED_BYTES (size_t(4) << 30)
#define SHARED_BYTES (48 << 10)
#define SHARED_MOST (99 << 10)

static bool is(const char *word, size_t n, const char *name)
{
    return strlen(name) == n && strncmp(word, name, n) == 0;
}

static void set_one(struct gpu *g, const char *word, size_t n)
{
    const char *equals = static_cast<const char *>(memchr(word, '=', n));
    size_t name_n = equals != nullptr ? static_cast<size_t>(equals - word) : n;
    unsigned long long value = equals != nullptr ? strtoull(equals + 1, nullptr, 10) : 0;
    if (is(word, n, "no-driver")) {
        g->has_driver = false;
    } else if (is(word, n, "no-gpu")) {
        g->has_gpu = false;
    } else if (is(word, n, "integrated")) {
        g->integrated = true;
    } else if (is(word, n, "concurrent")) {
        g->concurrent = true;
    } else if (is(word, n, "no-managed")) {
        g->managed = false;
    } else if (is(word, n, "host-memory")) {
        g->sees_host = true;
    } else if (is(word, n, "races")) {
        g->races = true;
    } else if (equals != nullptr && is(word, name_n, "driver")) {
        g->driver = static_cast<int>(value);
    } else if (equals != nullptr && is(word, name_n, "memory")) {
        g->total_bytes = value;
    } else if (equals != nullptr && is(word, name_n, "seed")) {
        g->random = value * 2654435761u + 1u;
        g->order = static_cast<unsigned>(value);
    } else if (equals != nullptr && is(word, name_n, "fail-after")) {
        g->fail_after = value;
    } else if (equals != nullptr && is(word, name_n, "engines")) {
        g->engines = static_cast<unsigned>(value);
    } else if (equals != nullptr && is(word, name_n, "uuid")) {
        g->uuid = value;
    } else if (is(word, n, "no-nccl")) {
        g->has_nccl = false;
    } else if (is(word, n, "nccl-fails-init")) {
        g->nccl_fails_init = true;
    } else if (equals != nullptr && is(word, name_n, "nccl-hang-at")) {
        g->nccl_hang_at = value;
    } else if (equals != nullptr && is(word, name_n, "nccl-error-at")) {
        g->nccl_error_at = value;
    } else {
        give_up("UWASA_EMULATED_CUDA: no setting %.*s", static_cast<int>(n), word);
    }
}

static void set_all(struct gpu *g, const char *settings)
{
    g->has_driver = g->has_gpu = true;
    g->integrated = g->sees_host = g->concurrent = g->races = false;
    g->managed = true;
    g->driver = CUDART_VERSION;
    g->total_bytes = EMULATED_BYTES;
    g->random = 1;
    g->order = 0;
    g->fail_after = 0;
    g->engines = 0;
    g->uuid = 0;
    g->has_nccl = true;
    g->nccl_fails_init = false;
    g->nccl_hang_at = g->nccl_error_at = g->nccl_sums = 0;
    g->last = g->broken = cudaSuccess;
    g->pieces_n = 0;
    while (settings != nullptr && *settings != '\0') {
        size_t n = strcspn(settings, ",");
        if (n > 0) {
            set_one(g, settings, n);
        }
        settings += n + (settings[n] == ',');
    }
}

gpu::gpu() : taken_n(0), recordings_n(0), used_bytes(0), descriptors_n(0), opened(0)
{
    set_all(this, getenv("UWASA_EMULATED_CUDA"));
}

/* Never destroyed: programs use it until they end. */
struct gpu &gpu_now(void)
{
    static struct gpu *g = new struct gpu;
    return *g;
}

void uw_emulated_settings(const char *settings)
{
    struct gpu &g = gpu_now();
    guard hold(g.lock);
    set_all(&g, settings);
}

uint64_t uw_emulated_pieces(void)
{
    guard hold(gpu_now().lock);
    return gpu_now().pieces_n;
}

uint64_t uw_emulated_taken(void)
{
    guard hold(gpu_now().lock);
    return gpu_now().taken_n;
}

uint64_t uw_emulated_recordings(void)
{
    guard hold(gpu_now().lock);
    return gpu_now().recordings_n;
}

uint64_t uw_emulated_descriptors(void)
{
    guard hold(gpu_now().lock);
    return gpu_now().descriptors_n;
}

size_t uw_emulated_used_bytes(void)
{
    guard hold(gpu_now().lock);
    return gpu_now().used_bytes;
}

cudaError_t gpu_state(void)
{
    const struct gpu &g = gpu_now();
    if (!g.has_driver || g.driver < CUDART_VERSION / 1000 * 1000) {
        return cudaErrorInsufficientDriver;
    }
    return g.has_gpu ? g.broken : cudaErrorNoDevice;
}

cudaError_t gpu_error(cudaError_t rc)
{
    if (rc != cudaSuccess && rc != cudaErrorNotReady) {
        gpu_now().last = rc;
    }
    return rc;
}

double gpu_now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    guard hold(gpu_now().lock);
    *version = gpu_now().has_driver ? gpu_now().driver : 0;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *n)
{
    guard hold(gpu_now().lock);
    cudaError_t rc = gpu_state();
    *n = rc == cudaSuccess ? 1 : 0;
    return gpu_error(rc);
}

cudaError_t cudaSetDevice(int device)
{
    guard hold(gpu_now().lock);
    cudaError_t rc = gpu_state();
    return gpu_error(rc != cudaSuccess ? rc : device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaGetDevice(int *device)
{
    guard hold(gpu_now().lock);
    *device = 0;
    return gpu_error(gpu_state());
}

cudaError_t cudaSetDeviceFlags(unsigned)
{
    guard hold(gpu_now().lock);
    return gpu_error(gpu_state());
}

/* Few multiprocessors: loops over a grid go round. */
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
    guard hold(gpu_now().lock);
    cudaError_t rc = gpu_state();
    if (rc != cudaSuccess || device != 0) {
        return gpu_error(rc != cudaSuccess ? rc : cudaErrorInvalidDevice);
    }
    memset(static_cast<void *>(p), 0, sizeof *p);
    memcpy(p->name, "Emulated GPU", sizeof "Emulated GPU");
    memcpy(p->uuid.bytes, &gpu_now().uuid, sizeof gpu_now().uuid);
    p->totalGlobalMem = gpu_now().total_bytes;
    p->sharedMemPerBlock = SHARED_BYTES;
    p->sharedMemPerBlockOptin = SHARED_MOST;
    p->sharedMemPerMultiprocessor = SHARED_MOST + 1024;
    p->regsPerBlock = 65536;
    p->warpSize = 32;
    p->maxThreadsPerBlock = static_cast<int>(THREADS_MAX);
    p->maxThreadsPerMultiProcessor = 1536;
    p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
    p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = 0x7fffffff;
    p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    p->major = 8;
    p->minor = 7;
    p->multiProcessorCount = 2;
    p->integrated = gpu_now().integrated;
    p->canMapHostMemory = 1;
    p->concurrentKernels = 1;
    p->asyncEngineCount = 2;
    p->unifiedAddressing = 1;
    p->managedMemory = gpu_now().managed;
    p->concurrentManagedAccess = gpu_now().concurrent || !gpu_now().integrated;
    p->l2CacheSize = 4 << 20;
    return cudaSuccess;
}

static bool attribute(const struct cudaDeviceProp &p, enum cudaDeviceAttr what, int *value)
{
    switch (static_cast<int>(what)) {
    case cudaDevAttrMaxThreadsPerBlock: *value = p.maxThreadsPerBlock; return true;
    case cudaDevAttrMaxGridDimX: *value = p.maxGridSize[0]; return true;
    case cudaDevAttrMaxGridDimY: *value = p.maxGridSize[1]; return true;
    case cudaDevAttrMaxGridDimZ: *value = p.maxGridSize[2]; return true;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = SHARED_BYTES; return true;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = SHARED_MOST; return true;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = SHARED_MOST + 1024; return true;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = 1536; return true;
    case cudaDevAttrWarpSize: *value = 32; return true;
    case cudaDevAttrMultiProcessorCount: *value = p.multiProcessorCount; return true;
    case cudaDevAttrIntegrated: *value = p.integrated; return true;
    case cudaDevAttrCanMapHostMemory: *value = 1; return true;
    case cudaDevAttrUnifiedAddressing: *value = 1; return true;
    case cudaDevAttrManagedMemory: *value = p.managedMemory; return true;
    case cudaDevAttrConcurrentManagedAccess: *value = p.concurrentManagedAccess; return true;
    case cudaDevAttrPageableMemoryAccess: *value = gpu_now().sees_host; return true;
    case cudaDevAttrComputeCapabilityMajor: *value = p.major; return true;
    case cudaDevAttrComputeCapabilityMinor: *value = p.minor; return true;
    case cudaDevAttrL2CacheSize: *value = p.l2CacheSize; return true;
    case cudaDevAttrClockRate: *value = 1000000; return true;
    case cudaDevAttrMemoryClockRate: *value = 1000000; return true;
    case cudaDevAttrGlobalMemoryBusWidth: *value = 128; return true;
    default: return false;
    }
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr what, int device)
{
    struct cudaDeviceProp p;
    guard hold(gpu_now().lock);
    cudaError_t rc = cudaGetDeviceProperties(&p, device);
    if (rc == cudaSuccess && !attribute(p, what, value)) {
        give_up("attribute %d is not emulated: add it to device.cpp", static_cast<int>(what));
    }
    return rc;
}

cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute what, int value)
{
    struct gpu &g = gpu_now();
    guard hold(g.lock);
    cudaError_t rc = gpu_state();
    if (rc == cudaSuccess && what == cudaFuncAttributeMaxDynamicSharedMemorySize) {
        if (value < 0 || value > SHARED_MOST) {
            return gpu_error(cudaErrorInvalidValue);
        }
        g.shared_limit[function] = value;
    }
    return gpu_error(rc);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *, int threads,
                                                          size_t shared_bytes)
{
    size_t by_shared = (SHARED_MOST + 1024) / (shared_bytes + 1024);
    size_t by_threads = threads > 0 ? 1536u / static_cast<size_t>(threads) : 0;
    *blocks = static_cast<int>(by_shared < by_threads ? by_shared : by_threads);
    return cudaSuccess;
}

static cudaError_t check_launch(const struct uw_emulated_kernel &k)
{
    const struct gpu &g = gpu_now();
    size_t threads = static_cast<size_t>(k.threads.x) * k.threads.y * k.threads.z;
    auto limit = g.shared_limit.find(k.function);
    size_t most = limit != g.shared_limit.end() ? static_cast<size_t>(limit->second) : SHARED_BYTES;
    if (threads == 0 || threads > THREADS_MAX || k.threads.z > 64 || k.grid.x == 0 ||
        k.grid.y == 0 || k.grid.z == 0 || k.grid.x > 0x7fffffffu || k.grid.y > 65535 ||
        k.grid.z > 65535) {
        return cudaErrorInvalidConfiguration;
    }
    return k.shared_bytes > most ? cudaErrorInvalidValue : cudaSuccess;
}

cudaError_t uw_emulated_enqueue(cudaStream_t stream, const struct uw_emulated_kernel &k)
{
    guard hold(gpu_now().lock);
    cudaError_t rc = gpu_state();
    rc = rc == cudaSuccess ? check_launch(k) : rc;
    if (rc != cudaSuccess) {
        return gpu_error(rc);
    }
    return stream_put(stream, k.function, [k]() { run_kernel(k, gpu_now().order, gpu_now().races); });
}

cudaError_t cudaGetLastError(void)
{
    struct gpu &g = gpu_now();
    guard hold(g.lock);
    cudaError_t rc = g.last;
    g.last = g.broken;
    return rc;
}

cudaError_t cudaPeekAtLastError(void)
{
    guard hold(gpu_now().lock);
    return gpu_now().last;
}
