/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/node_says.h"

#include "wire/wire.h"

enum uw_node_says uw_node_says(const void *message)
{
    switch (*(const uint8_t *)message & 0x0fu) {
    case UW_WIRE_DATA:
    case UW_WIRE_DATA_CODED:
    case UW_WIRE_CAST:
        return UW_NODE_SAYS_DATA;
    case UW_WIRE_HELLO:
    case UW_WIRE_PING:
    case UW_WIRE_ACK:
    case UW_WIRE_GOODBYE:
        return UW_NODE_SAYS_MEMBERSHIP;
    default:
        return UW_NODE_SAYS_CONTROL;
    }
}
