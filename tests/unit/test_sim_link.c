/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulated network by itself, hop by hop, and beside the emulated link. */
#include "test_support.h"

#include "medium/medium.h"

#include "uwasa/link_emulated.h"
#include "uwasa/link_loopback.h"

#define MTU 1000u
#define DEVICES 4u
#define MESSAGES_MAX 64u

struct bench {
    struct uw_sim_device devices[DEVICES];
    struct uw_sim_cell cells[2];
    struct uw_sim_fleet fleet;
    struct uw_sim_net net;
    uint8_t data[MTU];
};

/* Four devices without limits, the first two in cell 0, the others in cell 1 or in none. */
static void describe(struct bench *b, uint32_t cells_n)
{
    memset(b, 0, sizeof *b);
    b->fleet = (struct uw_sim_fleet){.devices = b->devices, .devices_n = DEVICES,
                                     .cells = b->cells, .cells_n = cells_n};
    for (uint32_t i = 0; i < DEVICES; i++) {
        b->devices[i].step_us = 1;
        b->devices[i].cell = i / 2u < cells_n ? i / 2u : UW_SIM_NO_CELL;
    }
}

static void open_net(struct bench *b)
{
    const struct uw_sim_net_config config = {.fleet = &b->fleet, .mtu_bytes = MTU, .seed = 1};
    assert_int_equal(uw_sim_net_open(&b->net, &config), UW_OK);
}

/* Send a message whose first byte is its number. */
static int send(struct bench *b, uint32_t from, uint32_t to, uint32_t bytes, uint8_t number)
{
    b->data[0] = number;
    return uw_link_send(&b->net.links[from].link, (uint16_t)to, b->data, bytes);
}

struct arrival {
    uint64_t at_us;
    uint32_t to, from, bytes;
    uint8_t number;
};

/* Let arrive what does until then; n are there before. Returns how many there are then. */
static uint32_t pump(struct bench *b, uint64_t until_us, struct arrival a[MESSAGES_MAX], uint32_t n)
{
    while (uw_sim_net_next_us(&b->net) <= until_us && b->net.heap_n != 0) {
        struct uw_sim_link *l = uw_sim_net_step(&b->net);
        uint8_t data[MTU];
        uint16_t from;
        int bytes = l != NULL ? uw_link_recv(&l->link, &from, data, sizeof data) : 0;
        if (bytes > 0) {
            assert_true(n < MESSAGES_MAX);
            a[n++] = (struct arrival){b->net.now_us, l->place, from, (uint32_t)bytes, data[0]};
        }
    }
    return n;
}

static uint32_t arrivals(struct bench *b, struct arrival a[MESSAGES_MAX])
{
    return pump(b, UINT64_MAX, a, 0);
}

static uint64_t on_wire_us(uint32_t bytes, uint64_t bits_per_s)
{
    return bytes * 8000000ull / bits_per_s;
}

/* The same messages at the same times through both. */
static void test_alike_devices_are_as_emulated_links_over_loopback(void **state)
{
    (void)state;
    enum { N = 40 };
    static const uint32_t sizes[] = {1, 1000, 333, 64, 1000, 7, 512};
    struct bench b;
    struct arrival a[MESSAGES_MAX];
    struct uw_loopback_hub hub;
    struct uw_link_loopback ends[2];
    struct uw_link_emulated e;
    uint64_t due_us[N];
    struct uw_loopback_config hub_config = {.endpoints_n = 2, .mtu_bytes = MTU, .queue_n = N};
    hub_config.memory_bytes = uw_loopback_hub_bytes(&hub_config);
    void *hub_memory = hub_config.memory = malloc(hub_config.memory_bytes);
    assert_int_equal(uw_loopback_hub_init(&hub, &hub_config), UW_OK);
    assert_int_equal(uw_link_loopback_init(&ends[0], &hub, 0), UW_OK);
    assert_int_equal(uw_link_loopback_init(&ends[1], &hub, 1), UW_OK);
    struct uw_link_emulated_config config = {
        .lower = &ends[0].link, .queue_n = N,
        .send = {.delay_us = 5000, .rate_bits_per_s = 3000000, .rate_queue_bytes = 1u << 20}};
    config.memory_bytes = uw_link_emulated_bytes(&config);
    void *memory = config.memory = malloc(config.memory_bytes);
    assert_int_equal(uw_link_emulated_init(&e, &config), UW_OK);

    describe(&b, 0);
    for (uint32_t i = 0; i < DEVICES; i++) {
        b.devices[i].up_bits_per_s = 3000000;
        b.devices[i].latency_us = 2500;
    }
    open_net(&b);
    uint32_t sent = 0, got = 0, arrived = 0;
    uint8_t data[MTU] = {0};
    for (uint64_t now_us = 1; now_us < 100000; now_us++) {
        (void)uw_link_step(&e.link, now_us);
        (void)uw_link_step(&b.net.links[0].link, now_us);
        uint16_t from;
        arrived = pump(&b, now_us, a, arrived);
        while (uw_link_recv(&ends[1].link, &from, data, MTU) > 0) {
            due_us[got++] = now_us;
        }
        for (; sent < N && now_us >= 700u * (sent / 3u); sent++) {
            uint32_t bytes = sizes[sent % 7u];
            assert_int_equal(uw_link_send(&e.link, 1, data, bytes), UW_OK);
            assert_int_equal(send(&b, 0, 1, bytes, (uint8_t)sent), UW_OK);
        }
    }
    assert_int_equal(got, N);
    assert_int_equal(arrived, N);
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(a[i].number, i);
        assert_int_equal(a[i].bytes, sizes[i % 7u]);
        assert_int_equal(a[i].at_us, due_us[i]);
    }
    uw_sim_net_close(&b.net);
    uw_link_deinit(&e.link);
    free(memory);
    free(hub_memory);
}

/* Two devices of a cell share its thin link: one message after the other, out and in. Inside the
 * cell nothing of it is seen. */
static void test_a_thin_link_is_shared_by_its_cell_each_way(void **state)
{
    (void)state;
    struct bench b;
    struct arrival a[MESSAGES_MAX];
    describe(&b, 1);
    b.cells[0] = (struct uw_sim_cell){.latency_us = 10, .out_bits_per_s = 80000,
                                      .out_latency_us = 300};
    for (uint32_t i = 0; i < DEVICES; i++) {
        b.devices[i].latency_us = 100;
    }
    open_net(&b);
    uint64_t each_us = on_wire_us(500, 80000);
    assert_int_equal(each_us, 50000);
    assert_int_equal(send(&b, 0, 2, 500, 1), UW_OK);
    assert_int_equal(send(&b, 1, 3, 500, 2), UW_OK);
    assert_int_equal(send(&b, 2, 0, 500, 3), UW_OK);        /* the other way: a queue of its own */
    assert_int_equal(send(&b, 3, 1, 500, 4), UW_OK);
    assert_int_equal(send(&b, 0, 1, 500, 5), UW_OK);
    assert_int_equal(send(&b, 2, 3, 500, 6), UW_OK);
    assert_int_equal(arrivals(&b, a), 6);
    static const uint8_t order[] = {5, 6, 1, 3, 2, 4};
    const uint64_t times[] = {10, 200, each_us + 500, each_us + 500, 2 * each_us + 500,
                              2 * each_us + 500};
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(a[i].number, order[i]);
        assert_int_equal(a[i].at_us, times[i]);
    }
    uw_sim_net_close(&b.net);
}

/* Everything inside the cell, and what leaves or enters it, takes the one channel. */
static void test_on_a_shared_channel_one_message_is_sent_at_a_time(void **state)
{
    (void)state;
    struct bench b;
    struct arrival a[MESSAGES_MAX];
    describe(&b, 1);
    b.cells[0] = (struct uw_sim_cell){.bits_per_s = 250000, .shared = true, .latency_us = 7,
                                      .out_latency_us = 1000};
    open_net(&b);
    uint64_t each_us = on_wire_us(125, 250000);
    assert_int_equal(each_us, 4000);
    assert_int_equal(send(&b, 0, 1, 125, 1), UW_OK);
    assert_int_equal(send(&b, 1, 0, 125, 2), UW_OK);
    assert_int_equal(send(&b, 0, 2, 125, 3), UW_OK);        /* out */
    assert_int_equal(send(&b, 3, 1, 125, 4), UW_OK);        /* in: comes to it after 1000 us */
    assert_int_equal(send(&b, 2, 3, 125, 5), UW_OK);        /* elsewhere */
    assert_int_equal(arrivals(&b, a), 5);
    static const uint8_t order[] = {5, 1, 2, 3, 4};
    const uint64_t times[] = {0, each_us + 7, 2 * each_us + 7, 3 * each_us + 1000, 4 * each_us};
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(a[i].number, order[i]);
        assert_int_equal(a[i].at_us, times[i]);
    }
    uw_sim_net_close(&b.net);
}

/* Up and down differ: the slower of the two sets the pace, and each is a queue of its own. */
static void test_up_and_down_have_rates_of_their_own(void **state)
{
    (void)state;
    struct bench b;
    struct arrival a[MESSAGES_MAX];
    describe(&b, 0);
    for (uint32_t i = 0; i < DEVICES; i++) {
        b.devices[i].up_bits_per_s = 1000000;
        b.devices[i].down_bits_per_s = 10000000;
    }
    b.devices[3].down_bits_per_s = 500000;
    open_net(&b);
    uint64_t up_us = on_wire_us(1000, 1000000), down_us = on_wire_us(1000, 10000000);
    uint64_t slow_us = on_wire_us(1000, 500000);
    for (uint8_t i = 0; i < 4; i++) {
        assert_int_equal(send(&b, 0, 1, 1000, i), UW_OK);           /* up is the slow one */
        assert_int_equal(send(&b, 2, 3, 1000, (uint8_t)(10u + i)), UW_OK);      /* down is */
    }
    assert_int_equal(arrivals(&b, a), 8);
    for (uint32_t i = 0; i < 8; i++) {
        uint64_t k = a[i].number % 10u;
        uint64_t due_us = a[i].to == 1 ? (k + 1u) * up_us + down_us : up_us + (k + 1u) * slow_us;
        assert_int_equal(a[i].at_us, due_us);
    }
    /* Two senders meet in the receiver's queue. */
    uint64_t from_us = b.net.now_us;
    assert_int_equal(send(&b, 0, 3, 1000, 1), UW_OK);
    assert_int_equal(send(&b, 1, 3, 1000, 2), UW_OK);
    assert_int_equal(arrivals(&b, a), 2);
    assert_int_equal(a[0].at_us, from_us + up_us + slow_us);
    assert_int_equal(a[1].at_us, from_us + up_us + 2u * slow_us);
    uw_sim_net_close(&b.net);
}

/* Of 10000 messages 3000 are lost, give or take five standard deviations; the same ones again from
 * the same seed. Those of a device without loss all arrive. */
static void test_messages_are_lost_at_the_rate_of_their_sender(void **state)
{
    (void)state;
    uint32_t got[2] = {0, 0};
    for (uint32_t again = 0; again < 2; again++) {
        struct bench b;
        struct arrival a[MESSAGES_MAX];
        describe(&b, 0);
        b.devices[0].loss = 0.3f;
        open_net(&b);
        for (uint32_t i = 0; i < 10000; i++) {
            assert_int_equal(send(&b, 0, 1, 10, 0), UW_OK);
            assert_int_equal(send(&b, 1, 0, 10, 0), UW_OK);
            uint32_t n = arrivals(&b, a);
            assert_true(n >= 1);
            got[again] += n - 1u;
        }
        assert_int_equal(b.net.lost_n, 10000u - got[again]);
        uw_sim_net_close(&b.net);
    }
    assert_true(got[0] > 7000u - 230u && got[0] < 7000u + 230u);
    assert_int_equal(got[0], got[1]);
}

/* A sender sees its own queue full, others' queues lose what does not fit. */
static void test_full_queues_block_the_sender_or_lose_on_the_way(void **state)
{
    (void)state;
    struct bench b;
    struct arrival a[MESSAGES_MAX];
    describe(&b, 1);
    b.cells[0] = (struct uw_sim_cell){.bits_per_s = 80000, .shared = true};
    b.devices[2].up_bits_per_s = 80000;
    open_net(&b);
    for (uint32_t from = 0; from < 4; from += 2) {
        for (uint8_t i = 0; i < 8; i++) {
            assert_int_equal(send(&b, from, 3, MTU, i), UW_OK);
        }
        assert_int_equal(send(&b, from, 3, MTU, 9), UW_ERR_AGAIN);
    }
    assert_int_equal(arrivals(&b, a), 16);
    assert_int_equal(send(&b, 0, 3, MTU, 1), UW_OK);
    /* The gate to the cell has room for eight as well; what the cell itself sends fills none. */
    for (uint8_t i = 0; i < 10; i++) {
        assert_int_equal(send(&b, 3, 0, MTU, i), UW_OK);
    }
    assert_int_equal(arrivals(&b, a), 9);
    assert_int_equal(b.net.overflow_n, 2);
    uw_sim_net_close(&b.net);
}

/* What comes for a device that is away is lost, what it sent before is not. */
static void test_an_absent_device_misses_what_arrives(void **state)
{
    (void)state;
    struct bench b;
    struct arrival a[MESSAGES_MAX];
    describe(&b, 0);
    for (uint32_t i = 0; i < DEVICES; i++) {
        b.devices[i].latency_us = 100;
    }
    open_net(&b);
    assert_int_equal(send(&b, 0, 1, 10, 1), UW_OK);
    assert_int_equal(send(&b, 1, 0, 10, 2), UW_OK);
    uw_sim_link_away(&b.net.links[1], true);
    assert_int_equal(arrivals(&b, a), 1);
    assert_int_equal(a[0].number, 2);
    uw_sim_link_away(&b.net.links[1], false);
    assert_int_equal(send(&b, 0, 1, 10, 3), UW_OK);
    assert_int_equal(arrivals(&b, a), 1);
    assert_int_equal(a[0].number, 3);
    /* What arrived and was not taken is gone too. */
    assert_int_equal(send(&b, 0, 1, 10, 4), UW_OK);
    while (uw_sim_net_next_us(&b.net) != UINT64_MAX) {
        (void)uw_sim_net_step(&b.net);
    }
    uw_sim_link_away(&b.net.links[1], true);
    uint16_t from;
    assert_int_equal(uw_link_recv(&b.net.links[1].link, &from, b.data, MTU), UW_ERR_AGAIN);
    uw_sim_net_close(&b.net);
    uw_sim_net_close(&b.net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alike_devices_are_as_emulated_links_over_loopback),
        cmocka_unit_test(test_a_thin_link_is_shared_by_its_cell_each_way),
        cmocka_unit_test(test_on_a_shared_channel_one_message_is_sent_at_a_time),
        cmocka_unit_test(test_up_and_down_have_rates_of_their_own),
        cmocka_unit_test(test_messages_are_lost_at_the_rate_of_their_sender),
        cmocka_unit_test(test_full_queues_block_the_sender_or_lose_on_the_way),
        cmocka_unit_test(test_an_absent_device_misses_what_arrives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
