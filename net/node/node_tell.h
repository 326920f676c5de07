/* SPDX-License-Identifier: Apache-2.0
 *
 * node_tell.h - a node's events
 *
 * Blocking   never      Context  network thread
 */
#ifndef UW_NET_NODE_TELL_H
#define UW_NET_NODE_TELL_H

#include "node_state.h"

/* Tell of an event whose sentence is in s->text, or needs none. */
void uw_node_report(struct uw_node_state *s, struct uw_node_event *e);

#define UW_NODE_QUIETS 12u

/* An event that is not told again before. */
struct uw_node_quiet {
    enum uw_node_event_kind kind;
    uint32_t key;
    uint64_t until_us;
};

/* Is this worth telling? True the first time for a key, then once in ten seconds; never where
 * nobody hears of events. */
bool uw_node_is_news(struct uw_node_state *s, enum uw_node_event_kind kind, uint32_t key);

/* The address a member gave, or the one that it, or the station, is seen at. */
const char *uw_node_address(struct uw_node_state *s, const struct uw_member *m, uint16_t station,
                            char seen[UW_LINK_ADDRESS_BYTES]);

/* As struct uw_membership_config.changed; arg is the node's state. */
void uw_node_member_changed(void *arg, enum uw_node_event_kind kind, const struct uw_member *m,
                            uint64_t silent_us);

/* As struct uw_membership_config.forget. */
void uw_node_forget(void *arg, const struct uw_member *m, bool restarted);

/* About the present or last pull and a peer that it is from, or NULL: it is gone from the table.
 * why: what a cut, a move or a refusal was caused by. */
void uw_node_tell_pull(struct uw_node_state *s, const struct uw_member *m,
                       enum uw_node_event_kind kind, enum uw_node_why why);

/* About a station or member, WRONG_RUN or MEMBERS_FULL; m may be NULL. */
void uw_node_tell_refused(struct uw_node_state *s, enum uw_node_event_kind kind, uint16_t station,
                          const struct uw_member *m);

/* A member trains another model, of this hash. */
void uw_node_tell_wrong_model(struct uw_node_state *s, uint16_t station, const struct uw_member *m,
                              uint64_t hash);

/* Two devices use one name: this one's own, or a member's. */
void uw_node_tell_name_taken(struct uw_node_state *s, uint16_t station, const struct uw_member *m,
                             bool own);

#endif
