/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/cortex_m.h - what drivers of Cortex-M boards use of the shared start-up code
 *
 * Blocking   never, unless said        Context  main loop, before interrupts are on or after
 */
#ifndef UWASA_CORTEX_M_H
#define UWASA_CORTEX_M_H

#include <stdint.h>

/* Interrupts of the board that a handler can be set for: 0 .. UW_INTERRUPTS_N - 1. */
#define UW_INTERRUPTS_N 112u

/* Let a function handle an interrupt of the board, and enable it. */
void uw_interrupt_set(uint32_t number, void (*handler)(void));

/* Let a function handle an exception of the core: 15 is SysTick. */
void uw_exception_set(uint32_t number, void (*handler)(void));

#endif
