/* SPDX-License-Identifier: Apache-2.0
 *
 * What radio_udp promises beyond uwasa/radio.h: whose frames are heard, what is no frame, and a
 * sentence for what cannot be opened. */
#include "test_support.h"

#include "uwasa/radio_udp.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#define STATIONS 3u

static struct uw_radio_udp radios[STATIONS];
static char group[32];
static bool absent;                 /* no multicast here, as under emulation */

static int setup(void **state)
{
    (void)state;
    snprintf(group, sizeof group, "239.255.85.88:%u", 20000u + (unsigned)getpid() % 40000u);
    for (uint16_t i = 0; i < STATIONS; i++) {
        const struct uw_radio_udp_config c = {.group = group, .address = i, .frame_bytes = 60,
                                              .rate_bits_per_s = 8000};
        absent = absent || uw_radio_udp_init(&radios[i], &c, NULL) != UW_OK;
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int again = 0; again < 2; again++) {
        for (size_t i = 0; i < STATIONS; i++) {
            uw_radio_udp_deinit(&radios[i]);
        }
    }
    return 0;
}

static void need_multicast(void)
{
    if (absent) {
        print_message("skipped: this machine has no multicast on its loopback interface\n");
        skip();
    }
}

static int send_to(uint32_t from, uint16_t to, const char *text)
{
    struct uw_radio *r = &radios[from].base;
    return r->ops->send(r, to, text, (uint32_t)strlen(text));
}

static int take(uint32_t at, uint16_t *from, char *text, uint32_t cap_bytes)
{
    struct uw_radio *r = &radios[at].base;
    struct pollfd fd = {.fd = r->fd, .events = POLLIN};
    (void)poll(&fd, 1, 1000);
    int rc = r->ops->recv(r, from, text, cap_bytes);
    if (rc >= 0) {
        text[rc] = '\0';
    }
    return rc;
}

static void expect(uint32_t at, uint16_t want_from, const char *want)
{
    char text[64];
    uint16_t from = 99;
    assert_int_equal(take(at, &from, text, 60), strlen(want));
    assert_string_equal(text, want);
    assert_int_equal(from, want_from);
}

static void test_multicast_each_station_hears_its_own_frames_and_those_to_all(void **state)
{
    (void)state;
    need_multicast();
    char text[64];
    uint16_t from;
    assert_int_equal(send_to(0, 1, "one"), UW_OK);
    assert_int_equal(send_to(0, 0, "self"), UW_OK);
    assert_int_equal(send_to(0, 77, "nobody"), UW_OK);
    assert_int_equal(send_to(2, UW_RADIO_ALL, "all"), UW_OK);
    assert_int_equal(send_to(0, 2, "two"), UW_OK);
    expect(1, 0, "one");
    expect(1, 2, "all");
    expect(0, 2, "all");
    expect(2, 2, "all");
    expect(2, 0, "two");
    for (uint32_t i = 0; i < STATIONS; i++) {
        struct uw_radio *r = &radios[i].base;
        assert_int_equal(r->ops->recv(r, &from, text, sizeof text), UW_ERR_AGAIN);
    }
}

static void test_multicast_what_is_no_frame_is_skipped(void **state)
{
    (void)state;
    need_multicast();
    static const struct {
        const char *bytes;
        size_t n;
    } noise[] = {{"", 0}, {"\x01\0\0", 3}, {"\x01\0\x01\0x", 5}, {"\x01\0\xff\xffx", 5},
                 {"\x01\0\xfe\xffx", 5}, {"\xff\xff\0\0x", 5}};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(radios[0].port),
                             .sin_addr.s_addr = radios[0].group};
    for (size_t i = 0; i < sizeof noise / sizeof noise[0]; i++) {
        assert_int_equal(sendto(radios[0].base.fd, noise[i].bytes, noise[i].n, 0,
                                (struct sockaddr *)&to, sizeof to), noise[i].n);
    }
    assert_int_equal(send_to(0, 1, "a frame"), UW_OK);
    expect(1, 0, "a frame");
}

static void test_multicast_sizes_and_airtime_are_those_of_the_configuration(void **state)
{
    (void)state;
    need_multicast();
    struct uw_radio *r = &radios[0].base;
    char text[64], large[61];
    uint16_t from;
    memset(large, 'x', sizeof large);
    assert_int_equal(r->ops->send(r, 1, large, 61), UW_ERR_TOOBIG);
    assert_int_equal(r->ops->send(r, 1, large, 60), UW_OK);
    assert_int_equal(take(1, &from, text, 59), UW_ERR_TOOBIG);
    assert_int_equal(r->ops->recv(&radios[1].base, &from, text, 59), UW_ERR_AGAIN);
    assert_int_equal(r->ops->send(r, 1, NULL, 0), UW_OK);
    assert_int_equal(take(1, &from, text, 59), 0);
    assert_int_equal(r->ops->airtime_us(r, 60), 64000);
}

static void test_multicast_bad_configuration_gets_a_sentence(void **state)
{
    (void)state;
    static const struct {
        struct uw_radio_udp_config config;
        int rc;
        const char *says;
    } cases[] = {
        {{.group = NULL}, UW_ERR_INVALID, "is not a multicast group"},
        {{.group = "10.0.0.1:4785"}, UW_ERR_INVALID, "\"10.0.0.1:4785\" is not a multicast group"},
        {{.group = "239.1.1.1"}, UW_ERR_INVALID, "is not a multicast group"},
        {{.group = "[ff02::1]:4785"}, UW_ERR_INVALID, "is not a multicast group"},
        {{.group = "239.1.1.1:4785", .interface = "lo"}, UW_ERR_INVALID, "\"lo\" is not an IPv4"},
        {{.group = "239.1.1.1:4785", .interface = "192.0.2.7"}, UW_ERR_IO,
         "through 192.0.2.7: not an address of this machine ("},
        {{.group = "239.1.1.1:4785", .frame_bytes = 50}, UW_ERR_INVALID, "frames of 51 to 1280"},
        {{.group = "239.1.1.1:4785", .frame_bytes = 1281}, UW_ERR_INVALID, "frames of 51 to 1280"},
        {{.group = "239.1.1.1:4785", .address = UW_RADIO_ALL}, UW_ERR_INVALID, "up to 65533"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct uw_radio_udp r;
        struct uw_error err = {.text = ""};
        assert_int_equal(uw_radio_udp_init(&r, &cases[i].config, &err), cases[i].rc);
        assert_non_null(strstr(err.text, cases[i].says));
        assert_int_equal(r.base.fd, -1);
        uw_radio_udp_deinit(&r);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_multicast_each_station_hears_its_own_frames_and_those_to_all),
        CASE(test_multicast_what_is_no_frame_is_skipped),
        CASE(test_multicast_sizes_and_airtime_are_those_of_the_configuration),
        cmocka_unit_test(test_multicast_bad_configuration_gets_a_sentence),
    };
    return cmocka_run_group_tests_name("radio_udp", tests, NULL, NULL);
}
