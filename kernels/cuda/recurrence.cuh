/* SPDX-License-Identifier: Apache-2.0
 *
 * recurrence.cuh - products of W_hh with the states of a few samples, by one block
 *
 * W_hh [rows][hidden] is read once for all samples of the block. A small one is kept in registers;
 * of a larger one as many rows as fit are kept in shared memory, and the rest is read through the
 * cache. The order of sums depends on the shape and on the alignment of W_hh only.
 */
#ifndef UW_KERNELS_CUDA_RECURRENCE_CUH
#define UW_KERNELS_CUDA_RECURRENCE_CUH

#include "floats.cuh"
#include "reduce.cuh"

/* Round up to 4 floats, so that rows in shared memory are aligned for vectors of four. */
static __host__ __device__ __forceinline__ uint32_t uw_in_fours(uint32_t n)
{
    return (n + 3u) & ~3u;
}

/* W_hh as a block reads it. */
struct uw_held {
    const float *w;                     /* all rows, global memory */
    const float *first;                 /* the first rows, shared memory */
    uint32_t rows, hidden, held;        /* held: rows in `first` */
    unsigned vector;                    /* floats per load: 4, 2, 1 */
    __device__ const float *row(uint32_t r) const
    {
        return r < held ? first + r * hidden : w + r * hidden;
    }
};

/* Fill `first`. Every thread of the block calls; a barrier must follow. */
static __device__ inline void uw_hold(const struct uw_held &m, float *first)
{
#pragma unroll 4
    for (uint32_t i = threadIdx.x; i < m.held * m.hidden; i += blockDim.x) {
        first[i] = m.w[i];
    }
}

/* Sums of S numbers over LANES adjacent lanes, in an order that does not depend on S. Lane l gets
 * sum l / (LANES / S). All lanes of the warp call. */
template <unsigned LANES, unsigned S>
static __device__ inline float uw_lanes_sum(float (&v)[S], unsigned lane)
{
    unsigned by = LANES / 2;
#pragma unroll
    for (unsigned n = S / 2; n > 0; n /= 2, by /= 2) { /* lanes exchange half of the numbers */
        bool upper = (lane & by) != 0;
#pragma unroll
        for (unsigned i = 0; i < n; i++) {
            float mine = upper ? v[i + n] : v[i], other = upper ? v[i] : v[i + n];
            v[i] = mine + __shfl_xor_sync(UW_ALL_LANES, other, static_cast<int>(by));
        }
    }
#pragma unroll
    for (; by > 0; by /= 2) {
        v[0] += __shfl_xor_sync(UW_ALL_LANES, v[0], static_cast<int>(by));
    }
    return v[0];
}

/* sums[n][row] = W_hh[row] h[n]; 32 / V lanes share a row, so that they read 32 adjacent floats. */
template <unsigned S, unsigned V>
static __device__ inline void uw_rows_by_state(const struct uw_held &m, const float *h,
                                               float *sums)
{
    constexpr unsigned SHARE = UW_LANES / V;
    unsigned lane = threadIdx.x % SHARE, of_warp = threadIdx.x % UW_LANES / SHARE;
    uint32_t wide = uw_in_fours(m.hidden);
    for (uint32_t at = threadIdx.x / UW_LANES * V; at < m.rows; at += blockDim.x / UW_LANES * V) {
        uint32_t row = at + of_warp;
        const float *w = m.row(row < m.rows ? row : m.rows - 1u);
        float sum[S] = {};
#pragma unroll 4
        for (uint32_t c = lane * V; c < m.hidden; c += UW_LANES) {
            const uw_floats<V> x = uw_load<V>(w + c);
#pragma unroll
            for (unsigned n = 0; n < S; n++) {
                const uw_floats<V> y = uw_load<V>(h + n * wide + c);
#pragma unroll
                for (unsigned v = 0; v < V; v++) {
                    sum[n] += x.v[v] * y.v[v];
                }
            }
        }
        float all = uw_lanes_sum<SHARE, S>(sum, lane);
        if (lane % (SHARE / S) == 0 && row < m.rows) {
            sums[lane / (SHARE / S) * m.rows + row] = all;
        }
    }
}

/* Dot product of a thread's weights and K numbers in shared memory, aligned to 16 bytes. */
template <unsigned K>
static __device__ __forceinline__ float uw_kept_sum(const float (&w)[K], const float *x)
{
    float sum[4] = {};
#pragma unroll
    for (unsigned i = 0; i < K; i += 4) {
        const uw_floats<4> y = uw_load<4>(x + i);
#pragma unroll
        for (unsigned v = 0; v < 4; v++) {
            sum[v] += w[i + v] * y.v[v];
        }
    }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* The same with one thread per row, which keeps its up to K weights in registers; h has rows of K,
 * padded with zeros. */
template <unsigned K> struct uw_row_kept {
    float w[K];
    __device__ void open(const struct uw_held &m)
    {
        bool there = threadIdx.x < m.rows;
        const float *from = m.w + (there ? threadIdx.x * m.hidden : 0);
        if (m.vector == 4) { /* each load of a warp touches 32 rows */
#pragma unroll
            for (unsigned c = 0; c < K; c += 4) {
                uw_floats<4> four = {};
                if (there && c < m.hidden) {
                    four = uw_load<4>(from + c);
                }
#pragma unroll
                for (unsigned v = 0; v < 4; v++) {
                    w[c + v] = four.v[v];
                }
            }
            return;
        }
#pragma unroll
        for (unsigned c = 0; c < K; c++) {
            w[c] = there && c < m.hidden ? from[c] : 0.0f;
        }
    }
    template <unsigned S>
    __device__ void by_state(const struct uw_held &m, const float *h, float *sums) const
    {
        if (threadIdx.x >= m.rows) {
            return;
        }
#pragma unroll
        for (unsigned n = 0; n < S; n++) {
            sums[n * m.rows + threadIdx.x] = uw_kept_sum(w, h + n * K);
        }
    }
};

/* parts[g][n][c] = sum over rows of gate g of da[n][row] W_hh[row][c], with one thread per gate and
 * column, which keeps its up to K weights in registers. Rows of da have gates * K floats, those of
 * parts K; da is padded with zeros. */
template <unsigned K> struct uw_column_kept {
    float w[K];
    uint32_t gate, c;
    __device__ void open(const struct uw_held &m)
    {
        gate = threadIdx.x / m.hidden;
        c = threadIdx.x - gate * m.hidden;
        bool there = threadIdx.x < m.rows;
        const float *from = m.w + (there ? gate * m.hidden * m.hidden + c : 0);
#pragma unroll
        for (unsigned i = 0; i < K; i++) {
            w[i] = there && i < m.hidden ? from[i * m.hidden] : 0.0f;
        }
    }
    template <unsigned S>
    __device__ void by_rows(const struct uw_held &m, uint32_t high, const float *da,
                            float *parts) const
    {
        if (threadIdx.x >= m.rows) {
            return;
        }
#pragma unroll
        for (unsigned n = 0; n < S; n++) {
            parts[(gate * S + n) * K + c] = uw_kept_sum(w, da + n * high + gate * K);
        }
    }
};

/* Groups of threads that share the rows of uw_state_by_rows. */
static __host__ __device__ __forceinline__ uint32_t uw_row_groups(uint32_t rows, uint32_t hidden,
                                                                  unsigned vector,
                                                                  unsigned threads)
{
    uint32_t groups = threads / (hidden / vector), most = uw_in_fours(rows) / 4u;
    return groups < most ? groups : most;
}

/* parts[group][n][c] = sum over the group's rows of da[n][row] W_hh[row][c]; da is padded with
 * zeros to a multiple of 4 rows. */
template <unsigned S, unsigned V>
static __device__ inline void uw_state_by_rows(const struct uw_held &m, const float *da,
                                               float *parts)
{
    uint32_t columns = m.hidden / V, wide = uw_in_fours(m.hidden), high = uw_in_fours(m.rows);
    uint32_t groups = uw_row_groups(m.rows, m.hidden, V, blockDim.x);
    uint32_t group = threadIdx.x / columns, c = (threadIdx.x - group * columns) * V;
    if (group >= groups) {
        return;
    }
    float sum[S][V] = {};
    for (uint32_t row = 4u * group; row < m.rows; row += 4u * groups) {
        uw_floats<V> w[4] = {};
#pragma unroll
        for (unsigned i = 0; i < 4; i++) {
            if (row + i < m.rows) {
                w[i] = uw_load<V>(m.row(row + i) + c);
            }
        }
#pragma unroll
        for (unsigned n = 0; n < S; n++) {
            const uw_floats<4> d = uw_load<4>(da + n * high + row);
#pragma unroll
            for (unsigned i = 0; i < 4; i++) {
#pragma unroll
                for (unsigned v = 0; v < V; v++) {
                    sum[n][v] += d.v[i] * w[i].v[v];
                }
            }
        }
    }
#pragma unroll
    for (unsigned n = 0; n < S; n++) {
#pragma unroll
        for (unsigned v = 0; v < V; v++) {
            parts[(group * S + n) * wide + c + v] = sum[n][v];
        }
    }
}

#endif
