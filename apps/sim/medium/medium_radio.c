/* SPDX-License-Identifier: Apache-2.0
 *
 * A radio channel that all devices share. Each has a short queue; the first of a queue waits until
 * its duty cycle lets it send, and then for its turn. On the air it takes as long as the radio's
 * profile says, with secure frames' bytes and the access to the channel; then it arrives, or is
 * lost at each receiver by itself. */
#include "medium_radio.h"

#include "medium_message.h"

#include "uwasa/secure_frames.h"

#include <string.h>

#define QUEUE_N 3u
#define PPM 1000000u

uint32_t uw_sim_radio_mtu(const struct uw_radio_profile *p)
{
    return p->frame_bytes - UW_SECURE_FRAMES_OVERHEAD;
}

static uint64_t air_us(const struct uw_radio_profile *p, uint32_t bytes)
{
    return p->access_us + uw_radio_profile_airtime_us(p, bytes + UW_SECURE_FRAMES_OVERHEAD);
}

/* For as long as a sender's own frames take, with the pauses that its duty cycle wants. */
static uint64_t with_pause_us(const struct uw_radio_profile *p, uint64_t us)
{
    return p->duty_ppm != 0 ? us * PPM / p->duty_ppm : us;
}

void uw_sim_radio_link(struct uw_link *l, const struct uw_radio_profile *p, uint16_t own)
{
    l->mtu_bytes = uw_sim_radio_mtu(p);
    l->shared = l->frames = l->numbered = true;
    l->own = own;
    l->duty_ppm = p->duty_ppm;
    l->rate_bits_per_s =
        (uint64_t)l->mtu_bytes * 8000000u / with_pause_us(p, air_us(p, l->mtu_bytes));
}

/* Let the first of a queue send as soon as it may. */
static void line_up(struct uw_sim_net *n, struct uw_sim_link *l)
{
    uint64_t at_us = l->quiet_until_us > n->now_us ? l->quiet_until_us : n->now_us;
    if (l->out_first != NULL) {
        l->out_first->stage = UW_SIM_AT_AIR;
        uw_sim_message_push(n, l->out_first, at_us);
    }
}

static void start_next(struct uw_sim_net *n)
{
    uint32_t nodes = n->config.fleet->devices_n;
    for (uint32_t i = 1; !n->air.busy && i <= nodes; i++) {
        struct uw_sim_link *l = &n->links[(n->air.turn + i) % nodes];
        if (!l->in_line) {
            continue;
        }
        struct uw_sim_message *m = l->out_first;
        uint64_t took_us = air_us(n->config.radio, m->bytes);
        l->in_line = false;
        l->quiet_until_us = n->now_us + with_pause_us(n->config.radio, took_us);
        n->air.busy = true;
        n->air.turn = l->place;
        n->air.busy_us += took_us;
        n->air.frames_n++;
        m->stage = UW_SIM_OFF_AIR;
        uw_sim_message_push(n, m, n->now_us + took_us);
    }
}

static bool is_lost(struct uw_sim_net *n, struct uw_sim_link *to)
{
    float loss = n->config.fleet->devices[to->place].loss;
    return to->away || (loss > 0.0f && uw_rng_uniform(&to->rng) < loss);
}

/* A copy for one receiver; no memory for it: lost. */
static void deliver(struct uw_sim_net *n, const struct uw_sim_message *m, struct uw_sim_link *to)
{
    struct uw_sim_message *copy = is_lost(n, to) ? NULL : uw_sim_message_take(n, m->bytes);
    if (copy == NULL) {
        n->lost_n++;
        return;
    }
    copy->bytes = m->bytes;
    copy->from = m->from;
    copy->to = (uint16_t)to->place;
    copy->stage = UW_SIM_ARRIVED;
    memcpy(copy->payload, m->payload, m->bytes);
    uw_sim_message_push(n, copy, n->now_us);
}

static void leave_air(struct uw_sim_net *n, struct uw_sim_message *m)
{
    struct uw_sim_link *l = &n->links[m->from];
    for (uint32_t i = 0; i < n->config.fleet->devices_n; i++) {
        if (i != m->from && (m->to == UW_LINK_STATION_BROADCAST || m->to == i)) {
            deliver(n, m, &n->links[i]);
        }
    }
    l->out_first = m->next;
    l->out_n--;
    uw_sim_message_give(n, m);
    n->air.busy = false;
    line_up(n, l);
}

void uw_sim_radio_step(struct uw_sim_net *n, struct uw_sim_message *m)
{
    if (m->stage == UW_SIM_AT_AIR) {
        n->links[m->from].in_line = true;
    } else {
        leave_air(n, m);
    }
    start_next(n);
}

int uw_sim_radio_send(struct uw_link *link, uint16_t to, const void *buf, uint32_t buf_bytes)
{
    struct uw_sim_link *l = (struct uw_sim_link *)link;
    struct uw_sim_net *n = l->net;
    if (to != UW_LINK_STATION_BROADCAST && to >= n->config.fleet->devices_n) {
        return UW_ERR_NOTFOUND;
    }
    struct uw_sim_message *m = l->out_n < QUEUE_N ? uw_sim_message_take(n, buf_bytes) : NULL;
    if (m == NULL) {
        return UW_ERR_AGAIN;
    }
    *m = (struct uw_sim_message){
        .bytes = buf_bytes, .from = (uint16_t)l->place, .to = to, .pool = m->pool};
    memcpy(m->payload, buf, buf_bytes);
    link->stats.sent_n++;
    link->stats.sent_bytes += buf_bytes;
    struct uw_sim_message **end = &l->out_first;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = m;
    if (l->out_n++ == 0) {
        line_up(n, l);
    }
    return UW_OK;
}
