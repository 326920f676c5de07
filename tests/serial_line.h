/* SPDX-License-Identifier: Apache-2.0
 *
 * serial_line.h - one serial line with many stations, on virtual time: everybody hears who speaks;
 * when two do, all hear what is left of both
 *
 *     serial_line_open(&line, 3, 115200);      then a stream is line.at[i].base
 *     serial_line_run(&line, now_us);          carries the bytes of the time since
 */
#ifndef UWASA_TEST_SERIAL_LINE_H
#define UWASA_TEST_SERIAL_LINE_H

#include "uwasa/rng.h"
#include "uwasa/serial.h"

#include <stdbool.h>
#include <string.h>

#define SERIAL_LINE_MAX 8u
#define SERIAL_LINE_BYTES 4096u

struct serial_line;

struct serial_ring {
    uint32_t at, n;
    uint8_t bytes[SERIAL_LINE_BYTES];
};

struct serial_station {
    struct uw_serial base;
    struct serial_line *line;
    struct serial_ring out, in;
    uint64_t speaks_since_us;   /* while there is something in out */
    bool closed;
};

struct serial_line {
    struct serial_station at[SERIAL_LINE_MAX];
    uint32_t stations_n, fifo_bytes;    /* of what a station may write ahead */
    uint64_t now_us;            /* as far as it has run */
    bool echo;                  /* who speaks hears it */
    uint32_t bad;               /* so many of a million bytes have a wrong bit */
    struct uw_rng rng;
    uint64_t latest_us;         /* the longest that one spoke before another one began as well */
    uint64_t collided_n, carried_n;
};

static inline uint8_t serial_ring_take(struct serial_ring *r)
{
    uint8_t byte = r->bytes[r->at];
    r->at = (r->at + 1u) % SERIAL_LINE_BYTES;
    r->n--;
    return byte;
}

static inline void serial_ring_put(struct serial_ring *r, uint8_t byte)
{
    if (r->n < SERIAL_LINE_BYTES) {
        r->bytes[(r->at + r->n++) % SERIAL_LINE_BYTES] = byte;
    }
}

static inline int serial_line_write(struct uw_serial *s, const void *buf, uint32_t bytes)
{
    struct serial_station *me = (struct serial_station *)s;
    struct serial_line *l = me->line;
    uint32_t room = l->fifo_bytes - me->out.n, n = bytes < room ? bytes : room;
    if (me->closed) {
        return UW_ERR_CLOSED;
    }
    if (me->out.n == 0 && n > 0) {
        me->speaks_since_us = l->now_us;
        for (uint32_t i = 0; i < l->stations_n; i++) {
            const struct serial_station *other = &l->at[i];
            uint64_t us = l->now_us - other->speaks_since_us;
            if (other != me && other->out.n > 0 && us > l->latest_us) {
                l->latest_us = us;
            }
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        serial_ring_put(&me->out, ((const uint8_t *)buf)[i]);
    }
    return (int)n;
}

static inline int serial_line_read(struct uw_serial *s, void *buf, uint32_t cap_bytes)
{
    struct serial_station *me = (struct serial_station *)s;
    uint32_t n = cap_bytes < me->in.n ? cap_bytes : me->in.n;
    for (uint32_t i = 0; i < n; i++) {
        ((uint8_t *)buf)[i] = serial_ring_take(&me->in);
    }
    return me->closed ? UW_ERR_CLOSED : (int)n;
}

static const struct uw_serial_ops serial_line_ops = {
    .name = "line", .write = serial_line_write, .read = serial_line_read};

static inline void serial_line_open(struct serial_line *l, uint32_t stations_n, uint32_t baud)
{
    memset(l, 0, sizeof *l);
    l->stations_n = stations_n;
    l->fifo_bytes = SERIAL_LINE_BYTES;
    for (uint32_t i = 0; i < stations_n; i++) {
        l->at[i].base = (struct uw_serial){
            .ops = &serial_line_ops, .rate_bits_per_s = baud, .fd = -1};
        l->at[i].line = l;
    }
}

/* One byte's time. */
static inline void serial_line_tick(struct serial_line *l)
{
    uint32_t speak_n = 0, speaker = 0;
    uint8_t byte = 0xff;
    for (uint32_t i = 0; i < l->stations_n; i++) {
        if (l->at[i].out.n > 0) {
            byte &= serial_ring_take(&l->at[i].out);
            speak_n++;
            speaker = i;
        }
    }
    if (speak_n == 0) {
        return;
    }
    if (l->bad != 0 && uw_rng_below(&l->rng, 1000000) < l->bad) {
        byte ^= (uint8_t)(1u << uw_rng_below(&l->rng, 8));
    }
    for (uint32_t i = 0; i < l->stations_n; i++) {
        if (i != speaker || speak_n > 1 || l->echo) {
            serial_ring_put(&l->at[i].in, byte);
        }
    }
    l->carried_n++;
    l->collided_n += speak_n > 1;
}

static inline void serial_line_run(struct serial_line *l, uint64_t now_us)
{
    uint64_t rate = l->at[0].base.rate_bits_per_s;
    uint64_t from = l->now_us * rate / 10000000u, to = now_us * rate / 10000000u;
    l->now_us = now_us;
    for (; from < to; from++) {
        serial_line_tick(l);
    }
}

#endif
