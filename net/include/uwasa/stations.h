/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/stations.h - the address table inside a link over datagrams (part of its struct; its
 * contents are the link's own business)
 *
 * A station is a slot of the table. Stations from resolve are held; an unknown sender takes a free
 * slot or that of the station not held that was silent longest; when every slot is held, its
 * datagrams are dropped.
 */
#ifndef UWASA_STATIONS_H
#define UWASA_STATIONS_H

#include <stdint.h>

struct uw_station;

struct uw_stations {
    struct uw_station *slots;
    uint8_t *datagram;          /* mtu_bytes + 1, to see what is too large */
    uint64_t uses_n;
    uint16_t slots_n, last;
};

#endif
