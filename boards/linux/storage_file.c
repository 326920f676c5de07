/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/storage_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES UW_STORAGE_FILE_PATH_BYTES
#define PART_SUFFIX ".part"

static struct uw_storage_file *self(struct uw_storage *s)
{
    return (struct uw_storage_file *)s; /* base is the first member */
}

static int status_of_errno(void)
{
    switch (errno) {
    case ENOENT:
    case ENOTDIR:
        return UW_ERR_NOTFOUND;
    case EACCES:
    case EPERM:
    case EROFS:
        return UW_ERR_DENIED;
    case ENOSPC:
    case EDQUOT:
    case EFBIG: /* a limit set for this process */
        return UW_ERR_FULL;
    default:
        return UW_ERR_IO;
    }
}

static int join(char *out, const char *a, const char *b)
{
    size_t a_bytes = strlen(a), b_bytes = strlen(b);
    if (a_bytes + b_bytes >= PATH_BYTES) {
        return UW_ERR_TOOBIG;
    }
    memcpy(out, a, a_bytes);
    memcpy(out + a_bytes, b, b_bytes + 1);
    return UW_OK;
}

static int object_path(const struct uw_storage_file *s, const char *object, char *out)
{
    if (object[0] == '\0') {
        return UW_ERR_INVALID;
    }
    return join(out, object[0] == '/' ? "" : s->directory, object);
}

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
    }
    *fd = -1;
}

/* ---- reading ---- */

static int open_for_reading(struct uw_storage_file *s, const char *path)
{
    close_fd(&s->read_fd);
    s->read_fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (s->read_fd < 0) {
        return status_of_errno();
    }
    memcpy(s->reading, path, strlen(path) + 1);
    return UW_OK;
}

static int file_size(struct uw_storage *base, const char *object, uint64_t *bytes)
{
    struct uw_storage_file *s = self(base);
    char path[PATH_BYTES];
    struct stat st;
    int rc = object_path(s, object, path);
    if (rc < 0 || (rc = open_for_reading(s, path)) < 0) {
        return rc;
    }
    if (fstat(s->read_fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        close_fd(&s->read_fd);
        return UW_ERR_IO;
    }
    *bytes = (uint64_t)st.st_size;
    return UW_OK;
}

static int file_read(struct uw_storage *base, const char *object, uint64_t offset, void *buf,
                     size_t bytes)
{
    struct uw_storage_file *s = self(base);
    char path[PATH_BYTES];
    int rc = object_path(s, object, path);
    if (rc < 0) {
        return rc;
    }
    if (s->read_fd < 0 || strcmp(s->reading, path) != 0) {
        uint64_t ignored;
        rc = file_size(base, object, &ignored);
        if (rc < 0) {
            return rc;
        }
    }
    if (offset > (uint64_t)INT64_MAX - bytes) {
        return UW_ERR_CORRUPT;
    }
    char *p = buf;
    while (bytes > 0) {
        ssize_t got = pread(s->read_fd, p, bytes, (off_t)offset);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return got == 0 ? UW_ERR_CORRUPT : UW_ERR_IO;
        }
        p += got;
        bytes -= (size_t)got;
        offset += (uint64_t)got;
    }
    return UW_OK;
}

/* ---- writing ---- */

static int part_path(const struct uw_storage_file *s, char *out)
{
    return join(out, s->writing, PART_SUFFIX);
}

static bool is_at(int fd, const char *path)
{
    struct stat mine, there;
    return fstat(fd, &mine) == 0 && stat(path, &there) == 0 && mine.st_ino == there.st_ino &&
           mine.st_dev == there.st_dev;
}

/* Open a file and lock it against others. If one of them has replaced or renamed it between open
 * and lock, the lock is not on what is there now: try again. Returns a descriptor, or a code. */
static int open_locked(const char *path, int how)
{
    for (;;) {
        int fd = open(path, how | O_CLOEXEC, 0666);
        if (fd < 0) {
            return status_of_errno();
        }
        if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) {
            close(fd);
            return UW_ERR_AGAIN;
        }
        if (is_at(fd, path)) {
            return fd;
        }
        close(fd);
    }
}

static int open_part(const char *part)
{
    return open_locked(part, O_RDWR | O_CREAT | O_NOFOLLOW);
}

static bool holds(const struct uw_storage_file *s, const char *path)
{
    return s->held_fd >= 0 && strcmp(s->held, path) == 0;
}

/* Hold `path`: lock the file if there is one, else the temporary file. Whoever writes the first
 * file renames one into the other: look again then. */
static int hold(struct uw_storage_file *s, const char *path, const char *part)
{
    struct stat st;
    for (;;) {
        if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
            return UW_ERR_INVALID;
        }
        int fd = open_locked(path, O_RDONLY | O_NONBLOCK);
        if (fd < 0 && fd != UW_ERR_NOTFOUND) {
            return fd;
        }
        int part_fd = open_part(part);
        bool there = stat(path, &st) == 0;
        if (part_fd < 0 || (fd >= 0) != there) {
            close_fd(&fd);
            if (part_fd < 0) {
                return part_fd;
            }
            unlink(part);
            close(part_fd);
            continue;
        }
        if (there) {
            unlink(part);
            close(part_fd);
        }
        s->held_fd = there ? fd : part_fd;
        s->held_part = !there;
        memcpy(s->held, path, strlen(path) + 1);
        return UW_OK;
    }
}

int uw_storage_file_hold(struct uw_storage_file *s, const char *object)
{
    char path[PATH_BYTES], part[PATH_BYTES];
    int rc = object_path(s, object, path);
    rc = rc < 0 ? rc : join(part, path, PART_SUFFIX);
    if (rc < 0 || holds(s, path)) {
        return rc;
    }
    return s->held_fd >= 0 || s->write_fd >= 0 ? UW_ERR_INVALID : hold(s, path, part);
}

static int file_begin(struct uw_storage *base, const char *object)
{
    struct uw_storage_file *s = self(base);
    char path[PATH_BYTES], part[PATH_BYTES];
    struct stat st;
    if (s->write_fd >= 0) {
        return UW_ERR_INVALID;
    }
    int rc = object_path(s, object, path);
    if (rc < 0 || (rc = join(part, path, PART_SUFFIX)) < 0) {
        return rc;
    }
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        return UW_ERR_INVALID; /* the rename would replace a device or pipe with a file */
    }
    bool mine = holds(s, path) && s->held_part && is_at(s->held_fd, part);
    int fd = mine ? s->held_fd : open_part(part);
    if (fd < 0) {
        return fd;
    }
    if (ftruncate(fd, 0) < 0 || lseek(fd, 0, SEEK_SET) < 0) {
        if (!mine) {
            close(fd);
        }
        return UW_ERR_IO;
    }
    s->write_fd = fd;
    s->write_failed = false;
    memcpy(s->writing, path, strlen(path) + 1);
    return UW_OK;
}

static int file_append(struct uw_storage *base, const void *buf, size_t bytes)
{
    struct uw_storage_file *s = self(base);
    const char *p = buf;
    if (s->write_fd < 0) {
        return UW_ERR_INVALID;
    }
    while (bytes > 0) {
        ssize_t put = write(s->write_fd, p, bytes);
        if (put < 0) {
            if (errno == EINTR) {
                continue;
            }
            int rc = status_of_errno();
            s->write_failed = true;
            return rc == UW_ERR_FULL ? rc : UW_ERR_IO;
        }
        p += put;
        bytes -= (size_t)put;
    }
    return UW_OK;
}

/* Make the rename durable. A file system that cannot sync folders returns EINVAL. */
static int sync_folder_of(const char *path)
{
    char folder[PATH_BYTES];
    const char *slash = strrchr(path, '/');
    size_t folder_bytes = slash == NULL ? 0 : (size_t)(slash - path) + 1;
    memcpy(folder, path, folder_bytes);
    folder[folder_bytes] = '\0';

    int fd = open(slash == NULL ? "." : folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return errno == EACCES ? UW_OK : UW_ERR_IO; /* a folder may be writable but not readable */
    }
    int rc = fsync(fd) < 0 && errno != EINVAL ? UW_ERR_IO : UW_OK;
    close(fd);
    return rc;
}

/* The lock of the file just written is on what others find now. */
static void hold_on(struct uw_storage_file *s)
{
    if (s->write_fd != s->held_fd) {
        close_fd(&s->held_fd);
    }
    s->held_fd = s->write_fd;
    s->held_part = false;
    s->write_fd = -1;
}

static int file_end(struct uw_storage *base, int commit)
{
    struct uw_storage_file *s = self(base);
    char part[PATH_BYTES];
    if (s->write_fd < 0) {
        return UW_ERR_INVALID;
    }
    int rc = part_path(s, part);
    bool is_there = rc == UW_OK;
    if (rc == UW_OK && commit && (s->write_failed || fsync(s->write_fd) < 0)) {
        rc = UW_ERR_IO;
    }
    if (rc == UW_OK && commit) {
        is_there = rename(part, s->writing) != 0;
        rc = is_there ? status_of_errno() : sync_folder_of(s->writing);
    }
    if (!is_there && holds(s, s->writing)) {
        hold_on(s);
    } else if (s->write_fd == s->held_fd) {
        (void)!ftruncate(s->held_fd, 0);
        s->write_fd = -1;   /* the part stays, as its lock does */
    } else if (is_there) {  /* after the rename, a file of that name belongs to another writer */
        unlink(part);
    }
    close_fd(&s->write_fd);
    close_fd(&s->read_fd); /* it may be open on the object just replaced */
    return rc;
}

static const struct uw_storage_ops file_ops = {
    .name = "file",
    .size = file_size,
    .read = file_read,
    .begin = file_begin,
    .append = file_append,
    .end = file_end,
};

/* ---- life cycle ---- */

int uw_storage_file_init(struct uw_storage_file *s, const char *directory)
{
    *s = (struct uw_storage_file){.base.ops = &file_ops, .read_fd = -1, .write_fd = -1,
                                  .held_fd = -1};
    if (directory == NULL || directory[0] == '\0') {
        return UW_OK;
    }
    size_t bytes = strlen(directory);
    return join(s->directory, directory, directory[bytes - 1] == '/' ? "" : "/");
}

void uw_storage_file_deinit(struct uw_storage_file *s)
{
    if (s->base.ops == NULL) {
        return;
    }
    if (s->write_fd >= 0) {
        file_end(&s->base, 0);
    }
    char part[PATH_BYTES];
    if (s->held_fd >= 0 && s->held_part && join(part, s->held, PART_SUFFIX) == UW_OK &&
        is_at(s->held_fd, part)) {
        unlink(part);
    }
    close_fd(&s->held_fd);
    close_fd(&s->read_fd);
    s->base.ops = NULL;
}
