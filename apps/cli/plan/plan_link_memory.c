/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_link.h"

#include "uwasa/node.h"
#include "uwasa/secure.h"
#include "uwasa/secure_frames.h"

static const struct uw_link_ops no_ops = {.name = "planned"};

static size_t secure_bytes(struct uw_link *lower, uint32_t peers_n)
{
    const struct uw_secure_frames_config c = {.lower = lower, .run = "plan",
                                              .peers_n = (uint16_t)peers_n};
    return uw_secure_frames_bytes(&c);
}

int uw_plan_link_memory(const struct uw_radio_profile *p, uint32_t floats_n, uint32_t nodes_n,
                        bool averages, size_t *bytes, struct uw_error *err)
{
    struct uw_link lower = {.ops = &no_ops, .mtu_bytes = p->frame_bytes, .fd = -1,
                            .frames = p->frames, .shared = p->shared, .numbered = p->frames};
    struct uw_link top = lower;
    top.mtu_bytes -= p->frames ? UW_SECURE_FRAMES_OVERHEAD : UW_SECURE_OVERHEAD_BYTES;
    top.rate_bits_per_s = p->rate_bits_per_s;
    const struct uw_segment segment = {.name = "x", .size_n = floats_n, .dim = {floats_n},
                                       .rank = 1};
    const struct uw_params params = {.size_n = floats_n, .segments = &segment, .segments_n = 1,
                                     .hash = 1};
    struct uw_snapshot snapshot = {.size_n = floats_n};
    const struct uw_node_config c = {
        .name = "n", .run = "plan", .link = &top, .params = &params, .snapshot = &snapshot,
        .parts = &uw_node_parts_all, .members_max = nodes_n,
        .mode = averages ? UW_NODE_BROADCAST : UW_NODE_GOSSIP};
    int rc = uw_node_measure(&c, bytes, err);
    size_t secure = rc == UW_OK && p->frames ? secure_bytes(&lower, nodes_n) : 0;
    *bytes += secure != SIZE_MAX ? secure : 0;
    return rc;
}
