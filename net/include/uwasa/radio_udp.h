/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/radio_udp.h - a radio over UDP multicast: processes of one machine, or machines of one
 * Ethernet, as the stations of a channel (Linux)
 *
 * For trying radio boards on a desk. Every frame goes to the group; each station keeps those to its
 * address. Frames are lost only if the system drops them, and stations may send at the same time.
 * For a slow, shared channel see uwasa/radio_link.h.
 *
 * Datagram   to, from (2 bytes each, little-endian), payload
 * Units      bytes of payload
 * Memory     nothing but the struct   Blocking  never      Context  one thread per radio
 */
#ifndef UWASA_RADIO_UDP_H
#define UWASA_RADIO_UDP_H

#include "uwasa/cplusplus.h"
#include "uwasa/radio.h"

UW_C_BEGIN

#define UW_RADIO_UDP_HEAD_BYTES 4u
#define UW_RADIO_UDP_FRAME_DEFAULT 250u

struct uw_radio_udp_config {
    const char *group;          /* "239.255.85.87:4785"; not kept */
    const char *interface;      /* IPv4 address of the interface; NULL: "127.0.0.1", this machine
                                   only; not kept */
    uint16_t address;
    uint32_t frame_bytes;       /* 51 to 1280; 0: UW_RADIO_UDP_FRAME_DEFAULT. The same for all */
    uint64_t rate_bits_per_s;   /* for the air time; 0: no air time */
    uint32_t duty_ppm;          /* as in struct uw_radio */
};

struct uw_radio_udp {
    struct uw_radio base;
    uint64_t rate_bits_per_s;
    uint32_t group;             /* in network order */
    uint16_t port;
    uint8_t datagram[UW_RADIO_FRAME_MAX + UW_RADIO_UDP_HEAD_BYTES + 1u];
};

/* Join the group. err (may be NULL) gets a sentence that names it.
 *
 * Returns UW_OK, UW_ERR_INVALID (no IPv4 multicast group with a port, no IPv4 address, frame_bytes
 * or address out of bounds), UW_ERR_IO (no such interface, or the system refuses). */
int uw_radio_udp_init(struct uw_radio_udp *r, const struct uw_radio_udp_config *config,
                      struct uw_error *err);

/* Is the text a group that uw_radio_udp_init accepts? */
bool uw_radio_udp_group_ok(const char *group);

/* Leave the group. Safe on a zeroed struct, after a failed init, and twice. */
void uw_radio_udp_deinit(struct uw_radio_udp *r);

UW_C_END
#endif
