/* SPDX-License-Identifier: Apache-2.0 */
#include "node_ping.h"

#include <string.h>

#define CALLS_MOST 16u

/* Of a ping, what a narrow link may leave out. */
struct known {
    uwasa_Progress progress;
    uint64_t model;
    uint32_t pace_ms;
};

/* The most dispensable first. A receiver keeps what it was told before, and of who is new takes the
 * model to be its own: a want says which it is. */
static void take_over(uwasa_Ping *to, const struct known *from, uint32_t what)
{
    switch (what) {
    case 1:
        to->progress.pulled_bytes = from->progress.pulled_bytes;
        return;
    case 2:
        to->progress.power_mw = from->progress.power_mw;
        to->progress.temperature_mc = from->progress.temperature_mc;
        return;
    case 3:
        to->progress.samples_per_s = from->progress.samples_per_s;
        return;
    case 4:
        to->progress.accuracy = from->progress.accuracy;
        return;
    case 5:
        to->progress.loss = from->progress.loss;
        return;
    case 6:
        to->progress.rounds = from->progress.rounds;
        return;
    case 7:
        to->self.pace_ms = from->pace_ms;
        return;
    case 8:
        to->progress.battery_percent = from->progress.battery_percent;
        return;
    case 9:
        to->model = from->model;
        return;
    default:
        to->progress.step = from->progress.step;
        return;
    }
}

void uw_node_leave_out(uwasa_Ping *ping)
{
    static const struct known nothing;
    take_over(ping, &nothing, ++ping->left_out);
}

void uw_node_fill_in(struct uw_node_state *s, uint16_t station, uwasa_Ping *ping)
{
    const struct uw_member *m = uw_membership_at(&s->membership, station);
    struct known known = {.model = s->model};
    if (ping->left_out == 0) {
        return;
    }
    if (m != NULL && strcmp(m->name, ping->self.name) == 0 &&
        m->incarnation == ping->self.incarnation) {
        known.progress = m->progress;
        known.pace_ms = m->pace_us / 1000u;
        known.model = m->same_model ? s->model : ~s->model;
    }
    for (uint32_t i = 1; i <= ping->left_out && i <= UW_NODE_LEFT_OUT_MOST; i++) {
        take_over(ping, &known, i);
    }
}

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
    uwasa_Ping *p = &s->message->ping;
    int rc;
    while ((rc = uw_node_send(s, station)) == UW_ERR_TOOBIG) {
        if (p->peers_count != 0) {
            p->peers_count--;
        } else if (s->config.link->frames && p->left_out < UW_NODE_LEFT_OUT_MOST) {
            uw_node_leave_out(p);
        } else {
            break;
        }
    }
    if (rc == UW_OK) {              /* also when it waits for the link */
        s->counters.membership_bytes += s->taken_bytes;
        uw_membership_sent(&s->membership, s->taken_bytes, s->message->ping.peers_count);
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
        if (station == UW_LINK_STATION_BROADCAST) {
            s->message->ping.peers_count = 0;       /* who hears this hears them */
        }
        uw_node_send_ping(s, station);
    }
}
