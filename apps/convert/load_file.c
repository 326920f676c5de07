/* SPDX-License-Identifier: Apache-2.0
 *
 * The only file here that calls the operating system. The file is read rather than mapped: if a
 * mapped file were truncated meanwhile, a signal would end the program. */
#include "uwasa/convert.h"

#include <errno.h>
#include <fcntl.h>
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

int uw_convert_load(struct uw_convert_model *c, const char *path, struct uw_error *err)
{
    struct stat st;
    char name[128];

    *c = (struct uw_convert_model){.tensors_n = 0};
    int fd = open(path, O_RDONLY | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0) {
        int error = errno;
        if (fd >= 0) {
            close(fd);
        }
        return uw_error_set(err, why(error), "%.120s: cannot be opened: %s", path,
                            strerror(error));
    }
    if (!S_ISREG(st.st_mode) || st.st_size <= 0) {
        close(fd);
        return uw_error_set(err, UW_ERR_CORRUPT, "%.120s: no ONNX file: it is empty, or no "
                            "ordinary file", path);
    }
    size_t n = (uint64_t)st.st_size < SIZE_MAX ? (size_t)st.st_size : SIZE_MAX;
    uint8_t *bytes = n < SIZE_MAX ? malloc(n) : NULL;
    size_t have = bytes != NULL ? read_all(fd, bytes, n) : 0;
    close(fd);
    int rc = bytes == NULL ? uw_error_set(err, UW_ERR_NOMEM, "%.120s: out of memory", path)
             : have < n    ? uw_error_set(err, UW_ERR_IO, "%.120s: cannot be read to its end", path)
                           : uw_convert_read(c, bytes, n, stem(path, name), err);
    free(bytes);
    return rc;
}
