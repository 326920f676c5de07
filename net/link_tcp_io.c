/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes in and out of connections that are up. */
#include "link_tcp_conn.h"

#include "wire.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define POLLS_MAX 64                    /* in one call */
#define BULK_BYTES 16384u               /* the rest of a message above that is read by itself ... */
#define NEXT_BYTES 64u                  /* ... and with the head of the next one */

static uint32_t padded(uint32_t bytes)
{
    return (bytes + 3u) & ~3u;
}

void uw_tcp_make_ready(struct uw_link_tcp *l, uint16_t conn)
{
    if (!l->conns[conn].queued) {
        l->conns[conn].queued = true;
        l->ready[(l->ready_at + l->ready_n++) % l->conns_n] = conn;
    }
}

bool uw_tcp_flush(struct uw_link_tcp *l, uint16_t conn)
{
    struct uw_link_tcp_conn *c = &l->conns[conn];
    while (c->state == UW_TCP_UP && c->tx_at != c->tx_end) {
        ssize_t n = send(c->fd, c->tx + c->tx_at, c->tx_end - c->tx_at, MSG_NOSIGNAL);
        if (n >= 0) {
            c->tx_at += (uint32_t)n;
        } else if (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM) {
            return false;
        } else if (errno != EINTR) {
            uw_tcp_break_off(l, conn);
        }
    }
    return c->state == UW_TCP_UP;
}

/* Keep what the system did not take of a message. */
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

int uw_tcp_write(struct uw_link_tcp *l, uint16_t conn, struct iovec *iov, int iov_n,
                 uint32_t bytes)
{
    struct uw_link_tcp_conn *c = &l->conns[conn];
    if (!uw_tcp_flush(l, conn)) {
        return UW_ERR_AGAIN;
    }
    const struct msghdr m = {.msg_iov = iov, .msg_iovlen = (size_t)iov_n};
    ssize_t n;
    do {
        n = sendmsg(c->fd, &m, MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        if (errno != EAGAIN && errno != ENOBUFS && errno != ENOMEM) {
            uw_tcp_break_off(l, conn);
        }
        return UW_ERR_AGAIN;
    }
    if ((uint32_t)n != bytes) {
        keep_rest(c, iov, iov_n, (size_t)n);
    }
    return UW_OK;
}

/* Bytes of the message at the front with its prefix; UINT32_MAX: above the mtu. What is not known
 * yet counts as the prefix alone. */
static uint32_t front_bytes(const struct uw_link_tcp *l, const struct uw_link_tcp_conn *c)
{
    if (c->rx_end - c->rx_at < UW_TCP_PREFIX_BYTES) {
        return UW_TCP_PREFIX_BYTES;
    }
    uint32_t bytes = uw_get_u32(c->rx + c->rx_at);
    return bytes <= l->link.mtu_bytes ? UW_TCP_PREFIX_BYTES + padded(bytes) : UINT32_MAX;
}

/* Read more. What is large is read by itself, so that little of the next message has to be moved
 * to the front. A read that fills less than it could has emptied the socket: what comes later is
 * reported again. Returns false when nothing came. */
static bool fill(struct uw_link_tcp *l, uint16_t conn)
{
    struct uw_link_tcp_conn *c = &l->conns[conn];
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
    ssize_t n = recv(c->fd, c->rx + c->rx_end, want, 0);
    if (n > 0) {
        c->rx_end += (uint32_t)n;
        c->readable = (uint32_t)n == want;
        return true;
    }
    if (n < 0 && errno == EINTR) {
        return true;
    }
    c->readable = false;
    if (n == 0 || (errno != EAGAIN && errno != ENOMEM)) {
        uw_tcp_break_off(l, conn);
    }
    return n == 0;
}

/* Returns the bytes of the message at the front of a connection, or UW_ERR_AGAIN. */
static int take_front(struct uw_link_tcp *l, uint16_t conn, uint8_t **at)
{
    struct uw_link_tcp_conn *c = &l->conns[conn];
    do {
        uint32_t have = c->rx_end - c->rx_at, whole = front_bytes(l, c);
        if (whole == UINT32_MAX) {
            l->link.stats.dropped_n++;
            uw_tcp_break_off(l, conn);
            uw_tcp_close(l, conn, false);
            return UW_ERR_AGAIN;
        }
        if (have >= UW_TCP_PREFIX_BYTES && have >= whole) {
            uint32_t bytes = uw_get_u32(c->rx + c->rx_at);
            *at = c->rx + c->rx_at + UW_TCP_PREFIX_BYTES;
            c->rx_at += whole;
            l->viewed_bytes = whole;
            return (int)bytes;
        }
        if (c->state == UW_TCP_ENDED) {
            uw_tcp_close(l, conn, false);
            return UW_ERR_AGAIN;
        }
    } while (c->readable && fill(l, conn));
    return UW_ERR_AGAIN;
}

int uw_tcp_next(struct uw_link_tcp *l, uint16_t *conn, uint8_t **at)
{
    for (int polls = 0;; polls++) {
        while (l->ready_n > 0) {
            uint16_t i = l->ready[l->ready_at];
            struct uw_link_tcp_conn *c = &l->conns[i];
            l->ready_at = (l->ready_at + 1u) % l->conns_n;
            l->ready_n--;
            c->queued = false;
            if (c->state == UW_TCP_GREETING) {
                uw_tcp_greet(l, i);
            }
            if ((c->state != UW_TCP_UP && c->state != UW_TCP_ENDED) || c->deferred) {
                continue;
            }
            int rc = take_front(l, i, at);
            if (rc >= 0) {
                uw_tcp_make_ready(l, i);
                *conn = i;
                return rc;
            }
        }
        if (polls == POLLS_MAX || !uw_tcp_poll(l)) {
            return UW_ERR_AGAIN;
        }
    }
}
