/* SPDX-License-Identifier: Apache-2.0 */
#include "trace.h"

#include "open_file.h"
#include "utf8.h"

#include "uwasa/board.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_BYTES 65536u
#define EVENT_BYTES 1024u           /* limit of an event: a quoted name may be six times as long */
#define PAGE_BYTES 4096u
#define FLUSH_US 1000000u
#define TAIL "\n]\n"
#define TAIL_BYTES 3u

static bool write_at(const struct uw_trace *t, const char *text, size_t bytes)
{
    off_t at = t->end;
    while (bytes > 0) {
        ssize_t put = pwrite(t->fd, text, bytes, at);
        if (put < 0 && errno != EINTR) {
            return false;
        }
        put = put > 0 ? put : 0;
        text += put;
        at += put;
        bytes -= (size_t)put;
    }
    return true;
}

/* How many bytes of events to write at once: those that end in the file's last page, or one event.
 * A process killed during a write leaves whole pages of it, so the array stays whole. */
static size_t piece_of(const struct uw_trace *t, const char *text, size_t bytes)
{
    size_t left = PAGE_BYTES - (size_t)(t->end % PAGE_BYTES);
    size_t most = 0, n = 1;
    while (n < bytes && (most == 0 || n + TAIL_BYTES <= left)) {
        if (text[n] == ',' && text[n + 1] == '\n') {
            most = n + TAIL_BYTES <= left || most == 0 ? n : most;
        }
        n++;
    }
    return n < bytes || bytes + TAIL_BYTES > left ? (most != 0 ? most : bytes) : bytes;
}

/* Replace the array's end by the new events and an end. */
static void flush(struct uw_trace *t)
{
    size_t done = 0;
    while (done < t->used_bytes && !t->failed) {
        char *text = t->text + done, behind[TAIL_BYTES];
        size_t bytes = piece_of(t, text, t->used_bytes - done);
        memcpy(behind, text + bytes, TAIL_BYTES);
        memcpy(text + bytes, TAIL, TAIL_BYTES);
        if (write_at(t, text, bytes + TAIL_BYTES)) {
            t->end += (off_t)bytes;
        } else {
            t->failed = true;   /* disk full: keep the events that are whole */
            if (ftruncate(t->fd, t->end) == 0) {
                (void)write_at(t, TAIL, TAIL_BYTES);
            }
        }
        memcpy(text + bytes, behind, TAIL_BYTES);
        done += bytes;
    }
    t->used_bytes = 0;
}

static void put(struct uw_trace *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* One event, without the comma in front of it. */
static void put(struct uw_trace *t, const char *format, ...)
{
    char *at = t->text + t->used_bytes;
    size_t lead = t->events_n > 0 ? 2u : 0;
    va_list args;
    memcpy(at, ",\n", lead);
    va_start(args, format);
    int n = vsnprintf(at + lead, EVENT_BYTES - lead, format, args);
    va_end(args);
    if (n > 0 && (size_t)n < EVENT_BYTES - lead) {
        t->used_bytes += lead + (size_t)n;
        t->events_n++;
    }
    if (TEXT_BYTES - t->used_bytes < EVENT_BYTES + TAIL_BYTES) {
        flush(t);
    }
}

#define QUOTED_BYTES (UW_TRACE_NAME_BYTES * 6u + 1u)

/* The inside of a JSON string. */
static const char *quoted(const char *name, char text[QUOTED_BYTES])
{
    size_t bytes = strlen(name), used = 0;
    bytes = bytes < UW_TRACE_NAME_BYTES ? bytes : UW_TRACE_NAME_BYTES;
    for (size_t i = 0; i < bytes;) {
        size_t n = uw_utf8_bytes(name + i, bytes - i);
        uint8_t c = (uint8_t)name[i];
        if (n == 0) {
            text[used++] = '?';
        } else if (c < 0x20 || c == '"' || c == '\\') {
            used += (size_t)snprintf(text + used, 7, "\\u%04x", c);
        } else {
            memcpy(text + used, name + i, n);
            used += n;
        }
        i += n > 0 ? n : 1;
    }
    text[used] = '\0';
    return text;
}

/* Take the lock if one more event may be written; returns whether it may. */
static bool begin(struct uw_trace *t)
{
    if (t->text == NULL) {
        return false;
    }
    pthread_mutex_lock(&t->lock);
    if (t->events_n < t->events_max) {
        return true;
    }
    t->left_out_n++;
    pthread_mutex_unlock(&t->lock);
    return false;
}

static void end(struct uw_trace *t, uint64_t now_us)
{
    if (now_us >= t->flushed_us + FLUSH_US) {
        t->flushed_us = now_us;
        flush(t);
    }
    pthread_mutex_unlock(&t->lock);
}

static uint64_t since_start(const struct uw_trace *t, uint64_t at_us)
{
    return at_us > t->start_us ? at_us - t->start_us : 0;
}

int uw_trace_open(struct uw_trace *t, const char *path, const char *process, struct uw_error *err)
{
    char text[QUOTED_BYTES];
    *t = (struct uw_trace){.path = path, .fd = -1, .events_max = UW_TRACE_EVENTS_MAX};
    if (path == NULL) {
        return UW_OK;
    }
    int fd = uw_open_fd(path);
    if (fd < 0) {
        return uw_error_set(err, UW_ERR_IO, "--trace %.160s: %s", path, strerror(errno));
    }
    if (lseek(fd, 0, SEEK_CUR) < 0) {
        close(fd);
        return uw_error_set(err, UW_ERR_IO, "--trace %.160s: needs a file, not a pipe", path);
    }
    t->fd = fd;
    t->text = malloc(TEXT_BYTES);
    if (t->text == NULL) {
        close(fd);
        return uw_error_set(err, UW_ERR_NOMEM, "out of memory");
    }
    pthread_mutex_init(&t->lock, NULL);
    t->start_us = t->flushed_us = uw_board_now_us();
    memcpy(t->text, "[\n", 2);
    t->used_bytes = 2;
    put(t, "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"tid\":0,"
        "\"args\":{\"name\":\"%s\"}}", quoted(process, text));
    flush(t);
    return UW_OK;
}

void uw_trace_thread(struct uw_trace *t, enum uw_trace_row row, const char *name)
{
    char text[QUOTED_BYTES];
    if (begin(t)) {
        put(t, "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":%d,"
            "\"args\":{\"name\":\"%s\"}}", (int)row, quoted(name, text));
        end(t, 0);
    }
}

void uw_trace_span(struct uw_trace *t, enum uw_trace_row row, const char *category,
                   const char *name, uint64_t from_us, uint64_t until_us)
{
    char text[QUOTED_BYTES];
    if (begin(t)) {
        put(t, "{\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"X\",\"ts\":%" PRIu64 ",\"dur\":%" PRIu64
            ",\"pid\":1,\"tid\":%d}", quoted(name, text), category, since_start(t, from_us),
            until_us > from_us ? until_us - from_us : 0, (int)row);
        end(t, until_us);
    }
}

void uw_trace_async(struct uw_trace *t, const char *category, const char *name, uint64_t number,
                    bool is_end, uint64_t at_us)
{
    char text[QUOTED_BYTES];
    if (begin(t)) {
        put(t, "{\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"%s\",\"ts\":%" PRIu64
            ",\"id\":%" PRIu64 ",\"pid\":1,\"tid\":%d}", quoted(name, text), category,
            is_end ? "e" : "b", since_start(t, at_us), number, UW_TRACE_FRAGMENTS);
        end(t, at_us);
    }
}

/* Of a training step: struct uw_profile.span. */
static void trace_layer(void *arg, uint32_t row, enum uw_profile_part part, uint64_t from_us,
                        uint64_t until_us)
{
    static const struct {
        const char *category, *suffix;
    } parts[] = {
        [UW_PROFILE_FORWARD] = {"forward", "forward"},
        [UW_PROFILE_BW_INPUT] = {"backward", "input gradient"},
        [UW_PROFILE_BW_PARAM] = {"backward", "weight gradient"},
        [UW_PROFILE_UPDATE] = {"update", "update"},
        [UW_PROFILE_WAIT] = {"wait", "wait"},
    };
    struct uw_trace *t = arg;
    const struct uw_model *m = t->model;
    char name[UW_TRACE_NAME_BYTES + 32];
    if (t->text != NULL) {
        snprintf(name, sizeof name, "%.64s %s",
                 row < m->layers_n ? m->config.def->layers[row].name : "loss", parts[part].suffix);
        uw_trace_span(t, UW_TRACE_COMPUTE, parts[part].category, name, from_us, until_us);
    }
}

/* Waits for the GPU, so that the time includes the end of its layer. */
static uint64_t profile_now_us(void *arg)
{
    const struct uw_trace *t = arg;
    if (t->waits && t->model->config.kernels->device != NULL) {
        (void)t->model->config.kernels->device->wait(&t->model->exec);
    }
    return uw_board_now_us();
}

int uw_trace_profile(struct uw_trace *t, struct uw_model *m, bool waits, struct uw_error *err)
{
    t->model = m;
    t->waits = waits;
    t->profile = (struct uw_profile){.now_us = profile_now_us, .arg = t, .span = trace_layer,
                                     .rows = calloc(m->layers_n + 1u, sizeof *t->profile.rows)};
    m->profile = t->profile.rows != NULL ? &t->profile : NULL;
    return m->profile != NULL ? UW_OK : uw_error_set(err, UW_ERR_NOMEM, "out of memory");
}

int uw_trace_close(struct uw_trace *t, struct uw_error *err)
{
    if (t->model != NULL) {
        t->model->profile = NULL;
        free(t->profile.rows);
        t->model = NULL;
    }
    if (t->text == NULL) {
        return UW_OK;
    }
    if (t->left_out_n > 0) {
        put(t, "{\"name\":\"%" PRIu64 " events left out\",\"ph\":\"i\",\"s\":\"g\",\"ts\":%" PRIu64
            ",\"pid\":1,\"tid\":0}", t->left_out_n, since_start(t, uw_board_now_us()));
    }
    flush(t);
    bool failed = t->failed;
    failed = close(t->fd) != 0 || failed;
    pthread_mutex_destroy(&t->lock);
    free(t->text);
    t->text = NULL;
    return failed ? uw_error_set(err, UW_ERR_IO, "--trace %.160s: could not be written completely",
                                 t->path)
                  : UW_OK;
}
