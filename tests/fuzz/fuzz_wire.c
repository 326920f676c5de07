/* SPDX-License-Identifier: Apache-2.0
 *
 * A datagram from anybody: the parser answers with a code, and a node that gets it stays in order.
 * Fields of a message are changed by its form, and the checksum is made right after each mutation,
 * or nothing would get past it. */
#include "fuzz.h"
#include "fuzz_node.h"
#include "wire_form.h"

#include "wire/message.h"

#include "uwasa/node_direct.h"
#include "uwasa/node_image.h"

#include <string.h>

static struct fuzz_node node, averaging;     /* the latter with a device that others reach */

static int copy(void *arg, uint32_t offset_n, uint32_t count_n)
{
    (void)arg;
    return offset_n + count_n <= FUZZ_NODE_N ? UW_OK : UW_ERR_INVALID;
}

static int done(void *arg)
{
    (void)arg;
    return UW_OK;
}

static uint32_t version(void *arg)
{
    (void)arg;
    return 1;
}

static int make_id(void *arg, uint8_t id[UW_NODE_DIRECT_ID_BYTES])
{
    (void)arg;
    memset(id, 0x5a, UW_NODE_DIRECT_ID_BYTES);
    return UW_OK;
}

static int begin(void *arg, const struct uw_node_direct_round *r)
{
    (void)arg;
    return r->rank < r->ranks ? UW_OK : UW_ERR_INVALID;
}

static void abort_round(void *arg)
{
    (void)arg;
}

/* Averages are what the device holds. */
static const struct uw_node_image image = {copy, copy, done, NULL};
static const struct uw_node_direct direct = {"made up", 9, version, make_id, begin, done, done,
                                             abort_round, NULL};

static const uint8_t addresses[] = {4, 10, 0, 0, 2, 0x11, 0x51, 6, 0xfd, 0, 0, 0, 0,
                                    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x11, 0x51};

static uint32_t own_addresses(void *arg, uint8_t *out, uint32_t cap_bytes)
{
    (void)arg;
    uint32_t n = cap_bytes < sizeof addresses ? 0 : sizeof addresses;
    memcpy(out, addresses, n);
    return n;
}

static void add(struct uw_fuzz_corpus *corpus, struct uw_message *m)
{
    static const float floats[4] = {1.0f, 2.0f, 3.0f, 4.0f};
    uint8_t buf[2048];
    static const uwasa_Peer others[2] = {{.name = "c", .address = "1"}, {.name = "a"}};
    int bytes = m->type == UW_WIRE_DATA
                    ? uw_message_encode_data(&m->data, floats, buf, sizeof buf)
                    : uw_message_encode(m, buf, sizeof buf);
    for (uint32_t i = 0; bytes > 0 && m->type <= UW_WIRE_ACK && i < 2u; i++) {
        bytes = uw_message_add_also(false, addresses, sizeof addresses, buf, (uint32_t)bytes,
                                    sizeof buf);
        bytes = uw_message_add_peer(false, &others[i], buf, (uint32_t)bytes, sizeof buf);
    }
    if (bytes > 0) {
        uw_fuzz_add(corpus, buf, (size_t)bytes);
    }
}

/* Every act of a round, with what a device that averages by itself appends. */
static void add_direct(struct uw_fuzz_corpus *corpus, uint32_t run)
{
    static const struct uw_message_form form = {uwasa_CellDirect_fields, NULL};
    for (uint32_t i = 0; i < 30; i++) {
        uint32_t act = i % 6u, status = i / 6u;
        uwasa_Cell cell = {.run = run, .model = 7, .act = act, .status = status, .ids_count = 2,
                           .chunk_n = 10};
        uwasa_CellDirect with = {.version = 1, .device = 5, .holds = 1, .sum = 3, .why = i % 7u,
                                 .whose = uw_name_id("c")};
        uint8_t buf[2048];
        with.id.size = (act + status) % 2u != 0 ? sizeof with.id.bytes : 0;
        int bytes = uw_message_write(false, UW_WIRE_CELL, &uw_form_cell, &cell, buf, sizeof buf);
        bytes = uw_message_append(false, &form, &with, buf, (uint32_t)bytes, sizeof buf);
        if (bytes > 0) {
            uw_fuzz_add(corpus, buf, (size_t)bytes);
        }
    }
}

static void add_inputs(struct uw_fuzz_corpus *corpus)
{
    uint32_t run = uw_name_id("r");
    struct uw_message m;
    memset(&m, 0, sizeof m);
    for (int type = UW_WIRE_HELLO; type <= UW_WIRE_ACK; type++) {
        memset(&m, 0, sizeof m);
        m.type = (enum uw_wire_type)type;
        m.ping = (uwasa_Ping){.run = run, .model = 7, .seq = 1, .has_self = true,
                              .has_progress = true};
        strcpy(m.ping.self.name, "b");
        m.ping.self.incarnation = 9;
        m.ping.revoked_count = (pb_size_t)(type - UW_WIRE_HELLO);
        m.ping.progress.version = 1;
        add(corpus, &m);
    }
    m.type = UW_WIRE_WANT;
    m.want = (uwasa_Want){.run = run, .model = 7, .chunk_n = 10, .wanted = UINT64_MAX};
    add(corpus, &m);
    m.type = UW_WIRE_DATA;
    m.data = (struct uw_data){.run = run, .count_n = 4};
    add(corpus, &m);
    m.type = UW_WIRE_REFUSE;
    m.refuse = (uwasa_Refuse){.run = run, .reason = uwasa_Reason_CHUNK_TOO_BIG, .chunk_n = 9};
    add(corpus, &m);
    m.type = UW_WIRE_GOODBYE;
    m.goodbye = (uwasa_Goodbye){.run = run, .has_self = true};
    strcpy(m.goodbye.self.name, "b");
    add(corpus, &m);
    m.type = UW_WIRE_STATUS_REQUEST;
    m.status_request = (uwasa_StatusRequest){.run = run, .seq = 1};
    add(corpus, &m);
    m.type = UW_WIRE_STATUS_REPLY;
    m.status_reply = (uwasa_StatusReply){.run = run, .rows_count = 1};
    m.status_reply.rows[0].has_peer = true;
    strcpy(m.status_reply.rows[0].peer.name, "b");
    add(corpus, &m);
    memset(&m, 0, sizeof m);
    m.type = UW_WIRE_CELL;
    m.cell = (uwasa_Cell){.run = run, .model = 7, .act = 1, .ids_count = 2, .hints_count = 2};
    add(corpus, &m);
    add_direct(corpus, run);
}

static int try_one(const uint8_t *input, size_t bytes)
{
    struct uw_message m;
    int rc = uw_message_decode(input, (uint32_t)bytes, &m);
    if (rc == UW_OK && m.type == UW_WIRE_DATA) {
        float floats[2048 / 4];
        int finite = uw_message_floats(&m.data, floats);
        rc = finite == UW_OK ? rc : finite;
    }
    if (fuzz_node_try(&node, input, (uint32_t)bytes) < 0 ||
        fuzz_node_try(&averaging, input, (uint32_t)bytes) < 0) {
        return -1;
    }
    return rc == UW_OK ? (int)m.type : 32 - rc;
}

static size_t mutate(struct uw_rng *rng, uint8_t *input, size_t bytes, size_t cap_bytes)
{
    static const struct uw_fuzz_field data[] = {{0, 1}, {5, 4}, {9, 2}, {11, 2}, {13, 4}, {17, 4},
                                                {21, 2}, {23, 4}};
    if (bytes < UW_WIRE_HEAD_BYTES || (input[0] & 15) == UW_WIRE_DATA ||
        uw_rng_below(rng, 32) == 0) {
        uw_fuzz_mutate_field(rng, input, bytes, data, sizeof data / sizeof data[0]);
        return bytes;
    }
    return uw_fuzz_mutate_wire(rng, input, bytes, cap_bytes);
}

int main(int argc, char **argv)
{
    const struct uw_fuzz_target target = {"wire", add_inputs, try_one, 2048};
    fuzz_node_open(&node, false, UW_NODE_GOSSIP);
    averaging.image = &image;
    averaging.direct = &direct;
    averaging.own_addresses = own_addresses;
    fuzz_node_open(&averaging, false, UW_NODE_ALLREDUCE);
    return uw_fuzz_run_form(&target, &(struct uw_fuzz_form){mutate, uw_fuzz_seal_wire}, argc, argv);
}
