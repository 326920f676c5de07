/* SPDX-License-Identifier: Apache-2.0 */
#include "capture_file.h"

#include "open_file.h"

#include "uwasa/board.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A record that does not fit any more is cut off again: what is left can be read. */
static int write_record(void *arg, const void *record, uint32_t record_bytes)
{
    struct uw_capture_file *c = arg;
    const uint8_t *at = record;
    size_t left = record_bytes;
    while (left > 0) {
        ssize_t put = write(c->fd, at, left);
        if (put < 0 && errno != EINTR) {
            c->error = errno;
            (void)!ftruncate(c->fd, (off_t)c->bytes);   /* a pipe has nothing to cut */
            return UW_ERR_IO;
        }
        put = put > 0 ? put : 0;
        at += put;
        left -= (size_t)put;
    }
    c->bytes += record_bytes;
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
    int rc = uw_board_memory_take(config.memory_bytes, &config.memory);
    if (rc < 0) {
        return uw_error_set(err, rc, "--pcap: %s", uw_status_text(rc));
    }
    FILE *f = uw_open_file(path, true);
    c->fd = f != NULL ? dup(fileno(f)) : -1;
    c->error = errno;
    if (f != NULL) {
        fclose(f);
    }
    if (c->fd < 0) {
        uw_board_memory_release(config.memory, config.memory_bytes);
        return uw_error_set(err, UW_ERR_IO, "--pcap %.160s: %s", path, strerror(c->error));
    }
    c->error = 0;
    c->memory = config.memory;
    c->memory_bytes = config.memory_bytes;
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
        uw_link_deinit(&c->link.link);
        close(c->fd);
        uw_board_memory_release(c->memory, c->memory_bytes);
    }
    c->memory = NULL;
}
