/* SPDX-License-Identifier: Apache-2.0
 *
 * listener.h - who hears of a run instead of standard error, files and signals
 *
 * The commands have no listener (NULL): lines go to standard error, events to the file of --json,
 * and signals end a run. A program that has the commands' work done in its own process listens.
 *
 * Blocking   the listener's      Context  the thread that does the work
 */
#ifndef UWASA_CLI_LISTENER_H
#define UWASA_CLI_LISTENER_H

#include <stdbool.h>

struct uw_listener {
    void (*line)(void *arg, const char *text);      /* a sentence that stays, without its newline */
    void (*event)(void *arg, const char *json);     /* an event of --json */
    bool (*stop)(void *arg);                        /* whether the run is to end; asked often */
    void *arg;
};

/* Tell a line: to the listener, or to standard error if there is none. */
void uw_tell(const struct uw_listener *l, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

#endif
