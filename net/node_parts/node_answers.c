/* SPDX-License-Identifier: Apache-2.0 */
#include "node/node_pull.h"

#include "status/status_rows.h"

#define ROWS_MAX (sizeof((uwasa_StatusReply *)0)->rows / sizeof(uwasa_Row))

static int place(struct uw_node_state *s, struct uw_arena *arena)
{
    void *reply = NULL;
    int rc = uw_arena_take(arena, sizeof *s->reply, &reply);
    s->reply = reply;
    return rc;
}

/* Answer with rows of the member table, as many as fit, or with the counters after the last. */
static void answer(struct uw_node_state *s, uint16_t station, const uwasa_StatusRequest *request)
{
    uint32_t total = s->membership.members_n;
    uwasa_StatusReply *r = s->reply;
    *r = (uwasa_StatusReply){
        .run = s->run, .seq = request->seq, .first = request->first, .total = total};
    if (request->first >= total) {
        struct uw_node_counters c;
        uw_node_count(s, &c);
        r->first = total;
        r->has_counters = true;
        uw_status_counters_to_wire(&c, &r->counters);
        uw_copy_text(r->kernels, s->config.kernels != NULL ? s->config.kernels : "",
                     sizeof r->kernels);
    }
    while (r->rows_count < ROWS_MAX && r->first + r->rows_count < total) {
        uw_node_fill_row(s, r->first + r->rows_count, s->outer_us, &r->rows[r->rows_count]);
        r->rows_count++;
    }
    while (uw_node_send(s, station, UW_WIRE_STATUS_REPLY, &uw_form_status_reply, r) ==
               UW_ERR_TOOBIG &&
           (r->rows_count > 1u || r->kernels[0] != '\0')) {
        if (r->rows_count > 1u) {
            r->rows_count--;
        }
        r->kernels[0] = '\0';
    }
}

static void message(struct uw_node_state *s, uint16_t station, uint32_t bytes)
{
    uwasa_StatusRequest request;
    if (uw_message_read(s->config.link->frames, &uw_form_status_request, s->in, bytes,
                        &request) < 0) {
        s->counters.refused_corrupt++;
    } else if (request.run != 0 && request.run != s->run) {
        s->counters.refused_run++;
        uw_node_refuse(s, station, uwasa_Reason_WRONG_RUN, 0);
    } else if (s->config.queries == NULL ||
               !s->config.parts->queries->message(s, station, &request, bytes)) {
        answer(s, station, &request);
    }
}

const struct uw_node_answers uw_node_answers = {.setup = {NULL, place}, .message = message};
