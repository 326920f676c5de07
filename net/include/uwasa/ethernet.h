/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/ethernet.h - the driver interface of an Ethernet controller (implemented by a board)
 *
 * Used by uwasa/link_lwip.h. A driver embeds struct uw_ethernet as its first member and sets `ops`;
 * start fills the rest.
 *
 * Units      bytes; a frame is destination, source, type and payload, without its checksum
 * Memory     caller owns the struct and every frame; nothing is kept after return
 * Blocking   never          Context  main loop; interrupts only wake the processor
 */
#ifndef UWASA_ETHERNET_H
#define UWASA_ETHERNET_H

#include "uwasa/status.h"

#include <stdbool.h>
#include <stdint.h>

#define UW_ETHERNET_MAC_BYTES 6u
#define UW_ETHERNET_FRAME_MAX 1514u     /* 14 of header and 1500 of payload */

struct uw_ethernet;

struct uw_ethernet_ops {
    const char *name;               /* "lan9118" */

    /* Reset the controller and enable reception: own address, broadcast and multicast.
     *   mac  own address; all zero on entry: set to the controller's
     * Returns UW_OK, UW_ERR_NOTFOUND (no such controller), UW_ERR_TIMEOUT (the reset does not
     * end). */
    int (*start)(struct uw_ethernet *e, uint8_t mac[UW_ETHERNET_MAC_BYTES]);

    /* Send a frame of 14 to UW_ETHERNET_FRAME_MAX bytes. It is copied or sent before return.
     * Returns UW_OK, UW_ERR_AGAIN (the transmitter is full), UW_ERR_TOOBIG, UW_ERR_IO. */
    int (*send)(struct uw_ethernet *e, const void *frame, uint32_t frame_bytes);

    /* Receive the next frame, if one has arrived. A frame that is damaged or larger than cap_bytes
     * is dropped and counted.
     * Returns its size in bytes, UW_ERR_AGAIN, UW_ERR_IO. */
    int (*recv)(struct uw_ethernet *e, void *frame, uint32_t cap_bytes);

    /* Is there a carrier? (optional: NULL means always) */
    bool (*carrier)(struct uw_ethernet *e);
};

struct uw_ethernet {
    const struct uw_ethernet_ops *ops;
    uint32_t burst_bytes;           /* size of the controller's receive memory, in payload of UDP
                                       messages that may arrive between two calls of recv */
    uint32_t burst_n;               /* the same, in frames of any size; 0: unlimited */
    uint64_t dropped_n;             /* frames lost in the controller or the driver */
};

#endif
