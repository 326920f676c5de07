/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections that stall on a path that loses large packets without a word. The system finds out
 * by itself only where net.ipv4.tcp_mtu_probing is set. */
#include "link_tcp_conn.h"

#include "base/bits.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#define LOOK_US 500000u
#define RETRANSMISSIONS 5u          /* one after the system's own probing would have begun */
#define PROMPT_US 1000000u          /* the path is fine for small packets, now */
#define PROOF_BYTES 65536u
#define SEGMENT_BYTES 1220u         /* of a path of 1280 bytes, which IPv6 asks of all, ... */
#define SEGMENT_IPV4_BYTES 536u     /* ... and of 576, which IPv4 asks of all ends */

static void set_segment(struct uw_link_tcp *l, uint32_t bytes)
{
    int value = (int)bytes;
    l->segment_bytes = bytes;
    (void)setsockopt(l->listener, IPPROTO_TCP, TCP_MAXSEG, &value, sizeof value);
}

void uw_tcp_limit_segment(const struct uw_link_tcp *l, int fd)
{
    int value = (int)l->segment_bytes;
    if (value != 0) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &value, sizeof value);
    }
}

void uw_tcp_tried(struct uw_link_tcp *l, const struct uw_link_tcp_conn *c, bool connects)
{
    if (c->station == l->tried && (!connects || l->now_us - c->since_us > PROMPT_US)) {
        l->tried = UW_TCP_NONE;
        set_segment(l, l->proven_bytes);
    }
}

/* Dial a station whose connection has stalled again, with smaller segments. */
static void try_smaller(struct uw_link_tcp *l, uint16_t conn)
{
    uint16_t station = l->conns[conn].station;
    bool ipv4 = uw_ip_address_is_ipv4(uw_stations_address(&l->addresses, station, false));
    uint32_t next = l->segment_bytes == 0 ? SEGMENT_BYTES : ipv4 ? SEGMENT_IPV4_BYTES : 0;
    if ((l->tried != UW_TCP_NONE && l->tried != station) || next == l->segment_bytes) {
        return;
    }
    if (next == 0) {                /* that was not it */
        l->tried = UW_TCP_NONE;
        set_segment(l, l->proven_bytes);
        return;
    }
    set_segment(l, next);
    l->tried = station;
    l->broken_n++;
    uw_tcp_close(l, conn, false);
    uw_tcp_dial(l, station);
}

static void look_at(struct uw_link_tcp *l, uint16_t conn)
{
    const struct uw_link_tcp_conn *c = &l->conns[conn];
    struct tcp_info info = {0};
    socklen_t bytes = sizeof info;
    if (getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) < 0) {
        return;
    }
    if (c->station == l->tried && info.tcpi_bytes_acked >= PROOF_BYTES) {
        char address[UW_LINK_ADDRESS_BYTES];
        l->tried = UW_TCP_NONE;
        l->proven_bytes = l->segment_bytes;
        if (l->narrow != NULL &&
            uw_stations_describe(&l->addresses, c->station, address) == UW_OK) {
            l->narrow(l->user, address, l->segment_bytes);
        }
    } else if (info.tcpi_unacked != 0 && info.tcpi_retransmits >= RETRANSMISSIONS) {
        try_smaller(l, conn);
    }
}

uint64_t uw_tcp_look(struct uw_link_tcp *l)
{
    uint64_t next_us = UINT64_MAX;
    bool due = l->now_us >= l->look_us;
    for (uint16_t i = 0; i < l->conns_n; i++) {
        if (l->conns[i].state == UW_TCP_UP) {
            next_us = l->look_us = due ? l->now_us + LOOK_US : l->look_us;
            if (due) {
                look_at(l, i);
            }
        }
    }
    return next_us;
}
