/* SPDX-License-Identifier: Apache-2.0 */
#include "scenario_there.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define OF_ONE 4096u            /* absences drawn of a device, at most */

/* The absences of one device while they are drawn; those that touch become one. */
struct list {
    struct uw_sim_draw *d;
    uint32_t first, room;
};

static uint64_t us(double seconds)
{
    double at = seconds < 0.0 ? 0.0 : seconds > UW_SIM_SECONDS_MAX ? UW_SIM_SECONDS_MAX : seconds;
    return (uint64_t)(at * 1e6 + 0.5);
}

static int make_room(struct uw_sim_draw *d)
{
    if (d->absences_n < d->absences_cap) {
        return UW_OK;
    }
    uint32_t cap = d->absences_cap != 0 ? 2u * d->absences_cap : 256u;
    struct uw_sim_absence *more = realloc(d->absences, cap * sizeof *more);
    if (more == NULL) {
        return UW_ERR_NOMEM;
    }
    d->absences = more;
    d->absences_cap = cap;
    return UW_OK;
}

/* Returns 1 when there is room for another one, 0 when there is not. */
static int add(struct list *l, uint64_t from_us, uint64_t to_us, bool forgets)
{
    struct uw_sim_draw *d = l->d;
    if (to_us <= from_us) {
        return 1;
    }
    if (d->absences_n > l->first && from_us <= d->absences[d->absences_n - 1u].to_us) {
        struct uw_sim_absence *last = &d->absences[d->absences_n - 1u];
        last->to_us = to_us > last->to_us ? to_us : last->to_us;
        last->forgets = last->forgets || forgets;
        return 1;
    }
    if (make_room(d) < 0) {
        return UW_ERR_NOMEM;
    }
    d->absences[d->absences_n++] =
        (struct uw_sim_absence){.from_us = from_us, .to_us = to_us, .forgets = forgets};
    return d->absences_n - l->first < l->room;
}

/* Where in the period a device is, is drawn; there for the first `up` of it. Less than 1 us away
 * could be nothing, day after day. */
static int draw_diurnal(struct list *l, const struct uw_sim_availability *v, struct uw_rng *rng)
{
    double ahead = v->spread * uw_sim_uniform(rng), away = v->up * v->period - ahead;
    int more = (1.0 - v->up) * v->period >= 1e-6;
    for (double day = 0.0; more > 0 && away + day * v->period < UW_SIM_SECONDS_MAX; day += 1.0) {
        double from = away + day * v->period;
        more = add(l, us(from), us(from + (1.0 - v->up) * v->period), false);
    }
    return more < 0 ? more : UW_OK;
}

static double exponential(double mean, struct uw_rng *rng)
{
    return -mean * log(1.0 - uw_sim_uniform(rng));
}

/* Memoryless, so that a device is there at the beginning as likely as at any time. */
static int draw_churn(struct list *l, const struct uw_sim_availability *v, struct uw_rng *rng)
{
    bool there = uw_sim_uniform(rng) * (v->up + v->down) < v->up;
    double now = there ? exponential(v->up, rng) : 0.0;
    int more = 1;
    while (more > 0 && now < UW_SIM_SECONDS_MAX) {
        double back = now + exponential(v->down, rng);
        bool forgets = uw_sim_uniform(rng) < v->forgets;
        more = add(l, us(now), us(back), forgets);
        now = back + exponential(v->up, rng);
    }
    return more < 0 ? more : UW_OK;
}

/* The first line about that node, or a later one. */
static uint32_t first_line(const struct uw_sim_availability *v, uint32_t node)
{
    uint32_t low = 0, high = v->away_n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2u;
        if (v->away[middle].node < node) {
            low = middle + 1u;
        } else {
            high = middle;
        }
    }
    return low;
}

static int copy_trace(struct list *l, const struct uw_sim_availability *v, uint32_t node)
{
    int more = 1;
    l->room = UINT32_MAX;
    for (uint32_t i = first_line(v, node);
         more >= 0 && i < v->away_n && v->away[i].node == node; i++) {
        const struct uw_sim_absence *a = &v->away[i].absence;
        more = add(l, a->from_us, a->to_us, a->forgets);
    }
    return more < 0 ? more : UW_OK;
}

static int check_trace(const struct uw_sim_availability *v, uint32_t nodes, struct uw_error *err)
{
    for (uint32_t i = 0; i < v->away_n; i++) {
        if (v->away[i].node >= nodes) {
            return uw_error_set(err, UW_ERR_INVALID,
                                "line %u of the trace is about node %u, and there are 0 to %u",
                                (unsigned)v->away[i].line, (unsigned)v->away[i].node,
                                (unsigned)nodes - 1u);
        }
    }
    return UW_OK;
}

static int draw_one(struct uw_sim_draw *d, uint32_t i, uint32_t in_group)
{
    const struct uw_sim_availability *v = &d->scenario->groups[d->group[i]].there;
    struct uw_rng rng = uw_sim_stream(d->scenario->seed, UW_SIM_STREAM_THERE, i);
    uint32_t share = UW_SIM_ABSENCES_MAX / d->fleet.devices_n + 1u;
    struct list l = {.d = d, .first = d->absences_n, .room = share < OF_ONE ? share : OF_ONE};
    int rc = UW_OK;
    switch (v->kind) {
    case UW_SIM_ALWAYS:
        break;
    case UW_SIM_DIURNAL:
        rc = draw_diurnal(&l, v, &rng);
        break;
    case UW_SIM_CHURN:
        rc = draw_churn(&l, v, &rng);
        break;
    case UW_SIM_TRACE:
        rc = copy_trace(&l, v, v->whole ? i : in_group);
        break;
    }
    struct uw_sim_device *device = &d->fleet.devices[i];
    device->absences_n = d->absences_n - l.first;
    if (rc == UW_OK && v->kind != UW_SIM_TRACE && device->absences_n != 0) {
        uint64_t last_us = d->absences[d->absences_n - 1u].to_us;
        d->until_us = last_us < d->until_us ? last_us : d->until_us;
    }
    return rc;
}

int uw_sim_draw_absences(struct uw_sim_draw *d, struct uw_error *err)
{
    const struct uw_sim_scenario *s = d->scenario;
    for (uint32_t g = 0, first = 0; g < s->groups_n; g++) {
        const struct uw_sim_group *group = &s->groups[g];
        const struct uw_sim_availability *v = &group->there;
        int rc = check_trace(v, v->whole ? d->fleet.devices_n : group->count, err);
        for (uint32_t i = 0; rc == UW_OK && i < group->count; i++) {
            rc = draw_one(d, first + i, i);
        }
        if (rc < 0) {
            return rc == UW_ERR_NOMEM ? uw_error_set(err, rc, "out of memory") : rc;
        }
        first += group->count;
    }
    const struct uw_sim_absence *next = d->absences;        /* it moves no more */
    for (uint32_t i = 0; i < d->fleet.devices_n; i++) {
        struct uw_sim_device *device = &d->fleet.devices[i];
        device->absences = device->absences_n != 0 ? next : NULL;
        next += device->absences_n;
    }
    return UW_OK;
}

double uw_sim_draw_there(const struct uw_sim_draw *d, uint32_t i, uint64_t until_us)
{
    const struct uw_sim_device *v = &d->fleet.devices[i];
    uint64_t away_us = 0;
    for (uint32_t a = 0; a < v->absences_n && v->absences[a].from_us < until_us; a++) {
        uint64_t to_us = v->absences[a].to_us < until_us ? v->absences[a].to_us : until_us;
        away_us += to_us - v->absences[a].from_us;
    }
    return until_us != 0 ? 1.0 - (double)away_us / (double)until_us : 1.0;
}
