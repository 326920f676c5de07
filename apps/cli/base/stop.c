/* SPDX-License-Identifier: Apache-2.0 */
#include "stop.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

static atomic_bool taken;   /* uw_stop_asked has seen one */
static atomic_uint hangups_n;

/* SIGHUP is left out if it is ignored, as under nohup: the program should outlive its terminal; or
 * has a handler: it is kept for something else.
 * SIGINT is included even if a script's & ignores it: whoever sends it there means it. */
static void signals(sigset_t *set)
{
    struct sigaction hangup;
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler == SIG_DFL) {
        sigaddset(set, SIGHUP);
    }
}

void uw_stop_init(struct uw_stop *s)
{
    sigset_t set;
    signals(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    *s = (struct uw_stop){.asked = false};
    atomic_store(&taken, false);
}

/* Never runs, as SIGHUP stays blocked: it marks that the signal is no end. */
static void hold(int signal)
{
    (void)signal;
}

void uw_stop_keep_hangup(void)
{
    struct sigaction keep = {.sa_handler = hold, .sa_flags = SA_RESTART};
    sigset_t set;
    sigemptyset(&keep.sa_mask);
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    sigaction(SIGHUP, &keep, NULL);
}

uint32_t uw_stop_hangups(void)
{
    sigset_t set;
    const struct timespec now = {0};
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    if (sigtimedwait(&set, NULL, &now) > 0) {
        atomic_fetch_add(&hangups_n, 1u);
    }
    return atomic_load(&hangups_n);
}

bool uw_stop_asked(struct uw_stop *s)
{
    if (!s->asked && s->listener != NULL) {
        s->asked = s->listener->stop(s->listener->arg);
    } else if (!s->asked) {
        sigset_t set;
        const struct timespec now = {0};
        signals(&set);
        if (sigtimedwait(&set, NULL, &now) > 0) {
            s->asked = true;
            atomic_store(&taken, true);
            uw_stop_release();
        }
    }
    return s->asked;
}

bool uw_stop_near(void)
{
    sigset_t pending, set;
    if (atomic_load(&taken)) {
        return true;
    }
    signals(&set);
    return sigpending(&pending) == 0 &&
           (sigismember(&pending, SIGINT) == 1 || sigismember(&pending, SIGTERM) == 1 ||
            (sigismember(&pending, SIGHUP) == 1 && sigismember(&set, SIGHUP) == 1));
}

void uw_stop_release(void)
{
    sigset_t set;
    signals(&set);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}
