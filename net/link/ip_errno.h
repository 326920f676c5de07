/* SPDX-License-Identifier: Apache-2.0
 *
 * ip_errno.h - what an errno of a datagram socket means to a link
 *
 * For systems that have errno: POSIX and Zephyr. Errors of the path (nobody listens, no route) are
 * often about an earlier datagram: it is lost, no more.
 *
 * Blocking   never      Context  any thread
 */
#ifndef UW_NET_IP_ERRNO_H
#define UW_NET_IP_ERRNO_H

/* Datagrams or pending errors of the path that a link skips in one call. */
#define UW_IP_RETRIES 16

/* A datagram could not be sent. Returns UW_OK (lost on the way: count it as dropped), UW_ERR_AGAIN,
 * UW_ERR_TOOBIG, UW_ERR_CLOSED, UW_ERR_IO. */
int uw_ip_send_error(int error);

/* None could be taken. Returns UW_OK (about a datagram that was lost: ask again), UW_ERR_AGAIN,
 * UW_ERR_CLOSED, UW_ERR_IO. */
int uw_ip_recv_error(int error);

/* What to do about a socket that could not be bound. Static storage. */
const char *uw_ip_remedy(int error);

#endif
