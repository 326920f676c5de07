/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/link_loopback.h - links in memory: a hub with numbered endpoints
 *
 * For tests, the simulator, and devices that share one address space. A station is the number of an
 * endpoint; its address text is the number in decimal. Every endpoint has a bounded receive queue.
 * A message to a closed endpoint is lost, as on a real wire; a message to a full queue gets
 * UW_ERR_AGAIN. A broadcast goes to every other open endpoint except those whose queue is full; the
 * sender's dropped_n counts these.
 *
 *     uw_loopback_hub_init(&hub, &config);          once
 *     uw_link_loopback_init(&link[i], &hub, i);     for every endpoint in use
 *
 * Units      bytes
 * Memory     caller supplies uw_loopback_hub_bytes(); borrowed until the last endpoint is closed
 * Blocking   never; a spin flag guards the queues for the time of one copy
 * Context    endpoints of a hub may live in different threads, each link in one; not ISR-safe
 */
#ifndef UWASA_LINK_LOOPBACK_H
#define UWASA_LINK_LOOPBACK_H

#include "uwasa/cplusplus.h"
#include "uwasa/link.h"

UW_C_BEGIN

struct uw_loopback_config {
    void *memory;               /* aligned as from malloc or an arena */
    size_t memory_bytes;
    uint16_t endpoints_n;       /* 1 .. 4096 */
    uint32_t mtu_bytes;         /* 0: 1232 */
    uint32_t queue_n;           /* messages an endpoint can hold; 0: 64 */
};

struct uw_loopback_endpoint;

struct uw_loopback_hub {
    uw_atomic_flag busy;
    struct uw_loopback_endpoint *endpoints;
    uint8_t *slots;
    size_t slot_bytes;
    uint32_t mtu_bytes, queue_n;
    uint16_t endpoints_n;
};

struct uw_link_loopback {
    struct uw_link link;
    struct uw_loopback_hub *hub;
    uint16_t self;
};

/* Bytes of memory a hub needs; SIZE_MAX when the configuration is not allowed. */
size_t uw_loopback_hub_bytes(const struct uw_loopback_config *config);

/* Set up a hub with every endpoint closed.
 *
 * Returns UW_OK, UW_ERR_INVALID (no endpoints, sizes too large), UW_ERR_NOMEM (memory smaller
 * than uw_loopback_hub_bytes). */
int uw_loopback_hub_init(struct uw_loopback_hub *hub, const struct uw_loopback_config *config);

/* Open endpoint `self` of the hub. Its queue starts empty.
 *
 * Returns UW_OK, UW_ERR_INVALID (no such endpoint, or it is open already). */
int uw_link_loopback_init(struct uw_link_loopback *l, struct uw_loopback_hub *hub, uint16_t self);

/* Are there messages in the receive queue? Replaces waiting for link->fd. */
bool uw_link_loopback_waiting(const struct uw_link_loopback *l);

UW_C_END
#endif
