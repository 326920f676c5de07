/* SPDX-License-Identifier: Apache-2.0 */
#include "capture_file.h"

#include "base/args.h"
#include "base/open_file.h"

#include "uwasa/board.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define AGAIN_US 1000000u       /* after the disk was full */
#define PATIENCE_MS 300         /* wait at close for a pipe to take the last record */

/* Write the rest of a record to the pipe, as far as it fits. Returns whether it is complete. */
static bool put_rest(struct uw_capture_file *c)
{
    ssize_t put = c->rest_bytes > 0 ? write(c->fd, c->rest, c->rest_bytes) : 0;
    if (put > 0) {
        c->rest_bytes -= (uint32_t)put;
        memmove(c->rest, c->rest + put, c->rest_bytes);
    } else if (put < 0 && errno != EAGAIN && errno != EINTR) {
        c->rest_bytes = 0;      /* the next write reports the reason */
    }
    return c->rest_bytes == 0;
}

/* Remove an incomplete record, so that the file stays readable. */
static int cut(struct uw_capture_file *c, int error)
{
    bool full = uw_file_is_full(error);
    (void)uw_cut_file(c->fd, (off_t)c->bytes);      /* a pipe has nothing to cut */
    if (full && c->error == 0) {
        (void)uw_cli_error("", 0, "--pcap %.160s: %s: messages are missing in it until there is "
                           "room", c->path, strerror(error));
    }
    c->error = error;
    c->again_us = full ? uw_board_now_us() + AGAIN_US : 0;
    return full ? UW_ERR_AGAIN : UW_ERR_IO;
}

static int write_record(void *arg, const void *record, uint32_t record_bytes)
{
    struct uw_capture_file *c = arg;
    const uint8_t *at = record;
    uint32_t left = record_bytes;
    if (!put_rest(c) || (c->again_us != 0 && uw_board_now_us() < c->again_us)) {
        return UW_ERR_AGAIN;
    }
    while (left > 0) {
        ssize_t put = write(c->fd, at, left);
        if (put < 0 && errno == EAGAIN) {
            c->rest_bytes = left < record_bytes ? left : 0;
            memcpy(c->rest, at, c->rest_bytes);
            return left < record_bytes ? UW_OK : UW_ERR_AGAIN;
        }
        if (put < 0 && errno != EINTR) {
            return cut(c, errno);
        }
        put = put > 0 ? put : 0;
        at += put;
        left -= (uint32_t)put;
    }
    c->bytes += record_bytes;
    c->again_us = 0;
    return UW_OK;
}

/* Microseconds from 1970 to the moment when the board's clock was 0. */
static uint64_t epoch_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u - uw_board_now_us();
}

int uw_capture_file_open(struct uw_capture_file *c, const char *path, struct uw_link *lower,
                         struct uw_error *err)
{
    struct uw_link_capture_config config = {.lower = lower, .write = write_record, .arg = c,
                                            .epoch_us = epoch_us()};
    memset(c, 0, sizeof *c);
    c->path = path;
    if (strcmp(path, "-") == 0) {       /* where results go */
        return uw_error_set(err, UW_ERR_INVALID, "--pcap -: needs the name of a file, or of a pipe "
                            "(mkfifo) that is being read");
    }
    config.memory_bytes = uw_link_capture_bytes(&config);
    size_t memory_bytes = config.memory_bytes != SIZE_MAX ? 2u * config.memory_bytes : SIZE_MAX;
    int rc = uw_board_memory_take(memory_bytes, &config.memory);
    if (rc < 0) {
        return uw_error_set(err, rc, "--pcap: %s", uw_status_text(rc));
    }
    c->fd = uw_open_fd(path);
    if (c->fd < 0) {
        c->error = errno;
        uw_board_memory_release(config.memory, memory_bytes);
        return uw_error_set(err, UW_ERR_IO, "--pcap %.160s: %s", path, strerror(c->error));
    }
    c->memory = config.memory;
    c->memory_bytes = memory_bytes;
    c->rest = (uint8_t *)c->memory + config.memory_bytes;
    (void)fcntl(c->fd, F_SETFL, fcntl(c->fd, F_GETFL) | O_NONBLOCK);
    rc = uw_link_capture_init(&c->link, &config);
    return rc < 0 ? uw_error_set(err, rc, "--pcap %.160s: %s", path, strerror(c->error)) : UW_OK;
}

int uw_capture_file_check(const struct uw_capture_file *c, struct uw_error *err)
{
    return c->error == 0 ? UW_OK
                         : uw_error_set(err, UW_ERR_IO, "--pcap %.160s: %s: %" PRIu64
                                        " messages are not in it", c->path, strerror(c->error),
                                        c->link.missed_n);
}

void uw_capture_file_close(struct uw_capture_file *c)
{
    if (c->memory != NULL) {
        struct pollfd room = {.fd = c->fd, .events = POLLOUT};
        while (!put_rest(c) && poll(&room, 1, PATIENCE_MS) > 0 && (room.revents & POLLOUT) != 0) {
        }
        uw_link_deinit(&c->link.link);
        close(c->fd);
        uw_board_memory_release(c->memory, c->memory_bytes);
    }
    c->memory = NULL;
}
