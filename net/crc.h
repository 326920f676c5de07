/* SPDX-License-Identifier: Apache-2.0
 *
 * crc.h - CRC-32C, the checksum of a chunk on the wire
 *
 * Blocking  never      Context  any thread      Source  RFC 3720, appendix B.4 (Castagnoli)
 */
#ifndef UW_NET_CRC_H
#define UW_NET_CRC_H

#include <stddef.h>
#include <stdint.h>

/* Continue a checksum over more bytes; start with crc = 0. */
uint32_t uw_crc32c(uint32_t crc, const void *bytes, size_t bytes_n);

/* The same without special instructions, for small memories: 64 bytes of table. */
uint32_t uw_crc32c_portable(uint32_t crc, const void *bytes, size_t bytes_n);

#endif
