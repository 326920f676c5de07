/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/serial_frames.h - frames in a byte stream, for uwasa/link_serial.h and uwasa/radio_bus.h
 *
 * A frame and its CRC-32C contain no zeros and are delimited by zeros, so that a receiver finds the
 * next frame after a late start or noise. Damaged and overlong frames are dropped. Noise destroys
 * the frame it hits and at most one next to it. After UW_ERR_CLOSED the stream is not used again.
 *
 * On the line  0, frame, 0; consecutive frames share a zero. Frame: COBS over the contents and 4
 *              bytes of their CRC, little-endian. The CRC starts at crc_start, not 0, because a row
 *              of ones would be a valid frame. 7 bytes more than the contents, and one for each 254
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

#define UW_SERIAL_LINE_BITS 10u     /* of a byte, with start and stop bit */

struct uw_serial_frames {
    struct uw_serial *serial;
    uint8_t *frame;             /* contents received so far */
    uint8_t *queue;             /* ring of bytes to send */
    uint32_t crc_start, contents_bytes;     /* of the largest frame */
    uint32_t frame_n, queue_bytes, queue_at, queue_n;
    uint32_t dropped_n;         /* damaged or too long */
    uint32_t read_n;            /* bytes read from the stream; may wrap */
    uint8_t in[64];             /* read from the stream, not decoded yet */
    uint8_t in_at, in_n;
    uint8_t left, code;         /* of the current COBS group: bytes missing; its code, 0: no frame
                                   has begun */
    bool bad;                   /* the frame is too long */
    bool closed;                /* the stream is closed */
};

/* Longest frame on the line in bytes, both zeros included. */
uint32_t uw_serial_frames_line_bytes(uint32_t contents_bytes);

/* Bytes of memory for a received frame and a queue of queue_n frames of the largest size. */
size_t uw_serial_frames_bytes(uint32_t contents_bytes, uint32_t queue_n);

/* Set up over a stream, with an empty queue. */
void uw_serial_frames_init(struct uw_serial_frames *f, struct uw_serial *serial, void *memory,
                           uint32_t contents_bytes, uint32_t queue_n, uint32_t crc_start);

/* Append a frame of two parts to the queue. Writes to the stream only to make room.
 * Returns UW_OK, UW_ERR_AGAIN (no room), UW_ERR_CLOSED, UW_ERR_IO. */
int uw_serial_frames_put(struct uw_serial_frames *f, const void *head, uint32_t head_bytes,
                         const void *body, uint32_t body_bytes);

/* Write queued bytes, as many as the stream accepts. Returns UW_OK, UW_ERR_CLOSED, UW_ERR_IO. */
int uw_serial_frames_drain(struct uw_serial_frames *f);

/* Read until a frame ends, at most the bytes of two of the largest frames. Its contents are in
 * f->frame until the next call.
 * Returns their size, UW_ERR_AGAIN, UW_ERR_CLOSED, UW_ERR_IO. */
int uw_serial_frames_take(struct uw_serial_frames *f);

/* Time of the next drain; UINT64_MAX: the queue is empty. */
uint64_t uw_serial_frames_next_us(const struct uw_serial_frames *f, uint64_t now_us);

UW_C_END
#endif
