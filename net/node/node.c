/* SPDX-License-Identifier: Apache-2.0 */
#include "node_pull.h"

#include "base/bits.h"

#include <string.h>

#define RECEIVE_MOST 256u           /* messages received per step */
#define SERVE_MOST 64u              /* chunks sent per step */

/* A caller's clock that goes back, by a wrap or by being set, counts as standing still: silences
 * and deadlines are differences of times. */
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

/* Poll often during a pull, for its timeouts; otherwise for requests of training. */
static uint64_t poll_us(const struct uw_node_state *s)
{
    bool busy = s->pull.first.transfer.active || s->pull.pending != 0 || s->averages != NULL ||
                s->samples != NULL;
    return busy && s->config.poll_us > UW_NODE_POLL_US ? UW_NODE_POLL_US : s->config.poll_us;
}

void uw_node_slept(struct uw_node_state *s, uint64_t slept_us)
{
    s->slept_us += slept_us;
    s->now_us -= slept_us;
    uw_pull_paused(&s->pull.first.transfer, 0);
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
    s->blocked = !uw_node_sent_late(s);
    if (!s->left) {
        if (s->config.keys != NULL) {
            s->config.parts->revokes->step(s);
        }
        s->members->step(s);
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
        outer_us = uw_min_u64(outer_us, s->members->next_us(&s->membership));
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
    if (p->period_steps != 0) {
        uw_gossip_set_period(&s->gossip, p->period_steps);
    }
    return uw_image_end(&s->gossip.image, rc);
}

void uw_node_tell(struct uw_node *n, const struct uw_node_progress *p)
{
    if (n->state != NULL) {
        uw_gossip_report(&n->state->gossip, p);
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

static void send_goodbye(struct uw_node_state *s, uint16_t station)
{
    s->message->goodbye = (uwasa_Goodbye){.run = s->run, .has_self = true};
    uw_membership_record(&s->membership, &s->membership.members[0],
                         &s->message->goodbye.self);
    s->message->goodbye.self.state = uwasa_State_LEFT;
    (void)uw_node_send(s, station, UW_WIRE_GOODBYE, &uw_form_goodbye, s->message);
}

void uw_node_leave(struct uw_node *n, uint64_t caller_us)
{
    struct uw_node_state *s = n->state;
    if (s == NULL || s->left) {
        return;
    }
    set_clock(s, caller_us);
    s->left = true;
    uw_pull_stop(&s->pull.first.transfer);
    if (s->further != NULL) {
        s->config.parts->lanes->stop(s);
    }
    if (s->samples != NULL) {
        s->config.parts->samples->stop(s);
    }
    if (s->config.link->shared) {       /* one broadcast, because of the link's short queue */
        send_goodbye(s, UW_LINK_STATION_BROADCAST);
        return;
    }
    for (uint32_t i = 1; i < s->membership.members_n; i++) {
        const struct uw_member *m = &s->membership.members[i];
        if (uw_member_is_live(m)) {
            send_goodbye(s, m->station);
        }
    }
}
