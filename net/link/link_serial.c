/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/link_serial.h"

#include <string.h>

#define QUEUE_DEFAULT 2u
#define QUEUE_MAX 64u
#define DATA_BITS 8u

static struct uw_link_serial *self(struct uw_link *l)
{
    return (struct uw_link_serial *)l; /* link is the first member */
}

static uint32_t mtu_of(const struct uw_link_serial_config *c)
{
    return c->mtu_bytes != 0 ? c->mtu_bytes : UW_LINK_SERIAL_MTU_DEFAULT;
}

static uint32_t queue_of(const struct uw_link_serial_config *c)
{
    return c->queue_n != 0 ? c->queue_n : QUEUE_DEFAULT;
}

/* ---- addresses: one other end ---- */

static int serial_resolve(struct uw_link *link, const char *address, uint16_t *station)
{
    (void)link;
    if (strcmp(address, "peer") != 0) {
        return UW_ERR_INVALID;
    }
    *station = 0;
    return UW_OK;
}

static int serial_describe(struct uw_link *link, uint16_t station, char text[UW_LINK_ADDRESS_BYTES])
{
    (void)link;
    if (station != 0) {
        return UW_ERR_NOTFOUND;
    }
    memcpy(text, "peer", sizeof "peer");
    return UW_OK;
}

static bool serial_hold(struct uw_link *link, uint16_t station, bool hold)
{
    (void)link;
    (void)hold;
    return station == 0;
}

/* ---- messages ---- */

static int serial_send_parts(struct uw_link *link, uint16_t to, const void *head,
                             uint32_t head_bytes, const void *body, uint32_t body_bytes)
{
    struct uw_link_serial *l = self(link);
    if (to != 0 && to != UW_LINK_STATION_BROADCAST) {
        return UW_ERR_NOTFOUND;
    }
    int rc = uw_serial_frames_put(&l->frames, head, head_bytes, body, body_bytes);
    if (rc < 0) {
        return rc;
    }
    link->stats.sent_n++;
    link->stats.sent_bytes += head_bytes + body_bytes;
    (void)uw_serial_frames_drain(&l->frames);
    return UW_OK;
}

static int serial_send(struct uw_link *link, uint16_t to, const void *buf, uint32_t buf_bytes)
{
    return serial_send_parts(link, to, NULL, 0, buf, buf_bytes);
}

static int serial_recv_view(struct uw_link *link, uint16_t *from, void **view)
{
    struct uw_serial_frames *f = &self(link)->frames;
    int rc = uw_serial_frames_take(f);
    link->stats.dropped_n += f->dropped_n;
    f->dropped_n = 0;
    if (f->closed) {
        link->fd = -1; /* do not wait for it */
    }
    if (rc < 0) {
        return rc;
    }
    *from = 0;
    *view = f->frame;
    link->stats.received_n++;
    link->stats.received_bytes += (uint64_t)rc;
    return rc;
}

static uint64_t serial_step(struct uw_link *link, uint64_t now_us)
{
    struct uw_link_serial *l = self(link);
    (void)uw_serial_frames_drain(&l->frames); /* send and recv report errors */
    return uw_serial_frames_next_us(&l->frames, now_us);
}

static void serial_deinit(struct uw_link *link)
{
    link->ops = NULL;
}

static const struct uw_link_ops serial_ops = {
    .name = "serial",
    .resolve = serial_resolve,
    .describe = serial_describe,
    .hold = serial_hold,
    .send = serial_send,
    .step = serial_step,
    .deinit = serial_deinit,
    .send_parts = serial_send_parts,
    .recv_view = serial_recv_view,
};

/* ---- set-up ---- */

size_t uw_link_serial_bytes(const struct uw_link_serial_config *config)
{
    if (config == NULL || mtu_of(config) < UW_LINK_SERIAL_MTU_MIN ||
        mtu_of(config) > UW_LINK_SERIAL_MTU_MAX || config->queue_n > QUEUE_MAX) {
        return SIZE_MAX;
    }
    return uw_serial_frames_bytes(mtu_of(config), queue_of(config));
}

int uw_link_serial_init(struct uw_link_serial *l, const struct uw_link_serial_config *config)
{
    size_t need = uw_link_serial_bytes(config);
    memset(l, 0, sizeof *l);
    l->link.fd = -1;
    if (need == SIZE_MAX || config->serial == NULL) {
        return UW_ERR_INVALID;
    }
    if (config->memory == NULL || config->memory_bytes < need) {
        return UW_ERR_NOMEM;
    }
    struct uw_serial *serial = config->serial;
    uw_serial_frames_init(&l->frames, serial, config->memory, mtu_of(config), queue_of(config),
                          UW_LINK_SERIAL_CRC_START);
    l->link.mtu_bytes = mtu_of(config);
    l->link.rate_bits_per_s = (uint64_t)serial->rate_bits_per_s / UW_SERIAL_LINE_BITS * DATA_BITS;
    l->link.burst_bytes = serial->burst_bytes;
    l->link.fd = serial->fd;
    l->link.ops = &serial_ops;
    return UW_OK;
}
