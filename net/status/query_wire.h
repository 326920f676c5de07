/* SPDX-License-Identifier: Apache-2.0
 *
 * query_wire.h - questions and their replies on the wire
 *
 * Memory  caller's      Blocking  never      Context  any thread
 */
#ifndef UW_NET_QUERY_WIRE_H
#define UW_NET_QUERY_WIRE_H

#include "wire/message.h"

#define UW_QUERY_PART_N 128u        /* floats of a message, at most */
#define UW_QUERY_HEAD_BYTES 80u     /* of a message beside them, at most */

/* Floats of a message on a link with messages of so many bytes. */
static inline uint32_t uw_query_part_n(uint32_t mtu_bytes)
{
    uint32_t room = mtu_bytes > UW_QUERY_HEAD_BYTES + 4u ? mtu_bytes - UW_QUERY_HEAD_BYTES : 4u;
    return room / 4u < UW_QUERY_PART_N ? room / 4u : UW_QUERY_PART_N;
}

extern const struct uw_message_form uw_form_query, uw_form_query_reply;

#endif
