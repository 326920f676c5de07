/* SPDX-License-Identifier: Apache-2.0
 *
 * membership_priv.h - shared by the files of membership: membership.c receives, _call.c pings and
 * detects silence, _table.c has the table and rumours. Each calls those after it
 *
 * Blocking   never      Context  network thread
 */
#ifndef UW_NET_MEMBERSHIP_PRIV_H
#define UW_NET_MEMBERSHIP_PRIV_H

#include "membership.h"
#include "base/bits.h"

#define UW_MEMBER_PATIENCE 4u       /* initial patience, in quarters of the configured silence */

/* Report to the owner. */
void uw_membership_changed(struct uw_membership *m, enum uw_node_event_kind kind,
                           const struct uw_member *member, uint64_t silent_us);

/* Set a member's state at m->now_us, and make a rumour of it. */
void uw_membership_set_state(struct uw_membership *m, struct uw_member *member,
                             enum uw_member_state state);

/* The first n records of the last gather were sent. */
void uw_membership_mark_sent(struct uw_membership *m, uint32_t n);

/* Start a rumour of a member; or end it, because its place gets another name. */
void uw_membership_news(struct uw_membership *m, struct uw_member *member);
void uw_membership_no_news(struct uw_membership *m, struct uw_member *member);

/* A complete exchange took place: schedule the next one. */
void uw_membership_exchanged(struct uw_membership *m, struct uw_member *member);

/* Ping a member soon: at once, or, where pings are rare, within a part of their interval. */
void uw_membership_soon(struct uw_membership *m, struct uw_member *member);

/* membership_table.c: places by station, by name and by due time. */

/* Allocate the table, with this device in it; the heap, the lists of rumours and the seeds.
 * Returns UW_OK or what uw_arena_take returns. */
int uw_membership_place_table(struct uw_membership *m, struct uw_arena *arena,
                              const struct uw_membership_config *config);
int uw_membership_place_calls(struct uw_membership *m, struct uw_arena *arena);

/* Set a member's station (UW_LINK_STATION_NONE: none); drop and set the name of a place. */
void uw_membership_set_station(struct uw_membership *m, struct uw_member *member,
                               uint16_t station);
void uw_membership_drop_name(struct uw_membership *m, struct uw_member *member);
void uw_membership_set_name(struct uw_membership *m, struct uw_member *member, const char *name);
struct uw_member *uw_membership_named(struct uw_membership *m, const char *name);

/* Set a member's key in the heap. */
void uw_membership_set_due(struct uw_membership *m, struct uw_member *member, uint64_t due_us);

/* A member's next event may have become earlier: update its key. */
void uw_membership_rush(struct uw_membership *m, struct uw_member *member);

/* Let the link recycle a station, unless a member or a seed uses it. */
void uw_membership_let_go(struct uw_membership *m, uint16_t station);

/* Period of a member's windows; 0: never sleeps. */
static inline uint64_t uw_member_period_us(const struct uw_member *it)
{
    return it->progress.sleep_ms * UINT64_C(1000);
}

/* membership_call.c */
struct uw_member_windows {
    /* Compute a member's windows from new progress. */
    void (*set)(struct uw_member *it, uint64_t now_us);
    struct uw_window (*get)(const struct uw_member *it, uint64_t now_us);
    /* Convert time in which a member can be received to time of this device. */
    uint64_t (*stretched_us)(const struct uw_membership *m, const struct uw_member *it,
                             uint64_t us);
    /* Shortest interval of its beacons because it sleeps; 0: it does not sleep. */
    uint64_t (*pause_us)(const struct uw_membership *m, const struct uw_member *it);
};

struct uw_member_addresses {
    /* Choose where to call a member that is not live: where it was, or at a further address.
     *   station  in: where it was; out: where to call it
     *   found    UW_OK, or the error of the resolution of `station`
     * Returns the same of the new one. */
    int (*choose)(struct uw_membership *m, const struct uw_member *it, int found,
                  uint16_t *station);
};

struct uw_beacons {
    /* A beacon was received. */
    void (*heard)(struct uw_membership *m, uint16_t station);
    /* Send the next one soon. */
    void (*show)(struct uw_membership *m);
    /* As uw_membership_next, for beacons only. */
    int (*next)(struct uw_membership *m, uint16_t *station, uint32_t *seq);
};

/* us with a random deviation of up to an eighth. */
uint64_t uw_membership_jitter(struct uw_membership *m, uint64_t us);

#endif
