/* SPDX-License-Identifier: Apache-2.0 */
#include "file.h"

#include "inflate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
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

/* A file that gzip has packed is read unpacked. */
static int unpack(struct uw_file *f, struct uw_error *err)
{
    uint8_t start[2];
    uint64_t bytes;
    if (f->bytes < sizeof start || uw_file_read(f, 0, start, sizeof start) < 0 ||
        start[0] != 0x1f || start[1] != 0x8b) {
        return UW_OK;
    }
    int fd = uw_inflate_gzip(f->handle - 1, &bytes);
    uw_file_close(f);
    if (fd >= 0) {
        f->handle = fd + 1;
        f->bytes = bytes;
        return UW_OK;
    }
    return uw_error_set(err, fd, "%.140s: compressed%s", f->path,
                        fd == UW_ERR_UNSUPPORTED ? ", and this build has no zlib: unpack it with "
                                                   "gzip -d"
                        : fd == UW_ERR_CORRUPT   ? ", and damaged: gzip -t tells more"
                                                 : ": no room to unpack it, see TMPDIR");
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
    return unpack(f, err);
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

int uw_file_load(const struct uw_file *f, uint8_t **bytes, struct uw_error *err)
{
    *bytes = f->bytes < SIZE_MAX ? malloc((size_t)f->bytes + 1) : NULL;
    if (*bytes == NULL) {
        return uw_error_set(err, UW_ERR_NOMEM, "%.160s: no memory for its %llu bytes", f->path,
                            (unsigned long long)f->bytes);
    }
    if (uw_file_read(f, 0, *bytes, (size_t)f->bytes) < 0) {
        free(*bytes);
        *bytes = NULL;
        return uw_file_read_error(f, 0, err);
    }
    return UW_OK;
}

int uw_file_read_error(const struct uw_file *f, uint64_t offset, struct uw_error *err)
{
    return uw_error_set(err, UW_ERR_IO, "%.160s: reading byte %llu failed", f->path,
                        (unsigned long long)offset);
}

uint32_t uw_file_type_bytes(enum uw_file_type type)
{
    switch (type) {
    case UW_FILE_U8:
    case UW_FILE_I8: return 1;
    case UW_FILE_I16: return 2;
    case UW_FILE_I32:
    case UW_FILE_F32: return 4;
    case UW_FILE_F64: return 8;
    default: return 0;
    }
}

/* A big-endian number of so many bytes. */
static uint64_t bits_at(const uint8_t *b, uint32_t bytes)
{
    uint64_t bits = 0;
    for (uint32_t i = 0; i < bytes; i++) {
        bits = bits << 8 | b[i];
    }
    return bits;
}

static int32_t whole_at(const uint8_t *b, enum uw_file_type type)
{
    uint32_t bits = (uint32_t)bits_at(b, uw_file_type_bytes(type));
    return type == UW_FILE_I8    ? (int8_t)bits
           : type == UW_FILE_I16 ? (int16_t)bits
                                 : (int32_t)bits;
}

static float value_at(const uint8_t *b, enum uw_file_type type)
{
    uint64_t bits = bits_at(b, uw_file_type_bytes(type));
    uint32_t half = (uint32_t)bits;
    double wide;
    float x;
    if (type == UW_FILE_F64) {
        memcpy(&wide, &bits, sizeof wide);
        return (float)wide;
    }
    memcpy(&x, &half, sizeof x);
    return type == UW_FILE_F32 ? x : (float)whole_at(b, type);
}

int uw_file_read_wholes(const struct uw_file *f, uint64_t offset, enum uw_file_type type,
                        int32_t *x, size_t n)
{
    uint8_t block[BLOCK_BYTES];
    size_t bytes = uw_file_type_bytes(type);
    for (size_t done = 0, part; done < n; done += part) {
        part = n - done < BLOCK_BYTES / bytes ? n - done : BLOCK_BYTES / bytes;
        int rc = uw_file_read(f, offset + done * bytes, block, part * bytes);
        if (rc < 0) {
            return rc;
        }
        for (size_t i = 0; i < part; i++) {
            x[done + i] = whole_at(&block[bytes * i], type);
        }
    }
    return UW_OK;
}

int uw_file_read_label(const struct uw_file *f, uint64_t offset, enum uw_file_type type,
                       uint32_t classes, uint32_t *label)
{
    int32_t value = -1;
    if (uw_file_read_wholes(f, offset, type, &value, 1) < 0 || value < 0 ||
        (uint32_t)value >= classes) {
        return UW_ERR_IO;
    }
    *label = (uint32_t)value;
    return UW_OK;
}

int uw_file_read_values(const struct uw_file *f, uint64_t offset, enum uw_file_type type, float *x,
                        size_t n)
{
    uint8_t block[BLOCK_BYTES];
    size_t bytes = uw_file_type_bytes(type);
    for (size_t done = 0, part; done < n; done += part) {
        part = n - done < BLOCK_BYTES / bytes ? n - done : BLOCK_BYTES / bytes;
        int rc = uw_file_read(f, offset + done * bytes, block, part * bytes);
        if (rc < 0) {
            return rc;
        }
        float *to = x + done;
        for (size_t i = 0; type == UW_FILE_U8 && i < part; i++) {
            to[i] = (float)block[i] / 255.0f;
        }
        for (size_t i = 0; type != UW_FILE_U8 && i < part; i++) {
            to[i] = value_at(&block[bytes * i], type);
        }
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
