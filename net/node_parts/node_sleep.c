/* SPDX-License-Identifier: Apache-2.0 */
#include "node/node_pull.h"

#include "base/bits.h"

#define GREET_PARTS 8u              /* the beacon is sent in this fraction of a window */
#define APART_PARTS 16u             /* windows within this fraction are not moved */

struct uw_node_sleeper {
    uint64_t period_us, awake_us;
    uint64_t window_us;             /* start of the last window */
    uint64_t search_us;             /* end of the search */
    uint64_t parting_us;            /* informs former neighbours then; 0: none */
    uint64_t asleep_us;             /* since; 0: it is awake */
    uint32_t windows_n;
    uint32_t label;
};

static int check(const struct uw_node_config *c, struct uw_node_fault *fault)
{
    const struct uw_node_sleep *z = &c->sleep;
    if (z->period_us == 0) {
        return UW_NODE_FAULT(fault, sleep.awake_us, "needs a sleep period");
    }
    if (z->period_us > UW_NODE_SLEEP_MOST_US) {
        return UW_NODE_FAULT(fault, sleep.period_us, "needs an hour at most");
    }
    if (z->awake_us == 0) {
        return UW_NODE_FAULT(fault, sleep.period_us, "needs an awake time, too");
    }
    if (z->awake_us < UW_NODE_SLEEP_LEAST_US || z->awake_us / 1000u >= z->period_us / 1000u) {
        return UW_NODE_FAULT(fault, sleep.awake_us, "needs less than the period, 0.02 s or more");
    }
    return uw_node_only_pulls(c)
               ? UW_OK : UW_NODE_FAULT(fault, sleep.period_us,
                                       "is for gossip and broadcast, not for exact averages, one "
                                       "at the end, pairs or samples");
}

static int place(struct uw_node_state *s, struct uw_arena *arena)
{
    void *memory;
    int rc = uw_arena_take(arena, sizeof *s->sleeper, &memory);
    s->sleeper = memory;
    if (rc == UW_OK && memory != NULL) {
        /* In whole milliseconds, as reported. */
        *s->sleeper = (struct uw_node_sleeper){
            .period_us = s->config.sleep.period_us / 1000u * 1000u,
            .awake_us = s->config.sleep.awake_us / 1000u * 1000u,
            .label = s->membership.members[0].id & UINT16_MAX};
    }
    return rc;
}

/* The window that began at or before now. */
static void open_window(struct uw_node_state *s)
{
    struct uw_node_sleeper *z = s->sleeper;
    uint32_t n = (uint32_t)((s->outer_us - z->window_us) / z->period_us);
    z->window_us += n * z->period_us;
    z->windows_n += n;
    uint32_t every = uw_membership_alive(&s->membership) != 0 ? UW_NODE_SLEEP_SEARCH
                                                              : UW_NODE_SLEEP_SEARCH_ALONE;
    if ((z->windows_n + s->membership.members[0].id) % every == 0) {
        z->search_us = z->window_us + z->period_us;
    }
    uw_membership_beacon_soon(&s->membership, z->period_us, z->awake_us / GREET_PARTS, s->outer_us);
}

static void wake_up(struct uw_node_state *s)
{
    uint64_t slept_us = s->outer_us - s->sleeper->asleep_us;
    s->sleeper->asleep_us = 0;
    uw_membership_slept(&s->membership, slept_us, s->outer_us);
    uw_node_slept(s, slept_us);
}

static bool step(struct uw_node_state *s, uint64_t *next_us)
{
    struct uw_node_sleeper *z = s->sleeper;
    if (z->search_us == 0) {        /* the first */
        z->window_us = s->outer_us;
        z->search_us = s->outer_us + z->period_us + z->awake_us;
    }
    uint64_t opens_us = z->window_us + z->period_us, shuts_us = z->window_us + z->awake_us;
    bool opens = s->outer_us >= opens_us;
    bool awake = opens || s->outer_us < shuts_us || s->outer_us < z->search_us;
    if (awake && z->asleep_us != 0) {
        wake_up(s);
    }
    if (opens) {
        open_window(s);
        opens_us = z->window_us + z->period_us;
        shuts_us = z->window_us + z->awake_us;
    }
    if (!awake) {
        z->asleep_us = z->asleep_us != 0 ? z->asleep_us : s->outer_us;
        *next_us = opens_us;
        return true;
    }
    if (z->parting_us != 0 && s->outer_us >= z->parting_us) {
        z->parting_us = 0;
        uw_membership_beacon_soon(&s->membership, z->period_us, 0, s->outer_us);
    }
    shuts_us = shuts_us > z->search_us ? shuts_us : z->search_us;
    *next_us = shuts_us > s->outer_us ? uw_min_u64(opens_us, shuts_us) : opens_us;
    *next_us = z->parting_us != 0 ? uw_min_u64(*next_us, z->parting_us) : *next_us;
    return false;
}

/* Adopt a peer's windows; former neighbours are informed in their next one. */
static void move(struct uw_node_state *s, uint64_t later_us)
{
    struct uw_node_sleeper *z = s->sleeper;
    uint64_t old_us = z->window_us;
    uint64_t window_us = old_us + later_us;     /* less than a period later */
    z->window_us = window_us > s->outer_us && window_us >= z->period_us ? window_us - z->period_us
                                                                     : window_us;
    while (old_us <= s->outer_us) {
        old_us += z->period_us;
    }
    z->parting_us = old_us + z->awake_us / 2u;
    z->search_us = old_us + z->awake_us;
}

static void heard(struct uw_node_state *s, const struct uw_member *m)
{
    struct uw_node_sleeper *z = s->sleeper;
    if (m->progress.sleep_ms * UINT64_C(1000) != z->period_us) {
        return;
    }
    uint64_t later_us = (m->window_us % z->period_us + z->period_us -
                         z->window_us % z->period_us) % z->period_us;
    uint64_t earlier_us = z->period_us - later_us;
    bool late = later_us <= earlier_us;
    bool apart = (late ? later_us : earlier_us) > z->awake_us / APART_PARTS;
    if (m->progress.sleep_label < z->label) {
        z->label = m->progress.sleep_label;
        if (apart) {
            move(s, later_us);
        }
    } else if (m->progress.sleep_label > z->label && apart) {
        uw_membership_beacon_soon(&s->membership, z->period_us, z->awake_us / GREET_PARTS,
                                  s->outer_us);
    } else if (apart && !late && z->window_us >= earlier_us) {
        /* The fastest clock leads: reports arrive late and look later than they are. */
        z->window_us -= earlier_us;
    }
}

static void fill(const struct uw_node_state *s, uwasa_Progress *p)
{
    const struct uw_node_sleeper *z = s->sleeper;
    uint64_t since_us = (s->outer_us + z->period_us - z->window_us % z->period_us) % z->period_us;
    p->sleep_ms = (uint32_t)(z->period_us / 1000u);
    p->awake_ms = (uint32_t)(z->awake_us / 1000u);
    p->since_ms = (uint32_t)(since_us / 1000u);
    p->sleep_label = z->label;
}

static uint32_t prefer_awake(struct uw_node_state *s, uint32_t usable_n)
{
    struct uw_node_candidates *c = &s->candidates;
    uint32_t awake_n = 0;
    for (uint32_t k = 0; k < c->n; k++) {
        awake_n += c->usable[k] && uw_node_is_awake(s, &s->membership.members[c->place[k]]);
    }
    for (uint32_t k = 0; awake_n != 0 && k < c->n; k++) {
        c->usable[k] = c->usable[k] && uw_node_is_awake(s, &s->membership.members[c->place[k]]);
    }
    return awake_n != 0 ? awake_n : usable_n;
}

uint64_t uw_node_may_sleep_us(const struct uw_node *n, uint64_t caller_us)
{
    const struct uw_node_state *s = n->state;
    bool asleep = s != NULL && s->sleeper != NULL && s->sleeper->asleep_us != 0;
    uint64_t now_us = asleep ? caller_us + s->clock_us : 0;
    return asleep && s->promised_us > now_us ? s->promised_us - now_us : 0;
}

const struct uw_node_sleeps uw_node_sleeps = {.setup = {check, place},
                                              .windows = &uw_member_windows,
                                              .prefer_awake = prefer_awake,
                                              .step = step,
                                              .heard = heard,
                                              .fill = fill};
