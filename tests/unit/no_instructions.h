/* SPDX-License-Identifier: Apache-2.0
 *
 * no_instructions.h - included before a board's source that this machine runs: the board's own
 * instructions, __asm volatile("..."), are nothing here */
#ifndef UW_TEST_NO_INSTRUCTIONS_H
#define UW_TEST_NO_INSTRUCTIONS_H

#define __asm
#define volatile(...)

#endif
