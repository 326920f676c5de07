/* SPDX-License-Identifier: Apache-2.0
 *
 * Emulated links that share a medium, on virtual time. */
#include "test_support.h"

#include "uwasa/link_emulated.h"
#include "uwasa/link_loopback.h"
#include "uwasa/radio_profile.h"

#define MTU 128u
#define STATIONS 3u
#define ARRIVALS_MAX 64u

static struct uw_loopback_hub hub;
static struct uw_link_loopback ends[STATIONS];
static struct uw_link_emulated links[STATIONS];
static struct uw_emulated_medium medium;
static void *hub_memory, *memory[STATIONS];
static uint64_t now_us;

static struct {
    uint64_t at_us;
    uint16_t from, to;
    uint8_t number;
} arrivals[ARRIVALS_MAX];
static uint32_t arrivals_n;

static int setup(void **state)
{
    (void)state;
    struct uw_loopback_config config = {.endpoints_n = STATIONS, .mtu_bytes = MTU};
    config.memory_bytes = uw_loopback_hub_bytes(&config);
    config.memory = hub_memory = malloc(config.memory_bytes);
    assert_int_equal(uw_loopback_hub_init(&hub, &config), UW_OK);
    /* 100 + 25 bytes at 1 Mbit/s and 500 us before: a message every 1.5 ms. */
    medium = (struct uw_emulated_medium){.rate_bits_per_s = 1000000, .overhead_bytes = 25,
                                         .access_us = 500};
    now_us = 0;
    arrivals_n = 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < STATIONS; i++) {
        uw_link_deinit(&links[i].link);
        uw_link_deinit(&ends[i].link);
        free(memory[i]);
        memory[i] = NULL;
    }
    assert_null(medium.first);
    free(hub_memory);
    return 0;
}

static void open_all(struct uw_impairment send)
{
    for (uint16_t i = 0; i < STATIONS; i++) {
        assert_int_equal(uw_link_loopback_init(&ends[i], &hub, i), UW_OK);
        struct uw_link_emulated_config c = {.lower = &ends[i].link, .queue_n = 8, .seed = i,
                                            .medium = &medium, .send = send};
        c.memory_bytes = uw_link_emulated_bytes(&c);
        c.memory = memory[i] = malloc(c.memory_bytes);
        assert_int_equal(uw_link_emulated_init(&links[i], &c), UW_OK);
        uw_link_step(&links[i].link, 0);
    }
}

static int send_one(uint32_t from, uint16_t to, uint8_t number, uint32_t bytes)
{
    uint8_t buf[MTU];
    memset(buf, number, sizeof buf);
    return uw_link_send(&links[from].link, to, buf, bytes);
}

/* Every link runs when it asked to. Returns when the next one wants to. */
static uint64_t step_all(void)
{
    uint64_t next_us = UINT64_MAX;
    for (uint32_t i = 0; i < STATIONS; i++) {
        uint64_t own_us = uw_link_step(&links[i].link, now_us);
        next_us = own_us < next_us ? own_us : next_us;
    }
    for (uint16_t i = 0; i < STATIONS; i++) {
        uint8_t buf[MTU];
        uint16_t from;
        int rc;
        while ((rc = uw_link_recv(&links[i].link, &from, buf, sizeof buf)) > 0) {
            assert_true(arrivals_n < ARRIVALS_MAX);
            arrivals[arrivals_n].at_us = now_us;
            arrivals[arrivals_n].from = from;
            arrivals[arrivals_n].to = i;
            arrivals[arrivals_n++].number = buf[rc - 1];
        }
    }
    return next_us;
}

static void run_dry(void)
{
    for (uint64_t next_us = step_all(); next_us != UINT64_MAX; next_us = step_all()) {
        assert_true(next_us > now_us);
        now_us = next_us;
    }
}

static void test_medium_carries_one_message_at_a_time_and_stations_take_turns(void **state)
{
    (void)state;
    struct uw_impairment delayed = {.delay_us = 2000};
    open_all(delayed);
    for (uint8_t k = 0; k < 4; k++) {
        assert_int_equal(send_one(0, 1, k, 100), UW_OK);
    }
    for (uint8_t k = 0; k < 2; k++) {
        assert_int_equal(send_one(1, 0, k, 100), UW_OK);
        assert_int_equal(send_one(2, 0, k, 100), UW_OK);
    }
    run_dry();
    assert_int_equal(arrivals_n, 8);
    uint32_t next[STATIONS] = {0}, in_a_row = 0;
    for (uint32_t i = 0; i < arrivals_n; i++) {
        assert_int_equal(arrivals[i].at_us, 2000 + 1500 * (i + 1));
        assert_int_equal(arrivals[i].number, next[arrivals[i].from]++);
        in_a_row = i > 0 && arrivals[i].from == arrivals[i - 1].from ? in_a_row + 1 : 0;
        assert_true(i >= 6 || in_a_row == 0);   /* only one has something left at the end */
    }
    assert_int_equal(medium.busy_us, 8 * 1500);
    assert_int_equal(medium.messages_n, 8);
}

static void test_medium_is_silent_between_messages_and_begins_at_once(void **state)
{
    (void)state;
    open_all((struct uw_impairment){0});
    for (uint8_t k = 0; k < 3; k++) {
        assert_int_equal(send_one(k, (uint16_t)((k + 1u) % STATIONS), k, 100), UW_OK);
        run_dry();
        assert_int_equal(arrivals_n, k + 1);
        assert_int_equal(arrivals[k].at_us, now_us);
        now_us += 10000;
        step_all();
    }
    assert_int_equal(arrivals[1].at_us, 1500 + 10000 + 1500);
    assert_int_equal(medium.busy_us, 3 * 1500);
}

static void test_medium_a_full_queue_answers_again_until_a_message_has_left(void **state)
{
    (void)state;
    open_all((struct uw_impairment){0});
    /* One is on the air and holds its place until it has arrived. */
    for (uint8_t k = 0; k < 8; k++) {
        assert_int_equal(send_one(0, 1, k, 100), UW_OK);
    }
    assert_int_equal(send_one(0, 1, 8, 100), UW_ERR_AGAIN);
    now_us = 1500;
    step_all();
    assert_int_equal(send_one(0, 1, 8, 100), UW_OK);
    assert_int_equal(send_one(0, 1, 9, 100), UW_ERR_AGAIN);
    run_dry();
    assert_int_equal(arrivals_n, 9);
    for (uint8_t k = 0; k < 9; k++) {
        assert_int_equal(arrivals[k].number, k);
    }
}

static void test_medium_what_is_lost_was_on_the_air_and_what_is_cut_was_not(void **state)
{
    (void)state;
    struct uw_impairment second = {.drop = "2"};
    open_all(second);
    for (uint8_t k = 1; k <= 3; k++) {
        assert_int_equal(send_one(0, 1, k, 100), UW_OK);
    }
    run_dry();
    assert_int_equal(arrivals_n, 2);
    assert_int_equal(arrivals[1].number, 3);
    assert_int_equal(arrivals[1].at_us, 3 * 1500);
    assert_int_equal(links[0].stats.lost_n, 1);
    assert_int_equal(uw_link_emulated_cut(&links[0], 1, UW_EMULATED_OUT), UW_OK);
    assert_int_equal(send_one(0, 1, 4, 100), UW_OK);
    assert_int_equal(send_one(0, 2, 5, 100), UW_OK);
    run_dry();
    assert_int_equal(arrivals_n, 3);
    assert_int_equal(arrivals[2].number, 5);
    assert_int_equal(arrivals[2].at_us, 4 * 1500);
}

static void test_medium_copies_go_on_the_air_as_well(void **state)
{
    (void)state;
    struct uw_impairment always = {.duplicate = 1.0f};
    open_all(always);
    assert_int_equal(send_one(0, 1, 1, 100), UW_OK);
    assert_int_equal(send_one(1, 0, 2, 100), UW_OK);
    run_dry();
    assert_int_equal(arrivals_n, 4);
    assert_int_equal(now_us, 4 * 1500);
    for (uint32_t i = 0; i < arrivals_n; i++) {
        assert_int_equal(arrivals[i].number, arrivals[i].to == 1 ? 1 : 2);
    }
}

static void test_medium_goes_on_when_a_link_is_closed(void **state)
{
    (void)state;
    open_all((struct uw_impairment){0});
    for (uint8_t k = 0; k < 2; k++) {
        assert_int_equal(send_one(0, 1, k, 100), UW_OK);
        assert_int_equal(send_one(2, 1, k, 100), UW_OK);
    }
    uw_link_deinit(&links[0].link);
    for (uint64_t next_us = 0; next_us != UINT64_MAX;) {
        now_us = next_us;
        next_us = uw_link_step(&links[2].link, now_us);
    }
    uint8_t buf[MTU];
    uint16_t from;
    assert_int_equal(uw_link_recv(&links[1].link, &from, buf, sizeof buf), 100);
    assert_int_equal(from, 2);
    assert_int_equal(uw_link_recv(&links[1].link, &from, buf, sizeof buf), 100);
    assert_int_equal(now_us, 3 * 1500);     /* the closed link's first one was on the air */
}

/* LoRa's airtime has steps of 5 symbols, 5.12 ms at SF7: 99 and 100 bytes take 185.25 symbols. */
static void test_medium_of_a_radio_carries_each_message_for_its_airtime(void **state)
{
    (void)state;
    struct uw_radio_profile lora;
    assert_int_equal(uw_radio_profile_find("lora:SF7", &lora), UW_OK);
    uw_radio_profile_medium(&lora, &medium);
    open_all((struct uw_impairment){0});
    for (uint8_t k = 0; k < 3; k++) {
        assert_int_equal(send_one(0, 1, k, 99u + k), UW_OK);
    }
    run_dry();
    assert_int_equal(arrivals_n, 3);
    assert_int_equal(arrivals[0].at_us, 189696);
    assert_int_equal(arrivals[1].at_us, 2 * 189696);
    assert_int_equal(arrivals[2].at_us, 3 * 189696 + 5120);
    assert_int_equal(uw_emulated_airtime_us(&medium, 100), 189696);
    uw_link_deinit(&links[2].link);

    struct uw_radio_profile narrow;
    assert_int_equal(uw_radio_profile_find("802154", &narrow), UW_OK);
    uint64_t begin_us = now_us;
    medium.access_us = narrow.access_us;
    medium.airtime_arg = &narrow;
    assert_int_equal(send_one(0, 1, 3, 116), UW_OK);
    run_dry();
    assert_int_equal(arrivals[3].at_us - begin_us, 4256 + 1440);
    assert_int_equal(uw_emulated_airtime_us(&medium, 116), 4256 + 1440);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_medium_carries_one_message_at_a_time_and_stations_take_turns),
        CASE(test_medium_is_silent_between_messages_and_begins_at_once),
        CASE(test_medium_a_full_queue_answers_again_until_a_message_has_left),
        CASE(test_medium_what_is_lost_was_on_the_air_and_what_is_cut_was_not),
        CASE(test_medium_copies_go_on_the_air_as_well),
        CASE(test_medium_goes_on_when_a_link_is_closed),
        CASE(test_medium_of_a_radio_carries_each_message_for_its_airtime),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
