/* SPDX-License-Identifier: Apache-2.0
 *
 * A stand-in of cuBLAS: the functions that kernels/cuda/libraries.h names. */
#include "products.h"

#include <cublas_v2.h>

#define OWN_BYTES (size_t(4) << 20)     /* what it works in until it is given something */

struct cublasContext {
    cudaStream_t stream = nullptr;
    void *own = nullptr, *workspace = nullptr;
    size_t workspace_bytes = 0;
    cublasMath_t math = CUBLAS_DEFAULT_MATH;
};

struct product {
    bool transpose_a, transpose_b, tf32;
    size_t m, n, k, lda, ldb, ldc;
    float alpha, beta;
    const float *a, *b;
    float *c;
    void *workspace;
    size_t workspace_bytes;
    unsigned way;                       /* of rounding, see products.h */
};

cublasStatus_t cublasGetVersion_v2(cublasHandle_t, int *version)
{
    *version = CUBLAS_VERSION;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle)
{
    guard hold(gpu_now().lock);
    if (gpu_state() != cudaSuccess) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    void *own = nullptr;
    if (cudaMalloc(&own, OWN_BYTES) != cudaSuccess) {
        return CUBLAS_STATUS_ALLOC_FAILED;
    }
    *handle = new struct cublasContext;
    (*handle)->own = (*handle)->workspace = own;
    (*handle)->workspace_bytes = OWN_BYTES;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle)
{
    if (handle == nullptr) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    (void)cudaFree(handle->own);
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

/* The workspace that was given is forgotten, as the real one does. */
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream)
{
    handle->stream = stream;
    handle->workspace = handle->own;
    handle->workspace_bytes = OWN_BYTES;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t bytes)
{
    if (reinterpret_cast<uintptr_t>(workspace) % 256u != 0) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    handle->workspace = workspace;
    handle->workspace_bytes = bytes;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode)
{
    handle->math = mode;
    return CUBLAS_STATUS_SUCCESS;
}

/* Rows of the first factor, or columns of the second, one after another: [n][k]. */
static std::vector<float> gather(const float *x, bool along, size_t n, size_t k, size_t ld,
                                 bool tf32)
{
    std::vector<float> out(n * k);
    for (size_t i = 0; i < n; i++) {
        for (size_t p = 0; p < k; p++) {
            out[i * k + p] = along ? x[i * ld + p] : x[p * ld + i];
        }
    }
    if (tf32) {
        to_tf32(&out);
    }
    return out;
}

static void run(const struct product &p)
{
    std::vector<float> a, b;
    if (p.workspace != nullptr) {
        memset(p.workspace, 0xff, p.workspace_bytes < 65536 ? p.workspace_bytes : 65536);
    }
    if (p.alpha != 0.0f) {
        a = gather(p.a, p.transpose_a, p.m, p.k, p.lda, p.tf32);
        b = gather(p.b, !p.transpose_b, p.n, p.k, p.ldb, p.tf32);
    }
    for (size_t j = 0; j < p.n; j++) {
        for (size_t i = 0; i < p.m; i++) {
            double sum = p.alpha == 0.0f ? 0.0 : dot(&a[i * p.k], &b[j * p.k], p.k);
            blend(&p.c[j * p.ldc + i], p.alpha, sum, p.beta, p.way);
        }
    }
}

/* What is the same for one product and for many. */
static cublasStatus_t describe(cublasHandle_t handle, cublasOperation_t transa,
                               cublasOperation_t transb, int64_t m, int64_t n, int64_t k,
                               const float *alpha, const float *a, int64_t lda, const float *b,
                               int64_t ldb, const float *beta, float *c, int64_t ldc,
                               struct product *p)
{
    int64_t rows_a = transa == CUBLAS_OP_N ? m : k, rows_b = transb == CUBLAS_OP_N ? k : n;
    if (handle == nullptr) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    if (m < 0 || n < 0 || k < 0 || lda < 1 || ldb < 1 || ldc < 1 || lda < rows_a ||
        ldb < rows_b || ldc < m || alpha == nullptr || beta == nullptr) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    *p = {transa != CUBLAS_OP_N, transb != CUBLAS_OP_N, handle->math == CUBLAS_TF32_TENSOR_OP_MATH,
          size_t(m), size_t(n), size_t(k), size_t(lda), size_t(ldb), size_t(ldc), *alpha, *beta,
          a, b, c, handle->workspace, handle->workspace_bytes,
          way_of({size_t(transa), size_t(transb), size_t(m), size_t(n), size_t(k)}, {a, b, c})};
    return CUBLAS_STATUS_SUCCESS;
}

/* In what it took itself it would take more for every graph that is recorded. */
static bool would_allocate(cublasHandle_t handle)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    (void)cudaStreamIsCapturing(handle->stream, &status);
    return status != cudaStreamCaptureStatusNone && handle->workspace == handle->own;
}

static cublasStatus_t put(cublasHandle_t handle, std::function<void()> work)
{
    if (would_allocate(handle)) {
        return CUBLAS_STATUS_ALLOC_FAILED;
    }
    return stream_put(handle->stream, "sgemm", work) == cudaSuccess
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_EXECUTION_FAILED;
}

cublasStatus_t cublasSgemm_v2_64(cublasHandle_t handle, cublasOperation_t transa,
                                 cublasOperation_t transb, int64_t m, int64_t n, int64_t k,
                                 const float *alpha, const float *a, int64_t lda, const float *b,
                                 int64_t ldb, const float *beta, float *c, int64_t ldc)
{
    struct product p;
    cublasStatus_t rc =
        describe(handle, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, &p);
    if (rc != CUBLAS_STATUS_SUCCESS || m == 0 || n == 0) {
        return rc;
    }
    return put(handle, [p]() { run(p); });
}

cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t transa,
                              cublasOperation_t transb, int m, int n, int k, const float *alpha,
                              const float *a, int lda, const float *b, int ldb, const float *beta,
                              float *c, int ldc)
{
    return cublasSgemm_v2_64(handle, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t transa,
                                         cublasOperation_t transb, int m, int n, int k,
                                         const float *alpha, const float *a, int lda,
                                         long long stride_a, const float *b, int ldb,
                                         long long stride_b, const float *beta, float *c, int ldc,
                                         long long stride_c, int count)
{
    struct product p;
    cublasStatus_t rc =
        describe(handle, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, &p);
    if (rc != CUBLAS_STATUS_SUCCESS || count < 0) {
        return rc != CUBLAS_STATUS_SUCCESS ? rc : CUBLAS_STATUS_INVALID_VALUE;
    }
    if (m == 0 || n == 0 || count == 0) {
        return CUBLAS_STATUS_SUCCESS;
    }
    p.way = way_of({p.way, size_t(count)}, {});
    return put(handle, [=]() {
        struct product one = p;
        for (int i = 0; i < count; i++) {
            one.a = p.a + i * stride_a;
            one.b = p.b + i * stride_b;
            one.c = p.c + i * stride_c;
            run(one);
        }
    });
}
