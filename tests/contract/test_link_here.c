/* SPDX-License-Identifier: Apache-2.0
 *
 * The link suite over the links whose two ends can be in one process. */
#include "link_pair.h"

static const struct variant variants[] = {
    {"loopback", open_loopback},
    {"emulated", open_emulated},
    {"serial", open_serial},
    {"udp IPv4", open_udp_ipv4},
    {"udp IPv6", open_udp_ipv6},
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
