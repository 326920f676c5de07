/* SPDX-License-Identifier: Apache-2.0 */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK_BYTES = 4096 };

static int open_error(const char *path, const char *hint, struct uw_error *err)
{
    switch (errno) {
    case ENOENT:
    case ENOTDIR:
        return uw_error_set(err, UW_ERR_NOTFOUND, "%.140s: not there%s%.90s", path,
                            hint != NULL ? "; " : "", hint != NULL ? hint : "");
    case EACCES:
    case EPERM:
        return uw_error_set(err, UW_ERR_DENIED, "%.180s: no permission to read it", path);
    default:
        return uw_error_set(err, UW_ERR_IO, "%.160s: cannot be opened (%.60s)", path,
                            strerror(errno));
    }
}

int uw_file_open(struct uw_file *f, const char *path, const char *hint, struct uw_error *err)
{
    *f = (struct uw_file){.handle = 0};
    if (strlen(path) >= sizeof f->path) {
        return uw_error_set(err, UW_ERR_INVALID, "%.100s...: path longer than %u bytes", path,
                            UW_FILE_PATH_BYTES - 1);
    }
    memcpy(f->path, path, strlen(path) + 1);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return open_error(path, hint, err);
    }
    struct stat st;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return uw_error_set(err, UW_ERR_INVALID, "%.160s: not a regular file", path);
    }
    f->bytes = (uint64_t)st.st_size;
    f->handle = fd + 1;
    return UW_OK;
}

int uw_file_read(const struct uw_file *f, uint64_t offset, void *buf, size_t bytes)
{
    char *p = buf;
    while (bytes > 0) {
        ssize_t got = pread(f->handle - 1, p, bytes, (off_t)offset);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return UW_ERR_IO;
        }
        p += got;
        offset += (uint64_t)got;
        bytes -= (size_t)got;
    }
    return UW_OK;
}

int uw_file_read_error(const struct uw_file *f, uint64_t offset, struct uw_error *err)
{
    return uw_error_set(err, UW_ERR_IO, "%.160s: reading byte %llu failed", f->path,
                        (unsigned long long)offset);
}

int uw_file_read_bytes(const struct uw_file *f, uint64_t offset, float *x, size_t n)
{
    uint8_t block[BLOCK_BYTES];
    while (n > 0) {
        size_t part = n < BLOCK_BYTES ? n : BLOCK_BYTES;
        int rc = uw_file_read(f, offset, block, part);
        if (rc < 0) {
            return rc;
        }
        for (size_t i = 0; i < part; i++) {
            x[i] = (float)block[i] / 255.0f;
        }
        x += part;
        n -= part;
        offset += part;
    }
    return UW_OK;
}

int uw_file_read_floats(const struct uw_file *f, uint64_t offset, float *x, size_t n)
{
    uint8_t block[BLOCK_BYTES];
    while (n > 0) {
        size_t part = n < BLOCK_BYTES / 4 ? n : BLOCK_BYTES / 4;
        int rc = uw_file_read(f, offset, block, part * 4);
        if (rc < 0) {
            return rc;
        }
        for (size_t i = 0; i < part; i++) {
            const uint8_t *b = &block[4 * i];
            uint32_t bits =
                (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
            memcpy(&x[i], &bits, sizeof bits);
        }
        x += part;
        n -= part;
        offset += part * 4;
    }
    return UW_OK;
}

void uw_file_close(struct uw_file *f)
{
    if (f->handle != 0) {
        close(f->handle - 1);
    }
    f->handle = 0;
}
