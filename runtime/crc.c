/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/crc.h"

/* Remainders of the 16 nibbles: a table of 64 bytes, two look-ups per byte. */
static const uint32_t nibble[16] = {
    0x00000000u, 0x105ec76fu, 0x20bd8edeu, 0x30e349b1u,
    0x417b1dbcu, 0x5125dad3u, 0x61c69362u, 0x7198540du,
    0x82f63b78u, 0x92a8fc17u, 0xa24bb5a6u, 0xb21572c9u,
    0xc38d26c4u, 0xd3d3e1abu, 0xe330a81au, 0xf36e6f75u,
};

uint32_t uw_crc32c_portable(uint32_t crc, const void *bytes, size_t bytes_n)
{
    const uint8_t *p = bytes;
    crc = ~crc;
    for (size_t i = 0; i < bytes_n; i++) {
        crc ^= p[i];
        crc = nibble[crc & 15u] ^ (crc >> 4);
        crc = nibble[crc & 15u] ^ (crc >> 4);
    }
    return ~crc;
}
