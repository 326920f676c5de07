/* SPDX-License-Identifier: Apache-2.0
 *
 * link_message.h - the messages of a simulated network: shared buffers, and their order in time
 */
#ifndef UWASA_SIM_LINK_MESSAGE_H
#define UWASA_SIM_LINK_MESSAGE_H

#include "medium.h"

/* Where a message is, or what it comes to next; the last two on a radio. */
enum uw_sim_stage {
    UW_SIM_AT_CHANNEL, UW_SIM_OFF_CHANNEL, UW_SIM_AT_OUT, UW_SIM_AT_IN, UW_SIM_AT_FAR_CHANNEL,
    UW_SIM_OFF_FAR_CHANNEL, UW_SIM_AT_DOWN, UW_SIM_ARRIVED, UW_SIM_AT_AIR, UW_SIM_OFF_AIR
};

struct uw_sim_message {
    struct uw_sim_message *next;
    uint32_t bytes;
    uint16_t from, to;
    uint8_t stage;                  /* of its way */
    uint8_t pool;
    bool lost;                      /* by chance, at the end of the sender's side */
    uint64_t payload[];
};

/* Take a buffer for a message of that size; NULL: none to be had. */
struct uw_sim_message *uw_sim_message_take(struct uw_sim_net *n, uint32_t bytes);

/* Give it back. */
void uw_sim_message_give(struct uw_sim_net *n, struct uw_sim_message *m);

/* Let something happen to a message then. A message is in the heap once at most. */
void uw_sim_message_push(struct uw_sim_net *n, struct uw_sim_message *m, uint64_t at_us);

/* The message to which something happens first; only while there is one. */
struct uw_sim_message *uw_sim_message_pop(struct uw_sim_net *n);

#endif
