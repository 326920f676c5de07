/* SPDX-License-Identifier: Apache-2.0
 *
 * node_slice.h - slices of the parameters, one a round (uw_node_config.slices_n)
 *
 * Context network. */
#ifndef UW_NET_NODE_SLICE_H
#define UW_NET_NODE_SLICE_H

#include "node_state.h"

/* The slice of a round, as a node with this identity takes them: all within F rounds, and in the
 * next F begun anywhere. Else a schedule of F peers would bring each from one of them alone. */
static inline uint32_t uw_node_slice(uint32_t id, uint32_t round, uint32_t slices_n)
{
    return ((uint32_t)uw_rng_mix(id, round / slices_n) % slices_n + round % slices_n) % slices_n;
}

/* The chunks of a round, and which of its slices they are. */
struct uw_node_range {
    uint32_t at, from, n;
};

/* Which slice the pull that begins is of: all, for what a newcomer takes over or a cell from
 * another. */
void uw_node_pick_slice(struct uw_node_state *s);

/* The version of what a peer shows of which all these slices have been mixed in; 0: none, or of
 * what comes now there is some already.
 *   version  of what came so far, as in struct uw_node_pull */
static inline uint32_t uw_node_slices_known(uint32_t slices, uint32_t version,
                                            const struct uw_node_peer *peer)
{
    return version == 0 && (slices & ~peer->mixed_slices) == 0 ? peer->mixed_version : 0;
}

/* All of these slices was mixed in, and of one peer. */
static inline void uw_node_slices_mixed(uint32_t slices, uint32_t version,
                                        struct uw_node_peer *peer, uint64_t now_us)
{
    peer->mixed_slices = slices | (version == peer->mixed_version ? peer->mixed_slices : 0);
    peer->mixed_version = version;
    peer->mixed_ms = (uint32_t)(now_us / 1000u);
}

#endif
