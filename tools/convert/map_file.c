/* SPDX-License-Identifier: Apache-2.0
 *
 * The one file here that asks the operating system: a model of hundreds of megabytes is mapped,
 * so that only what is copied out of it takes memory. */
#include "uwasa/convert.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
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

int uw_convert_load(struct uw_convert_model *c, const char *path, struct uw_error *err)
{
    struct stat st;
    char name[128];
    void *bytes = MAP_FAILED;

    *c = (struct uw_convert_model){.tensors_n = 0};
    int fd = open(path, O_RDONLY | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0) {
        int code = why(errno);
        if (fd >= 0) {
            close(fd);
        }
        return uw_error_set(err, code, "%.120s: cannot be opened: %s", path, strerror(errno));
    }
    if (S_ISREG(st.st_mode) && st.st_size > 0) {
        bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    }
    close(fd);
    if (bytes == MAP_FAILED) {
        return uw_error_set(err, UW_ERR_CORRUPT, "%.120s: no ONNX file: it is empty, or no "
                            "ordinary file", path);
    }
    int rc = uw_convert_read(c, bytes, (size_t)st.st_size, stem(path, name), err);
    munmap(bytes, (size_t)st.st_size);
    return rc;
}
