/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/serial.h - the driver interface of a byte stream: UART, USB CDC, pseudo terminal
 * (implemented by a board)
 *
 * Used by uwasa/link_serial.h and a board's console. A driver embeds struct uw_serial as its first
 * member. Bytes may be lost, damaged or inserted; their order is kept.
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

    /* Write bytes from the start of buf, as many as fit.
     * Returns their number (0: no room), UW_ERR_CLOSED, UW_ERR_IO. */
    int (*write)(struct uw_serial *s, const void *buf, uint32_t bytes);

    /* Read received bytes, at most cap_bytes.
     * Returns their number (0: none), UW_ERR_CLOSED, UW_ERR_IO. */
    int (*read)(struct uw_serial *s, void *buf, uint32_t cap_bytes);
};

struct uw_serial {
    const struct uw_serial_ops *ops;
    uint32_t rate_bits_per_s;       /* of the line, stop bits included; 0: not known */
    uint32_t burst_bytes;           /* bytes that may arrive between two calls of read without loss;
                                       0: not known, or flow control */
    int fd;                         /* becomes readable when read may succeed; -1: none, poll */
};

#endif
