/* SPDX-License-Identifier: Apache-2.0
 *
 * What net/link/link_zsock.c and the sample call of Zephyr's sockets, on a POSIX host. The names
 * are Zephyr's, the meaning is the system's. */
#ifndef UWASA_TEST_ZEPHYR_SOCKET_H
#define UWASA_TEST_ZEPHYR_SOCKET_H

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#define ZSOCK_MSG_DONTWAIT MSG_DONTWAIT
#define ZSOCK_POLLIN POLLIN
#define zsock_pollfd pollfd

static inline int zsock_socket(int family, int type, int proto)
{
    return socket(family, type, proto);
}

static inline int zsock_bind(int sock, const struct sockaddr *addr, socklen_t addrlen)
{
    return bind(sock, addr, addrlen);
}

static inline int zsock_close(int sock)
{
    return close(sock);
}

static inline ssize_t zsock_sendto(int sock, const void *buf, size_t len, int flags,
                                   const struct sockaddr *dest_addr, socklen_t addrlen)
{
    return sendto(sock, buf, len, flags | MSG_NOSIGNAL, dest_addr, addrlen);
}

static inline ssize_t zsock_recvfrom(int sock, void *buf, size_t max_len, int flags,
                                     struct sockaddr *src_addr, socklen_t *addrlen)
{
    return recvfrom(sock, buf, max_len, flags, src_addr, addrlen);
}

static inline int zsock_getsockname(int sock, struct sockaddr *addr, socklen_t *addrlen)
{
    return getsockname(sock, addr, addrlen);
}

static inline int zsock_poll(struct zsock_pollfd *fds, int nfds, int timeout)
{
    return poll(fds, (nfds_t)nfds, timeout);
}

#endif
