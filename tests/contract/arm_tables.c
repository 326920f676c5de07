/* SPDX-License-Identifier: Apache-2.0
 *
 * TABLE against ref on a Cortex-M that has its instructions, without a test library: a sum and
 * more than a tile of every size around it, outputs that hold NaN, and what lies behind them.
 * arm_tables.sh compiles and runs this. */
#include "uwasa/backends.h"
#include "uwasa/status.h"

#include <math.h>
#include <stdio.h>

#define N 40000u

extern const struct uw_kernels TABLE;

static float a[N], b[N], want[N], got[N], scratch[200000];
static const struct uw_exec ref = {.kernels = &uw_kernels_ref};
static const struct uw_exec own = {.kernels = &TABLE, .scratch = scratch,
                                   .scratch_bytes = sizeof scratch};
static unsigned compared, differ;

static void begin(float from)
{
    for (uint32_t i = 0; i < N; i++) {
        want[i] = got[i] = from;
    }
}

/* The first n elements; what lies behind them is untouched. */
static void compare(int rc, uint32_t n, float from)
{
    compared += n;
    differ += rc != UW_OK;
    for (uint32_t i = 0; i < n; i++) {
        differ += !(fabsf(want[i] - got[i]) < 1e-3f);
    }
    for (uint32_t i = n; i < n + 16; i++) {
        differ += isnan(from) ? !isnan(got[i]) : got[i] != from;
    }
}

static void compare_products(uint32_t m, uint32_t n, uint32_t k)
{
    for (uint32_t way = 0; way < 4; way++) {
        const bool ta = way & 1u, tb = way & 2u;
        const struct uw_gemm g = {.trans_a = ta, .trans_b = tb, .m = m, .n = n, .k = k,
                                  .lda = ta ? m : k, .ldb = tb ? k : n, .ldc = n, .alpha = 1.0f};
        begin(NAN);
        ref.kernels->gemm(&ref, &g, a, b, want);
        compare(own.kernels->gemm(&own, &g, a, b, got), m * n, NAN);
    }
}

static void compare_convolution(const struct uw_conv2d *c)
{
    const uint32_t batch_n = 2, taps = c->kernel_h * c->kernel_w;
    begin(NAN);
    ref.kernels->conv2d_fw(&ref, c, batch_n, a, b, NULL, want, false);
    compare(own.kernels->conv2d_fw(&own, c, batch_n, a, b, NULL, got, false),
            batch_n * c->out_channels * c->out_h * c->out_w, NAN);
    begin(NAN);
    ref.kernels->conv2d_bw_input(&ref, c, batch_n, a, b, want, false);
    compare(own.kernels->conv2d_bw_input(&own, c, batch_n, a, b, got, false),
            batch_n * c->in_channels * c->in_h * c->in_w, NAN);
    begin(1.0f);
    ref.kernels->conv2d_bw_param(&ref, c, batch_n, a, b, 0.1f, want, NULL);
    compare(own.kernels->conv2d_bw_param(&own, c, batch_n, a, b, 0.1f, got, NULL),
            c->out_channels * c->in_channels / c->groups * taps, 1.0f);
}

static void compare_dense(uint32_t batch_n, uint32_t in_n, uint32_t out_n)
{
    const struct uw_dense d = {in_n, out_n};
    static float dx[2][N], bias[2][64];
    begin(NAN);
    ref.kernels->dense_fw(&ref, &d, batch_n, a, b, NULL, want);
    compare(own.kernels->dense_fw(&own, &d, batch_n, a, b, NULL, got), batch_n * out_n, NAN);
    begin(1.0f);
    ref.kernels->dense_bw_step(&ref, &d, batch_n, a, b, 0.9f, 0.1f, want, bias[0], dx[0], false);
    compare(own.kernels->dense_bw_step(&own, &d, batch_n, a, b, 0.9f, 0.1f, got, bias[1], dx[1],
                                       false), in_n * out_n, 1.0f);
    for (uint32_t i = 0; i < batch_n * in_n; i++) {
        differ += !(fabsf(dx[0][i] - dx[1][i]) < 1e-3f);
    }
}

int main(void)
{
    static const struct uw_conv2d convolutions[] = {
        {4, 12, 12, 10, 12, 12, 3, 3, 1, 1, 1, 1, 1, 1, 1},     /* channels, sides, kernel, */
        {6, 13, 11, 7, 7, 6, 3, 3, 2, 2, 1, 1, 1, 1, 1},        /* strides, zeros, dilation */
        {8, 10, 10, 8, 10, 10, 3, 3, 1, 1, 1, 1, 1, 1, 8},      /* depthwise */
        {8, 11, 12, 8, 6, 6, 3, 3, 2, 2, 1, 1, 1, 1, 8},
    };
    for (uint32_t i = 0; i < N; i++) {
        a[i] = (float)(i * 37 % 101) * 0.02f - 1.0f;
        b[i] = (float)(i * 53 % 97) * 0.02f - 1.0f;
    }
    for (uint32_t m = 1; m < 24; m += 3) {
        for (uint32_t n = 1; n < 40; n += 2) {
            for (uint32_t k = 1; k < 140; k += 23) {
                compare_products(m, n, k);
            }
        }
    }
    for (uint32_t i = 0; i < sizeof convolutions / sizeof convolutions[0]; i++) {
        compare_convolution(&convolutions[i]);
    }
    for (uint32_t batch_n = 1; batch_n < 6; batch_n++) {
        compare_dense(batch_n, 50 + batch_n, 9 + batch_n);
    }
    printf("%u elements compared, %u differ\n", compared, differ);
    return differ != 0 || compared < 500000;
}
