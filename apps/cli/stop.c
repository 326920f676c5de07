/* SPDX-License-Identifier: Apache-2.0 */
#include "stop.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

static void signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGHUP);
}

void uw_stop_init(struct uw_stop *s)
{
    sigset_t set;
    signals(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    s->asked = false;
}

bool uw_stop_asked(struct uw_stop *s)
{
    if (!s->asked) {
        sigset_t set;
        const struct timespec now = {0};
        signals(&set);
        if (sigtimedwait(&set, NULL, &now) > 0) {
            s->asked = true;
            uw_stop_release();
        }
    }
    return s->asked;
}

void uw_stop_release(void)
{
    sigset_t set;
    signals(&set);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}
