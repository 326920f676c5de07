/* SPDX-License-Identifier: Apache-2.0
 *
 * The only file here that calls the operating system. The file is read rather than mapped: if a
 * mapped file were truncated meanwhile, a signal would end the program. */
#include "uwasa/convert.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int why(int error)
{
    return error == ENOENT || error == ENOTDIR ? UW_ERR_NOTFOUND
           : error == EACCES || error == EPERM ? UW_ERR_DENIED
                                               : UW_ERR_IO;
}

/* "some/lenet.onnx" is model lenet. */
static const char *stem(const char *path, char name[128])
{
    const char *slash = strrchr(path, '/');
    const char *begin = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(begin, '.');
    size_t length = dot != NULL && dot != begin ? (size_t)(dot - begin) : strlen(begin);
    length = length < 127 ? length : 127;
    memcpy(name, begin, length);
    name[length] = '\0';
    return length > 0 ? name : "model";
}

/* Returns the bytes read; fewer than n when the file has become shorter, or cannot be read. */
static size_t read_all(int fd, uint8_t *out, size_t n)
{
    size_t have = 0;
    while (have < n) {
        ssize_t got = read(fd, out + have, n - have);
        if (got <= 0 && !(got < 0 && errno == EINTR)) {
            break;
        }
        have += got > 0 ? (size_t)got : 0;
    }
    return have;
}

/* Open an ordinary file for reading. Returns a descriptor, or a code. */
static int open_file(const char *path, struct stat *st)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK);
    if (fd >= 0 && fstat(fd, st) == 0 && S_ISREG(st->st_mode)) {
        return fd;
    }
    int error = errno;
    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0 ? UW_ERR_INVALID : why(error);
}

/* The files beside the model, which its tensors may lie in. The one that was asked for last stays
 * open. */
struct folder {
    struct uw_storage base;
    char path[4096];                /* of the model, cut behind its folder */
    char name[256];                 /* of the open file */
    int fd;                         /* -1: none */
};

static int folder_size(struct uw_storage *s, const char *object, uint64_t *bytes)
{
    struct folder *f = (struct folder *)s;
    struct stat st;
    if (f->fd < 0 || strcmp(f->name, object) != 0) {
        char path[sizeof f->path + sizeof f->name];
        if (strlen(object) >= sizeof f->name) {
            return UW_ERR_NOTFOUND;
        }
        snprintf(path, sizeof path, "%s%s", f->path, object);
        int fd = open_file(path, &st);
        if (fd < 0) {
            return fd;
        }
        if (f->fd >= 0) {
            close(f->fd);
        }
        f->fd = fd;
        snprintf(f->name, sizeof f->name, "%s", object);
    }
    if (fstat(f->fd, &st) < 0) {
        return UW_ERR_IO;
    }
    *bytes = (uint64_t)st.st_size;
    return UW_OK;
}

static int folder_read(struct uw_storage *s, const char *object, uint64_t offset, void *buf,
                       size_t bytes)
{
    struct folder *f = (struct folder *)s;
    uint64_t have;
    int rc = folder_size(s, object, &have);
    if (rc < 0 || offset > have || bytes > have - offset) {
        return rc < 0 ? rc : UW_ERR_CORRUPT;
    }
    if (lseek(f->fd, (off_t)offset, SEEK_SET) < 0) {
        return UW_ERR_IO;
    }
    return read_all(f->fd, buf, bytes) == bytes ? UW_OK : UW_ERR_IO;
}

static const struct uw_storage_ops folder_ops = {
    .name = "the model's folder", .size = folder_size, .read = folder_read};

static int open_folder(struct folder *f, const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t length = slash != NULL ? (size_t)(slash - path) + 1 : 0;
    *f = (struct folder){.base = {&folder_ops}, .fd = -1};
    if (length >= sizeof f->path) {
        return UW_ERR_TOOBIG;
    }
    memcpy(f->path, path, length);
    return UW_OK;
}

int uw_convert_load_with(struct uw_convert_model *c, const struct uw_convert_options *o,
                         const char *path, struct uw_error *err)
{
    struct uw_convert_options options = {.output = NULL};
    struct folder folder;
    struct stat st;
    char name[128];

    *c = (struct uw_convert_model){.tensors_n = 0};
    int fd = open_file(path, &st);
    if (fd < 0 && fd != UW_ERR_INVALID) {
        return uw_error_set(err, fd, "%.120s: cannot be opened: %s", path, strerror(errno));
    }
    if (fd < 0 || st.st_size <= 0 || open_folder(&folder, path) < 0) {
        if (fd >= 0) {
            close(fd);
        }
        return uw_error_set(err, UW_ERR_CORRUPT, "%.120s: no ONNX file: it is empty, or no "
                            "ordinary file", path);
    }
    size_t n = (uint64_t)st.st_size < SIZE_MAX ? (size_t)st.st_size : SIZE_MAX;
    uint8_t *bytes = n < SIZE_MAX ? malloc(n) : NULL;
    size_t have = bytes != NULL ? read_all(fd, bytes, n) : 0;
    close(fd);
    options = o != NULL ? *o : options;
    options.files = &folder.base;
    int rc = bytes == NULL ? uw_error_set(err, UW_ERR_NOMEM, "%.120s: out of memory", path)
             : have < n    ? uw_error_set(err, UW_ERR_IO, "%.120s: cannot be read to its end", path)
                           : uw_convert_read_with(c, &options, bytes, n, stem(path, name), err);
    free(bytes);
    if (folder.fd >= 0) {
        close(folder.fd);
    }
    return rc;
}

int uw_convert_load(struct uw_convert_model *c, const char *path, struct uw_error *err)
{
    return uw_convert_load_with(c, NULL, path, err);
}
