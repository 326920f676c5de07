/* SPDX-License-Identifier: Apache-2.0
 *
 * base2.h - the Base-2 graph: matchings after which every node has the mean of all, for any number
 * of nodes, in at most 2 log2(nodes) + 1 rounds
 *
 * Memory     nothing is kept      Blocking  never      Context  any thread
 * Source     Y. Takezawa et al., "Beyond Exponential Graph: Communication-Efficient Topologies for
 *            Decentralized Learning via Finite-time Convergence", 2023
 */
#ifndef UW_NET_BASE2_H
#define UW_NET_BASE2_H

#include <stdint.h>

#define UW_BASE2_IDLE UINT32_MAX

struct uw_base2_pair {
    uint32_t partner;           /* UW_BASE2_IDLE: none in this round */
    uint32_t part, whole;       /* both take part / whole of the other and keep the rest */
};

/* Rounds of a sweep; 0 for fewer than two nodes. */
uint32_t uw_base2_rounds_n(uint32_t nodes);

/* The exchange of a node < nodes in a round < rounds_n; idle beyond them. */
struct uw_base2_pair uw_base2_pair(uint32_t nodes, uint32_t node, uint32_t round);

#endif
