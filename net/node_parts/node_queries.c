/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/queries.h"

#include "node/node_pull.h"

#include "status/query_wire.h"

#include <string.h>

#define SILENT_US 2000000u          /* then another asker may have its turn */

/* COMING: the network writes the sample. ASKED: the program owns it. ANSWERED: the network reads
 * the numbers. */
enum { FREE, COMING, ASKED, ANSWERED };

bool uw_queries_next(const struct uw_queries *q)
{
    return atomic_load_explicit(&q->state, memory_order_acquire) == ASKED;
}

void uw_queries_answer(struct uw_queries *q)
{
    atomic_store_explicit(&q->state, ANSWERED, memory_order_release);
}

/* Whether the question may take the place of the one before. */
static bool is_free(const struct uw_node_state *s, const struct uw_queries *q, uint32_t state,
                    uint16_t station)
{
    bool over = state == FREE || station == q->station || s->outer_us >= q->until_us;
    return over && state != ASKED;
}

/* Take a part of the sample. */
static void take(struct uw_queries *q, const uwasa_Query *m)
{
    uint32_t n = m->sample.size / 4u;
    if (m->at != q->arrived_n || n > q->sample_n - q->arrived_n) {
        return;
    }
    uw_get_floats(q->sample + q->arrived_n, m->sample.bytes, n);
    q->arrived_n += n;
    if (q->arrived_n == q->sample_n) {
        atomic_store_explicit(&q->state, ASKED, memory_order_release);
    }
}

/* The part of the text that is asked for. */
static void tell_text(const struct uw_queries *q, uint32_t at, uint32_t most, uwasa_QueryReply *r)
{
    if (at < q->text_n) {
        uint32_t n = uw_min_u32(q->text_n - at, most);
        r->text_at = at;
        memcpy(r->text.bytes, q->text + at, n);
        r->text.size = (pb_size_t)n;
    }
}

static bool message(struct uw_node_state *s, uint16_t station, const uwasa_StatusRequest *request,
                    uint32_t bytes)
{
    static const uwasa_Query none = uwasa_Query_init_default;
    struct uw_queries *q = s->config.queries;
    uwasa_Query m = none;
    if (uw_message_read(s->config.link->frames, &uw_form_query, s->in, bytes, &m) < 0 ||
        m.number == 0) {
        return false;
    }
    uint32_t state = atomic_load_explicit(&q->state, memory_order_acquire);
    bool mine = state != FREE && station == q->station && m.number == q->number;
    if (!mine && m.sample.size != 0 && is_free(s, q, state, station)) {
        q->station = station;
        q->number = m.number;
        q->arrived_n = 0;
        atomic_store_explicit(&q->state, COMING, memory_order_relaxed);
        state = COMING;
        mine = true;
    }
    if (mine) {
        q->until_us = s->outer_us + SILENT_US;
    }
    if (mine && state == COMING) {
        take(q, &m);
    }
    const uwasa_StatusReply reply = {.run = s->run, .seq = request->seq};
    uwasa_QueryReply r = {.number = m.number, .sample_n = q->sample_n, .numbers_n = q->numbers_n,
                          .form = q->form, .threshold = q->threshold,
                          .arrived = mine ? q->arrived_n : 0, .from = m.from,
                          .text_n = q->text_n};
    if (mine && state == ANSWERED && m.from < q->numbers_n) {
        uint32_t n = uw_min_u32(q->numbers_n - m.from, uw_query_part_n(uw_node_mtu(s)));
        uw_put_floats(r.numbers.bytes, q->numbers + m.from, n);
        r.numbers.size = (pb_size_t)(n * 4u);
        if (n == q->numbers_n - m.from) {   /* should it be lost, the question is asked again */
            q->until_us = s->outer_us;
        }
    }
    if (m.text != 0 && r.numbers.size == 0) {
        tell_text(q, m.text - 1u, 4u * uw_query_part_n(uw_node_mtu(s)), &r);
    }
    int sent = uw_message_write(s->config.link->frames, UW_WIRE_STATUS_REPLY,
                                &uw_form_status_reply, &reply, s->buffer, s->buffer_bytes);
    sent = sent < 0 ? sent : uw_message_append(s->config.link->frames, &uw_form_query_reply, &r,
                                               s->buffer, (uint32_t)sent, s->buffer_bytes);
    if (sent > 0) {
        (void)uw_node_send_buffer(s, station, (uint32_t)sent);
    }
    return true;
}

const struct uw_node_queries uw_node_queries = {.message = message};
