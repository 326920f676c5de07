/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_profile.h"

#include <stdio.h>
#include <time.h>

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t uw_sim_profile_now(const struct uw_sim_profile *p)
{
    return p->on ? clock_ns(CLOCK_THREAD_CPUTIME_ID) : 0;
}

void uw_sim_profile_start(struct uw_sim_profile *p)
{
    p->start_ns = p->on ? clock_ns(CLOCK_PROCESS_CPUTIME_ID) : 0;
}

void uw_sim_profile_report(const struct uw_sim_profile *p, uint64_t node_steps,
                           struct uw_events *events)
{
    enum { TRAINING, NETWORK, TESTS, REST, PARTS };
    static const char *const names[PARTS] = {"training", "network", "tests", "rest"};
    if (!p->on || node_steps == 0) {
        return;
    }
    double s[PARTS] = {[NETWORK] = 1e-9 * (double)p->network_ns};
    for (uint32_t i = 0; i < UW_BOARD_WORKERS_MAX; i++) {
        s[TRAINING] += 1e-9 * (double)p->threads[i].training_ns;
        s[TESTS] += 1e-9 * (double)p->threads[i].tests_ns;
    }
    double all = 1e-9 * (double)(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - p->start_ns);
    s[REST] = all - s[TRAINING] - s[NETWORK] - s[TESTS];
    cJSON *ev = uw_event("profile");
    cJSON_AddNumberToObject(ev, "node_steps", (double)node_steps);
    for (int i = 0; i < PARTS; i++) {
        char key[32];
        snprintf(key, sizeof key, "%s_seconds", names[i]);
        cJSON_AddNumberToObject(ev, key, s[i]);
        fprintf(stderr, "%-10s %9.3f s of processors, %8.2f us a node-step\n", names[i], s[i],
                1e6 * s[i] / (double)node_steps);
    }
    uw_events_put(events, ev);
}
