/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies of rows: for short rows a block covers several, so that no lane is idle. Permutations that
 * move the innermost axis transpose tiles in shared memory. */
#include "map.cuh"
#include "reduce.cuh"
#include "rows_moved.cuh"

namespace {

struct same : uw_map_plain {
    __device__ void operator()(size_t, const float *in, float *out) const
    {
        out[0] = in[0];
    }
};

struct added : uw_map_plain {
    __device__ void operator()(size_t, const float *in, float *out) const
    {
        out[0] = in[1] + in[0];
    }
};

/* Offsets of row r in x and y. */
struct strided {
    size_t x_step, y_step;
    __device__ bool at(size_t r, size_t *from, size_t *to) const
    {
        *from = r * x_step;
        *to = r * y_step;
        return true;
    }
};

int copy(const struct uw_exec *e, const struct uw_copy *c, const float *x, float *y,
         bool accumulate)
{
    bool whole = c->rows == 1 || (c->x_step == c->row_n && c->y_step == c->row_n);
    if (!whole) {
        return uw_move_rows(e, c->rows, c->row_n, (c->x_step | c->y_step) % 4 == 0, x, y,
                            accumulate, strided{c->x_step, c->y_step});
    }
    size_t n = c->rows * c->row_n;
    return accumulate ? uw_map(e, n, uw_arrays<2, 1>{{x, y}, {y}}, added{})
                      : uw_map(e, n, uw_arrays<1, 1>{{x}, {y}}, same{});
}

/* The output's axes, and their strides in the input. */
struct axes {
    uint32_t dim[3];
    size_t step[3];
    size_t sample;
};

struct axes axes_of(const struct uw_permute *p)
{
    const size_t step_of[3] = {static_cast<size_t>(p->dim[1]) * p->dim[2], p->dim[2], 1};
    struct axes a;
    for (int i = 0; i < 3; i++) {
        a.dim[i] = p->dim[p->order[i]];
        a.step[i] = step_of[p->order[i]];
    }
    a.sample = p->dim[0] * step_of[0];
    return a;
}

/* The innermost axis stays: rows (sample, i, j) are copied as a whole. */
struct permuted {
    struct axes a;
    template <typename I> __device__ size_t source(I r) const
    {
        I left = r / a.dim[1], sample = left / a.dim[0];
        return sample * a.sample + static_cast<size_t>(left - sample * a.dim[0]) * a.step[0] +
               static_cast<size_t>(r - left * a.dim[1]) * a.step[1];
    }
    __device__ bool at(size_t r, size_t *from, size_t *to) const
    {
        *to = r * a.dim[2];
        *from = r <= UINT32_MAX ? source(static_cast<uint32_t>(r)) : source(r);
        return true;
    }
};

/* Element by element; I is wide enough to index all of them. */
template <typename I, bool ADD>
__global__ void permute_small(I n, struct axes a, const float *x, float *y)
{
    for (I i = static_cast<I>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
         i += static_cast<I>(gridDim.x) * blockDim.x) {
        I left = i / a.dim[2];
        size_t from = static_cast<size_t>(i - left * a.dim[2]) * a.step[2];
        I next = left / a.dim[1];
        from += static_cast<size_t>(left - next * a.dim[1]) * a.step[1];
        I sample = next / a.dim[0];
        from += static_cast<size_t>(next - sample * a.dim[0]) * a.step[0] + sample * a.sample;
        y[i] = ADD ? y[i] + x[from] : x[from];
    }
}

#define TILE 32u
#define TILE_ROWS 8u

/* The two axes to transpose, and the third: `wide` is contiguous in the input, `narrow` in the
 * output. */
struct turn {
    uint32_t wide, narrow, third;
    size_t x_narrow, x_third, y_wide, y_third, sample;
    unsigned tiles_wide;
    size_t planes;                  /* third of all samples */
};

struct turn turn_of(const struct uw_permute *p, uint32_t batch_n)
{
    const struct axes a = axes_of(p);
    const size_t y_step[3] = {static_cast<size_t>(a.dim[1]) * a.dim[2], a.dim[2], 1};
    uint32_t at = p->order[0] == 2 ? 0 : 1; /* new position of the innermost axis */
    struct turn t;
    t.wide = p->dim[2];
    t.narrow = a.dim[2];
    t.third = a.dim[1 - at];
    t.x_narrow = a.step[2];
    t.x_third = a.step[1 - at];
    t.y_wide = y_step[at];
    t.y_third = y_step[1 - at];
    t.sample = a.sample;
    t.tiles_wide = (t.wide + TILE - 1u) / TILE;
    t.planes = static_cast<size_t>(t.third) * batch_n;
    return t;
}

template <bool ADD> __global__ void permute_tiles(struct turn t, const float *x, float *y)
{
    __shared__ float tile[TILE][TILE + 1u]; /* padded: columns are in different banks */
    unsigned column = threadIdx.x % TILE, row = threadIdx.x / TILE;
    size_t wide = static_cast<size_t>(blockIdx.x % t.tiles_wide) * TILE;
    size_t narrow = static_cast<size_t>(blockIdx.x / t.tiles_wide) * TILE;
    for (size_t plane = blockIdx.y; plane < t.planes; plane += gridDim.y) {
        size_t sample = plane / t.third * t.sample, third = plane % t.third;
        const float *from = x + sample + third * t.x_third;
        float *to = y + sample + third * t.y_third;
        for (unsigned k = row; k < TILE; k += TILE_ROWS) {
            if (narrow + k < t.narrow && wide + column < t.wide) {
                tile[k][column] = from[(narrow + k) * t.x_narrow + wide + column];
            }
        }
        __syncthreads();
        for (unsigned k = row; k < TILE; k += TILE_ROWS) {
            if (wide + k < t.wide && narrow + column < t.narrow) {
                float *at = to + (wide + k) * t.y_wide + narrow + column;
                *at = ADD ? *at + tile[column][k] : tile[column][k];
            }
        }
        __syncthreads();
    }
}

int permute_by_tiles(const struct uw_exec *e, const struct turn &t, const float *x, float *y,
                     bool accumulate)
{
    size_t tiles = static_cast<size_t>(t.tiles_wide) * ((t.narrow + TILE - 1u) / TILE);
    dim3 grid(static_cast<unsigned>(tiles),
              static_cast<unsigned>(t.planes < 32768u ? t.planes : 32768u));
    return uw_launch(e, grid, TILE * TILE_ROWS,
                     accumulate ? permute_tiles<true> : permute_tiles<false>, t, x, y);
}

template <typename I>
int permute_each(const struct uw_exec *e, size_t n, const struct axes &a, const float *x, float *y,
                 bool accumulate)
{
    return uw_launch(e, uw_grid(e, n, 4), UW_BLOCK,
                     accumulate ? permute_small<I, true> : permute_small<I, false>,
                     static_cast<I>(n), a, x, y);
}

int permute(const struct uw_exec *e, const struct uw_permute *p, uint32_t batch_n, const float *x,
            float *y, bool accumulate)
{
    const struct axes a = axes_of(p);
    size_t n = a.sample * batch_n;
    if (p->order[2] == 2 && a.dim[2] >= 4) {
        return uw_move_rows(e, n / a.dim[2], a.dim[2], a.dim[2] % 4 == 0, x, y, accumulate,
                            permuted{a});
    }
    if (n > 0 && p->order[2] != 2 && a.dim[2] >= 8 && p->dim[2] >= 8) {
        return permute_by_tiles(e, turn_of(p, batch_n), x, y, accumulate);
    }
    return n <= UINT32_MAX / 2 ? permute_each<uint32_t>(e, n, a, x, y, accumulate)
                               : permute_each<size_t>(e, n, a, x, y, accumulate);
}

/* Sum columns: a warp reads 32 adjacent ones, and eight warps divide the rows. The last block of a
 * tile adds the partial sums in parts, [blocks][n]. */
__global__ void sum_rows_kernel(size_t rows, uint32_t n, size_t step, size_t rows_each,
                                const float *dy, float scale, float *parts, uint32_t *tickets,
                                float *db)
{
    __shared__ float sums[TILE_ROWS][TILE];
    unsigned lane = threadIdx.x % TILE, row = threadIdx.x / TILE;
    size_t column = static_cast<size_t>(blockIdx.x) * TILE + lane;
    size_t first = blockIdx.y * rows_each;
    size_t end = first + rows_each < rows ? first + rows_each : rows;
    const bool adds = row == 0 && column < n;
    float sum = 0.0f;
    if (column < n) {
#pragma unroll 4
        for (size_t i = first + row; i < end; i += TILE_ROWS) {
            sum += dy[i * step + column];
        }
    }
    sums[row][lane] = sum;
    __syncthreads();
    for (unsigned k = 1; k < TILE_ROWS && adds; k++) {
        sum += sums[k][lane];
    }
    if (gridDim.y > 1) {
        if (adds) {
            parts[static_cast<size_t>(blockIdx.y) * n + column] = sum;
        }
        if (!uw_last_block(tickets + blockIdx.x, gridDim.y)) {
            return;
        }
        sum = 0.0f;
        for (unsigned k = 0; k < gridDim.y && adds; k++) {
            sum += __ldcg(parts + static_cast<size_t>(k) * n + column);
        }
    }
    if (adds) {
        db[column] += scale * sum;
    }
}

/* Parts to divide the rows into, where the columns alone do not fill the GPU. */
unsigned row_parts(const struct uw_exec *e, size_t rows, uint32_t n, unsigned tiles)
{
    size_t wanted = (uw_cuda_of(e)->multiprocessors * 4u + tiles - 1u) / tiles;
    size_t most = rows / 64u, room = UW_CUDA_PARTIALS_BYTES / sizeof(float) / n;
    wanted = wanted < most ? wanted : most;
    wanted = wanted < room ? wanted : room;
    wanted = tiles <= UW_CUDA_TICKETS ? wanted : 1;
    return wanted < 1 ? 1 : static_cast<unsigned>(wanted < 64u ? wanted : 64u);
}

int sum_rows(const struct uw_exec *e, size_t rows, uint32_t n, size_t step, const float *dy,
             float scale, float *db)
{
    if (rows == 0 || n == 0) {
        return UW_OK;
    }
    unsigned tiles = (n + TILE - 1u) / TILE, parts = row_parts(e, rows, n, tiles);
    size_t each = (rows + parts - 1u) / parts;
    return uw_launch(e, dim3(tiles, parts), TILE * TILE_ROWS, sum_rows_kernel, rows, n, step, each,
                     dy, scale, static_cast<float *>(uw_cuda_of(e)->partials),
                     uw_cuda_of(e)->tickets, db);
}

} // namespace

extern const struct uw_copy_kernels uw_copy_cuda = {copy, permute, uw_gather_cuda,
                                                    uw_scatter_add_cuda, sum_rows};
