/* SPDX-License-Identifier: Apache-2.0 */
#include "map.cuh"
#include "reduce.cuh"

namespace {

struct relu : uw_map_plain {
    __device__ void operator()(size_t, const float *in, float *out) const
    {
        out[0] = in[0] <= 0.0f ? 0.0f : in[0]; /* NaN stays */
    }
};

/* in: y, dy, and dx to add to */
template <bool ADD> struct relu_slope : uw_map_plain {
    __device__ void operator()(size_t, const float *in, float *out) const
    {
        float d = in[0] > 0.0f ? in[1] : 0.0f;
        out[0] = ADD ? in[2] + d : d;
    }
};

struct times : uw_map_plain {
    float a;
    __device__ void operator()(size_t, const float *in, float *out) const
    {
        out[0] = a * in[0];
    }
};

struct weighted : uw_map_plain {
    float a, b;
    __device__ void operator()(size_t, const float *in, float *out) const
    {
        out[0] = a * in[0] + b * in[1];
    }
};

} // namespace

int uw_relu_fw_cuda(const struct uw_exec *e, size_t n, const float *x, float *y)
{
    return uw_map(e, n, uw_arrays<1, 1>{{x}, {y}}, relu{});
}

int uw_relu_bw_input_cuda(const struct uw_exec *e, size_t n, const float *y, const float *dy,
                          float *dx, bool accumulate)
{
    if (accumulate) {
        return uw_map(e, n, uw_arrays<3, 1>{{y, dy, dx}, {dx}}, relu_slope<true>{});
    }
    return uw_map(e, n, uw_arrays<2, 1>{{y, dy}, {dx}}, relu_slope<false>{});
}

int uw_axpby_cuda(const struct uw_exec *e, size_t n, float a, const float *x, float b, float *y)
{
    if (b == 0.0f) {
        times f;
        f.a = a;
        return uw_map(e, n, uw_arrays<1, 1>{{x}, {y}}, f);
    }
    weighted f;
    f.a = a;
    f.b = b;
    return uw_map(e, n, uw_arrays<2, 1>{{x, y}, {y}}, f);
}

/* Set *found to 1 if an element is not finite. */
static __global__ void find_nonfinite(size_t n, const float *x, uint32_t *found)
{
    bool bad = false;
#pragma unroll 4
    UW_EACH(i, n) {
        bad |= !uw_is_finite(x[i]);
    }
    if (__syncthreads_or(bad) != 0 && threadIdx.x == 0) {
        *found = 1;
    }
}

bool uw_all_finite_cuda(const struct uw_exec *e, size_t n, const float *x)
{
    struct uw_cuda *c = uw_cuda_of(e);
    struct uw_cuda_numbers got;
    if (n == 0 || c->in_step) {
        return true; /* inside a step the updates check gradients themselves */
    }
    c->numbers->u[0] = 0; /* earlier kernels that wrote it have been waited for */
    int rc = uw_launch(e, uw_grid(e, n, 8), UW_BLOCK, find_nonfinite, n, x, &c->numbers_at->u[0]);
    rc = rc < 0 ? rc : uw_cuda_numbers(e, &got);
    return rc == UW_OK && got.u[0] == 0;
}

/* *out = sum of (x - y)^2; parts: [blocks] */
static __global__ void distance(size_t n, const float *x, const float *y, double *parts,
                                uint32_t *ticket, double *out)
{
    __shared__ double shared[UW_WARPS];
    double sum = uw_block_sum(uw_squares_share(n, x, y), shared);
    if (gridDim.x > 1) {
        if (threadIdx.x == 0) {
            parts[blockIdx.x] = sum;
        }
        if (!uw_last_block(ticket, gridDim.x)) {
            return;
        }
        sum = uw_parts_sum(parts, gridDim.x, shared);
    }
    if (threadIdx.x == 0) {
        *out = sum;
    }
}

double uw_distance_sq_cuda(const struct uw_exec *e, size_t n, const float *x, const float *y)
{
    struct uw_cuda *c = uw_cuda_of(e);
    struct uw_cuda_numbers got;
    int rc = uw_launch(e, uw_parts_of(e, n, 16), UW_BLOCK, distance, n, x, y,
                       static_cast<double *>(c->partials), c->tickets, &c->numbers_at->d[0]);
    rc = rc < 0 ? rc : uw_cuda_numbers(e, &got);
    return rc < 0 ? static_cast<double>(NAN) : got.d[0];
}
