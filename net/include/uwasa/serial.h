/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/serial.h - a stream of bytes both ways: UART, USB CDC, pseudo terminal (implemented by a
 * board)
 *
 * What uwasa/link_serial.h and a board's console need of a driver. A driver embeds struct uw_serial
 * as its first member. Bytes may be lost, damaged or invented; their order is kept.
 *
 * Units      bytes
 * Memory     caller owns the struct and the buffers; nothing is kept after return
 * Blocking   never          Context  one thread per stream
 */
#ifndef UWASA_SERIAL_H
#define UWASA_SERIAL_H

#include "uwasa/status.h"

#include <stdint.h>

struct uw_serial;

struct uw_serial_ops {
    const char *name;               /* "uart0", "pty" */

    /* Hand over the first bytes of buf, as many as there is room for.
     * Returns how many (0: no room now), UW_ERR_CLOSED, UW_ERR_IO. */
    int (*write)(struct uw_serial *s, const void *buf, uint32_t bytes);

    /* Take what has arrived, at most cap_bytes.
     * Returns how many bytes (0: none now), UW_ERR_CLOSED, UW_ERR_IO. */
    int (*read)(struct uw_serial *s, void *buf, uint32_t cap_bytes);
};

struct uw_serial {
    const struct uw_serial_ops *ops;
    uint32_t rate_bits_per_s;       /* of the line, stop bits included; 0: not known */
    uint32_t burst_bytes;           /* that may arrive before read is called, without loss; 0: not
                                       known, or the sender is held back */
    int fd;                         /* becomes readable when read may give bytes; -1: none, poll */
};

#endif
