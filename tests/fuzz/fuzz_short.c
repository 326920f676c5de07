/* SPDX-License-Identifier: Apache-2.0
 *
 * The short forms of messages on a link of frames: what is read is written again as the same bytes,
 * and nodes that get it, one that pulls and one that averages by broadcast, stay in order. */
#include "fuzz.h"
#include "fuzz_form.h"
#include "fuzz_node.h"

#include "wire/message.h"

#include <stdlib.h>
#include <string.h>

#define MOST_BYTES 600u

static struct fuzz_node gossips, broadcasts;
static const struct uw_short_data known = {.chunk_n = 5, .transfer = 3, .seq = 900, .asked_n = 16,
                                           .version = 0x12345};

static void add(struct uw_fuzz_corpus *corpus, const uint8_t *buf, int bytes)
{
    if (bytes < 0) {
        abort();
    }
    uw_fuzz_add(corpus, buf, (size_t)bytes);
}

static void add_inputs(struct uw_fuzz_corpus *corpus)
{
    static const float floats[5] = {1.0f, -2.0f, 3.0f, 0.0f, 1e-40f};
    const struct uw_short_wants head = {.model = 7, .mixed = 0};
    struct uw_want wants[UW_SHORT_WANTS_MOST];
    uint8_t buf[MOST_BYTES];
    const struct uw_data d = {.version = 0x12340, .seq = 899, .count_n = 5};
    for (uint32_t i = 0; i < UW_SHORT_WANTS_MOST; i++) {
        wants[i] = (struct uw_want){.transfer = 3, .seq = (uint16_t)(900u + i), .base = 64u * i,
                                    .wanted = i == 0 ? UINT64_MAX : 5, .chunk_n = 5,
                                    .spread_us = 1600};
    }
    add(corpus, buf, uw_message_encode_short_data(&d, 2, floats, buf, sizeof buf));
    const struct uw_cast_chunk cast = {.turn = 4, .tag = 9, .chunk = 3, .count_n = 5};
    add(corpus, buf, uw_message_write_cast(&cast, floats, buf, sizeof buf));
    for (uint32_t n = 1; n <= UW_SHORT_WANTS_MOST; n += 7u) {
        add(corpus, buf, uw_message_write_short_wants(UW_WIRE_WANT, &head, wants, n, buf));
        add(corpus, buf, uw_message_write_short_wants(UW_WIRE_CAST_WANT, &head, wants, n, buf));
    }
    uwasa_Ping ping = {.model = 7, .seq = 1, .has_self = true, .has_progress = true};
    uwasa_Peer other = {.name = "c", .address = "1"};
    strcpy(ping.self.name, "b");
    ping.self.incarnation = 9;
    ping.progress.version = 1;
    for (int type = UW_WIRE_HELLO; type <= UW_WIRE_ACK; type++) {
        int bytes = uw_message_write(true, (enum uw_wire_type)type, &uw_form_ping, &ping, buf,
                                     sizeof buf);
        add(corpus, buf, uw_message_add_peer(true, &other, buf, (uint32_t)bytes, sizeof buf));
    }
    const uwasa_Refuse refuse = {.reason = uwasa_Reason_CHUNK_TOO_BIG, .chunk_n = 9};
    add(corpus, buf, uw_message_write(true, UW_WIRE_REFUSE, &uw_form_refuse, &refuse, buf,
                                      sizeof buf));
}

/* Of n bytes at most one differs: the first, whose version and type the reader is not told. */
static int same(const uint8_t *a, const uint8_t *b, int n, size_t bytes)
{
    return n == (int)bytes && memcmp(a + 1, b + 1, bytes - 1u) == 0;
}

static int try_data(const uint8_t *input, uint32_t bytes)
{
    struct uw_data d;
    float floats[MOST_BYTES / 4u];
    uint8_t again[MOST_BYTES];
    int rc = uw_message_read_short_data(input, bytes, &known, &d);
    if (rc < 0) {
        return rc == UW_ERR_CORRUPT ? 0 : -1;
    }
    (void)uw_message_floats(&d, floats);
    bool near = d.seq <= known.seq && known.seq - d.seq < (int)UW_WIRE_SHORT_SEQS &&
                d.version - known.version + 255u < 511u;
    int n = uw_message_encode_short_data(&d, d.offset_n / known.chunk_n, floats, again,
                                         sizeof again);
    return near && same(again, input, n, bytes) ? 1 : -1;
}

static int try_wants(const uint8_t *input, uint32_t bytes)
{
    struct uw_short_wants head;
    struct uw_want wants[UW_SHORT_WANTS_MOST];
    uint8_t again[MOST_BYTES];
    int n = uw_message_read_short_wants(input, bytes, &head, wants);
    if (n < 0) {
        return n == UW_ERR_CORRUPT ? 0 : -1;
    }
    if (n > (int)UW_SHORT_WANTS_MOST || (uint32_t)n > uw_message_short_wants(bytes)) {
        return -1;
    }
    return same(again, input,
                uw_message_write_short_wants(UW_WIRE_WANT, &head, wants, (uint32_t)n, again),
                bytes)
               ? n
               : -1;
}

static int try_cast(const uint8_t *input, uint32_t bytes)
{
    struct uw_cast_chunk c;
    float floats[MOST_BYTES / 4u];
    uint8_t again[MOST_BYTES];
    int rc = uw_message_read_cast(input, bytes, &c);
    if (rc < 0) {
        return rc == UW_ERR_CORRUPT ? 0 : -1;
    }
    const struct uw_data d = {.count_n = (uint16_t)c.count_n, .floats = c.floats};
    (void)uw_message_floats(&d, floats);
    return same(again, input, uw_message_write_cast(&c, floats, again, sizeof again), bytes) ? 1
                                                                                            : -1;
}

static int try_one(const uint8_t *input, size_t size)
{
    uint32_t bytes = (uint32_t)size;
    int data = try_data(input, bytes), wants = try_wants(input, bytes);
    int cast = try_cast(input, bytes), type = uw_message_type(true, input, bytes), read = 0;
    const struct uw_message_form *form =
        type > 0 ? uw_message_form_of((enum uw_wire_type)type) : NULL;
    if (form != NULL) {
        struct uw_message m;
        read = uw_message_read(true, form, input, bytes, &m.ping) == UW_OK;
    }
    if (data < 0 || wants < 0 || cast < 0 || fuzz_node_try(&gossips, input, bytes) < 0 ||
        fuzz_node_try(&broadcasts, input, bytes) < 0) {
        return -1;
    }
    return (type > 0 ? type : 0) + 16 * read + 32 * data + 64 * cast + 128 * wants;
}

static size_t mutate(struct uw_rng *rng, uint8_t *input, size_t bytes, size_t cap_bytes)
{
    static const struct uw_fuzz_field fields[] = {
        {0, 1}, {1, 1}, {2, 1}, {2, 3}, {3, 2}, {5, 2}, {7, 4}, {11, 4}, {15, 3}, {18, 8},
        {26, 3}, {29, 8}};
    enum uw_wire_type type = bytes > 0 ? (enum uw_wire_type)(input[0] & 15u) : UW_WIRE_DATA;
    if (uw_message_form_of(type) != NULL && type != UW_WIRE_WANT && uw_rng_below(rng, 8) != 0) {
        return 1u + uw_fuzz_mutate_proto(rng, input + 1, bytes - 1u, cap_bytes - 1u);
    }
    uw_fuzz_mutate_field(rng, input, bytes, fields, sizeof fields / sizeof fields[0]);
    return bytes;
}

int main(int argc, char **argv)
{
    const struct uw_fuzz_target target = {"short", add_inputs, try_one, MOST_BYTES};
    fuzz_node_open(&gossips, true, UW_NODE_GOSSIP);
    fuzz_node_open(&broadcasts, true, UW_NODE_BROADCAST);
    return uw_fuzz_run_form(&target, &(struct uw_fuzz_form){mutate, NULL}, argc, argv);
}
