/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/link_serial.h"

#include "crc.h"

#include <string.h>

#define CRC_BYTES 4u
#define GROUP 0xffu             /* begins 254 bytes without a zero behind them */
#define QUEUE_DEFAULT 2u
#define QUEUE_MAX 64u
#define LINE_BITS 10u           /* of a byte, with start and stop */
#define DATA_BITS 8u
#define LOOK_BYTES 64u          /* step looks again when so many have left */
#define LOOK_MIN_US 200u
#define LOOK_MAX_US 5000u
#define LOOK_US 1000u           /* where the rate is not known */

static struct uw_link_serial *self(struct uw_link *l)
{
    return (struct uw_link_serial *)l; /* link is the first member */
}

static uint32_t mtu_of(const struct uw_link_serial_config *c)
{
    return c->mtu_bytes != 0 ? c->mtu_bytes : UW_LINK_SERIAL_MTU_DEFAULT;
}

/* Most bytes that a message takes on the line, both zeros included. */
static uint32_t line_bytes(uint32_t message_bytes)
{
    uint32_t n = message_bytes + CRC_BYTES;
    return n + n / (GROUP - 1u) + 3u;
}

static uint32_t queue_of(const struct uw_link_serial_config *c)
{
    return (c->queue_n != 0 ? c->queue_n : QUEUE_DEFAULT) * line_bytes(mtu_of(c));
}

/* ---- addresses: there is one other end ---- */

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

/* ---- sending ---- */

/* Place of the byte that is queued next. */
static uint32_t queue_end(const struct uw_link_serial *l)
{
    uint32_t at = l->queue_at + l->queue_n;
    return at < l->queue_bytes ? at : at - l->queue_bytes;
}

static void queue(struct uw_link_serial *l, uint8_t byte)
{
    l->queue[queue_end(l)] = byte;
    l->queue_n++;
}

/* A group being written: where its first byte is, which tells the length. */
struct group {
    uint32_t at;
    uint8_t code;
};

static void begin_group(struct uw_link_serial *l, struct group *g)
{
    g->at = queue_end(l);
    g->code = 1;
    queue(l, 0);
}

static void encode(struct uw_link_serial *l, struct group *g, const uint8_t *p, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++) {
        if (p[i] != 0) {
            queue(l, p[i]);
            g->code++;
        }
        if (p[i] == 0 || g->code == GROUP) {
            l->queue[g->at] = g->code;
            begin_group(l, g);
        }
    }
}

/* Hand over to the stream what it takes. */
static int drain(struct uw_link_serial *l)
{
    int rc = 1;
    while (l->queue_n > 0 && !l->closed && rc > 0) {
        uint32_t to_end = l->queue_bytes - l->queue_at;
        uint32_t n = l->queue_n < to_end ? l->queue_n : to_end;
        rc = l->serial->ops->write(l->serial, l->queue + l->queue_at, n);
        if (rc > 0) {
            l->queue_at = (uint32_t)rc < to_end ? l->queue_at + (uint32_t)rc : 0;
            l->queue_n -= (uint32_t)rc;
        }
        l->closed = l->closed || rc == UW_ERR_CLOSED;
    }
    return rc < 0 ? rc : UW_OK;
}

static int serial_send_parts(struct uw_link *link, uint16_t to, const void *head,
                             uint32_t head_bytes, const void *body, uint32_t body_bytes)
{
    struct uw_link_serial *l = self(link);
    struct group g;
    uint8_t crc[CRC_BYTES];
    if (to != 0 && to != UW_LINK_STATION_BROADCAST) {
        return UW_ERR_NOTFOUND;
    }
    if (l->closed) {
        return UW_ERR_CLOSED;
    }
    if (line_bytes(head_bytes + body_bytes) > l->queue_bytes - l->queue_n) {
        int rc = drain(l);
        if (rc < 0 || line_bytes(head_bytes + body_bytes) > l->queue_bytes - l->queue_n) {
            return rc < 0 ? rc : UW_ERR_AGAIN;
        }
    }
    uint32_t sum = uw_crc32c(uw_crc32c(UW_LINK_SERIAL_CRC_START, head, head_bytes), body,
                             body_bytes);
    for (uint32_t i = 0; i < CRC_BYTES; i++) {
        crc[i] = (uint8_t)(sum >> 8u * i);
    }
    if (l->queue_n == 0) {
        queue(l, 0); /* ends what the line may have brought by itself meanwhile */
    }
    begin_group(l, &g);
    encode(l, &g, head, head_bytes);
    encode(l, &g, body, body_bytes);
    encode(l, &g, crc, CRC_BYTES);
    l->queue[g.at] = g.code;
    queue(l, 0);
    link->stats.sent_n++;
    link->stats.sent_bytes += head_bytes + body_bytes;
    (void)drain(l);
    return UW_OK;
}

static int serial_send(struct uw_link *link, uint16_t to, const void *buf, uint32_t buf_bytes)
{
    return serial_send_parts(link, to, NULL, 0, buf, buf_bytes);
}

/* ---- receiving ---- */

static void keep(struct uw_link_serial *l, uint8_t byte)
{
    if (l->frame_n < l->link.mtu_bytes + CRC_BYTES) {
        l->frame[l->frame_n++] = byte;
    } else {
        l->bad = true;
    }
}

/* A zero has come. Returns the size of the message that it ends, or UW_ERR_AGAIN. */
static int end_frame(struct uw_link_serial *l)
{
    int rc = UW_ERR_AGAIN;
    if (l->code != 0) { /* more than one zero in a row means nothing */
        uint32_t bytes = l->frame_n - CRC_BYTES;
        bool whole = !l->bad && l->left == 0 && l->frame_n >= CRC_BYTES;
        uint32_t sum = whole ? uw_crc32c(UW_LINK_SERIAL_CRC_START, l->frame, bytes) : 0;
        for (uint32_t i = 0; i < CRC_BYTES && whole; i++) {
            whole = l->frame[bytes + i] == (uint8_t)(sum >> 8u * i);
        }
        l->link.stats.dropped_n += whole ? 0 : 1u;
        rc = whole ? (int)bytes : UW_ERR_AGAIN;
    }
    l->frame_n = 0;
    l->left = l->code = 0;
    l->bad = false;
    return rc;
}

/* Take one byte of the stream. Returns the size of the message that it ends, or UW_ERR_AGAIN. */
static int decode(struct uw_link_serial *l, uint8_t byte)
{
    if (byte == 0) {
        return end_frame(l);
    }
    if (l->left > 0) {
        l->left--;
        keep(l, byte);
        return UW_ERR_AGAIN;
    }
    if (l->code != 0 && l->code != GROUP) {
        keep(l, 0); /* behind the group that has ended */
    }
    l->code = byte;
    l->left = (uint8_t)(byte - 1u);
    return UW_ERR_AGAIN;
}

/* Take bytes until a message ends, at most as many as would make two of the longest. */
static int next_message(struct uw_link_serial *l)
{
    uint32_t budget = 2u * line_bytes(l->link.mtu_bytes);
    int rc = UW_ERR_AGAIN;
    while (rc == UW_ERR_AGAIN) {
        if (l->in_at == l->in_n) {
            int n = l->closed ? UW_ERR_CLOSED : 0;
            if (budget > 0 && !l->closed) {
                n = l->serial->ops->read(l->serial, l->in, sizeof l->in);
            }
            l->in_at = 0;
            l->in_n = (uint8_t)(n > 0 ? n : 0);
            if (n <= 0) {
                l->closed = n == UW_ERR_CLOSED;
                return n < 0 ? n : UW_ERR_AGAIN;
            }
            budget = budget > (uint32_t)n ? budget - (uint32_t)n : 0;
        }
        rc = decode(l, l->in[l->in_at++]);
    }
    return rc;
}

static int serial_recv(struct uw_link *link, uint16_t *from, void *buf, uint32_t cap_bytes)
{
    struct uw_link_serial *l = self(link);
    int rc = next_message(l);
    if (l->closed) {
        link->fd = -1; /* nobody is to wait for it */
    }
    if (rc < 0) {
        return rc;
    }
    *from = 0;
    if ((uint32_t)rc > cap_bytes) {
        link->stats.dropped_n++;
        return UW_ERR_TOOBIG;
    }
    if (rc > 0) {
        memcpy(buf, l->frame, (size_t)rc);
    }
    link->stats.received_n++;
    link->stats.received_bytes += (uint64_t)rc;
    return rc;
}

static uint64_t serial_step(struct uw_link *link, uint64_t now_us)
{
    struct uw_link_serial *l = self(link);
    (void)drain(l); /* send and recv tell what is wrong */
    if (l->queue_n == 0 || l->closed) {
        return UINT64_MAX;
    }
    uint32_t rate = l->serial->rate_bits_per_s;
    uint32_t n = l->queue_n < LOOK_BYTES ? l->queue_n : LOOK_BYTES;
    uint32_t us = rate != 0 ? n * LINE_BITS * 1000000u / rate : LOOK_US;
    return now_us + (us < LOOK_MIN_US ? LOOK_MIN_US : us > LOOK_MAX_US ? LOOK_MAX_US : us);
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
    .recv = serial_recv,
    .step = serial_step,
    .deinit = serial_deinit,
    .send_parts = serial_send_parts,
};

/* ---- set-up ---- */

size_t uw_link_serial_bytes(const struct uw_link_serial_config *config)
{
    if (config == NULL || mtu_of(config) < UW_LINK_SERIAL_MTU_MIN ||
        mtu_of(config) > UW_LINK_SERIAL_MTU_MAX || config->queue_n > QUEUE_MAX) {
        return SIZE_MAX;
    }
    return mtu_of(config) + CRC_BYTES + queue_of(config);
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
    l->serial = config->serial;
    l->frame = config->memory;
    l->queue = l->frame + mtu_of(config) + CRC_BYTES;
    l->queue_bytes = queue_of(config);
    l->link.mtu_bytes = mtu_of(config);
    l->link.rate_bits_per_s = (uint64_t)l->serial->rate_bits_per_s / LINE_BITS * DATA_BITS;
    l->link.burst_bytes = l->serial->burst_bytes;
    l->link.fd = l->serial->fd;
    l->link.ops = &serial_ops;
    return UW_OK;
}
