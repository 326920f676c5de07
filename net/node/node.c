/* SPDX-License-Identifier: Apache-2.0 */
#include "node_lanes.h"
#include "node_ping.h"

#include "base/bits.h"

#include <string.h>

#define RECEIVE_MOST 256u           /* messages taken per step */
#define SERVE_MOST 64u              /* chunks sent per step */
#define LATE_LEAST_US 250000u
#define LATE_MESSAGES 16u           /* that may go out before one that is late */

int uw_node_send(struct uw_node_state *s, uint16_t station)
{
    const struct uw_node_message *m = s->message;
    return uw_node_send_body(s, station, m->type, uw_message_form_of(m->type), &m->ping);
}

int uw_node_send_body(struct uw_node_state *s, uint16_t station, enum uw_wire_type type,
                      const struct uw_message_form *form, const void *body)
{
    int bytes = uw_message_write(s->config.link->frames, type, form, body, s->buffer,
                                 s->buffer_bytes);
    return bytes < 0 ? bytes : uw_node_send_buffer(s, station, (uint32_t)bytes);
}

static int send_bytes(struct uw_node_state *s, uint16_t station, const uint8_t *buf,
                      uint32_t bytes)
{
    int rc = uw_link_send(s->config.link, station, buf, bytes);
    if (rc == UW_OK) {
        s->counters.sent_bytes += bytes;
    }
    return rc;
}

/* Is there no message that waits for the link? One to a station that the link does not reach would
 * keep all others: it is lost after a while. */
static bool sent_late(struct uw_node_state *s)
{
    if (s->late_bytes != 0 &&
        (send_bytes(s, s->late_station, s->late, s->late_bytes) != UW_ERR_AGAIN ||
         s->now_us >= s->late_until_us)) {
        s->late_bytes = 0;
    }
    return s->late_bytes == 0;
}

/* As long as a busy link takes to come to it. */
static uint64_t late_us(const struct uw_link *l)
{
    uint64_t bits = (uint64_t)LATE_MESSAGES * l->mtu_bytes * 8u;
    return LATE_LEAST_US + (l->rate_bits_per_s != 0 ? bits * 1000000u / l->rate_bits_per_s : 0);
}

/* Who is not there is not worth keeping all others' messages for. */
static bool is_there(struct uw_node_state *s, uint16_t station)
{
    const struct uw_member *m = uw_membership_at(&s->membership, station);
    return station == UW_LINK_STATION_BROADCAST
               ? uw_membership_alive(&s->membership) != 0
               : m != NULL && (m->state == UW_MEMBER_ALIVE || m->state == UW_MEMBER_SUSPECT);
}

/* A radio that is busy takes a question a moment later; to lose it would cost a timeout. */
int uw_node_send_buffer(struct uw_node_state *s, uint16_t station, uint32_t bytes)
{
    if (!sent_late(s)) {
        return UW_ERR_AGAIN;
    }
    int rc = send_bytes(s, station, s->buffer, bytes);
    if (rc == UW_ERR_AGAIN && s->late != NULL && is_there(s, station)) {
        memcpy(s->late, s->buffer, bytes);
        s->late_bytes = bytes;
        s->late_station = station;
        s->late_until_us = s->now_us + late_us(s->config.link);
        return UW_OK;
    }
    return rc;
}

/* A caller's clock that goes back, by a wrap or by being set, stands still for us instead: every
 * silence and deadline is a difference of two times. */
static void set_clock(struct uw_node_state *s, uint64_t caller_us)
{
    uint64_t outer_us = caller_us + s->clock_us;
    if (outer_us < s->outer_us) {
        s->clock_us += s->outer_us - outer_us;
        outer_us = s->outer_us;
    }
    s->outer_us = outer_us;
    s->now_us = outer_us - s->slept_us;
}

/* While something is under way, its deadlines are looked at often; else training may ask. */
static uint64_t poll_us(const struct uw_node_state *s)
{
    bool busy = s->pull.transfer.active || s->pull.pending != 0 || s->averages != NULL ||
                s->samples != NULL;
    return busy && s->config.poll_us > UW_NODE_POLL_US ? UW_NODE_POLL_US : s->config.poll_us;
}

void uw_node_slept(struct uw_node_state *s, uint64_t slept_us)
{
    s->slept_us += slept_us;
    s->now_us -= slept_us;
    uw_pull_paused(&s->pull.transfer, 0);
    for (uint32_t i = 0; s->further != NULL && i < s->further->n; i++) {
        uw_pull_paused(&s->further->lane[i].transfer, 0);
    }
}

uint64_t uw_node_step(struct uw_node *n, uint64_t caller_us)
{
    struct uw_node_state *s = n->state;
    if (s == NULL) {
        return UINT64_MAX;
    }
    set_clock(s, caller_us);
    if (!s->started) {
        s->started = true;
        s->first_us = s->now_us;
    }
    s->awake_until_us = UINT64_MAX;
    if (s->sleeper != NULL && s->config.parts->sleeps->step(s, &s->awake_until_us)) {
        s->promised_us = s->awake_until_us;
        return s->promised_us - s->clock_us;
    }
    (void)uw_link_step(s->config.link, s->outer_us);
    if (s->config.link->frames) {
        s->config.parts->frames->follow_rate(s);
    }
    uint64_t slept_us = uw_membership_wake(&s->membership, s->promised_us, s->outer_us);
    if (slept_us != 0) {
        uw_node_slept(s, slept_us);
    }
    uint64_t now_us = s->now_us, next_us = UINT64_MAX, outer_us = s->awake_until_us;
    if (uw_node_receive(s, RECEIVE_MOST) == RECEIVE_MOST) {
        next_us = now_us;
    }
    s->blocked = !sent_late(s);
    if (!s->left) {
        uw_node_call_members(s);
        uw_node_pull_step(s);
        if (s->averages != NULL) {
            next_us = uw_min_u64(next_us, s->averages->step(s));
        }
        if (s->cast != NULL) {
            next_us = uw_min_u64(next_us, s->config.parts->casts->step(s));
        }
        if (s->samples != NULL) {
            outer_us = uw_min_u64(outer_us, s->config.parts->samples->step(s));
        }
        outer_us = uw_min_u64(outer_us, uw_membership_next_us(&s->membership));
        next_us = uw_min_u64(next_us, uw_node_pull_next_us(s));
    }
    uw_node_serve_step(s, SERVE_MOST);
    uint64_t serve_us = uw_serve_next_us(&s->serve);
    uint64_t retry_us = now_us + uw_node_retry_us(s);
    if (s->blocked && (s->late_bytes != 0 || serve_us < retry_us)) {
        serve_us = retry_us;
    }
    next_us = uw_min_u64(next_us, serve_us);
    next_us = uw_min_u64(next_us, now_us + poll_us(s)) + s->slept_us;
    outer_us = uw_min_u64(outer_us, uw_link_step(s->config.link, s->outer_us));
    next_us = uw_min_u64(next_us, outer_us);
    s->promised_us = next_us > s->outer_us ? next_us : s->outer_us;
    return s->promised_us - s->clock_us;
}

int uw_node_after_step(struct uw_node *n, const struct uw_node_progress *p)
{
    struct uw_node_state *s = n->state;
    if (s == NULL) {
        return UW_ERR_INVALID;
    }
    int rc = s->averages != NULL ? s->averages->after_step(s, p)
                                 : uw_gossip_after_step(&s->gossip, p);
    return uw_image_end(&s->gossip.image, rc);
}

void uw_node_tell(struct uw_node *n, const struct uw_node_progress *p)
{
    if (n->state != NULL) {
        uw_gossip_tell(&n->state->gossip, p);
    }
}

bool uw_node_touches(const struct uw_node *n)
{
    const struct uw_node_state *s = n->state;
    if (s == NULL) {
        return true;
    }
    return s->averages != NULL ? s->averages->touches(s) : uw_gossip_touches(&s->gossip);
}

bool uw_node_asks(const struct uw_node *n)
{
    return n->state != NULL && uw_gossip_asks(&n->state->gossip);
}

static void say_goodbye(struct uw_node_state *s, uint16_t station)
{
    s->message->type = UW_WIRE_GOODBYE;
    s->message->goodbye = (uwasa_Goodbye){.run = s->run, .has_self = true};
    uw_membership_self(&s->membership, &s->message->goodbye.self);
    s->message->goodbye.self.state = uwasa_State_LEFT;
    (void)uw_node_send(s, station);
}

void uw_node_leave(struct uw_node *n, uint64_t caller_us)
{
    struct uw_node_state *s = n->state;
    if (s == NULL || s->left) {
        return;
    }
    set_clock(s, caller_us);
    s->left = true;
    uw_pull_stop(&s->pull.transfer);
    if (s->further != NULL) {
        s->config.parts->lanes->stop(s);
    }
    if (s->samples != NULL) {
        s->config.parts->samples->stop(s);
    }
    if (s->config.link->shared) {       /* whose queue does not hold one for each */
        say_goodbye(s, UW_LINK_STATION_BROADCAST);
        return;
    }
    for (uint32_t i = 1; i < s->membership.members_n; i++) {
        const struct uw_member *m = &s->membership.members[i];
        if (m->state == UW_MEMBER_ALIVE || m->state == UW_MEMBER_SUSPECT) {
            say_goodbye(s, m->station);
        }
    }
}
