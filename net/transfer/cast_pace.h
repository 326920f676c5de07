/* SPDX-License-Identifier: Apache-2.0
 *
 * cast_pace.h - how fast to send to all, over a link that does not say how much it carries
 *
 * Nobody acknowledges a broadcast; what was lost is known when others ask for it again. Where more
 * is lost than used to be, chunks follow each other more slowly; where that did not help, it is the
 * channel that loses them, and the pace goes back. Else it becomes a little faster with each turn.
 *
 * Units      _us microseconds from one chunk to the next
 * Memory     caller's      Blocking  never      Context  network thread
 */
#ifndef UW_NET_CAST_PACE_H
#define UW_NET_CAST_PACE_H

#include <stdbool.h>
#include <stdint.h>

struct uw_cast_pace {
    uint32_t us, least_us, most_us;
    uint16_t usual, before;         /* lost, in thousandths: as ever, and at the pace before */
    bool slowed;
};

/* us: as told by the link; or, if the pace adapts, that to begin with, which it stays within an
 * eighth and eight times of. */
void uw_cast_pace_init(struct uw_cast_pace *p, uint32_t us, bool adapts);

/* Of so many chunks, 1 or more, so many were asked for again. */
void uw_cast_pace_learn(struct uw_cast_pace *p, uint32_t chunks, uint32_t again);

#endif
