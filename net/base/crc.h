/* SPDX-License-Identifier: Apache-2.0
 *
 * crc.h - uwasa/crc.h with the processor's own instruction, where there is one
 *
 * Blocking  never      Context  any thread
 */
#ifndef UW_NET_CRC_H
#define UW_NET_CRC_H

#include "uwasa/crc.h"

/* What uw_crc32c_portable computes. */
uint32_t uw_crc32c(uint32_t crc, const void *bytes, size_t bytes_n);

#endif
