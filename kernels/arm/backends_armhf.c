/* SPDX-License-Identifier: Apache-2.0
 *
 * Backends of 32-bit Arm Linux. Distributions build for VFPv3; VFPv4 has fused multiply-add. NEON
 * is not used, since it flushes subnormal numbers there. */
#include "uwasa/backends.h"

#include "ref/backend.h"
#include "packed/packed.h"

#include <sys/auxv.h>

#define HAS_VFPV4 (1ul << 16)   /* the kernel's HWCAP_VFPv4, for 32-bit programs */

static bool has_vfpv4(void)
{
    return (getauxval(AT_HWCAP) & HAS_VFPV4) != 0;
}

const struct uw_backend uw_backends[] = {
    {&uw_kernels_fpu, has_vfpv4, NULL},
    {&uw_kernels_ref, NULL, NULL},
    {NULL, NULL, NULL},
};
