/* SPDX-License-Identifier: Apache-2.0
 *
 * start.h - functions for the start-up code (private) */
#ifndef UW_BOARDS_START_H
#define UW_BOARDS_START_H

#include <stdint.h>

/* Start SysTick at 1000 Hz. */
void uw_clock_start(uint32_t core_hz);

/* Fill the unused stack with a pattern, for uw_machine_stack_bytes. */
void uw_stack_paint(void);

#endif
