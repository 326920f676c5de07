/* SPDX-License-Identifier: Apache-2.0
 *
 * winograd_inline.h - struct uw_winograd_ops for any instruction set
 *
 * Included after tile_inline.h. The including file defines what winograd_product_inline.h needs,
 * and:
 *
 *   vec_sub(a, b)                a - b
 *   vec_mul(a, b)                a * b
 *
 * A tile is transformed by columns, then by rows. KIND instantiates the functions for a tile size.
 */
#ifndef UW_KERNELS_WINOGRAD_INLINE_H
#define UW_KERNELS_WINOGRAD_INLINE_H

#include "packed/winograd_points_inline.h"
#include "packed/winograd_product_inline.h"

#define IN_MAX 6

typedef void (*points_fn)(const vec *from, vec *to);
typedef void (*points_n_fn)(uint32_t n, const vec *from, vec *to);

/* Column c of B^T d. */
INLINE void input_column(uint32_t in, points_fn input, const float *d, size_t pitch,
                         vec (*t)[IN_MAX], uint32_t c)
{
    vec from[IN_MAX], to[IN_MAX];
    UNROLLED (uint32_t r = 0; r < in; r++) {
        from[r] = vec_load(d + r * pitch);
    }
    input(from, to);
    UNROLLED (uint32_t r = 0; r < in; r++) {
        t[r][c] = to[r];
    }
}

INLINE void input_tiles(uint32_t out, uint32_t in, points_fn input, uint32_t tiles,
                        const float *d, size_t pitch, float *v, size_t step, size_t plane)
{
    for (uint32_t lane = 0; lane < LANES; lane += VEC_N) {
        const float *from = d + lane;
        float *to = v + lane;
        vec t[IN_MAX][IN_MAX], row[IN_MAX];
        UNROLLED (uint32_t c = 0; c < in - out; c++) {
            input_column(in, input, from + c * LANES, pitch, t, c);
        }
        for (uint32_t i = 0; i < tiles; i++) {
            UNROLLED (uint32_t c = in - out; c < in; c++) {
                input_column(in, input, from + c * LANES, pitch, t, c);
            }
            UNROLLED (uint32_t r = 0; r < in; r++) {
                input(t[r], row);
                UNROLLED (uint32_t c = 0; c < in; c++) {
                    vec_store(to + (r * in + c) * plane, row[c]);
                }
                UNROLLED (uint32_t c = 0; c < in - out; c++) {
                    t[r][c] = t[r][c + out];
                }
            }
            from += out * LANES;
            to += step;
        }
    }
}

INLINE void spread_tiles(uint32_t out, uint32_t in, points_n_fn spread, uint32_t tiles,
                         const float *y, size_t pitch, float *v, size_t step, size_t plane)
{
    for (uint32_t lane = 0; lane < LANES; lane += VEC_N) {
        const float *from = y + lane;
        float *to = v + lane;
        for (uint32_t i = 0; i < tiles; i++) {
            vec column[IN_MAX], t[IN_MAX][IN_MAX], row[IN_MAX];
            UNROLLED (uint32_t c = 0; c < out; c++) {
                UNROLLED (uint32_t r = 0; r < out; r++) {
                    column[r] = vec_load(from + r * pitch + c * LANES);
                }
                spread(out, column, row);
                UNROLLED (uint32_t r = 0; r < in; r++) {
                    t[r][c] = row[r];
                }
            }
            UNROLLED (uint32_t r = 0; r < in; r++) {
                spread(out, t[r], row);
                UNROLLED (uint32_t c = 0; c < in; c++) {
                    vec_store(to + (r * in + c) * plane, row[c]);
                }
            }
            from += out * LANES;
            to += step;
        }
    }
}

/* An inverse transform: in x in positions to n x n values. */
INLINE void shrink(uint32_t in, uint32_t n, points_n_fn transform, const float *m, size_t plane,
                   vec (*y)[IN_MAX])
{
    vec s[IN_MAX][IN_MAX];
    UNROLLED (uint32_t c = 0; c < in; c++) {
        vec column[IN_MAX], to[IN_MAX];
        UNROLLED (uint32_t r = 0; r < in; r++) {
            column[r] = vec_load(m + (r * in + c) * plane);
        }
        transform(n, column, to);
        UNROLLED (uint32_t r = 0; r < n; r++) {
            s[r][c] = to[r];
        }
    }
    UNROLLED (uint32_t r = 0; r < n; r++) {
        transform(n, s[r], y[r]);
    }
}

INLINE void output_tiles(uint32_t out, uint32_t in, points_n_fn output, uint32_t tiles,
                         const float *m, size_t step, size_t plane, const float *bias, float *y,
                         size_t pitch)
{
    for (uint32_t lane = 0; lane < LANES; lane += VEC_N) {
        const float *from = m + lane;
        float *to = y + lane;
        vec b = vec_load(bias + lane);
        for (uint32_t i = 0; i < tiles; i++) {
            vec s[IN_MAX][IN_MAX];
            shrink(in, out, output, from, plane, s);
            UNROLLED (uint32_t r = 0; r < out; r++) {
                UNROLLED (uint32_t c = 0; c < out; c++) {
                    vec_store(to + r * pitch + c * LANES, vec_add(s[r][c], b));
                }
            }
            from += step;
            to += out * LANES;
        }
    }
}

INLINE void weights_tile(uint32_t in, uint32_t n, points_n_fn weights, const float *g, bool mirror,
                         float *u, size_t plane)
{
    for (uint32_t lane = 0; lane < NR; lane += VEC_N) {
        vec t[IN_MAX][IN_MAX], column[IN_MAX], row[IN_MAX];
        UNROLLED (uint32_t c = 0; c < n; c++) {
            UNROLLED (uint32_t r = 0; r < n; r++) {
                uint32_t tap = r * n + c;
                column[r] = vec_load(g + lane + (size_t)(mirror ? n * n - 1 - tap : tap) * NR);
            }
            weights(n, column, row);
            UNROLLED (uint32_t r = 0; r < in; r++) {
                t[r][c] = row[r];
            }
        }
        UNROLLED (uint32_t r = 0; r < in; r++) {
            weights(n, t[r], row);
            UNROLLED (uint32_t c = 0; c < in; c++) {
                vec_store(u + lane + (r * in + c) * plane, row[c]);
            }
        }
    }
}

INLINE void taps_tile(uint32_t in, uint32_t n, points_n_fn taps, const float *m, size_t plane,
                      float *g)
{
    for (uint32_t lane = 0; lane < LANES; lane += VEC_N) {
        vec t[IN_MAX][IN_MAX];
        shrink(in, n, taps, m + lane, plane, t);
        UNROLLED (uint32_t r = 0; r < n; r++) {
            UNROLLED (uint32_t c = 0; c < n; c++) {
                vec_store(g + lane + (r * n + c) * LANES, t[r][c]);
            }
        }
    }
}

/* The transforms of F(o x o, k x k); points is `four` or `six`. */
#define KIND(name, points, o, k)                                                                  \
    static void name##_input(uint32_t tiles, const float *d, size_t pitch, float *v, size_t step, \
                             size_t plane)                                                        \
    {                                                                                             \
        input_tiles(o, o + k - 1, points##_input, tiles, d, pitch, v, step, plane);               \
    }                                                                                             \
    static void name##_spread(uint32_t tiles, const float *y, size_t pitch, float *v,             \
                              size_t step, size_t plane)                                          \
    {                                                                                             \
        spread_tiles(o, o + k - 1, points##_spread, tiles, y, pitch, v, step, plane);             \
    }                                                                                             \
    static void name##_output(uint32_t tiles, const float *m, size_t step, size_t plane,          \
                              const float *bias, float *y, size_t pitch)                          \
    {                                                                                             \
        output_tiles(o, o + k - 1, points##_output, tiles, m, step, plane, bias, y, pitch);       \
    }                                                                                             \
    static void name##_weights(const float *g, bool mirror, float *u, size_t plane)               \
    {                                                                                             \
        weights_tile(o + k - 1, k, points##_weights, g, mirror, u, plane);                        \
    }                                                                                             \
    static void name##_taps(const float *m, size_t plane, float *g)                               \
    {                                                                                             \
        taps_tile(o + k - 1, k, points##_taps, m, plane, g);                                      \
    }                                                                                             \
    static const struct uw_winograd_kind name = {                                                 \
        .out = o, .kernel = k, .in = o + k - 1, .input = name##_input, .spread = name##_spread,   \
        .output = name##_output, .weights = name##_weights, .taps = name##_taps,                  \
    };

KIND(f2x3, four, 2, 3)
KIND(f2x5, six, 2, 5)
KIND(f4x3, six, 4, 3)

static const struct uw_winograd_ops winograd = {
    .f2x3 = &f2x3,
    .f2x5 = &f2x5,
    .f4x3 = &f4x3,
    .multiply = multiply_lanes,
    .multiply_columns = multiply_columns,
};

#endif
