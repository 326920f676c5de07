/* SPDX-License-Identifier: Apache-2.0
 *
 * The table fpu against ref where fmaf is the FPU's own instruction: 32-bit Arm, without a test
 * library. fpu_arm.sh compiles and runs this. */
#include "packed/fpu.h"
#include "uwasa/backends.h"
#include "uwasa/status.h"

#include <math.h>
#include <stdio.h>

#define N 40000u

static float a[N], b[N], want[N], got[N], scratch[200000];
static const struct uw_exec ref = {.kernels = &uw_kernels_ref};
static const struct uw_exec fpu = {.kernels = &uw_kernels_fpu, .scratch = scratch,
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
        compare(fpu.kernels->gemm(&fpu, &g, a, b, got), m * n, NAN);
    }
}

int main(void)
{
    const struct uw_conv2d c = {4, 12, 12, 10, 12, 12, 3, 3, 1, 1, 1, 1, 1, 1, 1};
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
    begin(NAN);
    ref.kernels->conv2d_fw(&ref, &c, 2, a, b, NULL, want, false);
    compare(fpu.kernels->conv2d_fw(&fpu, &c, 2, a, b, NULL, got, false), 2 * 10 * 144, NAN);
    begin(NAN);
    ref.kernels->conv2d_bw_input(&ref, &c, 2, a, b, want, false);
    compare(fpu.kernels->conv2d_bw_input(&fpu, &c, 2, a, b, got, false), 2 * 4 * 144, NAN);
    begin(1.0f);
    ref.kernels->conv2d_bw_param(&ref, &c, 2, a, b, 0.1f, want, NULL);
    compare(fpu.kernels->conv2d_bw_param(&fpu, &c, 2, a, b, 0.1f, got, NULL), 360, 1.0f);
    printf("%u elements compared, %u differ\n", compared, differ);
    return differ != 0 || compared < 500000;
}
