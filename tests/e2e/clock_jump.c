/* SPDX-License-Identifier: Apache-2.0
 *
 * Preloaded into a program, it makes the wall clock wrong by UWASA_TEST_CLOCK seconds: as on a
 * gateway without a battery, or after somebody set the time.
 */
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static time_t offset(void)
{
    const char *seconds = getenv("UWASA_TEST_CLOCK");
    return seconds != NULL ? (time_t)strtoll(seconds, NULL, 10) : 0;
}

int clock_gettime(clockid_t id, struct timespec *t)
{
    int rc = (int)syscall(SYS_clock_gettime, id, t);
    if (rc == 0 && id == CLOCK_REALTIME) {
        t->tv_sec += offset();
    }
    return rc;
}

time_t time(time_t *out)
{
    struct timespec t = {0};
    (void)clock_gettime(CLOCK_REALTIME, &t);
    if (out != NULL) {
        *out = t.tv_sec;
    }
    return t.tv_sec;
}
