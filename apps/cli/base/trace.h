/* SPDX-License-Identifier: Apache-2.0
 *
 * trace.h - what happened when, as a file that chrome://tracing and ui.perfetto.dev show
 *
 *     uw_trace_open(&t, "run.json", "train", &err);    path NULL: nowhere
 *     uw_trace_thread(&t, UW_TRACE_COMPUTE, "compute");
 *     uw_trace_span(&t, UW_TRACE_COMPUTE, "update", "conv1 update", from_us, until_us);
 *     uw_trace_close(&t, &err);
 *
 * One JSON array of complete events. Between two calls the file is a whole array, whenever the
 * program ends, with all but the events of the last second.
 *
 * Units      _us microseconds of uw_board_now_us
 * Memory     one buffer of the heap; the file holds UW_TRACE_EVENTS_MAX events at most. Later ones
 *            are dropped, and the last event gives their number
 * Blocking   until the disk has a full buffer, now and then
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
#define UW_TRACE_NAME_BYTES 96u         /* of an event's name; what is longer is cut */

/* Rows of the picture. */
enum uw_trace_row { UW_TRACE_COMPUTE, UW_TRACE_NETWORK, UW_TRACE_FRAGMENTS };

struct uw_trace {
    const char *path;
    int fd;                     /* valid while text is not NULL */
    char *text;                 /* not written yet; NULL: events go nowhere */
    size_t used_bytes;
    off_t end;                  /* of the last event in the file; the array's end follows */
    uint64_t start_us, flushed_us;
    uint64_t events_n, events_max, left_out_n;
    bool failed;                /* a write failed: nothing more is written; reported by close */
    pthread_mutex_t lock;
    struct uw_model *model;     /* that is profiled; NULL: none */
    struct uw_profile profile;
    bool waits;
};

/* Begin a file; `process` names this program's part in it. path NULL: nowhere.
 * Returns UW_OK, UW_ERR_IO (it cannot be written, or is a pipe) or UW_ERR_NOMEM, err filled. */
int uw_trace_open(struct uw_trace *t, const char *path, const char *process, struct uw_error *err);

/* Name a row. */
void uw_trace_thread(struct uw_trace *t, enum uw_trace_row row, const char *name);

/* Something lasted from one moment to another; both are equal: an instant. Spans of a row lie apart
 * or within one another.
 *   category  of a few words, to filter by; needs no quoting
 *   name      any UTF-8 */
void uw_trace_span(struct uw_trace *t, enum uw_trace_row row, const char *category,
                   const char *name, uint64_t from_us, uint64_t until_us);

/* Something with its number that may overlap others of its kind, such as a fragment under way:
 * begins with end false, ends with end true. */
void uw_trace_async(struct uw_trace *t, const char *category, const char *name, uint64_t number,
                    bool end, uint64_t at_us);

/* Write spans of the layers of a model's training steps, by the model's names, and count their time
 * in m->profile, both until close; also where the trace is not open.
 *   waits  the end of a GPU's layer is waited for
 * Returns UW_OK or UW_ERR_NOMEM, err filled. */
int uw_trace_profile(struct uw_trace *t, struct uw_model *m, bool waits, struct uw_error *err);

/* Write what is left. Safe on a zeroed struct and twice.
 * Returns UW_OK, or UW_ERR_IO when anything could not be written, err filled. */
int uw_trace_close(struct uw_trace *t, struct uw_error *err);

#endif
