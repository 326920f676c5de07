/* SPDX-License-Identifier: Apache-2.0
 *
 * norm.cuh - shared by batch norm and group norm: moments without cancellation, and the formulas
 *
 * A thread sums differences to its first value, so that a mean far from 0 costs no precision; the
 * threads' sums are then combined about the common mean, in double. Sums of products are written as
 * fma: several kernels must give the same bits, and a compiler may contract the same expression in
 * one and not in another.
 */
#ifndef UW_KERNELS_CUDA_NORM_CUH
#define UW_KERNELS_CUDA_NORM_CUH

#include "channels.cuh"

/* Slots in norm_group.cu and lrn.cu. */
extern "C" {
int uw_groupnorm_fw_cuda(const struct uw_exec *e, const struct uw_norm *n, uint32_t batch_n,
                         const float *x, const float *gamma, const float *beta, float *y,
                         float *stats);
int uw_groupnorm_bw_input_cuda(const struct uw_exec *e, const struct uw_norm *n, uint32_t batch_n,
                               const float *x, const float *gamma, const float *stats,
                               const float *dy, float *dx, bool accumulate);
int uw_groupnorm_bw_param_cuda(const struct uw_exec *e, const struct uw_norm *n, uint32_t batch_n,
                               const float *x, const float *stats, const float *dy, float scale,
                               float *dgamma, float *dbeta);
int uw_lrn_fw_cuda(const struct uw_exec *e, const struct uw_lrn *l, uint32_t batch_n,
                   const float *x, float *y);
int uw_lrn_bw_input_cuda(const struct uw_exec *e, const struct uw_lrn *l, uint32_t batch_n,
                         const float *x, const float *dy, float *dx, bool accumulate);
size_t uw_lrn_scratch_bytes_cuda(const struct uw_lrn *l, uint32_t threads);
}

struct uw_moments {
    double mean, spread;        /* spread = sum of (x - mean)^2 */
};

/* Body for uw_each_vector and for the rows of group norm: sums for mean and spread. */
template <int W> struct uw_moments_body {
    typedef uw_floats<W> item;
    const float *x;
    float first, chunk, chunk_sq;
    double sum, sum_sq;         /* of x - first */
    uint32_t seen;              /* vectors */

    __device__ __forceinline__ explicit uw_moments_body(const float *from)
        : x(from), first(0.0f), chunk(0.0f), chunk_sq(0.0f), sum(0.0), sum_sq(0.0), seen(0)
    {
    }
    __device__ __forceinline__ item load(size_t at) const
    {
        return uw_load<W>(x + at);
    }
    __device__ __forceinline__ void use(const item &v, size_t at, size_t n)
    {
        (void)at;
        (void)n;
        first = seen == 0 ? v.v[0] : first;
        seen++;
        for (int k = 0; k < W; k++) {
            float d = v.v[k] - first;
            chunk += d;
            chunk_sq = fmaf(d, d, chunk_sq);
        }
    }
    __device__ __forceinline__ void fold()
    {
        sum += static_cast<double>(chunk);
        sum_sq += static_cast<double>(chunk_sq);
        chunk = chunk_sq = 0.0f;
    }
    __device__ __forceinline__ double total() const
    {
        return fma(static_cast<double>(seen) * W, static_cast<double>(first), sum);
    }
    /* Sum of (x - mean)^2. */
    __device__ __forceinline__ double spread(double mean) const
    {
        double d = mean - static_cast<double>(first);
        double about = fma(-2.0 * d, sum, sum_sq);
        return seen > 0 ? fma(static_cast<double>(seen) * W * d, d, about) : 0.0;
    }
};

/* Moments of all values of a block, for all its threads. each: 1 / number of values; a double
 * division per thread would be too slow. */
template <int W>
static __device__ __forceinline__ struct uw_moments uw_block_moments(const uw_moments_body<W> &body,
                                                                     double each)
{
    double v[1] = {body.total()};
    uw_block_sums(v);
    double mean = __dmul_rn(v[0], each); /* rounded: must not be contracted */
    v[0] = body.spread(mean);
    uw_block_sums(v);
    return {mean, v[0]};
}

/* Statistics of one channel or group; second is 1 / sqrt(variance + epsilon). */
struct uw_norm_pair {
    float mean, second;
};

static __device__ __forceinline__ struct uw_norm_pair
uw_pair_of(const struct uw_moments &m, double each, float epsilon)
{
    float variance = static_cast<float>(m.spread * each);
    return {static_cast<float>(m.mean), 1.0f / sqrtf(variance + epsilon)};
}

static __device__ __forceinline__ float uw_xhat(const struct uw_norm_pair &p, float x)
{
    return (x - p.mean) * p.second;
}

static __device__ __forceinline__ float uw_or(const float *weight, size_t c, float otherwise)
{
    return weight != nullptr ? weight[c] : otherwise;
}

#endif
