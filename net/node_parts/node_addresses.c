/* SPDX-License-Identifier: Apache-2.0
 *
 * Further addresses of this node and of others, in the messages of discovery. */
#include "membership/member_addresses.h"
#include "node/node_addresses.h"
#include "node/node_state.h"

static int place(struct uw_node_state *s, struct uw_arena *arena)
{
    return s->config.own_addresses != NULL ? uw_member_addresses_place(&s->membership, arena)
                                           : UW_OK;
}

static uint32_t add(const struct uw_node_state *s, const uint8_t *also, uint32_t also_bytes,
                    uint32_t bytes, uint32_t mtu)
{
    int rc = uw_message_add_also(s->config.link->frames, also, also_bytes, s->buffer, bytes, mtu);
    return rc < 0 ? bytes : (uint32_t)rc;
}

static uint32_t add_own(struct uw_node_state *s, uint32_t bytes, uint32_t mtu)
{
    uint8_t also[UW_MESSAGE_ALSO_MOST];
    uint32_t n = s->config.own_addresses(s->config.addresses_arg, also, sizeof also);
    return add(s, also, n, bytes, mtu);
}

static uint32_t add_of(struct uw_node_state *s, const uwasa_Peer *peer, uint32_t bytes,
                       uint32_t mtu)
{
    uint8_t also[UW_MESSAGE_ALSO_MOST];
    return add(s, also, uw_member_addresses_of(&s->membership, peer, also), bytes, mtu);
}

static void take(struct uw_node_state *s, const uwasa_Peer *peer, uint32_t at, uint32_t bytes)
{
    uint32_t n;
    const uint8_t *also = uw_message_also(s->config.link->frames, s->in, bytes, at, &n);
    uw_member_addresses_take(&s->membership, peer, also, n, at != 0);
}

const struct uw_node_addresses uw_node_addresses = {.setup = {NULL, place},
                                                    .members = &uw_member_addresses,
                                                    .add_own = add_own, .add_of = add_of,
                                                    .take = take};
