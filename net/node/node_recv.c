/* SPDX-License-Identifier: Apache-2.0 */
#include "node_pull.h"

#include <string.h>

void uw_node_refuse(struct uw_node_state *s, uint16_t station, uwasa_Reason reason,
                    uint32_t transfer)
{
    s->message->refuse = (uwasa_Refuse){.run = s->run, .reason = reason, .model = s->model,
                                   .transfer = transfer, .chunk_n = uw_node_chunk_n(s)};
    if (!s->config.link->frames) {
        uw_copy_text(s->message->refuse.name, s->config.name, sizeof s->message->refuse.name);
    }
    (void)uw_node_send(s, station, UW_WIRE_REFUSE, &uw_form_refuse, s->message);
}

/* May this device serve a want? If not, sends a refusal. */
static bool serves(struct uw_node_state *s, uint16_t station, bool same_model, uint32_t mixed,
                   const struct uw_want *w)
{
    uint32_t version = uw_load(&s->gossip.version);
    uwasa_Reason reason = uwasa_Reason_NONE;
    (void)s->members->heard(&s->membership, station, s->outer_us);
    if (!same_model) {
        s->counters.refused_model++;
        reason = uwasa_Reason_WRONG_MODEL;
    } else if (uw_want_chunk_n(w) > uw_node_most_n(s, (w->chunk_n & UW_WANT_CODED) != 0)) {
        reason = uwasa_Reason_CHUNK_TOO_BIG;
    } else if (s->left || !uw_gossip_shows(&s->gossip)) {
        reason = uwasa_Reason_NOT_READY;
    } else if (mixed != 0 && mixed == version) {
        reason = uwasa_Reason_MIXED;
    }
    if (reason != uwasa_Reason_NONE) {
        uw_node_refuse(s, station, reason, w->transfer);
    }
    return reason == uwasa_Reason_NONE;
}

static void serve(struct uw_node_state *s, uint16_t station, const struct uw_want *want)
{
    if (uw_serve_add(&s->serve, station, want, s->now_us) == UW_ERR_INVALID) {
        s->counters.refused_corrupt++;
    }
}

static void on_want(struct uw_node_state *s, uint16_t station, const uwasa_Want *w)
{
    const struct uw_want want = {
        .transfer = (uint16_t)w->transfer, .seq = (uint16_t)w->seq, .chunk_n = w->chunk_n,
        .base = w->base, .wanted = w->wanted, .spread_us = w->spread_us};
    if (w->run != s->run) {
        s->counters.refused_run++;
        uw_node_refuse(s, station, uwasa_Reason_WRONG_RUN, w->transfer);
    } else if (serves(s, station, w->model == s->model, 0, &want)) {
        serve(s, station, &want);
    }
}

static void on_short_wants(struct uw_node_state *s, uint16_t station, uint32_t bytes)
{
    struct uw_short_wants head;
    struct uw_want wants[UW_SHORT_WANTS_MOST];
    int n = s->config.parts->frames->read_wants(s->in, bytes, &head, wants);
    if (n < 0) {
        s->counters.refused_corrupt++;
    } else if (serves(s, station, head.model == (uint32_t)s->model, head.mixed, &wants[0])) {
        for (int i = 0; i < n; i++) {
            serve(s, station, &wants[i]);
        }
    }
}

static void on_refuse(struct uw_node_state *s, uint16_t station, const uwasa_Refuse *refuse)
{
    struct uw_member *m = uw_membership_at(&s->membership, station);
    switch (refuse->reason) {
    case uwasa_Reason_WRONG_RUN:
        uw_node_event_refused(s, UW_NODE_WRONG_RUN, station, &(struct uw_node_cause){.m = NULL});
        return;
    case uwasa_Reason_NAME_TAKEN:
        uw_node_event_refused(s, UW_NODE_NAME_TAKEN, station,
                              &(struct uw_node_cause){.m = m, .own = true});
        return;
    case uwasa_Reason_WRONG_MODEL:
        if (m != NULL && refuse->run == s->run) {
            m->same_model = false;
        }
        uw_node_event_refused(s, UW_NODE_WRONG_MODEL, station,
                              &(struct uw_node_cause){.m = m, .hash = refuse->model});
        break;
    case uwasa_Reason_CHUNK_TOO_BIG:
    case uwasa_Reason_NOT_READY:
    case uwasa_Reason_MIXED:
    case uwasa_Reason_NONE:
    default:
        break;
    }
    const struct uw_node_lane *lane = uw_node_pull_of(s, m);
    if (lane != NULL && lane->transfer.active && refuse->transfer == lane->transfer.transfer) {
        uw_node_pull_refused(s, m, refuse);
    }
}

/* Handle a control message of the node itself, or of an unknown type. */
static void handle_control(struct uw_node_state *s, uint16_t station, enum uw_wire_type type,
                           uint32_t bytes)
{
    union uw_node_message *in = s->message;
    bool frames = s->config.link->frames, wants = type == UW_WIRE_WANT;
    if (type == UW_WIRE_HELLO || type == UW_WIRE_PING || type == UW_WIRE_ACK ||
        type == UW_WIRE_GOODBYE) {
        if (s->members->message != NULL) {
            s->members->message(s, station, type, bytes);
        }
    } else if (!wants && type != UW_WIRE_REFUSE) {
        s->counters.unknown_messages++;
    } else if (frames && wants) {
        on_short_wants(s, station, bytes);
    } else if (uw_message_read(frames, wants ? &uw_form_want : &uw_form_refuse, s->in, bytes,
                               in) < 0) {
        s->counters.refused_corrupt++;
    } else if (wants) {
        on_want(s, station, &in->want);
    } else {
        on_refuse(s, station, &in->refuse);
    }
}

/* The state of a pull, to parse short chunks of this station. */
static struct uw_short_data known_of(struct uw_node_state *s, uint16_t station)
{
    const struct uw_member *m = uw_membership_at(&s->membership, station);
    const struct uw_node_lane *its = uw_node_pull_of(s, m);
    const struct uw_pull *t = its != NULL ? &its->transfer : &s->pull.first.transfer;
    uint32_t mixed = m != NULL ? uw_node_peer(s, m)->mixed_version : 0;
    uint32_t version = m != NULL && m->progress.version > mixed ? m->progress.version : mixed;
    return (struct uw_short_data){.chunk_n = t->chunk_n, .transfer = t->transfer,
                                  .seq = (uint16_t)(t->seq - 1u),
                                  .asked_n = (uint16_t)(t->seq - t->first_seq), .version = version,
                                  .coded = t->coded};
}

static int read_data(struct uw_node_state *s, uint16_t station, int type, uint32_t bytes,
                     struct uw_data *d)
{
    if (!s->config.link->frames) {
        return uw_message_read_data(s->in, bytes, d);
    }
    const struct uw_short_data known = known_of(s, station);
    if (known.coded) {
        return s->config.parts->codes->read(s->in, bytes, &known, s->config.params->size_n, d);
    }
    return type == UW_WIRE_DATA ? s->config.parts->frames->read_data(s->in, bytes, &known, d)
                                : UW_ERR_CORRUPT;
}

static void handle(struct uw_node_state *s, uint16_t station, uint32_t bytes)
{
    const struct uw_node_parts *parts = s->config.parts;
    enum uw_wire_type first = bytes != 0 ? (enum uw_wire_type)(s->in[0] & 15u) : 0;
    if (first == UW_WIRE_PART && parts->averages != NULL) {     /* they check the rest */
        parts->averages->message(s, station, first, bytes);
        return;
    }
    if (first == UW_WIRE_SHUFFLE && parts->samples != NULL) {
        parts->samples->message(s, station, bytes);
        return;
    }
    int type = uw_message_type(s->config.link->frames, s->in, bytes);
    bool is_data = type == UW_WIRE_DATA ||
                   (type == UW_WIRE_DATA_CODED && s->config.link->frames && s->config.code);
    bool is_cast = type == UW_WIRE_CAST || type == UW_WIRE_CAST_WANT;
    struct uw_data d;
    if (type == UW_ERR_UNSUPPORTED) {
        s->counters.unknown_messages++;
        const struct uw_node_cause c = {.m = uw_membership_at(&s->membership, station)};
        uw_node_event_refused(s, UW_NODE_WRONG_VERSION, station, &c);
    } else if (type < 0 ||
               (is_data && read_data(s, station, type, bytes, &d) < 0)) {
        s->counters.refused_corrupt++;
    } else if (is_data) {
        uw_node_pull_data(s, station, &d);
    } else if (is_cast && s->cast != NULL) {
        parts->casts->message(s, station, (enum uw_wire_type)type, bytes);
    } else if (type == UW_WIRE_REVOKED && s->config.keys != NULL) {
        parts->revokes->message(s, bytes);
    } else if (type == UW_WIRE_CELL && parts->averages != NULL) {
        parts->averages->message(s, station, UW_WIRE_CELL, bytes);
    } else if (type == UW_WIRE_STATUS_REQUEST && parts->answers != NULL) {
        parts->answers->message(s, station, bytes);
    } else {
        handle_control(s, station, (enum uw_wire_type)type, bytes);
    }
}

uint32_t uw_node_receive(struct uw_node_state *s, uint32_t most)
{
    for (uint32_t i = 0; i < most; i++) {
        uint16_t station = UW_LINK_STATION_NONE;
        void *view;
        int bytes = uw_link_recv_view(s->config.link, &station,
                                      uw_link_views(s->config.link) ? NULL : s->buffer,
                                      s->buffer_bytes, &view);
        if (bytes == UW_ERR_TOOBIG || bytes > (int64_t)s->buffer_bytes) {
            s->counters.refused_corrupt++;
            continue;
        }
        if (bytes < 0) {
            return i;
        }
        s->counters.received_bytes += (uint32_t)bytes;
        s->in = view;
        handle(s, station, (uint32_t)bytes);
    }
    return most;
}
