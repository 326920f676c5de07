/* SPDX-License-Identifier: Apache-2.0
 *
 * member_addresses.h - members with several addresses: of both IP versions, behind a NAT, in
 * several networks
 *
 * A device tells its further addresses when it says hello and answers one; rumours pass them on. A
 * member that is not live is called where it was, then at each of them, in turn. So devices behind
 * one NAT, which others see at addresses outside that lead nowhere from inside, meet inside.
 *
 * Memory     the table's arena      Blocking  never      Context  network thread
 */
#ifndef UW_NET_MEMBER_ADDRESSES_H
#define UW_NET_MEMBER_ADDRESSES_H

#include "membership.h"

#include "wire/message.h"

struct uw_member_also {
    uint32_t id;                    /* of the member; of another one: none are known */
    uint16_t station;               /* called last; UW_LINK_STATION_NONE: none */
    uint8_t bytes_n;
    uint8_t bytes[UW_MESSAGE_ALSO_MOST];    /* as in net/wire/message.h */
};

/* Allocate m->also. Returns what uw_arena_take returns. */
int uw_member_addresses_place(struct uw_membership *m, struct uw_arena *arena);

/* Take the further addresses of the device of a record. Those in a rumour count for a member that
 * has not told them itself. */
void uw_member_addresses_take(struct uw_membership *m, const uwasa_Peer *peer, const uint8_t *also,
                              uint32_t also_bytes, bool rumour);

/* Get those of the member of a record, without the one in the record. Returns their bytes. */
uint32_t uw_member_addresses_of(const struct uw_membership *m, const uwasa_Peer *peer,
                                uint8_t also[UW_MESSAGE_ALSO_MOST]);

#endif
