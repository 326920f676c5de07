/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients of W_hh and both biases over all samples and steps. Rows, one per sample and step, are
 * divided into parts; each part writes its sums to scratch, and a second launch adds them. The
 * order of sums depends on the shape only. */
#include "index.cuh"

namespace {

constexpr unsigned TILE = 64u;          /* tile of W_hh's gradient, and columns of a bias block */
constexpr unsigned CHUNK = 16u;         /* rows in shared memory */
constexpr unsigned ACROSS = UW_BLOCK / TILE;
constexpr unsigned BLOCKS = 256u;       /* approximate number of blocks wanted */
constexpr uint32_t ROWS_LEAST = 64u;    /* of a part */
constexpr uint32_t ROWS_MOST = 1u << 30;

struct job {
    struct uw_recurrence r;
    uint32_t gates_n, row_n;            /* rows of W_hh; floats of a row of a */
    uint32_t across, tiles, bias_tiles; /* tiles of W_hh per row, in all; tiles of the biases */
    uint32_t weights_n, biases_n;       /* sums of a part: first those of W_hh */
    unsigned parts;
    struct uw_divisor pairs;            /* steps - 1: rows of a sample with a previous state */
    const float *a, *h;
    float scale, *sums, *dw, *d_ih, *d_hh;
};

__device__ uint32_t column_of_gate(const struct job &s, uint32_t gate)
{
    bool apart = s.r.cell == UW_RECURRENCE_GRU && gate >= 2u * s.r.hidden;
    return apart ? gate + s.r.hidden : gate; /* gru's n: W_hn h is a separate block of a */
}

/* Set the rows [*first, *end) of this part, of n. */
__device__ void part_of(const struct job &s, uint32_t n, uint32_t *first, uint32_t *end)
{
    uint32_t each = (n + s.parts - 1u) / s.parts, from = blockIdx.y * each;
    *first = from < n ? from : n;
    *end = n - *first < each ? n : *first + each;
}

/* A thread's share of a chunk of pairs: gates of da, and previous states; 0 outside. */
struct share {
    float da[CHUNK / ACROSS], h[CHUNK / ACROSS];
};

__device__ void fetch(const struct job &s, uint32_t first, uint32_t end, uint32_t gate,
                      uint32_t unit, struct share &out)
{
    unsigned lane = threadIdx.x % TILE;
    bool gate_there = gate + lane < s.gates_n, unit_there = unit + lane < s.r.hidden;
    uint32_t column = column_of_gate(s, gate + lane);
#pragma unroll
    for (unsigned x = 0; x < CHUNK / ACROSS; x++) {
        uint32_t pair = first + threadIdx.x / TILE + x * ACROSS;
        out.da[x] = out.h[x] = 0.0f;
        if (pair < end) {
            size_t row = pair + uw_quotient(s.pairs, pair); /* skips one row per sample */
            size_t later = row + (s.r.reverse ? 0u : 1u), before = row + (s.r.reverse ? 1u : 0u);
            out.da[x] = gate_there ? s.a[later * s.row_n + column] : 0.0f;
            out.h[x] = unit_there ? s.h[before * s.r.hidden + unit + lane] : 0.0f;
        }
    }
}

__device__ void put(const struct share &in, float (*da)[TILE], float (*h)[TILE])
{
#pragma unroll
    for (unsigned x = 0; x < CHUNK / ACROSS; x++) {
        da[threadIdx.x / TILE + x * ACROSS][threadIdx.x % TILE] = in.da[x];
        h[threadIdx.x / TILE + x * ACROSS][threadIdx.x % TILE] = in.h[x];
    }
}

/* A thread has 4 x 4 sums of the tile; the next chunk is loaded while it multiplies. */
__device__ void weights_part(const struct job &s, float (*da)[TILE], float (*h)[TILE])
{
    uint32_t gate = blockIdx.x / s.across * TILE, unit = blockIdx.x % s.across * TILE, first, end;
    unsigned x = threadIdx.x % (TILE / 4u) * 4u, y = threadIdx.x / (TILE / 4u) * 4u;
    float sum[4][4] = {};
    struct share next;
    part_of(s, s.r.batch_n * (s.r.steps - 1u), &first, &end);
    fetch(s, first, end, gate, unit, next);
    for (; first < end; first += CHUNK) {
        put(next, da, h);
        __syncthreads();
        fetch(s, first + CHUNK, end, gate, unit, next);
#pragma unroll
        for (unsigned p = 0; p < CHUNK; p++) {
            float4 d = *reinterpret_cast<const float4 *>(&da[p][y]);
            float4 v = *reinterpret_cast<const float4 *>(&h[p][x]);
            const float left[4] = {d.x, d.y, d.z, d.w}, right[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
            for (unsigned i = 0; i < 16; i++) {
                sum[i / 4][i % 4] += left[i / 4] * right[i % 4];
            }
        }
        __syncthreads();
    }
    float *to = s.sums + static_cast<size_t>(blockIdx.y) * (s.weights_n + s.biases_n);
#pragma unroll
    for (unsigned i = 0; i < 16; i++) {
        uint32_t row = gate + y + i / 4, column = unit + x + i % 4;
        if (row < s.gates_n && column < s.r.hidden) {
            to[row * s.r.hidden + column] = sum[i / 4][i % 4];
        }
    }
}

/* Sums of columns of a over all steps. */
__device__ void biases_part(const struct job &s, float (*shared)[TILE])
{
    unsigned lane = threadIdx.x % TILE, row = threadIdx.x / TILE;
    uint32_t column = (blockIdx.x - s.tiles) * TILE + lane, first, end;
    float sum = 0.0f;
    part_of(s, s.r.batch_n * s.r.steps, &first, &end);
    if (column < s.biases_n) {
#pragma unroll 4
        for (uint32_t i = first + row; i < end; i += ACROSS) {
            sum += s.a[static_cast<size_t>(i) * s.row_n + column];
        }
    }
    shared[row][lane] = sum;
    __syncthreads();
    if (row == 0 && column < s.biases_n) {
        for (unsigned k = 1; k < ACROSS; k++) {
            sum += shared[k][lane];
        }
        s.sums[static_cast<size_t>(blockIdx.y) * (s.weights_n + s.biases_n) + s.weights_n +
               column] = sum;
    }
}

__global__ void __launch_bounds__(UW_BLOCK, 2) sum_parts(struct job s)
{
    __shared__ __align__(16) float da[CHUNK][TILE];
    __shared__ __align__(16) float h[CHUNK][TILE];
    if (blockIdx.x < s.tiles) {
        weights_part(s, da, h);
    } else {
        biases_part(s, da);
    }
}

__device__ void add_bias(const struct job &s, uint32_t column, float sum)
{
    bool gru = s.r.cell == UW_RECURRENCE_GRU;
    uint32_t n = 2u * s.r.hidden;       /* gru: r and z go to both biases, n and m to one each */
    if (s.d_ih != nullptr && (!gru || column < n + s.r.hidden)) {
        s.d_ih[column] += s.scale * sum;
    }
    if (s.d_hh != nullptr && (!gru || column < n || column >= n + s.r.hidden)) {
        s.d_hh[gru && column >= n ? column - s.r.hidden : column] += s.scale * sum;
    }
}

__global__ void __launch_bounds__(UW_BLOCK) add_parts(struct job s)
{
    uint32_t n = s.weights_n + s.biases_n;
    UW_EACH(i, n) {
        float sum = 0.0f;
#pragma unroll 4
        for (unsigned p = 0; p < s.parts; p++) {
            sum += s.sums[static_cast<size_t>(p) * n + i];
        }
        if (i < s.weights_n) {
            s.dw[i] += s.scale * sum;
        } else {
            add_bias(s, static_cast<uint32_t>(i) - s.weights_n, sum);
        }
    }
}

uint32_t tiles_of(uint32_t n)
{
    return (n + TILE - 1u) / TILE;
}

struct job job_of(const struct uw_recurrence *r, bool weights, bool biases)
{
    struct job s = {};
    bool gru = r->cell == UW_RECURRENCE_GRU, lstm = r->cell == UW_RECURRENCE_LSTM;
    s.r = *r;
    s.gates_n = (lstm ? 4u : gru ? 3u : 1u) * r->hidden;
    s.row_n = lstm || gru ? s.gates_n + r->hidden : s.gates_n;
    s.across = tiles_of(r->hidden);
    weights = weights && r->steps > 1;
    s.weights_n = weights ? s.gates_n * r->hidden : 0;
    s.biases_n = biases ? gru ? s.row_n : s.gates_n : 0;
    s.tiles = weights ? tiles_of(s.gates_n) * s.across : 0;
    s.bias_tiles = tiles_of(s.biases_n);
    s.pairs = uw_divisor_of(r->steps > 1 ? r->steps - 1u : 1u);
    uint32_t rows = r->batch_n * r->steps / ROWS_LEAST, most = BLOCKS / (s.tiles + s.bias_tiles + 1u);
    s.parts = rows < most ? rows : most;
    s.parts = s.parts < 1 ? 1 : s.parts;
    return s;
}

} // namespace

/* Samples of one launch, so that its rows fit in 31 bits. */
static uint32_t samples_of(const struct uw_recurrence *r)
{
    uint32_t most = ROWS_MOST / (r->steps > 0 ? r->steps : 1u);
    return r->batch_n < most ? r->batch_n : most;
}

size_t uw_recurrence_scratch_bytes_cuda(const struct uw_kernels *, const struct uw_recurrence *r)
{
    struct uw_recurrence some = *r;
    some.batch_n = samples_of(r);
    size_t most = 0;
    for (unsigned what = 1; what < 4; what++) {
        const struct job s = job_of(&some, (what & 1u) != 0, (what & 2u) != 0);
        size_t bytes = sizeof(float) * s.parts * (static_cast<size_t>(s.weights_n) + s.biases_n);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static int run(const struct uw_exec *e, struct job &s)
{
    size_t n = static_cast<size_t>(s.weights_n) + s.biases_n;
    if (e->scratch_bytes < sizeof(float) * s.parts * n) {
        return UW_ERR_NOMEM;
    }
    s.sums = static_cast<float *>(e->scratch);
    int rc = uw_launch(e, dim3(s.tiles + s.bias_tiles, s.parts), UW_BLOCK, sum_parts, s);
    return rc < 0 ? rc : uw_launch(e, uw_grid(e, n, 1), UW_BLOCK, add_parts, s);
}

int uw_recurrence_bw_param_cuda(const struct uw_exec *e, const struct uw_recurrence *r,
                                const float *a, const float *h, float scale, float *dw_hh,
                                float *db_ih, float *db_hh)
{
    struct uw_recurrence some = *r;
    int rc = UW_OK;
    for (size_t n = 0; n < r->batch_n && r->steps > 0 && rc == UW_OK; n += some.batch_n) {
        some.batch_n = static_cast<uint32_t>(r->batch_n - n);
        some.batch_n = samples_of(&some);
        struct job s = job_of(&some, dw_hh != nullptr, db_ih != nullptr || db_hh != nullptr);
        size_t rows = n * r->steps;
        s.a = a + rows * s.row_n;
        s.h = h + rows * r->hidden;
        s.scale = scale;
        s.dw = dw_hh;
        s.d_ih = db_ih;
        s.d_hh = db_hh;
        rc = run(e, s);
    }
    return rc;
}
