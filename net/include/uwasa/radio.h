/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/radio.h - the driver interface of a radio or bus that stations share: 802.15.4, BLE,
 * ESP-NOW, LoRa, RS-485 (implemented by a board)
 *
 * Used by uwasa/link_frame.h. A driver embeds struct uw_radio as its first member. Frames may be
 * lost, repeated, reordered and damaged; their boundaries are kept. A station has a short address,
 * unique among the stations in range; secure frames (uwasa/secure_frames.h) report duplicates.
 *
 * Units      bytes of payload, without the radio's own headers; _us microseconds
 * Memory     caller owns the struct and the buffers; nothing is kept after return
 * Blocking   never          Context  one thread per radio
 */
#ifndef UWASA_RADIO_H
#define UWASA_RADIO_H

#include "uwasa/status.h"

#include <stdbool.h>
#include <stdint.h>

#define UW_RADIO_FRAME_MIN 51u
#define UW_RADIO_FRAME_MAX 1280u
#define UW_RADIO_ALL 0xfffeu            /* broadcast address */
#define UW_RADIO_ADDRESS_MAX 0xfffdu    /* largest address of a station */

struct uw_radio;

struct uw_radio_ops {
    const char *name;               /* "802154", "bus" */

    /* Send one frame to a short address or UW_RADIO_ALL. It is copied or sent before return.
     * Returns UW_OK (accepted, delivery not confirmed), UW_ERR_AGAIN (busy, try later),
     * UW_ERR_TOOBIG (above frame_bytes), UW_ERR_UNSUPPORTED (broadcast on a radio without it),
     * UW_ERR_CLOSED, UW_ERR_IO. */
    int (*send)(struct uw_radio *r, uint16_t to, const void *frame, uint32_t frame_bytes);

    /* Receive the next frame to this station or to all. Includes broadcasts from this station's own
     * address: its echoes, and frames of another station with the same address.
     *   from   a station's address, up to UW_RADIO_ADDRESS_MAX
     *   frame  written only on success
     * A frame larger than cap_bytes is dropped and reported once.
     * Returns its size in bytes, UW_ERR_AGAIN (none), UW_ERR_TOOBIG, UW_ERR_CLOSED, UW_ERR_IO. */
    int (*recv)(struct uw_radio *r, uint16_t *from, void *frame, uint32_t cap_bytes);

    /* Air time of a frame: preamble, headers and the radio's acknowledgement included, access_us
     * not. The duty cycle is charged with it. 0: not known, counts as none. */
    uint64_t (*airtime_us)(const struct uw_radio *r, uint32_t frame_bytes);

    /* (optional: NULL means that no work is ever due) Do what is due.
     * Returns the time of the next call, or UINT64_MAX: only when a frame arrives. */
    uint64_t (*step)(struct uw_radio *r, uint64_t now_us);
};

struct uw_radio {
    const struct uw_radio_ops *ops;
    uint32_t frame_bytes;           /* largest frame, UW_RADIO_FRAME_MIN to MAX; may change between
                                       calls, for example when the data rate adapts */
    uint32_t duty_ppm;              /* duty cycle in millionths, by law or to save the battery; 0:
                                       unlimited */
    uint32_t access_us;             /* average time to access the medium for a frame, without
                                       sending: not part of the duty cycle, but of the link's
                                       rate_bits_per_s; may change between calls */
    uint32_t burst_n;               /* frames that may arrive between two calls of recv without
                                       loss; 0: not known, assumed many */
    uint16_t address;               /* of this station, up to UW_RADIO_ADDRESS_MAX */
    bool broadcasts;                /* one frame reaches all stations in range */
    int fd;                         /* becomes readable when recv may succeed; -1: none, poll */
};

#endif
