/* SPDX-License-Identifier: Apache-2.0
 *
 * cpu.h - what depends on the processor: cpu_x86.c for x86-64, cpu_any.c for all others
 *
 * Blocking  never      Context  any thread
 */
#ifndef UW_NET_CPU_H
#define UW_NET_CPU_H

#include "uwasa/crc.h"

#include <stdbool.h>

/* What uw_crc32c_portable computes, by the processor's own instruction where it has one. */
uint32_t uw_crc32c(uint32_t crc, const void *bytes, size_t bytes_n);

/* Does the processor have instructions for AES that Mbed TLS, 2.28 and later, makes use of? */
bool uw_cpu_has_aes(void);

#endif
