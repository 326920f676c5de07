/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/serial_tty.h"

#include "uwasa/board.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <termios.h>
#include <unistd.h>

#define LOOK_US 1000000u

static const struct {
    uint32_t baud;
    speed_t speed;
} speeds[] = {
    {1200, B1200},       {2400, B2400},       {4800, B4800},       {9600, B9600},
    {19200, B19200},     {38400, B38400},     {57600, B57600},     {115200, B115200},
    {230400, B230400},   {460800, B460800},   {500000, B500000},   {576000, B576000},
    {921600, B921600},   {1000000, B1000000}, {1152000, B1152000}, {1500000, B1500000},
    {2000000, B2000000}, {2500000, B2500000}, {3000000, B3000000}, {3500000, B3500000},
    {4000000, B4000000},
};

static bool speed_of(uint32_t baud, speed_t *speed)
{
    for (size_t i = 0; i < sizeof speeds / sizeof speeds[0]; i++) {
        if (speeds[i].baud == baud) {
            *speed = speeds[i].speed;
            return true;
        }
    }
    return false;
}

bool uw_serial_tty_baud_ok(uint32_t baud)
{
    speed_t speed;
    return speed_of(baud, &speed);
}

static int status_of_errno(void)
{
    switch (errno) {
    case ENOENT:
    case ENODEV:
    case ENXIO:
        return UW_ERR_NOTFOUND;
    case EACCES:
    case EPERM:
        return UW_ERR_DENIED;
    case EBUSY:
    case EWOULDBLOCK:
        return UW_ERR_AGAIN;
    case ENOTTY:
        return UW_ERR_INVALID;
    default:
        return UW_ERR_IO;
    }
}

static int make_raw(int fd, uint32_t baud)
{
    struct termios t;
    speed_t speed = B9600;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 || tcgetattr(fd, &t) != 0) {
        return status_of_errno();
    }
    (void)speed_of(baud, &speed);
    cfmakeraw(&t);
    t.c_cflag &= ~(tcflag_t)(CSTOPB | CRTSCTS);
    t.c_cflag |= CLOCAL | CREAD;
    t.c_cc[VMIN] = 1;
    t.c_cc[VTIME] = 0;
    if (cfsetispeed(&t, speed) != 0 || cfsetospeed(&t, speed) != 0 ||
        tcsetattr(fd, TCSANOW, &t) != 0 || tcflush(fd, TCIOFLUSH) != 0) {
        return status_of_errno();
    }
    return UW_OK;
}

/* Returns a descriptor or an error code. */
static int open_device(const char *path, uint32_t baud)
{
    int fd = open(path, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    int rc = fd < 0 ? status_of_errno() : make_raw(fd, baud);
    if (rc < 0 && fd >= 0) {
        close(fd);
    }
    return rc < 0 ? rc : fd;
}

/* Replace the lost device with an end of an empty pipe, which is never readable. */
static void disconnect(struct uw_serial_tty *s)
{
    int ends[2];
    s->away = true;
    s->look_us = uw_board_now_us() + LOOK_US;
    if (pipe(ends) != 0) {
        return;
    }
    (void)dup2(ends[0], s->base.fd);
    (void)fcntl(s->base.fd, F_SETFD, FD_CLOEXEC);
    (void)fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    close(ends[0]);
    s->quiet = ends[1];
}

static void look(struct uw_serial_tty *s)
{
    uint64_t now_us = uw_board_now_us();
    if (now_us < s->look_us) {
        return;
    }
    s->look_us = now_us + LOOK_US;
    int fd = open_device(s->path, s->base.rate_bits_per_s);
    if (fd < 0) {
        return;
    }
    if (dup2(fd, s->base.fd) >= 0) { /* the duplicate keeps the lock */
        (void)fcntl(s->base.fd, F_SETFD, FD_CLOEXEC);
        s->away = false;
        if (s->quiet >= 0) {
            close(s->quiet);
            s->quiet = -1;
        }
    }
    close(fd);
}

static bool is_later(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

static int tty_write(struct uw_serial *base, const void *buf, uint32_t bytes)
{
    struct uw_serial_tty *s = (struct uw_serial_tty *)base;
    ssize_t n = s->away ? (ssize_t)bytes : write(base->fd, buf, bytes);
    if (n < 0 && !is_later()) {
        disconnect(s);
        n = (ssize_t)bytes;
    }
    return n > 0 ? (int)n : 0;
}

static int tty_read(struct uw_serial *base, void *buf, uint32_t cap_bytes)
{
    struct uw_serial_tty *s = (struct uw_serial_tty *)base;
    if (s->away) {
        look(s);
    }
    ssize_t n = s->away || cap_bytes == 0 ? 0 : read(base->fd, buf, cap_bytes);
    if (!s->away && cap_bytes > 0 && (n == 0 || (n < 0 && !is_later()))) {
        disconnect(s);
    }
    return n > 0 ? (int)n : 0;
}

static const struct uw_serial_ops tty_ops = {.name = "tty", .write = tty_write, .read = tty_read};

static const char *why_not(int rc)
{
    return rc == UW_ERR_NOTFOUND  ? "no such device"
           : rc == UW_ERR_DENIED  ? "permission denied; is the user in the group of the device?"
           : rc == UW_ERR_AGAIN   ? "another program uses it"
           : rc == UW_ERR_INVALID ? "not a serial line"
                                  : uw_status_text(rc);
}

int uw_serial_tty_open(struct uw_serial_tty *s, const char *path, uint32_t baud,
                       struct uw_error *err)
{
    *s = (struct uw_serial_tty){.base.fd = -1, .quiet = -1};
    if (!uw_serial_tty_baud_ok(baud)) {
        return uw_error_set(err, UW_ERR_INVALID, "%s: %u baud is not a rate of serial lines", path,
                            (unsigned)baud);
    }
    if (strlen(path) >= sizeof s->path) {
        return uw_error_set(err, UW_ERR_TOOBIG, "%.100s...: the name is too long", path);
    }
    int fd = open_device(path, baud);
    if (fd < 0) {
        return uw_error_set(err, fd, "%s: %s", path, why_not(fd));
    }
    memcpy(s->path, path, strlen(path) + 1u);
    s->base = (struct uw_serial){.ops = &tty_ops, .rate_bits_per_s = baud, .fd = fd};
    return UW_OK;
}

void uw_serial_tty_close(struct uw_serial_tty *s)
{
    if (s->base.ops == NULL) {
        return;
    }
    close(s->base.fd);
    if (s->quiet >= 0) {
        close(s->quiet);
    }
    s->base.fd = s->quiet = -1;
    s->base.ops = NULL;
}
