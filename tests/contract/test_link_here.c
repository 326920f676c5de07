/* SPDX-License-Identifier: Apache-2.0
 *
 * The link suite over the links whose two ends can be in one process. */
#include "frame_pair.h"

#include "uwasa/link_capture.h"

static struct uw_link_capture captures[2];

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

/* A record comes whole, and is as long as it says. */
static int check_record(void *arg, const void *record, uint32_t record_bytes)
{
    const uint8_t *kept = (const uint8_t *)record + 8;
    bool head = record_bytes == UW_CAPTURE_FILE_HEAD_BYTES;
    (void)arg;
    assert_true(head || record_bytes == UW_CAPTURE_RECORD_HEAD_BYTES + kept[0] + 256u * kept[1]);
    return UW_OK;
}

static const char *capture(struct pair *p, const char *skip)
{
    for (size_t i = 0; i < 2 && skip == NULL; i++) {
        struct uw_link_capture_config config = {.lower = p->link[i], .write = check_record};
        config.memory_bytes = uw_link_capture_bytes(&config);
        config.memory = block(p, config.memory_bytes);
        p->lower[i] = p->link[i];
        assert_int_equal(uw_link_capture_init(&captures[i], &config), UW_OK);
        p->link[i] = &captures[i].link;
    }
    return skip;
}

static const char *open_captured_loopback(struct pair *p)
{
    return capture(p, open_loopback(p));
}

static const char *open_captured_emulated(struct pair *p)
{
    return capture(p, open_emulated(p));
}

static const char *open_captured_serial(struct pair *p)
{
    return capture(p, open_serial(p));
}

static const char *open_captured_tcp(struct pair *p)
{
    return capture(p, open_tcp_ipv4(p));
}

static const char *open_captured_tls(struct pair *p)
{
    return capture(p, open_tls(p));
}

static const char *open_dtls_captured(struct pair *p)
{
    return secure(p, capture(p, open_udp_ipv4(p)));
}

static const char *open_udp_together(struct pair *p)
{
    p->together = true;
    return open_udp(p, "127.0.0.1:0");
}

static const char *open_dtls_udp_together(struct pair *p)
{
    return secure(p, open_udp_together(p));
}

static const struct variant variants[] = {
    {"loopback", open_loopback},
    {"emulated", open_emulated},
    {"serial", open_serial},
    {"frames over emulated", open_frame},
    {"frames on a bus", open_bus},
    {"frames over multicast", open_multicast},
    {"udp IPv4", open_udp_ipv4},
    {"udp IPv6", open_udp_ipv6},
    {"udp, messages together", open_udp_together},
    {"zsock IPv4", open_zsock_ipv4},
    {"zsock IPv6", open_zsock_ipv6},
    {"tcp IPv4", open_tcp_ipv4},
    {"tcp IPv6", open_tcp_ipv6},
    {"tls over tcp", open_tls},
    {"dtls over loopback", open_dtls_loopback},
    {"dtls over serial", open_dtls_serial},
    {"dtls over udp", open_dtls_udp},
    {"dtls over udp, messages together", open_dtls_udp_together},
    {"capture of loopback", open_captured_loopback},
    {"capture of emulated", open_captured_emulated},
    {"capture of serial", open_captured_serial},
    {"capture of tcp", open_captured_tcp},
    {"capture of tls over tcp", open_captured_tls},
    {"dtls over capture of udp", open_dtls_captured},
};

int main(void)
{
    return uw_test_link_suite(variants, sizeof variants / sizeof variants[0]);
}
