/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/radio_bus.h - a radio over one serial line with many stations: RS-485, a wired OR, or
 * pseudo terminals that a program joins
 *
 * Frames are those of uwasa/serial_frames.h, with two addresses before the payload. Every station
 * receives all frames and keeps those to its address. Echoes of its own frames are skipped.
 *
 * One station sends at a time. Before a frame, a station waits until the line has been silent for
 * one to four slots, drawn at random, since the last frame. It waits for the end of a frame that
 * another station has begun, but at most 20 ms and a slot. It writes its own frame without a pause.
 * Two frames collide only if they begin before either station receives the other's; both are lost.
 * There is no acknowledgement. A station that polls seldom needs a longer slot. Emulated at 115200
 * bit/s: two stations that always have a frame of up to 120 bytes lose 7 % of them, four lose 15 %;
 * a station that only answers loses none (build/tests/fault/test_radio_bus prints it).
 *
 * On the line  contents of a frame: to, from (2 bytes each, little-endian), payload. The CRC starts
 *              at UW_RADIO_BUS_CRC_START, so that uwasa/link_serial.h rejects the frames
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
    uint32_t slot_us;           /* 0: the time of 8 bytes, at least 300 us */
    uint64_t seed;              /* of the random slots, combined with the address */
};

struct uw_radio_bus {
    struct uw_radio base;
    struct uw_serial_frames frames;
    struct uw_rng rng;
    uint64_t now_us;
    uint64_t heard_us;          /* last activity on the line */
    uint64_t free_us;           /* this station may begin a frame from then on */
    uint32_t slot_us;
    int32_t taken;              /* size of contents in frames.frame for recv; -1: none */
    bool begun;                 /* a frame of this station is being written */
    uint64_t dropped_n;         /* damaged or too long */
};

/* Bytes of memory; SIZE_MAX when the configuration is not allowed. */
size_t uw_radio_bus_bytes(const struct uw_radio_bus_config *config);

/* Set up over a stream that is open.
 *
 * Returns UW_OK, UW_ERR_INVALID (no stream, frame_bytes or address out of bounds), UW_ERR_NOMEM
 * (memory smaller than uw_radio_bus_bytes). */
int uw_radio_bus_init(struct uw_radio_bus *r, const struct uw_radio_bus_config *config);

UW_C_END
#endif
