/* SPDX-License-Identifier: Apache-2.0
 *
 * membership_priv.h - what the files of membership call of each other: membership.c hears,
 * _call.c calls and notices silence, _table.c finds places and tells of others. Each calls those
 * after it
 *
 * Blocking   never      Context  network thread
 */
#ifndef UW_NET_MEMBERSHIP_PRIV_H
#define UW_NET_MEMBERSHIP_PRIV_H

#include "membership.h"
#include "base/bits.h"

#define UW_MEMBER_PATIENCE 4u       /* quarters: the configured silence once */

/* Tell the owner. */
void uw_membership_changed(struct uw_membership *m, enum uw_node_event_kind kind,
                           const struct uw_member *member, uint64_t silent_us);

/* A member's state changes, at m->now_us: that is news. */
void uw_membership_set_state(struct uw_membership *m, struct uw_member *member,
                             enum uw_member_state state);

/* The first n of those gathered last were told of. */
void uw_membership_mark_sent(struct uw_membership *m, uint32_t n);

/* Its record is to be told anew; or no more, because its place gets another name. */
void uw_membership_news(struct uw_membership *m, struct uw_member *member);
void uw_membership_no_news(struct uw_membership *m, struct uw_member *member);

/* An exchange has brought all that there is to know: the next one in its time. */
void uw_membership_exchanged(struct uw_membership *m, struct uw_member *member);

/* Call it soon: at once, and where pings are rare within a part of their distance. */
void uw_membership_soon(struct uw_membership *m, struct uw_member *member);

/* membership_table.c: places by station, by name and by what is due. */

/* Take the table, with this device in it; the heap, the lists of news and the seeds.
 * Returns UW_OK or what uw_arena_take returns. */
int uw_membership_place_table(struct uw_membership *m, struct uw_arena *arena,
                              const struct uw_membership_config *config);
int uw_membership_place_calls(struct uw_membership *m, struct uw_arena *arena);

/* A place loses its name, if it has one, and gets one; a member a station (UW_LINK_STATION_NONE:
 * none). */
void uw_membership_set_station(struct uw_membership *m, struct uw_member *member,
                               uint16_t station);
void uw_membership_drop_name(struct uw_membership *m, struct uw_member *member);
void uw_membership_set_name(struct uw_membership *m, struct uw_member *member, const char *name);
struct uw_member *uw_membership_named(struct uw_membership *m, const char *name);

/* Move a member in the heap to where it belongs when something is due at due_us. */
void uw_membership_set_due(struct uw_membership *m, struct uw_member *member, uint64_t due_us);

/* Something about a member may be due earlier than it was. */
void uw_membership_rush(struct uw_membership *m, struct uw_member *member);

/* Let the link recycle a station, unless a member or a seed goes by its number. */
void uw_membership_let_go(struct uw_membership *m, uint16_t station);

/* How far apart its windows are; 0: it never sleeps. */
static inline uint64_t uw_member_period_us(const struct uw_member *it)
{
    return it->progress.sleep_ms * UINT64_C(1000);
}

/* membership_call.c */
struct uw_member_windows {
    /* Progress is new: where its windows are. */
    void (*set)(struct uw_member *it, uint64_t now_us);
    struct uw_window (*get)(const struct uw_member *it, uint64_t now_us);
    /* So much of the time in which a member can be heard is how much of this device's. */
    uint64_t (*stretched_us)(const struct uw_membership *m, const struct uw_member *it,
                             uint64_t us);
    /* How far apart its beacons are at least because it sleeps; 0: it does not. */
    uint64_t (*pause_us)(const struct uw_membership *m, const struct uw_member *it);
};

struct uw_beacons {
    /* A station's was heard. */
    void (*heard)(struct uw_membership *m, uint16_t station);
    /* The next one comes soon. */
    void (*show)(struct uw_membership *m);
    /* As uw_membership_next, of beacons alone. */
    int (*next)(struct uw_membership *m, uint16_t *station, uint32_t *seq);
};

/* membership_call.c: so far apart are exchanges with each live member, one message of them ours. */
uint64_t uw_membership_exchange_us(const struct uw_membership *m);

/* us, give or take an eighth. */
uint64_t uw_membership_jitter(struct uw_membership *m, uint64_t us);

#endif
