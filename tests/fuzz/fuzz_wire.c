/* SPDX-License-Identifier: Apache-2.0
 *
 * A datagram from anybody: the parser answers with a code, and a node that gets it stays in order.
 * The checksum is made right after each mutation, or nothing would get past it. */
#include "fuzz.h"

#include "crc.h"
#include "node_state.h"

#include "uwasa/link_loopback.h"

#include <string.h>

#define SIZE 100u

static struct uw_loopback_hub hub;
static struct uw_link_loopback here, there;
static struct uw_node node;
static float x[SIZE], snapshot_data[SIZE];
static struct uw_snapshot snapshot = {.data = snapshot_data, .size_n = SIZE,
                                      .busy = ATOMIC_FLAG_INIT};
static const struct uw_segment segment = {.name = "w", .size_n = SIZE};
static const struct uw_params params = {.x = x, .size_n = SIZE, .segments = &segment,
                                        .segments_n = 1, .hash = 7};
static uint64_t now_us = 1000000;

static void set_up(void)
{
    static _Alignas(16) uint8_t hub_memory[65536];
    static uint8_t memory[1 << 20];
    static const char *const seeds[] = {"1"};
    struct uw_loopback_config hub_config = {.memory = hub_memory, .endpoints_n = 2,
                                            .memory_bytes = sizeof hub_memory, .queue_n = 16};
    struct uw_arena arena;
    struct uw_node_config c = {.name = "a", .run = "r", .parts = &uw_node_parts_all,
                               .seeds = seeds, .seeds_n = 1,
                               .incarnation = 5, .link = &here.link, .params = &params,
                               .snapshot = &snapshot, .period_steps = 1, .window_bytes = 16384,
                               .members_max = 4};
    uw_loopback_hub_init(&hub, &hub_config);
    uw_link_loopback_init(&here, &hub, 0);
    uw_link_loopback_init(&there, &hub, 1);
    uw_arena_init(&arena, memory, sizeof memory);
    uw_node_bind(&node, &c, &arena, NULL);
}

static void add(struct uw_fuzz_corpus *corpus, struct uw_message *m)
{
    static const float floats[4] = {1.0f, 2.0f, 3.0f, 4.0f};
    uint8_t buf[2048];
    int bytes = m->type == UW_WIRE_DATA
                    ? uw_message_encode_data(&m->data, floats, buf, sizeof buf)
                    : uw_message_encode(m, buf, sizeof buf);
    if (bytes > 0) {
        uw_fuzz_add(corpus, buf, (size_t)bytes);
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
                              .has_progress = true, .peers_count = 2};
        strcpy(m.ping.self.name, "b");
        m.ping.self.incarnation = 9;
        m.ping.progress.version = 1;
        strcpy(m.ping.peers[0].name, "c");
        strcpy(m.ping.peers[0].address, "1");
        strcpy(m.ping.peers[1].name, "a");
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
}

/* Give the datagram to the node as from its seed, and let both threads' parts run. */
static int try_node(const uint8_t *buf, uint32_t bytes)
{
    struct uw_node_progress p = {.lr = 0.1f};
    uint8_t drain[2048];
    uint16_t from;
    if (bytes <= there.link.mtu_bytes) {
        (void)uw_link_send(&there.link, 0, buf, bytes);
    }
    now_us += 1000;
    if (uw_node_step(&node, now_us) < now_us || uw_node_after_step(&node, &p) < 0) {
        return -1;
    }
    while (uw_link_recv(&there.link, &from, drain, sizeof drain) >= 0) {
        if (from != 0) {
            return -1;
        }
    }
    for (uint32_t i = 0; i < SIZE; i++) {
        if (!(x[i] * 0.0f == 0.0f)) {
            return -1;
        }
    }
    return 0;
}

static int try_one(const uint8_t *input, size_t bytes)
{
    struct uw_message m;
    int rc = uw_message_decode(input, (uint32_t)bytes, &m);
    if (bytes >= UW_WIRE_HEAD_BYTES) {
        uint8_t copy[4096];
        memcpy(copy, input, bytes);
        uint32_t crc = uw_crc32c(uw_crc32c(0, copy, 1), copy + 5, bytes - 5u);
        for (uint32_t i = 0; i < 4u; i++) {
            copy[1u + i] = (uint8_t)(crc >> 8u * i);
        }
        rc = uw_message_decode(copy, (uint32_t)bytes, &m);
        if (try_node(copy, (uint32_t)bytes) < 0) {
            return -1;
        }
    }
    return rc == UW_OK ? (int)m.type : 32 - rc;
}

int main(int argc, char **argv)
{
    set_up();
    return uw_fuzz_run(&(struct uw_fuzz_target){"wire", add_inputs, try_one, 2048}, argc, argv);
}
