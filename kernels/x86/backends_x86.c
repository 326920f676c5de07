/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/backends.h"

#include "ref/backend.h"
#include "exact/product.h"
#include "packed/fpu.h"
#include "x86/x86.h"

/* These ask the processor and whether the operating system keeps the registers. */
static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f");
}

const struct uw_backend uw_backends[] = {
    {&uw_kernels_avx512, has_avx512},
    {&uw_kernels_avx2, has_avx2},
    {&uw_kernels_exact_table, has_avx2},
    {&uw_kernels_fpu, has_avx2},
    {&uw_kernels_lean, has_avx2},
    {&uw_kernels_ref, NULL},
    {NULL, NULL},
};
