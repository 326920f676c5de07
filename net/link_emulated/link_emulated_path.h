/* SPDX-License-Identifier: Apache-2.0
 *
 * link_emulated_path.h - one direction of an emulated link: the fate of each message, and the
 * queue of those on their way, ordered by due time
 */
#ifndef UWASA_LINK_EMULATED_PATH_H
#define UWASA_LINK_EMULATED_PATH_H

#include "uwasa/link_emulated.h"

/* One message on its way; its bytes follow. */
struct uw_emulated_slot {
    uint64_t due_us, order;
    uint32_t bytes;
    uint16_t station;
    bool lost;                  /* takes its time on the medium, and arrives nowhere */
};

/* Bytes of one slot with its message. */
size_t uw_emulated_path_slot_bytes(uint32_t mtu_bytes);

/* Give an empty path n slots, a heap of n numbers and a seed. */
void uw_emulated_path_bind(struct uw_emulated_path *p, uint8_t *slots, uint32_t *heap, uint32_t n,
                           uint64_t seed);

/* Take over an impairment; UW_ERR_INVALID leaves p half changed: work on a copy. */
int uw_emulated_path_set(struct uw_emulated_path *p, const struct uw_impairment *how);

/* Nothing is done to messages. */
bool uw_emulated_path_is_clear(const struct uw_emulated_path *p);

static inline bool uw_emulated_path_is_full(const struct uw_emulated_path *p)
{
    return p->count + p->waiting_n == p->cap_n;
}

/* Where the bytes of the next message go; only while the path is not full. */
struct uw_emulated_slot *uw_emulated_path_room(const struct uw_emulated_path *p);

/* Decide the fate of the message whose bytes lie in the room. false: it is lost. */
bool uw_emulated_path_admit(struct uw_emulated_path *p, uint64_t now_us, uint16_t station,
                            uint32_t bytes, bool cut);

/* The same for a path whose messages wait for a medium. */
bool uw_emulated_path_admit_waiting(struct uw_emulated_path *p, uint64_t now_us, uint16_t station,
                                    uint32_t bytes, bool cut);

/* The message that waits longest, since its due_us; NULL when none does. */
const struct uw_emulated_slot *uw_emulated_path_waiting(const struct uw_emulated_path *p);

/* It has left the medium. */
void uw_emulated_path_leave(struct uw_emulated_path *p, uint64_t left_us);

/* The message due first, NULL when none is on its way. */
const struct uw_emulated_slot *uw_emulated_path_first(const struct uw_emulated_path *p);

/* Forget the message due first. */
void uw_emulated_path_pop(struct uw_emulated_path *p);

/* A link begins and ends to share its medium. */
void uw_emulated_medium_join(struct uw_emulated_medium *m, struct uw_link_emulated *e);
void uw_emulated_medium_part(struct uw_emulated_medium *m, struct uw_link_emulated *e);

/* Put on the air what may begin by now. */
void uw_emulated_medium_run(struct uw_emulated_medium *m, uint64_t now_us);

#endif
