/* SPDX-License-Identifier: Apache-2.0
 *
 * Shapes, their descriptors, and the algorithms chosen for them. */
#include "conv2d_winograd.h"
#include "products.h"

#include "uwasa/arena.h"

#include <limits.h>
#include <string.h>

#define COUNT(a) (uint32_t)(sizeof(a) / sizeof *(a))

/* In the order in which they are tried: the best guess first, then by workspace; those after the
 * first `plain` ones use Winograd tiles. */
static const int32_t fw[] = {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
                             CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
                             CUDNN_CONVOLUTION_FWD_ALGO_GEMM, CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD};
static const int32_t bw_input[] = {CUDNN_CONVOLUTION_BWD_DATA_ALGO_1,
                                   CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD,
                                   CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED};
static const int32_t bw_param[] = {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1,
                                   CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED};
static const struct {
    const int32_t *at;
    uint32_t n, plain;
} algorithms[UW_CONV2D_PARTS] = {
    {fw, COUNT(fw), 3}, {bw_input, COUNT(bw_input), 1}, {bw_param, COUNT(bw_param), 1}};

static void key_of(const struct uw_conv2d *c, uint32_t key[UW_CUDA_CHOICES_SHAPE])
{
    const uint32_t k[UW_CUDA_CHOICES_SHAPE] = {
        c->in_channels, c->in_h, c->in_w, c->out_channels, c->out_h, c->out_w, c->kernel_h,
        c->kernel_w, c->stride_h, c->stride_w, c->pad_h, c->pad_w, c->dilation_h, c->dilation_w,
        c->groups};
    memcpy(key, k, sizeof k);
}

/* cuDNN derives the output's size itself, in int. */
static bool fits_axis(uint32_t in, uint32_t out, uint32_t kernel, uint32_t stride, uint32_t pad,
                      uint32_t dilation)
{
    uint64_t padded = (uint64_t)in + 2u * (uint64_t)pad;
    uint64_t window = (uint64_t)(kernel - 1u) * dilation + 1u;
    return padded <= INT_MAX && window <= padded && (padded - window) / stride + 1u == out;
}

static bool fits_dnn(const struct uw_conv2d *c)
{
    uint64_t weights = (uint64_t)c->out_channels * c->in_channels / c->groups;
    uint64_t most = INT_MAX / ((uint64_t)c->kernel_h * c->kernel_w);
    return weights <= most && c->in_channels <= INT_MAX && c->out_channels <= INT_MAX &&
           fits_axis(c->in_h, c->out_h, c->kernel_h, c->stride_h, c->pad_h, c->dilation_h) &&
           fits_axis(c->in_w, c->out_w, c->kernel_w, c->stride_w, c->pad_w, c->dilation_w);
}

static void close_graphs(const struct uw_cuda_libraries *l, struct uw_conv2d_plan *p)
{
    for (uint32_t i = 0; i < UW_CONV2D_GRAPHS; i++) {
        uw_conv2d_graph_close(l, &p->graphs[i]);
    }
}

static void close_shape(const struct uw_cuda_libraries *l, struct uw_conv2d_shape *s)
{
    for (uint32_t i = 0; i < s->plans_n; i++) {
        close_graphs(l, &s->plans[i]);
    }
    if (s->how != NULL) {
        (void)l->cudnnDestroyConvolutionDescriptor(s->how);
    }
    if (s->w != NULL) {
        (void)l->cudnnDestroyFilterDescriptor(s->w);
    }
    if (s->y != NULL) {
        (void)l->cudnnDestroyTensorDescriptor(s->y);
    }
    if (s->x != NULL) {
        (void)l->cudnnDestroyTensorDescriptor(s->x);
    }
}

void uw_conv2d_shapes_close(const struct uw_cuda_libraries *l, struct uw_conv2d_shapes *all)
{
    for (uint32_t i = 0; i < all->n; i++) {
        close_shape(l, &all->at[i]);
    }
    all->n = 0;
}

static bool describe(const struct uw_cuda *c, struct uw_conv2d_shape *s)
{
    const struct uw_cuda_libraries *l = &c->products->libraries;
    const struct uw_conv2d *v = &s->conv;
    const cudnnMathType_t math = c->config.tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
    const cudnnStatus_t good = CUDNN_STATUS_SUCCESS;
    return l->cudnnCreateTensorDescriptor(&s->x) == good &&
           l->cudnnCreateTensorDescriptor(&s->y) == good &&
           l->cudnnCreateFilterDescriptor(&s->w) == good &&
           l->cudnnCreateConvolutionDescriptor(&s->how) == good &&
           l->cudnnSetFilter4dDescriptor(s->w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW,
                                         (int)v->out_channels, (int)(v->in_channels / v->groups),
                                         (int)v->kernel_h, (int)v->kernel_w) == good &&
           l->cudnnSetConvolution2dDescriptor(s->how, (int)v->pad_h, (int)v->pad_w,
                                              (int)v->stride_h, (int)v->stride_w,
                                              (int)v->dilation_h, (int)v->dilation_w,
                                              CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT) == good &&
           l->cudnnSetConvolutionGroupCount(s->how, (int)v->groups) == good &&
           l->cudnnSetConvolutionMathType(s->how, math) == good;
}

struct uw_conv2d_shape *uw_conv2d_shape_of(struct uw_cuda *c, const struct uw_conv2d *conv)
{
    struct uw_conv2d_shapes *all = &c->products->shapes;
    uint32_t key[UW_CUDA_CHOICES_SHAPE];
    key_of(conv, key);
    for (uint32_t i = 0; i < all->n; i++) {
        if (memcmp(all->at[i].key, key, sizeof key) == 0) {
            return &all->at[i];
        }
    }
    struct uw_conv2d_shape *s;
    if (all->n < UW_CONV2D_SHAPES_MAX) {
        s = &all->at[all->n++];
    } else {
        s = &all->at[all->next];
        all->next = (all->next + 1) % UW_CONV2D_SHAPES_MAX;
        close_shape(&c->products->libraries, s);
    }
    *s = (struct uw_conv2d_shape){.conv = *conv};
    memcpy(s->key, key, sizeof key);
    s->dnn = fits_dnn(conv) && describe(c, s);
    return s;
}

bool uw_conv2d_set_batch(const struct uw_cuda *c, struct uw_conv2d_shape *s, uint32_t batch_n)
{
    const struct uw_cuda_libraries *l = &c->products->libraries;
    const struct uw_conv2d *v = &s->conv;
    if (s->batch_n == batch_n) {
        return true;
    }
    uint64_t in = (uint64_t)v->in_h * v->in_w, out = (uint64_t)v->out_h * v->out_w;
    if (in > INT_MAX / v->in_channels || in * v->in_channels > INT_MAX / batch_n ||
        out > INT_MAX / v->out_channels || out * v->out_channels > INT_MAX / batch_n) {
        return false;
    }
    s->batch_n = 0;
    if (l->cudnnSetTensor4dDescriptor(s->x, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, (int)batch_n,
                                      (int)v->in_channels, (int)v->in_h, (int)v->in_w) !=
            CUDNN_STATUS_SUCCESS ||
        l->cudnnSetTensor4dDescriptor(s->y, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, (int)batch_n,
                                      (int)v->out_channels, (int)v->out_h, (int)v->out_w) !=
            CUDNN_STATUS_SUCCESS) {
        return false;
    }
    s->batch_n = batch_n;
    return true;
}

static bool dnn_takes(const struct uw_cuda *c, struct uw_conv2d_shape *s, uint32_t batch_n,
                      enum uw_conv2d_part part, int32_t algorithm, size_t *bytes)
{
    const struct uw_cuda_libraries *l = &c->products->libraries;
    cudnnHandle_t h = c->products->cudnn;
    cudnnStatus_t status = CUDNN_STATUS_NOT_SUPPORTED;
    bool known = false;
    for (uint32_t i = 0; i < algorithms[part].n; i++) {
        known = known || algorithms[part].at[i] == algorithm;
    }
    if (!s->dnn || !known || !uw_conv2d_set_batch(c, s, batch_n)) {
        return false;
    }
    *bytes = 0;
    switch (part) {
    case UW_CONV2D_FW:
        status = l->cudnnGetConvolutionForwardWorkspaceSize(
            h, s->x, s->w, s->how, s->y, (cudnnConvolutionFwdAlgo_t)algorithm, bytes);
        break;
    case UW_CONV2D_BW_INPUT:
        status = l->cudnnGetConvolutionBackwardDataWorkspaceSize(
            h, s->w, s->y, s->how, s->x, (cudnnConvolutionBwdDataAlgo_t)algorithm, bytes);
        break;
    case UW_CONV2D_BW_PARAM:
        status = l->cudnnGetConvolutionBackwardFilterWorkspaceSize(
            h, s->x, s->y, s->how, s->w, (cudnnConvolutionBwdFilterAlgo_t)algorithm, bytes);
        break;
    }
    return status == CUDNN_STATUS_SUCCESS;
}

/* A 1 x 1 convolution is one product per image; for the weight gradient these are separate calls,
 * which pays off only for few images. */
#define GEMM_IMAGES_MAX 8u

static bool gemm_takes(const struct uw_conv2d *c, uint32_t batch_n, enum uw_conv2d_part part)
{
    uint64_t pixels = (uint64_t)c->in_h * c->in_w;
    return c->kernel_h == 1 && c->kernel_w == 1 && c->stride_h == 1 && c->stride_w == 1 &&
           c->pad_h == 0 && c->pad_w == 0 && c->groups == 1 && pixels <= INT_MAX &&
           c->in_channels <= INT_MAX && c->out_channels <= INT_MAX && batch_n <= INT_MAX &&
           c->out_h == c->in_h && c->out_w == c->in_w &&
           (part != UW_CONV2D_BW_PARAM || batch_n <= GEMM_IMAGES_MAX);
}

static bool splits(struct uw_cuda *c, const struct uw_conv2d_shape *s, uint32_t batch_n,
                   enum uw_conv2d_part part)
{
    const struct uw_exec e = {.kernels = &c->kernels};
    return uw_conv2d_own_splits(&e, &s->conv, batch_n, part);
}

bool uw_conv2d_takes(struct uw_cuda *c, struct uw_conv2d_shape *s, uint32_t batch_n,
                     enum uw_conv2d_part part, int32_t algorithm, size_t *workspace_bytes)
{
    *workspace_bytes = 0;
    switch (algorithm) {
    case UW_CONV2D_OWN:
        return true;
    case UW_CONV2D_OWN_SPLIT:
        return splits(c, s, batch_n, part);
    case UW_CONV2D_GEMM:
        return gemm_takes(&s->conv, batch_n, part);
    case UW_CONV2D_WINOGRAD:
        return uw_conv2d_winograd_takes(c, &s->conv, batch_n, part, workspace_bytes);
    default:
        return dnn_takes(c, s, batch_n, part, algorithm - UW_CONV2D_DNN, workspace_bytes);
    }
}

static uint32_t engines_of(const struct uw_conv2d_graph *g, struct uw_conv2d_choice *out)
{
    for (uint32_t i = 0; i < g->engines_n; i++) {
        const struct uw_conv2d_engine *engine = &g->engines[i];
        out[i] = (struct uw_conv2d_choice){UW_CONV2D_GRAPH, engine->workspace_bytes, engine->key};
    }
    return g->engines_n;
}

uint32_t uw_conv2d_candidates(struct uw_cuda *c, struct uw_conv2d_shape *s, uint32_t batch_n,
                              enum uw_conv2d_part part, size_t limit,
                              const struct uw_conv2d_graph *graph,
                              struct uw_conv2d_choice out[UW_CONV2D_CANDIDATES_MAX])
{
    uint32_t n = 0;
    size_t bytes;
    bool tiles = uw_conv2d_winograd_worth(&s->conv, part);
    if (uw_conv2d_own_takes(&s->conv, batch_n, part)) {
        out[n++] = (struct uw_conv2d_choice){.algorithm = UW_CONV2D_OWN};
    }
    if (splits(c, s, batch_n, part)) {
        out[n++] = (struct uw_conv2d_choice){.algorithm = UW_CONV2D_OWN_SPLIT};
    }
    for (uint32_t i = 0; i < (tiles ? algorithms[part].n : algorithms[part].plain); i++) {
        int32_t a = UW_CONV2D_DNN + algorithms[part].at[i];
        if (uw_conv2d_takes(c, s, batch_n, part, a, &bytes) && bytes <= limit) {
            out[n++] = (struct uw_conv2d_choice){.algorithm = a, .workspace_bytes = bytes};
        }
    }
    if (gemm_takes(&s->conv, batch_n, part)) {
        out[n++] = (struct uw_conv2d_choice){.algorithm = UW_CONV2D_GEMM};
    }
    if (tiles && uw_conv2d_takes(c, s, batch_n, part, UW_CONV2D_WINOGRAD, &bytes) &&
        bytes <= limit) {
        out[n++] = (struct uw_conv2d_choice){UW_CONV2D_WINOGRAD, bytes, 0};
    }
    n += graph != NULL ? engines_of(graph, &out[n]) : 0;
    if (n == 0) {
        out[n++] = (struct uw_conv2d_choice){.algorithm = UW_CONV2D_OWN};
    }
    return n;
}

/* Choose without measuring: as for another minibatch size, else the first candidate. */
static struct uw_conv2d_choice guess(struct uw_cuda *c, struct uw_conv2d_shape *s,
                                     uint32_t batch_n, enum uw_conv2d_part part, size_t room)
{
    struct uw_conv2d_choice all[UW_CONV2D_CANDIDATES_MAX];
    const struct uw_conv2d_plan *nearest = NULL;
    size_t bytes;
    for (uint32_t i = 0; i < s->plans_n; i++) {
        const struct uw_conv2d_plan *p = &s->plans[i];
        if (p->settled && p->batch_n > batch_n &&
            (nearest == NULL || p->batch_n < nearest->batch_n)) {
            nearest = p;
        }
    }
    if (nearest != NULL) {
        int32_t a = nearest->part[part].algorithm;
        if (uw_conv2d_takes(c, s, batch_n, part, a, &bytes) && bytes <= room) {
            return (struct uw_conv2d_choice){.algorithm = a, .workspace_bytes = bytes};
        }
    }
    (void)uw_conv2d_candidates(c, s, batch_n, part, room, NULL, all);
    return all[0];
}

static struct uw_conv2d_plan *find_plan(struct uw_conv2d_shape *s, uint32_t batch_n)
{
    for (uint32_t i = 0; i < s->plans_n; i++) {
        if (s->plans[i].batch_n == batch_n) {
            return &s->plans[i];
        }
    }
    return NULL;
}

/* Add a plan; if there is no room, replaces one, a settled plan only if all are settled. */
static struct uw_conv2d_plan *add_plan(struct uw_cuda *c, struct uw_conv2d_shape *s,
                                       uint32_t batch_n)
{
    struct uw_conv2d_plan *p = NULL;
    if (s->plans_n < UW_CONV2D_PLANS_MAX) {
        p = &s->plans[s->plans_n++];
    }
    for (uint32_t i = 0; i < UW_CONV2D_PLANS_MAX && p == NULL; i++) {
        p = s->plans[i].settled ? NULL : &s->plans[i];
    }
    if (p == NULL) {
        p = &s->plans[s->plans_next];
        s->plans_next = (s->plans_next + 1) % UW_CONV2D_PLANS_MAX;
        close_graphs(&c->products->libraries, p);
    }
    *p = (struct uw_conv2d_plan){.batch_n = batch_n};
    return p;
}

/* Largest scratch of the settled plans: the room for a minibatch that was not planned. */
static size_t settled_bytes(const struct uw_conv2d_shape *s)
{
    size_t most = 0;
    for (uint32_t i = 0; i < s->plans_n; i++) {
        for (uint32_t part = 0; part < UW_CONV2D_PARTS && s->plans[i].settled; part++) {
            size_t bytes = s->plans[i].part[part].workspace_bytes;
            most = bytes > most ? bytes : most;
        }
    }
    return most;
}

struct uw_conv2d_plan *uw_conv2d_plan_of(struct uw_cuda *c, struct uw_conv2d_shape *s,
                                         uint32_t batch_n)
{
    struct uw_conv2d_plan *p = find_plan(s, batch_n);
    if (p == NULL) {
        struct uw_conv2d_plan made = {.batch_n = batch_n};
        size_t room = settled_bytes(s);
        for (uint32_t i = 0; i < UW_CONV2D_PARTS; i++) {
            made.part[i] = guess(c, s, batch_n, (enum uw_conv2d_part)i, room);
        }
        p = add_plan(c, s, batch_n);
        *p = made;
    }
    return p;
}

/* Open the engines of a plan's part; wanted: the key of a single engine, 0: all. */
static bool open_graph(struct uw_cuda *c, const struct uw_conv2d_shape *s, struct uw_conv2d_plan *p,
                       uint32_t which, uint64_t wanted)
{
    const bool adds = which == UW_CONV2D_BW_INPUT_ADDS;
    const enum uw_conv2d_part part = adds ? UW_CONV2D_BW_INPUT : (enum uw_conv2d_part)which;
    if (!s->dnn || c->in_step) {
        return false;
    }
    return uw_conv2d_graph_open(c, &s->conv, p->batch_n, part, adds || part == UW_CONV2D_BW_PARAM,
                                c->products->conv2d_limit, wanted, &p->graphs[which]);
}

/* Use the engine of a key from the file. Returns as uw_conv2d_measure; UW_ERR_IO also if the engine
 * does not exist. */
static int settle_known_engine(struct uw_cuda *c, struct uw_conv2d_shape *s,
                               struct uw_conv2d_plan *p, enum uw_conv2d_part part, uint64_t key)
{
    struct uw_conv2d_graph *g = &p->graphs[part];
    double us;
    if (key == 0 || !open_graph(c, s, p, part, key)) {
        return UW_ERR_IO;
    }
    (void)engines_of(g, &p->part[part]);
    int rc = uw_conv2d_measure(c, s, p->batch_n, part, g, &p->part[part], 1, &p->part[part], &us);
    if (rc < 0) {
        uw_conv2d_graph_close(&c->products->libraries, g);
    }
    return rc;
}

/* Use the file's choice. Returns UW_OK, UW_ERR_NOTFOUND (none), UW_ERR_AGAIN (no memory to try it
 * now) or UW_ERR_IO (it does not exist, fit, or run). */
static int settle_as_known(struct uw_cuda *c, struct uw_conv2d_shape *s, struct uw_conv2d_plan *p,
                           enum uw_conv2d_part part)
{
    const struct uw_cuda_choice *known =
        uw_cuda_choices_find(&c->products->choices, (uint32_t)part, p->batch_n, s->key);
    struct uw_conv2d_choice *out = &p->part[part];
    double us;
    if (known == NULL) {
        return UW_ERR_NOTFOUND;
    }
    if (known->algorithm == UW_CONV2D_GRAPH) {
        return settle_known_engine(c, s, p, part, known->engine);
    }
    *out = (struct uw_conv2d_choice){.algorithm = known->algorithm};
    if (!uw_conv2d_takes(c, s, p->batch_n, part, known->algorithm, &out->workspace_bytes) ||
        out->workspace_bytes > c->products->conv2d_limit) {
        return UW_ERR_IO;
    }
    int rc = uw_conv2d_measure(c, s, p->batch_n, part, NULL, out, 1, out, &us);
    return rc == UW_ERR_AGAIN ? UW_OK : rc;
}

/* If an engine computes bw_input: choose an engine that accumulates, the same one if it can. */
static void settle_adding(struct uw_cuda *c, struct uw_conv2d_shape *s, struct uw_conv2d_plan *p)
{
    struct uw_conv2d_choice all[UW_CONV2D_ENGINES_MAX], best = {.engine = 0};
    struct uw_conv2d_choice *choice = &p->part[UW_CONV2D_BW_INPUT];
    struct uw_conv2d_graph *g = &p->graphs[UW_CONV2D_BW_INPUT_ADDS];
    const uint64_t wanted[2] = {choice->engine, 0};
    double us;
    for (uint32_t i = 0; i < 2 && g->engines_n == 0; i++) {
        if (open_graph(c, s, p, UW_CONV2D_BW_INPUT_ADDS, wanted[i])) {
            uint32_t n = engines_of(g, all);
            (void)uw_conv2d_measure(c, s, p->batch_n, UW_CONV2D_BW_INPUT, g, all, n, &best, &us);
            uw_conv2d_graph_keep(&c->products->libraries, g, best.engine);
        }
    }
    if (best.workspace_bytes > choice->workspace_bytes) {
        choice->workspace_bytes = best.workspace_bytes;
    }
}

/* Measure all candidates; without enough memory, only those that need no workspace. Returns as
 * uw_conv2d_measure. */
static int settle_by_measure(struct uw_cuda *c, struct uw_conv2d_shape *s,
                             struct uw_conv2d_plan *p, enum uw_conv2d_part part, double *us)
{
    struct uw_conv2d_choice all[UW_CONV2D_CANDIDATES_MAX];
    struct uw_conv2d_graph *g = open_graph(c, s, p, part, 0) ? &p->graphs[part] : NULL;
    size_t limit = c->products->conv2d_limit;
    uint32_t n = uw_conv2d_candidates(c, s, p->batch_n, part, limit, g, all), bare = 0;
    p->part[part] = all[0];
    int rc = uw_conv2d_measure(c, s, p->batch_n, part, g, all, n, &p->part[part], us);
    for (uint32_t i = 0; i < n && rc == UW_ERR_AGAIN; i++) {
        if (all[i].workspace_bytes == 0) {
            all[bare++] = all[i];
        }
    }
    if (bare > 0) {
        rc = uw_conv2d_measure(c, s, p->batch_n, part, g, all, bare, &p->part[part], us);
    }
    uw_conv2d_graph_keep(&c->products->libraries, &p->graphs[part], p->part[part].engine);
    return rc;
}

/* Choose for one part of a new plan. Returns whether the file must be written. */
static bool settle(struct uw_cuda *c, struct uw_conv2d_shape *s, struct uw_conv2d_plan *p,
                   enum uw_conv2d_part part)
{
    struct uw_conv2d_choice *choice = &p->part[part];
    double us = 0.0;
    int known = settle_as_known(c, s, p, part);
    int rc = known == UW_OK ? UW_OK : settle_by_measure(c, s, p, part, &us);
    if (rc == UW_ERR_IO) {
        *choice = (struct uw_conv2d_choice){.algorithm = UW_CONV2D_OWN};
    }
    bool stays = known == UW_OK || known == UW_ERR_AGAIN; /* AGAIN: later there may be memory */
    if (stays || (rc < 0 && (known != UW_ERR_IO || uw_cuda_failure(c) != NULL))) {
        return false;
    }
    struct uw_cuda_choice found = {
        .part = (uint32_t)part, .batch_n = p->batch_n, .engine = choice->engine, .us = us,
        .algorithm = rc < 0 ? UW_CUDA_CHOICE_GONE : choice->algorithm};
    memcpy(found.shape, s->key, sizeof found.shape);
    uw_cuda_choices_put(&c->products->choices, &found);
    return true;
}

size_t uw_conv2d_planned_bytes(struct uw_cuda *c, const struct uw_conv2d *conv, uint32_t batch_n)
{
    struct uw_conv2d_shape *s = uw_conv2d_shape_of(c, conv);
    bool covered = false, news = false;
    for (uint32_t i = 0; i < s->plans_n; i++) {
        covered = covered || (s->plans[i].settled && s->plans[i].batch_n >= batch_n);
    }
    if (!covered) {
        struct uw_conv2d_plan *p = find_plan(s, batch_n);
        p = p != NULL ? p : add_plan(c, s, batch_n);
        for (uint32_t i = 0; i < UW_CONV2D_PARTS; i++) {
            news = settle(c, s, p, (enum uw_conv2d_part)i) || news;
        }
        if (p->part[UW_CONV2D_BW_INPUT].algorithm == UW_CONV2D_GRAPH) {
            settle_adding(c, s, p);
        }
        p->settled = true;
    }
    if (news) {
        (void)uw_cuda_choices_save(&c->products->choices); /* a failure: measured again */
    }
    size_t bytes = settled_bytes(s);
    return bytes == 0 ? 0 : bytes + UW_CONV2D_ALIGN - UW_ARENA_ALIGN;
}
