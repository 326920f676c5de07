/* SPDX-License-Identifier: Apache-2.0 */
#include "link_udp_many.h"

#include <errno.h>

void uw_udp_many_open(int fd)
{
    (void)fd;
}

ssize_t uw_udp_many_send(int fd, const uint8_t *bytes, size_t size_bytes, uint32_t each_bytes,
                         struct sockaddr_storage *to, socklen_t to_bytes)
{
    (void)fd;
    (void)bytes;
    (void)size_bytes;
    (void)each_bytes;
    (void)to;
    (void)to_bytes;
    errno = ENOTSUP;
    return -1;
}

ssize_t uw_udp_many_recv(int fd, uint8_t *bytes, size_t cap_bytes, uint32_t *each_bytes,
                         struct sockaddr_storage *from)
{
    socklen_t from_bytes = sizeof *from;
    ssize_t n = recvfrom(fd, bytes, cap_bytes, 0, (struct sockaddr *)from, &from_bytes);
    *each_bytes = n > 0 ? (uint32_t)n : 0;
    return n;
}
