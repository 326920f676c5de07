/* SPDX-License-Identifier: Apache-2.0
 *
 * Input and output of connections. */
#include "link_tcp_conn.h"

#include "base/bytes.h"
#include "base/token_bucket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define BULK_BYTES 16384u               /* a larger rest of a message is read alone ... */
#define NEXT_BYTES 64u                  /* ... but for the head of the next one */
#define RECORD_JOINED_BYTES 16384u      /* small parts of a message are joined in one record */

static uint32_t padded(uint32_t bytes)
{
    return (bytes + 3u) & ~3u;
}

static bool is_passing(int error)
{
    return error == EAGAIN || error == ENOBUFS || error == ENOMEM;
}

int uw_tcp_flush(struct uw_link_tcp_conn *c)
{
    while (c->tx_at != c->tx_end) {
        ssize_t n = send(c->fd, c->tx + c->tx_at, c->tx_end - c->tx_at, MSG_NOSIGNAL);
        if (n >= 0) {
            c->tx_at += (uint32_t)n;
        } else if (errno != EINTR) {
            return is_passing(errno) ? UW_ERR_AGAIN : UW_ERR_CLOSED;
        }
    }
    return UW_OK;
}

/* Returns how many bytes, UW_ERR_AGAIN, UW_ERR_CLOSED. */
static int receive(int fd, uint8_t *buf, uint32_t cap_bytes)
{
    ssize_t n;
    do {
        n = recv(fd, buf, cap_bytes, 0);
    } while (n < 0 && errno == EINTR);
    return n > 0 ? (int)n : n < 0 && is_passing(errno) ? UW_ERR_AGAIN : UW_ERR_CLOSED;
}

/* The guard's access to the socket. */

static int raw_read(void *arg, uint8_t *buf, uint32_t cap_bytes)
{
    struct uw_link_tcp_conn *c = arg;
    if (c->drained) {
        return UW_ERR_AGAIN;
    }
    int n = receive(c->fd, buf, cap_bytes);
    c->drained = n > 0 ? (uint32_t)n < cap_bytes && !c->ending : n == UW_ERR_AGAIN;
    return n;
}

static int raw_write(void *arg, const uint8_t *buf, uint32_t bytes)
{
    struct uw_link_tcp_conn *c = arg;
    if (bytes > c->link->tx_bytes - c->tx_end) {
        return UW_ERR_FULL;
    }
    memcpy(c->tx + c->tx_end, buf, bytes);
    c->tx_end += bytes;
    return UW_OK;
}

bool uw_tcp_secure(struct uw_link_tcp *l, struct uw_link_tcp_conn *c, const char *address)
{
    const struct uw_stream_io io = {.arg = c, .read = raw_read, .write = raw_write};
    if (l->guard == NULL) {
        return true;
    }
    bool cheap = uw_bucket_owed_us(l->begun_us, l->now_us) >
                 UW_TCP_BEGIN_MAX / 2u * UW_TCP_BEGIN_US;
    c->state = UW_TCP_SECURING;
    c->guarded = l->guard->ops->open(l->guard, c->session, &io, c->dialed, cheap, address) == UW_OK;
    return c->guarded;
}

int uw_tcp_read(struct uw_link_tcp *l, struct uw_link_tcp_conn *c, uint8_t *buf,
                uint32_t cap_bytes)
{
    int n = c->guarded ? l->guard->ops->read(l->guard, c->session, buf, cap_bytes)
                       : receive(c->fd, buf, cap_bytes);
    c->readable = n > 0 && (c->guarded || (uint32_t)n == cap_bytes || c->ending);
    return n;
}

/* Store the unsent rest of a message in tx. */
static void keep_rest(struct uw_link_tcp_conn *c, const struct iovec *iov, int iov_n, size_t sent)
{
    c->tx_at = c->tx_end = 0;
    for (int i = 0; i < iov_n; i++) {
        size_t skip = sent < iov[i].iov_len ? sent : iov[i].iov_len, n = iov[i].iov_len - skip;
        if (n != 0) {
            memcpy(c->tx + c->tx_end, (const uint8_t *)iov[i].iov_base + skip, n);
        }
        c->tx_end += (uint32_t)n;
        sent -= skip;
    }
}

/* Encrypt a message into tx, and send as much as possible. Small parts are joined: a prefix has no
 * record of its own. */
static int write_guarded(struct uw_link_tcp *l, struct uw_link_tcp_conn *c, const struct iovec *iov,
                         int iov_n)
{
    const struct uw_stream_guard_ops *ops = l->guard->ops;
    uint8_t joined[RECORD_JOINED_BYTES];
    uint32_t n = 0;
    int rc = UW_OK;
    c->tx_at = c->tx_end = 0;
    for (int i = 0; i < iov_n && rc == UW_OK; i++) {
        const uint8_t *at = iov[i].iov_base;
        uint32_t left = (uint32_t)iov[i].iov_len;
        while (left > 0 && rc == UW_OK) {
            uint32_t room = (uint32_t)sizeof joined - n, take = left < room ? left : room;
            bool whole = n == 0 && left >= ops->record_bytes;
            take = whole ? ops->record_bytes : take;
            if (whole) {
                rc = ops->write(l->guard, c->session, at, take);
            } else {
                memcpy(joined + n, at, take);
                n += take;
            }
            if (n == sizeof joined) {
                rc = ops->write(l->guard, c->session, joined, n);
                n = 0;
            }
            at += take;
            left -= take;
        }
    }
    if (n > 0 && rc == UW_OK) {
        rc = ops->write(l->guard, c->session, joined, n);
    }
    if (rc == UW_OK) {
        (void)uw_tcp_flush(c);          /* an error of the socket is reported again */
    }
    return rc == UW_OK ? UW_OK : UW_ERR_CLOSED;
}

int uw_tcp_write(struct uw_link_tcp *l, struct uw_link_tcp_conn *c, struct iovec *iov, int iov_n,
                 uint32_t bytes)
{
    int rc = uw_tcp_flush(c);
    if (rc < 0 || c->guarded) {
        return rc < 0 ? rc : write_guarded(l, c, iov, iov_n);
    }
    const struct msghdr m = {.msg_iov = iov, .msg_iovlen = (size_t)iov_n};
    ssize_t n;
    do {
        n = sendmsg(c->fd, &m, MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return is_passing(errno) ? UW_ERR_AGAIN : UW_ERR_CLOSED;
    }
    if ((uint32_t)n != bytes) {
        keep_rest(c, iov, iov_n, (size_t)n);
    }
    return UW_OK;
}

/* Bytes of the first message with its prefix, or of the prefix if that is incomplete; UINT32_MAX:
 * above the mtu. */
static uint32_t front_bytes(const struct uw_link_tcp *l, const struct uw_link_tcp_conn *c)
{
    if (c->rx_end - c->rx_at < UW_TCP_PREFIX_BYTES) {
        return UW_TCP_PREFIX_BYTES;
    }
    uint32_t bytes = uw_get_u32(c->rx + c->rx_at);
    return bytes <= l->link.mtu_bytes ? UW_TCP_PREFIX_BYTES + padded(bytes) : UINT32_MAX;
}

/* Read more. A large rest is read alone, so that little of the next message has to be moved to the
 * front. A short read has emptied the socket: the system then reports later bytes by an event.
 * Returns as uw_tcp_read. */
static int fill(struct uw_link_tcp *l, struct uw_link_tcp_conn *c)
{
    uint32_t have = c->rx_end - c->rx_at, need = front_bytes(l, c);
    if (have == 0 || need > l->rx_bytes - c->rx_at) {
        memmove(c->rx, c->rx + c->rx_at, have);
        c->rx_at = 0;
        c->rx_end = have;
    }
    uint32_t want = l->rx_bytes - c->rx_end;
    if (need - have > BULK_BYTES && want > need - have + NEXT_BYTES) {
        want = need - have + NEXT_BYTES;
    }
    int n = uw_tcp_read(l, c, c->rx + c->rx_end, want);
    c->rx_end += n > 0 ? (uint32_t)n : 0;
    return n;
}

int uw_tcp_front(struct uw_link_tcp *l, struct uw_link_tcp_conn *c, uint8_t **at)
{
    int rc = UW_OK;
    while (rc >= 0) {
        uint32_t have = c->rx_end - c->rx_at, whole = front_bytes(l, c);
        if (whole == UINT32_MAX) {
            return UW_ERR_TOOBIG;
        }
        if (have >= UW_TCP_PREFIX_BYTES && have >= whole) {
            uint32_t bytes = uw_get_u32(c->rx + c->rx_at);
            *at = c->rx + c->rx_at + UW_TCP_PREFIX_BYTES;
            c->rx_at += whole;
            l->viewed_bytes = whole;
            return (int)bytes;
        }
        rc = c->state == UW_TCP_ENDED ? UW_ERR_CLOSED : c->readable ? fill(l, c) : UW_ERR_AGAIN;
    }
    return rc;
}
