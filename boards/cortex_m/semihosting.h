/* SPDX-License-Identifier: Apache-2.0
 *
 * semihosting.h - services of an emulator: arguments, files, exit status
 *
 * Without an emulator or debugger these calls fault, so only machines with `emulated` link them.
 *
 * Source     Arm, "Semihosting for AArch32 and AArch64", 2.0 */
#ifndef UW_BOARDS_SEMIHOSTING_H
#define UW_BOARDS_SEMIHOSTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The emulator's `arg=` options, joined by spaces; "" when there are none. */
int uw_semihosting_arguments(char *text, size_t bytes);

/* Make the emulator exit with a status. */
void uw_semihosting_exit(int status);

/* Open or create a file on the host for reading and writing. Returns a handle, or -1. */
int uw_semihosting_open(const char *path);

/* Open a file on the host for reading. Returns a handle, or -1. */
int uw_semihosting_open_to_read(const char *path);

void uw_semihosting_close(int handle);

/* Length in bytes, or -1. */
long uw_semihosting_length(int handle);

/* Read or write exactly `bytes`, at an offset or after the last read. Returns success. */
bool uw_semihosting_read(int handle, uint32_t at, void *buf, uint32_t bytes);
bool uw_semihosting_read_next(int handle, void *buf, uint32_t bytes);
bool uw_semihosting_write(int handle, uint32_t at, const void *buf, uint32_t bytes);

#endif
