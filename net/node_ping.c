/* SPDX-License-Identifier: Apache-2.0 */
#include "node_state.h"

#define CALLS_MOST 16u

void uw_node_fill_ping(struct uw_node_state *s, enum uw_wire_type type, uint32_t seq,
                       uint32_t others)
{
    s->message->type = type;
    uwasa_Ping *p = &s->message->ping;
    *p = (uwasa_Ping){.run = s->run, .model = s->model, .seq = seq, .has_self = true,
                      .has_progress = true};
    uw_membership_self(&s->membership, &p->self);
    uw_node_fill_progress(s, &p->progress);
    p->peers_count = (pb_size_t)uw_membership_gather(&s->membership, p->peers, others);
}

void uw_node_send_ping(struct uw_node_state *s, uint16_t station)
{
    uint64_t before = s->counters.sent_bytes;
    while (uw_node_send(s, station) == UW_ERR_TOOBIG && s->message->ping.peers_count != 0) {
        s->message->ping.peers_count--;
    }
    uint32_t bytes = (uint32_t)(s->counters.sent_bytes - before);
    if (bytes != 0) {
        s->counters.membership_bytes += bytes;
        uw_membership_sent(&s->membership, bytes, s->message->ping.peers_count);
    }
}

void uw_node_call_members(struct uw_node_state *s)
{
    /* That there is a first version to pull is news that others wait for. */
    uint32_t version =
        (uint32_t)atomic_load_explicit(&s->gossip.version, memory_order_relaxed);
    if (s->shown_version == 0 && version != 0) {
        s->shown_version = version;
        uw_membership_hurry(&s->membership, s->now_us);
    }
    for (uint32_t i = 0; i < CALLS_MOST; i++) {
        uint16_t station = UW_LINK_STATION_NONE;
        uint32_t seq = 0;
        int type = uw_membership_next(&s->membership, s->now_us, &station, &seq);
        if (type == 0) {
            return;
        }
        uw_node_fill_ping(s, (enum uw_wire_type)type, seq, UW_NODE_OTHERS);
        uw_node_send_ping(s, station);
    }
}
