/* SPDX-License-Identifier: Apache-2.0
 *
 * Sent messages, and the chunks that peers requested. */
#include "node_pull.h"

#include "uwasa/node_says.h"

#include <string.h>

#define LATE_LEAST_US 250000u
#define LATE_MESSAGES 16u           /* messages that may be sent before a late one */

int uw_node_send(struct uw_node_state *s, uint16_t station, enum uw_wire_type type,
                 const struct uw_message_form *form, const void *body)
{
    int bytes = uw_message_write(s->config.link->frames, type, form, body, s->buffer,
                                 s->buffer_bytes);
    return bytes < 0 ? bytes : uw_node_send_buffer(s, station, (uint32_t)bytes);
}

static int send_bytes(struct uw_node_state *s, uint16_t station, const uint8_t *buf,
                      uint32_t bytes)
{
    int rc = uw_link_send(s->config.link, station, buf, bytes);
    if (rc == UW_OK) {
        s->counters.sent_bytes += bytes;
    }
    return rc;
}

/* A message to a station that the link does not reach would block all others: it is lost after a
 * while. */
bool uw_node_sent_late(struct uw_node_state *s)
{
    if (s->late_bytes != 0 &&
        (send_bytes(s, s->late_station, s->late, s->late_bytes) != UW_ERR_AGAIN ||
         s->now_us >= s->late_until_us)) {
        s->late_bytes = 0;
    }
    return s->late_bytes == 0;
}

/* Time until a busy link sends a message. */
static uint64_t late_us(const struct uw_link *l)
{
    uint64_t bits = (uint64_t)LATE_MESSAGES * l->mtu_bytes * 8u;
    return LATE_LEAST_US + (l->rate_bits_per_s != 0 ? bits * 1000000u / l->rate_bits_per_s : 0);
}

/* A message to a lost member must not block messages to others. */
static bool is_there(struct uw_node_state *s, uint16_t station)
{
    const struct uw_member *m = uw_membership_at(&s->membership, station);
    return station == UW_LINK_STATION_BROADCAST
               ? uw_membership_alive(&s->membership) != 0
               : m != NULL && uw_member_is_live(m);
}

/* A message that a busy link refuses waits: a lost want would cost a timeout. */
int uw_node_send_buffer(struct uw_node_state *s, uint16_t station, uint32_t bytes)
{
    if (!uw_node_sent_late(s)) {
        return UW_ERR_AGAIN;
    }
    int rc = send_bytes(s, station, s->buffer, bytes);
    if (rc == UW_ERR_AGAIN && s->late != NULL && is_there(s, station)) {
        memcpy(s->late, s->buffer, bytes);
        s->late_bytes = bytes;
        s->late_station = station;
        s->late_until_us = s->now_us + late_us(s->config.link);
        return UW_OK;
    }
    return rc;
}

const float *uw_node_read_shown(struct uw_node_state *s, uint32_t offset_n, uint32_t count_n,
                                uint32_t *version)
{
    struct uw_snapshot *snapshot = s->config.snapshot;
    if (snapshot == NULL) {
        *version = uw_load(&s->gossip.version);
        return uw_gossip_shows(&s->gossip) ? s->config.params->x + offset_n : NULL;
    }
    struct uw_snapshot_info info = {0};
    int rc = uw_snapshot_read(snapshot, offset_n, count_n, s->chunk, &info);
    *version = info.version;
    return rc == UW_OK ? s->chunk : NULL;
}

static int write_chunk(struct uw_node_state *s, struct uw_serve_item *item,
                       const struct uw_data *d, const float *x)
{
    if (item->coded) {
        return s->config.parts->codes->write(item, d, x, s->buffer, s->buffer_bytes);
    }
    return s->config.link->frames
               ? s->config.parts->frames->write_data(d, item->chunk, x, s->buffer,
                                                     s->buffer_bytes)
               : uw_message_encode_data(d, x, s->buffer, s->buffer_bytes);
}

void uw_node_serve_step(struct uw_node_state *s, uint32_t most)
{
    struct uw_serve_item item;
    for (uint32_t i = 0; i < most && uw_serve_next(&s->serve, s->now_us, &item); i++) {
        uint32_t version;
        const struct uw_member *m = uw_membership_at(&s->membership, item.station);
        uint64_t from_us =
            m != NULL ? uw_membership_window(&s->membership, m, s->outer_us).from_us : 0;
        if (from_us > s->outer_us) {
            from_us = uw_min_u64(from_us, s->awake_until_us);
            uw_serve_blocked(&s->serve, &item, from_us - s->slept_us);
            continue;
        }
        const float *x = uw_node_read_shown(s, item.offset_n, item.count_n, &version);
        if (x == NULL) {
            s->blocked = true;
            return;
        }
        const struct uw_data d = {
            .run = s->run, .transfer = item.transfer, .seq = item.seq, .version = version,
            .offset_n = item.offset_n, .count_n = (uint16_t)item.count_n};
        int bytes = write_chunk(s, &item, &d, x);
        /* Control messages go before chunks. */
        int rc = bytes < 0            ? bytes
                 : s->late_bytes != 0 ? UW_ERR_AGAIN
                                      : uw_link_send(s->config.link, item.station, s->buffer,
                                                     (uint32_t)bytes);
        if (rc == UW_ERR_AGAIN) {
            uw_serve_blocked(&s->serve, &item, s->now_us + uw_node_retry_us(s));
            continue;
        }
        uw_serve_sent(&s->serve, &item);
        if (rc == UW_OK) {
            s->counters.sent_bytes += (uint32_t)bytes;
            s->counters.served_bytes += item.more ? 0 : item.count_n * 4u;
        }
    }
}

enum uw_node_says uw_node_says(const void *message)
{
    switch (*(const uint8_t *)message & 0x0fu) {
    case UW_WIRE_DATA:
    case UW_WIRE_DATA_CODED:
    case UW_WIRE_CAST:
        return UW_NODE_SAYS_DATA;
    case UW_WIRE_HELLO:
    case UW_WIRE_PING:
    case UW_WIRE_ACK:
    case UW_WIRE_GOODBYE:
        return UW_NODE_SAYS_MEMBERSHIP;
    default:
        return UW_NODE_SAYS_CONTROL;
    }
}
