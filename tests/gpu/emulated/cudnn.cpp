/* SPDX-License-Identifier: Apache-2.0
 *
 * A stand-in of cuDNN: the functions that kernels/cuda/libraries.h names. An algorithm differs from
 * another in the shapes that it takes, in its workspace, and in whether it gives the same bits
 * twice. */
#include "convolution.h"
#include "runtime.h"

#include <cudnn.h>

struct cudnnContext {
    cudaStream_t stream = nullptr;
};

struct cudnnTensorStruct {
    struct tensor t = {};
};

struct cudnnFilterStruct {
    struct tensor t = {};
};

struct cudnnConvolutionStruct {
    struct convolution c = {};
    cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

size_t cudnnGetVersion(void)
{
    return CUDNN_VERSION;
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_SUCCESS         ? "CUDNN_STATUS_SUCCESS"
           : status == CUDNN_STATUS_NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED"
           : status == CUDNN_STATUS_BAD_PARAM     ? "CUDNN_STATUS_BAD_PARAM"
                                                  : "CUDNN_STATUS_EXECUTION_FAILED";
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    guard hold(gpu_now().lock);
    if (gpu_state() != cudaSuccess) {
        return CUDNN_STATUS_NOT_INITIALIZED;
    }
    *handle = new struct cudnnContext;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    delete handle;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t *stream)
{
    *stream = handle->stream;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *d)
{
    *d = new struct cudnnTensorStruct;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t d)
{
    delete d;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t *d)
{
    *d = new struct cudnnFilterStruct;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t d)
{
    delete d;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t *d)
{
    *d = new struct cudnnConvolutionStruct;
    (*d)->c.groups = 1;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t d)
{
    delete d;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t set(struct tensor *t, cudnnTensorFormat_t format, cudnnDataType_t type, int n,
                         int c, int h, int w)
{
    if (n < 1 || c < 1 || h < 1 || w < 1) {
        return CUDNN_STATUS_BAD_PARAM;
    }
    if (type != CUDNN_DATA_FLOAT || (format != CUDNN_TENSOR_NCHW && format != CUDNN_TENSOR_NHWC)) {
        return CUDNN_STATUS_NOT_SUPPORTED;
    }
    *t = {size_t(n), size_t(c), size_t(h), size_t(w), 0, 0, 0, 0};
    if ((t->c * t->h * t->w) * t->n > 0x7fffffffu) {
        return CUDNN_STATUS_NOT_SUPPORTED; /* of a descriptor with 32-bit strides */
    }
    t->stride_n = t->c * t->h * t->w;
    bool last = format == CUDNN_TENSOR_NHWC;
    t->stride_c = last ? 1 : t->h * t->w;
    t->stride_h = last ? t->c * t->w : t->w;
    t->stride_w = last ? t->c : 1;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t d, cudnnTensorFormat_t format,
                                         cudnnDataType_t type, int n, int c, int h, int w)
{
    return set(&d->t, format, type, n, c, h, w);
}

cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t d, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w)
{
    return set(&d->t, format, type, k, c, h, w);
}

cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t d, int pad_h, int pad_w,
                                              int stride_h, int stride_w, int dilation_h,
                                              int dilation_w, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t type)
{
    if (pad_h < 0 || pad_w < 0 || stride_h < 1 || stride_w < 1 || dilation_h < 1 ||
        dilation_w < 1) {
        return CUDNN_STATUS_BAD_PARAM;
    }
    struct convolution &c = d->c;
    c.pad_h = size_t(pad_h);
    c.pad_w = size_t(pad_w);
    c.stride_h = size_t(stride_h);
    c.stride_w = size_t(stride_w);
    c.dilation_h = size_t(dilation_h);
    c.dilation_w = size_t(dilation_w);
    c.flip = mode == CUDNN_CONVOLUTION;
    return type == CUDNN_DATA_FLOAT ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
}

cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t d, int groups)
{
    d->c.groups = size_t(groups);
    return groups > 0 ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t d, cudnnMathType_t math)
{
    d->math = math;
    return CUDNN_STATUS_SUCCESS;
}

static size_t out_size(size_t in, size_t pad, size_t kernel, size_t dilation, size_t stride)
{
    size_t span = (kernel - 1u) * dilation + 1u;
    return in + 2u * pad < span ? 0 : (in + 2u * pad - span) / stride + 1u;
}

/* All four descriptors as one; products may be of TF32 unless the math type forbids it. */
static cudnnStatus_t join(const struct tensor &x, const struct tensor &filter,
                          const cudnnConvolutionDescriptor_t d, const struct tensor &y,
                          struct convolution *c)
{
    *c = d->c;
    c->x = x;
    c->filter = filter;
    c->y = y;
    c->tf32 = d->math != CUDNN_FMA_MATH;
    bool fits = x.n == y.n && x.c == filter.c * c->groups && y.c == filter.n &&
                filter.n % c->groups == 0 &&
                y.h == out_size(x.h, c->pad_h, filter.h, c->dilation_h, c->stride_h) &&
                y.w == out_size(x.w, c->pad_w, filter.w, c->dilation_w, c->stride_w);
    return fits ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

enum kind { PLAIN, PRECOMPUTED, WRITTEN_OUT, WINOGRAD, SPLIT_WINOGRAD, FOURIER, MISSING };

/* Bytes of its workspace, or that it does not take these shapes. */
static cudnnStatus_t need(const struct convolution &c, enum kind kind, size_t *bytes)
{
    bool plain = c.stride_h == 1 && c.stride_w == 1 && c.dilation_h == 1 && c.dilation_w == 1;
    bool small = plain && c.filter.h == c.filter.w && c.groups == 1;
    size_t outputs = c.y.n * c.y.h * c.y.w, taps = c.filter.c * c.filter.h * c.filter.w;
    bool takes = kind == PLAIN || kind == PRECOMPUTED ||
                 (kind == WRITTEN_OUT && c.dilation_h == 1 && c.dilation_w == 1) ||
                 (kind == WINOGRAD && small && c.filter.h == 3) ||
                 (kind == SPLIT_WINOGRAD && small && (c.filter.h == 3 || c.filter.h == 5)) ||
                 (kind == FOURIER && small && c.filter.h > 2 && c.pad_h < c.filter.h &&
                  c.pad_w < c.filter.w);
    *bytes = kind == PLAIN         ? 0
             : kind == PRECOMPUTED ? 4u * taps + 20u
             : kind == WRITTEN_OUT ? 4u * outputs * taps
             : kind == WINOGRAD    ? 64u * c.filter.n * c.filter.c
                                   : 64u * (c.filter.n * c.filter.c + c.x.n * c.x.c);
    return takes ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
}

static const enum kind forward_kinds[CUDNN_CONVOLUTION_FWD_ALGO_COUNT] = {
    PLAIN, PRECOMPUTED, WRITTEN_OUT, MISSING, FOURIER, FOURIER, WINOGRAD, SPLIT_WINOGRAD};
static const enum kind data_kinds[CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT] = {
    PLAIN, PRECOMPUTED, FOURIER, FOURIER, WINOGRAD, SPLIT_WINOGRAD};
static const enum kind filter_kinds[CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT] = {
    PLAIN, PRECOMPUTED, FOURIER, WRITTEN_OUT, MISSING, SPLIT_WINOGRAD, FOURIER};

static cudnnStatus_t size_of(const struct tensor &x, const struct tensor &filter,
                             const cudnnConvolutionDescriptor_t d, const struct tensor &y,
                             enum kind kind, size_t *bytes)
{
    struct convolution c;
    cudnnStatus_t rc = join(x, filter, d, y, &c);
    return rc == CUDNN_STATUS_SUCCESS ? need(c, kind, bytes) : rc;
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(
    cudnnHandle_t, const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t w,
    const cudnnConvolutionDescriptor_t d, const cudnnTensorDescriptor_t y,
    cudnnConvolutionFwdAlgo_t algo, size_t *bytes)
{
    return size_of(x->t, w->t, d, y->t, forward_kinds[algo], bytes);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t d, const cudnnTensorDescriptor_t dx,
    cudnnConvolutionBwdDataAlgo_t algo, size_t *bytes)
{
    return size_of(dx->t, w->t, d, dy->t, data_kinds[algo], bytes);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t d, const cudnnFilterDescriptor_t dw,
    cudnnConvolutionBwdFilterAlgo_t algo, size_t *bytes)
{
    return size_of(x->t, dw->t, d, dy->t, filter_kinds[algo], bytes);
}

/* Everything that a call gives, checked. */
static cudnnStatus_t prepare(const struct tensor &x, const struct tensor &filter,
                             const cudnnConvolutionDescriptor_t d, const struct tensor &y,
                             enum kind kind, const void *alpha, const void *beta, void *workspace,
                             size_t bytes, struct convolution *c)
{
    size_t needed = 0;
    cudnnStatus_t rc = join(x, filter, d, y, c);
    rc = rc == CUDNN_STATUS_SUCCESS ? need(*c, kind, &needed) : rc;
    if (rc != CUDNN_STATUS_SUCCESS) {
        return rc;
    }
    c->alpha = *static_cast<const float *>(alpha);
    c->beta = *static_cast<const float *>(beta);
    c->workspace = workspace;
    c->workspace_bytes = needed;
    return needed > bytes || (needed > 0 && workspace == nullptr) ? CUDNN_STATUS_BAD_PARAM
                                                                  : CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t put(cudnnHandle_t handle, const char *what, std::function<void()> run)
{
    return stream_put(handle->stream, what, run) == cudaSuccess ? CUDNN_STATUS_SUCCESS
                                                                : CUDNN_STATUS_EXECUTION_FAILED;
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void *alpha,
                                      const cudnnTensorDescriptor_t xd, const void *x,
                                      const cudnnFilterDescriptor_t wd, const void *w,
                                      const cudnnConvolutionDescriptor_t d,
                                      cudnnConvolutionFwdAlgo_t algo, void *workspace, size_t bytes,
                                      const void *beta, const cudnnTensorDescriptor_t yd, void *y)
{
    struct convolution c;
    cudnnStatus_t rc = prepare(xd->t, wd->t, d, yd->t, forward_kinds[algo], alpha, beta, workspace,
                               bytes, &c);
    c.way = convolution_way(c, size_t(algo), x, w, y);
    return rc != CUDNN_STATUS_SUCCESS ? rc : put(handle, "forward", [=]() {
        convolve_forward(c, static_cast<const float *>(x), static_cast<const float *>(w),
                         static_cast<float *>(y));
    });
}

cudnnStatus_t cudnnConvolutionBackwardData(
    cudnnHandle_t handle, const void *alpha, const cudnnFilterDescriptor_t wd, const void *w,
    const cudnnTensorDescriptor_t dyd, const void *dy, const cudnnConvolutionDescriptor_t d,
    cudnnConvolutionBwdDataAlgo_t algo, void *workspace, size_t bytes, const void *beta,
    const cudnnTensorDescriptor_t dxd, void *dx)
{
    struct convolution c;
    cudnnStatus_t rc = prepare(dxd->t, wd->t, d, dyd->t, data_kinds[algo], alpha, beta, workspace,
                               bytes, &c);
    c.by_chance = algo == CUDNN_CONVOLUTION_BWD_DATA_ALGO_0;
    c.way = convolution_way(c, 100u + size_t(algo), dx, w, dy);
    return rc != CUDNN_STATUS_SUCCESS ? rc : put(handle, "backward data", [=]() {
        convolve_data(c, static_cast<const float *>(w), static_cast<const float *>(dy),
                      static_cast<float *>(dx));
    });
}

cudnnStatus_t cudnnConvolutionBackwardFilter(
    cudnnHandle_t handle, const void *alpha, const cudnnTensorDescriptor_t xd, const void *x,
    const cudnnTensorDescriptor_t dyd, const void *dy, const cudnnConvolutionDescriptor_t d,
    cudnnConvolutionBwdFilterAlgo_t algo, void *workspace, size_t bytes, const void *beta,
    const cudnnFilterDescriptor_t dwd, void *dw)
{
    struct convolution c;
    cudnnStatus_t rc = prepare(xd->t, dwd->t, d, dyd->t, filter_kinds[algo], alpha, beta, workspace,
                               bytes, &c);
    c.by_chance = algo == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0 ||
                  algo == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3;
    c.way = convolution_way(c, 200u + size_t(algo), x, dw, dy);
    return rc != CUDNN_STATUS_SUCCESS ? rc : put(handle, "backward filter", [=]() {
        convolve_filter(c, static_cast<const float *>(x), static_cast<const float *>(dy),
                        static_cast<float *>(dw));
    });
}
