/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/query_client.h"

#include "query_wire.h"

#include <string.h>

#define TIMEOUT_US 5000000u
#define AGAIN_US 300000u            /* a message or its reply may be lost */
#define SOON_US 20000u              /* a name lookup, a handshake */
#define LEAST_US 1000u              /* until the first look for an answer that is computed; then */
#define MOST_US 50000u              /* twice as long each time */
#define BUFFER_BYTES 2048u
#define RECEIVE_MOST 64u            /* messages received per call */
#define FLOATS_MOST (1u << 24)      /* of a sample, an answer or bytes of a text; more is no node */

_Static_assert(sizeof((uwasa_Query *)0)->sample.bytes == UW_QUERY_PART_N * 4u &&
                   sizeof((uwasa_QueryReply *)0)->numbers.bytes == UW_QUERY_PART_N * 4u &&
                   sizeof((uwasa_QueryReply *)0)->text.bytes == UW_QUERY_PART_N * 4u,
               "parts of a question are as large as its messages");

static bool query_is_sound(const void *body)
{
    const uwasa_Query *q = body;
    return q->sample.size % 4u == 0;
}

static bool reply_is_sound(const void *body)
{
    const uwasa_QueryReply *r = body;
    return r->numbers.size % 4u == 0 && r->sample_n <= FLOATS_MOST && r->numbers_n <= FLOATS_MOST &&
           r->text_n <= FLOATS_MOST;
}

const struct uw_message_form uw_form_query = {uwasa_Query_fields, query_is_sound};
const struct uw_message_form uw_form_query_reply = {uwasa_QueryReply_fields, reply_is_sound};

int uw_query_client_init(struct uw_query_client *c, struct uw_link *link, const char *address,
                         uint32_t number)
{
    *c = (struct uw_query_client){.link = link, .address = address, .timeout_us = TIMEOUT_US,
                                  .number = number, .station = UW_LINK_STATION_NONE};
    int rc = uw_link_resolve(link, address, &c->station);
    return rc != UW_ERR_AGAIN ? rc : UW_OK;
}

/* Send the next part of the sample, or ask for the next numbers. */
static void ask(struct uw_query_client *c, uint64_t now_us, const float *x)
{
    const uwasa_StatusRequest request = {.seq = c->number};
    bool reads = x == NULL && c->text != NULL;
    uwasa_Query q = {.number = c->number, .at = c->sent_n, .from = reads ? 0 : c->got_n,
                     .text = reads ? c->got_n + 1u : 0};
    uint32_t left = x != NULL ? c->sample_n - c->sent_n : 0;
    uint32_t most = uw_query_part_n(c->link->mtu_bytes), n = left < most ? left : most;
    uint8_t buf[BUFFER_BYTES];
    q.sample.size = (pb_size_t)(n * 4u);
    if (n != 0) {
        uw_put_floats(q.sample.bytes, x + c->sent_n, n);
    }
    int bytes = uw_message_write(false, UW_WIRE_STATUS_REQUEST, &uw_form_status_request, &request,
                                 buf, sizeof buf);
    bytes = bytes < 0 ? bytes : uw_message_append(false, &uw_form_query, &q, buf, (uint32_t)bytes,
                                                  sizeof buf);
    int rc = bytes > 0 ? uw_link_send(c->link, c->station, buf, (uint32_t)bytes) : bytes;
    c->next_us = now_us + (rc == UW_ERR_AGAIN ? SOON_US : AGAIN_US);
}

/* Learn how samples are. Returns UW_OK (known), or a code. */
static int take_shape(struct uw_query_client *c, const uwasa_QueryReply *r)
{
    if (r->sample_n == 0 || r->numbers_n == 0) {
        return UW_ERR_UNSUPPORTED;
    }
    if (c->sample_n != 0 && (r->sample_n != c->sample_n || r->numbers_n != c->numbers_n ||
                             r->form != c->form || r->text_n != c->text_n)) {
        return UW_ERR_MISMATCH;
    }
    c->sample_n = r->sample_n;
    c->numbers_n = r->numbers_n;
    c->form = r->form;
    c->threshold = r->threshold;
    c->text_n = r->text_n;
    return UW_OK;
}

/* Returns UW_OK (all of the text is there, or none is wanted) or UW_ERR_AGAIN. */
static int take_text(struct uw_query_client *c, uint64_t now_us, const uwasa_QueryReply *r)
{
    if (c->text == NULL || c->got_n == c->text_n) {
        return UW_OK;
    }
    if (r->text.size != 0 && r->text_at == c->got_n && r->text.size <= c->text_n - c->got_n) {
        memcpy(c->text + c->got_n, r->text.bytes, r->text.size);
        c->got_n += r->text.size;
        c->next_us = now_us;
    }
    return c->got_n == c->text_n ? UW_OK : UW_ERR_AGAIN;
}

/* Returns UW_OK (all numbers are there), UW_ERR_AGAIN or a code. */
static int take_reply(struct uw_query_client *c, uint64_t now_us, const uwasa_QueryReply *r,
                      const float *x, float *numbers)
{
    int rc = take_shape(c, r);
    if (rc < 0 || x == NULL) {
        return rc < 0 ? rc : take_text(c, now_us, r);
    }
    uint32_t n = r->numbers.size / 4u;
    bool more = r->arrived > c->sent_n && r->arrived <= c->sample_n;
    c->sent_n = r->arrived <= c->sample_n ? r->arrived : c->sent_n;     /* less: it was dropped */
    if (n != 0 && r->from == c->got_n && n <= c->numbers_n - c->got_n) {
        uw_get_floats(numbers + c->got_n, r->numbers.bytes, n);
        c->got_n += n;
        more = true;
    }
    if (c->got_n == c->numbers_n) {
        return UW_OK;
    }
    if (more) {
        c->look_us = LEAST_US;
        ask(c, now_us, x);
    } else {
        c->next_us = now_us + c->look_us;
        c->look_us = 2u * c->look_us < MOST_US ? 2u * c->look_us : MOST_US;
    }
    return UW_ERR_AGAIN;
}

static int receive(struct uw_query_client *c, uint64_t now_us, const float *x, float *numbers)
{
    uint8_t buf[BUFFER_BYTES];
    for (uint32_t i = 0; i < RECEIVE_MOST; i++) {
        uint16_t from;
        uwasa_QueryReply r = uwasa_QueryReply_init_default;
        uwasa_StatusReply plain;
        int bytes = uw_link_recv(c->link, &from, buf, sizeof buf);
        if (bytes < 0 && bytes != UW_ERR_TOOBIG) {
            return UW_ERR_AGAIN;
        }
        if (bytes < 0 || from != c->station ||
            uw_message_type(false, buf, (uint32_t)bytes) != UW_WIRE_STATUS_REPLY ||
            uw_message_read(false, &uw_form_query_reply, buf, (uint32_t)bytes, &r) < 0) {
            continue;
        }
        bool other = r.number == 0 &&       /* a node that knows of no questions tells its table */
                     uw_message_read(false, &uw_form_status_reply, buf, (uint32_t)bytes,
                                     &plain) == UW_OK && plain.seq == c->number;
        if (!other && r.number != c->number) {
            continue;
        }
        c->heard_us = now_us;
        int rc = take_reply(c, now_us, &r, x, numbers);
        if (rc != UW_ERR_AGAIN) {
            return rc;
        }
    }
    return UW_ERR_AGAIN;
}

static int locate(struct uw_query_client *c, uint64_t now_us)
{
    c->next_us = now_us + SOON_US;
    int rc = uw_link_resolve(c->link, c->address, &c->station);
    if (rc == UW_OK) {
        c->next_us = now_us;
    }
    return rc;
}

int uw_query_client_step(struct uw_query_client *c, uint64_t now_us, const float *x,
                         float *numbers)
{
    (void)uw_link_step(c->link, now_us);
    if (!c->started) {
        c->started = true;
        c->heard_us = c->next_us = now_us;
        c->number = c->number != UINT32_MAX ? c->number + 1u : 1u;
        c->sent_n = c->got_n = 0;
        c->look_us = LEAST_US;
    }
    int rc = c->station == UW_LINK_STATION_NONE ? locate(c, now_us) : UW_OK;
    rc = rc < 0 ? rc : receive(c, now_us, x, numbers);
    if (rc == UW_ERR_AGAIN && now_us - c->heard_us >= c->timeout_us) {
        rc = UW_ERR_TIMEOUT;
    }
    if (rc == UW_ERR_AGAIN && c->station != UW_LINK_STATION_NONE && now_us >= c->next_us) {
        ask(c, now_us, x);
    }
    c->started = rc == UW_ERR_AGAIN;
    return rc;
}
