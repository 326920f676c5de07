/* SPDX-License-Identifier: Apache-2.0
 *
 * Recurrent cells, one step, a thread per unit and sample (all steps: recurrence.cu). Softmax: a
 * row per part of a warp, warp or block. */
#include "cell.cuh"
#include "rows.cuh"

namespace {

/* Arguments of all cells' kernels. h: written forward, read backward; prev: previous state. */
struct cell {
    struct uw_cell c;
    const float *b_ih, *b_hh, *prev, *dy;
    float *a, *h, *dh, *dc;
};

/* Indices and addresses of one unit. */
struct unit {
    uint32_t k, j;                  /* hidden; the unit */
    size_t n;                       /* the sample */
    float *a;                       /* its first gate; gate i is k * i further */
    __device__ unit(const struct cell &s, size_t i)
    {
        k = s.c.hidden;
        if (i <= UINT32_MAX) {
            n = static_cast<uint32_t>(i) / k;
        } else {
            n = i / k;
        }
        j = static_cast<uint32_t>(i - n * k);
        a = s.a + n * s.c.a_step + j;
    }
};

/* The previous state. That of lstm is c, which is stored among the gates. */
template <typename CELL> __device__ float state_before(const struct cell &s, const struct unit &u)
{
    return CELL::kept == 1 ? 0.0f
                           : uw_at(s.prev, u.n * (CELL::kept == 5 ? s.c.a_step : s.c.h_step) + u.j);
}

template <typename CELL> struct forward {
    __device__ void operator()(const struct cell &s, const struct unit &u) const
    {
        float v[UW_CELL_BLOCKS];
        for (unsigned g = 0; g < CELL::kept; g++) {
            bool there = g < CELL::gates || (CELL::kept == 4 && s.prev != NULL);
            v[g] = (there ? u.a[static_cast<size_t>(g) * u.k] : 0.0f) +
                   CELL::bias(s.b_ih, s.b_hh, g, u.k, u.j);
        }
        s.h[u.n * s.c.h_step + u.j] = CELL::forward(v, state_before<CELL>(s, u), s.c.relu);
        for (unsigned g = 0; g < CELL::kept && CELL::kept > 1; g++) {
            u.a[static_cast<size_t>(g) * u.k] = v[g];
        }
    }
};

template <typename CELL> struct backward {
    __device__ void operator()(const struct cell &s, const struct unit &u) const
    {
        float v[UW_CELL_BLOCKS], *dh = &s.dh[u.n * u.k + u.j];
        struct uw_cell_past past = {0.0f, s.dc != NULL ? s.dc[u.n * u.k + u.j] : 0.0f};
        for (unsigned g = 0; g < CELL::kept; g++) {
            v[g] = u.a[static_cast<size_t>(g) * u.k];
        }
        CELL::backward(v, CELL::kept == 1 ? s.h[u.n * s.c.h_step + u.j] : 0.0f,
                       state_before<CELL>(s, u), *dh + uw_at(s.dy, u.n * s.c.dy_step + u.j),
                       s.c.relu, past);
        for (unsigned g = 0; g < (CELL::kept == 5 ? 4 : CELL::kept); g++) {
            u.a[static_cast<size_t>(g) * u.k] = v[g];
        }
        if (CELL::kept == 4) {
            *dh = past.h;
        }
        if (CELL::kept == 5) {
            s.dc[u.n * u.k + u.j] = past.c;
        }
    }
};

template <typename F> __global__ void run_cell(size_t n, struct cell s, F f)
{
    UW_EACH(i, n) {
        f(s, unit(s, i));
    }
}

template <typename F> int run(const struct uw_exec *e, const struct cell &s)
{
    size_t n = static_cast<size_t>(s.c.batch_n) * s.c.hidden;
    return uw_launch(e, uw_grid(e, n, 1), UW_BLOCK, run_cell<F>, n, s, F{});
}

/* Remove const to fill struct cell. fw writes gates, bw only reads h. */
float *written(const float *x)
{
    return const_cast<float *>(x);
}

int rnn_fw(const struct uw_exec *e, const struct uw_cell *c, const float *b_ih, const float *b_hh,
           const float *a, float *h)
{
    return run<forward<uw_rnn_unit>>(e, {*c, b_ih, b_hh, NULL, NULL, written(a), h, NULL, NULL});
}

int rnn_bw(const struct uw_exec *e, const struct uw_cell *c, const float *h, const float *dy,
           float *a, const float *dh)
{
    return run<backward<uw_rnn_unit>>(e, {*c, NULL, NULL, NULL, dy, a, written(h), written(dh), NULL});
}

int gru_fw(const struct uw_exec *e, const struct uw_cell *c, const float *b_ih, const float *b_hh,
           const float *h_prev, float *a, float *h)
{
    return run<forward<uw_gru_unit>>(e, {*c, b_ih, b_hh, h_prev, NULL, a, h, NULL, NULL});
}

int gru_bw(const struct uw_exec *e, const struct uw_cell *c, const float *h_prev, const float *dy,
           float *a, float *dh)
{
    return run<backward<uw_gru_unit>>(e, {*c, NULL, NULL, h_prev, dy, a, NULL, dh, NULL});
}

int lstm_fw(const struct uw_exec *e, const struct uw_cell *c, const float *b_ih, const float *b_hh,
            const float *c_prev, float *a, float *h)
{
    return run<forward<uw_lstm_unit>>(e, {*c, b_ih, b_hh, c_prev, NULL, a, h, NULL, NULL});
}

int lstm_bw(const struct uw_exec *e, const struct uw_cell *c, const float *c_prev, const float *dy,
            float *a, const float *dh, float *dc)
{
    return run<backward<uw_lstm_unit>>(e, {*c, NULL, NULL, c_prev, dy, a, NULL, written(dh), dc});
}

template <unsigned LANES>
__global__ void softmax_forward(size_t rows, uint32_t n, bool causal, const float *x, float *y)
{
    __shared__ float shared[UW_WARPS];
    size_t per_block = blockDim.x / LANES;
    unsigned lane = threadIdx.x % LANES;
    for (size_t r = blockIdx.x * per_block + threadIdx.x / LANES; r < rows;
         r += gridDim.x * per_block) {
        const float *from = x + r * n;
        float *to = y + r * n, top = -INFINITY, sum = 0.0f;
        uint32_t seen = causal ? static_cast<uint32_t>(r % n) + 1u : n;
        for (uint32_t j = lane; j < seen; j += LANES) {
            top = fmaxf(top, from[j]);
        }
        top = uw_row_max<LANES>(top, shared); /* a NaN that it ignores is in the sum */
        for (uint32_t j = lane; j < seen; j += LANES) {
            float p = expf(from[j] - top);
            to[j] = p;
            sum += p;
        }
        sum = uw_row_sum<LANES>(sum, shared);
        for (uint32_t j = lane; j < n; j += LANES) {
            to[j] = j < seen ? to[j] / sum : 0.0f;
        }
    }
}

template <unsigned LANES>
__global__ void softmax_backward(size_t rows, uint32_t n, const float *y, const float *dy,
                                 float *dx)
{
    __shared__ float shared[UW_WARPS];
    size_t per_block = blockDim.x / LANES;
    unsigned lane = threadIdx.x % LANES;
    for (size_t r = blockIdx.x * per_block + threadIdx.x / LANES; r < rows;
         r += gridDim.x * per_block) {
        size_t row = r * n;
        float dot = 0.0f;
        for (uint32_t j = lane; j < n; j += LANES) {
            dot += y[row + j] * dy[row + j];
        }
        dot = uw_row_sum<LANES>(dot, shared);
        for (uint32_t j = lane; j < n; j += LANES) {
            dx[row + j] = y[row + j] * (dy[row + j] - dot);
        }
    }
}

/* The number of lanes for a row of n. */
unsigned lanes_for(uint32_t n)
{
    return n <= UW_LANES ? 8u : n <= 4u * UW_BLOCK ? UW_LANES : UW_BLOCK;
}

int softmax_fw(const struct uw_exec *e, size_t rows, uint32_t n, bool causal, const float *x,
               float *y)
{
    unsigned lanes = lanes_for(n);
    return uw_launch(e, uw_grid(e, rows * lanes, 1), UW_BLOCK,
                     lanes == 8u         ? softmax_forward<8>
                     : lanes == UW_LANES ? softmax_forward<UW_LANES>
                                         : softmax_forward<UW_BLOCK>,
                     rows, n, causal, x, y);
}

int softmax_bw_input(const struct uw_exec *e, size_t rows, uint32_t n, const float *y,
                     const float *dy, float *dx)
{
    unsigned lanes = lanes_for(n);
    return uw_launch(e, uw_grid(e, rows * lanes, 1), UW_BLOCK,
                     lanes == 8u         ? softmax_backward<8>
                     : lanes == UW_LANES ? softmax_backward<UW_LANES>
                                         : softmax_backward<UW_BLOCK>,
                     rows, n, y, dy, dx);
}

} // namespace

extern const struct uw_sequence_kernels uw_sequence_cuda = {
    rnn_fw, rnn_bw, gru_fw, gru_bw, lstm_fw, lstm_bw, softmax_fw, softmax_bw_input,
    &uw_recurrence_cuda};
