/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/stations.h - the address table of a datagram link (private to the link)
 *
 * A station is a slot of the table. Stations from resolve are held. An unknown sender gets a free
 * slot, or the slot of the station that is not held and was silent longest. When all slots are
 * held, its datagrams are dropped.
 */
#ifndef UWASA_STATIONS_H
#define UWASA_STATIONS_H

#include <stdint.h>

struct uw_station;

struct uw_stations {
    struct uw_station *slots;
    uint8_t *datagram;          /* [mtu_bytes + 1], to detect datagrams that are too large */
    uint64_t uses_n;
    uint16_t slots_n, last;
};

#endif
