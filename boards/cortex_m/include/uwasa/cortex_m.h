/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/cortex_m.h - interrupts and clock of Cortex-M boards, for drivers
 *
 * Blocking   never, unless said        Context  main loop, before interrupts are on or after
 */
#ifndef UWASA_CORTEX_M_H
#define UWASA_CORTEX_M_H

#include "uwasa/cplusplus.h"

#include <stdint.h>

UW_C_BEGIN

/* Number of board interrupts with a handler: 0 .. UW_INTERRUPTS_N - 1. */
#define UW_INTERRUPTS_N 112u

/* Set the handler of a board interrupt, and enable it. */
void uw_interrupt_set(uint32_t number, void (*handler)(void));

/* Set the handler of a core exception: 15 is SysTick. */
void uw_exception_set(uint32_t number, void (*handler)(void));

/* Derive the time from a free-running counter instead of SysTick, whose interrupts get lost when
 * they are disabled for long or the emulator waits for its host.
 *
 *   counter   counts up, 32 bits; call now_us at least once per wrap
 *   hz        a multiple of 1,000,000 */
void uw_clock_use(const volatile uint32_t *counter, uint32_t hz);

UW_C_END
#endif
