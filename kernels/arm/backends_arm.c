/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/backends.h"

#include "exact/exact_product.h"
#include "packed/packed.h"
#include "ref/backend.h"
#include "ref/table.h"

extern const struct uw_activation_kernels uw_activation_neon;
extern const struct uw_sequence_kernels uw_sequence_neon;

static const struct uw_kernels neon = {
    .name = "neon",
    .tile = &uw_tile_neon,
    UW_PRODUCT_ENTRIES(packed),
    UW_OTHER_ENTRIES(ref),
    .activation = &uw_activation_neon,
    .sequence = &uw_sequence_neon,
};

/* Every slot has the same bits as the reference; the contract test compares them. */
static const struct uw_kernels exact = {
    .name = "exact",
    .exact = true,
    UW_PRODUCT_ENTRIES(ref),
    UW_OTHER_ENTRIES(ref),
    UW_EXACT_ENTRIES,
};

/* NEON is part of every AArch64 processor. */
static void subnormals_are_zero(bool zero)
{
    const uint64_t bit = UINT64_C(1) << 24;     /* of FPCR */
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    control = zero ? control | bit : control & ~bit;
    __asm__ volatile("msr fpcr, %0" : : "r"(control));
}

const struct uw_backend uw_backends[] = {
    {&neon, NULL, subnormals_are_zero},
    {&exact, NULL, NULL},
    {&uw_kernels_ref, NULL, NULL},
    {NULL, NULL, NULL},
};
