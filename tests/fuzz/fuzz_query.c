/* SPDX-License-Identifier: Apache-2.0
 *
 * Questions about samples, from anybody to a node, and anybody's replies to who asks: samples and
 * numbers stay within their arrays. */
#include "fuzz.h"
#include "wire_form.h"

#include "node/node_pull.h"
#include "status/query_wire.h"

#include "uwasa/queries.h"
#include "uwasa/query_client.h"

#include <stdlib.h>
#include <string.h>

#define MOST_BYTES 1500u
#define SAMPLE_N 200u
#define NUMBERS_N 150u
#define TEXT_N 700u

/* Both ends: what a client gets is `message`; what a node sends is dropped. */
struct one {
    struct uw_link link;
    const uint8_t *message;
    size_t bytes;
    bool there;
    uint32_t sent_n;
};

static int one_resolve(struct uw_link *l, const char *address, uint16_t *station)
{
    (void)l;
    (void)address;
    *station = 3;
    return UW_OK;
}

static int one_send(struct uw_link *l, uint16_t to, const void *buf, uint32_t bytes)
{
    struct one *o = (struct one *)l;
    if (to != 3 || bytes > MOST_BYTES || uw_message_type(false, buf, bytes) < 0) {
        abort();
    }
    o->sent_n++;
    return UW_OK;
}

static int one_recv(struct uw_link *l, uint16_t *from, void *buf, uint32_t cap_bytes)
{
    struct one *o = (struct one *)l;
    if (!o->there) {
        return UW_ERR_AGAIN;
    }
    o->there = false;
    *from = 3;
    if (o->bytes > cap_bytes) {
        return UW_ERR_TOOBIG;
    }
    memcpy(buf, o->message, o->bytes);
    return (int)o->bytes;
}

static uint64_t one_step(struct uw_link *l, uint64_t now_us)
{
    (void)l;
    return now_us + 1000;
}

static const struct uw_link_ops ops = {.name = "one", .resolve = one_resolve, .send = one_send,
                                       .recv = one_recv, .step = one_step};

static size_t seal(int bytes, const struct uw_message_form *form, const void *body, uint8_t *buf)
{
    bytes = bytes < 0 ? bytes
                      : uw_message_append(false, form, body, buf, (uint32_t)bytes, MOST_BYTES);
    if (bytes < 0) {
        abort();
    }
    return (size_t)bytes;
}

static size_t make_query(uint32_t number, uint32_t at, uint32_t n, uint32_t from, uint32_t text,
                         uint8_t *buf)
{
    const uwasa_StatusRequest request = {.seq = 2};
    uwasa_Query q = {.number = number, .at = at, .from = from, .text = text};
    q.sample.size = (pb_size_t)(n * 4u);
    return seal(uw_message_write(false, UW_WIRE_STATUS_REQUEST, &uw_form_status_request, &request,
                                 buf, MOST_BYTES), &uw_form_query, &q, buf);
}

static size_t make_reply(const uwasa_QueryReply *r, uint8_t *buf)
{
    const uwasa_StatusReply reply = {.seq = 2};
    return seal(uw_message_write(false, UW_WIRE_STATUS_REPLY, &uw_form_status_reply, &reply, buf,
                                 MOST_BYTES), &uw_form_query_reply, r, buf);
}

static uwasa_QueryReply reply_of(uint32_t arrived, uint32_t from, uint32_t n)
{
    uwasa_QueryReply r = {.number = 2, .sample_n = SAMPLE_N, .numbers_n = NUMBERS_N, .form = 1,
                          .arrived = arrived, .from = from};
    r.numbers.size = (pb_size_t)(n * 4u);
    return r;
}

static void add_inputs(struct uw_fuzz_corpus *corpus)
{
    uint8_t buf[MOST_BYTES];
    static const uint32_t parts[][5] = {{2, 0, 128, 0}, {2, 128, 72, 0}, {2, 200, 0, 0},
                                        {2, 0, 0, 128}, {7, 0, 0, 0}, {0, 0, 0, 0},
                                        {9, 0, 0, 0, 1}, {9, 0, 0, 0, 513}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        uw_fuzz_add(corpus, buf,
                    make_query(parts[i][0], parts[i][1], parts[i][2], parts[i][3], parts[i][4],
                               buf));
    }
    uwasa_QueryReply text = reply_of(0, 0, 0);
    text.text_n = TEXT_N;
    text.text.size = 512;
    const uwasa_QueryReply replies[] = {text,
                                        reply_of(0, 0, 0),
                                        reply_of(128, 0, 0),
                                        reply_of(200, 0, 128),
                                        reply_of(200, 128, 22),
                                        {.number = 2},
                                        {.number = 0}};
    for (size_t i = 0; i < sizeof replies / sizeof replies[0]; i++) {
        uw_fuzz_add(corpus, buf, make_reply(&replies[i], buf));
    }
}

/* A node in each state of a question. Returns what became of it, or -1. */
static int try_node(const uint8_t *input, size_t bytes)
{
    int outcome = 0;
    for (int before = 0; before < 4; before++) {
        static struct uw_node_state s;
        static uint8_t out[MOST_BYTES], in[MOST_BYTES];
        struct one o = {.link = {.ops = &ops, .mtu_bytes = MOST_BYTES, .fd = -1}};
        float *sample = malloc(SAMPLE_N * sizeof *sample);
        float *numbers = calloc(NUMBERS_N, sizeof *numbers);
        char *text = calloc(1, TEXT_N);
        struct uw_queries q = {.sample_n = SAMPLE_N, .numbers_n = NUMBERS_N, .sample = sample,
                               .numbers = numbers, .text = text, .text_n = TEXT_N};
        const uwasa_StatusRequest request = {.seq = 2};
        memset(&s, 0, sizeof s);
        s.config.link = &o.link;
        s.config.queries = &q;
        s.buffer = out;
        s.buffer_bytes = sizeof out;
        for (int i = 0; i < before && i < 2; i++) {
            size_t n = make_query(2, 128u * (uint32_t)i, i == 0 ? 128 : 72, 0, 0, in);
            s.in = in;
            uw_node_queries.message(&s, 3, &request, (uint32_t)n);
        }
        if (before == 3) {
            uw_queries_answer(&q);
        }
        uint8_t *copy = malloc(bytes + 1u);     /* of its size: a read beyond it is found */
        memcpy(copy, input, bytes);
        s.in = copy;
        bool taken = uw_node_queries.message(&s, 3, &request, (uint32_t)bytes);
        outcome = outcome * 8 + (taken ? 4 : 0) + (uw_queries_next(&q) ? 2 : 0) +
                  (q.arrived_n != 0);
        bool bad = q.arrived_n > SAMPLE_N || (taken && o.sent_n == 0);
        free(copy);
        free(text);
        free(sample);
        free(numbers);
        if (bad) {
            return -1;
        }
    }
    return outcome;
}

/* A client that knows nothing, waits for its answer, has a part of it, or reads a text. */
static int try_client(const uint8_t *input, size_t bytes)
{
    int outcome = 0;
    for (int before = 0; before < 4; before++) {
        struct one o = {.link = {.ops = &ops, .mtu_bytes = MOST_BYTES, .fd = -1}};
        struct uw_query_client c;
        uint8_t reply[MOST_BYTES];
        float *x = calloc(SAMPLE_N, sizeof *x), *numbers = malloc(NUMBERS_N * sizeof *numbers);
        bool reads = before == 3;
        int rc = uw_query_client_init(&c, &o.link, "x:1", before == 0 ? 1 : 0);
        for (int i = 0; i < before && !reads && rc >= 0; i++) {
            const uwasa_QueryReply r = i == 0 ? (uwasa_QueryReply){.number = 1, .form = 1,
                                                                   .sample_n = SAMPLE_N,
                                                                   .numbers_n = NUMBERS_N}
                                              : reply_of(SAMPLE_N, 0, 128);
            rc = uw_query_client_step(&c, 1000, i == 0 ? NULL : x, numbers);
            o.message = reply;
            o.bytes = make_reply(&r, reply);
            o.there = true;
            rc = uw_query_client_step(&c, 1500, i == 0 ? NULL : x, numbers);
        }
        if (reads) {
            c.sample_n = SAMPLE_N;
            c.numbers_n = NUMBERS_N;
            c.form = 1;
            c.text_n = TEXT_N;
            c.text = malloc(TEXT_N);
        }
        const float *asks = before == 0 || reads ? NULL : x;
        rc = uw_query_client_step(&c, 2000, asks, numbers);
        o.message = input;
        o.bytes = bytes;
        o.there = true;
        rc = rc == UW_ERR_AGAIN ? uw_query_client_step(&c, 3000, asks, numbers) : -1000;
        outcome = outcome * 64 - rc;
        bool bad = rc == -1000 || c.got_n > (reads ? TEXT_N : NUMBERS_N) ||
                   (before != 0 && c.sent_n > SAMPLE_N);
        free(c.text);
        free(x);
        free(numbers);
        if (bad) {
            return -1;
        }
    }
    return outcome;
}

static int try_one(const uint8_t *input, size_t bytes)
{
    int node = bytes >= UW_WIRE_HEAD_BYTES ? try_node(input, bytes) : 0;
    int client = try_client(input, bytes);
    return node < 0 || client < 0 ? -1 : node * 7 + client;
}

int main(int argc, char **argv)
{
    const struct uw_fuzz_target target = {"query", add_inputs, try_one, MOST_BYTES};
    return uw_fuzz_run_form(&target, &(struct uw_fuzz_form){uw_fuzz_mutate_wire,
                                                            uw_fuzz_seal_wire}, argc, argv);
}
