/* SPDX-License-Identifier: Apache-2.0
 *
 * Questions about samples: a client and the part of a node that takes them, over a link that may
 * lose every n-th message. */
#include "test_support.h"

#include "node/node_pull.h"
#include "status/query_wire.h"

#include "uwasa/queries.h"
#include "uwasa/query_client.h"

#include <stdlib.h>

#define MTU_BYTES 1200u
#define QUEUE 64u
#define STEP_US 1000u

/* The client's end of a link to a node with one part. */
struct pair {
    struct uw_link client, node;
    struct uw_node_state s;
    struct uw_queries q;
    uint8_t in[MTU_BYTES], out[MTU_BYTES];
    uint8_t queue[QUEUE][MTU_BYTES];
    int bytes[QUEUE];
    uint32_t first, end, messages_n, lose_every;
    uint16_t station;               /* that the client has at the node */
    bool plain;                     /* the node answers with its table only */
};

static struct pair *pair_of;        /* the links' */

static bool is_lost(struct pair *p)
{
    return p->lose_every != 0 && ++p->messages_n % p->lose_every == 0;
}

static int client_resolve(struct uw_link *l, const char *address, uint16_t *station)
{
    (void)l;
    (void)address;
    *station = 0;
    return UW_OK;
}

static int client_send(struct uw_link *l, uint16_t to, const void *buf, uint32_t bytes)
{
    struct pair *p = pair_of;
    uwasa_StatusRequest request;
    assert_ptr_equal(l, &p->client);
    assert_int_equal(to, 0);
    assert_true(bytes <= p->client.mtu_bytes);
    if (is_lost(p)) {
        return UW_OK;
    }
    memcpy(p->in, buf, bytes);
    p->s.in = p->in;
    assert_int_equal(uw_message_type(false, p->in, bytes), UW_WIRE_STATUS_REQUEST);
    assert_int_equal(uw_message_read(false, &uw_form_status_request, p->in, bytes, &request),
                     UW_OK);
    if (p->plain) {
        const uwasa_StatusReply reply = {.seq = request.seq, .has_counters = true};
        uw_node_send(&p->s, 0, UW_WIRE_STATUS_REPLY, &uw_form_status_reply, &reply);
    } else {
        assert_true(uw_node_queries.message(&p->s, p->station, &request, bytes));
    }
    return UW_OK;
}

static int client_recv(struct uw_link *l, uint16_t *from, void *buf, uint32_t cap_bytes)
{
    struct pair *p = pair_of;
    (void)l;
    if (p->first == p->end) {
        return UW_ERR_AGAIN;
    }
    int bytes = p->bytes[p->first % QUEUE];
    assert_true((uint32_t)bytes <= cap_bytes);
    memcpy(buf, p->queue[p->first++ % QUEUE], (size_t)bytes);
    *from = 0;
    return bytes;
}

static int node_send(struct uw_link *l, uint16_t to, const void *buf, uint32_t bytes)
{
    struct pair *p = pair_of;
    (void)to;
    assert_true(bytes <= l->mtu_bytes && p->end - p->first < QUEUE);
    if (!is_lost(p)) {
        memcpy(p->queue[p->end % QUEUE], buf, bytes);
        p->bytes[p->end++ % QUEUE] = (int)bytes;
    }
    return UW_OK;
}

static uint64_t no_step(struct uw_link *l, uint64_t now_us)
{
    (void)l;
    return now_us;
}

static const struct uw_link_ops client_ops = {.name = "client", .resolve = client_resolve,
                                              .send = client_send, .recv = client_recv,
                                              .step = no_step};
static const struct uw_link_ops node_ops = {.name = "node", .send = node_send, .step = no_step};

static void open_pair(struct pair *p, uint32_t mtu_bytes, uint32_t sample_n, uint32_t numbers_n)
{
    memset(p, 0, sizeof *p);
    p->client = (struct uw_link){.ops = &client_ops, .mtu_bytes = mtu_bytes, .fd = -1};
    p->node = (struct uw_link){.ops = &node_ops, .mtu_bytes = mtu_bytes, .fd = -1};
    p->q = (struct uw_queries){.sample_n = sample_n, .numbers_n = numbers_n, .form = 7,
                               .threshold = 0.5f, .sample = uw_test_floats(sample_n),
                               .numbers = uw_test_floats(numbers_n)};
    p->s.config.link = &p->node;
    p->s.config.queries = &p->q;
    p->s.buffer = p->out;
    p->s.buffer_bytes = mtu_bytes;
    p->station = 3;
    pair_of = p;
}

static void close_pair(struct pair *p)
{
    uw_test_release(p->q.sample);
    uw_test_release(p->q.numbers);
}

/* The program's side: number i is i + the sum of the sample. */
static void answer(struct pair *p)
{
    float sum = 0.0f;
    for (uint32_t i = 0; i < p->q.sample_n; i++) {
        sum += p->q.sample[i];
    }
    for (uint32_t i = 0; i < p->q.numbers_n; i++) {
        p->q.numbers[i] = sum + (float)i;
    }
    uw_queries_answer(&p->q);
}

/* Step a client until it is done; the program answers. */
static int run(struct pair *p, struct uw_query_client *c, uint64_t *now_us, const float *x,
               float *numbers, uint32_t most)
{
    int rc = UW_ERR_AGAIN;
    for (uint32_t i = 0; rc == UW_ERR_AGAIN && i < most; i++) {
        *now_us += STEP_US;
        p->s.outer_us = *now_us;
        rc = uw_query_client_step(c, *now_us, x, numbers);
        if (uw_queries_next(&p->q) && i % 3 == 2) {
            answer(p);
        }
    }
    return rc;
}

static void expect_answers(struct pair *p)
{
    struct uw_query_client c;
    uint64_t now_us = 5;
    assert_int_equal(uw_query_client_init(&c, &p->client, "x:1", 41), UW_OK);
    assert_int_equal(run(p, &c, &now_us, NULL, NULL, 5000), UW_OK);
    assert_int_equal(c.sample_n, p->q.sample_n);
    assert_int_equal(c.numbers_n, p->q.numbers_n);
    assert_int_equal(c.form, 7);
    assert_true(c.threshold == 0.5f);
    assert_int_equal(c.text_n, p->q.text_n);
    if (c.text_n != 0) {
        c.text = calloc(1, c.text_n);
        assert_int_equal(run(p, &c, &now_us, NULL, NULL, 20000), UW_OK);
        assert_memory_equal(c.text, p->q.text, c.text_n);
        free(c.text);
        c.text = NULL;
    }
    float *x = uw_test_floats(c.sample_n), *numbers = uw_test_floats(c.numbers_n);
    for (uint32_t k = 0; k < 3; k++) {
        float sum = 0.0f;
        for (uint32_t i = 0; i < c.sample_n; i++) {
            x[i] = (float)((i * 7u + k) % 5u);
            sum += x[i];
        }
        assert_int_equal(run(p, &c, &now_us, x, numbers, 20000), UW_OK);
        for (uint32_t i = 0; i < c.numbers_n; i++) {
            assert_true(numbers[i] == sum + (float)i);
        }
    }
    uw_test_release(x);
    uw_test_release(numbers);
}

static void test_queries_of_any_size_are_answered_whatever_is_lost(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 127, 128, 129, 784}, lose_every[] = {0, 3, 4, 5, 7};
    static struct pair p;
    static char text[1601];
    for (uint32_t i = 0; i < sizeof text; i++) {
        text[i] = (char)(i % 251u);
    }
    for (uint32_t i = 0; i < 5; i++) {
        for (uint32_t k = 0; k < 5; k++) {
            for (uint32_t narrow = 0; narrow < 2; narrow++) {
                open_pair(&p, narrow != 0 ? 200 : MTU_BYTES, sizes[i], sizes[4 - i]);
                p.lose_every = lose_every[k];
                p.q.text = text;
                p.q.text_n = i == 4 ? sizeof text : 512u * i;     /* 0: it tells nothing */
                expect_answers(&p);
                close_pair(&p);
            }
        }
    }
}

static void test_queries_of_a_second_asker_wait(void **state)
{
    (void)state;
    static struct pair p;
    struct uw_query_client first, second;
    uint64_t now_us = 5;
    const float x[2] = {1.0f, 2.0f};
    float numbers[2];
    open_pair(&p, MTU_BYTES, 2, 2);
    assert_int_equal(uw_query_client_init(&first, &p.client, "x:1", 41), UW_OK);
    assert_int_equal(uw_query_client_init(&second, &p.client, "x:1", 900), UW_OK);
    assert_int_equal(run(&p, &first, &now_us, NULL, NULL, 100), UW_OK);
    assert_int_equal(run(&p, &first, &now_us, x, numbers, 1), UW_ERR_AGAIN);
    assert_true(uw_queries_next(&p.q));
    p.station = 4;
    p.first = p.end;
    assert_int_equal(run(&p, &second, &now_us, NULL, NULL, 100), UW_OK);
    p.lose_every = 0;
    assert_int_equal(uw_query_client_step(&second, now_us, x, numbers), UW_ERR_AGAIN);
    answer(&p);
    /* the first one has gone: after two seconds of its silence it is the second one's turn */
    uint64_t before_us = now_us;
    assert_int_equal(run(&p, &second, &now_us, x, numbers, 5000), UW_OK);
    assert_in_range(now_us - before_us, 1000000, 2500000);
    assert_true(numbers[0] == 3.0f && numbers[1] == 4.0f);
    close_pair(&p);
}

static void test_queries_that_nobody_answers_are_told(void **state)
{
    (void)state;
    static struct pair p;
    struct uw_query_client c;
    uint64_t now_us = 5;
    const float x[2] = {1.0f, 2.0f};
    float numbers[2];
    open_pair(&p, MTU_BYTES, 2, 2);
    p.plain = true;
    assert_int_equal(uw_query_client_init(&c, &p.client, "x:1", 41), UW_OK);
    assert_int_equal(run(&p, &c, &now_us, NULL, NULL, 100), UW_ERR_UNSUPPORTED);
    p.plain = false;
    assert_int_equal(run(&p, &c, &now_us, NULL, NULL, 100), UW_OK);
    p.q.form = 8;
    assert_int_equal(run(&p, &c, &now_us, x, numbers, 100), UW_ERR_MISMATCH);
    p.lose_every = 1;
    assert_int_equal(run(&p, &c, &now_us, x, numbers, 6000), UW_ERR_TIMEOUT);
    assert_false(uw_queries_next(&p.q));
    close_pair(&p);
}

/* Parts that do not follow, or are too long, change nothing. */
static void test_queries_parts_out_of_place_are_ignored(void **state)
{
    (void)state;
    static struct pair p;
    static const struct {
        uint32_t at, n;
    } parts[] = {{1, 1}, {0, 4}, {UINT32_MAX, 1}, {0, 2}, {0, 1}, {3, 1}, {2, 2}};
    open_pair(&p, MTU_BYTES, 3, 1);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const uwasa_StatusRequest request = {.seq = 1};
        uwasa_Query q = {.number = 5, .at = parts[i].at};
        uint8_t buf[MTU_BYTES];
        q.sample.size = (pb_size_t)(parts[i].n * 4u);
        int bytes = uw_message_write(false, UW_WIRE_STATUS_REQUEST, &uw_form_status_request,
                                     &request, buf, sizeof buf);
        bytes = uw_message_append(false, &uw_form_query, &q, buf, (uint32_t)bytes, sizeof buf);
        assert_int_equal(client_send(&p.client, 0, buf, (uint32_t)bytes), UW_OK);
        assert_int_equal(p.q.arrived_n, i < 3 ? 0 : 2);
        assert_false(uw_queries_next(&p.q));
    }
    close_pair(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_queries_of_any_size_are_answered_whatever_is_lost),
        cmocka_unit_test(test_queries_of_a_second_asker_wait),
        cmocka_unit_test(test_queries_that_nobody_answers_are_told),
        cmocka_unit_test(test_queries_parts_out_of_place_are_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
