/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps: values to the GPU, results back, captured graphs, copies.
 *
 * The first step of a key runs call by call, so that libraries load their kernels. The second one
 * is captured as a graph and launched; later ones are a single launch of that graph. If the capture
 * fails, the step is begun again, and steps of that key run call by call from then on. */
#include "gpu.h"

#include <stdlib.h>
#include <string.h>

#define GRAPHS 8u
#define BESIDE_BYTES (64u << 10)    /* larger copies overlap with the previous step */

struct graph {
    uint64_t key;
    cudaGraphExec_t exec;           /* NULL: not captured yet */
    bool refused;                   /* capture failed */
    uint64_t used;
};

struct uw_cuda_queue {
    struct uw_cuda_step *traffic;   /* [UW_DEVICE_STEPS_MAX], pinned: one per step in flight */
    cudaEvent_t done[UW_DEVICE_STEPS_MAX];
    uint32_t begun, asked;
    cudaStream_t copies;
    cudaEvent_t staged, made;
    cudaEvent_t fetched[UW_DEVICE_FETCHES_MAX];
    uint32_t fetches;
    struct graph graphs[GRAPHS];
    struct graph *recording, *playing;
    uint64_t clock;
};

static struct uw_cuda_queue *queue_of(const struct uw_exec *e)
{
    return uw_cuda_of(e)->queue;
}

static int zero(const struct uw_exec *e, void *x, size_t bytes)
{
    return bytes == 0 ? UW_OK
                      : uw_cuda_launched(e, cudaMemsetAsync(x, 0, bytes, uw_cuda_of(e)->stream));
}

/* Waits for copies too: before the processor accesses managed memory, an integrated GPU must be
 * idle (without concurrentManagedAccess, an access during any of its work ends the program). */
static int wait(const struct uw_exec *e)
{
    cudaError_t rc = cudaStreamSynchronize(uw_cuda_of(e)->stream);
    cudaError_t copied = uw_cuda_of(e)->device.shares_parameters
                             ? cudaStreamSynchronize(queue_of(e)->copies)
                             : cudaSuccess;
    return uw_cuda_status(rc == cudaSuccess ? copied : rc);
}

static int move(const struct uw_exec *e, void *to, const void *from, size_t bytes)
{
    cudaError_t rc = bytes == 0 ? cudaSuccess
                                : cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault,
                                                  uw_cuda_of(e)->stream);
    return rc == cudaSuccess ? wait(e) : uw_cuda_status(rc);
}

static int write_to(const struct uw_exec *e, void *x, const void *host, size_t bytes)
{
    return move(e, x, host, bytes);
}

static int read_from(const struct uw_exec *e, void *host, const void *x, size_t bytes)
{
    return move(e, host, x, bytes);
}

static int stage(const struct uw_exec *e, const struct uw_device_copy *c, uint32_t n)
{
    struct uw_cuda_queue *q = queue_of(e);
    cudaStream_t stream = uw_cuda_of(e)->stream;
    cudaError_t rc = cudaSuccess;
    size_t bytes = 0;

    for (uint32_t i = 0; i < n; i++) {
        bytes += c[i].bytes;
    }
    bool beside = bytes >= BESIDE_BYTES;
    for (uint32_t i = 0; i < n && rc == cudaSuccess; i++) {
        rc = cudaMemcpyAsync(c[i].to, c[i].from, c[i].bytes, cudaMemcpyDefault,
                             beside ? q->copies : stream);
    }
    if (beside) {
        rc = rc == cudaSuccess ? cudaEventRecord(q->staged, q->copies) : rc;
        rc = rc == cudaSuccess ? cudaStreamWaitEvent(stream, q->staged, 0) : rc;
    }
    return uw_cuda_status(rc);
}

/* The key's graph; if there is none, the least recently used one is replaced. */
static struct graph *find_graph(struct uw_cuda_queue *q, uint64_t key)
{
    struct graph *oldest = &q->graphs[0];
    for (uint32_t i = 0; i < GRAPHS; i++) {
        if (q->graphs[i].key == key) {
            return &q->graphs[i];
        }
        oldest = q->graphs[i].used < oldest->used ? &q->graphs[i] : oldest;
    }
    if (oldest->exec != NULL) {
        (void)cudaGraphExecDestroy(oldest->exec);
    }
    *oldest = (struct graph){.key = key};
    return oldest;
}

static int begin(const struct uw_exec *e, const struct uw_device_step *s, bool *recorded)
{
    struct uw_cuda *c = uw_cuda_of(e);
    struct uw_cuda_queue *q = c->queue;
    struct uw_cuda_step *t = &q->traffic[q->begun % UW_DEVICE_STEPS_MAX];
    *recorded = false;
    if (c->in_step || q->begun - q->asked >= UW_DEVICE_STEPS_MAX) {
        return UW_ERR_INVALID;
    }
    /* All but `stopped` and the members after it, which persist between steps. */
    memset(t, 0, sizeof *t);
    t->values = s->values;
    cudaError_t rc = cudaMemcpyAsync(c->step, t, offsetof(struct uw_cuda_step, sums.stopped),
                                     cudaMemcpyDefault, c->stream);
    if (rc != cudaSuccess) {
        return uw_cuda_status(rc);
    }
    q->recording = q->playing = NULL;
    if (s->key != 0) {
        struct graph *g = find_graph(q, s->key);
        bool seen = g->used != 0;
        g->used = ++q->clock;
        if (g->exec != NULL) {
            q->playing = g;
        } else if (seen && !g->refused) {
            rc = cudaStreamBeginCapture(c->stream, cudaStreamCaptureModeThreadLocal);
            q->recording = rc == cudaSuccess ? g : NULL;
        }
    }
    c->in_step = rc == cudaSuccess;
    *recorded = q->playing != NULL;
    return uw_cuda_status(rc);
}

static struct uw_device_sums *sums(const struct uw_exec *e)
{
    return &uw_cuda_of(e)->step->sums;
}

/* End the capture and instantiate the graph. Returns false if that fails; it is not tried again. */
static bool end_recording(struct uw_cuda *c, struct graph *g, bool whole)
{
    cudaGraph_t graph = NULL;
    cudaError_t rc = cudaStreamEndCapture(c->stream, &graph);
    if (rc == cudaSuccess && whole) {
        rc = cudaGraphInstantiate(&g->exec, graph, 0);
        g->exec = rc == cudaSuccess ? g->exec : NULL;
    }
    if (graph != NULL) {
        (void)cudaGraphDestroy(graph);
    }
    g->refused = g->exec == NULL;
    if (rc != cudaSuccess) {
        (void)cudaGetLastError();       /* clear the error */
    }
    return !g->refused;
}

static void drop_graphs(struct uw_cuda_queue *q)
{
    for (uint32_t i = 0; i < GRAPHS; i++) {
        if (q->graphs[i].exec != NULL) {
            (void)cudaGraphExecDestroy(q->graphs[i].exec);
        }
        q->graphs[i] = (struct graph){.key = 0};
    }
}

static void forget(const struct uw_exec *e)
{
    drop_graphs(queue_of(e));
}

static int end(const struct uw_exec *e, bool whole)
{
    struct uw_cuda *c = uw_cuda_of(e);
    struct uw_cuda_queue *q = c->queue;
    struct uw_cuda_step *t = &q->traffic[q->begun % UW_DEVICE_STEPS_MAX];
    struct graph *g = q->recording != NULL ? q->recording : q->playing;
    bool again = q->recording != NULL && !end_recording(c, g, whole);
    cudaError_t rc = cudaSuccess;

    c->in_step = false;
    q->recording = q->playing = NULL;
    if (again) {
        c->segments_n = 0;
        uw_cuda_forget_failure(c);      /* the step may still run without capture */
        return UW_ERR_AGAIN;
    }
    if (whole && g != NULL) {
        rc = cudaGraphLaunch(g->exec, c->stream);
    }
    cudaError_t back = cudaMemcpyAsync(&t->sums, &c->step->sums, sizeof t->sums, cudaMemcpyDefault,
                                       c->stream);
    back = back == cudaSuccess ? cudaEventRecord(q->done[q->begun % UW_DEVICE_STEPS_MAX], c->stream)
                               : back;
    q->begun++;
    return uw_cuda_status(rc == cudaSuccess ? back : rc);
}

static int result(const struct uw_exec *e, struct uw_device_result *r)
{
    struct uw_cuda *c = uw_cuda_of(e);
    struct uw_cuda_queue *q = c->queue;
    const struct uw_device_sums *s = &q->traffic[q->asked % UW_DEVICE_STEPS_MAX].sums;
    if (q->asked == q->begun) {
        return UW_ERR_INVALID;
    }
    cudaError_t rc = cudaEventSynchronize(q->done[q->asked++ % UW_DEVICE_STEPS_MAX]);
    *r = (struct uw_device_result){.loss = s->total, .correct_n = s->correct_total,
                                   .stopped = (enum uw_device_stop)s->stopped, .where = s->where};
    return uw_cuda_status(rc);
}

static int resume(const struct uw_exec *e)
{
    struct uw_cuda *c = uw_cuda_of(e);
    return uw_cuda_status(cudaMemsetAsync(&c->step->sums.stopped, 0,
                                  sizeof c->step->sums - offsetof(struct uw_device_sums, stopped),
                                  c->stream));
}

static int fetch(const struct uw_exec *e, void *host, const void *x, size_t bytes,
                 uint32_t *ticket)
{
    struct uw_cuda_queue *q = queue_of(e);
    *ticket = q->fetches++ % UW_DEVICE_FETCHES_MAX;
    cudaError_t rc = cudaEventRecord(q->made, uw_cuda_of(e)->stream);
    rc = rc == cudaSuccess ? cudaStreamWaitEvent(q->copies, q->made, 0) : rc;
    if (rc == cudaSuccess && bytes > 0) {
        rc = cudaMemcpyAsync(host, x, bytes, cudaMemcpyDefault, q->copies);
    }
    return uw_cuda_status(rc == cudaSuccess ? cudaEventRecord(q->fetched[*ticket], q->copies) : rc);
}

static int await(const struct uw_exec *e, uint32_t ticket)
{
    cudaEvent_t fetched = queue_of(e)->fetched[ticket % UW_DEVICE_FETCHES_MAX];
    return uw_cuda_status(cudaEventSynchronize(fetched));
}

static cudaError_t make_event(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, cudaEventDisableTiming);
}

static cudaError_t make_events(struct uw_cuda_queue *q)
{
    cudaError_t rc = make_event(&q->staged);
    rc = rc == cudaSuccess ? make_event(&q->made) : rc;
    for (uint32_t i = 0; i < UW_DEVICE_STEPS_MAX && rc == cudaSuccess; i++) {
        rc = make_event(&q->done[i]);
    }
    for (uint32_t i = 0; i < UW_DEVICE_FETCHES_MAX && rc == cudaSuccess; i++) {
        rc = make_event(&q->fetched[i]);
    }
    return rc;
}

int uw_cuda_queue_open(struct uw_cuda *c, struct uw_error *err)
{
    void *traffic;
    c->device = (struct uw_device_kernels){
        .shares_parameters = uw_cuda_pages(&c->info, false) == UW_CUDA_PAGES_MANAGED,
        .steps_max = UW_DEVICE_STEPS_MAX,
        .zero = zero, .write = write_to, .read = read_from, .wait = wait, .stage = stage,
        .begin = begin, .sums = sums, .add_losses = uw_add_losses_cuda,
        .xent_step = uw_xent_step_cuda,
        .segments = uw_segments_cuda, .clip = uw_clip_cuda, .onehot = uw_onehot_cuda,
        .end = end, .forget = forget, .result = result, .resume = resume, .fetch = fetch,
        .await = await,
    };
    c->queue = calloc(1, sizeof *c->queue);
    if (c->queue == NULL) {
        return uw_error_set(err, UW_ERR_NOMEM, "out of memory");
    }
    int rc = uw_cuda_take(c, UW_CUDA_PINNED, UW_DEVICE_STEPS_MAX * sizeof(struct uw_cuda_step),
                          &traffic, err);
    c->queue->traffic = traffic;
    if (rc < 0) {
        return rc;
    }
    cudaError_t made = cudaStreamCreateWithFlags(&c->queue->copies, cudaStreamNonBlocking);
    made = made == cudaSuccess ? make_events(c->queue) : made;
    made = made == cudaSuccess ? cudaMemsetAsync(c->step, 0, UW_CUDA_STEP_BYTES, c->stream) : made;
    made = made == cudaSuccess ? cudaStreamSynchronize(c->stream) : made;   /* idle: see wait */
    return made == cudaSuccess ? UW_OK
                               : uw_error_set(err, uw_cuda_status(made),
                                              "the GPU gives no queue: %s: %s",
                                              cudaGetErrorName(made), cudaGetErrorString(made));
}

static void drop_event(cudaEvent_t event)
{
    if (event != NULL) {
        (void)cudaEventDestroy(event);
    }
}

void uw_cuda_queue_close(struct uw_cuda *c)
{
    struct uw_cuda_queue *q = c->queue;
    if (q == NULL) {
        return;
    }
    if (q->copies != NULL) {
        (void)cudaStreamSynchronize(q->copies);     /* destroying it would not wait */
    }
    drop_graphs(q);
    for (uint32_t i = 0; i < UW_DEVICE_STEPS_MAX; i++) {
        drop_event(q->done[i]);
    }
    for (uint32_t i = 0; i < UW_DEVICE_FETCHES_MAX; i++) {
        drop_event(q->fetched[i]);
    }
    drop_event(q->staged);
    drop_event(q->made);
    if (q->copies != NULL) {
        (void)cudaStreamDestroy(q->copies);
    }
    free(q);
    c->queue = NULL;
}
