/* SPDX-License-Identifier: Apache-2.0
 *
 * Averages by NCCL. Nothing here waits for NCCL, so that training continues whatever happens to it:
 * the communicator is nonblocking, leaving (which may block) runs in a separate thread, and NCCL's
 * work is on a separate stream. The sum is in a separate buffer, so that an aborted round needs no
 * undo. */
#include "gpu.h"
#include "group_library.h"

#include "uwasa/cuda_group.h"
#include "uwasa/hash.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NAP_NS 1000000
#define FINALIZE_NAPS 2000u         /* two seconds, then the communicator is aborted */
#define CLOSE_NAPS 3000u
#define LEAVINGS 4u                 /* groups being left at the same time; usually at most two */

enum phase {
    RESTS,
    JOINS,                          /* the group is being made */
    ADDS,                           /* the all-reduce is being enqueued */
    REDUCES,                        /* the all-reduce runs on the GPU */
    COPIES                          /* the average is copied to x, or to the parts */
};

/* Leaving a group. */
struct leaving {
    struct uw_cuda_group *g;
    pthread_t thread;
    bool made;                      /* thread was created and must be joined */
    atomic_bool busy;
    ncclComm_t comm;
    bool politely;                  /* no operation is in progress: finalize first */
};

struct uw_cuda_group {
    struct uw_cuda_group_config config;
    struct uw_cuda_group_library l;
    uint64_t device;
    float *sum;                     /* [size_n], or [parts_n] where that is more */
    const struct uw_cuda_group_part *parts;     /* being added; NULL: parameters are */
    uint32_t parts_n;
    size_t add_n;                   /* floats being added */
    cudaStream_t stream;
    cudaEvent_t ready, reduced, copied, settled;
    ncclComm_t comm;                /* NULL: not in a group */
    uint8_t id[UW_CUDA_GROUP_ID_BYTES];
    uint32_t ranks;
    enum phase phase;
    bool lost;                      /* leaving a group failed */
    struct leaving leavings[LEAVINGS];
};

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
}

/* ---- leaving ---- */

/* Finalize a communicator without operations in progress; gives up after FINALIZE_NAPS. */
static bool finalize(struct uw_cuda_group *g, ncclComm_t comm)
{
    ncclResult_t rc = g->l.ncclCommFinalize(comm), state = rc;
    for (uint32_t i = 0; rc == ncclInProgress && i < FINALIZE_NAPS; i++) {
        nap();
        rc = g->l.ncclCommGetAsyncError(comm, &state) == ncclSuccess ? state : ncclSystemError;
    }
    return rc == ncclSuccess;
}

static void *leave(void *arg)
{
    struct leaving *l = arg;
    struct uw_cuda_group *g = l->g;
    (void)cudaSetDevice((int)g->config.cuda->config.device);
    if (l->politely && finalize(g, l->comm)) {
        (void)g->l.ncclCommDestroy(l->comm);
    } else {
        (void)g->l.ncclCommAbort(l->comm);
    }
    atomic_store(&l->busy, false);
    return NULL;
}

/* Have all threads that leave groups finished? Joins those that have. */
static bool has_left(struct uw_cuda_group *g)
{
    bool left = true;
    for (uint32_t i = 0; i < LEAVINGS; i++) {
        struct leaving *l = &g->leavings[i];
        if (l->made && !atomic_load(&l->busy)) {
            (void)pthread_join(l->thread, NULL);
            l->made = false;
        }
        left = left && !l->made;
    }
    return left;
}

/* If no thread can be created, the communicator is leaked, and with it the GPU's memory. */
static void leave_group(struct uw_cuda_group *g, bool politely)
{
    uint32_t i = 0;
    g->phase = RESTS;
    if (g->comm == NULL) {
        return;
    }
    (void)has_left(g);
    while (i < LEAVINGS && g->leavings[i].made) {
        i++;
    }
    if (i < LEAVINGS) {
        struct leaving *l = &g->leavings[i];
        l->g = g;
        l->comm = g->comm;
        l->politely = politely;
        atomic_store(&l->busy, true);
        l->made = pthread_create(&l->thread, NULL, leave, l) == 0;
    }
    g->lost = g->lost || i == LEAVINGS || !g->leavings[i].made;
    g->comm = NULL;
}

/* ---- a round ---- */

static int status(ncclResult_t rc)
{
    return rc == ncclSuccess || rc == ncclInProgress ? UW_OK : UW_ERR_IO;
}

/* State of the last call: UW_OK, UW_ERR_AGAIN (in progress), UW_ERR_IO (it or the group failed). */
static int async_state(const struct uw_cuda_group *g)
{
    ncclResult_t state = ncclSystemError;
    ncclResult_t rc = g->l.ncclCommGetAsyncError(g->comm, &state);
    return rc != ncclSuccess || status(state) < 0 ? UW_ERR_IO
           : state == ncclInProgress              ? UW_ERR_AGAIN
                                                  : UW_OK;
}

static int add(struct uw_cuda_group *g)
{
    g->phase = ADDS;
    return status(g->l.ncclAllReduce(g->sum, g->sum, g->add_n, ncclFloat32, ncclSum, g->comm,
                                     g->stream));
}

static int join(struct uw_cuda_group *g, const uint8_t *id, uint32_t rank, uint32_t ranks)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId unique;
    config.blocking = 0;
    leave_group(g, true);
    memcpy(unique.internal, id, sizeof unique.internal);
    memcpy(g->id, id, sizeof g->id);
    g->ranks = ranks;
    g->phase = JOINS;
    return status(g->l.ncclCommInitRankConfig(&g->comm, (int)ranks, unique, (int)rank, &config));
}

int uw_cuda_group_begin(struct uw_cuda_group *g, const uint8_t id[UW_CUDA_GROUP_ID_BYTES],
                        uint32_t rank, uint32_t ranks, bool alike)
{
    struct uw_cuda *c = g->config.cuda;
    const float *from = alike ? g->config.parameters : g->config.x;
    cudaError_t rc = cudaSetDevice((int)c->config.device);
    g->parts = NULL;
    g->add_n = g->config.size_n;
    rc = rc == cudaSuccess ? cudaEventRecord(g->ready, c->stream) : rc;
    rc = rc == cudaSuccess ? cudaStreamWaitEvent(g->stream, g->ready, 0) : rc;
    rc = rc == cudaSuccess ? cudaMemcpyAsync(g->sum, from, g->config.size_n * sizeof *from,
                                             cudaMemcpyDefault, g->stream)
                           : rc;
    if (rc != cudaSuccess) {
        return UW_ERR_IO;
    }
    bool joined = g->comm != NULL && memcmp(g->id, id, sizeof g->id) == 0;
    return joined ? add(g) : join(g, id, rank, ranks);
}

/* Adding parts does not use the GPU's main stream, which may be training at the same time. But what
 * uw_cuda_group_settle has put there reads the sum. */
int uw_cuda_group_add_parts(struct uw_cuda_group *g, const struct uw_cuda_group_part *p,
                            uint32_t n)
{
    size_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        at += p[i].size_n;
    }
    if (at > g->config.parts_n) {
        return UW_ERR_TOOBIG;
    }
    bool rests = g->phase == RESTS || (g->phase == COPIES && g->parts == NULL);
    if (g->comm == NULL || !rests) {
        return UW_ERR_INVALID;
    }
    g->parts = p;
    g->parts_n = n;
    g->add_n = at;
    g->phase = ADDS;
    cudaError_t rc = cudaSetDevice((int)g->config.cuda->config.device);
    rc = rc == cudaSuccess ? cudaStreamWaitEvent(g->stream, g->settled, 0) : rc;
    at = 0;
    for (uint32_t i = 0; rc == cudaSuccess && i < n; i++) {
        rc = cudaMemcpyAsync(g->sum + at, p[i].x, p[i].size_n * sizeof *g->sum, cudaMemcpyDefault,
                             g->stream);
        at += p[i].size_n;
    }
    rc = rc == cudaSuccess ? cudaEventRecord(g->ready, g->stream) : rc;
    return rc == cudaSuccess ? add(g) : UW_ERR_IO;
}

/* UW_OK, UW_ERR_AGAIN (not yet) or UW_ERR_IO. */
static int event_status(cudaEvent_t event)
{
    cudaError_t rc = cudaEventQuery(event);
    if (rc == cudaErrorNotReady) {
        (void)cudaGetLastError();       /* clear the error */
    }
    return rc == cudaErrorNotReady ? UW_ERR_AGAIN : uw_cuda_status(rc);
}

/* The sum is complete: compute the average, on the GPU, and copy it to x. */
static int divide(struct uw_cuda_group *g)
{
    struct uw_cuda *c = g->config.cuda;
    const struct uw_exec e = {.kernels = &c->kernels};
    size_t n = g->config.size_n;
    int rc = uw_axpby_cuda(&e, n, 1.0f / (float)g->ranks, g->sum, 0.0f, g->sum);
    g->phase = COPIES;
    if (rc == UW_OK) {
        rc = uw_cuda_status(cudaMemcpyAsync(g->config.x, g->sum, n * sizeof *g->sum,
                                            cudaMemcpyDefault, c->stream));
    }
    return rc < 0 ? rc : uw_cuda_status(cudaEventRecord(g->copied, c->stream));
}

/* The sum of parts is complete: copy it to them. Not earlier: after an abort the parts belong to
 * the caller and must not change. */
static int copy_to_parts(struct uw_cuda_group *g)
{
    cudaError_t rc = cudaSuccess;
    size_t at = 0;
    g->phase = COPIES;
    for (uint32_t i = 0; rc == cudaSuccess && i < g->parts_n; i++) {
        const struct uw_cuda_group_part *p = &g->parts[i];
        rc = cudaMemcpyAsync(p->x, g->sum + at, p->size_n * sizeof *g->sum, cudaMemcpyDefault,
                             g->stream);
        at += p->size_n;
    }
    return uw_cuda_status(rc == cudaSuccess ? cudaEventRecord(g->copied, g->stream) : rc);
}

/* The sums have been copied to the parts: divide them. */
static void divide_parts(struct uw_cuda_group *g)
{
    float share = 1.0f / (float)g->ranks;
    for (uint32_t i = 0; i < g->parts_n; i++) {
        const struct uw_cuda_group_part *p = &g->parts[i];
        for (uint32_t k = 0; k < p->size_n; k++) {
            p->x[k] *= share;
        }
    }
    g->parts = NULL;
    g->phase = RESTS;
}

/* Enter the next phase. */
static int next_phase(struct uw_cuda_group *g)
{
    switch (g->phase) {
    case JOINS: return add(g);
    case ADDS: g->phase = REDUCES; return uw_cuda_status(cudaEventRecord(g->reduced, g->stream));
    case REDUCES: return g->parts != NULL ? copy_to_parts(g) : divide(g);
    case COPIES:
    case RESTS:
    default: return UW_OK;
    }
}

int uw_cuda_group_poll(struct uw_cuda_group *g)
{
    if (g->comm == NULL || cudaSetDevice((int)g->config.cuda->config.device) != cudaSuccess) {
        return UW_ERR_IO;
    }
    bool last = g->phase == COPIES;
    int came = last                  ? event_status(g->copied)
               : g->phase == REDUCES ? event_status(g->reduced)
                                     : UW_OK;
    int group = last ? UW_OK : async_state(g);
    if (group == UW_ERR_IO || came < 0) {
        return group == UW_ERR_IO ? group : came;
    }
    if (last && came == UW_OK && g->parts != NULL) {
        divide_parts(g);
    }
    if (group == UW_ERR_AGAIN || last) {
        return group;
    }
    int rc = next_phase(g);
    return rc < 0 ? rc : UW_ERR_AGAIN;
}

int uw_cuda_group_settle(struct uw_cuda_group *g)
{
    struct uw_cuda *c = g->config.cuda;
    g->phase = RESTS;
    cudaError_t rc = cudaSetDevice((int)c->config.device);
    rc = rc == cudaSuccess ? cudaMemcpyAsync(g->config.parameters, g->sum,
                                             g->config.size_n * sizeof *g->sum, cudaMemcpyDefault,
                                             c->stream)
                           : rc;
    return uw_cuda_status(rc == cudaSuccess ? cudaEventRecord(g->settled, c->stream) : rc);
}

void uw_cuda_group_abort(struct uw_cuda_group *g)
{
    (void)cudaSetDevice((int)g->config.cuda->config.device);
    if (g->parts != NULL) {
        (void)cudaEventSynchronize(g->phase == COPIES ? g->copied : g->ready);
        g->parts = NULL;
    } else if (g->phase == COPIES) {
        (void)cudaStreamSynchronize(g->config.cuda->stream);    /* x belongs to the caller again */
    }
    leave_group(g, false);
}

/* ---- set-up ---- */

uint32_t uw_cuda_group_version(struct uw_cuda_group *g)
{
    return has_left(g) && !g->lost ? (uint32_t)g->l.version : 0;
}

uint64_t uw_cuda_group_device(const struct uw_cuda_group *g)
{
    return g->device;
}

int uw_cuda_group_make_id(struct uw_cuda_group *g, uint8_t id[UW_CUDA_GROUP_ID_BYTES])
{
    ncclUniqueId unique;
    _Static_assert(sizeof unique.internal == UW_CUDA_GROUP_ID_BYTES, "NCCL's ids are so long");
    if (cudaSetDevice((int)g->config.cuda->config.device) != cudaSuccess ||
        g->l.ncclGetUniqueId(&unique) != ncclSuccess) {
        return UW_ERR_IO;
    }
    memcpy(id, unique.internal, sizeof unique.internal);
    return UW_OK;
}

static cudaError_t make_queue(struct uw_cuda_group *g)
{
    struct cudaDeviceProp p;
    int device = (int)g->config.cuda->config.device;
    cudaError_t rc = cudaGetDeviceProperties(&p, device);
    rc = rc == cudaSuccess ? cudaStreamCreateWithFlags(&g->stream, cudaStreamNonBlocking) : rc;
    cudaEvent_t *events[] = {&g->ready, &g->reduced, &g->copied, &g->settled};
    for (size_t i = 0; rc == cudaSuccess && i < sizeof events / sizeof *events; i++) {
        rc = cudaEventCreateWithFlags(events[i], cudaEventDisableTiming);
    }
    if (rc == cudaSuccess) {
        g->device = uw_hash64(UW_HASH64_START, p.uuid.bytes, sizeof p.uuid.bytes);
        g->device += g->device == 0;
    }
    return rc;
}

static int open_parts(struct uw_cuda_group *g, struct uw_error *err)
{
    struct uw_cuda *c = g->config.cuda;
    size_t sum_n = g->config.parts_n > g->config.size_n ? g->config.parts_n : g->config.size_n;
    size_t bytes = sum_n * sizeof *g->sum;
    void *sum = NULL;
    if (c->info.integrated || c->config.blocking) {
        return uw_error_set(err, UW_ERR_UNSUPPORTED,
                            "NCCL is for GPUs with memory of their own, not for this one");
    }
    int rc = uw_cuda_group_library_open(&g->l, err);
    rc = rc < 0 ? rc : uw_cuda_take(c, UW_CUDA_KERNELS, bytes, &sum, err);
    g->sum = sum;
    if (rc == UW_OK) {
        c->own_bytes += bytes;
        cudaError_t made = make_queue(g);
        rc = made == cudaSuccess ? UW_OK
                                 : uw_error_set(err, uw_cuda_status(made),
                                                "the GPU gives no queue: %s: %s",
                                                cudaGetErrorName(made),
                                                cudaGetErrorString(made));
    }
    return rc;
}

int uw_cuda_group_open(struct uw_cuda_group **out, const struct uw_cuda_group_config *config,
                       struct uw_error *err)
{
    struct uw_cuda_group *g = calloc(1, sizeof *g);
    *out = NULL;
    if (g == NULL) {
        return uw_error_set(err, UW_ERR_NOMEM, "out of memory");
    }
    g->config = *config;
    int rc = open_parts(g, err);
    if (rc < 0) {
        uw_cuda_group_close(g);
        return rc;
    }
    *out = g;
    return UW_OK;
}

/* Wait up to CLOSE_NAPS. Returns whether all groups have been left. */
static bool has_left_soon(struct uw_cuda_group *g)
{
    bool left = has_left(g);
    for (uint32_t i = 0; !left && i < CLOSE_NAPS; i++) {
        nap();
        left = has_left(g);
    }
    return left;
}

void uw_cuda_group_close(struct uw_cuda_group *g)
{
    if (g == NULL) {
        return;
    }
    leave_group(g, g->phase == RESTS);
    if (!has_left_soon(g) || g->lost) {
        g->config.cuda->stuck = true;   /* freeing its memory would wait forever */
        return;
    }
    cudaEvent_t events[] = {g->ready, g->reduced, g->copied, g->settled};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        if (events[i] != NULL) {
            (void)cudaEventDestroy(events[i]);
        }
    }
    if (g->stream != NULL) {
        (void)cudaStreamDestroy(g->stream);
    }
    free(g);
}
