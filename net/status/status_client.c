/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/status_client.h"

#include "status_rows.h"
#include "wire/message.h"

#include <string.h>

_Static_assert(sizeof((uwasa_StatusReply *)0)->kernels == UW_NODE_KERNELS_BYTES, "one text");

#define TIMEOUT_US 5000000u
#define AGAIN_US 300000u
#define SOON_US 20000u              /* poll interval of a name lookup or a handshake */
#define BUFFER_BYTES 2048u          /* the largest reply is smaller */
#define RECEIVE_MOST 64u            /* messages received per call */

void uw_status_row(const uwasa_Row *row, struct uw_node_member *to)
{
    const uwasa_Peer *peer = &row->peer;
    const uwasa_Progress *p = &row->progress;
    *to = (struct uw_node_member){
        .state = (enum uw_member_state)peer->state,
        .incarnation = peer->incarnation,
        .step = p->step,
        .rounds = p->rounds,
        .version = p->version,
        .loss = p->loss,
        .accuracy = p->accuracy,
        .samples_per_s = p->samples_per_s,
        .pulled_bytes = p->pulled_bytes,
        .vitals = {.power_mw = p->power_mw,
                   .temperature_mc = p->temperature_mc,
                   .battery_percent = p->battery_percent},
        .still_s = p->still_s,
        .silent_us = row->silent_us,
        .rtt_us = row->rtt_us,
        .from_bytes = row->from_bytes,
        .refused_n = row->refused_n,
        .same_model = row->same_model,
        .release = p->release,
        .protocol = row->averaging.protocol,
    };
    memcpy(to->name, peer->name, sizeof to->name);
    memcpy(to->address, peer->address, sizeof to->address);
    memcpy(to->cell, row->averaging.cell, sizeof to->cell);
}

/* Both structs name their fields alike. */
#define COPY(field) to->field = from->field;

void uw_status_counters_to_wire(const struct uw_node_counters *from, uwasa_Counters *to)
{
    UW_NODE_COUNTERS(COPY)
}

int uw_status_client_init(struct uw_status_client *c, struct uw_link *link, const char *address)
{
    *c = (struct uw_status_client){.link = link, .address = address, .timeout_us = TIMEOUT_US,
                                   .station = UW_LINK_STATION_NONE};
    int rc = uw_link_resolve(link, address, &c->station);
    return rc != UW_ERR_AGAIN ? rc : UW_OK;
}

static void request(struct uw_status_client *c, uint64_t now_us)
{
    struct uw_message m = {.type = UW_WIRE_STATUS_REQUEST};
    m.status_request = (uwasa_StatusRequest){.seq = c->seq, .first = c->first_n};
    uint8_t buf[64];
    int bytes = uw_message_encode(&m, buf, sizeof buf);
    int rc = bytes > 0 ? uw_link_send(c->link, c->station, buf, (uint32_t)bytes) : bytes;
    c->next_us = now_us + (rc == UW_ERR_AGAIN ? SOON_US : AGAIN_US);
}

/* Is a reply valid: rows within the largest table, or the end? Others would repeat for ever. */
static bool leads_on(const uwasa_StatusReply *r)
{
    return r->has_counters || (r->rows_count != 0 && r->first < UW_NODE_MEMBERS_MAX);
}

static void take_counters(const uwasa_Counters *from, struct uw_node_counters *to)
{
    UW_NODE_COUNTERS(COPY)
}

/* Returns true when the reply was the last. */
static bool store_rows(struct uw_status_client *c, const uwasa_StatusReply *r,
                       struct uw_node_member *rows, uint32_t cap_n,
                       struct uw_node_counters *counters)
{
    c->total_n = r->total;
    for (pb_size_t i = 0; i < r->rows_count; i++) {
        if (c->first_n + i < cap_n) {
            uw_status_row(&r->rows[i], &rows[c->first_n + i]);
        }
    }
    c->first_n += r->rows_count;
    if (r->has_counters && counters != NULL) {
        take_counters(&r->counters, counters);
    }
    if (r->has_counters) {
        memcpy(c->kernels, r->kernels, sizeof c->kernels);
    }
    return r->has_counters;
}

/* Returns true when the table is complete. */
static bool receive(struct uw_status_client *c, uint64_t now_us, struct uw_node_member *rows,
                    uint32_t cap_n, struct uw_node_counters *counters)
{
    uint8_t buf[BUFFER_BYTES];
    for (uint32_t i = 0; i < RECEIVE_MOST; i++) {
        uint16_t from;
        struct uw_message m;
        int bytes = uw_link_recv(c->link, &from, buf, sizeof buf);
        if (bytes < 0 && bytes != UW_ERR_TOOBIG) {
            return false;
        }
        if (bytes < 0 || from != c->station) {
            continue;
        }
        int type = uw_message_type(false, buf, (uint32_t)bytes);
        if (uw_message_decode(buf, (uint32_t)bytes, &m) != UW_OK) {
            c->foreign = c->foreign || type == UW_WIRE_STATUS_REPLY || type == UW_ERR_UNSUPPORTED;
            continue;
        }
        if (m.type != UW_WIRE_STATUS_REPLY || m.status_reply.seq != c->seq ||
            m.status_reply.first != c->first_n || !leads_on(&m.status_reply)) {
            continue;
        }
        c->started_us = now_us;
        if (store_rows(c, &m.status_reply, rows, cap_n, counters)) {
            return true;
        }
        request(c, now_us);
    }
    return false;
}

static int locate(struct uw_status_client *c, uint64_t now_us)
{
    c->next_us = now_us + SOON_US;
    int rc = uw_link_resolve(c->link, c->address, &c->station);
    if (rc == UW_OK) {
        c->next_us = now_us;
    }
    return rc;
}

int uw_status_client_step(struct uw_status_client *c, uint64_t now_us,
                          struct uw_node_member *rows, uint32_t cap_n,
                          struct uw_node_counters *counters)
{
    (void)uw_link_step(c->link, now_us);
    if (!c->started) {
        c->started = true;
        c->foreign = false;
        c->started_us = now_us;
        c->seq++;
        c->first_n = 0;
        c->next_us = now_us;
    }
    int rc = c->station == UW_LINK_STATION_NONE ? locate(c, now_us) : UW_OK;
    if (rc == UW_OK && receive(c, now_us, rows, cap_n, counters)) {
        c->started = false;
        return (int)(c->first_n < cap_n ? c->first_n : cap_n);
    }
    if (rc < 0 && rc != UW_ERR_AGAIN) {
        c->started = false;
        return rc;
    }
    if (now_us - c->started_us >= c->timeout_us) {
        c->started = false;
        return c->foreign ? UW_ERR_UNSUPPORTED : UW_ERR_TIMEOUT;
    }
    if (rc == UW_OK && now_us >= c->next_us) {
        request(c, now_us);
    }
    return UW_ERR_AGAIN;
}
