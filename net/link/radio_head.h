/* SPDX-License-Identifier: Apache-2.0
 *
 * radio_head.h - the header of a frame on a shared carrier: destination, sender
 */
#ifndef UW_NET_RADIO_HEAD_H
#define UW_NET_RADIO_HEAD_H

#include "base/bytes.h"

#include "uwasa/radio.h"

#define UW_RADIO_HEAD_BYTES 4u

static inline void uw_radio_put_head(const struct uw_radio *r, uint16_t to, uint8_t *head)
{
    uw_put_u16(head, to);
    uw_put_u16(head + 2, r->address);
}

/* Is a frame for this station, or for all? */
static inline bool uw_radio_is_wanted(const struct uw_radio *r, const uint8_t *frame,
                                      uint32_t bytes)
{
    if (bytes < UW_RADIO_HEAD_BYTES) {
        return false;
    }
    uint16_t to = uw_get_u16(frame), from = uw_get_u16(frame + 2);
    return ((to == r->address && from != to) || to == UW_RADIO_ALL) &&
           from <= UW_RADIO_ADDRESS_MAX;
}

#endif
