/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/radio_link.h - a radio over any link on which all ends use the same station numbers
 *
 * For tests, benchmarks and simulation: over uwasa/link_loopback.h behind uwasa/link_emulated.h,
 * with a shared medium, on virtual time. A test may change frame_bytes and duty_ppm of the radio
 * between calls, to emulate a data rate that adapts.
 *
 * Units      bytes          Memory  nothing but the struct; link and medium are borrowed
 * Blocking   never          Context the link's thread
 */
#ifndef UWASA_RADIO_LINK_H
#define UWASA_RADIO_LINK_H

#include "uwasa/cplusplus.h"
#include "uwasa/link_emulated.h"
#include "uwasa/radio.h"

UW_C_BEGIN

struct uw_radio_link_config {
    struct uw_link *lower;              /* must be numbered: an address is one of its stations */
    const struct uw_emulated_medium *medium;    /* gives the air time; NULL: by the link's rate */
    uint32_t frame_bytes;               /* 0: the link's mtu_bytes */
    uint32_t duty_ppm;                  /* as in struct uw_radio */
    bool no_broadcasts;
};

struct uw_radio_link {
    struct uw_radio base;
    struct uw_link *lower;
    const struct uw_emulated_medium *medium;
};

/* Returns UW_OK, UW_ERR_INVALID (no link, one without numbers, or frames larger than it takes). */
int uw_radio_link_init(struct uw_radio_link *r, const struct uw_radio_link_config *config);

UW_C_END
#endif
