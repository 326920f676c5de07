/* SPDX-License-Identifier: Apache-2.0
 *
 * stop.h - ending on SIGINT, SIGTERM, SIGHUP
 *
 * The signals are blocked; the program polls for them where it is ready to end. So no handler runs
 * and no output is cut off. After the first signal the default action is restored: a second one
 * ends the process at once. SIGHUP stays ignored if it was at the start of the program (nohup), and
 * may be taken to mean something else than an end (uw_stop_keep_hangup).
 * With a listener signals are left alone.
 *
 * Blocking   never      Context  uw_stop_init before any thread is started
 */
#ifndef UWASA_CLI_STOP_H
#define UWASA_CLI_STOP_H

#include "listener.h"

#include <stdbool.h>
#include <stdint.h>

struct uw_stop {
    bool asked;
    const struct uw_listener *listener;     /* asked instead of the signals; NULL: none */
};

/* Block the signals from now on. Not for a run with a listener. */
void uw_stop_init(struct uw_stop *s);

/* From now on SIGHUP ends nothing: uw_stop_hangups tells of it. After uw_stop_init. */
void uw_stop_keep_hangup(void);

/* How often SIGHUP was seen to arrive. Whoever does something then compares it with the last time.
 * Any thread. */
uint32_t uw_stop_hangups(void);

/* Whether a signal has arrived; stays true. For one thread. */
bool uw_stop_asked(struct uw_stop *s);

/* Whether a signal has arrived, even if uw_stop_asked was not called since. For code that may block
 * in between. Any thread. */
bool uw_stop_near(void);

/* Restore the signals' default action, as for a child process before exec. */
void uw_stop_release(void);

#endif
