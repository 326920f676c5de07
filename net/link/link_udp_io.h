/* SPDX-License-Identifier: Apache-2.0
 *
 * link_udp_io.h - datagrams of the UDP link with what the system tells beside them: the size of
 * each in a block, and the address of this end that they were sent to
 *
 * A machine may have several addresses: on two networks, a second one on an interface, temporary
 * ones of IPv6. A peer knows only the one that it asked, and takes no answer from another. A socket
 * that is bound to any address therefore remembers for each station which one it asked, and answers
 * from there (RFC 3542, section 6).
 *
 * Memory     the caller's      Blocking   never      Context  the link's thread
 */
#ifndef UW_NET_LINK_UDP_IO_H
#define UW_NET_LINK_UDP_IO_H

#include "ip_address.h"

#include <stddef.h>

/* An address of this end; all zero: the system chooses. */
struct uw_udp_own {
    uint8_t ip[16];
    uint32_t interface;             /* of a link-local address, else 0 */
    uint64_t heard_us;              /* when the peer last used it */
};

bool uw_udp_own_is_known(const struct uw_udp_own *own);

/* Make the system tell the destination of datagrams. No effect on a socket that is bound to one
 * address, and where the system cannot. */
void uw_udp_ask_own(int fd, bool ipv6);

/* Make the system join consecutive datagrams of one sender, where it can. */
void uw_udp_ask_blocks(int fd);

/* Receive consecutive datagrams of one sender, or one.
 *   each_bytes  set to the size of each; the last may be shorter
 *   from        set to the sender. A family that is neither IPv4 nor IPv6 has port 0
 *   own         set to their destination, heard_us 0
 * Returns as recvmsg. */
int uw_udp_receive(int fd, uint8_t *bytes, size_t cap_bytes, uint32_t *each_bytes,
                   struct uw_ip_address *from, struct uw_udp_own *own);

/* Send one datagram, or a block of datagrams of each_bytes in one call.
 *   ipv6        the family of the socket
 *   own         the address to send from
 *   each_bytes  0: one datagram
 * Returns as sendmsg; tries again after EINTR and ECONNREFUSED. */
int uw_udp_send(int fd, bool ipv6, const struct uw_ip_address *to, const struct uw_udp_own *own,
                const void *bytes, size_t bytes_n, uint32_t each_bytes);

/* Can uw_udp_send send a block? */
bool uw_udp_sends_blocks(void);

#endif
