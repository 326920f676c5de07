/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/crc.h - CRC-32C, the checksum of records in flash, of frames and of chunks on the wire
 *
 * Blocking  never      Context  any thread      Source  RFC 3720, appendix B.4 (Castagnoli)
 */
#ifndef UWASA_CRC_H
#define UWASA_CRC_H

#include "uwasa/cplusplus.h"

#include <stddef.h>
#include <stdint.h>

UW_C_BEGIN

/* Continue a checksum over more bytes; start with crc = 0. For small memories: 64 bytes of table,
 * no special instructions. */
uint32_t uw_crc32c_portable(uint32_t crc, const void *bytes, size_t bytes_n);

UW_C_END
#endif
