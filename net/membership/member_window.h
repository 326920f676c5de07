/* SPDX-License-Identifier: Apache-2.0
 *
 * member_window.h - what of membership a program may leave out: beacons on a link that all
 * share, and members that sleep (struct uw_membership_config)
 *
 * Blocking   never      Context  network thread
 */
#ifndef UW_NET_MEMBER_WINDOW_H
#define UW_NET_MEMBER_WINDOW_H

#include <stdint.h>

struct uw_member;
struct uw_membership;

/* When a member listens: now, if from_us is not later, or the next time. */
struct uw_window {
    uint64_t from_us, to_us;
};
struct uw_window uw_member_window(const struct uw_member *it, uint64_t now_us);

/* The same, always where this device does not heed others' windows. */
struct uw_window uw_membership_window(const struct uw_membership *m, const struct uw_member *it,
                                      uint64_t now_us);

extern const struct uw_member_windows uw_member_windows;    /* member_window.c */
extern const struct uw_beacons uw_beacons;                  /* membership_call.c */

#endif
