/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/status_client.h"

#include "message.h"
#include "status_rows.h"

#define TIMEOUT_US 5000000u
#define AGAIN_US 300000u
#define BUFFER_BYTES 2048u          /* the largest reply is smaller */

int uw_status_client_init(struct uw_status_client *c, struct uw_link *link, const char *address)
{
    *c = (struct uw_status_client){.link = link, .timeout_us = TIMEOUT_US};
    return uw_link_resolve(link, address, &c->station);
}

static void ask(struct uw_status_client *c, uint64_t now_us)
{
    struct uw_message m = {.type = UW_WIRE_STATUS_REQUEST};
    m.status_request = (uwasa_StatusRequest){.seq = c->seq, .first = c->first_n};
    uint8_t buf[64];
    int bytes = uw_message_encode(&m, buf, sizeof buf);
    if (bytes > 0) {
        (void)uw_link_send(c->link, c->station, buf, (uint32_t)bytes);
    }
    c->next_us = now_us + AGAIN_US;
}

/* Rows within the number of members that can be, or the end: else we would ask for ever. */
static bool leads_on(const uwasa_StatusReply *r)
{
    return r->has_counters || (r->rows_count != 0 && r->first < UW_NODE_MEMBERS_MAX);
}

/* Returns true when the reply was the last. */
static bool take(struct uw_status_client *c, const uwasa_StatusReply *r,
                 struct uw_node_member *rows, uint32_t cap_n, struct uw_node_counters *counters)
{
    c->total_n = r->total;
    for (pb_size_t i = 0; i < r->rows_count; i++) {
        if (c->first_n + i < cap_n) {
            uw_status_row(&r->rows[i], &rows[c->first_n + i]);
        }
    }
    c->first_n += r->rows_count;
    if (r->has_counters && counters != NULL) {
        uw_status_counters_from_wire(&r->counters, counters);
    }
    return r->has_counters;
}

int uw_status_client_step(struct uw_status_client *c, uint64_t now_us,
                          struct uw_node_member *rows, uint32_t cap_n,
                          struct uw_node_counters *counters)
{
    (void)uw_link_step(c->link, now_us);
    if (!c->started) {
        c->started = true;
        c->started_us = now_us;
        c->seq++;
        c->first_n = 0;
        ask(c, now_us);
    }
    uint8_t buf[BUFFER_BYTES];
    for (;;) {
        uint16_t from;
        int bytes = uw_link_recv(c->link, &from, buf, sizeof buf);
        if (bytes < 0 && bytes != UW_ERR_TOOBIG) {
            break;
        }
        struct uw_message m;
        if (bytes < 0 || from != c->station ||
            uw_message_decode(buf, (uint32_t)bytes, &m) != UW_OK ||
            m.type != UW_WIRE_STATUS_REPLY || m.status_reply.seq != c->seq ||
            m.status_reply.first != c->first_n || !leads_on(&m.status_reply)) {
            continue;
        }
        c->started_us = now_us;
        if (take(c, &m.status_reply, rows, cap_n, counters)) {
            c->started = false;
            return (int)(c->first_n < cap_n ? c->first_n : cap_n);
        }
        ask(c, now_us);
    }
    if (now_us - c->started_us >= c->timeout_us) {
        c->started = false;
        return UW_ERR_TIMEOUT;
    }
    if (now_us >= c->next_us) {
        ask(c, now_us);
    }
    return UW_ERR_AGAIN;
}
