/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/node_sleep.h - a node that sleeps most of the time
 *
 * The node listens for awake_us in every period_us, its window. Outside of the window it trains,
 * sends nothing, and its radio may be off:
 *
 *     next_us = uw_node_step(&node, now_us);
 *     if (uw_node_may_sleep_us(&node, now_us) != 0) { ... radio off until next_us ... }
 *
 * Pings and beacons carry both lengths and the time since the window opened, so that clocks need
 * not agree. Peers send to the node within its window only, with a margin of 2 ms and 200
 * millionths of the time since on either side, enough for two clocks that are 100 ppm wrong.
 * Silence of a sleeping node does not make it suspect. Pulls in either direction pause while it
 * sleeps, and broadcast averages leave it out.
 *
 * Two sleeping nodes communicate only when they are awake together. Nodes with equal periods
 * therefore move their windows to the same time. Each has a label, initially its own; it adopts the
 * label and window of a node with a lower label, and informs its former neighbours in their next
 * window. Of two nodes with the same label the later one moves to the earlier. To discover others,
 * a node listens through a whole period when it starts, and then through one of
 * UW_NODE_SLEEP_SEARCH, or of UW_NODE_SLEEP_SEARCH_ALONE while it has no live peer. Its receiver is
 * on for
 *
 *     awake_us / period_us  +  (1 - awake_us / period_us) / UW_NODE_SLEEP_SEARCH       of the time.
 *
 * Nodes with different periods exchange through nodes that never sleep. On a shared link the beacon
 * is sent at the start of a window.
 *
 * Units      _us microseconds
 * Blocking   never      Context  network
 * Source     W. Ye, J. Heidemann, D. Estrin, "An energy-efficient MAC protocol for wireless sensor
 *            networks", 2002: windows that neighbours share, and whole periods of listening
 */
#ifndef UWASA_NODE_SLEEP_H
#define UWASA_NODE_SLEEP_H

#include "uwasa/cplusplus.h"

#include <stdint.h>

UW_C_BEGIN

#define UW_NODE_SLEEP_SEARCH 64u
#define UW_NODE_SLEEP_SEARCH_ALONE 8u
#define UW_NODE_SLEEP_LEAST_US 20000u           /* of awake_us */
#define UW_NODE_SLEEP_MOST_US 3600000000u       /* of period_us */

struct uw_node;

struct uw_node_sleep {
    uint64_t period_us;             /* 0: never sleeps */
    uint64_t awake_us;              /* below period_us */
};

/* Time for which the radio may be off, when called after uw_node_step at the same now_us; 0: the
 * node listens. */
uint64_t uw_node_may_sleep_us(const struct uw_node *n, uint64_t now_us);

UW_C_END
#endif
