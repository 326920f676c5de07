/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/link_lwip.h - the link over UDP and IPv4 on a board's Ethernet, by lwIP without threads
 *
 * Stations are as in uwasa/link_udp.h. Received frames stay in the Ethernet controller, which holds
 * its burst_bytes, until recv fetches them one by one; the link itself needs little memory. lwIP
 * keeps its state in static variables: a program has one such link.
 *
 * Units      bytes
 * Memory     caller supplies uw_link_lwip_bytes(), borrowed until deinit; lwIP's pools are static
 * Blocking   never          Context  main loop
 */
#ifndef UWASA_LINK_LWIP_H
#define UWASA_LINK_LWIP_H

#include "uwasa/cplusplus.h"
#include "uwasa/ethernet.h"
#include "uwasa/link.h"

UW_C_BEGIN

#define UW_LINK_LWIP_MTU_DEFAULT 1232u      /* as uwasa/link_udp.h */
#define UW_LINK_LWIP_MTU_MAX 1472u          /* of Ethernet */

struct uw_link_lwip_config {
    struct uw_ethernet *ethernet;   /* borrowed; init starts it */
    uint8_t mac[UW_ETHERNET_MAC_BYTES];     /* all zero: the controller's */
    const char *address;            /* "10.0.2.15/24:4433": own address, network and UDP port. Not
                                       kept */
    const char *gateway;            /* "10.0.2.2"; NULL: none. Not kept */
    const char *loopback;           /* address that replaces 127.0.0.1 in addresses of peers, such
                                       as an emulator's host, 10.0.2.2; NULL: none. Not kept */
    void *memory;                   /* aligned as from malloc or an arena */
    size_t memory_bytes;
    uint16_t stations_n;            /* slots of the address table; 0: 16 */
    uint32_t mtu_bytes;             /* 0: UW_LINK_LWIP_MTU_DEFAULT */
    uint32_t seed;                  /* of IP identifiers */
};

struct uw_link_lwip_state;

struct uw_link_lwip {
    struct uw_link link;
    struct uw_link_lwip_state *state;
};

/* Bytes of memory; SIZE_MAX when mtu or table are not allowed. */
size_t uw_link_lwip_bytes(const struct uw_link_lwip_config *config);

/* Start Ethernet and UDP. err (may be NULL) gets an error sentence.
 *
 * Returns UW_OK, UW_ERR_INVALID (address, gateway or mtu), UW_ERR_NOMEM, UW_ERR_NOTFOUND (no
 * Ethernet controller), UW_ERR_TIMEOUT (it does not start), UW_ERR_FULL (a program has one). */
int uw_link_lwip_init(struct uw_link_lwip *l, const struct uw_link_lwip_config *config,
                      struct uw_error *err);

UW_C_END
#endif
