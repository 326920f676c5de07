/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/serial_frames.h - frames in a stream of bytes: what uwasa/link_serial.h and
 * uwasa/radio_bus.h share
 *
 * A frame and its CRC-32C travel without zeros between zeros, so that an end that begins in the
 * middle, or hears garbage, finds the next frame. Damaged and longer frames are dropped. Whoever
 * garbage hits is lost, and at most one frame beside it. A stream that says UW_ERR_CLOSED once is
 * not asked again.
 *
 * On the line  0, frame, 0; frames that wait behind each other share a zero. Frame: COBS over the
 *              contents and 4 bytes of their CRC, little-endian, begun at crc_start: not 0, or a
 *              row of ones would be a frame. 7 bytes more than the contents, and one for each 254
 * Units      bytes of contents: two parts that follow each other
 * Memory     caller supplies uw_serial_frames_bytes(); that and the stream are borrowed
 * Blocking   never          Context  one thread per stream
 * Source     Cheshire and Baker, "Consistent Overhead Byte Stuffing", 1999
 */
#ifndef UWASA_SERIAL_FRAMES_H
#define UWASA_SERIAL_FRAMES_H

#include "uwasa/cplusplus.h"
#include "uwasa/serial.h"

#include <stdbool.h>
#include <stddef.h>

UW_C_BEGIN

#define UW_SERIAL_LINE_BITS 10u     /* of a byte, with start and stop */

struct uw_serial_frames {
    struct uw_serial *serial;
    uint8_t *frame;             /* what came of the frame that is being read */
    uint8_t *queue;             /* ring of bytes to send */
    uint32_t crc_start, contents_bytes;     /* of the largest frame */
    uint32_t frame_n, queue_bytes, queue_at, queue_n;
    uint32_t dropped_n;         /* damaged, or too long */
    uint32_t read_n;            /* bytes that the stream has brought; may wrap */
    uint8_t in[64];             /* read from the stream, not looked at yet */
    uint8_t in_at, in_n;
    uint8_t left, code;         /* of the group that is being read: bytes to come; how it began, 0:
                                   no frame has begun */
    bool bad;                   /* the frame is too long */
    bool closed;                /* the stream is */
};

/* Most bytes that a frame takes on the line, both zeros included. */
uint32_t uw_serial_frames_line_bytes(uint32_t contents_bytes);

/* Memory for a frame that comes and for queue_n of the longest that wait to be sent. */
size_t uw_serial_frames_bytes(uint32_t contents_bytes, uint32_t queue_n);

/* Begin over a stream, with nothing read and nothing to send. */
void uw_serial_frames_init(struct uw_serial_frames *f, struct uw_serial *serial, void *memory,
                           uint32_t contents_bytes, uint32_t queue_n, uint32_t crc_start);

/* Put a frame of two parts into the queue, behind those that wait there. Nothing is written to the
 * stream, but what has to make room.
 * Returns UW_OK, UW_ERR_AGAIN (no room), UW_ERR_CLOSED, UW_ERR_IO. */
int uw_serial_frames_put(struct uw_serial_frames *f, const void *head, uint32_t head_bytes,
                         const void *body, uint32_t body_bytes);

/* Hand over to the stream what it takes. Returns UW_OK, UW_ERR_CLOSED, UW_ERR_IO. */
int uw_serial_frames_drain(struct uw_serial_frames *f);

/* Take bytes until a frame ends, at most as many as would make two of the longest. Its contents are
 * in f->frame until the next call.
 * Returns their size, UW_ERR_AGAIN, UW_ERR_CLOSED, UW_ERR_IO. */
int uw_serial_frames_take(struct uw_serial_frames *f);

/* When to drain again; UINT64_MAX: nothing waits. */
uint64_t uw_serial_frames_next_us(const struct uw_serial_frames *f, uint64_t now_us);

UW_C_END
#endif
