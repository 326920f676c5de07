/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu.h"

uint32_t uw_crc32c(uint32_t crc, const void *bytes, size_t bytes_n)
{
    return uw_crc32c_portable(crc, bytes, bytes_n);
}

bool uw_cpu_has_aes(void)
{
    return false;
}
