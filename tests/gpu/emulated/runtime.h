/* SPDX-License-Identifier: Apache-2.0
 *
 * runtime.h - the emulated GPU (private to the emulated runtime)
 *
 * Work is put into streams and runs when somebody waits: one piece of one stream at a time, the
 * stream drawn by chance among those whose next piece may run. Only then may the processor touch
 * the GPU's memory.
 */
#ifndef UW_EMULATED_RUNTIME_H
#define UW_EMULATED_RUNTIME_H

#include "block.h"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

/* Something that will have happened. */
struct mark {
    bool done = false;
    double at_ms = 0.0;
};
using mark_at = std::shared_ptr<struct mark>;

/* A piece of a stream: step() is called until it says true. */
struct piece {
    std::function<bool()> step;
    std::vector<mark_at> after;
    mark_at done;
};

/* A piece of a graph. */
struct node {
    const void *what;                       /* the same in graphs that may replace each other */
    std::function<void()> run;
    std::vector<size_t> after;
};
using nodes_at = std::shared_ptr<std::vector<struct node>>;

struct capture {
    nodes_at nodes = std::make_shared<std::vector<struct node>>();
    bool invalid = false;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
    std::thread::id thread;                 /* that began it */
    cudaStream_t origin = nullptr;
    std::set<cudaStream_t> streams;
};

struct CUstream_st {
    std::deque<struct piece> pieces;
    mark_at last;                           /* of the newest piece; null: none yet */
    bool blocking = true;                   /* waits for the legacy stream and is waited for */
    struct capture *capture = nullptr;
    std::vector<size_t> ends;               /* while it is captured: what the next piece is after */
};

struct CUevent_st {
    mark_at mark;                           /* null: never recorded */
    struct capture *capture = nullptr;
    std::vector<size_t> ends;
    bool timed = true;
};

struct CUgraph_st {
    nodes_at nodes;
};

struct CUgraphExec_st {
    nodes_at nodes;
    mark_at last;
};

enum memory_kind { OF_DEVICE, OF_HOST, MANAGED };

struct memory {
    void *map;
    size_t map_bytes, bytes;
    enum memory_kind kind;
    bool closed;                            /* to the processor */
};

struct gpu {
    std::recursive_mutex lock;
    /* settings */
    bool has_driver, has_gpu, integrated, concurrent, managed;
    bool sees_host;                         /* kernels may use all of the processor's memory */
    bool races;                             /* are looked for */
    int driver;
    size_t total_bytes;
    uint64_t random;
    unsigned order;                         /* run_kernel's */
    uint64_t fail_after;                    /* 0: never */
    unsigned engines;                       /* of cuDNN's graph API, see control.h */
    uint64_t uuid;
    bool has_nccl, nccl_fails_init;
    uint64_t nccl_hang_at, nccl_error_at;   /* 0: never */
    /* state */
    cudaError_t last, broken;
    uint64_t pieces_n;                      /* that ran */
    uint64_t taken_n;                       /* allocations */
    uint64_t recordings_n;
    uint64_t nccl_sums;                     /* that were asked for */
    size_t used_bytes;
    uint64_t descriptors_n;                 /* of the graph API that are there */
    unsigned opened;                        /* device memory may be touched while > 0 */
    struct CUstream_st legacy;
    std::set<cudaStream_t> streams;
    std::set<struct capture *> captures;
    std::map<uintptr_t, struct memory> blocks;
    std::map<const void *, int> shared_limit;

    gpu();
};

struct gpu &gpu_now(void);

/* Lock, and say what keeps every call from working: no driver, no GPU, an earlier failure. */
using guard = std::unique_lock<std::recursive_mutex>;
cudaError_t gpu_state(void);
/* rc, kept for cudaGetLastError when it is an error. */
cudaError_t gpu_error(cudaError_t rc);
double gpu_now_ms(void);

/* NULL and the handles of the legacy stream: gpu.legacy. */
cudaStream_t stream_of(cudaStream_t stream);
/* Put a piece of work in: into the graph when the stream is captured. */
cudaError_t stream_put(cudaStream_t stream, const void *what, std::function<void()> run);
cudaError_t stream_put_piece(cudaStream_t stream, struct piece p);
/* Run until it is done. NULL: nothing to wait for. */
cudaError_t run_until(const mark_at &m);
cudaError_t run_all(void);
/* One piece of any stream. false: none can run. */
bool run_one(void);

/* A call that is not safe beside a capture: may this thread not make it? Captures that forbid it,
 * of any thread by their mode or of this one, are invalid then. */
bool capture_refuses(void);

/* Is there work that has not run? */
bool stream_any_busy(void);

struct memory *memory_find(const void *at);
void memory_open(void);                     /* let the processor touch device memory */
void memory_close(void);
void memory_work_came(void);                /* managed memory may be the GPU's now */

#endif
