/* SPDX-License-Identifier: Apache-2.0 */
#include "inflate.h"

#include "uwasa/status.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { BLOCK_BYTES = 65536, GZIP = 16 };

static int open_temporary(void)
{
    const char *folder = getenv("TMPDIR");
    char path[1024];
    snprintf(path, sizeof path, "%.900s/uwasa_XXXXXX", folder != NULL ? folder : P_tmpdir);
    int fd = mkstemp(path);
    if (fd >= 0) {
        unlink(path);
    }
    return fd;
}

static bool write_all(int to, const unsigned char *p, size_t bytes)
{
    while (bytes > 0) {
        ssize_t n = write(to, p, bytes);
        if (n <= 0) {
            return false;
        }
        p += n;
        bytes -= (size_t)n;
    }
    return true;
}

/* Unpack what is in z, and write it. Returns UW_OK, UW_ERR_IO, or UW_ERR_CORRUPT; *ended: the
 * stream is complete. */
static int pass_on(z_stream *z, int to, unsigned char *out, uint64_t *bytes, bool *ended)
{
    do {
        z->next_out = out;
        z->avail_out = BLOCK_BYTES;
        int code = inflate(z, Z_NO_FLUSH);
        size_t n = BLOCK_BYTES - z->avail_out;
        if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) {
            return UW_ERR_CORRUPT;
        }
        if (!write_all(to, out, n)) {
            return UW_ERR_IO;
        }
        *bytes += n;
        *ended = code == Z_STREAM_END;
        if (*ended && z->avail_in > 0 && inflateReset(z) != Z_OK) {     /* another member */
            return UW_ERR_CORRUPT;
        }
    } while (z->avail_in > 0 || z->avail_out == 0);
    return UW_OK;
}

int uw_inflate_gzip(int from, uint64_t *bytes)
{
    z_stream z = {.zalloc = Z_NULL};
    unsigned char *block = malloc(2 * BLOCK_BYTES);
    int to = block != NULL ? open_temporary() : -1, rc = to >= 0 ? UW_OK : UW_ERR_IO;
    bool ended = false, started = rc == UW_OK && inflateInit2(&z, MAX_WBITS + GZIP) == Z_OK;
    *bytes = 0;
    rc = rc < 0 || started ? rc : UW_ERR_IO;
    for (off_t at = 0; rc == UW_OK;) {
        ssize_t n = pread(from, block, BLOCK_BYTES, at);
        if (n <= 0) {
            rc = n < 0 ? UW_ERR_IO : ended ? UW_OK : UW_ERR_CORRUPT;
            break;
        }
        at += n;
        z.next_in = block;
        z.avail_in = (unsigned)n;
        rc = pass_on(&z, to, block + BLOCK_BYTES, bytes, &ended);
    }
    if (started) {
        inflateEnd(&z);
    }
    free(block);
    if (rc < 0 && to >= 0) {
        close(to);
    }
    return rc < 0 ? rc : to;
}

int uw_inflate_block(const void *packed, size_t packed_bytes, void *out, size_t out_bytes)
{
    z_stream z = {.zalloc = Z_NULL};
    if (packed_bytes > UINT32_MAX || out_bytes > UINT32_MAX ||
        inflateInit2(&z, -MAX_WBITS) != Z_OK) {
        return UW_ERR_CORRUPT;
    }
    unsigned char *copy = malloc(packed_bytes + 1);     /* zlib's input is not const */
    if (copy == NULL) {
        inflateEnd(&z);
        return UW_ERR_NOMEM;
    }
    memcpy(copy, packed, packed_bytes);
    z.next_in = copy;
    z.avail_in = (unsigned)packed_bytes;
    z.next_out = out;
    z.avail_out = (unsigned)out_bytes;
    int code = inflate(&z, Z_FINISH);
    bool whole = code == Z_STREAM_END && z.avail_out == 0;
    inflateEnd(&z);
    free(copy);
    return whole ? UW_OK : UW_ERR_CORRUPT;
}
