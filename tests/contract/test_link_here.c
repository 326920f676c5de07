/* SPDX-License-Identifier: Apache-2.0
 *
 * The link suite over the links whose two ends can be in one process. */
#include "link_pair.h"

static const char *open_zsock(struct pair *p, const char *address)
{
    p->real_time = true;
    for (size_t i = 0; i < 2; i++) {
        struct uw_error err;
        struct uw_link_zsock_config config = {.bind = address, .mtu_bytes = MTU, .stations_n = 4};
        config.memory_bytes = uw_link_zsock_bytes(&config);
        config.memory = block(p, config.memory_bytes);
        if (uw_link_zsock_init(&p->zsock[i], &config, &err) != UW_OK) {
            assert_true(strchr(address, '[') != NULL); /* only IPv6 may be missing */
            return "this machine has no ::1";
        }
        p->link[i] = &p->zsock[i].link;
    }
    char text[UW_LINK_ADDRESS_BYTES];
    assert_int_equal(uw_link_zsock_local(&p->zsock[1], text), UW_OK);
    assert_int_equal(uw_link_resolve(p->link[0], text, &p->to[0]), UW_OK);
    return NULL;
}

static const char *open_zsock_ipv4(struct pair *p)
{
    return open_zsock(p, "127.0.0.1:0");
}

static const char *open_zsock_ipv6(struct pair *p)
{
    return open_zsock(p, "[::1]:0");
}

static const struct variant variants[] = {
    {"loopback", open_loopback},
    {"emulated", open_emulated},
    {"serial", open_serial},
    {"udp IPv4", open_udp_ipv4},
    {"udp IPv6", open_udp_ipv6},
    {"zsock IPv4", open_zsock_ipv4},
    {"zsock IPv6", open_zsock_ipv6},
    {"tcp IPv4", open_tcp_ipv4},
    {"tcp IPv6", open_tcp_ipv6},
    {"tls over tcp", open_tls},
    {"dtls over loopback", open_dtls_loopback},
    {"dtls over serial", open_dtls_serial},
    {"dtls over udp", open_dtls_udp},
};

int main(void)
{
    return uw_test_link_suite(variants, sizeof variants / sizeof variants[0]);
}
