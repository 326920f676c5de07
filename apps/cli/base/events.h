/* SPDX-License-Identifier: Apache-2.0
 *
 * events.h - events as JSON lines: one object per line, first key "event", last line "done"
 *
 *     uw_events_open(&e, "run.jsonl", UW_EVENTS_NEW, &err);   "-": standard output, NULL: nowhere
 *     cJSON *ev = uw_event("step");
 *     cJSON_AddNumberToObject(ev, "loss", loss);   enough digits are written to read back
 *     uw_events_put(&e, ev);                       the same bits
 *     uw_events_close(&e, &err);
 *
 * "time" is when an event was put: Unix seconds, to the millisecond. Lines are appended to whatever
 * the file is then: who cuts or renames it (logrotate) harms none.
 *
 * While the disk is full, which standard error reports at once, events are dropped; then follows
 * {"event":"gap","missed":N,"time":S}.
 *
 * Memory     heap (cJSON), released by put
 * Blocking   put: until a slow reader has read more; at most 0.3 s after the program was asked to
 *            stop (stop.h)
 * Context    put: any thread, lines stay whole; the rest: one thread
 */
#ifndef UWASA_CLI_EVENTS_H
#define UWASA_CLI_EVENTS_H

#include "listener.h"

#include "uwasa/status.h"
#include "uwasa/vitals.h"

#include <cjson/cJSON.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

enum uw_events_how {                /* may be added up */
    UW_EVENTS_NEW = 0,              /* what is in the file is dropped */
    UW_EVENTS_KEEP = 1,             /* ... stays, until uw_events_empty */
    UW_EVENTS_TIMELESS = 2,         /* without "time": the run is virtual, or these are results */
    UW_EVENTS_ROTATE = 4            /* SIGHUP opens a file again (uw_stop_keep_hangup) */
};

struct uw_events {
    FILE *file;         /* written to directly, without its buffer; NULL: events are dropped */
    const struct uw_listener *listener;     /* gets them instead of a file; NULL: none */
    const char *path;
    unsigned how;       /* of enum uw_events_how */
    atomic_bool failed; /* a write failed: nothing more is written */
    uint64_t missed_n;  /* events dropped because the disk was full, reported by close ... */
    uint64_t gap_n;     /* ... of these, not yet reported by a gap event */
    uint64_t again_us;  /* when to try to write again */
    uint32_t hangups_n; /* uw_stop_hangups that were heeded */
    bool torn;          /* part of a line was written and cannot be removed */
};

/* Start writing, without a listener, which may be set after.
 *   path   NULL: drop events; "-": standard output
 *   how    sum of enum uw_events_how
 * Returns UW_OK or UW_ERR_IO. */
int uw_events_open(struct uw_events *e, const char *path, unsigned how, struct uw_error *err);

/* Open the file again if SIGHUP has asked for it, which put does as well: for a program that may
 * have nothing to put for a while. If that fails, which standard error reports, events go on to the
 * file that was open. */
void uw_events_rotate(struct uw_events *e);

/* Drop what was in the file before. */
void uw_events_empty(struct uw_events *e);

/* Whether anybody reads them. */
bool uw_events_are_read(const struct uw_events *e);

/* Whether results for people must not go to standard output: events do, or there is a listener. */
bool uw_events_take_stdout(const struct uw_events *e);

/* A new event of that name; NULL without memory, which every cJSON_Add... call accepts. */
cJSON *uw_event(const char *name);

/* Add numbers: UW_EVENT_NUMBERS(ev, {"nodes", 3.0}, {"seconds", seconds}). */
struct uw_event_number {
    const char *key;
    double value;
};
#define UW_EVENT_NUMBERS(event, ...)                                                              \
    uw_event_numbers(event, (const struct uw_event_number[]){__VA_ARGS__, {NULL, 0.0}})

/* The same for a list that ends with a key of NULL. */
void uw_event_numbers(cJSON *event, const struct uw_event_number *list);

/* Add a float with the fewest digits that read back as the same float. */
void uw_event_float(cJSON *event, const char *key, float value);

/* Add power_mw, temperature_c and battery_percent, those that are known. */
void uw_event_vitals(cJSON *event, const struct uw_vitals *v);

/* Print an object as one line and release it. */
void uw_event_print(FILE *out, cJSON *event);

/* Write the event as one line and release it. */
void uw_events_put(struct uw_events *e, cJSON *event);

/* Finish. Safe on a zeroed struct and twice.
 * Returns UW_OK, or UW_ERR_IO when any line could not be written. */
int uw_events_close(struct uw_events *e, struct uw_error *err);

#endif
