/* SPDX-License-Identifier: Apache-2.0
 *
 * A peer that holds the key and means harm, or has lost its mind: the others go on. */
#include "test_support.h"

#include "gossip_world.h"
#include "wire/message.h"

#include "uwasa/status_client.h"

static void lose_its_mind(struct world_node *n)
{
    for (uint32_t k = 0; k < n->world->size_n; k++) {
        n->x[k] = 1e6f;
    }
}

static void hold_still(struct world_node *n, int flags)
{
    n->progress.lr = (flags & UW_NODE_ADOPTING) != 0 ? 0.0f : 0.1f;
}

static void test_newcomer_does_not_adopt_a_diverged_model(void **state)
{
    (void)state;
    struct world *w = world_new(3, 1000, 0);
    world_up(w, 0);
    world_up(w, 1);
    world_run(w, 10000000);
    assert_true(w->nodes[0].rounds >= 2 && w->nodes[1].rounds >= 2);
    w->nodes[0].train = w->nodes[1].train = lose_its_mind;
    world_run(w, 2000000);
    struct uw_node_config c = world_config(w, 2);
    c.newcomer = true;
    w->nodes[2].after = hold_still;
    world_up_with(w, 2, c);
    world_run(w, 30000000);
    assert_true(w->nodes[2].events[UW_NODE_CHUNK_OUTLIER] >= 1);
    for (uint32_t k = 0; k < w->size_n; k++) {
        assert_float_equal(w->nodes[2].x[k], 3.0f, 0.0);
    }
    world_free(w);
}

/* Answers whatever comes with a table that never ends. */
static void answer(struct uw_link *link, bool with_row)
{
    uint8_t buf[512];
    uint16_t from;
    struct uw_message in;
    int bytes = uw_link_recv(link, &from, buf, sizeof buf);
    if (bytes <= 0 || uw_message_decode(buf, (uint32_t)bytes, &in) != UW_OK) {
        return;
    }
    struct uw_message out = {.type = UW_WIRE_STATUS_REPLY};
    out.status_reply = (uwasa_StatusReply){.run = 1, .seq = in.status_request.seq,
                                           .first = in.status_request.first,
                                           .total = UINT32_MAX, .rows_count = with_row};
    out.status_reply.rows[0].has_peer = true;
    strcpy(out.status_reply.rows[0].peer.name, "x");
    bytes = uw_message_encode(&out, buf, sizeof buf);
    assert_true(bytes > 0);
    assert_int_equal(uw_link_send(link, from, buf, (uint32_t)bytes), UW_OK);
}

static void check_endless_table(bool with_row)
{
    static _Alignas(16) uint8_t memory[16384];
    struct uw_loopback_hub hub;
    struct uw_link_loopback mine, theirs;
    struct uw_loopback_config config = {.memory = memory, .memory_bytes = sizeof memory,
                                        .endpoints_n = 2, .queue_n = 4};
    assert_int_equal(uw_loopback_hub_init(&hub, &config), UW_OK);
    assert_int_equal(uw_link_loopback_init(&mine, &hub, 0), UW_OK);
    assert_int_equal(uw_link_loopback_init(&theirs, &hub, 1), UW_OK);
    struct uw_status_client c;
    struct uw_node_member rows[4];
    struct uw_node_counters counters;
    assert_int_equal(uw_status_client_init(&c, &mine.link, "1"), UW_OK);
    int rc = UW_ERR_AGAIN;
    for (uint32_t i = 0; i < 20000 && rc == UW_ERR_AGAIN; i++) {
        rc = uw_status_client_step(&c, i * 1000u, rows, 4, &counters);
        answer(&theirs.link, with_row);
    }
    assert_int_equal(rc, UW_ERR_TIMEOUT);
    uw_link_deinit(&mine.link);
    uw_link_deinit(&theirs.link);
}

static void test_status_client_gives_up_on_a_table_without_end(void **state)
{
    (void)state;
    check_endless_table(false);
    check_endless_table(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_newcomer_does_not_adopt_a_diverged_model),
        cmocka_unit_test(test_status_client_gives_up_on_a_table_without_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
