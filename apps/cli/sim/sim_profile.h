/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_profile.h - where the processors' time of a simulated run goes (--profile)
 *
 * Training is the nodes' local steps; tests are those of models, and their mean; network is the
 * world: protocols, links and the clock; the rest is the loop that drives them, and threads that
 * look for work. Set-up and the meeting of the nodes are not in it.
 *
 *     uw_sim_profile_start(&p);
 *     uint64_t from_ns = uw_sim_profile_now(&p);
 *     ...
 *     p.network_ns += uw_sim_profile_now(&p) - from_ns;
 *     uw_sim_profile_report(&p, node_steps, &events);
 *
 * Units      _ns nanoseconds of processors, not of the wall
 * Context    main thread; now, and a thread's own numbers: that thread
 */
#ifndef UWASA_CLI_SIM_PROFILE_H
#define UWASA_CLI_SIM_PROFILE_H

#include "base/events.h"

#include "uwasa/board.h"

#include <stdbool.h>
#include <stdint.h>

struct uw_sim_profile {
    bool on;
    uint64_t start_ns;              /* of the process */
    uint64_t network_ns;
    struct {
        uint64_t training_ns, tests_ns;
        uint64_t apart[6];          /* threads' numbers in cache lines of their own */
    } threads[UW_BOARD_WORKERS_MAX];
};

/* What this thread has taken so far; 0 when the profile is off: a look costs a system call. */
uint64_t uw_sim_profile_now(const struct uw_sim_profile *p);

/* From now on, when the profile is on. */
void uw_sim_profile_start(struct uw_sim_profile *p);

/* An event "profile", and a table on standard error; nothing when the profile is off. */
void uw_sim_profile_report(const struct uw_sim_profile *p, uint64_t node_steps,
                           struct uw_events *events);

#endif
