/* SPDX-License-Identifier: Apache-2.0 */
#include "node_pull.h"

const float *uw_node_look(struct uw_node_state *s, uint32_t offset_n, uint32_t count_n,
                          uint32_t *version)
{
    struct uw_snapshot *snapshot = s->config.snapshot;
    if (snapshot == NULL) {
        *version = (uint32_t)atomic_load_explicit(&s->gossip.version, memory_order_relaxed);
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
        const float *x = uw_node_look(s, item.offset_n, item.count_n, &version);
        if (x == NULL) {
            s->blocked = true;
            return;
        }
        const struct uw_data d = {
            .run = s->run, .transfer = item.transfer, .seq = item.seq, .version = version,
            .offset_n = item.offset_n, .count_n = (uint16_t)item.count_n};
        int bytes = write_chunk(s, &item, &d, x);
        /* Chunks do not keep the link from what a node has to say or to ask. */
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
