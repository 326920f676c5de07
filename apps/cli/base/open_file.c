/* SPDX-License-Identifier: Apache-2.0 */
#include "open_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_BYTES 16384u

static int open_at_once(const char *path, int how)
{
    int fd = open(path, how | O_NONBLOCK | O_CLOEXEC, 0666);
    int flags = fd >= 0 ? fcntl(fd, F_GETFL) : -1;
    if (flags >= 0) {
        (void)fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
    }
    return fd;
}

/* The stream of a descriptor that was opened. */
static FILE *stream_of(int fd, const char *mode)
{
    FILE *f = fd >= 0 ? fdopen(fd, mode) : NULL;
    if (f == NULL && fd >= 0) {
        int error = errno;
        close(fd);
        errno = error;
    }
    return f;
}

int uw_open_fd(const char *path)
{
    return open_at_once(path, O_WRONLY | O_CREAT | O_TRUNC);
}

FILE *uw_open_file(const char *path, bool to_write)
{
    return to_write ? stream_of(uw_open_fd(path), "w")
                    : stream_of(open_at_once(path, O_RDONLY), "r");
}

const char *uw_file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

char *uw_read_file(const char *path, size_t most, size_t *bytes)
{
    FILE *f = uw_open_file(path, false);
    char *text = NULL, *more = NULL;
    int error = f == NULL ? errno : 0;
    *bytes = 0;
    for (size_t room = FIRST_BYTES, n = 1; error == 0 && n != 0; room *= 2u) {
        more = realloc(text, room + 1u);
        text = more != NULL ? more : text;
        n = more != NULL ? fread(text + *bytes, 1, room - *bytes, f) : 0;
        *bytes += n;
        error = more == NULL ? ENOMEM : ferror(f) ? errno : *bytes > most ? EFBIG : 0;
    }
    if (f != NULL) {
        fclose(f);
    }
    if (error != 0) {
        free(text);
        errno = error;
        return NULL;
    }
    text[*bytes] = '\0';
    return text;
}

FILE *uw_open_file_again(const char *path)
{
    FILE *f = stream_of(open_at_once(path, O_WRONLY | O_CREAT | O_APPEND), "a");
    if (f != NULL) {
        (void)fseek(f, 0, SEEK_END);    /* so that ftell is the size; a pipe has no end */
    }
    return f;
}

bool uw_file_ends_a_line(const char *path)
{
    char last = '\n';
    struct stat st;
    int fd = open_at_once(path, O_RDONLY);
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
        (void)!pread(fd, &last, 1, st.st_size - 1);
    }
    if (fd >= 0) {
        close(fd);
    }
    return last == '\n';
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
