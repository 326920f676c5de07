/* SPDX-License-Identifier: Apache-2.0
 *
 * serial_pipe.h - two streams of bytes joined in memory, with a line that damages bytes as told
 *
 *     serial_pipe_join(&a, &b);      then a line may be made bad: a.bad = ...; what a writes
 */
#ifndef UWASA_TEST_SERIAL_PIPE_H
#define UWASA_TEST_SERIAL_PIPE_H

#include "uwasa/rng.h"
#include "uwasa/serial.h"

#include <string.h>

#define SERIAL_PIPE_BYTES 8192u

/* How many of a million bytes are hit. */
struct serial_faults {
    uint32_t lost, repeated, flipped, garbage;  /* flipped: one bit; garbage: a few bytes before */
    struct uw_rng rng;
};

struct serial_pipe {
    struct uw_serial base;
    struct serial_pipe *to;
    struct serial_faults bad;
    uint64_t hits_n;            /* bytes of the line that were damaged */
    uint32_t take_bytes;        /* a write takes no more; 0: what fits */
    uint32_t at, n;
    uint8_t ring[SERIAL_PIPE_BYTES];    /* to be read here */
};

static inline void serial_pipe_put(struct serial_pipe *p, uint8_t byte)
{
    if (p->n < SERIAL_PIPE_BYTES) {
        p->ring[(p->at + p->n++) % SERIAL_PIPE_BYTES] = byte;
    }
}

static inline void serial_pipe_damage(struct serial_pipe *p, uint8_t byte)
{
    struct serial_faults *bad = &p->bad;
    uint32_t lost = bad->lost, repeated = lost + bad->repeated, flipped = repeated + bad->flipped;
    uint32_t all = flipped + bad->garbage;
    uint32_t kind = all != 0 ? uw_rng_below(&bad->rng, 1000000) : all;
    p->hits_n += kind < all;
    if (kind < lost) {
        return;
    }
    if (kind < repeated) {
        serial_pipe_put(p->to, byte);
    } else if (kind < flipped) {
        byte ^= (uint8_t)(1u << uw_rng_below(&bad->rng, 8));
    } else if (kind < all) {
        for (uint32_t i = uw_rng_below(&bad->rng, 8); i > 0; i--) {
            serial_pipe_put(p->to, (uint8_t)uw_rng_below(&bad->rng, 256));
        }
    }
    serial_pipe_put(p->to, byte);
}

static inline int serial_pipe_write(struct uw_serial *s, const void *buf, uint32_t bytes)
{
    struct serial_pipe *p = (struct serial_pipe *)s;
    uint32_t room = (SERIAL_PIPE_BYTES - p->to->n) / 8u;    /* garbage fits as well */
    uint32_t n = bytes < room ? bytes : room;
    n = p->take_bytes != 0 && n > p->take_bytes ? p->take_bytes : n;
    for (uint32_t i = 0; i < n; i++) {
        serial_pipe_damage(p, ((const uint8_t *)buf)[i]);
    }
    return (int)n;
}

static inline int serial_pipe_read(struct uw_serial *s, void *buf, uint32_t cap_bytes)
{
    struct serial_pipe *p = (struct serial_pipe *)s;
    uint32_t n = cap_bytes < p->n ? cap_bytes : p->n;
    for (uint32_t i = 0; i < n; i++) {
        ((uint8_t *)buf)[i] = p->ring[(p->at + i) % SERIAL_PIPE_BYTES];
    }
    p->at = (p->at + n) % SERIAL_PIPE_BYTES;
    p->n -= n;
    return (int)n;
}

static const struct uw_serial_ops serial_pipe_ops = {
    .name = "pipe", .write = serial_pipe_write, .read = serial_pipe_read};

static inline void serial_pipe_join(struct serial_pipe *a, struct serial_pipe *b)
{
    memset(a, 0, sizeof *a);
    memset(b, 0, sizeof *b);
    a->base = b->base = (struct uw_serial){.ops = &serial_pipe_ops, .fd = -1};
    a->to = b;
    b->to = a;
}

#endif
