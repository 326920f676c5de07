/* SPDX-License-Identifier: Apache-2.0
 *
 * What a node does otherwise on links of frames: short messages, pings without what does not fit,
 * beacons. */
#include "node_limits.h"
#include "node_ping.h"

#include <string.h>

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

static void leave_out(uwasa_Ping *ping)
{
    static const struct known nothing;
    take_over(ping, &nothing, ++ping->left_out);
}

static void fill_in(struct uw_node_state *s, uint16_t station, uwasa_Ping *ping)
{
    const struct uw_member *m = uw_membership_at(&s->membership, station);
    struct known known = {.model = s->model};
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

const struct uw_node_frames uw_node_frames = {
    .leave_out = leave_out,
    .fill_in = fill_in,
    .write_data = uw_message_encode_short_data,
    .read_data = uw_message_read_short_data,
    .wants = uw_message_short_wants,
    .write_wants = uw_message_write_short_wants,
    .read_wants = uw_message_read_short_wants,
    .set_limits = uw_node_set_limits,
    .follow_rate = uw_node_follow_rate,
    .beacons = &uw_beacons,
};
