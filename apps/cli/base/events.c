/* SPDX-License-Identifier: Apache-2.0 */
#include "events.h"

#include "args.h"
#include "open_file.h"
#include "stop.h"

#include "uwasa/board.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LOOK_MS 100             /* interval of checks for a stop while a reader is slow */
#define PATIENCE_US 300000u     /* wait for a reader that does not read, after a stop */
#define AGAIN_US 1000000u       /* until the next try after the disk was full */
#define GAP_BYTES 96u

int uw_events_open(struct uw_events *e, const char *path, unsigned how, struct uw_error *err)
{
    e->file = NULL;
    e->listener = NULL;
    e->path = path;
    e->how = how;
    e->failed = false;
    e->missed_n = e->gap_n = e->again_us = 0;
    e->torn = false;
    if (path == NULL) {
        return UW_OK;
    }
    e->file = strcmp(path, "-") == 0 ? stdout : uw_open_file_again(path);
    if (e->file == NULL) {
        return uw_error_set(err, UW_ERR_IO, "--json %s: %s", path, strerror(errno));
    }
    if ((how & UW_EVENTS_KEEP) == 0) {
        uw_events_empty(e);
    } else if (e->file != stdout) {
        e->torn = !uw_file_ends_a_line(path);   /* whoever wrote it was killed */
    }
    return UW_OK;
}

void uw_events_empty(struct uw_events *e)
{
    if (e->file != NULL && e->file != stdout) {
        uw_empty_file(e->file);
        e->torn = false;
    }
}

bool uw_events_are_read(const struct uw_events *e)
{
    return e->file != NULL || e->listener != NULL;
}

bool uw_events_take_stdout(const struct uw_events *e)
{
    return e->file == stdout || e->listener != NULL;
}

cJSON *uw_event(const char *name)
{
    cJSON *event = cJSON_CreateObject();
    cJSON_AddStringToObject(event, "event", name);
    return event;
}

void uw_event_numbers(cJSON *event, const struct uw_event_number *list)
{
    for (; list->key != NULL; list++) {
        cJSON_AddNumberToObject(event, list->key, list->value);
    }
}

void uw_event_print(FILE *out, cJSON *event)
{
    char *text = cJSON_PrintUnformatted(event);
    fprintf(out, "%s\n", text != NULL ? text : "{}");
    fflush(out);
    cJSON_free(text);
    cJSON_Delete(event);
}

void uw_event_float(cJSON *event, const char *key, float value)
{
    char text[32];
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value) {
            break;
        }
    }
    cJSON_AddNumberToObject(event, key, strtod(text, NULL));
}

void uw_event_vitals(cJSON *event, const struct uw_vitals *v)
{
    if (v->power_mw != 0) {
        cJSON_AddNumberToObject(event, "power_mw", v->power_mw);
    }
    if (v->temperature_mc != 0) {
        cJSON_AddNumberToObject(event, "temperature_c", v->temperature_mc / 1e3);
    }
    if (v->battery_percent != 0) {
        cJSON_AddNumberToObject(event, "battery_percent", v->battery_percent);
    }
}

/* Wait until PIPE_BUF bytes can be written without blocking. Waits for a reader that has stopped
 * reading, unless the program is to end. */
static bool wait_for_room(int fd)
{
    uint64_t since_us = 0;
    for (;;) {
        struct pollfd room = {.fd = fd, .events = POLLOUT};
        int n = poll(&room, 1, LOOK_MS);
        if (n > 0) {
            return true; /* write will report the error */
        }
        uint64_t now_us = uw_board_now_us();
        if (uw_stop_near()) {
            since_us = since_us == 0 ? now_us : since_us;
            if (now_us - since_us >= PATIENCE_US) {
                return false;
            }
        }
    }
}

/* Returns UW_OK, UW_ERR_AGAIN (no room now) or UW_ERR_IO; *written: bytes written in any case. */
static int write_line(int fd, const char *line, size_t bytes, size_t *written)
{
    for (*written = 0; *written < bytes;) {
        size_t left = bytes - *written;
        if (!wait_for_room(fd)) {
            return UW_ERR_IO;
        }
        ssize_t put = write(fd, line + *written, left < PIPE_BUF ? left : PIPE_BUF);
        if (put < 0 && errno != EINTR && errno != EAGAIN) {
            return uw_file_is_full(errno) ? UW_ERR_AGAIN : UW_ERR_IO;
        }
        *written += put > 0 ? (size_t)put : 0;
    }
    return UW_OK;
}

/* Write a whole line; after a failure remove its part, if the file can be truncated. */
static int put_line(struct uw_events *e, const char *line, size_t bytes)
{
    int fd = fileno(e->file);
    size_t written = 0;
    if (e->torn) {
        int rc = write_line(fd, "\n", 1, &written);
        if (rc < 0) {
            return rc;
        }
        e->torn = false;
    }
    int rc = write_line(fd, line, bytes, &written);
    if (rc == UW_ERR_AGAIN && written > 0) {
        off_t at = lseek(fd, 0, SEEK_END) - (off_t)written;
        e->torn = e->file == stdout || at < 0 || !uw_cut_file(fd, at);
    }
    return rc;
}

/* Unix time in milliseconds. */
static int64_t clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int put_gap(struct uw_events *e)
{
    char gap[GAP_BYTES], when[40] = "";
    int64_t ms = clock_ms();
    if ((e->how & UW_EVENTS_TIMELESS) == 0) {
        snprintf(when, sizeof when, ",\"time\":%" PRId64 ".%03d", ms / 1000, (int)(ms % 1000));
    }
    int bytes = snprintf(gap, sizeof gap, "{\"event\":\"gap\",\"missed\":%" PRIu64 "%s}\n",
                         e->gap_n, when);
    int rc = put_line(e, gap, (size_t)bytes);
    e->gap_n = rc == UW_OK ? 0 : e->gap_n;
    return rc;
}

/* Write an event; count it if the disk is full, and report the first such event. */
static void put_or_miss(struct uw_events *e, const char *line, size_t bytes)
{
    int rc = UW_OK;
    if (e->gap_n != 0) {
        rc = uw_board_now_us() < e->again_us ? UW_ERR_AGAIN : put_gap(e);
    }
    rc = rc == UW_OK ? put_line(e, line, bytes) : rc;
    e->failed = rc < 0 && rc != UW_ERR_AGAIN;
    if (rc == UW_ERR_AGAIN) {
        uint64_t now_us = uw_board_now_us();
        e->again_us = e->gap_n == 0 || now_us >= e->again_us ? now_us + AGAIN_US : e->again_us;
        if (e->missed_n == 0) {
            (void)uw_cli_error("", 0, "--json %.160s: no space left: events are missing until "
                                      "there is", e->path);
        }
        e->missed_n++;
        e->gap_n++;
    }
}

/* The descriptor stays the same, as other threads may be about to write to it. */
static void open_again(struct uw_events *e)
{
    FILE *f = uw_open_file_again(e->path);
    if (f == NULL || dup2(fileno(f), fileno(e->file)) < 0) {
        (void)uw_cli_error("", 0, "--json %.160s: SIGHUP cannot open it again: %s: events go on to "
                                  "the file that was open", e->path, strerror(errno));
    } else {
        (void)fcntl(fileno(e->file), F_SETFD, FD_CLOEXEC);
        e->torn = !uw_file_ends_a_line(e->path);
        e->failed = false;
    }
    if (f != NULL) {
        fclose(f);
    }
}

void uw_events_rotate(struct uw_events *e)
{
    if (e->file != NULL && e->file != stdout && (e->how & UW_EVENTS_ROTATE) != 0) {
        flockfile(e->file);
        uint32_t hangups_n = uw_stop_hangups();
        if (hangups_n != e->hangups_n) {
            e->hangups_n = hangups_n;
            open_again(e);
        }
        funlockfile(e->file);
    }
}

void uw_events_put(struct uw_events *e, cJSON *event)
{
    uw_events_rotate(e);
    if ((e->how & UW_EVENTS_TIMELESS) == 0 && uw_events_are_read(e)) {
        cJSON_AddNumberToObject(event, "time", (double)clock_ms() / 1e3);
    }
    if (e->listener != NULL) {
        char *line = cJSON_PrintUnformatted(event);
        if (line != NULL) {
            e->listener->event(e->listener->arg, line);
        }
        cJSON_free(line);
    } else if (e->file != NULL) {
        char *line = cJSON_PrintUnformatted(event);
        flockfile(e->file);
        if (line == NULL) {
            e->failed = true;
        } else if (!e->failed) {
            size_t bytes = strlen(line);
            line[bytes] = '\n'; /* in place of its NUL */
            put_or_miss(e, line, bytes + 1);
        }
        funlockfile(e->file);
        cJSON_free(line);
    }
    cJSON_Delete(event);
}

int uw_events_close(struct uw_events *e, struct uw_error *err)
{
    if (e->file != NULL && e->gap_n != 0 && !e->failed) {
        (void)put_gap(e);
    }
    if (e->file != NULL && e->file != stdout && fclose(e->file) != 0) {
        e->failed = true;
    }
    bool whole = !e->failed && e->missed_n == 0;
    e->file = NULL;
    e->failed = false;
    e->missed_n = e->gap_n = 0;
    return whole ? UW_OK : uw_error_set(err, UW_ERR_IO, "--json %s: an event could not be written",
                                        e->path);
}
