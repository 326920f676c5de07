/* SPDX-License-Identifier: Apache-2.0 */
#include "node_ping.h"

#define CALLS_MOST 16u

/* Write what is filled in, less what does not fit. Returns its bytes, 0: they are too many. */
static uint32_t write_self(struct uw_node_state *s, uint32_t mtu)
{
    bool frames = s->config.link->frames;
    uwasa_Ping *p = &s->message->ping;
    for (;;) {
        int bytes = uw_message_write(frames, s->message->type, &uw_form_ping, p, s->buffer,
                                     mtu);
        if (bytes > 0) {
            return (uint32_t)bytes;
        }
        if (!frames || p->left_out >= UW_NODE_LEFT_OUT_MOST) {
            return 0;
        }
        s->config.parts->frames->leave_out(p);
    }
}

/* Add records of the n that were gathered while there is room. Returns how many. */
static uint32_t add_others(struct uw_node_state *s, uint32_t n, uint32_t *bytes, uint32_t mtu)
{
    for (uint32_t i = 0; i < n; i++) {
        uwasa_Peer peer;
        uw_membership_gathered(&s->membership, i, &peer);
        int more = uw_message_add_peer(s->config.link->frames, &peer, s->buffer, *bytes, mtu);
        if (more < 0) {
            return i;
        }
        *bytes = (uint32_t)more;
    }
    return n;
}

void uw_node_fill_ping(struct uw_node_state *s, enum uw_wire_type type, uint32_t seq)
{
    uwasa_Ping *p = &s->message->ping;
    s->message->type = type;
    *p = (uwasa_Ping){.run = s->run, .model = s->model, .seq = seq, .has_self = true,
                      .has_progress = true};
    uw_membership_self(&s->membership, &p->self);
    uw_node_fill_progress(s, &p->progress);
    p->has_averaging = uw_node_fill_averaging(s, &p->averaging);
}

void uw_node_ping(struct uw_node_state *s, uint16_t station, enum uw_wire_type type, uint32_t seq,
                  uint32_t others)
{
    uw_node_fill_ping(s, type, seq);
    bool beacon = station == UW_LINK_STATION_BROADCAST;     /* who hears it hears the others */
    uint32_t n = beacon ? 0 : uw_membership_gather(&s->membership, others), told = 0, bytes;
    int rc;
    do {
        uint32_t mtu = s->config.link->frames ? s->config.parts->frames->mtu_to(s, station)
                                              : uw_node_mtu(s);
        bytes = write_self(s, mtu);
        told = bytes != 0 ? add_others(s, n, &bytes, mtu) : 0;
        rc = bytes != 0 ? uw_node_send_buffer(s, station, bytes) : UW_ERR_TOOBIG;
    } while (rc == UW_ERR_TOOBIG && uw_node_mtu(s) < bytes);    /* it has become narrower */
    if (rc == UW_OK) {              /* also when it waits for the link */
        s->counters.membership_bytes += bytes;
        uw_membership_sent(&s->membership, bytes, told);
    }
}

void uw_node_call_members(struct uw_node_state *s)
{
    /* That there is a first version to pull is news that others wait for. */
    uint32_t version =
        (uint32_t)atomic_load_explicit(&s->gossip.version, memory_order_relaxed);
    if (s->shown_version == 0 && version != 0) {
        s->shown_version = version;
        uw_membership_hurry(&s->membership, s->outer_us);
    }
    for (uint32_t i = 0; i < CALLS_MOST; i++) {
        uint16_t station = UW_LINK_STATION_NONE;
        uint32_t seq = 0;
        int type = uw_membership_next(&s->membership, s->outer_us, &station, &seq);
        if (type == 0) {
            return;
        }
        uw_node_ping(s, station, (enum uw_wire_type)type, seq, UW_NODE_OTHERS);
    }
}
