/* SPDX-License-Identifier: Apache-2.0
 *
 * What a node does otherwise on links of frames: short messages, pings without what does not fit,
 * beacons, a first pull that waits for its turn. */
#include "node/node_limits.h"
#include "node/node_swim.h"

#include "base/bits.h"

#include <string.h>

#define TURN_PART 4u                /* of a pull on a shared link is waited, at random, ... */
#define TURN_MOST_US 600000000u     /* ... before the first one, and never longer, ... */
#define TURN_ENOUGH 3u              /* ... unless so many, and all who are there, can be asked */

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
    case 10:
        to->progress.step = from->progress.step;
        return;
    default:
        to->progress.hears = from->progress.hears;
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

/* What a station hears, or all do: as much as this device sends, unless it said less. */
static uint32_t mtu_to(const struct uw_node_state *s, uint16_t station)
{
    uint32_t mtu = uw_node_mtu(s);
    for (uint32_t i = 1; i < s->membership.members_n; i++) {
        const struct uw_member *m = &s->membership.members[i];
        bool meant = station == UW_LINK_STATION_BROADCAST || station == m->station;
        if (meant && m->progress.hears >= UW_NODE_HEARS_MIN && m->progress.hears < mtu) {
            mtu = m->progress.hears;
        }
    }
    return mtu;
}

/* All who begin at once know the first who shows something, and nobody else: on a link that they
 * share each waits a little before its first pull, until more can be asked. */
static bool waits_turn(struct uw_node_state *s, uint32_t usable_n)
{
    const struct uw_link *l = s->config.link;
    uint32_t others_n = uw_membership_alive(&s->membership);
    bool all = (usable_n >= TURN_ENOUGH || others_n == 1u) && usable_n >= others_n;
    if (s->pull.round != 0 || s->cast != NULL || !l->shared || l->rate_bits_per_s == 0 || all) {
        return false;
    }
    if (s->pull.turn_us == 0) {
        uint64_t us = s->config.params->size_n * UINT64_C(32000000) / l->rate_bits_per_s;
        uint32_t most_us = (uint32_t)uw_min_u64(us / TURN_PART, TURN_MOST_US);
        s->pull.turn_us = s->now_us + uw_rng_below(&s->rng, most_us + 1u);
    }
    return s->now_us < s->pull.turn_us;
}

const struct uw_node_frames uw_node_frames = {
    .leave_out = leave_out,
    .fill_in = fill_in,
    .mtu_to = mtu_to,
    .waits_turn = waits_turn,
    .write_data = uw_message_encode_short_data,
    .read_data = uw_message_read_short_data,
    .wants = uw_message_short_wants,
    .write_wants = uw_message_write_short_wants,
    .read_wants = uw_message_read_short_wants,
    .set_limits = uw_node_set_limits,
    .follow_rate = uw_node_follow_rate,
    .beacons = &uw_beacons,
};
