/* SPDX-License-Identifier: Apache-2.0
 *
 * ip_errno.h - map errno of a datagram socket to a link's result
 *
 * For systems with errno: POSIX and Zephyr. Errors of the path (no listener, no route) often refer
 * to an earlier datagram, which is lost.
 *
 * Blocking   never      Context  any thread
 */
#ifndef UW_NET_IP_ERRNO_H
#define UW_NET_IP_ERRNO_H

/* Datagrams or pending errors of the path that a link skips in one call. */
#define UW_IP_RETRIES 16

/* Error of send. Returns UW_OK (lost on the way: count it as dropped), UW_ERR_AGAIN, UW_ERR_TOOBIG,
 * UW_ERR_CLOSED, UW_ERR_IO. */
int uw_ip_send_error(int error);

/* Error of receive. Returns UW_OK (of an earlier datagram: receive again), UW_ERR_AGAIN,
 * UW_ERR_CLOSED, UW_ERR_IO. */
int uw_ip_recv_error(int error);

/* Cause and remedy of an error of bind. Static storage. */
const char *uw_ip_remedy(int error);

#endif
