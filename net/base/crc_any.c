/* SPDX-License-Identifier: Apache-2.0
 *
 * For processors without an instruction of their own here. */
#include "crc.h"

uint32_t uw_crc32c(uint32_t crc, const void *bytes, size_t bytes_n)
{
    return uw_crc32c_portable(crc, bytes, bytes_n);
}
