/* SPDX-License-Identifier: Apache-2.0
 *
 * The link over a radio of frames: duty cycle, a radio that changes, addresses. On virtual time. */
#include "test_support.h"

#include "uwasa/link_frame.h"
#include "uwasa/link_loopback.h"
#include "uwasa/radio_link.h"
#include "uwasa/rng.h"

#define MTU 200u
#define HOUR_US UW_LINK_FRAME_WINDOW_US
#define SENT_MAX 20000u

static struct uw_loopback_hub hub;
static struct uw_link_loopback ends[2];
static struct uw_radio_link radios[2];
static struct uw_link_frame links[2];
static struct uw_emulated_medium medium;
static void *hub_memory;

/* With 100 bytes a second a frame takes 10 ms a byte and 40 ms more. */
static uint64_t medium_airtime_us(const void *arg, uint32_t bytes)
{
    return bytes * (uint64_t)8000000u / ((const struct uw_emulated_medium *)arg)->rate_bits_per_s +
           40000u;
}

static int setup(void **state)
{
    (void)state;
    struct uw_loopback_config config = {.endpoints_n = 2, .mtu_bytes = MTU, .queue_n = 8};
    config.memory_bytes = uw_loopback_hub_bytes(&config);
    config.memory = hub_memory = malloc(config.memory_bytes);
    assert_int_equal(uw_loopback_hub_init(&hub, &config), UW_OK);
    medium = (struct uw_emulated_medium){
        .rate_bits_per_s = 800, .airtime_us = medium_airtime_us, .airtime_arg = &medium};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        uw_link_deinit(&links[i].link);
        uw_link_deinit(&ends[i].link);
    }
    free(hub_memory);
    return 0;
}

static void open_links(uint32_t duty_ppm, struct uw_link_frame_config config)
{
    for (uint16_t i = 0; i < 2; i++) {
        assert_int_equal(uw_link_loopback_init(&ends[i], &hub, i), UW_OK);
        const struct uw_radio_link_config radio = {
            .lower = &ends[i].link, .medium = &medium, .duty_ppm = duty_ppm};
        assert_int_equal(uw_radio_link_init(&radios[i], &radio), UW_OK);
        config.radio = &radios[i].base;
        assert_int_equal(uw_link_frame_init(&links[i], &config), UW_OK);
    }
}

static void take_all(void)
{
    uint8_t buf[MTU];
    uint16_t from;
    while (uw_link_recv(&links[1].link, &from, buf, sizeof buf) >= 0) {
        assert_int_equal(from, 0);
    }
}

/* ---- duty cycle ---- */

static struct {
    uint64_t at_us, air_us;
} sent[SENT_MAX];
static uint32_t sent_n;

/* The most airtime in any window that begins with a frame. */
static uint64_t worst_window_us(uint64_t window_us)
{
    uint64_t worst = 0, sum = 0;
    for (uint32_t first = 0, last = 0; first < sent_n; first++) {
        for (; last < sent_n && sent[last].at_us < sent[first].at_us + window_us; last++) {
            sum += sent[last].air_us;
        }
        worst = sum > worst ? sum : worst;
        sum -= sent[first].air_us;
    }
    return worst;
}

/* A station that always has something to send, of any size, and comes back when it is told to;
 * now and then it has nothing for a while. */
static void send_for(uint64_t us, uint64_t seed, uint32_t bytes_most)
{
    struct uw_link *l = &links[0].link;
    struct uw_rng rng;
    uint8_t buf[MTU] = {0};
    uint64_t now_us = 1000000000;
    const uint64_t end_us = now_us + us;
    uw_rng_seed(&rng, seed);
    sent_n = 0;
    uw_link_step(l, now_us);
    while (now_us < end_us) {
        uint32_t bytes = uw_rng_below(&rng, bytes_most + 1u);
        int rc = uw_link_send(l, 1, buf, bytes);
        if (rc == UW_OK) {
            assert_true(sent_n < SENT_MAX);
            sent[sent_n].at_us = now_us;
            sent[sent_n++].air_us = uw_emulated_airtime_us(&medium, bytes);
            take_all();
            now_us += uw_rng_below(&rng, 200) == 0 ? us / 20u : 0;
            uw_link_step(l, now_us);
            continue;
        }
        assert_int_equal(rc, UW_ERR_AGAIN);
        uint64_t next_us = uw_link_step(l, now_us);
        assert_true(next_us > now_us && next_us != UINT64_MAX);
        now_us = next_us;
        assert_true(uw_link_step(l, now_us) == UINT64_MAX);  /* enough for the one refused */
        assert_int_equal(uw_link_send(l, 1, buf, bytes), UW_OK);
        sent[sent_n].at_us = now_us;
        sent[sent_n++].air_us = uw_emulated_airtime_us(&medium, bytes);
        take_all();
    }
}

static void test_frame_duty_cycle_holds_in_every_window(void **state)
{
    (void)state;
    static const struct {
        uint32_t duty_ppm;
        uint64_t window_us, burst_us;
    } cases[] = {{10000, 0, 0}, {1000, 0, 0}, {100000, 0, 0}, {10000, 0, 30000000},
                 {250000, 100000000, 5000000}, {10000, 0, 1}, {10000, 0, UINT64_MAX / 2000000u},
                 {999999, 60000000, 0}};
    uint64_t seed = uw_test_seed(1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct uw_link_frame_air air;
        uint64_t window_us = cases[i].window_us != 0 ? cases[i].window_us : HOUR_US;
        uint64_t allowed_us = cases[i].duty_ppm * window_us / 1000000u;
        open_links(cases[i].duty_ppm, (struct uw_link_frame_config){
            .window_us = cases[i].window_us, .burst_us = cases[i].burst_us});
        uint32_t bytes_most = MTU;
        while (uw_emulated_airtime_us(&medium, bytes_most) > allowed_us / 2u) {
            bytes_most--;
        }
        send_for(20u * window_us, uw_rng_mix(seed, i), bytes_most);
        uint64_t used_us = 0, worst_us = worst_window_us(window_us);
        for (uint32_t k = 0; k < sent_n; k++) {
            used_us += sent[k].air_us;
        }
        assert_true(worst_us <= allowed_us);
        /* Nor is it much less: half is what the largest bucket leaves. */
        assert_true(worst_us > allowed_us / 2u);
        uw_link_frame_air(&links[0], &air);
        assert_int_equal(air.used_us, used_us);
        assert_true(air.waits_n > 0 && air.left_us <= allowed_us / 2u);
        for (size_t k = 0; k < 2; k++) {
            uw_link_deinit(&links[k].link);
            uw_link_deinit(&ends[k].link);
        }
    }
}

static void test_frame_budget_begins_empty_and_is_told(void **state)
{
    (void)state;
    struct uw_link_frame_air air;
    uint8_t buf[MTU] = {0};
    open_links(10000, (struct uw_link_frame_config){.burst_us = 3600000});
    struct uw_link *l = &links[0].link;
    /* 36 s an hour; a tenth of it can be saved up, so that 0.9 % come in. */
    assert_true(uw_link_step(l, 5000000) == UINT64_MAX);
    assert_int_equal(uw_link_send(l, 1, buf, 50), UW_ERR_AGAIN);
    assert_int_equal(uw_link_step(l, 5000000), 5000000 + 60000000);     /* 540 ms in 60 s */
    assert_int_equal(uw_link_send(l, 1, buf, 5), UW_ERR_AGAIN);         /* 90 ms: 10 s */
    assert_int_equal(uw_link_step(l, 5000000), 15000000);
    assert_int_equal(uw_link_step(l, 14999999), 15000000);
    assert_int_equal(uw_link_send(l, 1, buf, 5), UW_ERR_AGAIN);
    assert_true(uw_link_step(l, 15000000) == UINT64_MAX);
    assert_int_equal(uw_link_send(l, 1, buf, 5), UW_OK);
    uw_link_frame_air(&links[0], &air);
    assert_int_equal(air.used_us, 90000);
    assert_int_equal(air.left_us, 0);
    assert_int_equal(air.waits_n, 1);
    uw_link_step(l, 15000000 + 2 * HOUR_US);
    uw_link_frame_air(&links[0], &air);
    assert_int_equal(air.left_us, 3600000);
    /* What the network may reckon with: 100 bytes a second while on the air, less access. */
    assert_int_equal(l->rate_bits_per_s, 200 * 8000000 / 2040000 / 100);
    assert_int_equal(l->duty_ppm, 10000);
}

static void test_frame_without_a_duty_cycle_sends_at_once(void **state)
{
    (void)state;
    struct uw_link_frame_air air;
    uint8_t buf[MTU] = {0};
    open_links(0, (struct uw_link_frame_config){0});
    for (uint32_t duty_ppm = 0; duty_ppm <= 1000000; duty_ppm += 1000000) {
        radios[0].base.duty_ppm = duty_ppm;
        for (int i = 0; i < 100; i++) {
            assert_int_equal(uw_link_send(&links[0].link, 1, buf, 10), UW_OK);
            assert_true(uw_link_step(&links[0].link, 7) == UINT64_MAX);
            take_all();
        }
    }
    uw_link_frame_air(&links[0], &air);
    assert_int_equal(air.used_us, 200 * 140000);
    assert_true(air.left_us == UINT64_MAX);
    assert_int_equal(air.waits_n, 0);
    assert_int_equal(links[0].link.rate_bits_per_s, 200 * 8000000 / 2040000);
    assert_int_equal(links[0].link.duty_ppm, 0);
}

static void test_frame_that_no_window_allows_is_too_big(void **state)
{
    (void)state;
    uint8_t buf[MTU] = {0};
    open_links(1000, (struct uw_link_frame_config){.window_us = 1000000000});   /* one second */
    struct uw_link *l = &links[0].link;
    uw_link_step(l, 0);
    uw_link_step(l, 1000000000);
    assert_int_equal(uw_link_send(l, 1, buf, 47), UW_ERR_TOOBIG);
    assert_true(uw_link_step(l, 1000000000) == UINT64_MAX);
    assert_int_equal(uw_link_send(l, 1, buf, 46), UW_ERR_AGAIN);    /* half a second, no more */
    uint64_t at_us = uw_link_step(l, 1000000000);
    assert_true(at_us > 1000000000 && at_us <= 2000000000);
    uw_link_step(l, at_us);
    assert_int_equal(uw_link_send(l, 1, buf, 46), UW_OK);
}

static void test_frame_refused_by_the_radio_costs_no_budget(void **state)
{
    (void)state;
    struct uw_link_frame_air air;
    uint8_t buf[MTU] = {0};
    open_links(500000, (struct uw_link_frame_config){0});
    struct uw_link *l = &links[0].link;
    uw_link_step(l, 0);
    uw_link_step(l, HOUR_US);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(uw_link_send(l, 1, buf, 10), UW_OK);
    }
    for (int i = 0; i < 20; i++) {
        assert_int_equal(uw_link_send(l, 1, buf, 10), UW_ERR_AGAIN);    /* the queue is full */
    }
    uw_link_frame_air(&links[0], &air);
    assert_int_equal(air.used_us, 8 * 140000);
    assert_int_equal(air.waits_n, 0);
    assert_int_equal(l->stats.sent_n, 8);
}

/* ---- a radio that changes ---- */

static void test_frame_mtu_follows_the_radio_at_every_call(void **state)
{
    (void)state;
    uint8_t buf[MTU] = {0}, in[MTU];
    uint16_t from;
    open_links(0, (struct uw_link_frame_config){0});
    struct uw_link *l = &links[0].link;
    assert_int_equal(l->mtu_bytes, MTU);
    assert_int_equal(uw_link_send(l, 1, buf, MTU), UW_OK);
    radios[0].base.frame_bytes = 51;    /* between two messages of a transfer */
    assert_int_equal(uw_link_send(l, 1, buf, 52), UW_ERR_TOOBIG);
    assert_int_equal(l->mtu_bytes, 51);
    assert_int_equal(uw_link_send(l, 1, buf, 51), UW_OK);
    radios[0].base.frame_bytes = 60;
    assert_int_equal(uw_link_recv(l, &from, in, sizeof in), UW_ERR_AGAIN);
    assert_int_equal(l->mtu_bytes, 60);
    radios[0].base.frame_bytes = 100;
    medium.rate_bits_per_s = 1600;      /* and the data rate adapts */
    uw_link_step(l, 1);
    assert_int_equal(l->mtu_bytes, 100);
    assert_int_equal(l->rate_bits_per_s, 100 * 8000000 / 540000);
    assert_int_equal(uw_link_send(l, 1, buf, 100), UW_OK);
    radios[0].base.frame_bytes = 5000;
    uw_link_step(l, 2);
    assert_int_equal(l->mtu_bytes, UW_RADIO_FRAME_MAX);
    /* What was on its way arrives, whatever the size. */
    static const int sizes[] = {MTU, 51, 100};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(uw_link_recv(&links[1].link, &from, in, sizeof in), sizes[i]);
    }
}

/* ---- addresses ---- */

static void test_frame_stations_are_short_addresses(void **state)
{
    (void)state;
    static const char *const bad[] = {"65534", "65535", "65536", "4294967297", "1 ", "0x3", "-1",
                                      "99999999999999999999"};
    char text[UW_LINK_ADDRESS_BYTES];
    uint16_t station = 7;
    uint8_t byte = 0;
    open_links(0, (struct uw_link_frame_config){0});
    struct uw_link *l = &links[1].link;
    assert_true(l->numbered && l->shared && !l->reliable && !l->secure && !l->frames);
    assert_int_equal(l->own, 1);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(uw_link_resolve(l, bad[i], &station), UW_ERR_INVALID);
        assert_int_equal(station, 7);
    }
    for (uint32_t n = 0; n <= UW_RADIO_ADDRESS_MAX; n += n < 300 ? 1 : 1031) {
        char want[16];
        snprintf(want, sizeof want, "%u", (unsigned)n);
        assert_int_equal(uw_link_describe(l, (uint16_t)n, text), UW_OK);
        assert_string_equal(text, want);
        assert_int_equal(uw_link_resolve(l, text, &station), UW_OK);
        assert_int_equal(station, n);
        assert_true(uw_link_hold(l, station, false));
    }
    assert_int_equal(uw_link_resolve(l, "65533", &station), UW_OK);
    assert_int_equal(uw_link_describe(l, UW_LINK_STATION_BROADCAST, text), UW_ERR_NOTFOUND);
    assert_int_equal(uw_link_send(l, 17, &byte, 1), UW_OK);     /* nobody is there to hear it */
    assert_int_equal(uw_link_send(l, 1, &byte, 1), UW_ERR_NOTFOUND);    /* this one */
    assert_int_equal(uw_link_send(l, UW_LINK_STATION_BROADCAST, &byte, 1), UW_OK);
    radios[1].base.broadcasts = false;
    assert_int_equal(uw_link_send(l, UW_LINK_STATION_BROADCAST, &byte, 1), UW_ERR_UNSUPPORTED);
}

static void test_frame_configuration_is_checked(void **state)
{
    (void)state;
    struct uw_link_frame l;
    open_links(0, (struct uw_link_frame_config){0});
    struct uw_link_frame_config c = {.window_us = UW_LINK_FRAME_WINDOW_MAX_US};
    assert_int_equal(uw_link_frame_init(&l, &c), UW_ERR_INVALID);
    assert_int_equal(uw_link_send(&l.link, 0, "", 1), UW_ERR_CLOSED);
    c.radio = &radios[0].base;
    assert_int_equal(uw_link_frame_init(&l, &c), UW_OK);
    c.window_us++;
    assert_int_equal(uw_link_frame_init(&l, &c), UW_ERR_INVALID);
    c.window_us = 0;
    static const uint32_t sizes[] = {0, 50, 1281};
    for (size_t i = 0; i < 3; i++) {
        radios[0].base.frame_bytes = sizes[i];
        assert_int_equal(uw_link_frame_init(&l, &c), UW_ERR_INVALID);
    }
    radios[0].base.frame_bytes = 51;
    radios[0].base.address = UW_RADIO_ALL;
    assert_int_equal(uw_link_frame_init(&l, &c), UW_ERR_INVALID);
    struct uw_radio_link r;
    struct uw_radio_link_config rc = {.lower = NULL};
    assert_int_equal(uw_radio_link_init(&r, &rc), UW_ERR_INVALID);
    rc.lower = &ends[0].link;
    rc.frame_bytes = MTU + 1u;
    assert_int_equal(uw_radio_link_init(&r, &rc), UW_ERR_INVALID);
    rc.frame_bytes = MTU;
    ends[0].link.numbered = false;
    assert_int_equal(uw_radio_link_init(&r, &rc), UW_ERR_INVALID);
    ends[0].link.numbered = true;
    assert_int_equal(uw_radio_link_init(&r, &rc), UW_OK);
    assert_int_equal(uw_radio_link_init(&r, &rc), UW_OK);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* To wait for the medium is no sending: it lowers the rate where the duty cycle does not. */
static void test_frame_access_is_no_part_of_the_duty_cycle(void **state)
{
    (void)state;
    const uint8_t frame[MTU] = {1};
    medium.access_us = 2040000;         /* as long as a full frame */
    open_links(10000, (struct uw_link_frame_config){0});
    struct uw_link *l = &links[0].link;
    assert_int_equal(l->rate_bits_per_s, 200 * 8000000 / 2040000 / 100);
    (void)uw_link_step(l, 0);
    (void)uw_link_step(l, HOUR_US);
    assert_int_equal(uw_link_send(l, 1, frame, 60), UW_OK);
    struct uw_link_frame_air air;
    uw_link_frame_air(&links[0], &air);
    assert_int_equal(air.used_us, 640000);

    radios[0].base.duty_ppm = 0;
    (void)uw_link_step(l, HOUR_US);
    assert_int_equal(l->rate_bits_per_s, 200 * 8000000 / 4080000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_frame_duty_cycle_holds_in_every_window),
        CASE(test_frame_budget_begins_empty_and_is_told),
        CASE(test_frame_without_a_duty_cycle_sends_at_once),
        CASE(test_frame_that_no_window_allows_is_too_big),
        CASE(test_frame_refused_by_the_radio_costs_no_budget),
        CASE(test_frame_access_is_no_part_of_the_duty_cycle),
        CASE(test_frame_mtu_follows_the_radio_at_every_call),
        CASE(test_frame_stations_are_short_addresses),
        CASE(test_frame_configuration_is_checked),
    };
    return cmocka_run_group_tests_name("link_frame", tests, NULL, NULL);
}
