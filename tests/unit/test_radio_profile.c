/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known of links beforehand, against figures derived by hand from their standards. */
#include "test_support.h"

#include "uwasa/radio_profile.h"
#include "uwasa/status.h"

static struct uw_radio_profile find(const char *text)
{
    struct uw_radio_profile p;
    assert_int_equal(uw_radio_profile_find(text, &p), UW_OK);
    return p;
}

static void expect(const char *text, uint32_t frame_bytes, uint64_t airtime_ns, uint32_t access_us)
{
    struct uw_radio_profile p = find(text);
    assert_int_equal(p.frame_bytes, frame_bytes);
    assert_int_equal(uw_radio_profile_airtime_ns(&p, frame_bytes), airtime_ns);
    assert_int_equal(p.access_us, access_us);
}

static void test_radio_profile_longest_frames_take_what_their_standards_say(void **state)
{
    (void)state;
    expect("802154", 116, 4256000, 1440);       /* 6 + 127 bytes of 32 us; 90 symbols of 16 us */
    expect("ble", 244, 2088000, 380);           /* 261 bytes of 8 us */
    expect("espnow", 250, 2536000, 360);        /* 192 us and 293 bytes of 8 us */
    expect("bus", 250, 22743056, 1736);         /* 262 bytes; 2.5 slots of 80 bits at 115200 */
    expect("bus:9600", 250, 272916667, 20833);
    expect("bus:1M", 250, 2620000, 750);        /* slots of 300 us */
    expect("serial", 512, 45225695, 0);         /* 521 bytes of 10 bits at 115200 */
    expect("serial:921600", 512, 5653212, 0);
    expect("wifi", 1232, 523260, 204);          /* 128 us and twice 1334 bytes at 54 Mbit/s */
    expect("ethernet", 1232, 10544, 0);         /* 1318 bytes of 8 ns */
    expect("ethernet:100M", 1232, 105440, 0);
    expect("lte", 1232, 2048000, 0);            /* 1280 bytes of 1.6 us */
    expect("lte:2500k", 1232, 4096000, 0);
}

/* Payload and airtime at 1 % duty: SF7 369 ms for 222 bytes, SF12 2.8 s for 51. */
static void test_radio_profile_lora_takes_what_semtech_says(void **state)
{
    (void)state;
    expect("lora:SF7", 222, 368896000, 0);      /* 360.25 symbols of 1.024 ms */
    expect("lora:SF8", 222, 655872000, 0);      /* 320.25 of 2.048 ms */
    expect("lora:SF9", 115, 676864000, 0);      /* 165.25 of 4.096 ms */
    expect("lora:SF10", 51, 698368000, 0);      /* 85.25 of 8.192 ms */
    expect("lora:SF11", 51, 1560576000, 0);     /* 95.25 of 16.384 ms */
    expect("lora:SF12", 51, 2793472000, 0);     /* 85.25 of 32.768 ms */
    assert_int_equal(find("lora:SF12").duty_ppm, 10000);
    /* AN1200.13's own terms: 28 payload symbols of 13 bytes at SF9, 164.864 ms. */
    assert_int_equal(uw_lora_airtime_us(9, 13), 164864);
    assert_int_equal(uw_lora_airtime_us(12, 0), (49 + 4 * 8) * 8192);   /* preamble and header */
    /* Goodput: 4.8 kbit/s at SF7, 146 bit/s at SF12. */
    assert_int_equal(222u * 8000000u / 368896u, 4814);
    assert_int_equal(51u * 8000000u / 2793472u, 146);
}

static void test_radio_profile_says_who_hears_what(void **state)
{
    (void)state;
    static const char *const cells[] = {"802154", "espnow", "lora:SF9", "bus:9600"};
    for (uint32_t i = 0; i < 4; i++) {
        struct uw_radio_profile p = find(cells[i]);
        assert_true(p.broadcasts && p.shared && p.frames);
    }
    struct uw_radio_profile ble = find("ble"), wifi = find("wifi"), line = find("serial");
    struct uw_radio_profile lan = find("ethernet"), lte = find("lte");
    assert_true(ble.shared && !ble.broadcasts && ble.frames);
    assert_true(wifi.shared && !wifi.broadcasts && !wifi.frames);
    assert_true(!line.shared && !line.frames);
    assert_true(!lan.shared && !lan.frames);
    assert_true(!lte.shared && !lte.frames);
    assert_int_equal(find("802154").duty_ppm, 0);
}

static void test_radio_profile_refuses_what_is_no_link(void **state)
{
    (void)state;
    static const char *const none[] = {"", "80215", "8021544", "LORA:SF7", "zigbee", ":", "wifi6"};
    static const char *const wrong[] = {"lora", "lora:", "lora:7", "lora:SF6", "lora:SF13",
                                        "lora:SF77", "802154:", "802154:250k", "ble:2M",
                                        "bus:", "bus:0", "bus:fast", "serial:",
                                        "serial:0", "serial:9600x", "serial:-1",
                                        "ethernet:1MM", "ethernet:M", "lte:99999999999"};
    struct uw_radio_profile p = {.name = "mine"};
    for (uint32_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        assert_int_equal(uw_radio_profile_find(none[i], &p), UW_ERR_NOTFOUND);
    }
    for (uint32_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(uw_radio_profile_find(wrong[i], &p), UW_ERR_INVALID);
    }
    assert_string_equal(p.name, "mine");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_radio_profile_longest_frames_take_what_their_standards_say),
        cmocka_unit_test(test_radio_profile_lora_takes_what_semtech_says),
        cmocka_unit_test(test_radio_profile_says_who_hears_what),
        cmocka_unit_test(test_radio_profile_refuses_what_is_no_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
