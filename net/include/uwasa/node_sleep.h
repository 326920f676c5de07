/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/node_sleep.h - a node that is deaf most of the time
 *
 * It listens for awake_us in every period_us, a window; outside of them it trains and sends
 * nothing, and its radio may be off:
 *
 *     next_us = uw_node_step(&node, now_us);
 *     if (uw_node_may_sleep_us(&node, now_us) != 0) { ... radio off until next_us ... }
 *
 * What others must know goes with its pings and beacons: both lengths, and for how long the window
 * has been open, so that no clocks need agree. They send to it within its windows only, a little
 * narrower than told: 2 ms and 200 millionths of the time since on either side, for two clocks that
 * are 100 ppm wrong. That it is silent while it sleeps is no silence, its pulls and those from it
 * rest meanwhile, and broadcast averages go without it.
 *
 * Two that sleep hear each other only when they are awake together. So nodes with one period move
 * their windows to the same time: each carries a label, at first its own, and takes over label and
 * windows of whom it hears with a lower one, and tells those whom it leaves, in their next window.
 * With the same label the later one moves to the earlier. To hear of others each listens through a
 * whole period when it starts, and then through one of UW_NODE_SLEEP_SEARCH; while it knows nobody
 * alive, one of UW_NODE_SLEEP_SEARCH_ALONE. Its receiver is on for
 *
 *     awake_us / period_us  +  (1 - awake_us / period_us) / UW_NODE_SLEEP_SEARCH       of the time.
 *
 * Nodes with different periods meet through those that never sleep. On a link that all share the
 * beacon comes at the start of a window.
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
    uint64_t period_us;             /* 0: it never sleeps */
    uint64_t awake_us;              /* below period_us */
};

/* After uw_node_step at the same time: for how long nothing will be sent, and what arrives need not
 * be heard. 0: the node listens. */
uint64_t uw_node_may_sleep_us(const struct uw_node *n, uint64_t now_us);

UW_C_END
#endif
