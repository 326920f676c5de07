/* SPDX-License-Identifier: Apache-2.0
 *
 * pty_pair.h - two pseudo terminals joined like the ends of a cable; pump carries the bytes
 */
#ifndef UWASA_TEST_PTY_PAIR_H
#define UWASA_TEST_PTY_PAIR_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define PTY_NAME_BYTES 64u

struct pty_pair {
    int master[2];                      /* -1: none */
    char name[2][PTY_NAME_BYTES];
    uint8_t wait[2][4096];              /* from master i, on its way to the other */
    size_t wait_n[2];
};

/* Returns the master's descriptor or -1; name: where the other end is. */
static inline int pty_open(char name[PTY_NAME_BYTES])
{
    int fd = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    int unlocked = 0;
    unsigned number;
    if (fd >= 0 && (ioctl(fd, TIOCSPTLCK, &unlocked) != 0 || ioctl(fd, TIOCGPTN, &number) != 0)) {
        close(fd);
        fd = -1;
    }
    if (fd >= 0) {
        snprintf(name, PTY_NAME_BYTES, "/dev/pts/%u", number);
    }
    return fd;
}

static inline int pty_pair_open(struct pty_pair *p)
{
    memset(p, 0, sizeof *p);
    p->master[0] = pty_open(p->name[0]);
    p->master[1] = pty_open(p->name[1]);
    return p->master[0] >= 0 && p->master[1] >= 0;
}

static inline void pty_pair_pump(struct pty_pair *p)
{
    for (int i = 0; i < 2; i++) {
        ssize_t n = read(p->master[i], p->wait[i] + p->wait_n[i],
                         sizeof p->wait[i] - p->wait_n[i]);
        p->wait_n[i] += n > 0 ? (size_t)n : 0;
        n = write(p->master[1 - i], p->wait[i], p->wait_n[i]);
        if (n > 0) {
            p->wait_n[i] -= (size_t)n;
            memmove(p->wait[i], p->wait[i] + n, p->wait_n[i]);
        }
    }
}

static inline void pty_pair_close(struct pty_pair *p)
{
    for (int i = 0; i < 2; i++) {
        if (p->master[i] >= 0) {
            close(p->master[i]);
        }
        p->master[i] = -1;
    }
}

#endif
