/* SPDX-License-Identifier: Apache-2.0
 *
 * start.h - what drivers of Cortex-M boards use of the start-up code */
#ifndef UW_BOARDS_START_H
#define UW_BOARDS_START_H

#include <stdint.h>

/* Let a function handle an interrupt of the board, and enable it. */
void uw_interrupt_set(uint32_t number, void (*handler)(void));

/* Let a function handle an exception of the core: 15 is SysTick. */
void uw_exception_set(uint32_t number, void (*handler)(void));

/* Start SysTick, 1000 times a second. */
void uw_clock_start(uint32_t core_hz);

/* Fill the unused stack with a pattern, for uw_machine_stack_bytes. */
void uw_stack_paint(void);

/* Write to the console, waiting for it; for faults. */
void uw_machine_fault_say(const char *text);

#endif
