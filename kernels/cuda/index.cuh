/* SPDX-License-Identifier: Apache-2.0
 *
 * index.cuh - division by a constant of a launch, for index arithmetic
 */
#ifndef UW_KERNELS_CUDA_INDEX_CUH
#define UW_KERNELS_CUDA_INDEX_CUH

#include "launch.cuh"

/* n / by for n below 2^31 by a multiplication and a shift. */
struct uw_divisor {
    uint32_t by, multiplier, shift;
};

static inline struct uw_divisor uw_divisor_of(uint32_t by)
{
    struct uw_divisor d = {by, 0, 0};
    while (d.shift < 31 && (1u << d.shift) < by) {
        d.shift++;
    }
    d.multiplier = static_cast<uint32_t>(((1ull << 32) * ((1ull << d.shift) - by)) / by + 1);
    return d;
}

static __host__ __device__ __forceinline__ uint32_t uw_quotient(const struct uw_divisor &d,
                                                                uint32_t n)
{
    uint32_t high = static_cast<uint32_t>((static_cast<uint64_t>(n) * d.multiplier) >> 32);
    return (high + n) >> d.shift;
}

#endif
