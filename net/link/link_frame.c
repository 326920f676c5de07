/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/link_frame.h"

#include "base/bits.h"
#include "base/number.h"

#include <string.h>

#define PPM 1000000u
#define BURST_PARTS 16u

static struct uw_link_frame *self(struct uw_link *l)
{
    return (struct uw_link_frame *)l; /* link is the first member */
}

/* ---- duty cycle ---- */

static bool is_limited(const struct uw_link_frame *l)
{
    return l->radio->duty_ppm != 0 && l->radio->duty_ppm < PPM;
}

/* Limit of the bucket's size and of a frame's air time. */
static uint64_t most_us(const struct uw_link_frame *l)
{
    return l->radio->duty_ppm * l->window_us / PPM / 2u;
}

static uint64_t capacity_us(const struct uw_link_frame *l)
{
    uint64_t us = l->burst_us != 0 ? l->burst_us : 2u * most_us(l) / BURST_PARTS;
    return uw_min_u64(uw_max_u64(us, l->longest_us), most_us(l));
}

/* Tokens per microsecond. A window that begins with a full bucket gets the duty cycle's share:
 * capacity + window * income = window * duty. */
static uint64_t income(const struct uw_link_frame *l)
{
    uint64_t saved = (capacity_us(l) * PPM + l->window_us - 1u) / l->window_us;
    return l->radio->duty_ppm > saved ? l->radio->duty_ppm - saved : 1u;
}

static void refill(struct uw_link_frame *l, uint64_t now_us)
{
    uint64_t us = l->stepped && now_us > l->now_us ? now_us - l->now_us : 0;
    l->now_us = uw_max_u64(now_us, l->now_us);
    l->stepped = true;
    if (is_limited(l)) {
        uint64_t most = capacity_us(l) * PPM;
        l->tokens = uw_min_u64(l->tokens + uw_min_u64(us, l->window_us) * income(l), most);
    }
}

/* Check the budget for a frame's air time. Returns UW_OK, UW_ERR_AGAIN, UW_ERR_TOOBIG. */
static int check_budget(struct uw_link_frame *l, uint64_t us)
{
    if (!is_limited(l)) {
        return UW_OK;
    }
    if (us > most_us(l)) {
        return UW_ERR_TOOBIG;
    }
    l->longest_us = uw_max_u64(us, l->longest_us);
    if (l->tokens >= us * PPM) {
        return UW_OK;
    }
    l->waits_n += l->wanted_us == 0;
    l->wanted_us = l->wanted_us == 0 || us < l->wanted_us ? us : l->wanted_us;
    return UW_ERR_AGAIN;
}

/* When there is budget for the smallest frame refused. */
static uint64_t budget_at_us(struct uw_link_frame *l)
{
    uint64_t wanted = l->wanted_us * PPM;
    if (wanted == 0 || !is_limited(l) || l->tokens >= wanted) {
        l->wanted_us = 0;
        return UINT64_MAX;
    }
    uint64_t in = income(l);
    return l->now_us + (wanted - l->tokens + in - 1u) / in;
}

/* ---- addresses: every number is a station ---- */

static bool exists(uint16_t station)
{
    return station <= UW_RADIO_ADDRESS_MAX;
}

int uw_link_frame_address(const char *text, uint16_t *address)
{
    uint32_t number;
    if (!uw_read_number(text, text + strlen(text), UW_RADIO_ADDRESS_MAX, &number)) {
        return UW_ERR_INVALID;
    }
    *address = (uint16_t)number;
    return UW_OK;
}

static int frame_resolve(struct uw_link *link, const char *address, uint16_t *station)
{
    (void)link;
    return uw_link_frame_address(address, station);
}

static int frame_describe(struct uw_link *link, uint16_t station, char text[UW_LINK_ADDRESS_BYTES])
{
    (void)link;
    if (!exists(station)) {
        return UW_ERR_NOTFOUND;
    }
    uw_write_number(station, text);
    return UW_OK;
}

static bool frame_hold(struct uw_link *link, uint16_t station, bool hold)
{
    (void)link;
    (void)hold;
    return exists(station);
}

/* ---- messages ---- */

static void follow_radio(struct uw_link_frame *l)
{
    uint32_t bytes = l->radio->frame_bytes;
    l->link.mtu_bytes = bytes < UW_RADIO_FRAME_MAX ? bytes : UW_RADIO_FRAME_MAX;
    l->link.fd = l->radio->fd;
}

static int frame_send(struct uw_link *link, uint16_t to, const void *buf, uint32_t buf_bytes)
{
    struct uw_link_frame *l = self(link);
    bool all = to == UW_LINK_STATION_BROADCAST;
    follow_radio(l);
    if (buf_bytes > link->mtu_bytes) {
        return UW_ERR_TOOBIG;
    }
    if (all && !l->radio->broadcasts) {
        return UW_ERR_UNSUPPORTED;
    }
    if (!all && (!exists(to) || to == l->radio->address)) {
        return UW_ERR_NOTFOUND;
    }
    uint64_t us = l->radio->ops->airtime_us(l->radio, buf_bytes);
    int rc = check_budget(l, us);
    rc = rc < 0 ? rc : l->radio->ops->send(l->radio, all ? UW_RADIO_ALL : to, buf, buf_bytes);
    if (rc == UW_OK) {
        l->used_us += us;
        l->tokens -= is_limited(l) ? us * PPM : 0;
        link->stats.sent_n++;
        link->stats.sent_bytes += buf_bytes;
    }
    return rc;
}

static int frame_recv(struct uw_link *link, uint16_t *from, void *buf, uint32_t cap_bytes)
{
    struct uw_link_frame *l = self(link);
    int rc = l->radio->ops->recv(l->radio, from, buf, cap_bytes);
    follow_radio(l);
    link->stats.dropped_n += rc == UW_ERR_TOOBIG;
    link->stats.received_n += rc >= 0;
    link->stats.received_bytes += rc > 0 ? (uint64_t)rc : 0;
    return rc;
}

/* The rate of full frames: that of the medium, or of the duty cycle if lower. */
static uint64_t rate_of(const struct uw_link_frame *l)
{
    uint64_t us = l->radio->ops->airtime_us(l->radio, l->link.mtu_bytes);
    if (us == 0) {
        return 0;
    }
    uint64_t each_us = us + l->radio->access_us;
    if (is_limited(l)) {
        each_us = uw_max_u64(each_us, us * PPM / l->radio->duty_ppm);
    }
    uint64_t rate = l->link.mtu_bytes * UINT64_C(8000000) / each_us;
    return rate != 0 ? rate : 1u;
}

static void update_rate(struct uw_link_frame *l)
{
    l->link.rate_bits_per_s = rate_of(l);
    l->link.duty_ppm = is_limited(l) ? l->radio->duty_ppm : 0;
}

static uint64_t frame_step(struct uw_link *link, uint64_t now_us)
{
    struct uw_link_frame *l = self(link);
    struct uw_radio *radio = l->radio;
    refill(l, now_us);
    uint64_t next_us = radio->ops->step != NULL ? radio->ops->step(radio, now_us) : UINT64_MAX;
    uint64_t budget_us = budget_at_us(l);
    follow_radio(l);
    update_rate(l);
    return uw_min_u64(next_us, budget_us);
}

static void frame_deinit(struct uw_link *link)
{
    link->ops = NULL;
}

static const struct uw_link_ops frame_ops = {
    .name = "frame",
    .resolve = frame_resolve,
    .describe = frame_describe,
    .hold = frame_hold,
    .send = frame_send,
    .recv = frame_recv,
    .step = frame_step,
    .deinit = frame_deinit,
};

int uw_link_frame_init(struct uw_link_frame *l, const struct uw_link_frame_config *config)
{
    memset(l, 0, sizeof *l);
    l->link.fd = -1;
    struct uw_radio *radio = config->radio;
    if (radio == NULL || radio->ops == NULL || radio->frame_bytes < UW_RADIO_FRAME_MIN ||
        radio->frame_bytes > UW_RADIO_FRAME_MAX || !exists(radio->address) ||
        config->window_us > UW_LINK_FRAME_WINDOW_MAX_US) {
        return UW_ERR_INVALID;
    }
    l->radio = radio;
    l->window_us = config->window_us != 0 ? config->window_us : UW_LINK_FRAME_WINDOW_US;
    l->burst_us = config->burst_us;
    l->link.shared = radio->broadcasts;
    l->link.numbered = true;
    l->link.own = radio->address;
    l->link.burst_n = radio->burst_n;
    follow_radio(l);
    update_rate(l);
    l->link.ops = &frame_ops;
    return UW_OK;
}

void uw_link_frame_air(const struct uw_link_frame *l, struct uw_link_frame_air *air)
{
    *air = (struct uw_link_frame_air){.used_us = l->used_us,
                                      .left_us = is_limited(l) ? l->tokens / PPM : UINT64_MAX,
                                      .waits_n = l->waits_n};
}
