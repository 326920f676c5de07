/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/link_serial.h - the link over a stream of bytes: UART, USB CDC, pseudo terminal
 *
 * A line connects two ends. The other end is station 0 with the address "peer"; a broadcast reaches
 * it too. A message is a frame of uwasa/serial_frames.h. Damaged frames are dropped: messages may
 * be lost, but are never repeated, reordered or damaged. For more ends on one line see
 * uwasa/radio_bus.h.
 *
 * Bytes that the stream does not accept at once wait in a queue, which step sends. Both ends need
 * the same mtu_bytes: longer frames are dropped.
 *
 * Units      bytes
 * Memory     caller supplies uw_link_serial_bytes(); that and the stream are borrowed until deinit
 * Blocking   never          Context  one thread per link
 */
#ifndef UWASA_LINK_SERIAL_H
#define UWASA_LINK_SERIAL_H

#include "uwasa/cplusplus.h"
#include "uwasa/link.h"
#include "uwasa/serial_frames.h"

UW_C_BEGIN

#define UW_LINK_SERIAL_MTU_MIN 64u
#define UW_LINK_SERIAL_MTU_MAX 2048u
#define UW_LINK_SERIAL_MTU_DEFAULT 512u
#define UW_LINK_SERIAL_CRC_START 0x52a7c31du

struct uw_link_serial_config {
    struct uw_serial *serial;
    void *memory;               /* aligned as from malloc or an arena */
    size_t memory_bytes;
    uint32_t mtu_bytes;         /* 0: UW_LINK_SERIAL_MTU_DEFAULT */
    uint32_t queue_n;           /* messages of mtu_bytes in the send queue; 0: 2 */
};

struct uw_link_serial {
    struct uw_link link;        /* rate_bits_per_s does not count start and stop bits */
    struct uw_serial_frames frames;
};

/* Bytes of memory for a frame and the queue; SIZE_MAX when the configuration is not allowed. */
size_t uw_link_serial_bytes(const struct uw_link_serial_config *config);

/* Set up over a stream that is open.
 *
 * Returns UW_OK, UW_ERR_INVALID (no stream, mtu_bytes or queue_n out of bounds), UW_ERR_NOMEM
 * (memory smaller than uw_link_serial_bytes). */
int uw_link_serial_init(struct uw_link_serial *l, const struct uw_link_serial_config *config);

UW_C_END
#endif
