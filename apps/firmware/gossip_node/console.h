/* SPDX-License-Identifier: Apache-2.0
 *
 * console.h - lines to and from a person, or a program, over a board's console
 *
 * Output goes through a ring that drains as the UART takes bytes, so that printing never delays
 * training; lines that find no room are dropped and counted.
 *
 * Memory     all static      Blocking  never      Context  main loop */
#ifndef UW_FIRMWARE_CONSOLE_H
#define UW_FIRMWARE_CONSOLE_H

#include <stdbool.h>
#include <stdint.h>

/* Print one line; '\n' is added. */
void uw_console_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Move bytes both ways. Returns a line that was typed, without its end, valid until the next call;
 * NULL: none. */
const char *uw_console_step(void);

/* Has all output left? */
bool uw_console_empty(void);

/* Lines that were dropped so far. */
uint32_t uw_console_dropped(void);

#endif
