/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/node_says.h - what a message of a node is about, for programs that count
 *
 * Memory     nothing is kept      Blocking  never      Context  any thread
 */
#ifndef UWASA_NODE_SAYS_H
#define UWASA_NODE_SAYS_H

#include "uwasa/cplusplus.h"

UW_C_BEGIN

enum uw_node_says {
    UW_NODE_SAYS_DATA,              /* parameters that were asked for */
    UW_NODE_SAYS_MEMBERSHIP,        /* hellos, pings, their answers, goodbyes */
    UW_NODE_SAYS_CONTROL,           /* all else: questions for chunks, refusals, averages */
    UW_NODE_SAYS_N
};

/* Of a message as a node hands it to its link; it is not checked.
 *   message  1 byte or more */
enum uw_node_says uw_node_says(const void *message);

UW_C_END
#endif
