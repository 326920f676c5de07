/* SPDX-License-Identifier: Apache-2.0
 *
 * number.h - parse and print integers of addresses
 */
#ifndef UW_NET_NUMBER_H
#define UW_NET_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* Parse decimal digits up to `end`, at least one.
 *   number  written when true is returned
 *   max     up to UINT32_MAX / 16
 * Returns whether they are a number of at most `max`. */
bool uw_read_number(const char *text, const char *end, uint32_t max, uint32_t *number);

/* Write a number in decimal digits and a NUL. */
void uw_write_number(uint32_t number, char text[11]);

#endif
