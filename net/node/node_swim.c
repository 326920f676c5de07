/* SPDX-License-Identifier: Apache-2.0
 *
 * Discovery: the messages of membership/membership.h. */
#include "node_addresses.h"
#include "node_pull.h"

#include <string.h>

#define CALLS_MOST 16u
#define MEMBERSHIP_DEFAULT 4096u    /* bytes a second ... */
#define LINK_PARTS 16u              /* ... and at most this fraction of a slow link */
#define LINK_PARTS_SHARED 64u       /* of a shared link, by all nodes together */
#define PACE_WIDEST_MS (1u << 20)   /* a value of the maximum size on the wire */
#define SCRATCH_BYTES 512u

/* Write s->message without fields that do not fit. Returns its bytes; 0: too many. */
static uint32_t write_self(struct uw_node_state *s, enum uw_wire_type type, uint32_t mtu)
{
    bool frames = s->config.link->frames;
    uwasa_Ping *p = &s->message->ping;
    for (;;) {
        int bytes = uw_message_write(frames, type, &uw_form_ping, p, s->buffer, mtu);
        if (bytes > 0) {
            return (uint32_t)bytes;
        }
        if (!frames || p->left_out >= UW_NODE_LEFT_OUT_MOST) {
            return 0;
        }
        s->config.parts->frames->leave_out(p);
    }
}

/* Append records of the n gathered members while they fit. Returns their number. */
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
        if (s->config.own_addresses != NULL) {
            *bytes = s->config.parts->addresses->add_of(s, &peer, *bytes, mtu);
        }
    }
    return n;
}

void uw_node_fill_ping(struct uw_node_state *s, uint32_t seq)
{
    uwasa_Ping *p = &s->message->ping;
    *p = (uwasa_Ping){.run = s->run, .model = s->model, .seq = seq, .has_self = true,
                      .has_progress = true};
    uw_membership_self(&s->membership, &p->self);
    uw_node_fill_progress(s, &p->progress);
    p->has_averaging = uw_node_fill_averaging(s, &p->averaging);
    if (s->config.keys != NULL) {
        s->config.parts->revokes->fill(s, p);
    }
}

/* Send such a message with as many rumours as fit, and up to `others` records of other members. */
static void send_ping(struct uw_node_state *s, uint16_t station, enum uw_wire_type type,
                      uint32_t seq, uint32_t others)
{
    uw_node_fill_ping(s, seq);
    bool beacon = station == UW_LINK_STATION_BROADCAST;     /* others send theirs, too */
    bool first = others > UW_NODE_OTHERS;                   /* answers a hello */
    uint32_t n = beacon ? 0 : uw_membership_gather(&s->membership, others), told = 0, bytes;
    int rc;
    do {
        uint32_t mtu = s->config.link->frames ? s->config.parts->frames->mtu_to(s, station)
                                              : uw_node_mtu(s);
        bytes = write_self(s, type, mtu);
        if (bytes != 0 && s->config.own_addresses != NULL && (type == UW_WIRE_HELLO || first)) {
            bytes = s->config.parts->addresses->add_own(s, bytes, mtu);
        }
        told = bytes != 0 ? add_others(s, n, &bytes, mtu) : 0;
        rc = bytes != 0 ? uw_node_send_buffer(s, station, bytes) : UW_ERR_TOOBIG;
    } while (rc == UW_ERR_TOOBIG && uw_node_mtu(s) < bytes);    /* frames have become smaller */
    if (rc == UW_OK) {              /* also when it waits for the link */
        s->counters.membership_bytes += bytes;
        uw_membership_sent(&s->membership, bytes, told);
    }
}

static void step(struct uw_node_state *s)
{
    /* Peers wait for the first version: report it soon. */
    uint32_t version = uw_load(&s->gossip.version);
    if (s->shown_version == 0 && version != 0) {
        s->shown_version = version;
        uw_membership_hurry(&s->membership, s->outer_us);
    }
    if (s->membership.crowded_us != 0 && !s->crowded) {
        s->crowded = true;
        uw_node_event_refused(s, UW_NODE_MEMBERS_FULL, UW_LINK_STATION_NONE,
                              &(struct uw_node_cause){.m = NULL});
    }
    for (uint32_t i = 0; i < CALLS_MOST; i++) {
        uint16_t station = UW_LINK_STATION_NONE;
        uint32_t seq = 0;
        int type = uw_membership_next(&s->membership, s->outer_us, &station, &seq);
        if (type == 0) {
            return;
        }
        send_ping(s, station, (enum uw_wire_type)type, seq, UW_NODE_OTHERS);
    }
}

/* ---- received messages ---- */

static void answer(struct uw_node_state *s, uint16_t station, enum uw_wire_type type,
                   const uwasa_Ping *ping)
{
    if (type != UW_WIRE_ACK && !s->left && ping->seq != 0) {
        /* The sender of a hello may not know any member. */
        uint32_t others = type == UW_WIRE_HELLO ? UW_GATHER_MAX : UW_NODE_OTHERS;
        send_ping(s, station, UW_WIRE_ACK, ping->seq, others);
    }
}

static void receive_rumours(struct uw_node_state *s, uint16_t station, uint32_t bytes)
{
    uwasa_Peer peer;
    uint32_t at = 0;
    while (uw_message_next_peer(s->config.link->frames, s->in, bytes, &at, &peer)) {
        uw_link_localize(s->config.link, station, peer.address);
        uw_membership_rumour(&s->membership, &peer, s->outer_us);
        if (s->config.own_addresses != NULL) {
            s->config.parts->addresses->take(s, &peer, at, bytes);
        }
    }
}

static void on_ping(struct uw_node_state *s, uint16_t station, enum uw_wire_type type,
                    uint32_t bytes)
{
    uwasa_Ping *ping = &s->message->ping;
    if (ping->left_out != 0 && s->config.parts->frames != NULL) {
        s->config.parts->frames->fill_in(s, station, ping);
    }
    struct uw_member *m = NULL;
    if (ping->run != s->run) {
        s->counters.refused_run++;
        uw_node_event_refused(s, UW_NODE_WRONG_RUN, station, &(struct uw_node_cause){.m = NULL});
        if (type != UW_WIRE_ACK) {
            uw_node_refuse(s, station, uwasa_Reason_WRONG_RUN, 0);
        }
        return;
    }
    bool otherwise = s->averages != NULL &&
                     s->averages->otherwise(uw_membership_at(&s->membership, station), ping);
    uw_link_localize(s->config.link, station, ping->self.address);
    int rc = uw_membership_update(&s->membership, station, type == UW_WIRE_HELLO, ping,
                                  s->outer_us, &m);
    if (rc == UW_ERR_DENIED) {
        const struct uw_node_cause c = {.own = strcmp(ping->self.name, s->config.name) == 0};
        uw_node_event_refused(s, UW_NODE_NAME_TAKEN, station, &c);
        if (type != UW_WIRE_ACK) {
            uw_node_refuse(s, station, uwasa_Reason_NAME_TAKEN, 0);
        }
        return;
    }
    if (rc == UW_ERR_FULL) {
        answer(s, station, type, ping);
    }
    if (rc < 0) {
        return;
    }
    if (s->sleeper != NULL) {
        s->config.parts->sleeps->heard(s, m);
    }
    if (s->config.own_addresses != NULL) {
        s->config.parts->addresses->take(s, &ping->self, 0, bytes);
    }
    if (!m->same_model) {
        s->counters.refused_model++;
        uw_node_event_refused(s, UW_NODE_WRONG_MODEL, station,
                              &(struct uw_node_cause){.m = m, .hash = ping->model});
    }
    if (otherwise) {
        s->averages->stale(s);
    }
    if (type == UW_WIRE_ACK) {
        uw_membership_acked(&s->membership, m, ping->seq, s->outer_us);
    }
    receive_rumours(s, station, bytes);
    if (s->config.keys != NULL) {
        s->config.parts->revokes->heard(s, station, ping);
    }
    answer(s, station, type, ping);
}

/* A ping that is whole and cannot be read is of another version of the protocol. Its sender and its
 * rumours may be readable: nodes of this version find each other through it. */
static void on_foreign(struct uw_node_state *s, uint16_t station, uint32_t bytes)
{
    const uwasa_Ping *ping = &s->message->ping;
    bool known = uw_form_ping.is_sound(ping) && ping->run == s->run;
    uw_node_event_refused(s, UW_NODE_WRONG_VERSION, station,
                          &(struct uw_node_cause){.name = known ? ping->self.name : NULL});
    if (known) {
        receive_rumours(s, station, bytes);
    }
}

static void message(struct uw_node_state *s, uint16_t station, enum uw_wire_type type,
                    uint32_t bytes)
{
    bool frames = s->config.link->frames, goodbye = type == UW_WIRE_GOODBYE;
    const struct uw_message_form *form = goodbye ? &uw_form_goodbye : &uw_form_ping;
    if (uw_message_read(frames, form, s->in, bytes, s->message) < 0 ||
        (!goodbye && uw_message_peers(frames, s->in, bytes) < 0)) {
        s->counters.refused_corrupt++;
        if (!goodbye) {
            on_foreign(s, station, bytes);
        }
    } else if (!goodbye) {
        on_ping(s, station, type, bytes);
    } else if (s->message->goodbye.run == s->run) {
        uw_membership_goodbye(&s->membership, station, &s->message->goodbye.self, s->outer_us);
    }
}

/* ---- set-up ---- */

static bool spares(void *arg, const struct uw_member *m)
{
    struct uw_node_state *s = arg;
    return m->state == UW_MEMBER_ALIVE && (s->averages == NULL || !s->averages->needs(s, m)) &&
           !(s->pull.first.transfer.active && uw_node_pull_of(s, m) != NULL);
}

static bool wants(void *arg, uint32_t id)
{
    const struct uw_node_state *s = arg;
    return s->averages != NULL && s->averages->wants(s, id);
}

uint64_t uw_node_membership_rate(const struct uw_node_config *c)
{
    /* A duty cycle applies to each node separately. */
    bool by_all = c->link->shared && c->link->duty_ppm == 0;
    uint32_t parts = by_all ? LINK_PARTS_SHARED : LINK_PARTS;
    uint64_t share = c->link->rate_bits_per_s * 125u / parts;       /* bits to thousandths */
    uint64_t rate = c->membership_rate != 0 ? c->membership_rate : MEMBERSHIP_DEFAULT;
    bool thin = c->membership_rate == 0 && c->link->rate_bits_per_s != 0 && share < rate * 1000u;
    rate = thin ? share : rate * 1000u;
    return rate != 0 ? rate : 1u;
}

static void fill_widest(const struct uw_node_state *s, uwasa_Ping *ping)
{
    *ping = (uwasa_Ping){
        .run = 1, .model = 1, .seq = UINT32_MAX, .has_self = true, .has_progress = true};
    ping->self = (uwasa_Peer){.incarnation = UINT32_MAX, .state = uwasa_State_ALIVE,
                              .pace_ms = PACE_WIDEST_MS};
    strcpy(ping->self.name, s->config.name);
    if (s->config.address != NULL) {
        strcpy(ping->self.address, s->config.address);
    }
    ping->progress = (uwasa_Progress){
        .step = UINT32_MAX, .rounds = UINT32_MAX, .version = UINT32_MAX,
        .loss = 1.0f, .accuracy = 1.0f, .samples_per_s = 1.0f,
        .pulled_bytes = UINT64_MAX, .newcomer = true,
        .still_s = s->config.link->frames ? 0 : UINT32_MAX,
        .battery_percent = 100, .shuffles = s->config.samples != NULL,
        .hears = s->config.link->frames ? s->buffer_bytes : 0,
        .release = s->config.link->frames ? 0 : s->config.release};
    if (s->averages != NULL) {
        ping->has_averaging = true;
        s->averages->widest(&s->config, &ping->averaging);
    }
    if (s->config.sleep.period_us != 0) {
        uint32_t period_ms = (uint32_t)(s->config.sleep.period_us / 1000u);
        ping->progress.sleep_ms = ping->progress.awake_ms = ping->progress.since_ms = period_ms;
        ping->progress.sleep_label = UINT16_MAX;
    }
    if (s->config.keys != NULL) {
        ping->revoked_count = sizeof ping->revoked / sizeof ping->revoked[0];
    }
    if (s->config.vitals) {
        ping->progress.power_mw = UW_VITALS_POWER_MAX_MW;
        ping->progress.temperature_mc = UW_VITALS_HOTTEST_MC;
    }
}

static int check(struct uw_node_state *s, struct uw_error *err)
{
    uwasa_Ping ping;
    fill_widest(s, &ping);
    while (s->config.link->frames && ping.left_out < UW_NODE_LEFT_OUT_MOST) {
        s->config.parts->frames->leave_out(&ping);
    }
    uint8_t scratch[SCRATCH_BYTES];
    int bytes = uw_message_write(s->config.link->frames, UW_WIRE_PING, &uw_form_ping, &ping,
                                 scratch, sizeof scratch);
    if (bytes < 0 || (uint32_t)bytes > s->buffer_bytes) {
        return uw_error_set(err, UW_ERR_TOOBIG,
                            "link %s carries %u bytes: with this name and address it takes %d",
                            s->config.link->ops != NULL ? s->config.link->ops->name : "?",
                            (unsigned)s->buffer_bytes, bytes);
    }
    return UW_OK;
}

const struct uw_node_members uw_node_swim = {
    .place = uw_membership_place, .next_us = uw_membership_next_us, .heard = uw_membership_heard,
    .doubt = uw_membership_doubt, .step = step, .check = check, .message = message,
    .spares = spares, .wants = wants};
