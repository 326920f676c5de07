/* SPDX-License-Identifier: Apache-2.0 */
#include "node_state.h"

#define SEND_RETRY_US 500u

void uw_node_serve_step(struct uw_node_state *s, uint32_t most)
{
    struct uw_serve_item item;
    for (uint32_t i = 0; i < most && uw_serve_next(&s->serve, s->now_us, &item); i++) {
        struct uw_snapshot_info info;
        if (uw_snapshot_read(s->config.snapshot, item.offset_n, item.count_n, s->chunk, &info) !=
            UW_OK) {
            s->blocked = true;
            return;
        }
        const struct uw_data d = {
            .run = s->run, .transfer = item.transfer, .seq = item.seq, .version = info.version,
            .offset_n = item.offset_n, .count_n = (uint16_t)item.count_n};
        int bytes = uw_message_encode_data(&d, s->chunk, s->buffer, s->buffer_bytes);
        int rc = bytes < 0 ? bytes
                           : uw_link_send(s->config.link, item.station, s->buffer,
                                          (uint32_t)bytes);
        if (rc == UW_ERR_AGAIN) {
            uw_serve_blocked(&s->serve, &item, s->now_us + SEND_RETRY_US);
            continue;
        }
        uw_serve_sent(&s->serve, &item);
        if (rc == UW_OK) {
            s->counters.sent_bytes += (uint32_t)bytes;
            s->counters.served_bytes += item.count_n * 4u;
        }
    }
}
