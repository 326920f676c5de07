/* SPDX-License-Identifier: Apache-2.0
 *
 * Who asks a node for its table, and the answers of anybody: rows stay within their array and can
 * be printed, and the client asks on or ends. The answer comes first, or behind a true one. */
#include "fuzz.h"
#include "wire_form.h"

#include "wire/message.h"

#include "uwasa/status_client.h"

#include <stdlib.h>
#include <string.h>

#define MOST_BYTES 1500u
#define ROWS 12u

/* A link with one message in it. */
struct one {
    struct uw_link link;
    const uint8_t *message;
    size_t bytes;
    bool there;
    uint32_t asked_n;
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
    struct uw_message m;
    if (to != 3 || uw_message_decode(buf, bytes, &m) != UW_OK ||
        m.type != UW_WIRE_STATUS_REQUEST) {
        abort();
    }
    o->asked_n++;
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

static void fill_row(uwasa_Row *row, uint32_t i)
{
    row->has_peer = row->has_progress = true;
    row->peer.name[0] = (char)('a' + i);
    strcpy(row->peer.address, "10.0.0.1:1");
    row->peer.state = uwasa_State_ALIVE;
    row->has_averaging = true;
    strcpy(row->averaging.cell, "cell");
    row->progress.step = i;
}

/* Rows from `first` on of 4, and the counters when asked for. Returns its size. */
static size_t make_reply(uint32_t first, uint32_t rows_n, bool counters, uint8_t *buf)
{
    struct uw_message m;
    memset(&m, 0, sizeof m);
    m.type = UW_WIRE_STATUS_REPLY;
    m.status_reply.seq = 1;
    m.status_reply.first = first;
    m.status_reply.total = 4;
    m.status_reply.rows_count = (pb_size_t)rows_n;
    for (uint32_t i = 0; i < rows_n; i++) {
        fill_row(&m.status_reply.rows[i], first + i);
    }
    m.status_reply.has_counters = counters;
    m.status_reply.counters.sent_bytes = 5;
    strcpy(m.status_reply.kernels, counters ? "cuda: a GPU" : "");
    int bytes = uw_message_encode(&m, buf, MOST_BYTES);
    if (bytes < 0) {
        abort();
    }
    return (size_t)bytes;
}

static void add_inputs(struct uw_fuzz_corpus *corpus)
{
    uint8_t buf[MOST_BYTES];
    uw_fuzz_add(corpus, buf, make_reply(0, 2, false, buf));
    uw_fuzz_add(corpus, buf, make_reply(2, 2, false, buf));
    uw_fuzz_add(corpus, buf, make_reply(2, 2, true, buf));
    uw_fuzz_add(corpus, buf, make_reply(0, 0, true, buf));
    uw_fuzz_add(corpus, buf, make_reply(0, 0, false, buf));
}

/* Without spaces, but where they may be. */
static bool is_plain(const char *text, size_t cap_bytes, char least)
{
    const char *end = memchr(text, '\0', cap_bytes);
    for (; end != NULL && text < end; text++) {
        if (*text < least || *text > '~') {
            return false;
        }
    }
    return end != NULL;
}

static int check_rows(const struct uw_node_member *rows, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (!is_plain(rows[i].name, sizeof rows[i].name, '!') ||
            !is_plain(rows[i].address, sizeof rows[i].address, '!') ||
            !is_plain(rows[i].cell, sizeof rows[i].cell, '!')) {
            return -1;
        }
    }
    return 0;
}

static int hand_over(struct uw_status_client *c, struct one *o, const uint8_t *message,
                     size_t bytes, uint64_t now_us, struct uw_node_member *rows)
{
    struct uw_node_counters counters;
    o->message = message;
    o->bytes = bytes;
    o->there = true;
    int rc = uw_status_client_step(c, now_us, rows, ROWS, &counters);
    return rc > (int)ROWS || (rc < 0 && rc != UW_ERR_AGAIN) ? -1 : rc < 0 ? 100 : rc;
}

static int try_one(const uint8_t *input, size_t bytes)
{
    int outcome = 0;
    for (int after = 0; after < 2; after++) {
        static struct uw_node_member rows[ROWS];
        struct one o = {.link = {.ops = &ops, .mtu_bytes = MOST_BYTES, .fd = -1}};
        struct uw_status_client c;
        uint8_t reply[MOST_BYTES];
        memset(rows, 0, sizeof rows);
        if (uw_status_client_init(&c, &o.link, "x:1") < 0 ||
            uw_status_client_step(&c, 1000, rows, ROWS, NULL) != UW_ERR_AGAIN || o.asked_n != 1) {
            return -1;
        }
        if (after != 0 &&
            hand_over(&c, &o, reply, make_reply(0, 2, false, reply), 2000, rows) != 100) {
            return -1;
        }
        int rc = hand_over(&c, &o, input, bytes, 3000, rows);
        if (rc < 0 || check_rows(rows, ROWS) < 0 ||
            !is_plain(c.kernels, sizeof c.kernels, ' ')) {
            return -1;
        }
        if (rc == 100) {
            int last = uw_status_client_step(&c, 9000000, rows, ROWS, NULL);
            if (last != UW_ERR_TIMEOUT && last != UW_ERR_UNSUPPORTED) {
                return -1;
            }
        }
        outcome = outcome * 128 + rc;
    }
    return outcome;
}

int main(int argc, char **argv)
{
    const struct uw_fuzz_target target = {"status", add_inputs, try_one, MOST_BYTES};
    return uw_fuzz_run_form(&target, &(struct uw_fuzz_form){uw_fuzz_mutate_wire,
                                                            uw_fuzz_seal_wire}, argc, argv);
}
