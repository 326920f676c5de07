/* SPDX-License-Identifier: Apache-2.0
 *
 * station_table.h - the table of stations by address, for links over IP
 *
 * Memory     the caller's, borrowed      Blocking   never      Context  the link's thread
 */
#ifndef UW_NET_STATION_TABLE_H
#define UW_NET_STATION_TABLE_H

#include "ip_address.h"

#include "uwasa/link.h"
#include "uwasa/stations.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UW_STATIONS_DEFAULT 64u

/* Bytes of memory for the table and one datagram; slots_n 0 is UW_STATIONS_DEFAULT. SIZE_MAX: too
 * many stations. */
size_t uw_stations_bytes(uint16_t slots_n, uint32_t mtu_bytes);

/* Set up an empty table in memory of that many bytes. */
void uw_stations_init(struct uw_stations *t, void *memory, uint16_t slots_n);

/* The station of an address; a new address gets a free or recycled slot. Keeps the datagram buffer.
 *   is_new  set to whether the address is new
 * Returns UW_OK or UW_ERR_FULL. */
int uw_stations_enter(struct uw_stations *t, const struct uw_ip_address *a, uint16_t *number,
                      bool *is_new);

/* The same for `resolve` of a link: holds the station. */
int uw_stations_resolve(struct uw_stations *t, const struct uw_ip_address *a, uint16_t *number);

/* The address of a station; NULL: no such station. use: mark it as used last. */
const struct uw_ip_address *uw_stations_address(struct uw_stations *t, uint16_t number, bool use);

/* The entry `hold` of a link. */
bool uw_stations_hold(struct uw_stations *t, uint16_t number, bool hold);

/* The entry `describe` of a link. */
int uw_stations_describe(struct uw_stations *t, uint16_t number, char text[UW_LINK_ADDRESS_BYTES]);

/* Count a received datagram of `bytes` and add its sender to the table.
 *
 *   sender  NULL: an address of another family
 *
 * Returns the size, UW_ERR_TOOBIG (above the link's mtu), UW_ERR_AGAIN (dropped: receive the next
 * one). */
int uw_stations_receive(struct uw_stations *t, struct uw_link *link,
                        const struct uw_ip_address *sender, size_t bytes, uint16_t *from);

#endif
