/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/serial_frames.h"

#include "base/bytes.h"
#include "base/cpu.h"

#include <string.h>

#define CRC_BYTES 4u
#define GROUP 0xffu             /* begins 254 bytes without a zero behind them */
#define LOOK_BYTES 64u          /* drain again after the time of so many bytes */
#define LOOK_MIN_US 200u
#define LOOK_MAX_US 5000u
#define LOOK_US 1000u           /* where the rate is not known */

uint32_t uw_serial_frames_line_bytes(uint32_t contents_bytes)
{
    uint32_t n = contents_bytes + CRC_BYTES;
    return n + n / (GROUP - 1u) + 3u;
}

size_t uw_serial_frames_bytes(uint32_t contents_bytes, uint32_t queue_n)
{
    return contents_bytes + CRC_BYTES +
           (size_t)queue_n * uw_serial_frames_line_bytes(contents_bytes);
}

void uw_serial_frames_init(struct uw_serial_frames *f, struct uw_serial *serial, void *memory,
                           uint32_t contents_bytes, uint32_t queue_n, uint32_t crc_start)
{
    memset(f, 0, sizeof *f);
    f->serial = serial;
    f->crc_start = crc_start;
    f->contents_bytes = contents_bytes;
    f->frame = memory;
    f->queue = f->frame + contents_bytes + CRC_BYTES;
    f->queue_bytes = queue_n * uw_serial_frames_line_bytes(contents_bytes);
}

/* ---- sending ---- */

static uint32_t queue_end(const struct uw_serial_frames *f)
{
    uint32_t at = f->queue_at + f->queue_n;
    return at < f->queue_bytes ? at : at - f->queue_bytes;
}

static void queue(struct uw_serial_frames *f, uint8_t byte)
{
    f->queue[queue_end(f)] = byte;
    f->queue_n++;
}

/* A COBS group being written: index of its first byte, the code. */
struct group {
    uint32_t at;
    uint8_t code;
};

static void begin_group(struct uw_serial_frames *f, struct group *g)
{
    g->at = queue_end(f);
    g->code = 1;
    queue(f, 0);
}

static void encode(struct uw_serial_frames *f, struct group *g, const uint8_t *p, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++) {
        if (p[i] != 0) {
            queue(f, p[i]);
            g->code++;
        }
        if (p[i] == 0 || g->code == GROUP) {
            f->queue[g->at] = g->code;
            begin_group(f, g);
        }
    }
}

int uw_serial_frames_drain(struct uw_serial_frames *f)
{
    int rc = 1;
    while (f->queue_n > 0 && !f->closed && rc > 0) {
        uint32_t to_end = f->queue_bytes - f->queue_at;
        uint32_t n = f->queue_n < to_end ? f->queue_n : to_end;
        rc = f->serial->ops->write(f->serial, f->queue + f->queue_at, n);
        if (rc > 0) {
            f->queue_at = (uint32_t)rc < to_end ? f->queue_at + (uint32_t)rc : 0;
            f->queue_n -= (uint32_t)rc;
        }
        f->closed = f->closed || rc == UW_ERR_CLOSED;
    }
    return rc < 0 ? rc : UW_OK;
}

int uw_serial_frames_put(struct uw_serial_frames *f, const void *head, uint32_t head_bytes,
                         const void *body, uint32_t body_bytes)
{
    struct group g;
    uint8_t crc[CRC_BYTES];
    uint32_t need = uw_serial_frames_line_bytes(head_bytes + body_bytes);
    if (f->closed) {
        return UW_ERR_CLOSED;
    }
    if (need > f->queue_bytes - f->queue_n) {
        int rc = uw_serial_frames_drain(f);
        if (rc < 0 || need > f->queue_bytes - f->queue_n) {
            return rc < 0 ? rc : UW_ERR_AGAIN;
        }
    }
    uw_put_u32(crc, uw_crc32c(uw_crc32c(f->crc_start, head, head_bytes), body, body_bytes));
    if (f->queue_n == 0) {
        queue(f, 0); /* ends a frame of noise from the pause */
    }
    begin_group(f, &g);
    encode(f, &g, head, head_bytes);
    encode(f, &g, body, body_bytes);
    encode(f, &g, crc, CRC_BYTES);
    f->queue[g.at] = g.code;
    queue(f, 0);
    return UW_OK;
}

uint64_t uw_serial_frames_next_us(const struct uw_serial_frames *f, uint64_t now_us)
{
    if (f->queue_n == 0 || f->closed) {
        return UINT64_MAX;
    }
    uint32_t rate = f->serial->rate_bits_per_s;
    uint32_t n = f->queue_n < LOOK_BYTES ? f->queue_n : LOOK_BYTES;
    uint32_t us = rate != 0 ? n * UW_SERIAL_LINE_BITS * 1000000u / rate : LOOK_US;
    return now_us + (us < LOOK_MIN_US ? LOOK_MIN_US : us > LOOK_MAX_US ? LOOK_MAX_US : us);
}

/* ---- receiving ---- */

static void keep(struct uw_serial_frames *f, uint8_t byte)
{
    if (f->frame_n < f->contents_bytes + CRC_BYTES) {
        f->frame[f->frame_n++] = byte;
    } else {
        f->bad = true;
    }
}

/* A zero was received. Returns the size of the frame's contents, or UW_ERR_AGAIN. */
static int end_frame(struct uw_serial_frames *f)
{
    int rc = UW_ERR_AGAIN;
    if (f->code != 0) { /* more than one zero in a row means nothing */
        uint32_t bytes = f->frame_n - CRC_BYTES;
        bool whole = !f->bad && f->left == 0 && f->frame_n >= CRC_BYTES &&
                     uw_crc32c(f->crc_start, f->frame, bytes) == uw_get_u32(f->frame + bytes);
        f->dropped_n += whole ? 0 : 1u;
        rc = whole ? (int)bytes : UW_ERR_AGAIN;
    }
    f->frame_n = 0;
    f->left = f->code = 0;
    f->bad = false;
    return rc;
}

/* Decode one byte. Returns the size of the contents if it ends a frame, or UW_ERR_AGAIN. */
static int decode(struct uw_serial_frames *f, uint8_t byte)
{
    if (byte == 0) {
        return end_frame(f);
    }
    if (f->left > 0) {
        f->left--;
        keep(f, byte);
        return UW_ERR_AGAIN;
    }
    if (f->code != 0 && f->code != GROUP) {
        keep(f, 0); /* behind the group that has ended */
    }
    f->code = byte;
    f->left = (uint8_t)(byte - 1u);
    return UW_ERR_AGAIN;
}

int uw_serial_frames_take(struct uw_serial_frames *f)
{
    uint32_t budget = 2u * uw_serial_frames_line_bytes(f->contents_bytes);
    int rc = UW_ERR_AGAIN;
    while (rc == UW_ERR_AGAIN) {
        if (f->in_at == f->in_n) {
            int n = f->closed ? UW_ERR_CLOSED : 0;
            if (budget > 0 && !f->closed) {
                n = f->serial->ops->read(f->serial, f->in, sizeof f->in);
            }
            f->in_at = 0;
            f->in_n = (uint8_t)(n > 0 ? n : 0);
            if (n <= 0) {
                f->closed = n == UW_ERR_CLOSED;
                return n < 0 ? n : UW_ERR_AGAIN;
            }
            f->read_n += (uint32_t)n;
            budget = budget > (uint32_t)n ? budget - (uint32_t)n : 0;
        }
        rc = decode(f, f->in[f->in_at++]);
    }
    return rc;
}
