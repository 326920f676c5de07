/* SPDX-License-Identifier: Apache-2.0
 *
 * Short forms of the most frequent messages, for links of frames. */
#include "message.h"

#define WANT_HEAD_BYTES 15u
#define WANT_BYTES 11u
#define SPREAD_UNIT_US 16u
#define VERSIONS_LATE 64u           /* most versions between a chunk and its peer's last report */

/* Write a chunk number with four more bits, then the floats. */
static int write_chunk(enum uw_wire_type type, uint8_t version, uint32_t chunk, uint32_t bits,
                       const float *floats, uint32_t n, void *buf, uint32_t cap_bytes)
{
    uint32_t bytes = UW_WIRE_SHORT_DATA_BYTES + n * 4u;
    if (cap_bytes < bytes) {
        return UW_ERR_TOOBIG;
    }
    uint8_t *p = buf;
    p[0] = uw_wire_first(type);
    p[1] = version;
    uw_put_u24(p + 2, chunk | bits * UW_WIRE_SHORT_CHUNKS);
    uw_put_floats(p + UW_WIRE_SHORT_DATA_BYTES, floats, n);
    return (int)bytes;
}

int uw_message_encode_short_data(const struct uw_data *d, uint32_t chunk, const float *floats,
                                 void *buf, uint32_t cap_bytes)
{
    return write_chunk(UW_WIRE_DATA, (uint8_t)d->version, chunk & (UW_WIRE_SHORT_CHUNKS - 1u),
                       d->seq % UW_WIRE_SHORT_SEQS, floats, d->count_n, buf, cap_bytes);
}

int uw_message_read_short_data(const void *buf, uint32_t buf_bytes,
                               const struct uw_short_data *known, struct uw_data *d)
{
    const uint8_t *p = buf;
    if (buf_bytes <= UW_WIRE_SHORT_DATA_BYTES ||
        (buf_bytes - UW_WIRE_SHORT_DATA_BYTES) % 4u != 0) {
        return UW_ERR_CORRUPT;
    }
    uint32_t both = uw_get_u24(p + 2), chunk = both % UW_WIRE_SHORT_CHUNKS;
    uint32_t back = (known->seq - both / UW_WIRE_SHORT_CHUNKS) % UW_WIRE_SHORT_SEQS;
    uint32_t oldest = known->version > VERSIONS_LATE ? known->version - VERSIONS_LATE : 0;
    *d = (struct uw_data){
        .transfer = (uint16_t)(known->transfer + (back >= known->asked_n)),
        .seq = (uint16_t)(known->seq - back),
        .version = oldest + (uint8_t)(p[1] - oldest),
        .offset_n = chunk * known->chunk_n,
        .count_n = (uint16_t)((buf_bytes - UW_WIRE_SHORT_DATA_BYTES) / 4u),
        .floats = p + UW_WIRE_SHORT_DATA_BYTES,
    };
    return known->chunk_n != 0 && chunk <= UINT32_MAX / known->chunk_n ? UW_OK : UW_ERR_CORRUPT;
}

uint32_t uw_message_short_wants(uint32_t cap_bytes)
{
    uint32_t n = cap_bytes < WANT_HEAD_BYTES ? 0 : (cap_bytes - WANT_HEAD_BYTES) / WANT_BYTES;
    return n < UW_SHORT_WANTS_MOST ? n : UW_SHORT_WANTS_MOST;
}

int uw_message_write_short_wants(enum uw_wire_type type, const struct uw_short_wants *head,
                                 const struct uw_want *wants, uint32_t n, void *buf)
{
    uint8_t *p = buf;
    uint32_t spread = wants[0].spread_us / SPREAD_UNIT_US;
    p[0] = uw_wire_first(type);
    p[1] = (uint8_t)wants[0].transfer;
    p[2] = (uint8_t)wants[0].seq;
    uw_put_u16(p + 3, wants[0].chunk_n);
    uw_put_u16(p + 5, spread < UINT16_MAX ? spread : UINT16_MAX);
    uw_put_u32(p + 7, head->model);
    uw_put_u32(p + 11, head->mixed);
    for (uint32_t i = 0; i < n; i++) {
        uint8_t *want = p + WANT_HEAD_BYTES + i * WANT_BYTES;
        uw_put_u24(want, wants[i].base);
        uw_put_u64(want + 3, wants[i].wanted);
    }
    return (int)(WANT_HEAD_BYTES + n * WANT_BYTES);
}

int uw_message_read_short_wants(const void *buf, uint32_t buf_bytes, struct uw_short_wants *head,
                                struct uw_want wants[UW_SHORT_WANTS_MOST])
{
    const uint8_t *p = buf;
    uint32_t n = buf_bytes < WANT_HEAD_BYTES ? 0 : (buf_bytes - WANT_HEAD_BYTES) / WANT_BYTES;
    if (n == 0 || n > UW_SHORT_WANTS_MOST || buf_bytes != WANT_HEAD_BYTES + n * WANT_BYTES) {
        return UW_ERR_CORRUPT;
    }
    *head = (struct uw_short_wants){.model = uw_get_u32(p + 7), .mixed = uw_get_u32(p + 11)};
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *want = p + WANT_HEAD_BYTES + i * WANT_BYTES;
        wants[i] = (struct uw_want){
            .wanted = uw_get_u64(want + 3),
            .chunk_n = uw_get_u16(p + 3),
            .base = uw_get_u24(want),
            .spread_us = uw_get_u16(p + 5) * SPREAD_UNIT_US,
            .transfer = p[1],
            .seq = (uint16_t)(p[2] + i),
        };
        if (wants[i].wanted == 0 || wants[i].chunk_n == 0) {
            return UW_ERR_CORRUPT;
        }
    }
    return (int)n;
}

int uw_message_write_cast(const struct uw_cast_chunk *head, const float *floats, void *buf,
                          uint32_t cap_bytes)
{
    return write_chunk(UW_WIRE_CAST, head->turn, head->chunk, head->tag, floats, head->count_n, buf,
                       cap_bytes);
}

int uw_message_read_cast(const void *buf, uint32_t buf_bytes, struct uw_cast_chunk *chunk)
{
    const uint8_t *p = buf;
    if (buf_bytes < UW_WIRE_SHORT_DATA_BYTES ||
        (buf_bytes - UW_WIRE_SHORT_DATA_BYTES) % 4u != 0) {
        return UW_ERR_CORRUPT;
    }
    uint32_t both = uw_get_u24(p + 2);
    *chunk = (struct uw_cast_chunk){
        .turn = p[1], .tag = (uint8_t)(both / UW_WIRE_SHORT_CHUNKS),
        .chunk = both % UW_WIRE_SHORT_CHUNKS,
        .count_n = (buf_bytes - UW_WIRE_SHORT_DATA_BYTES) / 4u,
        .floats = p + UW_WIRE_SHORT_DATA_BYTES};
    return UW_OK;
}
