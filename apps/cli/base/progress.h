/* SPDX-License-Identifier: Apache-2.0
 *
 * progress.h - what a person sees while the program works, on standard error
 *
 * On a terminal one line is rewritten in place; on a pipe whole lines appear, less often.
 *
 * Units      _us are microseconds, monotonic      Blocking  the terminal's      Context  one thread
 */
#ifndef UWASA_CLI_PROGRESS_H
#define UWASA_CLI_PROGRESS_H

#include "listener.h"

#include <stdbool.h>
#include <stdint.h>

struct uw_progress {
    bool terminal;          /* standard error is one */
    bool open;              /* a live line is displayed */
    bool quiet;             /* nothing is shown */
    uint64_t next_us;
    const struct uw_listener *listener;     /* gets the lines that stay; NULL: none */
    char who[40];           /* "n3: ", put before every line where several write to one pipe */
};

void uw_progress_init(struct uw_progress *p);

/* Whether another line is due: 0.2 s after the last one on a terminal, 5 s on a pipe. */
bool uw_progress_due(struct uw_progress *p, uint64_t now_us);

/* Show a line; on a terminal it replaces the one before. */
void uw_progress_show(struct uw_progress *p, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

/* Print a line that stays, above the live one. */
void uw_progress_print(struct uw_progress *p, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

/* Truncate a live line to the terminal's width: one that wraps could not be cleared again. */
void uw_progress_fit(char *line);

/* Remove the live line, before other output. */
void uw_progress_clear(struct uw_progress *p);

/* Seconds since start_us of the board's clock. */
double uw_seconds_since(uint64_t start_us);

/* The figures shown for many values. */
struct uw_spread {
    double low, median, high;
};

/* Of n > 0 values; x is sorted. */
struct uw_spread uw_spread_of(double *x, uint32_t n);

/* Of x[i] / other[i], 0 where other[i] is 0; other NULL: of x[i]. n is at most UW_SPREAD_MAX. */
#define UW_SPREAD_MAX 101u
struct uw_spread uw_spread_ratio(const double *x, const double *other, uint32_t n);

#define UW_TEXT_BYTES 24

/* "1:02:03" or "2:03" from seconds; "?" when not finite. Returns text. */
const char *uw_text_time(double seconds, char text[UW_TEXT_BYTES]);

/* "35.0 ms", "1.71 s", "2.50 min", "3.20 h", "5.10 days" from seconds, 0 or more. Returns text. */
const char *uw_text_duration(double seconds, char text[UW_TEXT_BYTES]);

/* "61.3 KiB" from bytes. Returns text. */
const char *uw_text_bytes(double bytes, char text[UW_TEXT_BYTES]);

#endif
