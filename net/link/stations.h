/* SPDX-License-Identifier: Apache-2.0
 *
 * stations.h - what links over IP share: the table of stations by address, and the handling of a
 * datagram that arrived
 *
 * Memory     the caller's, borrowed      Blocking   never      Context  the link's thread
 */
#ifndef UW_NET_STATIONS_H
#define UW_NET_STATIONS_H

#include "ip_address.h"

#include "uwasa/link.h"
#include "uwasa/stations.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UW_STATIONS_DEFAULT 64u

/* Bytes of memory for the table and one datagram; slots_n 0 is UW_STATIONS_DEFAULT. SIZE_MAX when
 * the numbers of that many stations do not fit. */
size_t uw_stations_bytes(uint16_t slots_n, uint32_t mtu_bytes);

/* Set an empty table up in memory of that many bytes. */
void uw_stations_init(struct uw_stations *t, void *memory, uint16_t slots_n);

/* The station of an address: known, in a free slot, or in the one recycled. The datagram buffer is
 * untouched.
 *   is_new  set to whether the number was nobody's, or another's
 * Returns UW_OK or UW_ERR_FULL. */
int uw_stations_enter(struct uw_stations *t, const struct uw_ip_address *a, uint16_t *number,
                      bool *is_new);

/* The same for the entry `resolve` of a link: the station is held. */
int uw_stations_resolve(struct uw_stations *t, const struct uw_ip_address *a, uint16_t *number);

/* The address of a station; NULL when there is none. use: it is the one used last. */
const struct uw_ip_address *uw_stations_address(struct uw_stations *t, uint16_t number, bool use);

/* The entry `hold` of a link. */
bool uw_stations_hold(struct uw_stations *t, uint16_t number, bool hold);

/* The entry `describe` of a link. */
int uw_stations_describe(struct uw_stations *t, uint16_t number, char text[UW_LINK_ADDRESS_BYTES]);

/* A datagram of `bytes` lies in t->datagram: count it and enter its sender.
 *
 *   sender  NULL: not an address that the link can answer
 *
 * Returns the size, UW_ERR_TOOBIG (above the link's mtu), UW_ERR_AGAIN (dropped: the next one may
 * be in order). */
int uw_stations_take(struct uw_stations *t, struct uw_link *link,
                     const struct uw_ip_address *sender, size_t bytes, uint16_t *from);

#endif
