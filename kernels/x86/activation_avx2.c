/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations, eight at a time: the functions of uwasa/fmath.h with the same constants and
 * roundings, hence the same bits as the reference. Where fmath.c branches, both sides are computed
 * and one is selected. */
#include "x86/x86.h"

#include "ref/ref.h"
#include "uwasa/status.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

#define TASK_N 16384u               /* elements of one task, a multiple of 8 */

typedef __m256 vec;

static inline vec all(float f)
{
    return _mm256_set1_ps(f);
}

static inline vec add(vec a, vec b)
{
    return _mm256_add_ps(a, b);
}

static inline vec sub(vec a, vec b)
{
    return _mm256_sub_ps(a, b);
}

static inline vec mul(vec a, vec b)
{
    return _mm256_mul_ps(a, b);
}

static inline vec below(vec a, vec b)
{
    return _mm256_cmp_ps(a, b, _CMP_LT_OQ); /* false for NaN */
}

static inline vec choose(vec mask, vec yes, vec no)
{
    return _mm256_blendv_ps(no, yes, mask);
}

static inline vec magnitude(vec x)
{
    return _mm256_andnot_ps(all(-0.0f), x);
}

/* y, negated where x is below 0. */
static inline vec negated_below(vec y, vec x)
{
    return _mm256_xor_ps(y, _mm256_and_ps(below(x, all(0.0f)), all(-0.0f)));
}

/* p[0] z^(n-1) + .. + p[n-1] */
static inline __attribute__((always_inline)) vec polynomial(uint32_t n, const float *p, vec z)
{
    vec s = all(p[0]);
    for (uint32_t i = 1; i < n; i++) {
        s = add(mul(s, z), all(p[i]));
    }
    return s;
}

static inline vec power_of_two(__m256i n)
{
    __m256i bits = _mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23);
    return _mm256_castsi256_ps(bits);
}

static inline vec vec_exp(vec x)
{
    static const float p[] = {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                              4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f};
    vec t = mul(x, all(1.44269504f));
    vec half = choose(below(t, all(0.0f)), all(-0.5f), all(0.5f));
    __m256i n = _mm256_cvttps_epi32(add(t, half));
    vec nf = _mm256_cvtepi32_ps(n);
    vec r = sub(sub(x, mul(nf, all(0.693359375f))), mul(nf, all(-2.12194440e-4f)));
    vec e = add(add(mul(mul(polynomial(6, p, r), r), r), r), all(1.0f));
    /* First the part of n beyond the normal exponents: that is exact, so only one rounding. */
    __m256i inside = _mm256_max_epi32(_mm256_min_epi32(n, _mm256_set1_epi32(127)),
                                      _mm256_set1_epi32(-126));
    e = mul(mul(e, power_of_two(_mm256_sub_epi32(n, inside))), power_of_two(inside));
    e = choose(below(all(88.8f), x), all(INFINITY), e);
    e = choose(below(x, all(-104.0f)), all(0.0f), e);
    return choose(_mm256_cmp_ps(x, x, _CMP_UNORD_Q), x, e);
}

static inline vec vec_sigmoid(vec x)
{
    vec t = vec_exp(_mm256_or_ps(x, all(-0.0f))); /* exp(-|x|) */
    vec s = _mm256_div_ps(choose(below(x, all(0.0f)), t, all(1.0f)), add(all(1.0f), t));
    return choose(_mm256_cmp_ps(x, x, _CMP_UNORD_Q), x, s);
}

static inline vec vec_tanh(vec x)
{
    static const float p[] = {-5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f,
                              1.33314422036e-1f, -3.33332819422e-1f};
    vec a = magnitude(x), z = mul(x, x);
    vec small = add(mul(mul(polynomial(5, p, z), z), x), x);
    vec e = vec_exp(mul(all(2.0f), a));
    vec large = sub(all(1.0f), _mm256_div_ps(all(2.0f), add(e, all(1.0f))));
    large = choose(below(all(9.1f), a), all(1.0f), large);
    vec y = choose(below(a, all(0.625f)), small, negated_below(large, x));
    return choose(_mm256_cmp_ps(x, x, _CMP_UNORD_Q), x, y);
}

static inline vec vec_erf(vec x)
{
    static const float inner[] = {8.5341205704e-5f, -8.1807811512e-4f, 5.2043315955e-3f,
                                  -2.6860708371e-2f, 1.1283718795e-1f, -3.7612634897e-1f};
    static const float outer[] = {-1.6242348693e-6f, 4.5774933824e-5f, -5.9417984448e-4f,
                                  4.7461520880e-3f, -2.6379637420e-2f, 1.1000113934e-1f,
                                  6.3191628456e-1f, 1.1301769018f, -3.0524755130e-4f};
    vec a = magnitude(x), z = mul(x, x);
    vec small = add(x, mul(x, add(all(1.2837916613e-1f), mul(z, polynomial(6, inner, z)))));
    vec q = _mm256_xor_ps(polynomial(9, outer, a), all(-0.0f));
    vec large = sub(all(1.0f), vec_exp(q));
    large = choose(below(all(3.95f), a), all(1.0f), large);
    vec y = choose(below(a, all(0.9f)), small, negated_below(large, x));
    return choose(_mm256_cmp_ps(x, x, _CMP_UNORD_Q), x, y);
}

static inline vec normal_below(vec x)
{
    return mul(all(0.5f), add(all(1.0f), vec_erf(mul(x, all(0.707106781f)))));
}

static inline vec normal_density(vec x)
{
    return mul(all(0.398942280f), vec_exp(mul(mul(all(-0.5f), x), x)));
}

static inline vec gelu_argument(vec x)
{
    vec cube = mul(mul(mul(all(0.044715f), x), x), x);
    return mul(all(0.797884561f), add(x, cube));
}

static inline __attribute__((always_inline)) vec value_of(enum uw_activation_kind kind,
                                                          float slope, vec x)
{
    vec zero = all(0.0f), six = all(6.0f), y;

    switch (kind) {
    case UW_ACTIVATION_RELU6:
        y = _mm256_andnot_ps(_mm256_cmp_ps(x, zero, _CMP_LE_OQ), x); /* NaN stays */
        return choose(_mm256_cmp_ps(x, six, _CMP_GE_OQ), six, y);
    case UW_ACTIVATION_LEAKY_RELU:
        return choose(below(x, zero), mul(all(slope), x), x);
    case UW_ACTIVATION_SIGMOID:
        return vec_sigmoid(x);
    case UW_ACTIVATION_TANH:
        return vec_tanh(x);
    case UW_ACTIVATION_GELU:
        return mul(x, normal_below(x));
    case UW_ACTIVATION_GELU_TANH:
        return mul(mul(all(0.5f), x), add(all(1.0f), vec_tanh(gelu_argument(x))));
    case UW_ACTIVATION_SILU:
        break;
    }
    return mul(x, vec_sigmoid(x));
}

static inline vec gelu_tanh_slope(vec v)
{
    vec one = all(1.0f), s = vec_tanh(gelu_argument(v));
    vec outer = mul(all(0.5f), add(one, s));
    vec inner = mul(mul(mul(all(0.5f), v), sub(one, mul(s, s))), all(0.797884561f));
    return add(outer, mul(inner, add(one, mul(mul(all(0.134145f), v), v))));
}

static inline __attribute__((always_inline)) vec slope_of(enum uw_activation_kind kind,
                                                          float slope, vec v, vec dy)
{
    vec one = all(1.0f), open = below(all(0.0f), v), s;

    switch (kind) {
    case UW_ACTIVATION_RELU6:
        return _mm256_and_ps(_mm256_and_ps(open, below(v, all(6.0f))), dy);
    case UW_ACTIVATION_LEAKY_RELU:
        return choose(open, dy, mul(all(slope), dy));
    case UW_ACTIVATION_SIGMOID:
        return mul(mul(v, sub(one, v)), dy);
    case UW_ACTIVATION_TANH:
        return mul(sub(one, mul(v, v)), dy);
    case UW_ACTIVATION_GELU:
        return mul(add(normal_below(v), mul(v, normal_density(v))), dy);
    case UW_ACTIVATION_GELU_TANH:
        return mul(gelu_tanh_slope(v), dy);
    case UW_ACTIVATION_SILU:
        break;
    }
    s = vec_sigmoid(v);
    return mul(mul(s, add(one, mul(v, sub(one, s)))), dy);
}

struct job {
    const struct uw_activation *a;
    size_t n;
    const float *x, *dy;
    float *y;
    bool accumulate;
};

/* Elements i .. end-1 of f(x), or of y = f'(x) dy, with a compile-time kind. */
static inline __attribute__((always_inline)) void walk(const struct job *j, size_t i, size_t end,
                                                       enum uw_activation_kind kind)
{
    float slope = j->a->slope;
    for (; i < end; i += 8) {
        size_t n = end - i < 8 ? end - i : 8;
        float x[8] = {0.0f}, dy[8] = {0.0f}, y[8] = {0.0f};
        bool whole = n == 8, add_to = j->accumulate;
        const float *from = j->x + i, *from_dy = j->dy != NULL ? j->dy + i : NULL, *old = j->y + i;
        if (!whole) {
            memcpy(x, from, n * sizeof *x);
            from = x;
            if (from_dy != NULL) {
                memcpy(dy, from_dy, n * sizeof *dy);
                from_dy = dy;
            }
            if (add_to) {
                memcpy(y, old, n * sizeof *y);
                old = y;
            }
        }
        vec d = from_dy != NULL ? slope_of(kind, slope, _mm256_loadu_ps(from),
                                           _mm256_loadu_ps(from_dy))
                                : value_of(kind, slope, _mm256_loadu_ps(from));
        d = add_to ? add(_mm256_loadu_ps(old), d) : d;
        _mm256_storeu_ps(whole ? j->y + i : y, d);
        if (!whole) {
            memcpy(j->y + i, y, n * sizeof *y);
        }
    }
}

static void task_of(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct job *j = arg;
    size_t i = (size_t)task * TASK_N, end = i + TASK_N < j->n ? i + TASK_N : j->n;
    switch (j->a->kind) {
#define KIND(k) case k: walk(j, i, end, k); break;
    KIND(UW_ACTIVATION_RELU6) KIND(UW_ACTIVATION_LEAKY_RELU) KIND(UW_ACTIVATION_SIGMOID)
    KIND(UW_ACTIVATION_TANH) KIND(UW_ACTIVATION_GELU) KIND(UW_ACTIVATION_GELU_TANH)
    KIND(UW_ACTIVATION_SILU)
#undef KIND
    }
}

static void run(const struct uw_exec *e, struct job *j)
{
    double n = (double)j->n;
    uw_workers_run(uw_workers_for(e->workers, 32.0 * n, 8.0 * n), task_of, j,
                   (uint32_t)((j->n + TASK_N - 1) / TASK_N));
}

static int forward(const struct uw_exec *e, const struct uw_activation *a, size_t n,
                   const float *x, float *y)
{
    struct job j = {.a = a, .n = n, .x = x, .y = y};
    if (a->kind >= UW_ACTIVATION_FUNCTION) {
        return uw_activation_ref.forward(e, a, n, x, y);
    }
    run(e, &j);
    return UW_OK;
}

static int bw_input(const struct uw_exec *e, const struct uw_activation *a, size_t n,
                    const float *v, const float *dy, float *dx, bool accumulate)
{
    struct job j = {.a = a, .n = n, .x = v, .dy = dy, .y = dx, .accumulate = accumulate};
    if (a->kind >= UW_ACTIVATION_FUNCTION) {
        return uw_activation_ref.bw_input(e, a, n, v, dy, dx, accumulate);
    }
    run(e, &j);
    return UW_OK;
}

const struct uw_activation_kernels uw_activation_avx2 = {
    .forward = forward, .bw_input = bw_input, .dropout = uw_dropout_ref};
