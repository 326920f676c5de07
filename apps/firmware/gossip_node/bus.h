/* SPDX-License-Identifier: Apache-2.0
 *
 * bus.h - link=bus: frames on a line that many stations share, authenticated and encrypted one by
 * one; in bus.c, or in bus_none.c where UWASA_SECURE_FRAMES is off
 *
 * Context    main loop */
#ifndef UW_FIRMWARE_BUS_H
#define UW_FIRMWARE_BUS_H

#include "gossip_node.h"

#include "uwasa/node_parts.h"

/* What the node needs for it; NULL: this firmware has none. */
extern const struct uw_node_frames *const uw_firmware_frames;

/* Set up the bus at the second UART, and the secure channel on it: f->link. Memory is the first
 * region's. Returns UW_OK or fills f->err. */
int uw_firmware_open_bus(struct uw_firmware *f);

#endif
