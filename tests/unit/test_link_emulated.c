/* SPDX-License-Identifier: Apache-2.0
 *
 * What the emulated link does to messages, on virtual time: each knob alone, exactly or within
 * bounds that its seed keeps for ever. */
#include "test_support.h"

#include "uwasa/link_emulated.h"
#include "uwasa/link_loopback.h"

#define MTU 256u
#define MESSAGES_MAX 4096u

static struct uw_loopback_hub hub;
static struct uw_link_loopback ends[3];
static struct uw_link_emulated emulated;
static void *memory[2];
static uint64_t now_us;

struct arrival {
    uint64_t at_us;
    uint32_t number;
    bool intact;
};

static struct arrival arrivals[MESSAGES_MAX];
static uint32_t arrivals_n;

static int setup(void **state)
{
    (void)state;
    struct uw_loopback_config config = {.endpoints_n = 3, .mtu_bytes = MTU, .queue_n = 2048};
    config.memory_bytes = uw_loopback_hub_bytes(&config);
    config.memory = memory[0] = malloc(config.memory_bytes);
    assert_int_equal(uw_loopback_hub_init(&hub, &config), UW_OK);
    for (uint16_t i = 0; i < 3; i++) {
        assert_int_equal(uw_link_loopback_init(&ends[i], &hub, i), UW_OK);
    }
    now_us = 0;
    arrivals_n = 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    uw_link_deinit(&emulated.link);
    for (size_t i = 0; i < 3; i++) {
        uw_link_deinit(&ends[i].link);
    }
    free(memory[0]);
    free(memory[1]);
    memory[0] = memory[1] = NULL;
    return 0;
}

static int open_emulated(struct uw_impairment send, struct uw_impairment receive, uint32_t queue_n,
                         uint64_t seed)
{
    struct uw_link_emulated_config c = {.lower = &ends[0].link, .queue_n = queue_n,
                                        .receive_queue_n = queue_n, .seed = seed, .send = send,
                                        .receive = receive};
    uw_link_deinit(&emulated.link);
    free(memory[1]);
    c.memory_bytes = uw_link_emulated_bytes(&c);
    c.memory = memory[1] = malloc(c.memory_bytes);
    return uw_link_emulated_init(&emulated, &c);
}

static const struct uw_impairment none;

static int send_number(uint32_t number, uint32_t bytes)
{
    uint8_t buf[MTU];
    memset(buf, (int)(number * 5u + 1u), sizeof buf);
    memcpy(buf, &number, sizeof number);
    return uw_link_send(&emulated.link, 1, buf, bytes);
}

static void collect(struct uw_link *at)
{
    uint8_t buf[MTU];
    uint16_t from;
    int rc;
    while ((rc = uw_link_recv(at, &from, buf, sizeof buf)) >= 0) {
        struct arrival *a = &arrivals[arrivals_n++];
        assert_true(arrivals_n <= MESSAGES_MAX);
        memcpy(&a->number, buf, sizeof a->number);
        a->at_us = now_us;
        a->intact = rc >= 4;
        for (int i = 4; i < rc; i++) {
            a->intact = a->intact && buf[i] == (uint8_t)(a->number * 5u + 1u);
        }
    }
}

static void run_until(uint64_t end_us)
{
    for (; now_us < end_us; now_us += 100) {
        uw_link_step(&emulated.link, now_us);
        collect(&ends[1].link);
    }
}

static void test_emulated_without_impairment_passes_through_at_once(void **state)
{
    (void)state;
    assert_int_equal(open_emulated(none, none, 4, 1), UW_OK);
    for (uint32_t i = 0; i < 100; i++) {
        assert_int_equal(send_number(i, 20), UW_OK);
    }
    collect(&ends[1].link);
    assert_int_equal(arrivals_n, 100);
    assert_int_equal(arrivals[99].number, 99);
}

static void test_emulated_delay_is_exact_and_jitter_keeps_the_order(void **state)
{
    (void)state;
    struct uw_impairment h = {.delay_us = 5000, .jitter_us = 3000};
    assert_int_equal(open_emulated(h, none, 512, 2), UW_OK);
    uw_link_step(&emulated.link, 0);
    uint64_t sent_us[100];
    for (uint32_t i = 0; i < 100; i++) {
        sent_us[i] = now_us;
        assert_int_equal(send_number(i, 20), UW_OK);
        run_until(now_us + 500);
    }
    run_until(now_us + 20000);
    assert_int_equal(arrivals_n, 100);
    uint64_t smallest = UINT64_MAX, largest = 0;
    for (uint32_t i = 0; i < 100; i++) {
        uint64_t took = arrivals[i].at_us - sent_us[i];
        assert_int_equal(arrivals[i].number, i);
        smallest = took < smallest ? took : smallest;
        largest = took > largest ? took : largest;
    }
    assert_in_range(smallest, 4900, 6500);
    assert_in_range(largest, 6500, 8200);
}

static void test_emulated_step_tells_when_the_next_message_is_due(void **state)
{
    (void)state;
    struct uw_impairment h = {.delay_us = 5000};
    assert_int_equal(open_emulated(h, none, 8, 3), UW_OK);
    assert_true(uw_link_step(&emulated.link, 1000) == UINT64_MAX);
    assert_int_equal(send_number(1, 4), UW_OK);
    assert_int_equal(uw_link_step(&emulated.link, 2000), 6000);
    assert_int_equal(uw_link_step(&emulated.link, 5999), 6000);
    collect(&ends[1].link);
    assert_int_equal(arrivals_n, 0);
    assert_true(uw_link_step(&emulated.link, 6000) == UINT64_MAX);
    collect(&ends[1].link);
    assert_int_equal(arrivals_n, 1);
}

static void test_emulated_rate_spaces_messages_and_its_queue_loses_the_tail(void **state)
{
    (void)state;
    /* 100 + 25 bytes at 1 Mbit/s: one message a millisecond; 500 bytes may wait. */
    struct uw_impairment h = {.rate_bits_per_s = 1000000, .overhead_bytes = 25,
                              .rate_queue_bytes = 600};
    assert_int_equal(open_emulated(h, none, 64, 4), UW_OK);
    for (uint32_t i = 0; i < 20; i++) {
        assert_int_equal(send_number(i, 100), UW_OK);
    }
    run_until(30000);
    assert_in_range(arrivals_n, 4, 6);
    for (uint32_t i = 0; i < arrivals_n; i++) {
        assert_int_equal(arrivals[i].at_us, 1000 * (i + 1));
    }
    assert_int_equal(emulated.stats.overflow_n + arrivals_n, 20);
    /* An odd rate does not drift: 1000 messages of 125 bytes at 3 Mbit/s take 333.33 ms. */
    h.rate_bits_per_s = 3000000;
    h.rate_queue_bytes = 1000000;
    assert_int_equal(open_emulated(h, none, 2000, 4), UW_OK);
    arrivals_n = 0;
    now_us = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        assert_int_equal(send_number(i, 100), UW_OK);
    }
    run_until(400000);
    assert_int_equal(arrivals_n, 1000);
    assert_in_range(arrivals[999].at_us, 333300, 333500);
}

static void test_emulated_chances_match_their_probability_and_repeat_with_the_seed(void **state)
{
    (void)state;
    struct uw_impairment h = {.loss = 0.2f, .duplicate = 0.1f, .corrupt = 0.1f, .reorder = 0.1f,
                              .delay_us = 1000};
    static struct arrival before[MESSAGES_MAX];
    for (int again = 0; again < 2; again++) {
        assert_int_equal(open_emulated(h, none, 512, 5), UW_OK);
        now_us = 0;
        arrivals_n = 0;
        uint32_t damaged = 0, overtaken = 0;
        for (uint32_t i = 0; i < 2000; i++) {
            assert_int_equal(send_number(i, 64), UW_OK);
            run_until(now_us + 200);
        }
        run_until(now_us + 10000);
        for (uint32_t i = 0; i < arrivals_n; i++) {
            damaged += !arrivals[i].intact;
            overtaken += i != 0 && arrivals[i].number < arrivals[i - 1].number;
        }
        assert_in_range(emulated.stats.lost_n, 340, 460);
        assert_in_range(emulated.stats.duplicated_n, 110, 210);
        assert_in_range(emulated.stats.corrupted_n, 120, 240);
        assert_int_equal(arrivals_n, 2000 - emulated.stats.lost_n + emulated.stats.duplicated_n);
        assert_true(damaged > 100 && damaged <= emulated.stats.corrupted_n);
        assert_in_range(overtaken, 100, 400);
        if (again == 1) {
            assert_memory_equal(arrivals, before, arrivals_n * sizeof arrivals[0]);
        }
        memcpy(before, arrivals, sizeof before);
    }
}

static void test_emulated_drop_list_loses_exactly_what_it_names(void **state)
{
    (void)state;
    struct uw_impairment h = {.drop = "3,7-9,18-"};
    assert_int_equal(open_emulated(h, none, 8, 6), UW_OK);
    for (uint32_t i = 1; i <= 20; i++) {
        assert_int_equal(send_number(i, 8), UW_OK);
    }
    collect(&ends[1].link);
    const uint32_t expected[] = {1, 2, 4, 5, 6, 10, 11, 12, 13, 14, 15, 16, 17};
    assert_int_equal(arrivals_n, sizeof expected / sizeof expected[0]);
    for (uint32_t i = 0; i < arrivals_n; i++) {
        assert_int_equal(arrivals[i].number, expected[i]);
    }
    assert_int_equal(uw_link_emulated_impair(&emulated, &none, NULL), UW_OK);
    assert_int_equal(send_number(21, 8), UW_OK);
    collect(&ends[1].link);
    assert_int_equal(arrivals[arrivals_n - 1].number, 21);
}

static void test_emulated_receive_side_suffers_as_well(void **state)
{
    (void)state;
    struct uw_impairment h = {.drop = "2", .delay_us = 3000};
    uint8_t buf[MTU];
    uint16_t from;
    assert_int_equal(open_emulated(none, h, 8, 7), UW_OK);
    for (uint8_t i = 1; i <= 3; i++) {
        assert_int_equal(uw_link_send(&ends[2].link, 0, &i, 1), UW_OK);
    }
    assert_int_equal(uw_link_recv(&emulated.link, &from, buf, sizeof buf), UW_ERR_AGAIN);
    assert_int_equal(uw_link_step(&emulated.link, 10), 3000);
    uw_link_step(&emulated.link, 3000);
    assert_int_equal(uw_link_recv(&emulated.link, &from, buf, sizeof buf), 1);
    assert_int_equal(buf[0], 1);
    assert_int_equal(from, 2);
    assert_int_equal(uw_link_recv(&emulated.link, &from, buf, sizeof buf), 1);
    assert_int_equal(buf[0], 3);
    assert_int_equal(uw_link_recv(&emulated.link, &from, buf, sizeof buf), UW_ERR_AGAIN);
}

static void test_emulated_cuts_are_per_station_and_direction_and_heal(void **state)
{
    (void)state;
    uint8_t byte = 1, in;
    uint16_t from;
    assert_int_equal(open_emulated(none, none, 8, 8), UW_OK);
    for (unsigned cut = 0; cut <= UW_EMULATED_BOTH; cut++) {
        assert_int_equal(uw_link_emulated_cut(&emulated, 1, cut), UW_OK);
        for (uint16_t other = 1; other <= 2; other++) {
            bool out = other == 2 || (cut & UW_EMULATED_OUT) == 0;
            bool inwards = other == 2 || (cut & UW_EMULATED_IN) == 0;
            assert_int_equal(uw_link_send(&emulated.link, other, &byte, 1), UW_OK);
            assert_int_equal(uw_link_recv(&ends[other].link, &from, &in, 1),
                             out ? 1 : UW_ERR_AGAIN);
            assert_int_equal(uw_link_send(&ends[other].link, 0, &byte, 1), UW_OK);
            assert_int_equal(uw_link_recv(&emulated.link, &from, &in, 1),
                             inwards ? 1 : UW_ERR_AGAIN);
        }
    }
    assert_int_equal(uw_link_emulated_cut(&emulated, 1, 0), UW_OK);
    assert_int_equal(uw_link_emulated_cut(&emulated, UW_LINK_STATION_BROADCAST, UW_EMULATED_BOTH),
                     UW_OK);
    assert_int_equal(uw_link_send(&emulated.link, 2, &byte, 1), UW_OK);
    assert_int_equal(uw_link_send(&emulated.link, UW_LINK_STATION_BROADCAST, &byte, 1), UW_OK);
    assert_int_equal(uw_link_recv(&ends[2].link, &from, &in, 1), UW_ERR_AGAIN);
    for (uint16_t i = 0; i < UW_EMULATED_CUTS_MAX; i++) {
        assert_int_equal(uw_link_emulated_cut(&emulated, i, UW_EMULATED_OUT), UW_OK);
    }
    assert_int_equal(uw_link_emulated_cut(&emulated, 99, UW_EMULATED_OUT), UW_ERR_FULL);
}

/* Next to a cut, which stays. */
static void test_emulated_narrow_path_loses_what_is_larger_to_one_station(void **state)
{
    (void)state;
    uint8_t buf[MTU] = {0};
    uint16_t from;
    assert_int_equal(open_emulated(none, none, 8, 8), UW_OK);
    assert_int_equal(uw_link_emulated_narrow(&emulated, 1, 10), UW_OK);
    for (uint32_t bytes = 9; bytes <= 11; bytes++) {
        for (uint16_t other = 1; other <= 2; other++) {
            bool lost = other == 1 && bytes > 10;
            assert_int_equal(uw_link_send(&emulated.link, other, buf, bytes), UW_OK);
            assert_int_equal(uw_link_recv(&ends[other].link, &from, buf, sizeof buf),
                             lost ? UW_ERR_AGAIN : (int)bytes);
            assert_int_equal(uw_link_send(&ends[other].link, 0, buf, bytes), UW_OK);
            assert_int_equal(uw_link_recv(&emulated.link, &from, buf, sizeof buf), bytes);
        }
    }
    assert_int_equal(uw_link_emulated_cut(&emulated, 1, UW_EMULATED_IN), UW_OK);
    assert_int_equal(uw_link_send(&emulated.link, 1, buf, 11), UW_OK);
    assert_int_equal(uw_link_recv(&ends[1].link, &from, buf, sizeof buf), UW_ERR_AGAIN);
    assert_int_equal(uw_link_emulated_narrow(&emulated, 1, 0), UW_OK);
    assert_int_equal(uw_link_send(&emulated.link, 1, buf, 11), UW_OK);
    assert_int_equal(uw_link_recv(&ends[1].link, &from, buf, sizeof buf), 11);
    assert_int_equal(uw_link_send(&ends[1].link, 0, buf, 1), UW_OK);
    assert_int_equal(uw_link_recv(&emulated.link, &from, buf, sizeof buf), UW_ERR_AGAIN);
    assert_int_equal(uw_link_emulated_cut(&emulated, 1, 0), UW_OK);
    assert_int_equal(emulated.cuts_n, 0);
}

static void test_emulated_cut_loses_what_is_on_its_way(void **state)
{
    (void)state;
    struct uw_impairment h = {.delay_us = 1000};
    assert_int_equal(open_emulated(h, none, 8, 9), UW_OK);
    assert_int_equal(send_number(1, 8), UW_OK);
    assert_int_equal(uw_link_emulated_cut(&emulated, 1, UW_EMULATED_OUT), UW_OK);
    run_until(5000);
    assert_int_equal(uw_link_emulated_cut(&emulated, 1, 0), UW_OK);
    assert_int_equal(send_number(2, 8), UW_OK);
    run_until(10000);
    assert_int_equal(arrivals_n, 1);
    assert_int_equal(arrivals[0].number, 2);
}

static void test_emulated_full_queue_answers_again_until_something_has_left(void **state)
{
    (void)state;
    struct uw_impairment h = {.delay_us = 1000};
    assert_int_equal(open_emulated(h, none, 4, 10), UW_OK);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(send_number(i, 8), UW_OK);
    }
    assert_int_equal(send_number(4, 8), UW_ERR_AGAIN);
    run_until(1200);
    assert_int_equal(send_number(4, 8), UW_OK);
    run_until(3000);
    assert_int_equal(arrivals_n, 5);
}

static void test_emulated_message_that_is_not_taken_holds_up_others_for_a_while_only(void **state)
{
    (void)state;
    uint8_t byte = 7;
    uint16_t from;
    assert_int_equal(open_emulated((struct uw_impairment){.delay_us = 1000}, none, 8, 1), UW_OK);
    while (uw_link_send(&ends[1].link, 2, &byte, 1) == UW_OK) { /* 2 does not listen */
    }
    uw_link_step(&emulated.link, now_us);
    assert_int_equal(uw_link_send(&emulated.link, 2, &byte, 1), UW_OK);
    assert_int_equal(uw_link_send(&emulated.link, 1, &byte, 1), UW_OK);
    bool arrived = false;
    for (; now_us <= 100000 && !arrived; now_us += 500) {
        uw_link_step(&emulated.link, now_us);
        arrived = uw_link_recv(&ends[1].link, &from, &byte, 1) == 1;
    }
    assert_true(arrived);
    assert_true(now_us > 40000);
    assert_int_equal(emulated.link.stats.dropped_n, 1);
}

static void test_emulated_smaller_mtu_swallows_larger_arrivals(void **state)
{
    (void)state;
    struct uw_link_emulated_config c = {.lower = &ends[0].link, .mtu_bytes = 50};
    uint8_t buf[MTU] = {0};
    uint16_t from;
    c.memory_bytes = uw_link_emulated_bytes(&c);
    c.memory = memory[1] = malloc(c.memory_bytes);
    assert_int_equal(uw_link_emulated_init(&emulated, &c), UW_OK);
    assert_int_equal(uw_link_send(&emulated.link, 1, buf, 51), UW_ERR_TOOBIG);
    assert_int_equal(uw_link_send(&ends[1].link, 0, buf, 51), UW_OK);
    assert_int_equal(uw_link_send(&ends[1].link, 0, buf, 50), UW_OK);
    assert_int_equal(uw_link_recv(&emulated.link, &from, buf, sizeof buf), 50);
    assert_int_equal(uw_link_recv(&emulated.link, &from, buf, sizeof buf), UW_ERR_AGAIN);
}

static void test_emulated_configuration_is_checked(void **state)
{
    (void)state;
    const char *lists[] = {"0", "x", "3,", ",3", "5-4", "1,,2", "-", "-3", "1-2-3", "99999999999",
                           "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17"};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        struct uw_impairment h = {.drop = lists[i]};
        assert_int_equal(open_emulated(h, none, 4, 1), UW_ERR_INVALID);
        uw_link_deinit(&emulated.link);
    }
    struct uw_impairment bad[] = {{.loss = 1.5f}, {.corrupt = -0.1f}, {.duplicate = NAN}};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(open_emulated(none, bad[i], 4, 1), UW_ERR_INVALID);
    }
    assert_int_equal(open_emulated(none, none, 4, 1), UW_OK);
    assert_int_equal(uw_link_emulated_impair(&emulated, &bad[0], NULL), UW_ERR_INVALID);
    assert_int_equal(send_number(1, 8), UW_OK);
    struct uw_link_emulated e;
    struct uw_link_emulated_config c = {.lower = &ends[0].link};
    assert_int_equal(uw_link_emulated_init(&e, &c), UW_ERR_NOMEM);
    c.lower = NULL;
    assert_int_equal(uw_link_emulated_init(&e, &c), UW_ERR_INVALID);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_emulated_without_impairment_passes_through_at_once),
        CASE(test_emulated_delay_is_exact_and_jitter_keeps_the_order),
        CASE(test_emulated_step_tells_when_the_next_message_is_due),
        CASE(test_emulated_rate_spaces_messages_and_its_queue_loses_the_tail),
        CASE(test_emulated_chances_match_their_probability_and_repeat_with_the_seed),
        CASE(test_emulated_drop_list_loses_exactly_what_it_names),
        CASE(test_emulated_receive_side_suffers_as_well),
        CASE(test_emulated_cuts_are_per_station_and_direction_and_heal),
        CASE(test_emulated_narrow_path_loses_what_is_larger_to_one_station),
        CASE(test_emulated_cut_loses_what_is_on_its_way),
        CASE(test_emulated_full_queue_answers_again_until_something_has_left),
        CASE(test_emulated_message_that_is_not_taken_holds_up_others_for_a_while_only),
        CASE(test_emulated_smaller_mtu_swallows_larger_arrivals),
        CASE(test_emulated_configuration_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
