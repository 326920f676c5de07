/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/radio_link.h"

#include <string.h>

static struct uw_radio_link *self(struct uw_radio *r)
{
    return (struct uw_radio_link *)r; /* base is the first member */
}

static int link_send(struct uw_radio *radio, uint16_t to, const void *frame, uint32_t frame_bytes)
{
    if (frame_bytes > radio->frame_bytes) {
        return UW_ERR_TOOBIG;
    }
    if (to == UW_RADIO_ALL && !radio->broadcasts) {
        return UW_ERR_UNSUPPORTED;
    }
    int rc = uw_link_send(self(radio)->lower, to, frame, frame_bytes);
    return rc == UW_ERR_NOTFOUND ? UW_OK : rc;  /* no station receives it */
}

static int link_recv(struct uw_radio *radio, uint16_t *from, void *frame, uint32_t cap_bytes)
{
    return uw_link_recv(self(radio)->lower, from, frame, cap_bytes);
}

static uint64_t link_airtime_us(const struct uw_radio *radio, uint32_t frame_bytes)
{
    const struct uw_radio_link *r = (const struct uw_radio_link *)radio;
    if (r->medium != NULL) {
        return uw_emulated_airtime_us(r->medium, frame_bytes) - r->medium->access_us;
    }
    uint64_t rate = r->lower->rate_bits_per_s;
    return rate != 0 ? ((uint64_t)frame_bytes * 8000000u + rate - 1u) / rate : 0;
}

static uint64_t link_step(struct uw_radio *radio, uint64_t now_us)
{
    return uw_link_step(self(radio)->lower, now_us);
}

static const struct uw_radio_ops link_ops = {.name = "link",
                                             .send = link_send,
                                             .recv = link_recv,
                                             .airtime_us = link_airtime_us,
                                             .step = link_step};

int uw_radio_link_init(struct uw_radio_link *r, const struct uw_radio_link_config *config)
{
    struct uw_link *lower = config->lower;
    memset(r, 0, sizeof *r);
    r->base.fd = -1;
    if (lower == NULL || lower->ops == NULL || !lower->numbered ||
        config->frame_bytes > lower->mtu_bytes || lower->own > UW_RADIO_ADDRESS_MAX) {
        return UW_ERR_INVALID;
    }
    r->lower = lower;
    r->medium = config->medium;
    r->base.ops = &link_ops;
    r->base.frame_bytes = config->frame_bytes != 0 ? config->frame_bytes : lower->mtu_bytes;
    r->base.duty_ppm = config->duty_ppm;
    r->base.access_us = config->medium != NULL ? (uint32_t)config->medium->access_us : 0;
    r->base.burst_n = lower->burst_n;
    r->base.address = lower->own;
    r->base.broadcasts = !config->no_broadcasts;
    r->base.fd = lower->fd;
    return UW_OK;
}
