/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/node_says.h - classify a node's message, for statistics
 *
 * Memory     nothing is kept      Blocking  never      Context  any thread
 */
#ifndef UWASA_NODE_SAYS_H
#define UWASA_NODE_SAYS_H

#include "uwasa/cplusplus.h"

UW_C_BEGIN

enum uw_node_says {
    UW_NODE_SAYS_DATA,              /* requested parameters */
    UW_NODE_SAYS_MEMBERSHIP,        /* hellos, pings, their answers, goodbyes */
    UW_NODE_SAYS_CONTROL,           /* all others: requests for chunks, refusals, averages */
    UW_NODE_SAYS_N
};

/* Class of a message that a node sends through its link. The message is not verified.
 *   message  1 byte or more */
enum uw_node_says uw_node_says(const void *message);

UW_C_END
#endif
