/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/status_client.h - ask a node for its member table without joining the run
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
    uint64_t timeout_us;            /* set after init to change it; 5 s */
    uint32_t seq, first_n;
    uint32_t total_n;               /* rows in the node's table, known after its first reply */
    uint16_t station;               /* UW_LINK_STATION_NONE until the address has been looked up */
    bool started;
    char kernels[UW_NODE_KERNELS_BYTES];    /* that train there, as uw_node_config.kernels: "avx2",
                                       "cuda: NVIDIA Orin", the first 47 characters. Known when the
                                       table is complete; "": not told */
};

/* Returns UW_OK, or what uw_link_resolve says of the address; a name that is still being looked up
 * is no error. */
int uw_status_client_init(struct uw_status_client *c, struct uw_link *link, const char *address);

/* Ask, take what has arrived, ask again for what is missing. The table may change between its
 * parts: every row is then still one the node has sent.
 *
 *   rows      [cap_n] filled as parts arrive; further rows are left out
 *   counters  written at the end; may be NULL
 *
 * Returns the number of rows when the table is complete (the client then starts over at the next
 * call), UW_ERR_AGAIN, UW_ERR_TIMEOUT (nothing heard for timeout_us), UW_ERR_NOTFOUND and
 * UW_ERR_FULL (of the address, from uw_link_resolve). */
int uw_status_client_step(struct uw_status_client *c, uint64_t now_us,
                          struct uw_node_member *rows, uint32_t cap_n,
                          struct uw_node_counters *counters);

UW_C_END
#endif
