/* SPDX-License-Identifier: Apache-2.0
 *
 * capture_kinds frames|datagrams >FILE - a capture with a message of each kind, as the encoders of
 * nodes write them, on a link of frames or another */
#include "wire/float_code.h"
#include "wire/message.h"

#include "uwasa/link_capture.h"
#include "uwasa/link_loopback.h"

#include <stdio.h>

#define MTU 1024u
#define FLOATS 25u

static _Alignas(64) unsigned char hub_memory[65536], capture_memory[MTU + 64u];
static uint8_t message[MTU];

static int write_record(void *arg, const void *record, uint32_t bytes)
{
    return fwrite(record, 1, bytes, arg) == bytes ? UW_OK : UW_ERR_IO;
}

static int write_wants(enum uw_wire_type type)
{
    const struct uw_short_wants head = {.model = 77, .mixed = 6};
    const struct uw_want wants[2] = {
        {.wanted = 0xff, .chunk_n = 28u | UW_WANT_CODED, .base = 0, .spread_us = 3200,
         .transfer = 9, .seq = 4},
        {.wanted = 5, .chunk_n = 28u | UW_WANT_CODED, .base = 64, .spread_us = 3200,
         .transfer = 9, .seq = 5}};
    return uw_message_write_short_wants(type, &head, wants, 2, message);
}

static int write_coded(const struct uw_data *d, const float *x)
{
    struct uw_data none = *d;
    none.count_n = 0;
    int bytes = uw_message_encode_short_data(&none, 3, x, message, MTU);
    message[0] = uw_wire_first(UW_WIRE_DATA_CODED);
    return bytes + uw_float_encode(x, FLOATS, message + bytes, MTU - (uint32_t)bytes);
}

/* The message of a type. Returns its bytes. */
static int write_kind(bool frames, enum uw_wire_type type, const float *x)
{
    const struct uw_data d = {.run = 1, .transfer = 9, .seq = 4, .version = 7, .offset_n = 75,
                              .count_n = FLOATS};
    const struct uw_cast_chunk cast = {.turn = 2, .tag = 11, .chunk = 3, .count_n = FLOATS};
    switch (type) {
    case UW_WIRE_DATA:
        return frames ? uw_message_encode_short_data(&d, 3, x, message, MTU)
                      : uw_message_encode_data(&d, x, message, MTU);
    case UW_WIRE_WANT:
    case UW_WIRE_CAST_WANT:
        if (frames) {
            return write_wants(type);
        }
        break;
    case UW_WIRE_CAST: return uw_message_write_cast(&cast, x, message, MTU);
    case UW_WIRE_DATA_CODED: return write_coded(&d, x);
    default: break;
    }
    if (frames) {
        message[0] = uw_wire_first(type);
    } else {
        uw_wire_seal(message, type, 40);
    }
    return 40;
}

int main(int argc, char **argv)
{
    bool frames = argc > 1 && strcmp(argv[1], "frames") == 0;
    struct uw_loopback_hub hub;
    struct uw_link_loopback link;
    struct uw_link_capture capture;
    float x[FLOATS];
    for (uint32_t i = 0; i < FLOATS; i++) {
        x[i] = i == 0 ? 1e-9f : (i % 2u != 0 ? 0.75f : -0.3f);
    }
    const struct uw_loopback_config config = {.endpoints_n = 2, .mtu_bytes = MTU, .queue_n = 16,
                                              .memory = hub_memory,
                                              .memory_bytes = sizeof hub_memory};
    const struct uw_link_capture_config wanted = {
        .lower = &link.link, .write = write_record, .arg = stdout, .memory = capture_memory,
        .memory_bytes = sizeof capture_memory};
    if (uw_loopback_hub_init(&hub, &config) < 0 || uw_link_loopback_init(&link, &hub, 0) < 0) {
        return 1;
    }
    link.link.frames = frames;
    if (uw_link_capture_init(&capture, &wanted) < 0) {
        return 1;
    }
    int rc = UW_OK;
    for (uint32_t type = UW_WIRE_REVOKED; rc >= 0 && type <= UW_WIRE_DATA_CODED; type++) {
        if (frames ? type != UW_WIRE_REVOKED : type < UW_WIRE_CAST) {
            rc = write_kind(frames, (enum uw_wire_type)type, x);
            rc = rc < 0 ? rc : uw_link_send(&capture.link, 1, message, (uint32_t)rc);
        }
    }
    uw_link_deinit(&capture.link);
    uw_link_deinit(&link.link);
    return rc < 0 || fflush(stdout) != 0;
}
