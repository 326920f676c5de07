/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"

#include "uwasa/board.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define TERMINAL_US 200000u
#define PIPE_US 5000000u

void uw_progress_init(struct uw_progress *p)
{
    *p = (struct uw_progress){.terminal = isatty(STDERR_FILENO) == 1};
}

bool uw_progress_due(struct uw_progress *p, uint64_t now_us)
{
    if (now_us < p->next_us) {
        return false;
    }
    p->next_us = now_us + (p->terminal ? TERMINAL_US : PIPE_US);
    return true;
}

void uw_progress_clear(struct uw_progress *p)
{
    if (p->open) {
        fputs("\r\033[K", stderr);
        p->open = false;
    }
}

void uw_progress_fit(char *line)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 &&
        strlen(line) >= size.ws_col) {
        line[size.ws_col - 1u] = '\0';
    }
}

/* Print one line; unless kept, the next one may replace it. */
static void put(struct uw_progress *p, bool kept, const char *format, va_list args)
{
    char line[512] = "";
    if (p->quiet) {
        return;
    }
    uw_progress_clear(p);
    (void)vsnprintf(line, sizeof line, format, args);
    if (p->listener != NULL) {
        if (kept) {
            uw_tell(p->listener, "%s", line);
        }
    } else if (p->terminal && !kept) {
        uw_progress_fit(line);
        fputs(line, stderr);
        p->open = true;
        fflush(stderr);
    } else {
        fprintf(stderr, "%s%s\n", p->who, line);     /* one write: lines stay whole */
    }
}

void uw_progress_show(struct uw_progress *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    put(p, false, format, args);
    va_end(args);
}

void uw_progress_print(struct uw_progress *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    put(p, true, format, args);
    va_end(args);
}

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

double uw_seconds_since(uint64_t start_us)
{
    return (double)(uw_board_now_us() - start_us) / 1e6;
}

struct uw_spread uw_spread_of(double *x, uint32_t n)
{
    qsort(x, n, sizeof *x, by_size);
    return (struct uw_spread){x[0], 0.5 * (x[(n - 1u) / 2u] + x[n / 2u]), x[n - 1u]};
}

struct uw_spread uw_spread_ratio(const double *x, const double *other, uint32_t n)
{
    double ratio[UW_SPREAD_MAX];
    for (uint32_t i = 0; i < n; i++) {
        ratio[i] = other == NULL ? x[i] : other[i] > 0.0 ? x[i] / other[i] : 0.0;
    }
    return uw_spread_of(ratio, n);
}

const char *uw_text_time(double seconds, char text[UW_TEXT_BYTES])
{
    if (!isfinite(seconds) || seconds < 0.0 || seconds > 1e9) {
        snprintf(text, UW_TEXT_BYTES, "?");
        return text;
    }
    unsigned long whole = (unsigned long)(seconds + 0.5);
    if (whole >= 3600) {
        snprintf(text, UW_TEXT_BYTES, "%lu:%02lu:%02lu", whole / 3600, whole / 60 % 60, whole % 60);
    } else {
        snprintf(text, UW_TEXT_BYTES, "%lu:%02lu", whole / 60, whole % 60);
    }
    return text;
}

const char *uw_text_bytes(double bytes, char text[UW_TEXT_BYTES])
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int i = 0;
    for (; i < 4 && bytes >= 1024.0; i++) {
        bytes /= 1024.0;
    }
    snprintf(text, UW_TEXT_BYTES, i == 0 ? "%.0f %s" : "%.1f %s", bytes, unit[i]);
    return text;
}

const char *uw_text_duration(double seconds, char text[UW_TEXT_BYTES])
{
    static const struct {
        double from, unit;
        const char *name;
    } units[] = {{2.0 * 86400.0, 86400.0, "days"}, {2.0 * 3600.0, 3600.0, "h"},
                 {120.0, 60.0, "min"}, {1.0, 1.0, "s"}, {0.0, 1e-3, "ms"}};
    uint32_t i = 0;
    while (seconds < units[i].from) {
        i++;
    }
    double value = seconds / units[i].unit;
    int digits = value < 10.0 ? 2 : value < 100.0 ? 1 : 0;
    snprintf(text, UW_TEXT_BYTES, "%.*f %s", digits, value, units[i].name);
    return text;
}
