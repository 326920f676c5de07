/* SPDX-License-Identifier: Apache-2.0 */
#include "ip_errno.h"

#include "uwasa/status.h"

#include <errno.h>
#include <stdbool.h>

static bool is_lost_on_the_way(int error)
{
    return error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH ||
           error == EHOSTDOWN || error == ENETDOWN || error == EPERM || error == EACCES ||
           error == EADDRNOTAVAIL || error == EINTR;
}

static bool is_for_later(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS || error == ENOMEM;
}

int uw_ip_send_error(int error)
{
    if (is_for_later(error)) {
        return UW_ERR_AGAIN;
    }
    if (error == EMSGSIZE) {
        return UW_ERR_TOOBIG;
    }
    if (is_lost_on_the_way(error)) {
        return UW_OK;
    }
    return error == EBADF || error == EPIPE ? UW_ERR_CLOSED : UW_ERR_IO;
}

int uw_ip_recv_error(int error)
{
    if (is_lost_on_the_way(error)) {
        return UW_OK;
    }
    return is_for_later(error) ? UW_ERR_AGAIN : error == EBADF ? UW_ERR_CLOSED : UW_ERR_IO;
}

const char *uw_ip_remedy(int error)
{
    switch (error) {
    case EADDRINUSE:
        return "the port is taken by another program; choose another port, or 0 for any";
    case EADDRNOTAVAIL:
        return "this machine does not have that address";
    case EACCES:
        return "ports below 1024 need more privileges";
    case EAFNOSUPPORT:
        return "this machine does not support that IP version";
    default:
        return "the system refused the socket";
    }
}
