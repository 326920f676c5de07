/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes of other builds: kept messages of earlier ones, and what a later one may send. */
#include "gossip_world.h"
#include "kept_messages.h"
#include "wire/message.h"
#include "wire/part.h"

#include "uwasa/status_client.h"

#define OLD 2u      /* the address of the other build's node */

/* ---- what is read, and written as before ---- */

static void read_kept(const uint8_t *kept, uint32_t bytes, struct uw_message *m)
{
    memset(m, 0, sizeof *m);
    assert_int_equal(uw_message_decode(kept, bytes, m), UW_OK);
}

/* This build writes the same bytes: what it sends, that build reads. */
static void check_same(const struct uw_message *m, const uint8_t *kept, uint32_t bytes)
{
    uint8_t buf[1024];
    int n = uw_message_encode(m, buf, sizeof buf);
    uwasa_Peer peer;
    uint32_t at = 0;
    bool ping = m->type == UW_WIRE_HELLO || m->type == UW_WIRE_PING || m->type == UW_WIRE_ACK;
    while (ping && uw_message_next_peer(false, kept, bytes, &at, &peer)) {
        n = uw_message_add_peer(false, &peer, buf, (uint32_t)n, sizeof buf);
    }
    assert_int_equal(n, bytes);
    assert_memory_equal(buf, kept, bytes);
}

static void test_pings_of_the_previous_build_are_read_and_written(void **state)
{
    (void)state;
    static const struct {
        const uint8_t *kept;
        uint32_t bytes;
    } pings[] = {{kept_hello, sizeof kept_hello}, {kept_ping, sizeof kept_ping},
                 {kept_ack, sizeof kept_ack}};
    for (uint32_t i = 0; i < 3u; i++) {
        struct uw_message m;
        read_kept(pings[i].kept, pings[i].bytes, &m);
        assert_int_equal(m.type, UW_WIRE_HELLO + i);
        assert_string_equal(m.ping.self.name, "old");
        assert_string_equal(m.ping.self.address, "2");
        assert_int_equal(m.ping.progress.step, 40);
        assert_int_equal(m.ping.progress.version, 5);
        assert_string_equal(m.ping.averaging.cell, "*");
        assert_true(m.ping.averaging.averages);
        assert_int_equal(m.ping.averaging.head_weight, 1);
        assert_int_equal(m.ping.averaging.protocol, 0);
        check_same(&m, pings[i].kept, pings[i].bytes);
    }
}

static void test_averages_of_the_previous_build_are_read_and_written(void **state)
{
    (void)state;
    struct uw_message m;
    read_kept(kept_ready, sizeof kept_ready, &m);
    assert_int_equal(m.cell.act, UW_CELL_READY);
    assert_int_equal(m.cell.asks, 9);
    assert_int_equal(m.cell.stream_n, 4096);
    assert_int_equal(m.cell.ids_count, 2);
    assert_int_equal(m.cell.deaf[0], 13);
    check_same(&m, kept_ready, sizeof kept_ready);
    read_kept(kept_start, sizeof kept_start, &m);
    assert_int_equal(m.cell.act, UW_CELL_START);
    assert_int_equal(m.cell.round, 3);
    assert_int_equal(m.cell.ids[1], 12);
    assert_int_equal(m.cell.hints_count, 6);
    check_same(&m, kept_start, sizeof kept_start);
    read_kept(kept_state, sizeof kept_state, &m);
    assert_int_equal(m.cell.act, UW_CELL_STATE);
    assert_int_equal(m.cell.status, UW_CELL_RUNNING);
    assert_int_equal(m.cell.waits_for, 12);
    check_same(&m, kept_state, sizeof kept_state);
    read_kept(kept_poll, sizeof kept_poll, &m);
    assert_int_equal(m.cell.act, UW_CELL_POLL);
    check_same(&m, kept_poll, sizeof kept_poll);

    _Alignas(4) uint8_t part[sizeof kept_part], again[sizeof kept_part];
    uint32_t run;
    struct uw_part p;
    memcpy(part, kept_part, sizeof part);
    assert_int_equal(uw_part_decode(part, sizeof part, true, &run, &p), UW_OK);
    assert_int_equal(p.group, 0x01020304);
    assert_int_equal(p.count_n, 2);
    assert_int_equal(uw_part_encode(&p, run, true, again, sizeof again), sizeof again);
    assert_memory_equal(again, kept_part, sizeof again);
}

static void test_pulls_of_the_previous_builds_are_read_and_written(void **state)
{
    (void)state;
    struct uw_message m;
    read_kept(kept_want, sizeof kept_want, &m);
    assert_int_equal(m.want.chunk_n, 300);
    assert_int_equal(m.want.wanted, 5);
    check_same(&m, kept_want, sizeof kept_want);
    read_kept(kept_refuse, sizeof kept_refuse, &m);
    assert_int_equal(m.refuse.reason, uwasa_Reason_NOT_READY);
    check_same(&m, kept_refuse, sizeof kept_refuse);
    read_kept(kept_goodbye, sizeof kept_goodbye, &m);
    assert_string_equal(m.goodbye.self.name, "old");
    check_same(&m, kept_goodbye, sizeof kept_goodbye);
    read_kept(kept_data, sizeof kept_data, &m);
    float floats[2];
    uint8_t buf[64];
    assert_int_equal(m.data.count_n, 2);
    assert_int_equal(uw_message_floats(&m.data, floats), UW_OK);
    assert_int_equal(uw_message_encode_data(&m.data, floats, buf, sizeof buf), sizeof kept_data);
    assert_memory_equal(buf, kept_data, sizeof kept_data);
}

/* ---- nodes ---- */

struct other {
    struct world *w;
    struct uw_link_loopback link;
    bool started;                   /* a START with it as a rank has come */
};

/* Nodes a and b, of which none but a is up, average with all; at OLD is the test. */
static void open_other(struct other *o)
{
    memset(o, 0, sizeof *o);
    o->w = world_new(3, 500, 0);
    o->w->config.mode = UW_NODE_ALLREDUCE;
    o->w->config.gather_us = 2000000;
    o->w->config.head_weight = 2;   /* a leads */
    o->w->train_us = 5000;
    assert_int_equal(uw_link_loopback_init(&o->link, &o->w->hub, OLD), UW_OK);
    struct uw_node_config c = world_config(o->w, 0);
    c.seeds_n = 0;
    world_up_with(o->w, 0, c);
}

static void close_other(struct other *o)
{
    uw_link_deinit(&o->link.link);
    world_free(o->w);
}

static void take(struct other *o)
{
    uint8_t buf[2048];
    uint16_t from;
    struct uw_message m;
    int bytes;
    while ((bytes = uw_link_recv(&o->link.link, &from, buf, sizeof buf)) > 0) {
        if ((buf[0] & 15) == UW_WIRE_CELL && uw_message_decode(buf, (uint32_t)bytes, &m) == UW_OK &&
            m.cell.act == UW_CELL_START) {
            for (uint32_t i = 0; i < m.cell.ids_count; i++) {
                o->started = o->started || m.cell.ids[i] == uw_name_id("old");
            }
        }
    }
}

/* Send a message to a every 200 ms for so long, and READY with it if it is `ready`. */
static void send(struct other *o, const uint8_t *bytes, uint32_t n, bool ready, uint64_t us)
{
    for (uint64_t end_us = o->w->now_us + us; o->w->now_us < end_us;) {
        assert_true(uw_link_send(&o->link.link, 0, bytes, n) >= 0);
        if (ready) {
            assert_true(uw_link_send(&o->link.link, 0, kept_ready, sizeof kept_ready) >= 0);
        }
        world_run(o->w, 200000);
        take(o);
    }
}

static const char *told(const struct other *o)
{
    return o->w->nodes[0].text[UW_NODE_WRONG_VERSION];
}

static void test_a_node_of_the_previous_build_takes_part_in_averages(void **state)
{
    (void)state;
    struct other o;
    open_other(&o);
    send(&o, kept_ping, sizeof kept_ping, true, 6000000);
    assert_int_equal(world_state(o.w, 0, "old"), UW_MEMBER_ALIVE);
    assert_true(o.started);
    assert_int_equal(o.w->nodes[0].events[UW_NODE_WRONG_VERSION], 0);
    close_other(&o);
}

static void bring_b(struct other *o)
{
    struct uw_node_config c = world_config(o->w, 1);
    c.seeds_n = 0;
    world_up_with(o->w, 1, c);
}

/* It is named once, and nodes of this build find each other through it. */
static void test_a_build_whose_pings_are_unreadable_is_named_and_passes_rumours_on(void **state)
{
    (void)state;
    struct other o;
    open_other(&o);
    bring_b(&o);
    send(&o, kept_ping_of_22_november, sizeof kept_ping_of_22_november, false, 20000000);
    assert_int_equal(o.w->nodes[0].events[UW_NODE_WRONG_VERSION], 1);
    assert_non_null(strstr(told(&o), "old (2) runs another version of the protocol: this node "
                                     "cannot read what it sends"));
    assert_int_equal(world_state(o.w, 0, "b"), UW_MEMBER_ALIVE);
    assert_true(world_counters(o.w, 0).averages_done > 100);
    close_other(&o);
}

static void test_a_node_of_a_later_protocol_is_named_and_not_averaged_with(void **state)
{
    (void)state;
    struct other o;
    struct uw_message m;
    uint8_t buf[256];
    open_other(&o);
    bring_b(&o);
    read_kept(kept_ping, sizeof kept_ping, &m);
    m.ping.averaging.protocol = UW_AVERAGES_PROTOCOL + 1u;
    int bytes = uw_message_encode(&m, buf, sizeof buf);
    uwasa_Peer b = {.name = "b", .address = "1", .incarnation = 1, .state = uwasa_State_ALIVE};
    bytes = uw_message_add_peer(false, &b, buf, (uint32_t)bytes, sizeof buf);
    send(&o, buf, (uint32_t)bytes, true, 20000000);
    assert_int_equal(world_state(o.w, 0, "old"), UW_MEMBER_ALIVE);
    assert_int_equal(o.w->nodes[0].events[UW_NODE_WRONG_VERSION], 1);
    assert_non_null(strstr(told(&o), "old (2) runs another version of the protocol: it averages by "
                                     "version 2, this node by 1"));
    assert_false(o.started);
    assert_true(world_counters(o.w, 0).averages_done > 100);    /* with b */
    close_other(&o);
}

static void test_messages_of_another_wire_version_are_named(void **state)
{
    (void)state;
    struct other o;
    uint8_t buf[sizeof kept_ping];
    open_other(&o);
    memcpy(buf, kept_ping, sizeof buf);
    buf[0] = (uint8_t)((UW_WIRE_VERSION + 1u) << 4 | UW_WIRE_PING);
    uw_put_u32(buf + 1, uw_wire_checksum(buf, sizeof buf));
    send(&o, buf, sizeof buf, false, 3000000);
    assert_int_equal(o.w->nodes[0].events[UW_NODE_WRONG_VERSION], 1);
    assert_non_null(strstr(told(&o), "2 runs another version of the protocol"));
    close_other(&o);
}

static void test_a_status_of_another_version_is_named(void **state)
{
    (void)state;
    static _Alignas(16) uint8_t memory[16384];
    struct uw_loopback_hub hub;
    struct uw_link_loopback mine, theirs;
    struct uw_loopback_config config = {.memory = memory, .memory_bytes = sizeof memory,
                                        .endpoints_n = 2, .queue_n = 4};
    struct uw_status_client c;
    struct uw_node_member rows[4];
    assert_int_equal(uw_loopback_hub_init(&hub, &config), UW_OK);
    assert_int_equal(uw_link_loopback_init(&mine, &hub, 0), UW_OK);
    assert_int_equal(uw_link_loopback_init(&theirs, &hub, 1), UW_OK);
    assert_int_equal(uw_status_client_init(&c, &mine.link, "1"), UW_OK);
    int rc = UW_ERR_AGAIN;
    for (uint32_t i = 0; i < 20000 && rc == UW_ERR_AGAIN; i++) {
        rc = uw_status_client_step(&c, i * 1000u, rows, 4, NULL);
        if (i == 100) {
            assert_int_equal(uw_link_send(&theirs.link, 0, kept_status_of_22_november,
                                          sizeof kept_status_of_22_november), UW_OK);
        }
    }
    assert_int_equal(rc, UW_ERR_UNSUPPORTED);
    uw_link_deinit(&mine.link);
    uw_link_deinit(&theirs.link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pings_of_the_previous_build_are_read_and_written),
        cmocka_unit_test(test_averages_of_the_previous_build_are_read_and_written),
        cmocka_unit_test(test_pulls_of_the_previous_builds_are_read_and_written),
        cmocka_unit_test(test_a_node_of_the_previous_build_takes_part_in_averages),
        cmocka_unit_test(
            test_a_build_whose_pings_are_unreadable_is_named_and_passes_rumours_on),
        cmocka_unit_test(test_a_node_of_a_later_protocol_is_named_and_not_averaged_with),
        cmocka_unit_test(test_messages_of_another_wire_version_are_named),
        cmocka_unit_test(test_a_status_of_another_version_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
