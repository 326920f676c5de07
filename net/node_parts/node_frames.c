/* SPDX-License-Identifier: Apache-2.0
 *
 * Links of frames: short messages, pings without fields that do not fit, beacons, a random delay of
 * the first pull. */
#include "node/node_pull.h"

#include "base/bits.h"

#include <string.h>

#define TURN_PART 4u                /* random delay on a shared link, a fraction of a pull, ... */
#define TURN_MOST_US 600000000u     /* ... limited to this ... */
#define TURN_ENOUGH 3u              /* ... unless so many peers, and all live ones, are usable */

#define MESSAGE_BYTES 128u
#define PING_MESSAGES 8u            /* messages that a slow link carries meanwhile, at least */
#define SILENCE_MESSAGES 64u
#define PULL_MODELS 16u

/* The fields that a ping may omit, the least important first. */
#define THING(what, member) \
    {what, offsetof(uwasa_Ping, member), sizeof((uwasa_Ping *)0)->member}
static const struct {
    uint8_t what, at, bytes;
} things[] = {THING(1, progress.pulled_bytes),      THING(2, progress.power_mw),
              THING(2, progress.temperature_mc),    THING(3, progress.samples_per_s),
              THING(4, progress.accuracy),          THING(5, progress.loss),
              THING(6, progress.rounds),            THING(7, self.pace_ms),
              THING(8, progress.battery_percent),   THING(9, model),
              THING(10, progress.step),             THING(11, progress.hears)};

/* from NULL: it is left out. */
static void set_thing(uwasa_Ping *to, const uwasa_Ping *from, uint32_t what)
{
    for (size_t i = 0; i < sizeof things / sizeof things[0]; i++) {
        uint8_t *p = (uint8_t *)to + things[i].at;
        if (things[i].what == what && from != NULL) {
            memcpy(p, (const uint8_t *)from + things[i].at, things[i].bytes);
        } else if (things[i].what == what) {
            memset(p, 0, things[i].bytes);
        }
    }
}

static void leave_out(uwasa_Ping *ping)
{
    set_thing(ping, NULL, ++ping->left_out);
}

/* Omitted fields keep their last reported values. A new node's model is assumed to equal this
 * node's; its wants name it. */
static void fill_in(struct uw_node_state *s, uint16_t station, uwasa_Ping *ping)
{
    const struct uw_member *m = uw_membership_at(&s->membership, station);
    uwasa_Ping known = {.model = s->model};
    if (m != NULL && strcmp(m->name, ping->self.name) == 0 &&
        m->incarnation == ping->self.incarnation) {
        known.progress = m->progress;
        known.self.pace_ms = m->pace_us / 1000u;
        known.model = m->same_model ? s->model : ~s->model;
    }
    for (uint32_t i = 1; i <= ping->left_out && i <= UW_NODE_LEFT_OUT_MOST; i++) {
        set_thing(ping, &known, i);
    }
}

/* Largest message for a station, or for all: this link's mtu, unless it has reported less. */
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

/* Nodes that begin at once would all pull from the first peer with a model: on a shared link each
 * waits a random time before its first pull, until more peers are usable. */
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

/* ---- timeouts by the link's rate, which changes when a radio adapts its data rate or duty cycle
 * ---- */

/* Bits of struct uw_node_limits.open. */
enum { PING = 1, SUSPECT = 2, DEAD = 4, PULL = UW_NODE_PULL_OPEN, PULL_SILENCE = 16 };

static void set_us(struct uw_node_state *s, uint32_t which, uint64_t *us, uint64_t least_us,
                   uint64_t slow_us)
{
    s->limits.open |= *us == 0 ? which : 0;
    if ((s->limits.open & which) != 0) {
        *us = least_us > slow_us ? least_us : slow_us;
    }
}

static void set_limits(struct uw_node_state *s)
{
    struct uw_node_config *c = &s->config;
    uint64_t rate = c->link->rate_bits_per_s;
    uint64_t message_us = uw_node_rate_us(rate, MESSAGE_BYTES);
    uint64_t model_us = uw_node_rate_us(rate, c->params->size_n * sizeof(float));
    s->limits.rate_bits_per_s = rate;
    set_us(s, PING, &c->ping_us, UW_NODE_PING_US, PING_MESSAGES * message_us);
    set_us(s, SUSPECT, &c->suspect_us, 0, 0);
    set_us(s, DEAD, &c->dead_us, 0, 0);
    uw_node_default_silences(c);
    set_us(s, PULL, &c->pull_us, UW_NODE_PULL_US, PULL_MODELS * model_us);
    set_us(s, PULL_SILENCE, &c->pull_silence_us, UW_NODE_PULL_SILENCE_US,
           SILENCE_MESSAGES * message_us);
}

/* Small changes, as of frames that carry a byte less, are tolerated. */
static bool is_another(uint64_t rate, uint64_t before)
{
    return 4u * rate < 3u * before || 3u * rate > 4u * before;
}

static void follow_rate(struct uw_node_state *s)
{
    const struct uw_node_config *c = &s->config;
    struct uw_membership_config *m = &s->membership.config;
    uint64_t rate = c->link->rate_bits_per_s, before = s->limits.rate_bits_per_s;
    if (!is_another(rate, before)) {
        return;
    }
    set_limits(s);
    s->serve.stale_us += uw_node_serve_us(c, rate) - uw_node_serve_us(c, before);
    s->pull.took.took_n = 0;        /* durations of the old rate */
    for (uint32_t i = 1; i < s->membership.members_n; i++) {
        s->peers[i].floats_per_us = 0.0f;
    }
    m->ping_us = c->ping_us;
    m->suspect_us = c->suspect_us;
    m->dead_us = c->dead_us;
    m->rate_mbytes_per_s = uw_node_membership_rate(c);
    if (s->membership.heap != NULL) {       /* not a static list */
        uw_membership_follow(&s->membership, s->outer_us);
    }
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
    .set_limits = set_limits,
    .follow_rate = follow_rate,
    .beacons = &uw_beacons,
};
