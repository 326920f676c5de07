/* SPDX-License-Identifier: Apache-2.0 */
#include "inflate.h"

#include "uwasa/status.h"

int uw_inflate_gzip(int from, uint64_t *bytes)
{
    (void)from;
    *bytes = 0;
    return UW_ERR_UNSUPPORTED;
}

int uw_inflate_block(const void *packed, size_t packed_bytes, void *out, size_t out_bytes)
{
    (void)packed;
    (void)packed_bytes;
    (void)out;
    (void)out_bytes;
    return UW_ERR_UNSUPPORTED;
}
