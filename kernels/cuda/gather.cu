/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows by index. An index out of range is an error outside of a step; inside of one it stops the
 * step, and gather reads row 0 while scatter_add skips it. */
#include "reduce.cuh"
#include "rows_moved.cuh"

#define ROWS_MAX 32u                /* rows of dw that a block adds to */
#define TAKEN 4u                    /* indices that a thread checks at a time */
#define CHUNK (UW_BLOCK * TAKEN)
#define WARPS (UW_BLOCK / UW_LANES)

namespace {

/* The row index in x; `rows` if it is not valid. */
__device__ inline uint32_t row_of(float x, uint32_t rows)
{
    if (!(x >= 0.0f && x < static_cast<float>(rows))) {
        return rows;
    }
    uint32_t row = static_cast<uint32_t>(x);
    return static_cast<float>(row) == x && row < rows ? row : rows;
}

/* Where to report an invalid index. */
struct complaint {
    uint32_t *stopped;              /* of the step; NULL outside of one */
    uint32_t *found;                /* pinned memory */
    __device__ void raise(void) const
    {
        if (stopped != NULL) {
            (void)atomicCAS(stopped, static_cast<unsigned>(UW_DEVICE_RUNS),
                            static_cast<unsigned>(UW_DEVICE_STOP_LOSS));
        } else {
            uw_racing(found) = 1;
        }
    }
};

struct complaint complaint_of(const struct uw_exec *e)
{
    struct uw_cuda *c = uw_cuda_of(e);
    if (c->in_step) {
        return {&c->step->sums.stopped, NULL};
    }
    c->numbers->u[0] = 0; /* earlier kernels that wrote it have been waited for */
    return {NULL, &c->numbers_at->u[0]};
}

/* Outside of a step: wait, and check for invalid indices. */
int answer(const struct uw_exec *e, int rc)
{
    struct uw_cuda_numbers got;
    if (rc < 0 || uw_cuda_of(e)->in_step) {
        return rc;
    }
    rc = uw_cuda_numbers(e, &got);
    return rc < 0 ? rc : got.u[0] != 0 ? UW_ERR_INVALID : UW_OK;
}

struct gathered {
    const float *x;
    uint32_t rows, row_n;
    struct complaint bad;
    __device__ bool at(size_t r, size_t *from, size_t *to) const
    {
        uint32_t row = row_of(x[r], rows);
        if (row == rows) {
            bad.raise();
            row = 0;
        }
        *from = static_cast<size_t>(row) * row_n;
        *to = r * row_n;
        return true;
    }
};

/* A block adds to rows_each rows of dw, from row `first` on, in `across` adjacent columns. It
 * checks all indices and lists those of its rows in the order of i. A thread alone has one column
 * of every groups-th row; its sums stay in shared memory until the end. */
struct scatter {
    size_t n;
    uint32_t rows, row_n, rows_each;
    unsigned across;
    const float *x, *dy;
    float scale;
    float *dw;
    struct complaint bad;
};

/* List the block's own indices in the chunk at base: position in the chunk, row. Returns their
 * number. counts: one of two halves, used in turn, so that a chunk without any needs only one
 * barrier. */
__device__ inline unsigned find_own(const struct scatter &s, size_t base, uint32_t first,
                                    unsigned *counts, unsigned *list)
{
    unsigned lane = threadIdx.x % UW_LANES, warp = threadIdx.x / UW_LANES;
    unsigned own[TAKEN], row[TAKEN];
    for (unsigned k = 0; k < TAKEN; k++) {
        size_t i = base + k * UW_BLOCK + threadIdx.x;
        uint32_t r = i < s.n ? row_of(s.x[i], s.rows) : s.rows;
        if (i < s.n && r == s.rows && blockIdx.x == 0 && blockIdx.y == 0) {
            s.bad.raise();
        }
        row[k] = r - first;
        bool is_own = r != s.rows && r >= first && r - first < s.rows_each;
        own[k] = __ballot_sync(UW_ALL_LANES, is_own);
        if (lane == 0) {
            counts[k * WARPS + warp] = static_cast<unsigned>(__popc(own[k]));
        }
    }
    __syncthreads();
    unsigned before = counts[lane];
    for (unsigned by = 1; by < UW_LANES; by *= 2) {
        unsigned other = __shfl_up_sync(UW_ALL_LANES, before, by);
        before += lane >= by ? other : 0;
    }
    unsigned all = __shfl_sync(UW_ALL_LANES, before, UW_LANES - 1);
    before -= counts[lane];
    for (unsigned k = 0; k < TAKEN && all > 0; k++) {
        unsigned at = __shfl_sync(UW_ALL_LANES, before, static_cast<int>(k * WARPS + warp));
        if ((own[k] >> lane & 1u) != 0) {
            at += static_cast<unsigned>(__popc(own[k] & ((1u << lane) - 1u)));
            list[at] = (k * UW_BLOCK + threadIdx.x) * ROWS_MAX + row[k];
        }
    }
    return all;
}

/* A thread's column and rows; rows whose bit is set in touched have their sum in sums. */
struct column {
    size_t at;
    unsigned place, group, groups;
    uint32_t touched;
};

__device__ inline void add_own(const struct scatter &s, size_t base, uint32_t first, unsigned all,
                               const unsigned *list, float *sums, struct column *c)
{
    for (unsigned m = 0; m < all; m += TAKEN) {
        float d[TAKEN];
        unsigned row[TAKEN];
#pragma unroll
        for (unsigned k = 0; k < TAKEN; k++) {
            unsigned item = m + k < all ? list[m + k] : 0;
            row[k] = item % ROWS_MAX;
            bool is_mine = m + k < all && row[k] % c->groups == c->group && c->at < s.row_n;
            d[k] = is_mine ? s.dy[(base + item / ROWS_MAX) * s.row_n + c->at] : 0.0f;
            row[k] = is_mine ? row[k] : ROWS_MAX;
        }
#pragma unroll
        for (unsigned k = 0; k < TAKEN; k++) {
            if (row[k] == ROWS_MAX) {
                continue;
            }
            float *sum = &sums[row[k] * s.across + c->place];
            if ((c->touched >> row[k] & 1u) == 0) {
                c->touched |= 1u << row[k];
                *sum = s.dw[static_cast<size_t>(first + row[k]) * s.row_n + c->at];
            }
            *sum += s.scale * d[k];
        }
    }
}

__global__ void scatter_rows(struct scatter s)
{
    __shared__ unsigned counts[2][UW_LANES];
    __shared__ unsigned list[CHUNK];
    __shared__ float sums[ROWS_MAX * UW_BLOCK];
    uint32_t first = blockIdx.x * s.rows_each;
    struct column c;
    unsigned half = 0;
    c.place = threadIdx.x % s.across;
    c.group = threadIdx.x / s.across;
    c.groups = UW_BLOCK / s.across;
    c.at = static_cast<size_t>(blockIdx.y) * s.across + c.place;
    c.touched = 0;
    for (size_t base = 0; base < s.n; base += CHUNK) {
        unsigned all = find_own(s, base, first, counts[half], list);
        half = 1 - half;
        if (all > 0) {
            __syncthreads();
            add_own(s, base, first, all, list, sums, &c);
            __syncthreads();
        }
    }
    for (uint32_t r = 0; r < s.rows_each; r++) {
        if ((c.touched >> r & 1u) != 0) {
            s.dw[static_cast<size_t>(first + r) * s.row_n + c.at] = sums[r * s.across + c.place];
        }
    }
}

} // namespace

int uw_gather_cuda(const struct uw_exec *e, size_t n, uint32_t rows, uint32_t row_n,
                   const float *x, const float *w, float *y)
{
    if (n == 0) {
        return UW_OK;
    }
    int rc = uw_move_rows(e, n, row_n, row_n % 4 == 0, w, y, false,
                          gathered{x, rows, row_n, complaint_of(e)});
    return answer(e, rc);
}

int uw_scatter_add_cuda(const struct uw_exec *e, size_t n, uint32_t rows, uint32_t row_n,
                        const float *x, const float *dy, float scale, float *dw)
{
    if (n == 0 || row_n == 0) {
        return UW_OK;
    }
    struct scatter s = {n, rows, row_n, 1, UW_LANES, x, dy, scale, dw, complaint_of(e)};
    while (s.across < UW_BLOCK && s.across < row_n) {
        s.across *= 2;
    }
    unsigned chunks = (row_n + s.across - 1u) / s.across;
    uint32_t blocks = uw_cuda_of(e)->multiprocessors * 8u / chunks + 1u;
    s.rows_each = rows / blocks + 1u;
    s.rows_each = s.rows_each < ROWS_MAX ? s.rows_each : ROWS_MAX;
    dim3 grid((rows - 1u) / s.rows_each + 1u, chunks);
    return answer(e, uw_launch(e, grid, UW_BLOCK, scatter_rows, s));
}
