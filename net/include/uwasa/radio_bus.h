/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/radio_bus.h - a radio made of one serial line with many stations: RS-485, a wired OR, or
 * pseudo terminals that a program joins
 *
 * Frames are those of uwasa/serial_frames.h, with two addresses before the payload; every station
 * hears all of them and takes its own. What a transceiver echoes of one's own is skipped.
 *
 * One station at a time may speak. Before a frame the line has to have been silent since the end of
 * the last one for a slot and up to three more, drawn at random; a frame that others have begun is
 * waited for, unless its end does not come for 20 ms and a slot. A frame once begun is written to
 * its end. So two collide only when they begin within the time in which neither hears the other,
 * and lose both frames; there is no acknowledgement here. Whoever polls seldom needs a longer slot.
 * Emulated, at 115200 bit/s: two stations that always have a frame of up to 120 bytes lose 7 % of
 * them, four 15 %; who only answers loses none (build/tests/fault/test_radio_bus prints it).
 *
 * On the line  contents of a frame: to, from (2 bytes each, little-endian), payload. CRC begun at
 *              UW_RADIO_BUS_CRC_START, so that an end of uwasa/link_serial.h hears nothing
 * Units      bytes of payload; microseconds
 * Memory     caller supplies uw_radio_bus_bytes(); that and the stream are borrowed
 * Blocking   never          Context  one thread per radio
 */
#ifndef UWASA_RADIO_BUS_H
#define UWASA_RADIO_BUS_H

#include "uwasa/cplusplus.h"
#include "uwasa/radio.h"
#include "uwasa/rng.h"
#include "uwasa/serial_frames.h"

UW_C_BEGIN

#define UW_RADIO_BUS_FRAME_DEFAULT 250u
#define UW_RADIO_BUS_CRC_START 0x6b1fd94eu

struct uw_radio_bus_config {
    struct uw_serial *serial;
    uint16_t address;
    void *memory;               /* aligned as from malloc or an arena */
    size_t memory_bytes;
    uint32_t frame_bytes;       /* 51 to 1280; 0: UW_RADIO_BUS_FRAME_DEFAULT. The same for all */
    uint32_t slot_us;           /* 0: 8 bytes of the line, at least 300 us */
    uint64_t seed;              /* of the random slots, with the address */
};

struct uw_radio_bus {
    struct uw_radio base;
    struct uw_serial_frames frames;
    struct uw_rng rng;
    uint64_t now_us;
    uint64_t heard_us;          /* when the line was last not silent */
    uint64_t free_us;           /* from when this station may begin */
    uint32_t slot_us;
    int32_t taken;              /* contents in frames.frame that recv has not asked for; -1: none */
    bool begun;                 /* a frame of this station is being written */
    uint64_t dropped_n;         /* damaged or too long */
};

/* Bytes of memory for a frame each way; SIZE_MAX when the configuration is not allowed. */
size_t uw_radio_bus_bytes(const struct uw_radio_bus_config *config);

/* Set up over a stream that is open.
 *
 * Returns UW_OK, UW_ERR_INVALID (no stream, frame_bytes or address out of bounds), UW_ERR_NOMEM
 * (memory smaller than uw_radio_bus_bytes). */
int uw_radio_bus_init(struct uw_radio_bus *r, const struct uw_radio_bus_config *config);

UW_C_END
#endif
