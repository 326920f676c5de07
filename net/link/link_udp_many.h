/* SPDX-License-Identifier: Apache-2.0
 *
 * link_udp_many.h - many datagrams in one call of the operating system, where it can
 *
 * link_udp_many_linux.c hands over datagrams of one size as one block (UDP_SEGMENT) and takes them
 * as one (UDP_GRO); link_udp_many_none.c, for other systems, takes one at a time.
 *
 * Blocking   never      Context  the link's thread
 */
#ifndef UW_NET_LINK_UDP_MANY_H
#define UW_NET_LINK_UDP_MANY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#define UW_UDP_MANY_N 64u               /* datagrams that Linux takes in one call, at most */
#define UW_UDP_MANY_BYTES 65507u        /* of all of them, as of one */
#define UW_UDP_MANY_IN_BYTES 65536u     /* room for any block that arrives */

/* Ask for blocks of datagrams, as far as the system knows them. */
void uw_udp_many_open(int fd);

/* Send datagrams of each_bytes to one address, the last one shorter or not: all or none.
 * Returns the bytes sent, or -1 and errno; ENOTSUP: send them one by one, as the system or the path
 * does not take them together. */
ssize_t uw_udp_many_send(int fd, const uint8_t *bytes, size_t size_bytes, uint32_t each_bytes,
                         struct sockaddr_storage *to, socklen_t to_bytes);

/* Take the datagrams that arrived together from one sender.
 *   bytes       [cap_bytes] gets them one behind the other, cut where it ends: with blocks of
 *               datagrams asked for UW_UDP_MANY_IN_BYTES is enough
 *   each_bytes  set to the size of each, of which the last may be shorter
 *   from        set to the sender's address
 * Returns the bytes of all, 0: one of no bytes, or -1 and errno. */
ssize_t uw_udp_many_recv(int fd, uint8_t *bytes, size_t cap_bytes, uint32_t *each_bytes,
                         struct sockaddr_storage *from);

#endif
