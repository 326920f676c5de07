/* SPDX-License-Identifier: Apache-2.0
 *
 * ceilings.cu - what this GPU can do at most: copy its memory, and multiply in fp32
 *
 *     ceilings [BYTES [SIZE]]      4 GiB and 8192 when not given
 *
 * Prints one line of JSON: a device-to-device copy in GB/s, bytes read plus bytes written, and a
 * product of two random SIZE x SIZE matrices by cuBLAS in TFLOP/s, without TF32: error, relative,
 * to products in double of some elements, would be near 3e-4 with it. Each is the median of 20
 * that are timed by events. Build: nvcc -O3 ceilings.cu -ldl. cuBLAS is loaded, not linked.
 */
#include <cuda_runtime.h>

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#define TIMES 20
#define CHECKED 64

static void check(cudaError_t rc, const char *what)
{
    if (rc != cudaSuccess) {
        printf("{\"error\":\"%s: %s\"}\n", what, cudaGetErrorString(rc));
        exit(1);
    }
}

static __device__ float random_at(unsigned long long i)
{
    i = (i + 0x9e3779b97f4a7c15ull) * 0xbf58476d1ce4e5b9ull;
    i = (i ^ (i >> 29)) * 0x94d049bb133111ebull;
    return (float)(unsigned)(i >> 40) * 0x1p-23f - 1.0f;
}

static __global__ void fill(float *x, size_t n, unsigned long long seed)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x) {
        x[i] = random_at(i + seed);
    }
}

static float *filled(size_t n, unsigned long long seed)
{
    float *x;
    check(cudaMalloc((void **)&x, n * sizeof *x), "cudaMalloc");
    fill<<<2048, 256>>>(x, n, seed);
    check(cudaGetLastError(), "fill");
    return x;
}

/* Median seconds of what `work` puts into the queue. */
template <typename Work>
static double median_seconds(Work work)
{
    cudaEvent_t from, to;
    double seconds[TIMES];
    check(cudaEventCreate(&from), "cudaEventCreate");
    check(cudaEventCreate(&to), "cudaEventCreate");
    for (int i = -3; i < TIMES; i++) {          /* three to warm up */
        float ms;
        check(cudaEventRecord(from), "cudaEventRecord");
        work();
        check(cudaEventRecord(to), "cudaEventRecord");
        check(cudaEventSynchronize(to), "cudaEventSynchronize");
        check(cudaEventElapsedTime(&ms, from, to), "cudaEventElapsedTime");
        seconds[i < 0 ? 0 : i] = ms * 1e-3;
    }
    std::sort(seconds, seconds + TIMES);
    return seconds[TIMES / 2];
}

static double copy_gb_per_s(size_t bytes)
{
    float *a = filled(bytes / sizeof(float), 1), *b = filled(bytes / sizeof(float), 2);
    double s = median_seconds([=] {
        check(cudaMemcpyAsync(b, a, bytes, cudaMemcpyDeviceToDevice), "cudaMemcpyAsync");
    });
    cudaFree(a);
    cudaFree(b);
    return 2.0 * (double)bytes / s * 1e-9;
}

/* cuBLAS's functions, by name. */
struct cublas {
    int (*create)(void **);
    int (*sgemm)(void *, int, int, int, int, int, const float *, const float *, int, const float *,
                 int, const float *, float *, int);
    int (*math_mode)(void *, int);
};

static struct cublas load_cublas(void)
{
    static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so"};
    void *library = NULL;
    for (int i = 0; i < 3 && library == NULL; i++) {
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    }
    struct cublas c = {NULL, NULL, NULL};
    if (library != NULL) {
        *(void **)&c.create = dlsym(library, "cublasCreate_v2");
        *(void **)&c.sgemm = dlsym(library, "cublasSgemm_v2");
        *(void **)&c.math_mode = dlsym(library, "cublasSetMathMode");
    }
    if (c.create == NULL || c.sgemm == NULL || c.math_mode == NULL) {
        printf("{\"error\":\"no cuBLAS\"}\n");
        exit(1);
    }
    return c;
}

/* Of some elements of c = a b, column-major, against sums in double. */
static double error_of(const float *a, const float *b, const float *c, size_t n)
{
    float *row = (float *)malloc(n * sizeof *row), *column = (float *)malloc(n * sizeof *column);
    double off = 0.0, size = 0.0;
    for (size_t k = 0; k < CHECKED; k++) {
        size_t i = k * 7919u % n, j = k * 104729u % n;
        double want = 0.0;
        float got;
        check(cudaMemcpy2D(row, sizeof *row, a + i, n * sizeof *row, sizeof *row, n,
                           cudaMemcpyDeviceToHost), "cudaMemcpy2D");
        check(cudaMemcpy(column, b + j * n, n * sizeof *column, cudaMemcpyDeviceToHost),
              "cudaMemcpy");
        check(cudaMemcpy(&got, c + j * n + i, sizeof got, cudaMemcpyDeviceToHost), "cudaMemcpy");
        for (size_t l = 0; l < n; l++) {
            want += (double)row[l] * (double)column[l];
        }
        off += (got - want) * (got - want);
        size += want * want;
    }
    free(row);
    free(column);
    return std::sqrt(off / size);
}

static double gemm_tflop_per_s(size_t n, double *error)
{
    const float one = 1.0f, zero = 0.0f;
    struct cublas blas = load_cublas();
    void *handle;
    int size = (int)n, bad = blas.create(&handle);
    bad = bad != 0 ? bad : blas.math_mode(handle, 0);       /* CUBLAS_DEFAULT_MATH: no TF32 */
    float *a = filled(n * n, 3), *b = filled(n * n, 4), *c = filled(n * n, 5);
    double s = median_seconds([&] {
        bad = bad != 0 ? bad : blas.sgemm(handle, 0, 0, size, size, size, &one, a, size, b, size,
                                          &zero, c, size);
    });
    if (bad != 0) {
        printf("{\"error\":\"cuBLAS gives status %d\"}\n", bad);
        exit(1);
    }
    *error = error_of(a, b, c, n);
    return 2.0 * (double)n * (double)n * (double)n / s * 1e-12;
}

int main(int argc, char **argv)
{
    size_t bytes = argc > 1 ? strtoull(argv[1], NULL, 10) : (size_t)4 << 30;
    size_t n = argc > 2 ? strtoull(argv[2], NULL, 10) : 8192;
    struct cudaDeviceProp card;
    double error;
    check(cudaGetDeviceProperties(&card, 0), "cudaGetDeviceProperties");
    if (bytes > card.totalGlobalMem / 4) {
        bytes = card.totalGlobalMem / 4 / 256 * 256;
    }
    double copy = copy_gb_per_s(bytes), gemm = gemm_tflop_per_s(n, &error);
    printf("{\"card\":\"%s\",\"multiprocessors\":%d,\"copy_bytes\":%zu,\"copy_gb_per_s\":%.1f,"
           "\"gemm_size\":%zu,\"gemm_tflop_per_s\":%.3f,\"gemm_error\":%.3g}\n", card.name,
           card.multiProcessorCount, bytes, copy, n, gemm, error);
    return 0;
}
