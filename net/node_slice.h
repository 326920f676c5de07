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

/* Which slice the pull that begins is of: all, for what a newcomer takes over or a cell from
 * another. */
void uw_node_pick_slice(struct uw_node_state *s);

/* The version of what the peer shows of which all that is to be pulled has been mixed in; 0: none,
 * or of what comes now there is some already. */
static inline uint32_t uw_node_slices_known(const struct uw_node_pull *p,
                                            const struct uw_member *m)
{
    bool known = p->version == 0 && !p->adopt && (p->slices & ~m->mixed_slices) == 0;
    return known ? m->mixed_version : 0;
}

/* All of this pull was mixed in, and of one peer. */
static inline void uw_node_slices_mixed(const struct uw_node_pull *p, struct uw_member *m,
                                        uint64_t now_us)
{
    m->mixed_slices = p->slices | (p->version == m->mixed_version ? m->mixed_slices : 0);
    m->mixed_version = p->version;
    m->mixed_us = now_us;
}

#endif
