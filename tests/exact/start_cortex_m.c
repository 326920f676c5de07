/* SPDX-License-Identifier: Apache-2.0
 *
 * Vector table and reset of a Cortex-M under QEMU; newlib's semihosting does the rest. */
#include <stdint.h>

extern void _start(void);
void uw_reset(void);

struct vectors {
    uintptr_t stack;
    void (*reset)(void);
};

/* The end of the board's memory: MPS3 AN547 or MPS2. */
#ifdef __ARM_FEATURE_MVE
#define STACK 0x21400000u
#else
#define STACK 0x20400000u
#endif

extern const struct vectors uw_vectors;
const struct vectors uw_vectors __attribute__((section(".vectors"), used)) = {STACK, uw_reset};

/* The coprocessor access register opens the FPU, where there is one. */
void uw_reset(void)
{
    volatile uint32_t *cpacr = (volatile uint32_t *)(uintptr_t)0xe000ed88u;
    *cpacr |= 0xfu << 20;
    __asm volatile("dsb\n\tisb");
    _start();
}
