/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/link_frame.h - the link over a radio of frames: one message, one frame
 *
 * A station is a short address, its address text the number in decimal. All that the radio can
 * address exist and are held for ever; who is not there hears nothing. Where the radio has
 * broadcasts, UW_LINK_STATION_BROADCAST reaches all who hear it, and the link is shared. Put
 * uwasa/secure_frames.h on top.
 *
 * The radio may change its frame_bytes at any time, also to less in the middle of a transfer:
 * mtu_bytes follows at every call of the link, and a message that has become too large is refused
 * with UW_ERR_TOOBIG. rate_bits_per_s is that of full frames, each after the radio's access_us, or
 * what the duty cycle allows where that is less; what a node's configuration leaves at 0 of ping_us
 * to pull_silence_us follows it.
 *
 * Duty cycle  A bucket of airtime: in no window_us, wherever it begins, does this station send for
 *             more than duty_ppm of it. The bucket holds burst_us and is empty at the start, since
 *             nobody knows what was sent before a restart; the frame that was longest so far fits
 *             in. What comes in is duty_ppm less burst_us / window_us. Without budget send returns
 *             UW_ERR_AGAIN, and step tells when there is enough for the smallest frame refused. A
 *             frame that takes more than half of what a window allows is UW_ERR_TOOBIG
 * Units      bytes of a frame's payload; airtime in microseconds, of what this station sends
 * Memory     nothing but the struct; the radio is borrowed until deinit
 * Blocking   never          Context  one thread per link
 */
#ifndef UWASA_LINK_FRAME_H
#define UWASA_LINK_FRAME_H

#include "uwasa/cplusplus.h"
#include "uwasa/link.h"
#include "uwasa/radio.h"

UW_C_BEGIN

#define UW_LINK_FRAME_WINDOW_US UINT64_C(3600000000)    /* an hour, as ETSI EN 300 220 has it */
#define UW_LINK_FRAME_WINDOW_MAX_US UINT64_C(604800000000)

struct uw_link_frame_config {
    struct uw_radio *radio;
    uint64_t window_us;         /* of the duty cycle; 0: UW_LINK_FRAME_WINDOW_US */
    uint64_t burst_us;          /* airtime that can be saved up, at most half of what a window
                                   allows; 0: a sixteenth of it */
};

struct uw_link_frame {
    struct uw_link link;
    struct uw_radio *radio;
    uint64_t window_us, burst_us;
    uint64_t now_us;
    uint64_t tokens;            /* airtime left, in millionths of a microsecond */
    uint64_t longest_us;        /* airtime of the longest frame so far */
    uint64_t wanted_us;         /* of the smallest one refused; 0: none waits */
    uint64_t used_us, waits_n;
    bool stepped;
};

/* For status and benchmarks. */
struct uw_link_frame_air {
    uint64_t used_us;           /* that this station has sent for */
    uint64_t left_us;           /* that it may send for now; UINT64_MAX: not limited */
    uint64_t waits_n;           /* times that messages had to wait for it */
};

/* Set up over a radio that is ready.
 *
 * Returns UW_OK, UW_ERR_INVALID (no radio, its frame_bytes or address out of bounds, window_us
 * above UW_LINK_FRAME_WINDOW_MAX_US). */
int uw_link_frame_init(struct uw_link_frame *l, const struct uw_link_frame_config *config);

/* Airtime, as of the last step. */
void uw_link_frame_air(const struct uw_link_frame *l, struct uw_link_frame_air *air);

/* Read a short address, "17". Returns UW_OK or UW_ERR_INVALID. */
int uw_link_frame_address(const char *text, uint16_t *address);

UW_C_END
#endif
