/* SPDX-License-Identifier: Apache-2.0
 *
 * cpu.h - processor-dependent functions: cpu_x86.c for x86-64, cpu_any.c for all others
 *
 * Blocking  never      Context  any thread
 */
#ifndef UW_NET_CPU_H
#define UW_NET_CPU_H

#include "uwasa/crc.h"

#include <stdbool.h>

/* As uw_crc32c_portable, by the processor's CRC instruction if it has one. */
uint32_t uw_crc32c(uint32_t crc, const void *bytes, size_t bytes_n);

/* Does the processor have AES instructions that Mbed TLS 2.28 and later uses? */
bool uw_cpu_has_aes(void);

#endif
