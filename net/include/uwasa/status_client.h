/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/status_client.h - request the member table of a node without joining the run
 *
 *     uw_status_client_init(&c, link, address);
 *     while ((rc = uw_status_client_step(&c, now_us, rows, n, &counters)) == UW_ERR_AGAIN) {
 *         ... wait until c.next_us or link->fd ...
 *     }
 *
 * Memory     the link and the address's text are borrowed; rows are the caller's
 * Blocking   never      Context  one thread
 */
#ifndef UWASA_STATUS_CLIENT_H
#define UWASA_STATUS_CLIENT_H

#include "uwasa/cplusplus.h"
#include "uwasa/node_status.h"

UW_C_BEGIN

struct uw_status_client {
    struct uw_link *link;
    const char *address;
    uint64_t started_us, next_us;   /* next_us: call again then at the latest */
    uint64_t timeout_us;            /* 5 s; may be changed after init */
    uint32_t seq, first_n;
    uint32_t total_n;               /* rows in the node's table, known after its first reply */
    uint16_t station;               /* UW_LINK_STATION_NONE until the address is resolved */
    bool started;
    bool foreign;                   /* a reply cannot be read */
    char kernels[UW_NODE_KERNELS_BYTES];    /* uw_node_config.kernels of the node, "avx2",
                                       "cuda: NVIDIA Orin", the first 47 characters. Set when the
                                       table is complete; "": not reported */
};

/* Set up a client. Returns UW_OK, or the error of uw_link_resolve for the address except
 * UW_ERR_AGAIN. */
int uw_status_client_init(struct uw_status_client *c, struct uw_link *link, const char *address);

/* Send requests, receive replies, request missing rows again. If the table changes meanwhile, each
 * row is still one that the node has sent.
 *
 *   rows      [cap_n] filled as replies arrive; further rows are ignored
 *   counters  written at the end; may be NULL
 *
 * Returns the number of rows when the table is complete (the next call starts again),
 * UW_ERR_AGAIN, UW_ERR_TIMEOUT (no reply for timeout_us), UW_ERR_UNSUPPORTED (none that this
 * version can read), or UW_ERR_NOTFOUND and UW_ERR_FULL from uw_link_resolve. */
int uw_status_client_step(struct uw_status_client *c, uint64_t now_us,
                          struct uw_node_member *rows, uint32_t cap_n,
                          struct uw_node_counters *counters);

UW_C_END
#endif
