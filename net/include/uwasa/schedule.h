/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/schedule.h - whom to pull from in a round
 *
 * A schedule is a pure function: same candidates, round and generator state, same choice. That is
 * what lets every device of a run follow a common order without a message.
 *
 * Memory     nothing is kept      Blocking  never      Context  any thread
 */
#ifndef UWASA_SCHEDULE_H
#define UWASA_SCHEDULE_H

#include "uwasa/rng.h"

#include <stdint.h>

struct uw_schedule_view {
    const uint32_t *ids;        /* [n] identities that can be pulled from now, ascending */
    uint32_t n;                 /* 1 or more */
    uint32_t self;              /* own identity, not among ids */
    uint32_t round;
};

struct uw_schedule {
    const char *name;
    /* Index into view->ids of the peer to pull from, below view->n. */
    uint32_t (*pick)(const struct uw_schedule_view *view, struct uw_rng *rng);
};

/* Uniform among the candidates. */
extern const struct uw_schedule uw_schedule_random;

/* Schedule by name; NULL when there is none. */
const struct uw_schedule *uw_schedule_find(const char *name);

#endif
