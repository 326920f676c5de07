/* SPDX-License-Identifier: Apache-2.0
 *
 * trace.h - a timeline of events, as a file for chrome://tracing and ui.perfetto.dev
 *
 *     uw_trace_open(&t, "run.json", "train", &err);    path NULL: no trace
 *     uw_trace_thread(&t, UW_TRACE_COMPUTE, "compute");
 *     uw_trace_span(&t, UW_TRACE_COMPUTE, "update", "conv1 update", from_us, until_us);
 *     uw_trace_close(&t, &err);
 *
 * One JSON array of complete events. Between two calls the file is always a whole array, so a
 * program that is killed loses only the events of the last second.
 *
 * Units      _us microseconds of uw_board_now_us
 * Memory     one buffer of the heap; the file has at most UW_TRACE_EVENTS_MAX events. Later ones
 *            are dropped, and the last event gives their number
 * Blocking   now and then, while a full buffer is written
 * Context    open, close: one thread; the rest: any thread
 * Source     "Trace Event Format", the JSON array of Chromium's trace viewer
 */
#ifndef UWASA_CLI_TRACE_H
#define UWASA_CLI_TRACE_H

#include "uwasa/describe.h"
#include "uwasa/status.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define UW_TRACE_EVENTS_MAX 1000000u
#define UW_TRACE_NAME_BYTES 96u         /* of an event's name; longer ones are truncated */

/* Rows of the picture. */
enum uw_trace_row { UW_TRACE_COMPUTE, UW_TRACE_NETWORK, UW_TRACE_FRAGMENTS };

struct uw_trace {
    const char *path;
    int fd;                     /* valid while text is not NULL */
    char *text;                 /* not written yet; NULL: events are dropped */
    size_t used_bytes;
    off_t end;                  /* end of the last event in the file, before the closing bracket */
    uint64_t start_us, flushed_us;
    uint64_t events_n, events_max, left_out_n;
    bool failed;                /* a write failed: nothing more is written; reported by close */
    pthread_mutex_t lock;
    struct uw_model *model;     /* being profiled; NULL: none */
    struct uw_profile profile;
    bool waits;
};

/* Begin a file; `process` is the name of this program in it. path NULL: no trace.
 * Returns UW_OK, UW_ERR_IO (it cannot be written, or is a pipe) or UW_ERR_NOMEM, err filled. */
int uw_trace_open(struct uw_trace *t, const char *path, const char *process, struct uw_error *err);

/* Name a row. */
void uw_trace_thread(struct uw_trace *t, enum uw_trace_row row, const char *name);

/* Add an event from from_us until until_us; if both are equal, an instant. Spans of a row must not
 * overlap except by nesting.
 *   category  a word to filter by; needs no quoting
 *   name      any UTF-8 */
void uw_trace_span(struct uw_trace *t, enum uw_trace_row row, const char *category,
                   const char *name, uint64_t from_us, uint64_t until_us);

/* Add the begin (end false) or end (end true) of a numbered event that may overlap others of its
 * kind, such as a fragment in flight. */
void uw_trace_async(struct uw_trace *t, const char *category, const char *name, uint64_t number,
                    bool end, uint64_t at_us);

/* Until close, write spans for the layers of a model's training steps and add up their time in
 * m->profile, the latter even if the trace is not open.
 *   waits  wait for the end of each layer on a GPU
 * Returns UW_OK or UW_ERR_NOMEM, err filled. */
int uw_trace_profile(struct uw_trace *t, struct uw_model *m, bool waits, struct uw_error *err);

/* Write what is left. Safe on a zeroed struct and twice.
 * Returns UW_OK, or UW_ERR_IO when anything could not be written, err filled. */
int uw_trace_close(struct uw_trace *t, struct uw_error *err);

#endif
