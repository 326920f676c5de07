/* SPDX-License-Identifier: Apache-2.0
 *
 * inflate.h - unpack deflated data: by zlib, or not at all in a build without it
 *
 * Blocking   file access      Context  any thread
 */
#ifndef UWASA_DATA_INFLATE_H
#define UWASA_DATA_INFLATE_H

#include <stddef.h>
#include <stdint.h>

/* Unpack a gzip file, open as `from`, into a temporary file that no folder shows.
 *   bytes  set to its length
 * Returns its file descriptor, UW_ERR_UNSUPPORTED (no zlib), UW_ERR_CORRUPT, UW_ERR_IO. */
int uw_inflate_gzip(int from, uint64_t *bytes);

/* Unpack a deflated block of known length.
 * Returns UW_OK, UW_ERR_UNSUPPORTED (no zlib), UW_ERR_CORRUPT (it is not so long). */
int uw_inflate_block(const void *packed, size_t packed_bytes, void *out, size_t out_bytes);

#endif
