/* SPDX-License-Identifier: Apache-2.0
 *
 * The text of IP addresses, beside what the C library of a POSIX system reads and writes. */
#include "test_support.h"

#include "link/ip_address.h"

#include <arpa/inet.h>

static bool reads_alike(const char *host)
{
    struct uw_ip_address a = {.port = 7, .scope = 9};
    uint8_t four[4], six[16];
    bool ours = uw_ip_address_parse_host(host, &a) == UW_OK;
    if (inet_pton(AF_INET, host, four) == 1) {
        return ours && uw_ip_address_is_ipv4(&a) && memcmp(a.ip + 12, four, 4) == 0 &&
               a.scope == 0 && a.port == 7;
    }
    if (inet_pton(AF_INET6, host, six) == 1) {
        return ours && memcmp(a.ip, six, 16) == 0 && a.scope == 0;
    }
    return !ours && a.scope == 9;
}

static void test_ip_address_reads_what_the_system_reads(void **state)
{
    (void)state;
    const char *hosts[] = {
        "0.0.0.0", "255.255.255.255", "10.0.0.9", "256.1.1.1", "1.2.3", "1.2.3.4.5", "1..2.3",
        "01.2.3.4", "1.2.3.4 ", " 1.2.3.4", "1.2.3.4000", "::", "::1", "1::", ":", ":::",
        "1:::2", "1::2::3", ":1", "1:", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8:9", "",
        "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "1:2:3:4::5:6:7:8", "1:2:3:4:5:6:7:8::", "12345::",
        "FE80::aBcD", "g::", "::1.2.3.4", "::ffff:1.2.3.4", "1:2:3:4:5:6:1.2.3.4",
        "1:2:3:4:5:6:7:1.2.3.4", "1.2.3.4::", "::1.2.3", "::1.2.3.4:5", "localhost",
        "1:2:3:4:5:6:7", "::.1.2.3", "abc.d.e.f", "::12.3.4.5.6",
    };
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        if (!reads_alike(hosts[i])) {
            fail_msg("\"%s\" is read otherwise than inet_pton does", hosts[i]);
        }
    }
}

/* Short texts over the alphabet of addresses: most are malformed, some are not. */
static void test_ip_address_random_texts_are_read_as_the_system_reads_them(void **state)
{
    (void)state;
    const char alphabet[] = "0019af:::..";
    uint64_t seed = uw_test_seed(1);
    for (int i = 0; i < 200000; i++) {
        char text[24];
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint64_t bits = seed ^ seed >> 31;
        uint32_t n = (uint32_t)(bits % (sizeof text - 1u));
        for (uint32_t k = 0; k < n; k++) {
            bits = bits * 2862933555777941757u + 3037000493u;
            text[k] = alphabet[(bits >> 40) % (sizeof alphabet - 1u)];
        }
        text[n] = '\0';
        if (!reads_alike(text)) {
            fail_msg("\"%s\" is read otherwise than inet_pton does", text);
        }
    }
}

static void test_ip_address_prints_what_the_system_prints_and_reads_it_back(void **state)
{
    (void)state;
    uint64_t seed = uw_test_seed(1);
    for (int i = 0; i < 20000; i++) {
        struct uw_ip_address a = {.port = (uint16_t)(i % 65535 + 1), .scope = i % 3 == 0 ? 5 : 0};
        struct uw_ip_address back = {.port = 0};
        char text[UW_LINK_ADDRESS_BYTES], system[46], want[80];
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        for (uint32_t g = 0; g < 8; g++) {      /* every pattern of zero groups */
            uint32_t zero = (uint32_t)(i >> g) & 1u;
            a.ip[2 * g] = zero ? 0 : (uint8_t)(seed >> (8 * g % 56) & (g % 2 ? 255 : 15));
            a.ip[2 * g + 1] = zero ? 0 : (uint8_t)(seed >> (g + 20));
        }
        assert_int_equal(uw_ip_address_print(&a, text), UW_OK);
        assert_int_equal(uw_ip_address_parse(text, &back), UW_OK);
        assert_true(uw_ip_address_equal(&a, &back));
        const uint8_t none[12] = {0};
        if (memcmp(a.ip, none, 12) != 0) {      /* ::1.2.3.4 is history */
            assert_non_null(inet_ntop(AF_INET6, a.ip, system, sizeof system));
            snprintf(want, sizeof want, a.scope != 0 ? "[%s%%5]:%u" : "[%s]:%u", system,
                     (unsigned)a.port);
            assert_string_equal(text, want);
        }
    }
    struct uw_ip_address four = {.port = 80};
    char text[UW_LINK_ADDRESS_BYTES];
    uw_ip_address_set_ipv4(&four, (const uint8_t[]){10, 0, 255, 1});
    uw_ip_address_print(&four, text);
    assert_string_equal(text, "10.0.255.1:80");
}

static void test_ip_address_for_a_message_needs_host_and_port(void **state)
{
    (void)state;
    struct uw_ip_address a;
    assert_int_equal(uw_ip_address_parse("[fe80::1%3]:4433", &a), UW_OK);
    assert_int_equal(a.scope, 3);
    assert_int_equal(a.port, 4433);
    assert_int_equal(uw_ip_address_parse("[::ffff:1.2.3.4%3]:4433", &a), UW_OK);
    assert_int_equal(a.scope, 0);   /* else it was another address than "1.2.3.4:4433" */
    const char *invalid[] = {":80", "1.2.3.4", "1.2.3.4:0", "1.2.3.4:", "1.2.3.4:65536", "[::1]",
                             "1.2.3.4:99999999999", "::1:80", "[::1]x:80"};
    for (size_t i = 0; i < sizeof invalid / sizeof invalid[0]; i++) {
        assert_int_equal(uw_ip_address_parse(invalid[i], &a), UW_ERR_INVALID);
    }
    const char *names[] = {"gateway:80", "[fe80::1%eth0]:80", "[fe80::1%]:80", "1.2.3.4.5:80"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_int_equal(uw_ip_address_parse(names[i], &a), UW_ERR_NOTFOUND);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ip_address_reads_what_the_system_reads),
        cmocka_unit_test(test_ip_address_random_texts_are_read_as_the_system_reads_them),
        cmocka_unit_test(test_ip_address_prints_what_the_system_prints_and_reads_it_back),
        cmocka_unit_test(test_ip_address_for_a_message_needs_host_and_port),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
