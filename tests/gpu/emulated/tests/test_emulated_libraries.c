/* SPDX-License-Identifier: Apache-2.0
 *
 * The stand-ins of cuBLAS and cuDNN against sums by the definition. */
#include "fixture.h"

#include "libraries.h"

#define ALL_MAX 4096

static struct uw_cuda_libraries l;
static cublasHandle_t blas;
static cudnnHandle_t dnn;
static cudaStream_t stream;
static float *workspace;
#define WORKSPACE_BYTES (1u << 20)

static int open_all(void **state)
{
    (void)state;
    struct uw_error err;
    if (uw_cuda_libraries_open(&l, &err) < 0) {
        print_error("%s\n", err.text);
        return 1;
    }
    stream = own_stream();
    workspace = gpu_floats(WORKSPACE_BYTES / sizeof(float));
    assert_int_equal(l.cublasCreate_v2(&blas), CUBLAS_STATUS_SUCCESS);
    assert_int_equal(l.cublasSetStream_v2(blas, stream), CUBLAS_STATUS_SUCCESS);
    assert_int_equal(l.cudnnCreate(&dnn), CUDNN_STATUS_SUCCESS);
    assert_int_equal(l.cudnnSetStream(dnn, stream), CUDNN_STATUS_SUCCESS);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    assert_int_equal(l.cublasDestroy_v2(blas), CUBLAS_STATUS_SUCCESS);
    assert_int_equal(l.cudnnDestroy(dnn), CUDNN_STATUS_SUCCESS);
    OK(cudaFree(workspace));
    OK(cudaStreamDestroy(stream));
    return 0;
}

static float *numbers(size_t n, unsigned seed)
{
    float *x = both_floats(n);
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) * 0x1p-23f - 1.0f;
    }
    return x;
}

static void assert_close(const float *got, const double *want, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!(fabs((double)got[i] - want[i]) <= 1e-6 * (1.0 + fabs(want[i])))) {
            fail_msg("element %zu: %.9g, not %.9g", i, (double)got[i], want[i]);
        }
    }
}

/* Columns first, as cuBLAS counts. */
static void check_product(cublasOperation_t ta, cublasOperation_t tb, float alpha, float beta)
{
    enum { M = 5, N = 4, K = 7, LDA = 9, LDB = 8, LDC = 6 };
    float *a = numbers(LDA * 9, 1), *b = numbers(LDB * 9, 2), *c = numbers(LDC * N, 3);
    double want[LDC * N];
    for (int j = 0; j < N; j++) {
        for (int i = 0; i < LDC; i++) {
            double sum = 0.0, was = (double)c[j * LDC + i];
            for (int p = 0; p < K && i < M; p++) {
                sum += (double)a[ta == CUBLAS_OP_N ? p * LDA + i : i * LDA + p] *
                       (double)b[tb == CUBLAS_OP_N ? j * LDB + p : p * LDB + j];
            }
            want[j * LDC + i] = i < M ? (double)alpha * sum + (double)beta * was : was;
        }
    }
    if (beta == 0.0f) {
        c[0] = NAN; /* it is not read */
    }
    assert_int_equal(l.cublasSgemm_v2(blas, ta, tb, M, N, K, &alpha, a, LDA, b, LDB, &beta, c, LDC),
                     CUBLAS_STATUS_SUCCESS);
    OK(cudaStreamSynchronize(stream));
    assert_close(c, want, LDC * N);
    OK(cudaFree(a));
    OK(cudaFree(b));
    OK(cudaFree(c));
}

static void test_products_match_definition(void **state)
{
    (void)state;
    for (int t = 0; t < 4; t++) {
        cublasOperation_t ta = (t & 1) != 0 ? CUBLAS_OP_T : CUBLAS_OP_N;
        cublasOperation_t tb = (t & 2) != 0 ? CUBLAS_OP_T : CUBLAS_OP_N;
        check_product(ta, tb, 1.0f, 0.0f);
        check_product(ta, tb, 0.5f, 1.0f);
        check_product(ta, tb, 0.0f, -2.0f);
    }
}

static void test_products_of_wrong_sizes_are_refused(void **state)
{
    (void)state;
    float *x = both_floats(16), one = 1.0f;
    assert_int_equal(l.cublasSgemm_v2(blas, CUBLAS_OP_N, CUBLAS_OP_N, 4, 2, 2, &one, x, 3, x, 2,
                                      &one, x, 4), CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(l.cublasSgemm_v2(blas, CUBLAS_OP_N, CUBLAS_OP_N, -1, 2, 2, &one, x, 4, x, 2,
                                      &one, x, 4), CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(l.cublasSetWorkspace_v2(blas, x + 1, 4), CUBLAS_STATUS_INVALID_VALUE);
    OK(cudaFree(x));
}

/* What is in the workspace is lost, and a stream that is set takes another one. */
static void test_workspace_is_written_over(void **state)
{
    (void)state;
    float *x = numbers(3, 1), *work = both_floats(64), one = 1.0f, zero = 0.0f;
    for (int times = 0; times < 2; times++) {
        memset(work, 0, 64 * sizeof *work);
        assert_int_equal(l.cublasSetWorkspace_v2(blas, work, 256), CUBLAS_STATUS_SUCCESS);
        if (times == 1) {
            assert_int_equal(l.cublasSetStream_v2(blas, stream), CUBLAS_STATUS_SUCCESS);
        }
        assert_int_equal(l.cublasSgemm_v2(blas, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, x, 1,
                                          x + 1, 1, &zero, x + 2, 1), CUBLAS_STATUS_SUCCESS);
        OK(cudaStreamSynchronize(stream));
        assert_true(x[2] == x[0] * x[1]);
        assert_true(times == 0 ? isnan(work[0]) : work[0] == 0.0f);
        cudaGraph_t graph = NULL;       /* none is recorded in the library's own */
        OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        assert_int_equal(l.cublasSgemm_v2(blas, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, x, 1,
                                          x + 1, 1, &zero, x + 2, 1),
                         times == 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED);
        OK(cudaStreamEndCapture(stream, &graph));
        OK(cudaGraphDestroy(graph));
    }
    OK(cudaFree(x));
    OK(cudaFree(work));
}

struct shape {
    int n, ci, h, w, co, kh, kw, pad, stride, dilation, groups;
};

static int out_of(int in, int k, const struct shape *s)
{
    return (in + 2 * s->pad - (k - 1) * s->dilation - 1) / s->stride + 1;
}

/* All descriptors of one shape. */
struct descriptors {
    cudnnTensorDescriptor_t x, y;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t c;
    int oh, ow;
    size_t x_n, w_n, y_n;
};

static void describe(const struct shape *s, struct descriptors *d)
{
    d->oh = out_of(s->h, s->kh, s);
    d->ow = out_of(s->w, s->kw, s);
    d->x_n = (size_t)(s->n * s->ci * s->h * s->w);
    d->y_n = (size_t)(s->n * s->co * d->oh * d->ow);
    d->w_n = (size_t)(s->co * s->ci / s->groups * s->kh * s->kw);
    assert_true(d->x_n <= ALL_MAX && d->y_n <= ALL_MAX && d->w_n <= ALL_MAX);
    OK(l.cudnnCreateTensorDescriptor(&d->x));
    OK(l.cudnnCreateTensorDescriptor(&d->y));
    OK(l.cudnnCreateFilterDescriptor(&d->w));
    OK(l.cudnnCreateConvolutionDescriptor(&d->c));
    OK(l.cudnnSetTensor4dDescriptor(d->x, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, s->n, s->ci, s->h,
                                    s->w));
    OK(l.cudnnSetTensor4dDescriptor(d->y, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, s->n, s->co, d->oh,
                                    d->ow));
    OK(l.cudnnSetFilter4dDescriptor(d->w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, s->co,
                                    s->ci / s->groups, s->kh, s->kw));
    OK(l.cudnnSetConvolution2dDescriptor(d->c, s->pad, s->pad, s->stride, s->stride, s->dilation,
                                         s->dilation, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    OK(l.cudnnSetConvolutionGroupCount(d->c, s->groups));
    OK(l.cudnnSetConvolutionMathType(d->c, CUDNN_FMA_MATH));
}

static void forget(struct descriptors *d)
{
    OK(l.cudnnDestroyTensorDescriptor(d->x));
    OK(l.cudnnDestroyTensorDescriptor(d->y));
    OK(l.cudnnDestroyFilterDescriptor(d->w));
    OK(l.cudnnDestroyConvolutionDescriptor(d->c));
}

/* Every product of the convolution: y += x w, dx += dy w, dw += dy x. */
static void by_definition(const struct shape *s, const struct descriptors *d, const float *x,
                          const float *w, const float *dy, double *y, double *dx, double *dw)
{
    int group_in = s->ci / s->groups, group_out = s->co / s->groups;
    size_t taps = (size_t)(group_in * s->kh * s->kw), pixels = (size_t)(d->oh * d->ow);
    for (size_t at = 0; at < d->y_n * taps; at++) {
        size_t o = at / taps, t = at % taps;
        int n = (int)(o / pixels) / s->co, k = (int)(o / pixels) % s->co;
        int oh = (int)(o % pixels) / d->ow, ow = (int)(o % pixels) % d->ow;
        int c = (int)t / (s->kh * s->kw), kh = (int)t / s->kw % s->kh, kw = (int)t % s->kw;
        int ih = oh * s->stride + kh * s->dilation - s->pad;
        int iw = ow * s->stride + kw * s->dilation - s->pad;
        if (ih < 0 || iw < 0 || ih >= s->h || iw >= s->w) {
            continue;
        }
        size_t i = (size_t)(((n * s->ci + k / group_out * group_in + c) * s->h + ih) * s->w + iw);
        size_t f = (size_t)k * taps + t;
        y[o] += (double)x[i] * (double)w[f];
        dx[i] += (double)dy[o] * (double)w[f];
        dw[f] += (double)dy[o] * (double)x[i];
    }
}

static void check_convolution(const struct shape *s)
{
    static double want[3][ALL_MAX];
    struct descriptors d;
    const float one = 1.0f, zero = 0.0f;
    describe(s, &d);
    float *x = numbers(d.x_n, 1), *w = numbers(d.w_n, 2), *dy = numbers(d.y_n, 3);
    float *y = gpu_floats(d.y_n), *dx = numbers(d.x_n, 4), *dw = gpu_floats(d.w_n);
    float got[ALL_MAX];
    memset(want, 0, sizeof want);
    for (size_t i = 0; i < d.x_n; i++) {
        want[1][i] = (double)dx[i]; /* accumulated */
    }
    by_definition(s, &d, x, w, dy, want[0], want[1], want[2]);
    OK(l.cudnnConvolutionForward(dnn, &one, d.x, x, d.w, w, d.c,
                                 CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, workspace,
                                 WORKSPACE_BYTES, &zero, d.y, y));
    OK(l.cudnnConvolutionBackwardData(dnn, &one, d.w, w, d.y, dy, d.c,
                                      CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, workspace,
                                      WORKSPACE_BYTES, &one, d.x, dx));
    OK(l.cudnnConvolutionBackwardFilter(dnn, &one, d.x, x, d.y, dy, d.c,
                                        CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, workspace,
                                        WORKSPACE_BYTES, &zero, d.w, dw));
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemcpy(got, y, d.y_n * sizeof *y, cudaMemcpyDeviceToHost));
    assert_close(got, want[0], d.y_n);
    assert_close(dx, want[1], d.x_n);
    OK(cudaMemcpy(got, dw, d.w_n * sizeof *dw, cudaMemcpyDeviceToHost));
    assert_close(got, want[2], d.w_n);
    float *blocks[] = {x, w, dy, y, dx, dw};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        OK(cudaFree(blocks[i]));
    }
    forget(&d);
}

static void test_convolutions_match_definition(void **state)
{
    (void)state;
    static const struct shape shapes[] = {
        {2, 3, 7, 6, 4, 3, 3, 1, 1, 1, 1}, {1, 4, 8, 9, 6, 3, 2, 1, 2, 1, 2},
        {2, 6, 5, 5, 6, 3, 3, 1, 1, 1, 6}, {1, 2, 9, 9, 3, 3, 3, 2, 1, 2, 1},
        {3, 5, 4, 4, 7, 1, 1, 0, 1, 1, 1}, {1, 1, 11, 5, 2, 5, 3, 2, 3, 1, 1},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check_convolution(&shapes[i]);
    }
}

static void test_algorithms_differ_in_what_they_take(void **state)
{
    (void)state;
    const struct shape plain = {1, 2, 6, 6, 3, 3, 3, 1, 1, 1, 1};
    const struct shape strided = {1, 2, 6, 6, 3, 3, 3, 1, 2, 1, 1};
    struct descriptors d;
    const float one = 1.0f, zero = 0.0f;
    size_t bytes = 0;
    describe(&strided, &d);
    assert_int_equal(l.cudnnGetConvolutionForwardWorkspaceSize(
                         dnn, d.x, d.w, d.c, d.y, CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD, &bytes),
                     CUDNN_STATUS_NOT_SUPPORTED);
    forget(&d);
    describe(&plain, &d);
    OK(l.cudnnGetConvolutionForwardWorkspaceSize(dnn, d.x, d.w, d.c, d.y,
                                                 CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD, &bytes));
    assert_true(bytes > 0 && bytes <= WORKSPACE_BYTES);
    float *x = numbers(d.x_n, 1), *w = numbers(d.w_n, 2), *y = both_floats(d.y_n);
    assert_int_equal(l.cudnnConvolutionForward(dnn, &one, d.x, x, d.w, w, d.c,
                                               CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD, workspace,
                                               bytes - 1, &zero, d.y, y), CUDNN_STATUS_BAD_PARAM);
    assert_int_equal(l.cudnnConvolutionForward(dnn, &one, d.y, x, d.w, w, d.c,
                                               CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, NULL, 0,
                                               &zero, d.y, y), CUDNN_STATUS_BAD_PARAM);
    OK(cudaFree(x));
    OK(cudaFree(w));
    OK(cudaFree(y));
    forget(&d);
}

/* Math types: without a word, products may be of TF32. */
static void test_tf32_rounds_factors_unless_it_is_forbidden(void **state)
{
    (void)state;
    const struct shape s = {1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1};
    const float one = 1.0f, zero = 0.0f;
    struct descriptors d;
    float *x = both_floats(3);
    describe(&s, &d);
    x[0] = 1.0f + 0x1p-20f;
    x[1] = 1.0f;
    for (int strict = 0; strict < 2; strict++) {
        OK(l.cudnnSetConvolutionMathType(d.c, strict == 1 ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH));
        OK(l.cudnnConvolutionForward(dnn, &one, d.x, &x[0], d.w, &x[1], d.c,
                                     CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, NULL, 0, &zero, d.y,
                                     &x[2]));
        OK(cudaStreamSynchronize(stream));
        assert_true(x[2] == (strict == 1 ? x[0] : 1.0f));
        OK(l.cublasSetMathMode(blas, strict == 1 ? CUBLAS_DEFAULT_MATH
                                                 : CUBLAS_TF32_TENSOR_OP_MATH));
        OK(l.cublasSgemm_v2(blas, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, &x[0], 1, &x[1], 1,
                            &zero, &x[2], 1));
        OK(cudaStreamSynchronize(stream));
        assert_true(x[2] == (strict == 1 ? x[0] : 1.0f));
    }
    OK(cudaFree(x));
    forget(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products_match_definition),
        cmocka_unit_test(test_products_of_wrong_sizes_are_refused),
        cmocka_unit_test(test_workspace_is_written_over),
        cmocka_unit_test(test_convolutions_match_definition),
        cmocka_unit_test(test_algorithms_differ_in_what_they_take),
        cmocka_unit_test(test_tf32_rounds_factors_unless_it_is_forbidden),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
