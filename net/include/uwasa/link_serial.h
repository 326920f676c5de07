/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/link_serial.h - the link over a stream of bytes: UART, USB CDC, pseudo terminal
 *
 * Two ends, one line. Each knows the other as station 0, whose address is "peer"; broadcast reaches
 * it too. A message and its CRC-32C travel as one frame without zeros between zeros, so that an end
 * that begins in the middle, or hears garbage, finds the next frame. Damaged frames are dropped:
 * messages may be lost, and are not otherwise repeated, reordered or damaged. Whoever garbage hits
 * is lost, and at most one message beside it.
 *
 * What the stream does not take at once waits, and step hands it over. Give both ends the same
 * mtu_bytes: a longer frame is dropped. A stream that says UW_ERR_CLOSED once is not asked again.
 *
 * On the line  0, frame, 0; frames that wait behind each other share a zero. Frame: COBS over the
 *              message and 4 bytes of its CRC, little-endian, begun at UW_LINK_SERIAL_CRC_START.
 *              7 bytes more than the message, and one for each 254 bytes
 * Units      bytes
 * Memory     caller supplies uw_link_serial_bytes(); that and the stream are borrowed until deinit
 * Blocking   never          Context  one thread per link
 * Source     Cheshire and Baker, "Consistent Overhead Byte Stuffing", 1999
 */
#ifndef UWASA_LINK_SERIAL_H
#define UWASA_LINK_SERIAL_H

#include "uwasa/link.h"
#include "uwasa/serial.h"

#define UW_LINK_SERIAL_MTU_MIN 64u
#define UW_LINK_SERIAL_MTU_MAX 2048u
#define UW_LINK_SERIAL_MTU_DEFAULT 512u
#define UW_LINK_SERIAL_CRC_START 0x52a7c31du    /* not 0: then a row of ones would be a frame */

struct uw_link_serial_config {
    struct uw_serial *serial;
    void *memory;               /* aligned as from malloc or an arena */
    size_t memory_bytes;
    uint32_t mtu_bytes;         /* 0: UW_LINK_SERIAL_MTU_DEFAULT */
    uint32_t queue_n;           /* longest messages that wait to be sent; 0: 2 */
};

struct uw_link_serial {
    struct uw_link link;        /* rate_bits_per_s: of the stream, without start and stop bits */
    struct uw_serial *serial;
    uint8_t *frame;             /* what came of the frame that is being read */
    uint8_t *queue;             /* ring of bytes to send */
    uint32_t frame_n, queue_bytes, queue_at, queue_n;
    uint8_t in[64];             /* read from the stream, not looked at yet */
    uint8_t in_at, in_n;
    uint8_t left, code;         /* of the group that is being read: bytes to come; how it began */
    bool bad;                   /* the frame is too long */
    bool closed;                /* the stream is */
};

/* Bytes of memory for a frame and the queue; SIZE_MAX when the configuration is not allowed. */
size_t uw_link_serial_bytes(const struct uw_link_serial_config *config);

/* Set up over a stream that is open.
 *
 * Returns UW_OK, UW_ERR_INVALID (no stream, mtu_bytes or queue_n out of bounds), UW_ERR_NOMEM
 * (memory smaller than uw_link_serial_bytes). */
int uw_link_serial_init(struct uw_link_serial *l, const struct uw_link_serial_config *config);

#endif
