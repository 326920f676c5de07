/* SPDX-License-Identifier: Apache-2.0
 *
 * stop.h - ending when asked to: SIGINT, SIGTERM, SIGHUP
 *
 * The signals are blocked and asked for where the program is ready to end, so nothing is torn
 * and no handler runs. After the first one they act as usual again: a second ends the process at
 * once. SIGHUP stays ignored where it was ignored when the program started (nohup).
 *
 * Blocking   never      Context  uw_stop_init before any thread is started
 */
#ifndef UWASA_CLI_STOP_H
#define UWASA_CLI_STOP_H

#include <stdbool.h>

struct uw_stop {
    bool asked;
};

/* Hold the signals back from now on. */
void uw_stop_init(struct uw_stop *s);

/* Has one arrived? Stays true. One thread asks. */
bool uw_stop_asked(struct uw_stop *s);

/* Has one arrived, whether uw_stop_asked has seen it or not? For what may wait in the meantime.
 * Any thread. */
bool uw_stop_near(void);

/* Let the signals act as usual again, as for a child process before exec. */
void uw_stop_release(void);

#endif
