/* SPDX-License-Identifier: Apache-2.0 */
#include "open_file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static FILE *open_at_once(const char *path, int how, const char *mode)
{
    FILE *f = NULL;
    int fd = open(path, how | O_NONBLOCK | O_CLOEXEC, 0666);
    if (fd < 0) {
        return NULL;
    }
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0 && fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) == 0) {
        f = fdopen(fd, mode);
    }
    if (f == NULL) {
        int error = errno;
        close(fd);
        errno = error;
    }
    return f;
}

FILE *uw_open_file(const char *path, bool to_write)
{
    return to_write ? open_at_once(path, O_WRONLY | O_CREAT | O_TRUNC, "w")
                    : open_at_once(path, O_RDONLY, "r");
}

FILE *uw_open_file_again(const char *path)
{
    FILE *f = open_at_once(path, O_WRONLY | O_CREAT | O_APPEND, "a");
    if (f != NULL) {
        (void)fseek(f, 0, SEEK_END);    /* so that ftell tells; a pipe has no end */
    }
    return f;
}

bool uw_file_is_full(int error)
{
    return error == ENOSPC || error == EDQUOT || error == EFBIG;
}

bool uw_cut_file(int fd, off_t bytes)
{
    return ftruncate(fd, bytes) == 0 && lseek(fd, bytes, SEEK_SET) == bytes;
}

void uw_empty_file(FILE *f)
{
    (void)!ftruncate(fileno(f), 0);     /* a pipe has nothing to cut */
    (void)fseek(f, 0, SEEK_END);
}
