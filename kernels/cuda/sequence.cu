/* SPDX-License-Identifier: Apache-2.0
 *
 * Cells: a thread is a unit of one sample. Softmax: a row is a few lanes', a warp's or a block's. */
#include "rows.cuh"

namespace {

__device__ inline float sigmoid(float x)
{
    float small = expf(-fabsf(x)); /* no overflow on either side */
    return (x < 0.0f ? small : 1.0f) / (1.0f + small);
}

__device__ inline float at(const float *x, size_t i)
{
    return x != NULL ? x[i] : 0.0f;
}

/* What all cells' kernels take. h: written forward, read backward; prev: the state before. */
struct cell {
    struct uw_cell c;
    const float *b_ih, *b_hh, *prev, *dy;
    float *a, *h, *dh, *dc;
};

/* Where a unit's numbers are. */
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
    /* Gate i before its function. */
    __device__ float before(const struct cell &s, size_t i) const
    {
        return a[i * k] + at(s.b_ih, i * k + j) + at(s.b_hh, i * k + j);
    }
    /* Gradient of h. */
    __device__ float slope(const struct cell &s) const
    {
        return s.dh[n * k + j] + at(s.dy, n * s.c.dy_step + j);
    }
};

struct rnn_forward {
    __device__ void operator()(const struct cell &s, const struct unit &u) const
    {
        float v = u.before(s, 0);
        s.h[u.n * s.c.h_step + u.j] = !s.c.relu ? tanhf(v) : v <= 0.0f ? 0.0f : v; /* NaN stays */
    }
};

struct rnn_backward {
    __device__ void operator()(const struct cell &s, const struct unit &u) const
    {
        float h = s.h[u.n * s.c.h_step + u.j], d = u.slope(s);
        u.a[0] = !s.c.relu ? d * (1.0f - h * h) : h > 0.0f ? d : 0.0f;
    }
};

struct gru_forward {
    __device__ void operator()(const struct cell &s, const struct unit &u) const
    {
        size_t k = u.k, i = u.n * s.c.h_step + u.j;
        float r = sigmoid(u.before(s, 0)), z = sigmoid(u.before(s, 1));
        float m = (s.prev != NULL ? u.a[3 * k] : 0.0f) + at(s.b_hh, 2 * k + u.j);
        float g = tanhf(u.a[2 * k] + at(s.b_ih, 2 * k + u.j) + r * m);
        u.a[0] = r;
        u.a[k] = z;
        u.a[2 * k] = g;
        u.a[3 * k] = m;
        s.h[i] = (1.0f - z) * g + z * at(s.prev, i);
    }
};

struct gru_backward {
    __device__ void operator()(const struct cell &s, const struct unit &u) const
    {
        size_t k = u.k;
        float d = u.slope(s);
        float r = u.a[0], z = u.a[k], g = u.a[2 * k], m = u.a[3 * k];
        float dg = d * (1.0f - z) * (1.0f - g * g);
        u.a[0] = dg * m * r * (1.0f - r);
        u.a[k] = d * (at(s.prev, u.n * s.c.h_step + u.j) - g) * z * (1.0f - z);
        u.a[2 * k] = dg;
        u.a[3 * k] = dg * r;
        s.dh[u.n * k + u.j] = d * z;
    }
};

struct lstm_forward {
    __device__ void operator()(const struct cell &s, const struct unit &u) const
    {
        size_t k = u.k;
        float i = sigmoid(u.before(s, 0)), f = sigmoid(u.before(s, 1));
        float g = tanhf(u.before(s, 2)), o = sigmoid(u.before(s, 3));
        float state = f * at(s.prev, u.n * s.c.a_step + u.j) + i * g;
        u.a[0] = i;
        u.a[k] = f;
        u.a[2 * k] = g;
        u.a[3 * k] = o;
        u.a[4 * k] = state;
        s.h[u.n * s.c.h_step + u.j] = o * tanhf(state);
    }
};

struct lstm_backward {
    __device__ void operator()(const struct cell &s, const struct unit &u) const
    {
        size_t k = u.k;
        float d = u.slope(s), *dc = &s.dc[u.n * k + u.j];
        float i = u.a[0], f = u.a[k], g = u.a[2 * k], o = u.a[3 * k];
        float t = tanhf(u.a[4 * k]);
        float dstate = *dc + d * o * (1.0f - t * t);
        u.a[0] = dstate * g * i * (1.0f - i);
        u.a[k] = dstate * at(s.prev, u.n * s.c.a_step + u.j) * f * (1.0f - f);
        u.a[2 * k] = dstate * i * (1.0f - g * g);
        u.a[3 * k] = d * t * o * (1.0f - o);
        *dc = dstate * f;
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

/* In the way forward gates are read and written, in the way back h is only read. */
float *written(const float *x)
{
    return const_cast<float *>(x);
}

int rnn_fw(const struct uw_exec *e, const struct uw_cell *c, const float *b_ih, const float *b_hh,
           const float *a, float *h)
{
    return run<rnn_forward>(e, {*c, b_ih, b_hh, NULL, NULL, written(a), h, NULL, NULL});
}

int rnn_bw(const struct uw_exec *e, const struct uw_cell *c, const float *h, const float *dy,
           float *a, const float *dh)
{
    return run<rnn_backward>(e, {*c, NULL, NULL, NULL, dy, a, written(h), written(dh), NULL});
}

int gru_fw(const struct uw_exec *e, const struct uw_cell *c, const float *b_ih, const float *b_hh,
           const float *h_prev, float *a, float *h)
{
    return run<gru_forward>(e, {*c, b_ih, b_hh, h_prev, NULL, a, h, NULL, NULL});
}

int gru_bw(const struct uw_exec *e, const struct uw_cell *c, const float *h_prev, const float *dy,
           float *a, float *dh)
{
    return run<gru_backward>(e, {*c, NULL, NULL, h_prev, dy, a, NULL, dh, NULL});
}

int lstm_fw(const struct uw_exec *e, const struct uw_cell *c, const float *b_ih, const float *b_hh,
            const float *c_prev, float *a, float *h)
{
    return run<lstm_forward>(e, {*c, b_ih, b_hh, c_prev, NULL, a, h, NULL, NULL});
}

int lstm_bw(const struct uw_exec *e, const struct uw_cell *c, const float *c_prev, const float *dy,
            float *a, const float *dh, float *dc)
{
    return run<lstm_backward>(e, {*c, NULL, NULL, c_prev, dy, a, NULL, written(dh), dc});
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
        top = uw_row_max<LANES>(top, shared); /* a NaN that it leaves out comes by the sum */
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

/* Lanes of a row of n. */
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
    rnn_fw, rnn_bw, gru_fw, gru_bw, lstm_fw, lstm_bw, softmax_fw, softmax_bw_input};
