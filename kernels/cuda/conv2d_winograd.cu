/* SPDX-License-Identifier: Apache-2.0
 *
 * Winograd transforms. A thread has one tile of a channel, or the taps of one kernel, in registers;
 * adjacent threads have adjacent tiles, so that accesses to transformed data are coalesced. */
#include "conv2d_winograd.h"
#include "conv2d_winograd.cuh"
#include "floats.cuh"
#include "index.cuh"

#define SIX 6
#define FOUR 4

namespace {

struct tiles {
    struct uw_winograd_tiles t;
    struct uw_divisor all, each, per_image, across; /* all: tiles of a channel, with padding */
    bool whole;             /* rows of four values are aligned for one load or store */
};

/* A thread's tile. */
struct place {
    uint32_t channel, tile; /* of the slice */
    int32_t row, column;    /* of the first result */
    size_t plane;           /* the plane's first value */
};

static __device__ __forceinline__ struct place place_of(const struct tiles &a, uint32_t i)
{
    struct place at;
    at.channel = uw_quotient(a.all, i);
    at.tile = i - at.channel * a.all.by;
    if (at.tile >= a.t.n) { /* padding: a row below every plane */
        at.row = static_cast<int32_t>(a.t.h + a.t.pad_h);
        at.column = 0;
        at.plane = 0;
        return at;
    }
    uint32_t tile = a.t.first + at.tile, image = uw_quotient(a.per_image, tile);
    tile -= image * a.t.per_image;
    uint32_t down = uw_quotient(a.across, tile);
    at.row = static_cast<int32_t>(down * FOUR);
    at.column = static_cast<int32_t>((tile - down * a.t.across) * FOUR);
    at.plane = (static_cast<size_t>(image) * a.t.channels + at.channel) * a.t.h * a.t.w;
    return at;
}

/* Offset of a tile's value at point 0; the next point's is `step` floats further. */
static __device__ __forceinline__ size_t point_of(const struct tiles &a, const struct place &at)
{
    const uint32_t part = uw_quotient(a.each, at.tile);
    return (static_cast<size_t>(part) * a.t.channels + at.channel) * a.t.pitch + at.tile -
           part * a.t.each;
}

static __device__ __forceinline__ size_t step_of(const struct tiles &a)
{
    return static_cast<size_t>(a.t.parts) * a.t.channels * a.t.pitch;
}

/* Load N values of a row of a plane, beginning at a column; zeros outside. whole: the middle four
 * of six, or all four, are one aligned vector, inside or outside. */
template <int N>
static __device__ __forceinline__ void row_of(const struct tiles &a, const float *plane,
                                              int32_t row, int32_t column, float *d)
{
    const int32_t h = static_cast<int32_t>(a.t.h), w = static_cast<int32_t>(a.t.w);
    const bool inside = row >= 0 && row < h;
    const float *x = plane + (inside ? static_cast<size_t>(row) * a.t.w : 0);
    const int first = N == SIX ? 1 : 0;
    if (a.whole) {
        const bool four = inside && column + first < w;
        uw_floats<4> v = {};
        if (four) {
            v = uw_load<4>(x + column + first);
        }
#pragma unroll
        for (int k = 0; k < FOUR; k++) {
            d[first + k] = v.v[k];
        }
        if (N == SIX) {
            d[0] = inside && column >= 0 && column < w ? x[column] : 0.0f;
            d[N - 1] = inside && column + N - 1 < w ? x[column + N - 1] : 0.0f;
        }
        return;
    }
#pragma unroll
    for (int k = 0; k < N; k++) {
        d[k] = inside && column + k >= 0 && column + k < w ? x[column + k] : 0.0f;
    }
}

struct by_input {
    __device__ __forceinline__ void operator()(const float *d, float *t) const
    {
        uw_winograd_row_input(d, t);
    }
};

struct by_spread {
    __device__ __forceinline__ void operator()(const float *d, float *t) const
    {
        uw_winograd_row_spread(d, t);
    }
};

/* Transform tiles of N x N values to 36: rows, then columns. */
template <int N, typename Row>
static __global__ void __launch_bounds__(UW_BLOCK)
    transform_kernel(struct tiles a, size_t all, const float *x, float *v, Row transform)
{
    UW_EACH(i, all) {
        const struct place at = place_of(a, static_cast<uint32_t>(i));
        float m[N][SIX];
#pragma unroll
        for (int r = 0; r < N; r++) {
            float d[N];
            row_of<N>(a, x + at.plane, at.row - static_cast<int32_t>(a.t.pad_h) + r,
                      at.column - static_cast<int32_t>(a.t.pad_w), d);
            transform(d, m[r]);
        }
        float *out = v + point_of(a, at);
        const size_t step = step_of(a);
#pragma unroll
        for (int k = 0; k < SIX; k++) {
            float d[N], t[SIX];
#pragma unroll
            for (int r = 0; r < N; r++) {
                d[r] = m[r][k];
            }
            transform(d, t);
#pragma unroll
            for (int r = 0; r < SIX; r++) {
                out[static_cast<size_t>(r * SIX + k) * step] = t[r];
            }
        }
    }
}

static __device__ __forceinline__ void write_row(const struct tiles &a, bool accumulate,
                                                 int32_t column, const float *v, float *y)
{
    if (a.whole) {
        uw_floats<4> old = {};
        if (accumulate) {
            old = uw_load<4>(y + column);
        }
#pragma unroll
        for (int k = 0; k < FOUR; k++) {
            old.v[k] += v[k];
        }
        uw_store<4>(y + column, old);
        return;
    }
#pragma unroll
    for (int k = 0; k < FOUR; k++) {
        if (column + k < static_cast<int32_t>(a.t.w)) {
            y[column + k] = accumulate ? y[column + k] + v[k] : v[k];
        }
    }
}

static __global__ void __launch_bounds__(UW_BLOCK)
    output_kernel(struct tiles a, size_t all, const float *m, bool accumulate, float *y)
{
    UW_EACH(i, all) {
        const struct place at = place_of(a, static_cast<uint32_t>(i));
        const float *in = m + point_of(a, at);
        const size_t step = step_of(a);
        float t[FOUR][SIX];
#pragma unroll
        for (int k = 0; k < SIX; k++) {
            float d[SIX], out[FOUR];
#pragma unroll
            for (int r = 0; r < SIX; r++) {
                d[r] = in[static_cast<size_t>(r * SIX + k) * step];
            }
            uw_winograd_row_output(d, out);
#pragma unroll
            for (int r = 0; r < FOUR; r++) {
                t[r][k] = out[r];
            }
        }
#pragma unroll
        for (int r = 0; r < FOUR; r++) {
            if (at.row + r < static_cast<int32_t>(a.t.h)) {
                float out[FOUR];
                uw_winograd_row_output(t[r], out);
                write_row(a, accumulate, at.column, out,
                          y + at.plane + static_cast<size_t>(at.row + r) * a.t.w);
            }
        }
    }
}

static __global__ void __launch_bounds__(UW_BLOCK)
    weights_kernel(size_t n, const float *w, float *u)
{
    UW_EACH(i, n) {
        float t[3][SIX];
#pragma unroll
        for (int r = 0; r < 3; r++) {
            float g[3];
#pragma unroll
            for (int k = 0; k < 3; k++) {
                g[k] = w[i * 9u + static_cast<unsigned>(8 - r * 3 - k)]; /* reversed */
            }
            uw_winograd_row_weights(g, t[r]);
        }
#pragma unroll
        for (int k = 0; k < SIX; k++) {
            const float g[3] = {t[0][k], t[1][k], t[2][k]};
            float out[SIX];
            uw_winograd_row_weights(g, out);
#pragma unroll
            for (int r = 0; r < SIX; r++) {
                u[static_cast<size_t>(r * SIX + k) * n + i] = out[r];
            }
        }
    }
}

static __global__ void __launch_bounds__(UW_BLOCK)
    taps_kernel(size_t n, uint32_t parts, const float *s, float scale, float *dw)
{
    UW_EACH(i, n) {
        float t[3][SIX];
#pragma unroll
        for (int k = 0; k < SIX; k++) {
            float d[SIX], g[3];
#pragma unroll
            for (int r = 0; r < SIX; r++) {
                const float *at = s + static_cast<size_t>(r * SIX + k) * parts * n + i;
                d[r] = at[0];
                for (uint32_t part = 1; part < parts; part++) {
                    d[r] += at[part * n];
                }
            }
            uw_winograd_row_taps(d, g);
#pragma unroll
            for (int r = 0; r < 3; r++) {
                t[r][k] = g[r];
            }
        }
#pragma unroll
        for (int r = 0; r < 3; r++) {
            float g[3];
            uw_winograd_row_taps(t[r], g);
#pragma unroll
            for (int k = 0; k < 3; k++) {
                dw[i * 9u + static_cast<unsigned>(r * 3 + k)] += scale * g[k];
            }
        }
    }
}

} /* namespace */

/* pad: distance from a tile's first result to the first of its four aligned columns */
static struct tiles tiles_of(const struct uw_winograd_tiles *t, const float *planes, uint32_t pad)
{
    struct tiles a = {};
    a.t = *t;
    a.all = uw_divisor_of(t->parts * t->each);
    a.each = uw_divisor_of(t->each);
    a.per_image = uw_divisor_of(t->per_image);
    a.across = uw_divisor_of(t->across);
    a.whole = t->w % FOUR == 0 && t->pad_w == pad &&
              reinterpret_cast<uintptr_t>(planes) % (FOUR * sizeof(float)) == 0;
    return a;
}

static size_t threads_of(const struct uw_winograd_tiles *t)
{
    return static_cast<size_t>(t->channels) * t->parts * t->each;
}

template <int N, typename Row>
static int transform(const struct uw_exec *e, const struct uw_winograd_tiles *t, const float *x,
                     float *v, Row row)
{
    size_t all = threads_of(t);
    return uw_launch(e, uw_grid(e, all, 1), UW_BLOCK, transform_kernel<N, Row>,
                     tiles_of(t, x, N == SIX ? 1 : 0), all, x, v, row);
}

int uw_winograd_weights(const struct uw_exec *e, size_t n, const float *w, float *u)
{
    return uw_launch(e, uw_grid(e, n, 1), UW_BLOCK, weights_kernel, n, w, u);
}

int uw_winograd_input(const struct uw_exec *e, const struct uw_winograd_tiles *t, const float *x,
                      float *v)
{
    return transform<SIX>(e, t, x, v, by_input{});
}

int uw_winograd_spread(const struct uw_exec *e, const struct uw_winograd_tiles *t, const float *dy,
                       float *v)
{
    return transform<FOUR>(e, t, dy, v, by_spread{});
}

int uw_winograd_output(const struct uw_exec *e, const struct uw_winograd_tiles *t, const float *m,
                       bool accumulate, float *y)
{
    size_t all = threads_of(t);
    return uw_launch(e, uw_grid(e, all, 1), UW_BLOCK, output_kernel, tiles_of(t, y, 0), all, m,
                     accumulate, y);
}

int uw_winograd_taps(const struct uw_exec *e, size_t n, uint32_t parts, const float *s, float scale,
                     float *dw)
{
    return uw_launch(e, uw_grid(e, n, 1), UW_BLOCK, taps_kernel, n, parts, s, scale, dw);
}
