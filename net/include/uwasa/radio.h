/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/radio.h - frames on a medium that many share: 802.15.4, BLE, ESP-NOW, LoRa, RS-485
 * (implemented by a board)
 *
 * What uwasa/link_frame.h needs of a driver. A driver embeds struct uw_radio as its first member.
 * Frames may be lost, repeated, reordered and damaged; their borders are kept. A station has a
 * short address, the same for everybody, unique among those who hear each other: secure frames
 * (uwasa/secure_frames.h) say so when it is not.
 *
 * Units      bytes of payload: what the radio's own headers leave; _us microseconds
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
#define UW_RADIO_ALL 0xfffeu            /* as an address: everybody who hears it */
#define UW_RADIO_ADDRESS_MAX 0xfffdu    /* the largest of one station */

struct uw_radio;

struct uw_radio_ops {
    const char *name;               /* "802154", "bus" */

    /* Hand over one frame, to a short address or UW_RADIO_ALL. It is copied or sent before return.
     * Returns UW_OK (accepted, not: arrived), UW_ERR_AGAIN (busy, try later), UW_ERR_TOOBIG (above
     * frame_bytes), UW_ERR_UNSUPPORTED (to all, without broadcasts), UW_ERR_CLOSED, UW_ERR_IO. */
    int (*send)(struct uw_radio *r, uint16_t to, const void *frame, uint32_t frame_bytes);

    /* Take the next frame that is for this station, or for all. One to all from this station's own
     * address comes too: what it sent itself, where it hears that, and what another station sent to
     * which the same address was given.
     *   from   a station's address, up to UW_RADIO_ADDRESS_MAX
     *   frame  written only on success
     * A frame larger than cap_bytes is dropped and reported once.
     * Returns its bytes, UW_ERR_AGAIN (none), UW_ERR_TOOBIG, UW_ERR_CLOSED, UW_ERR_IO. */
    int (*recv)(struct uw_radio *r, uint16_t *from, void *frame, uint32_t cap_bytes);

    /* For how long a frame of so many bytes takes the medium: with preamble, headers and what the
     * radio's own acknowledgement takes, without access_us. The duty cycle is charged with it.
     * 0: not known, taken to be nothing. */
    uint64_t (*airtime_us)(const struct uw_radio *r, uint32_t frame_bytes);

    /* (optional: NULL means that nothing is ever due) Do what is due.
     * Returns when it wants to be called again, UINT64_MAX: only when a frame arrives. */
    uint64_t (*step)(struct uw_radio *r, uint64_t now_us);
};

struct uw_radio {
    const struct uw_radio_ops *ops;
    uint32_t frame_bytes;           /* of the largest frame, UW_RADIO_FRAME_MIN to MAX; may change
                                       between calls, as where the data rate adapts */
    uint32_t duty_ppm;              /* the most of the time that it may send, in millionths, by
                                       law or for the battery's sake; 0: any */
    uint32_t access_us;             /* to get hold of the medium for a frame, on average, without
                                       sending: no part of the duty cycle, but of the rate that
                                       the link tells; may change between calls */
    uint32_t burst_n;               /* frames that may arrive before recv is called, without loss;
                                       0: not known, taken to be many */
    uint16_t address;               /* this station's, up to UW_RADIO_ADDRESS_MAX */
    bool broadcasts;                /* one frame reaches all */
    int fd;                         /* becomes readable when recv may succeed; -1: none, poll */
};

#endif
