/* SPDX-License-Identifier: Apache-2.0
 *
 * All steps of a recurrent layer in one launch. Samples are independent, so a block loops over time
 * for a few of them, with the states, and as much of W_hh as fits, in shared memory. cuDNN's RNN is
 * not used: it needs the weights in an opaque buffer, its gru and lstm store data that only its own
 * backward pass reads, and each call needs workspace outside the plan (not measured on a card). */
#include "cell.cuh"
#include "recurrence.cuh"

namespace {

constexpr unsigned THREADS_MAX = 512u;
constexpr uint32_t HIDDEN_MAX = 512u;
constexpr uint32_t STEPS_MAX = 1u << 30;        /* rows of a sample, see recurrence_param.cu */
constexpr uint32_t WEIGHTS_MAX = 1u << 17;      /* above, a product per step is as fast */

/* Arguments of the forward and backward kernels. */
struct walk {
    struct uw_recurrence r;
    struct uw_held m;
    const float *b_ih, *b_hh, *dy, *dlast;
    float *a, *h, *last;
};

/* A thread's unit; threads after the last unit have none. */
struct place {
    bool there = false;
    uint32_t n = 0, j = 0;              /* sample of the block, unit */
    size_t sample = 0;
    __device__ place() {}
    __device__ place(const struct walk &s, unsigned samples, unsigned x)
    {
        unsigned i = threadIdx.x + x * blockDim.x;
        n = i / s.r.hidden;
        j = i - n * s.r.hidden;
        sample = static_cast<size_t>(blockIdx.x) * samples + n;
        there = n < samples && sample < s.r.batch_n;
    }
    /* The row of the i-th step computed. */
    __device__ size_t row(const struct walk &s, uint32_t i) const
    {
        return sample * s.r.steps + (s.r.reverse ? s.r.steps - 1u - i : i);
    }
    __device__ float *gates(const struct walk &s, uint32_t i, unsigned kept) const
    {
        return s.a + row(s, i) * kept * s.r.hidden + j;
    }
    __device__ size_t state(const struct walk &s, uint32_t i) const
    {
        return row(s, i) * s.r.hidden + j;
    }
};

/* A unit's forward pass; inputs are loaded one step ahead. */
template <typename CELL> struct forward_unit {
    struct place at;
    float bias[CELL::kept] = {}, in[CELL::gates] = {}, prev = 0.0f;

    __device__ void open(const struct walk &s, unsigned samples, unsigned x)
    {
        at = place(s, samples, x);
        if (at.there) {
            for (unsigned g = 0; g < CELL::kept; g++) {
                bias[g] = CELL::bias(s.b_ih, s.b_hh, g, s.r.hidden, at.j);
            }
            read(s, 0);
        }
    }
    __device__ void read(const struct walk &s, uint32_t i)
    {
        const float *a = at.gates(s, i, CELL::kept);
        for (unsigned g = 0; g < CELL::gates; g++) {
            in[g] = a[g * s.r.hidden];
        }
    }
    /* sums: W_hh h; NULL in the first step. Returns the state. */
    __device__ float step(const struct walk &s, uint32_t i, const float *sums)
    {
        float v[CELL::kept];
        for (unsigned g = 0; g < CELL::kept; g++) {
            v[g] = g < CELL::gates ? in[g] : 0.0f;
        }
        for (unsigned g = 0; g < CELL::gates && sums != nullptr; g++) {
            v[CELL::place(g)] += sums[at.n * s.m.rows + g * s.r.hidden + at.j];
        }
        for (unsigned g = 0; g < CELL::kept; g++) {
            v[g] += bias[g];
        }
        float h = CELL::forward(v, prev, s.r.relu);
        float *a = at.gates(s, i, CELL::kept);
        for (unsigned g = 0; g < CELL::kept && CELL::kept > 1 && s.r.keeps; g++) {
            a[g * s.r.hidden] = v[g];
        }
        prev = CELL::kept == 5 ? v[CELL::kept - 1] : h;
        if (s.h != nullptr) {
            s.h[at.state(s, i)] = h;
        }
        if (s.last != nullptr && i + 1u == s.r.steps) {
            s.last[at.sample * s.r.hidden + at.j] = h;
        }
        return h;
    }
};

/* W_hh h for S samples; rows of up to K weights are in registers; K 0: in shared memory. */
template <unsigned K, unsigned S> struct states {
    uw_row_kept<K> row;
    __device__ static uint32_t wide(const struct uw_held &) { return K; }
    __device__ void open(struct uw_held &m, float *) { row.open(m); }
    __device__ void multiply(const struct uw_held &m, const float *h, float *sums) const
    {
        row.template by_state<S>(m, h, sums);
    }
};
template <unsigned S> struct states<0, S> {
    __device__ static uint32_t wide(const struct uw_held &m) { return uw_in_fours(m.hidden); }
    __device__ void open(struct uw_held &m, float *first)
    {
        m.first = first;
        uw_hold(m, first);
    }
    __device__ void multiply(const struct uw_held &m, const float *h, float *sums) const
    {
        if (m.vector == 4) {
            uw_rows_by_state<S, 4>(m, h, sums);
        } else if (m.vector == 2) {
            uw_rows_by_state<S, 2>(m, h, sums);
        } else {
            uw_rows_by_state<S, 1>(m, h, sums);
        }
    }
};

/* hidden up to SMALL: a thread per row, or per gate and column, with its weights in registers. */
constexpr uint32_t SMALL = 64u;
template <unsigned K> constexpr unsigned most_threads = K > 0 ? 4u * SMALL : THREADS_MAX;

/* Blocks per multiprocessor with one sample per block, as in samples_of: 128 registers each. */
template <unsigned K, unsigned S>
constexpr unsigned least_blocks = S == 1 ? THREADS_MAX / most_threads<K> : 1u;

/* Units per thread: four samples may have more units than the block has threads. */
template <unsigned S> constexpr unsigned units_of = S > 2 ? 2u : 1u;

/* Shared: h [S][wide], sums [S][rows], rows of W_hh. */
template <typename CELL, unsigned K, unsigned S>
__global__ void __launch_bounds__(most_threads<K>, least_blocks<K, S>) run_forward(struct walk s)
{
    UW_DYNAMIC_SHARED(float, shared);
    uint32_t wide = states<K, S>::wide(s.m);
    float *h = shared, *sums = h + S * wide;
    struct forward_unit<CELL> unit[units_of<S>];
    states<K, S> product;
    product.open(s.m, sums + uw_in_fours(S * s.m.rows));
    for (uint32_t i = threadIdx.x; i < S * wide; i += blockDim.x) {
        h[i] = 0.0f; /* also for samples beyond the minibatch */
    }
#pragma unroll
    for (unsigned x = 0; x < units_of<S>; x++) {
        unit[x].open(s, S, x);
    }
    __syncthreads();
    for (uint32_t i = 0; i < s.r.steps; i++) {
        if (i > 0) {
            product.multiply(s.m, h, sums);
            __syncthreads();
        }
#pragma unroll
        for (unsigned x = 0; x < units_of<S>; x++) {
            if (unit[x].at.there) {
                float state = unit[x].step(s, i, i > 0 ? sums : nullptr);
                h[unit[x].at.n * wide + unit[x].at.j] = state;
                if (i + 1u < s.r.steps) {
                    unit[x].read(s, i + 1u);
                }
            }
        }
        __syncthreads();
    }
}

/* A unit's backward pass; inputs are loaded one step ahead. */
template <typename CELL> struct backward_unit {
    struct place at;
    float v[CELL::kept] = {}, h = 0.0f, prev = 0.0f, dy = 0.0f, dh = 0.0f;
    struct uw_cell_past past = {0.0f, 0.0f};

    __device__ void open(const struct walk &s, unsigned samples, unsigned x)
    {
        at = place(s, samples, x);
        if (at.there) {
            read(s, s.r.steps - 1u);
            dy += uw_at(s.dlast, at.sample * s.r.hidden + at.j);
        }
    }
    __device__ void read(const struct walk &s, uint32_t i)
    {
        const float *a = at.gates(s, i, CELL::kept);
        for (unsigned g = 0; g < CELL::kept; g++) {
            v[g] = a[g * s.r.hidden];
        }
        h = CELL::kept == 1 ? s.h[at.state(s, i)] : 0.0f;
        dy = uw_at(s.dy, at.state(s, i));
        prev = 0.0f;
        if (i > 0 && CELL::kept == 4) {
            prev = s.h[at.state(s, i - 1u)];
        }
        if (i > 0 && CELL::kept == 5) {
            prev = at.gates(s, i - 1u, CELL::kept)[4 * s.r.hidden];
        }
    }
    /* da: this sample's gradients to multiply by W_hh, gates `apart` floats apart. */
    __device__ void step(const struct walk &s, uint32_t i, uint32_t apart, float *da)
    {
        float *a = at.gates(s, i, CELL::kept);
        CELL::backward(v, h, prev, dy + dh, s.r.relu, past);
        for (unsigned g = 0; g < (CELL::kept == 5 ? 4u : CELL::kept); g++) {
            a[g * s.r.hidden] = v[g];
        }
        for (unsigned g = 0; g < CELL::gates; g++) {
            da[g * apart + at.j] = v[CELL::place(g)];
        }
    }
    /* parts [groups][samples][wide] */
    __device__ void pass(unsigned samples, uint32_t groups, uint32_t wide, const float *parts)
    {
        dh = past.h;
        for (uint32_t g = 0; g < groups; g++) {
            dh += parts[(g * samples + at.n) * wide + at.j];
        }
    }
};

/* da W_hh for S samples, with weights as in states. Strides in shared memory: gates of da `apart`,
 * samples of da `high`, samples of parts `wide`. */
template <unsigned K, unsigned S> struct pasts {
    uw_column_kept<K> column;
    uint32_t apart, high, wide, groups;
    __device__ explicit pasts(const struct uw_held &m)
        : apart(K), high(m.rows / m.hidden * K), wide(K), groups(m.rows / m.hidden)
    {
    }
    __device__ void open(struct uw_held &m, float *) { column.open(m); }
    __device__ void multiply(const struct uw_held &m, const float *da, float *parts) const
    {
        column.template by_rows<S>(m, high, da, parts);
    }
};
template <unsigned S> struct pasts<0, S> {
    uint32_t apart, high, wide, groups;
    __device__ explicit pasts(const struct uw_held &m)
        : apart(m.hidden), high(uw_in_fours(m.rows)), wide(uw_in_fours(m.hidden)),
          groups(uw_row_groups(m.rows, m.hidden, m.vector, blockDim.x))
    {
    }
    __device__ void open(struct uw_held &m, float *first)
    {
        m.first = first;
        uw_hold(m, first);
    }
    __device__ void multiply(const struct uw_held &m, const float *da, float *parts) const
    {
        if (m.vector == 4) {
            uw_state_by_rows<S, 4>(m, da, parts);
        } else if (m.vector == 2) {
            uw_state_by_rows<S, 2>(m, da, parts);
        } else {
            uw_state_by_rows<S, 1>(m, da, parts);
        }
    }
};

/* Shared: da [S][high], parts [groups][S][wide], rows of W_hh. */
template <typename CELL, unsigned K, unsigned S>
__global__ void __launch_bounds__(most_threads<K>, least_blocks<K, S>) run_backward(struct walk s)
{
    UW_DYNAMIC_SHARED(float, shared);
    pasts<K, S> product(s.m);
    float *da = shared, *parts = da + S * product.high;
    struct backward_unit<CELL> unit[units_of<S>];
    product.open(s.m, parts + product.groups * S * product.wide);
    for (uint32_t i = threadIdx.x; i < S * product.high; i += blockDim.x) {
        da[i] = 0.0f;
    }
#pragma unroll
    for (unsigned x = 0; x < units_of<S>; x++) {
        unit[x].open(s, S, x);
    }
    __syncthreads();
    for (uint32_t i = s.r.steps; i-- > 0;) {
#pragma unroll
        for (unsigned x = 0; x < units_of<S>; x++) {
            if (unit[x].at.there) {
                unit[x].step(s, i, product.apart, da + unit[x].at.n * product.high);
                if (i > 0) {
                    unit[x].read(s, i - 1u);
                }
            }
        }
        if (i == 0) {
            break;
        }
        __syncthreads();
        product.multiply(s.m, da, parts);
        __syncthreads();
#pragma unroll
        for (unsigned x = 0; x < units_of<S>; x++) {
            if (unit[x].at.there) {
                unit[x].pass(S, product.groups, product.wide, parts);
            }
        }
    }
}

uint32_t gates_of(const struct uw_recurrence *r)
{
    return r->cell == UW_RECURRENCE_LSTM ? 4u : r->cell == UW_RECURRENCE_GRU ? 3u : 1u;
}

bool takes(const struct uw_kernels *, const struct uw_recurrence *r)
{
    return r->hidden >= 1 && r->hidden <= HIDDEN_MAX &&
           gates_of(r) * r->hidden * r->hidden <= WEIGHTS_MAX && r->steps <= STEPS_MAX;
}

/* Depends on the shape only, so that the order of sums is the same on every GPU: at least the
 * columns of W_hh, and enough for the units of samples_of. */
unsigned threads_of(const struct uw_held &m)
{
    unsigned least = 2u * m.hidden, n = m.rows * m.hidden / 16u;
    n = ((n > least ? n : least) + UW_LANES - 1u) / UW_LANES * UW_LANES;
    return n < THREADS_MAX ? n : THREADS_MAX;
}

/* Samples per block: just so many that all blocks run at once. Registers limit their number. */
unsigned samples_of(const struct uw_exec *e, const struct walk &s, unsigned threads)
{
    uint32_t at_once = uw_cuda_of(e)->multiprocessors * (THREADS_MAX / threads);
    if (s.r.batch_n <= at_once || s.r.hidden > HIDDEN_MAX / 2) {
        return 1;
    }
    return (s.r.batch_n + 1u) / 2u <= at_once ? 2 : 4;
}

struct walk walk_of(const struct uw_recurrence *r, const float *w_hh)
{
    struct walk s = {};
    s.r = *r;
    s.m.w = w_hh;
    s.m.rows = gates_of(r) * r->hidden;
    s.m.hidden = r->hidden;
    uintptr_t bits = reinterpret_cast<uintptr_t>(w_hh) | r->hidden * sizeof(float);
    s.m.vector = bits % 16u == 0 ? 4u : bits % 8u == 0 ? 2u : 1u;
    return s;
}

/* Keep as many rows of W_hh in shared memory as fit after the `floats` that the kernel needs. */
void hold(const struct uw_exec *e, struct walk &s, uint32_t floats)
{
    size_t room = (uw_cuda_of(e)->shared_bytes / sizeof(float) - floats) / s.m.hidden;
    s.m.held = s.r.steps < 2 ? 0 : room < s.m.rows ? static_cast<uint32_t>(room) : s.m.rows;
}

int launch(const struct uw_exec *e, void (*kernel)(struct walk), const struct walk &s,
           unsigned samples, unsigned threads, uint32_t floats)
{
    const struct uw_cuda *c = uw_cuda_of(e);
    size_t bytes = sizeof(float) * (floats + static_cast<size_t>(s.m.held) * s.m.hidden);
    if (bytes > 48u << 10) { /* above the default limit */
        cudaError_t rc = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                              static_cast<int>(c->shared_bytes));
        if (rc != cudaSuccess) {
            return uw_cuda_launched(e, rc);
        }
    }
    uint32_t blocks = s.r.batch_n / samples + (s.r.batch_n % samples != 0);
    return uw_launch_shared(e, s.r.steps > 0 ? blocks : 0, threads, bytes, kernel, s);
}

unsigned small_threads(const struct uw_held &m)
{
    unsigned least = m.rows > 2u * m.hidden ? m.rows : 2u * m.hidden;
    return (least + UW_LANES - 1u) / UW_LANES * UW_LANES;
}

template <typename CELL, unsigned K> int forward_small(const struct uw_exec *e, struct walk &s)
{
    unsigned threads = small_threads(s.m), n = samples_of(e, s, threads) > 1 ? 4 : 1;
    return launch(e, n == 1 ? run_forward<CELL, K, 1> : run_forward<CELL, K, 4>, s, n, threads,
                  n * K + uw_in_fours(n * s.m.rows));
}

template <typename CELL, unsigned K> int backward_small(const struct uw_exec *e, struct walk &s)
{
    unsigned threads = small_threads(s.m), n = samples_of(e, s, threads) > 1 ? 4 : 1;
    return launch(e, n == 1 ? run_backward<CELL, K, 1> : run_backward<CELL, K, 4>, s, n, threads,
                  n * 2u * CELL::gates * K);
}

template <typename CELL> int forward(const struct uw_exec *e, struct walk &s)
{
    if (s.r.hidden <= SMALL) {
        return s.r.hidden <= 32 ? forward_small<CELL, 32>(e, s) : forward_small<CELL, 64>(e, s);
    }
    unsigned threads = threads_of(s.m), n = samples_of(e, s, threads);
    uint32_t floats = n * uw_in_fours(s.r.hidden) + uw_in_fours(n * s.m.rows);
    hold(e, s, floats);
    return launch(e,
                  n == 1   ? run_forward<CELL, 0, 1>
                  : n == 2 ? run_forward<CELL, 0, 2>
                           : run_forward<CELL, 0, 4>,
                  s, n, threads, floats);
}

template <typename CELL> int backward(const struct uw_exec *e, struct walk &s)
{
    if (s.r.hidden <= SMALL) {
        return s.r.hidden <= 32 ? backward_small<CELL, 32>(e, s) : backward_small<CELL, 64>(e, s);
    }
    unsigned threads = threads_of(s.m), n = samples_of(e, s, threads);
    uint32_t groups = uw_row_groups(s.m.rows, s.r.hidden, s.m.vector, threads);
    uint32_t floats = n * (uw_in_fours(s.m.rows) + groups * uw_in_fours(s.r.hidden));
    hold(e, s, floats);
    return launch(e,
                  n == 1   ? run_backward<CELL, 0, 1>
                  : n == 2 ? run_backward<CELL, 0, 2>
                           : run_backward<CELL, 0, 4>,
                  s, n, threads, floats);
}

int fw(const struct uw_exec *e, const struct uw_recurrence *r, const float *w_hh,
       const float *b_ih, const float *b_hh, float *a, float *h, float *last)
{
    struct walk s = walk_of(r, w_hh);
    s.b_ih = b_ih;
    s.b_hh = b_hh;
    s.a = a;
    s.h = h;
    s.last = last;
    return r->cell == UW_RECURRENCE_RNN   ? forward<uw_rnn_unit>(e, s)
           : r->cell == UW_RECURRENCE_GRU ? forward<uw_gru_unit>(e, s)
                                          : forward<uw_lstm_unit>(e, s);
}

int bw(const struct uw_exec *e, const struct uw_recurrence *r, const float *w_hh, const float *h,
       const float *dy, const float *dlast, float *a)
{
    struct walk s = walk_of(r, w_hh);
    s.h = const_cast<float *>(h); /* only read */
    s.dy = dy;
    s.dlast = dlast;
    s.a = a;
    return r->cell == UW_RECURRENCE_RNN   ? backward<uw_rnn_unit>(e, s)
           : r->cell == UW_RECURRENCE_GRU ? backward<uw_gru_unit>(e, s)
                                          : backward<uw_lstm_unit>(e, s);
}

} // namespace

extern const struct uw_recurrence_kernels uw_recurrence_cuda = {
    takes, fw, bw, uw_recurrence_bw_param_cuda, uw_recurrence_scratch_bytes_cuda,
    uw_gemm_batch_cuda};
