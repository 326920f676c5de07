/* SPDX-License-Identifier: Apache-2.0
 *
 * Helpers that the compiler calls for 64-bit integers, in a seventh of libgcc's code size: 1.9 kB
 * less. Results are identical; division by 0 gives 0. Arguments and results are in core registers
 * (Run-time ABI for the Arm architecture, 4.1). The symbols are weak: a program that needs more of
 * libgcc's floating point gets libgcc's. Division is slower, about ten instructions per quotient
 * bit. */
#include <stdint.h>

#define BASE_PCS __attribute__((pcs("aapcs"), weak, used))

float BASE_PCS __aeabi_ul2f(uint64_t x);
uint64_t uw_arithmetic_divide(uint64_t x, uint64_t by, uint64_t *rest);
void __aeabi_uldivmod(void);

/* The upper 32 bits, the lowest of them set if any of the lower 32 is, round like all 64. */
float BASE_PCS __aeabi_ul2f(uint64_t x)
{
    uint32_t high = (uint32_t)(x >> 32);
    if (high == 0) {
        return (float)(uint32_t)x;
    }
    uint32_t shift = (uint32_t)__builtin_clz(high);
    x <<= shift;
    union {
        uint32_t bits;
        float value;
    } scale = {(127u + 32u - shift) << 23};
    return (float)((uint32_t)(x >> 32) | ((uint32_t)x != 0)) * scale.value;
}

#if __ARM_FP & 8 /* double precision; otherwise libgcc's addition is linked, which contains this */
double BASE_PCS __aeabi_ul2d(uint64_t x);
double BASE_PCS __aeabi_ul2d(uint64_t x)
{
    return (double)(uint32_t)(x >> 32) * 4294967296.0 + (double)(uint32_t)x;
}
#endif

uint64_t __attribute__((used)) uw_arithmetic_divide(uint64_t x, uint64_t by, uint64_t *rest)
{
    uint64_t quotient = 0;
    if (x >= by && by != 0) {
        int left = __builtin_clzll(by) - __builtin_clzll(x);
        by <<= left;
        for (; left >= 0; left--) {
            quotient <<= 1;
            if (x >= by) {
                x -= by;
                quotient |= 1u;
            }
            by >>= 1;
        }
    }
    *rest = x;
    return quotient;
}

/* r0:r1 / r2:r3; quotient in r0:r1, remainder in r2:r3. */
__attribute__((naked)) void __aeabi_uldivmod(void)
{
    __asm volatile("sub sp, sp, #8\n\t"
                   "push {r4, lr}\n\t"
                   "add r4, sp, #8\n\t"
                   "push {r4, r5}\n\t"
                   "bl uw_arithmetic_divide\n\t"
                   "add sp, sp, #8\n\t"
                   "pop {r4, lr}\n\t"
                   "pop {r2, r3}\n\t"
                   "bx lr");
}
