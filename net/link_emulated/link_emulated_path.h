/* SPDX-License-Identifier: Apache-2.0
 *
 * link_emulated_path.h - one direction of an emulated link: impairments, and a queue by due time
 */
#ifndef UWASA_LINK_EMULATED_PATH_H
#define UWASA_LINK_EMULATED_PATH_H

#include "uwasa/link_emulated.h"

/* A queued message; its bytes follow. */
struct uw_emulated_slot {
    uint64_t due_us, order;
    uint32_t bytes;
    uint16_t station;
    bool lost;                  /* occupies the medium, but is not delivered */
};

size_t uw_emulated_path_slot_bytes(uint32_t mtu_bytes);

/* Set up an empty path with n slots, a heap of n numbers and a seed. */
void uw_emulated_path_bind(struct uw_emulated_path *p, uint8_t *slots, uint32_t *heap, uint32_t n,
                           uint64_t seed);

/* Set the impairment. On UW_ERR_INVALID p is partly changed: use a copy. */
int uw_emulated_path_set(struct uw_emulated_path *p, const struct uw_impairment *how);

/* Is there no impairment? */
bool uw_emulated_path_is_clear(const struct uw_emulated_path *p);

static inline bool uw_emulated_path_is_full(const struct uw_emulated_path *p)
{
    return p->count + p->waiting_n == p->cap_n;
}

/* The slot for the next message, while the path is not full. */
struct uw_emulated_slot *uw_emulated_path_room(const struct uw_emulated_path *p);

/* Apply the impairment to the message in that slot, and queue it. false: it is lost. */
bool uw_emulated_path_admit(struct uw_emulated_path *p, uint64_t now_us, uint16_t station,
                            uint32_t bytes, bool cut);

/* The same for a path whose messages wait for a medium. */
bool uw_emulated_path_admit_waiting(struct uw_emulated_path *p, uint64_t now_us, uint16_t station,
                                    uint32_t bytes, bool cut);

/* The message due first, or NULL. */
const struct uw_emulated_slot *uw_emulated_path_first(const struct uw_emulated_path *p);

void uw_emulated_path_pop(struct uw_emulated_path *p);

void uw_emulated_medium_join(struct uw_emulated_medium *m, struct uw_link_emulated *e);
void uw_emulated_medium_part(struct uw_emulated_medium *m, struct uw_link_emulated *e);

/* Start the messages that may be on the air by now. */
void uw_emulated_medium_run(struct uw_emulated_medium *m, uint64_t now_us);

#endif
