/* SPDX-License-Identifier: Apache-2.0 */
#include "demo.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Remove the files of a flat directory, and the directory. */
static int remove_directory(const char *path)
{
    DIR *d = opendir(path);
    if (d == NULL) {
        return errno == ENOENT ? 0 : -1;
    }
    for (const struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        unlinkat(dirfd(d), e->d_name, 0);
    }
    closedir(d);
    return rmdir(path);
}

static void wait_and_remove(const char *path, int fd)
{
    char byte;
    while (read(fd, &byte, 1) < 0 && errno == EINTR) {
    }
    /* The owner's other processes may still be ending and writing a last file. */
    for (int i = 0; i < 50 && remove_directory(path) != 0; i++) {
        const struct timespec pause = {.tv_nsec = 40 * 1000 * 1000};
        nanosleep(&pause, NULL);
    }
}

int uw_janitor_open(struct uw_janitor *j, const char *prefix, struct uw_error *err)
{
    int fds[2];
    const char *tmp = getenv("TMPDIR");
    *j = (struct uw_janitor){.owner_fd = -1};
    int n = snprintf(j->path, sizeof j->path, "%s/%s-XXXXXX",
                     tmp != NULL && tmp[0] != '\0' ? tmp : "/tmp", prefix);
    if (n >= (int)sizeof j->path || mkdtemp(j->path) == NULL) {
        return uw_error_set(err, UW_ERR_IO, "%.200s: no temporary directory: %s", j->path,
                            strerror(errno));
    }
    if (pipe(fds) != 0) {
        rmdir(j->path);
        return uw_error_set(err, UW_ERR_IO, "no pipe: %s", strerror(errno));
    }
    fflush(NULL);
    j->pid = fork();
    if (j->pid == 0) {
        setpgid(0, 0);
        signal(SIGINT, SIG_IGN);
        signal(SIGTERM, SIG_IGN);
        signal(SIGHUP, SIG_IGN);
        close(fds[1]);
        for (int fd = 0; fd < 3; fd++) {
            close(fd);
        }
        wait_and_remove(j->path, fds[0]);
        _exit(0);
    }
    close(fds[0]);
    if (j->pid < 0) {
        close(fds[1]);
        rmdir(j->path);
        return uw_error_set(err, UW_ERR_IO, "no process: %s", strerror(errno));
    }
    j->owner_fd = fds[1];
    fcntl(j->owner_fd, F_SETFD, FD_CLOEXEC);
    return UW_OK;
}

void uw_janitor_disown(struct uw_janitor *j)
{
    if (j->owner_fd >= 0) {
        close(j->owner_fd);
        j->owner_fd = -1;
    }
}

void uw_janitor_close(struct uw_janitor *j)
{
    if (j->owner_fd >= 0) {
        uw_janitor_disown(j);
        waitpid(j->pid, NULL, 0);
    }
}
