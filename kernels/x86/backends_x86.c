/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/backends.h"

#include "exact/exact_product.h"
#include "packed/packed.h"
#include "ref/backend.h"
#include "ref/table.h"
#include "x86/x86.h"

#include <immintrin.h>

/* Slots with the same bits as the reference; those without follow. */
#define EXACT_AVX2_ENTRIES                                                                        \
    .add_channels = uw_add_channels_avx2,                                                         \
    .maxpool2d_fw = uw_maxpool2d_fw_avx2,                                                         \
    .maxpool2d_bw_input = uw_maxpool2d_bw_input_avx2,                                             \
    .relu_fw = uw_relu_fw_avx2,                                                                   \
    .relu_bw_input = uw_relu_bw_input_avx2,                                                       \
    .axpby = uw_axpby_avx2,                                                                       \
    .sgd_update = uw_sgd_update_avx2,                                                             \
    .all_finite = uw_all_finite_avx2,                                                             \
    .copy = &uw_copy_avx2,                                                                        \
    .tensor = &uw_tensor_avx2,                                                                    \
    .update = &uw_update_avx2
#define ROUNDED_AVX2_ENTRIES                                                                      \
    .avgpool2d_fw = uw_avgpool2d_fw_avx2,                                                         \
    .avgpool2d_bw_input = uw_avgpool2d_bw_input_avx2,                                             \
    .distance_sq = uw_distance_sq_avx2,                                                           \
    .norm = &uw_norm_avx2,                                                                        \
    .activation = &uw_activation_avx2,                                                            \
    .sequence = &uw_sequence_avx2

static const struct uw_kernels avx2 = {
    .name = "avx2",
    .tile = &uw_tile_avx2,
    UW_PRODUCT_ENTRIES(packed),
    UW_OTHER_ENTRIES(ref),
    EXACT_AVX2_ENTRIES,
    ROUNDED_AVX2_ENTRIES,
};

/* AVX-512 has its own register tile, used by all products, and its own functions; other slots are
 * AVX2's. */
static const struct uw_kernels avx512 = {
    .name = "avx512",
    .tile = &uw_tile_avx512,
    UW_PRODUCT_ENTRIES(packed),
    UW_OTHER_ENTRIES(ref),
    EXACT_AVX2_ENTRIES,
    ROUNDED_AVX2_ENTRIES,
    .activation = &uw_activation_avx512,
    .sequence = &uw_sequence_avx512,
};

/* Every slot has the same bits as the reference; the contract test compares them. */
static const struct uw_kernels exact = {
    .name = "exact",
    .exact = true,
    UW_PRODUCT_ENTRIES(ref),
    UW_OTHER_ENTRIES(ref),
    UW_EXACT_ENTRIES,
    EXACT_AVX2_ENTRIES,
};

/* These check the processor, and that the operating system saves the registers. */
static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f");
}

static void subnormals_are_zero(bool zero)
{
    const uint32_t bits = 0x8040u;      /* of MXCSR: results and operands */
    _mm_setcsr(zero ? _mm_getcsr() | bits : _mm_getcsr() & ~bits);
}

const struct uw_backend uw_backends[] = {
    {&avx512, has_avx512, subnormals_are_zero},
    {&avx2, has_avx2, NULL},
    {&exact, has_avx2, NULL},
    {&uw_kernels_fpu, has_avx2, NULL},
    {&uw_kernels_lean, has_avx2, NULL},
    {&uw_kernels_ref, NULL, NULL},
    {NULL, NULL, NULL},
};
