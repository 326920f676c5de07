/* SPDX-License-Identifier: Apache-2.0
 *
 * radio_world.h - worlds of gossip_world.h whose nodes share a radio channel, behind secure frames
 *
 * The radio is 802.15.4's: 127 bytes, of which its own header and checksum take 11, and 6 bytes
 * before each frame; 250 kbit/s for everybody together; each receiver loses frames on its own. Or
 * it is one of radio_profile.h, with its duty cycle. */
#ifndef UWASA_TESTS_RADIO_WORLD_H
#define UWASA_TESTS_RADIO_WORLD_H

#include "fault/gossip_world.h"

#include "uwasa/link_frame.h"
#include "uwasa/radio_link.h"
#include "uwasa/radio_profile.h"
#include "uwasa/secure_frames.h"

#define RADIO_FRAME_BYTES 127u
#define RADIO_MAC_BYTES 11u
#define RADIO_PHY_BYTES 6u
#define RADIO_BITS_PER_S 250000u
#define RADIO_QUEUE 3u

/* What a node's link is made of. */
struct radio_link {
    struct uw_radio_link radio;         /* of a profile */
    struct uw_link_frame frame;
    struct uw_secure_frames frames;
    void *memory;
    struct uw_storage *store;
    uint64_t id;
};

struct radio_world {
    struct world *w;
    struct uw_emulated_medium medium;
    struct radio_link links[WORLD_MAX];
    uint8_t key[UW_KEY_BYTES];
    uint32_t epoch_frames, reserve_n;
    struct uw_radio_profile profile;    /* frame_bytes 0: none */
};

/* n nodes with vectors of size_n floats, not started: world_start(r->w). */
struct radio_world *radio_world_new(uint32_t n, uint32_t size_n, float loss);

/* The same over the radio of a profile, "lora:SF7". */
struct radio_world *radio_world_of(const char *profile, uint32_t n, uint32_t size_n, float loss);

void radio_world_free(struct radio_world *r);

/* No frame of node i is taken for now, as where its share of the air is used up; or it is again. */
void radio_jam(struct radio_world *r, uint32_t i, bool jam);

/* Node i's radio carries frames of so many bytes now, its own header included. */
void radio_narrow(struct radio_world *r, uint32_t i, uint32_t frame_bytes);

/* All radios, which are of a profile, go on as those of another one, "lora:SF10": as where the data
 * rate adapts. The duty cycle stays. */
void radio_adapt(struct radio_world *r, const char *profile);

/* Frames' bytes that the air could have carried in that time, back to back. */
double radio_capacity_bytes(uint64_t us);

#endif
