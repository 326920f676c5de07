/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/radio_bus.h"

#include "radio_head.h"

#include <string.h>

#define HEAD_BYTES UW_RADIO_HEAD_BYTES
#define SLOTS 4u
#define SLOT_BYTES 8u
#define SLOT_MIN_US 300u
#define GAP_US 20000u           /* silence within a frame that aborts it */
#define FOREIGN_MAX 64u         /* foreign frames that one call skips */

static struct uw_radio_bus *self(struct uw_radio *r)
{
    return (struct uw_radio_bus *)r; /* base is the first member */
}

static uint32_t frame_of(const struct uw_radio_bus_config *c)
{
    return c->frame_bytes != 0 ? c->frame_bytes : UW_RADIO_BUS_FRAME_DEFAULT;
}

/* Time of so many bytes on the line; 0: rate not known. */
static uint64_t line_us(const struct uw_radio_bus *r, uint32_t bytes)
{
    uint32_t rate = r->frames.serial->rate_bits_per_s;
    return rate != 0 ? (uint64_t)bytes * UW_SERIAL_LINE_BITS * 1000000u / rate : 0;
}

/* ---- access to the line ---- */

static void note_activity(struct uw_radio_bus *r, uint64_t until_us)
{
    r->heard_us = r->heard_us > until_us ? r->heard_us : until_us;
    r->free_us = r->heard_us + r->slot_us + uw_rng_below(&r->rng, r->slot_us * (SLOTS - 1u));
}

/* Read the line up to a frame for this station.
 * Returns UW_OK (there is one), UW_ERR_AGAIN, UW_ERR_CLOSED, UW_ERR_IO. */
static int listen(struct uw_radio_bus *r)
{
    struct uw_serial_frames *f = &r->frames;
    uint32_t read_n = f->read_n;
    int rc = UW_OK;
    for (uint32_t i = 0; i < FOREIGN_MAX && r->taken < 0 && rc >= 0; i++) {
        rc = uw_serial_frames_take(f);
        if (rc >= 0 && uw_radio_is_wanted(&r->base, f->frame, (uint32_t)rc)) {
            r->taken = rc;
        }
    }
    if (f->read_n != read_n) {
        note_activity(r, r->now_us);
    }
    r->dropped_n += f->dropped_n;
    f->dropped_n = 0;
    if (f->closed) {
        r->base.fd = -1;
    }
    return r->taken >= 0 ? UW_OK : rc < 0 ? rc : UW_ERR_AGAIN;
}

/* Is the line free, as far as this station has received? */
static bool is_silent(const struct uw_radio_bus *r)
{
    bool inside = r->frames.code != 0 && r->now_us < r->heard_us + GAP_US + r->slot_us;
    return r->taken < 0 && !inside && r->now_us >= r->free_us;
}

static void write_frame(struct uw_radio_bus *r)
{
    struct uw_serial_frames *f = &r->frames;
    if (f->queue_n == 0 || f->closed || (!r->begun && !is_silent(r))) {
        return;
    }
    r->begun = true;
    uint32_t before_n = f->queue_n;
    (void)uw_serial_frames_drain(f); /* send and recv report errors */
    note_activity(r, r->now_us + line_us(r, before_n - f->queue_n));
    r->begun = f->queue_n != 0;
}

/* ---- a radio ---- */

static int bus_send(struct uw_radio *radio, uint16_t to, const void *frame, uint32_t frame_bytes)
{
    struct uw_radio_bus *r = self(radio);
    if (frame_bytes > radio->frame_bytes) {
        return UW_ERR_TOOBIG;
    }
    if (r->frames.closed) {
        return UW_ERR_CLOSED;
    }
    if (r->frames.queue_n != 0) {
        return UW_ERR_AGAIN;
    }
    uint8_t head[HEAD_BYTES];
    uw_radio_put_head(radio, to, head);
    int rc = uw_serial_frames_put(&r->frames, head, HEAD_BYTES, frame, frame_bytes);
    if (rc == UW_OK) {
        (void)listen(r);
        write_frame(r);
    }
    return rc;
}

static int bus_recv(struct uw_radio *radio, uint16_t *from, void *frame, uint32_t cap_bytes)
{
    struct uw_radio_bus *r = self(radio);
    int rc = listen(r);
    if (rc < 0) {
        return rc;
    }
    uint32_t bytes = (uint32_t)r->taken - HEAD_BYTES;
    const uint8_t *contents = r->frames.frame;
    r->taken = -1;
    if (bytes > cap_bytes) {
        return UW_ERR_TOOBIG;
    }
    *from = uw_get_u16(contents + 2);
    if (bytes > 0) {
        memcpy(frame, contents + HEAD_BYTES, bytes);
    }
    return (int)bytes;
}

static uint64_t bus_airtime_us(const struct uw_radio *radio, uint32_t frame_bytes)
{
    const struct uw_radio_bus *r = (const struct uw_radio_bus *)radio;
    return line_us(r, uw_serial_frames_line_bytes(HEAD_BYTES + frame_bytes));
}

static uint64_t bus_step(struct uw_radio *radio, uint64_t now_us)
{
    struct uw_radio_bus *r = self(radio);
    r->now_us = now_us;
    (void)listen(r);
    write_frame(r);
    uint64_t next_us = uw_serial_frames_next_us(&r->frames, now_us);
    if (next_us != UINT64_MAX && !r->begun) {
        next_us = r->free_us > now_us ? r->free_us : now_us + r->slot_us;
    }
    return r->taken >= 0 || r->frames.in_at < r->frames.in_n ? now_us : next_us;
}

static const struct uw_radio_ops bus_ops = {.name = "bus",
                                            .send = bus_send,
                                            .recv = bus_recv,
                                            .airtime_us = bus_airtime_us,
                                            .step = bus_step};

size_t uw_radio_bus_bytes(const struct uw_radio_bus_config *config)
{
    if (config == NULL || frame_of(config) < UW_RADIO_FRAME_MIN ||
        frame_of(config) > UW_RADIO_FRAME_MAX) {
        return SIZE_MAX;
    }
    return uw_serial_frames_bytes(HEAD_BYTES + frame_of(config), 1);
}

int uw_radio_bus_init(struct uw_radio_bus *r, const struct uw_radio_bus_config *config)
{
    size_t need = uw_radio_bus_bytes(config);
    memset(r, 0, sizeof *r);
    r->base.fd = -1;
    if (need == SIZE_MAX || config->serial == NULL || config->address > UW_RADIO_ADDRESS_MAX) {
        return UW_ERR_INVALID;
    }
    if (config->memory == NULL || config->memory_bytes < need) {
        return UW_ERR_NOMEM;
    }
    struct uw_serial *serial = config->serial;
    uint32_t bytes = HEAD_BYTES + frame_of(config);
    uw_serial_frames_init(&r->frames, serial, config->memory, bytes, 1, UW_RADIO_BUS_CRC_START);
    uw_rng_seed(&r->rng, uw_rng_mix(config->seed, config->address));
    uint64_t slot_us = line_us(r, SLOT_BYTES);
    r->slot_us = config->slot_us != 0 ? config->slot_us
                 : slot_us > SLOT_MIN_US ? (uint32_t)slot_us
                                         : SLOT_MIN_US;
    r->base.access_us = r->slot_us * (SLOTS + 1u) / 2u;
    r->taken = -1;
    r->base.ops = &bus_ops;
    r->base.frame_bytes = frame_of(config);
    r->base.burst_n = serial->burst_bytes / uw_serial_frames_line_bytes(bytes);
    r->base.burst_n += serial->burst_bytes != 0 && r->base.burst_n == 0;
    r->base.address = config->address;
    r->base.broadcasts = true;
    r->base.fd = serial->fd;
    return UW_OK;
}
