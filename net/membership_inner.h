/* SPDX-License-Identifier: Apache-2.0
 *
 * membership_inner.h - what the files membership*.c call of each other: membership.c hears,
 * _call.c calls and notices silence, _news.c tells of others, _table.c finds places
 *
 * Blocking   never      Context  network thread
 */
#ifndef UW_NET_MEMBERSHIP_INNER_H
#define UW_NET_MEMBERSHIP_INNER_H

#include "membership.h"

#define UW_MEMBER_PATIENCE 4u       /* quarters: the configured silence once */

/* Tell the owner. */
void uw_membership_changed(struct uw_membership *m, enum uw_node_event_kind kind,
                           const struct uw_member *member, uint64_t silent_us);

/* A member's state changes, at m->now_us: that is news. */
void uw_membership_set_state(struct uw_membership *m, struct uw_member *member,
                             enum uw_member_state state);

/* Its record is to be told anew; or no more, because its place gets another name. */
void uw_membership_news(struct uw_membership *m, struct uw_member *member);
void uw_membership_no_news(struct uw_membership *m, struct uw_member *member);

/* So many bytes were sent. */
void uw_membership_pay(struct uw_membership *m, uint32_t bytes);

/* An exchange has brought all that there is to know: the next one in its time. */
void uw_membership_exchanged(struct uw_membership *m, struct uw_member *member);

/* Call it soon: at once, and where pings are rare within a part of their distance. */
void uw_membership_soon(struct uw_membership *m, struct uw_member *member);

/* membership_table.c: places by station, by name and by what is due. */

/* Take the tables' memory. Returns UW_OK or what uw_arena_take returns. */
int uw_membership_place_tables(struct uw_membership *m, struct uw_arena *arena);

/* A place gets a name, a member a station (UW_LINK_STATION_NONE: none). */
void uw_membership_set_name(struct uw_membership *m, struct uw_member *member, const char *name);
void uw_membership_set_station(struct uw_membership *m, struct uw_member *member,
                               uint16_t station);
struct uw_member *uw_membership_named(struct uw_membership *m, const char *name);

/* Move a member in the heap to where it belongs when something is due at due_us. */
void uw_membership_set_due(struct uw_membership *m, struct uw_member *member, uint64_t due_us);

/* Something about a member may be due earlier than it was. */
void uw_membership_rush(struct uw_membership *m, struct uw_member *member);

/* Let the link recycle a station, unless a member or a seed goes by its number. */
void uw_membership_let_go(struct uw_membership *m, uint16_t station);

/* us, give or take an eighth. */
uint64_t uw_membership_jitter(struct uw_membership *m, uint64_t us);

#endif
