/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/cortex_m.h - what drivers of Cortex-M boards use of the shared start-up code
 *
 * Blocking   never, unless said        Context  main loop, before interrupts are on or after
 */
#ifndef UWASA_CORTEX_M_H
#define UWASA_CORTEX_M_H

#include "uwasa/cplusplus.h"

#include <stdint.h>

UW_C_BEGIN

/* Interrupts of the board that a handler can be set for: 0 .. UW_INTERRUPTS_N - 1. */
#define UW_INTERRUPTS_N 112u

/* Let a function handle an interrupt of the board, and enable it. */
void uw_interrupt_set(uint32_t number, void (*handler)(void));

/* Let a function handle an exception of the core: 15 is SysTick. */
void uw_exception_set(uint32_t number, void (*handler)(void));

/* Take the time from a free-running counter from now on, and not from SysTick's interrupts, of
 * which some are lost where they are off for long, or where the emulator waits for its host.
 *
 *   counter   counts up, 32 bits; now_us must be called once per wrap at least
 *   hz        a multiple of 1,000,000 */
void uw_clock_use(const volatile uint32_t *counter, uint32_t hz);

UW_C_END
#endif
