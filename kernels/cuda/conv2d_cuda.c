/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions: each part with the algorithm chosen for it. */
#include "conv2d_winograd.h"
#include "products.h"

#include "uwasa/arena.h"

static int run_own(const struct uw_exec *e, const struct uw_conv2d *c,
                   const struct uw_conv2d_job *j, bool split)
{
    switch (j->part) {
    case UW_CONV2D_FW:
        return uw_conv2d_own_fw(e, c, j->batch_n, j->a, j->b, j->bias, j->ceiling, j->out,
                                j->accumulate, split);
    case UW_CONV2D_BW_INPUT:
        return uw_conv2d_own_bw_input(e, c, j->batch_n, j->a, j->b, j->out, j->accumulate, split);
    case UW_CONV2D_BW_PARAM:
        break;
    }
    return uw_conv2d_own_bw_param(e, c, j->batch_n, j->a, j->b, j->scale, j->out, j->dbias);
}

/* cuBLAS is column-major: a row-major matrix is its transpose there. */
static int run_gemm(const struct uw_exec *e, const struct uw_conv2d *c,
                    const struct uw_conv2d_job *j)
{
    const struct uw_cuda_products *p = uw_cuda_of(e)->products;
    const struct uw_cuda_libraries *l = &p->libraries;
    int in = (int)c->in_channels, out = (int)c->out_channels, pixels = (int)(c->in_h * c->in_w);
    long long in_n = (long long)in * pixels, out_n = (long long)out * pixels;
    float beta = j->accumulate ? 1.0f : 0.0f, one = 1.0f;
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    switch (j->part) {
    case UW_CONV2D_FW:
        status = l->cublasSgemmStridedBatched(p->cublas, CUBLAS_OP_N, CUBLAS_OP_N, pixels, out, in,
                                              &j->scale, j->a, pixels, in_n, j->b, in, 0, &beta,
                                              j->out, pixels, out_n, (int)j->batch_n);
        break;
    case UW_CONV2D_BW_INPUT:
        status = l->cublasSgemmStridedBatched(p->cublas, CUBLAS_OP_N, CUBLAS_OP_T, pixels, in, out,
                                              &j->scale, j->a, pixels, out_n, j->b, in, 0, &beta,
                                              j->out, pixels, in_n, (int)j->batch_n);
        break;
    case UW_CONV2D_BW_PARAM:
        for (uint32_t i = 0; i < j->batch_n && status == CUBLAS_STATUS_SUCCESS; i++) {
            status = l->cublasSgemm_v2(p->cublas, CUBLAS_OP_T, CUBLAS_OP_N, in, out, pixels,
                                       &j->scale, j->a + (size_t)i * (size_t)in_n, pixels,
                                       j->b + (size_t)i * (size_t)out_n, pixels, &one, j->out, in);
        }
        break;
    }
    return uw_cuda_blas_done(e, status);
}

static int run_dnn(const struct uw_exec *e, struct uw_conv2d_shape *s,
                   const struct uw_conv2d_job *j, int32_t algorithm, void *workspace, size_t bytes)
{
    const struct uw_cuda *c = uw_cuda_of(e);
    const struct uw_cuda_libraries *l = &c->products->libraries;
    cudnnHandle_t h = c->products->cudnn;
    float beta = j->accumulate ? 1.0f : 0.0f;
    cudnnStatus_t status = CUDNN_STATUS_NOT_SUPPORTED;
    if (!uw_conv2d_set_batch(c, s, j->batch_n)) {
        return UW_ERR_IO;
    }
    switch (j->part) {
    case UW_CONV2D_FW:
        status = l->cudnnConvolutionForward(h, &j->scale, s->x, j->a, s->w, j->b, s->how,
                                            (cudnnConvolutionFwdAlgo_t)algorithm, workspace, bytes,
                                            &beta, s->y, j->out);
        break;
    case UW_CONV2D_BW_INPUT:
        status = l->cudnnConvolutionBackwardData(h, &j->scale, s->w, j->b, s->y, j->a, s->how,
                                                 (cudnnConvolutionBwdDataAlgo_t)algorithm,
                                                 workspace, bytes, &beta, s->x, j->out);
        break;
    case UW_CONV2D_BW_PARAM:
        status = l->cudnnConvolutionBackwardFilter(h, &j->scale, s->x, j->a, s->y, j->b, s->how,
                                                   (cudnnConvolutionBwdFilterAlgo_t)algorithm,
                                                   workspace, bytes, &beta, s->w, j->out);
        break;
    }
    return uw_cuda_dnn_done(e, status);
}

static int run_graph(const struct uw_exec *e, struct uw_conv2d_graph *g,
                     const struct uw_conv2d_job *j, uint64_t key, void *workspace)
{
    const struct uw_conv2d_engine *engine = g != NULL ? uw_conv2d_graph_find(g, key) : NULL;
    return engine == NULL ? UW_ERR_UNSUPPORTED
                          : uw_conv2d_graph_run(e, g, engine, j->a, j->b, j->out, workspace);
}

static int run_product(const struct uw_exec *e, struct uw_conv2d_shape *s,
                       const struct uw_conv2d_job *job, const struct uw_conv2d_choice *choice,
                       struct uw_conv2d_graph *graph, void *workspace)
{
    switch (choice->algorithm) {
    case UW_CONV2D_GEMM:
        return run_gemm(e, &s->conv, job);
    case UW_CONV2D_WINOGRAD:
        return uw_conv2d_winograd_run(e, &s->conv, job, workspace);
    case UW_CONV2D_GRAPH:
        return run_graph(e, graph, job, choice->engine, workspace);
    default:
        return run_dnn(e, s, job, choice->algorithm - UW_CONV2D_DNN, workspace,
                       choice->workspace_bytes);
    }
}

int uw_conv2d_run(const struct uw_exec *e, struct uw_conv2d_shape *s,
                  const struct uw_conv2d_job *job, const struct uw_conv2d_choice *choice,
                  struct uw_conv2d_graph *graph, void *workspace)
{
    const struct uw_conv2d *c = &s->conv;
    size_t pixels = (size_t)c->out_h * c->out_w;
    int rc = UW_OK;
    if (choice->algorithm == UW_CONV2D_OWN || choice->algorithm == UW_CONV2D_OWN_SPLIT) {
        return run_own(e, c, job, choice->algorithm == UW_CONV2D_OWN_SPLIT);
    }
    if (job->out != NULL) {
        rc = run_product(e, s, job, choice, graph, workspace);
    }
    if (rc == UW_OK && job->ceiling > 0.0f) {
        return uw_bias_relu_cuda(e, job->batch_n, c->out_channels, pixels, job->bias, job->ceiling,
                                 job->out);
    }
    if (rc == UW_OK && job->bias != NULL) {
        rc = uw_add_channels_cuda(e, job->batch_n, c->out_channels, pixels, job->bias, job->out);
    }
    if (rc == UW_OK && job->dbias != NULL) {
        rc = uw_sum_channels_cuda(e, job->batch_n, c->out_channels, pixels, job->b, job->scale,
                                  job->dbias);
    }
    return rc;
}

/* The aligned workspace within scratch; room: its size. */
static void *aligned(const struct uw_exec *e, size_t *room)
{
    size_t skip = (size_t)(-(uintptr_t)e->scratch & (UW_CONV2D_ALIGN - 1u));
    *room = e->scratch_bytes > skip ? e->scratch_bytes - skip : 0;
    return *room == 0 ? NULL : (unsigned char *)e->scratch + skip;
}

/* The first candidate that fits, without engines and without measuring. */
static struct uw_conv2d_choice first_of(struct uw_cuda *c, struct uw_conv2d_shape *s,
                                        const struct uw_conv2d_job *job, size_t room)
{
    struct uw_conv2d_choice all[UW_CONV2D_CANDIDATES_MAX];
    (void)uw_conv2d_candidates(c, s, job->batch_n, job->part, room, NULL, all);
    return all[0];
}

/* The plan's engine for this job; NULL: none. bw_input with accumulate has a separate engine, with
 * the same workspace. */
static struct uw_conv2d_graph *graph_for(struct uw_conv2d_plan *p, const struct uw_conv2d_job *job,
                                         struct uw_conv2d_choice *choice)
{
    bool adds = job->part == UW_CONV2D_BW_INPUT && job->accumulate;
    struct uw_conv2d_graph *g =
        &p->graphs[adds ? (uint32_t)UW_CONV2D_BW_INPUT_ADDS : (uint32_t)job->part];
    if (g->engines_n == 0 || g->accumulate != job->accumulate || job->scale != 1.0f ||
        !uw_conv2d_graph_aligned(job->a, job->b, job->out)) {
        return NULL;
    }
    choice->engine = g->engines[0].key;
    return g;
}

static int run(const struct uw_exec *e, const struct uw_conv2d *conv,
               const struct uw_conv2d_job *job)
{
    struct uw_cuda *c = uw_cuda_of(e);
    if (job->batch_n == 0) {
        return UW_OK;
    }
    if (conv->normed) {
        return UW_ERR_UNSUPPORTED;
    }
    struct uw_conv2d_shape *s = uw_conv2d_shape_of(c, conv);
    struct uw_conv2d_plan *p = uw_conv2d_plan_of(c, s, job->batch_n);
    struct uw_conv2d_choice choice = p->part[job->part];
    struct uw_conv2d_graph *graph = NULL;
    size_t room;
    void *workspace = aligned(e, &room);
    if (choice.workspace_bytes != 0 &&
        e->scratch_bytes < choice.workspace_bytes + UW_CONV2D_ALIGN - UW_ARENA_ALIGN) {
        if (p->settled) {
            return UW_ERR_NOMEM;
        }
        choice = first_of(c, s, job, room);
    }
    if (choice.algorithm == UW_CONV2D_GRAPH) {
        graph = graph_for(p, job, &choice);
        choice = graph != NULL ? choice : first_of(c, s, job, room);
    }
    int rc = uw_conv2d_run(e, s, job, &choice, graph,
                           choice.workspace_bytes == 0 ? NULL : workspace);
    if (rc != UW_ERR_UNSUPPORTED) {
        return rc;
    }
    (void)cudaGetLastError();           /* clear the error of the refused algorithm */
    return run_own(e, conv, job, false);
}

int uw_conv2d_fw_cuda(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                      const float *x, const float *w, const float *b, float *y, bool accumulate)
{
    const struct uw_conv2d_job job = {.part = UW_CONV2D_FW, .batch_n = batch_n, .a = x, .b = w,
                                      .out = y, .scale = 1.0f, .accumulate = accumulate,
                                      .bias = b};
    return run(e, c, &job);
}

int uw_conv2d_bias_relu_cuda(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                             const float *x, const float *w, const float *b, float ceiling,
                             float *y)
{
    const struct uw_conv2d_job job = {.part = UW_CONV2D_FW, .batch_n = batch_n, .a = x, .b = w,
                                      .out = y, .scale = 1.0f, .bias = b, .ceiling = ceiling};
    return run(e, c, &job);
}

int uw_conv2d_bw_input_cuda(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                            const float *dy, const float *w, float *dx, bool accumulate)
{
    const struct uw_conv2d_job job = {.part = UW_CONV2D_BW_INPUT, .batch_n = batch_n, .a = dy,
                                      .b = w, .out = dx, .scale = 1.0f, .accumulate = accumulate};
    return run(e, c, &job);
}

int uw_conv2d_bw_param_cuda(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                            const float *x, const float *dy, float scale, float *dw, float *db)
{
    const struct uw_conv2d_job job = {.part = UW_CONV2D_BW_PARAM, .batch_n = batch_n, .a = x,
                                      .b = dy, .out = dw, .scale = scale, .accumulate = true,
                                      .dbias = db};
    return run(e, c, &job);
}

bool uw_conv2d_takes_norm_cuda(const struct uw_kernels *k, const struct uw_conv2d *c,
                               uint32_t batch_n)
{
    (void)k;
    (void)c;
    (void)batch_n;
    return false;
}

size_t uw_conv2d_scratch_bytes_cuda(const struct uw_kernels *k, const struct uw_conv2d *c,
                                    uint32_t batch_n, uint32_t threads)
{
    const struct uw_exec e = {.kernels = k};
    (void)threads;
    bool known = batch_n == 0 || c->normed || uw_cuda_of(&e)->products == NULL;
    return known ? 0 : uw_conv2d_planned_bytes(uw_cuda_of(&e), c, batch_n);
}
