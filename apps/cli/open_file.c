/* SPDX-License-Identifier: Apache-2.0 */
#include "open_file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

FILE *uw_open_file(const char *path, bool to_write)
{
    FILE *f = NULL;
    int how = to_write ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY;
    int fd = open(path, how | O_NONBLOCK | O_CLOEXEC, 0666);
    if (fd < 0) {
        return NULL;
    }
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0 && fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) == 0) {
        f = fdopen(fd, to_write ? "w" : "r");
    }
    if (f == NULL) {
        int error = errno;
        close(fd);
        errno = error;
    }
    return f;
}
