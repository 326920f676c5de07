/* SPDX-License-Identifier: Apache-2.0 */
#include "link_udp_many.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <string.h>

/* Room for one control message with an int, aligned as the system wants it. */
union control {
    struct cmsghdr head;
    uint8_t bytes[CMSG_SPACE(sizeof(int))];
};

void uw_udp_many_open(int fd)
{
    int on = 1;
    (void)setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof on);
}

ssize_t uw_udp_many_send(int fd, const uint8_t *bytes, size_t size_bytes, uint32_t each_bytes,
                         struct sockaddr_storage *to, socklen_t to_bytes)
{
    union control control;
    struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = size_bytes};
    struct msghdr m = {.msg_name = to, .msg_namelen = to_bytes, .msg_iov = &part, .msg_iovlen = 1,
                       .msg_control = &control, .msg_controllen = CMSG_SPACE(sizeof(uint16_t))};
    uint16_t each = (uint16_t)each_bytes;
    memset(&control, 0, sizeof control);
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = IPPROTO_UDP;
    c->cmsg_type = UDP_SEGMENT;
    c->cmsg_len = CMSG_LEN(sizeof each);
    memcpy(CMSG_DATA(c), &each, sizeof each);
    ssize_t n = sendmsg(fd, &m, MSG_NOSIGNAL);
    /* Too large for the path to take whole, a device without checksums, an old kernel. */
    if (n < 0 && (errno == EINVAL || errno == EMSGSIZE || errno == EIO || errno == EOPNOTSUPP)) {
        errno = ENOTSUP;
    }
    return n;
}

ssize_t uw_udp_many_recv(int fd, uint8_t *bytes, size_t cap_bytes, uint32_t *each_bytes,
                         struct sockaddr_storage *from)
{
    union control control;
    struct iovec part = {.iov_base = bytes, .iov_len = cap_bytes};
    struct msghdr m = {.msg_name = from, .msg_namelen = sizeof *from, .msg_iov = &part,
                       .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t n = recvmsg(fd, &m, 0);
    *each_bytes = n > 0 ? (uint32_t)n : 0;
    for (struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL; c != NULL; c = CMSG_NXTHDR(&m, c)) {
        int each = 0;
        if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO &&
            c->cmsg_len >= CMSG_LEN(sizeof each)) {
            memcpy(&each, CMSG_DATA(c), sizeof each);
            *each_bytes = each > 0 ? (uint32_t)each : *each_bytes;
        }
    }
    return n;
}
