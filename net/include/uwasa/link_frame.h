/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/link_frame.h - the link over a radio of frames: one message, one frame
 *
 * A station is a short address; its address text is the number in decimal. Every address that the
 * radio can send to is a station and always held; messages to an absent station are lost. Where the
 * radio has broadcasts, UW_LINK_STATION_BROADCAST reaches all stations in range, and the link is
 * shared. Put uwasa/secure_frames.h on top.
 *
 * The radio may change its frame_bytes at any time, also to less during a transfer. mtu_bytes
 * follows at every call of the link, and larger messages get UW_ERR_TOOBIG. rate_bits_per_s is that
 * of full frames, each after the radio's access_us, or the rate that the duty cycle allows if that
 * is less. A node derives from it the timeouts ping_us to pull_silence_us that its configuration
 * leaves at 0.
 *
 * Duty cycle  A token bucket of air time: in any window of window_us this station sends for at most
 *             duty_ppm of it. The bucket holds burst_us, at least the longest frame so far, and is
 *             empty at the start, because air time used before a restart is unknown. It fills at
 *             duty_ppm less burst_us / window_us. Without budget send returns UW_ERR_AGAIN, and
 *             step returns when the budget suffices for the smallest frame refused. A frame that
 *             takes more than half of a window's allowance gets UW_ERR_TOOBIG
 * Units      bytes of a frame's payload; air time in microseconds, of frames of this station
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
    uint64_t burst_us;          /* size of the bucket, at most half of a window's allowance; 0: a
                                   sixteenth of it */
};

struct uw_link_frame {
    struct uw_link link;
    struct uw_radio *radio;
    uint64_t window_us, burst_us;
    uint64_t now_us;
    uint64_t tokens;            /* air time left, in millionths of a microsecond */
    uint64_t longest_us;        /* air time of the longest frame so far */
    uint64_t wanted_us;         /* air time of the smallest frame refused; 0: none waits */
    uint64_t used_us, waits_n;
    bool stepped;
};

/* For status and benchmarks. */
struct uw_link_frame_air {
    uint64_t used_us;           /* air time used by this station */
    uint64_t left_us;           /* air time available now; UINT64_MAX: unlimited */
    uint64_t waits_n;           /* messages that had to wait for air time */
};

/* Set up over a radio that is ready.
 *
 * Returns UW_OK, UW_ERR_INVALID (no radio, its frame_bytes or address out of bounds, window_us
 * above UW_LINK_FRAME_WINDOW_MAX_US). */
int uw_link_frame_init(struct uw_link_frame *l, const struct uw_link_frame_config *config);

/* Get the air time as of the last step. */
void uw_link_frame_air(const struct uw_link_frame *l, struct uw_link_frame_air *air);

/* Read a short address, "17". Returns UW_OK or UW_ERR_INVALID. */
int uw_link_frame_address(const char *text, uint16_t *address);

UW_C_END
#endif
