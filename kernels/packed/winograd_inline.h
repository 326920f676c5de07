/* SPDX-License-Identifier: Apache-2.0
 *
 * winograd_inline.h - struct uw_winograd_ops for any instruction set
 *
 * Included after tile_inline.h. The file says before, and what winograd_product_inline.h asks:
 *
 *   vec_sub(a, b)                a - b
 *   vec_mul(a, b)                a * b
 */
#ifndef UW_KERNELS_WINOGRAD_INLINE_H
#define UW_KERNELS_WINOGRAD_INLINE_H

#include "packed/winograd_product_inline.h"

/* Column c of B^T d. */
static inline __attribute__((always_inline)) void input_column(const float *d, size_t pitch,
                                                               vec (*t)[4], uint32_t c)
{
    vec d0 = vec_load(d), d1 = vec_load(d + pitch);
    vec d2 = vec_load(d + 2 * pitch), d3 = vec_load(d + 3 * pitch);
    t[0][c] = vec_sub(d0, d2);
    t[1][c] = vec_add(d1, d2);
    t[2][c] = vec_sub(d2, d1);
    t[3][c] = vec_sub(d1, d3);
}

static void winograd_input(uint32_t tiles, const float *d, size_t pitch, float *v, size_t step,
                           size_t plane)
{
    for (uint32_t lane = 0; lane < LANES; lane += VEC_N) {
        const float *from = d + lane;
        float *to = v + lane;
        vec t[4][4];
        input_column(from, pitch, t, 0);
        input_column(from + LANES, pitch, t, 1);
        for (uint32_t i = 0; i < tiles; i++) {
            from += 2 * LANES;
            input_column(from, pitch, t, 2);
            input_column(from + LANES, pitch, t, 3);
            UNROLLED (uint32_t r = 0; r < 4; r++) {
                float *row = to + 4 * r * plane;
                vec_store(row, vec_sub(t[r][0], t[r][2]));
                vec_store(row + plane, vec_add(t[r][1], t[r][2]));
                vec_store(row + 2 * plane, vec_sub(t[r][2], t[r][1]));
                vec_store(row + 3 * plane, vec_sub(t[r][1], t[r][3]));
                t[r][0] = t[r][2];
                t[r][1] = t[r][3];
            }
            to += step;
        }
    }
}

static void winograd_spread(uint32_t tiles, const float *y, size_t pitch, float *v, size_t step,
                            size_t plane)
{
    for (uint32_t lane = 0; lane < LANES; lane += VEC_N) {
        const float *from = y + lane;
        float *to = v + lane;
        for (uint32_t i = 0; i < tiles; i++) {
            vec left[4], right[4];
            left[0] = vec_load(from);
            right[0] = vec_load(from + LANES);
            vec y10 = vec_load(from + pitch), y11 = vec_load(from + pitch + LANES);
            left[1] = vec_add(left[0], y10);
            right[1] = vec_add(right[0], y11);
            left[2] = vec_sub(left[0], y10);
            right[2] = vec_sub(right[0], y11);
            left[3] = vec_sub(vec_all(0.0f), y10);
            right[3] = vec_sub(vec_all(0.0f), y11);
            UNROLLED (uint32_t r = 0; r < 4; r++) {
                float *row = to + 4 * r * plane;
                vec_store(row, left[r]);
                vec_store(row + plane, vec_add(left[r], right[r]));
                vec_store(row + 2 * plane, vec_sub(left[r], right[r]));
                vec_store(row + 3 * plane, vec_sub(vec_all(0.0f), right[r]));
            }
            from += 2 * LANES;
            to += step;
        }
    }
}

static void winograd_output(uint32_t tiles, const float *m, size_t step, size_t plane,
                            const float *bias, float *y, size_t pitch)
{
    for (uint32_t lane = 0; lane < LANES; lane += VEC_N) {
        const float *from = m + lane;
        float *to = y + lane;
        vec b = vec_load(bias + lane);
        for (uint32_t i = 0; i < tiles; i++) {
            vec s[2][4];
            UNROLLED (uint32_t c = 0; c < 4; c++) {
                const float *at = from + c * plane;
                vec m0 = vec_load(at), m1 = vec_load(at + 4 * plane);
                vec m2 = vec_load(at + 8 * plane), m3 = vec_load(at + 12 * plane);
                s[0][c] = vec_add(m0, vec_add(m1, m2));
                s[1][c] = vec_sub(vec_sub(m1, m2), m3);
            }
            UNROLLED (uint32_t r = 0; r < 2; r++) {
                vec left = vec_add(s[r][0], vec_add(s[r][1], s[r][2]));
                vec right = vec_sub(vec_sub(s[r][1], s[r][2]), s[r][3]);
                vec_store(to + r * pitch, vec_add(left, b));
                vec_store(to + r * pitch + LANES, vec_add(right, b));
            }
            from += step;
            to += 2 * LANES;
        }
    }
}

static void winograd_weights(const float *g, bool mirror, float *u, size_t plane)
{
    const vec half = vec_all(0.5f);
    for (uint32_t lane = 0; lane < NR; lane += VEC_N) {
        const float *first = g + lane + (mirror ? 8 * NR : 0);
        ptrdiff_t next = mirror ? -(ptrdiff_t)NR : (ptrdiff_t)NR;
        vec t[4][3];
        UNROLLED (uint32_t c = 0; c < 3; c++) {
            vec g0 = vec_load(first + (ptrdiff_t)c * next);
            vec g1 = vec_mul(half, vec_load(first + (ptrdiff_t)(c + 3) * next));
            vec g2 = vec_load(first + (ptrdiff_t)(c + 6) * next);
            vec ends = vec_mul(half, vec_add(g0, g2));
            t[0][c] = g0;
            t[1][c] = vec_add(ends, g1);
            t[2][c] = vec_sub(ends, g1);
            t[3][c] = g2;
        }
        UNROLLED (uint32_t r = 0; r < 4; r++) {
            float *row = u + lane + 4 * r * plane;
            vec ends = vec_mul(half, vec_add(t[r][0], t[r][2])), middle = vec_mul(half, t[r][1]);
            vec_store(row, t[r][0]);
            vec_store(row + plane, vec_add(ends, middle));
            vec_store(row + 2 * plane, vec_sub(ends, middle));
            vec_store(row + 3 * plane, t[r][2]);
        }
    }
}

static void winograd_taps(const float *m, size_t plane, float *g)
{
    const vec half = vec_all(0.5f);
    for (uint32_t lane = 0; lane < LANES; lane += VEC_N) {
        vec t[3][4];
        UNROLLED (uint32_t c = 0; c < 4; c++) {
            const float *at = m + lane + c * plane;
            vec m0 = vec_load(at), m1 = vec_load(at + 4 * plane);
            vec m2 = vec_load(at + 8 * plane), m3 = vec_load(at + 12 * plane);
            vec both = vec_mul(half, vec_add(m1, m2));
            t[0][c] = vec_add(m0, both);
            t[1][c] = vec_mul(half, vec_sub(m1, m2));
            t[2][c] = vec_add(both, m3);
        }
        UNROLLED (uint32_t r = 0; r < 3; r++) {
            float *row = g + lane + 3 * r * LANES;
            vec both = vec_mul(half, vec_add(t[r][1], t[r][2]));
            vec_store(row, vec_add(t[r][0], both));
            vec_store(row + LANES, vec_mul(half, vec_sub(t[r][1], t[r][2])));
            vec_store(row + 2 * LANES, vec_add(both, t[r][3]));
        }
    }
}

static const struct uw_winograd_ops winograd = {
    .input = winograd_input,
    .spread = winograd_spread,
    .output = winograd_output,
    .weights = winograd_weights,
    .taps = winograd_taps,
    .multiply = multiply_lanes,
    .multiply_columns = multiply_columns,
};

#endif
