/* SPDX-License-Identifier: Apache-2.0
 *
 * block.h - one kernel, all its blocks (private to the emulated runtime) */
#ifndef UW_EMULATED_BLOCK_H
#define UW_EMULATED_BLOCK_H

#include "emulated.h"

#define THREADS_MAX 1024u

/* Bit 0 of order: threads take turns from the last to the first; bit 1: blocks do. With
 * races, see races.h. */
void run_kernel(const struct uw_emulated_kernel &k, unsigned order, bool races);

/* "emulated CUDA: ..." and the end of the process. */
[[noreturn]] void give_up(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
