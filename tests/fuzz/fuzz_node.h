/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_node.h - a node to which anybody speaks: whatever comes, its parameters stay finite, its
 * steps end and say when they want to be called again
 */
#ifndef UWASA_TESTS_FUZZ_NODE_H
#define UWASA_TESTS_FUZZ_NODE_H

#include "node/node_state.h"

#include "uwasa/link_loopback.h"

#include <stdlib.h>
#include <string.h>

#define FUZZ_NODE_N 100u
#define FUZZ_NODE_MTU 2048u

struct fuzz_node {
    struct uw_loopback_hub hub;
    struct uw_link_loopback here, there;
    struct uw_node node;
    float x[FUZZ_NODE_N], snapshot_data[FUZZ_NODE_N];
    struct uw_snapshot snapshot;
    struct uw_segment segment;
    struct uw_params params;
    uint64_t now_us;
    bool code;                      /* set before: pulls ask for coded chunks */
    const struct uw_node_image *image;      /* the same: or NULL */
    const struct uw_node_direct *direct;
    uint32_t (*own_addresses)(void *arg, uint8_t *out, uint32_t cap_bytes);
    _Alignas(16) uint8_t hub_memory[1u << 17];
    _Alignas(16) uint8_t memory[1u << 20];
};

/* A node "a" of the run "r", whose model has the hash 7, and whose seed is the fuzzer.
 *   frames  over a link of frames (uwasa/link.h), with their short forms */
static inline void fuzz_node_open(struct fuzz_node *f, bool frames, enum uw_node_mode mode)
{
    static const char *const seeds[] = {"1"};
    struct uw_loopback_config hub = {.memory = f->hub_memory, .endpoints_n = 2,
                                     .memory_bytes = sizeof f->hub_memory, .queue_n = 16,
                                     .mtu_bytes = FUZZ_NODE_MTU};
    f->snapshot = (struct uw_snapshot){.data = f->snapshot_data, .size_n = FUZZ_NODE_N,
                                       .busy = ATOMIC_FLAG_INIT};
    f->segment = (struct uw_segment){.name = "w", .size_n = FUZZ_NODE_N};
    f->params = (struct uw_params){.x = f->x, .size_n = FUZZ_NODE_N, .segments = &f->segment,
                                   .segments_n = 1, .hash = 7};
    f->now_us = 1000000;
    struct uw_arena arena;
    struct uw_node_config c = {.name = "a", .run = "r", .parts = &uw_node_parts_all,
                               .seeds = seeds, .seeds_n = 1, .incarnation = 5, .mode = mode,
                               .link = &f->here.link, .params = &f->params,
                               .snapshot = &f->snapshot, .period_steps = 1,
                               .window_bytes = 16384, .members_max = 4, .code = f->code,
                               .image = f->image, .direct = f->direct,
                               .own_addresses = f->own_addresses};
    int rc = uw_loopback_hub_init(&f->hub, &hub);
    rc = rc < 0 ? rc : uw_link_loopback_init(&f->here, &f->hub, 0);
    rc = rc < 0 ? rc : uw_link_loopback_init(&f->there, &f->hub, 1);
    f->here.link.frames = f->here.link.shared = frames;
    uw_arena_init(&arena, f->memory, sizeof f->memory);
    if (rc < 0 || uw_node_bind(&f->node, &c, &arena, NULL) < 0) {
        abort();
    }
}

/* Give the datagram to the node as from its seed, and let both threads' parts run. 0, or -1. */
static inline int fuzz_node_try(struct fuzz_node *f, const uint8_t *buf, uint32_t bytes)
{
    struct uw_node_progress p = {.lr = 0.1f};
    uint8_t drain[FUZZ_NODE_MTU];
    uint16_t from;
    if (bytes <= f->there.link.mtu_bytes) {
        (void)uw_link_send(&f->there.link, 0, buf, bytes);
    }
    f->now_us += 1000;
    if (uw_node_step(&f->node, f->now_us) < f->now_us || uw_node_after_step(&f->node, &p) < 0) {
        return -1;
    }
    while (uw_link_recv(&f->there.link, &from, drain, sizeof drain) >= 0) {
        if (from != 0) {
            return -1;
        }
    }
    for (uint32_t i = 0; i < FUZZ_NODE_N; i++) {
        if (!(f->x[i] * 0.0f == 0.0f)) {
            return -1;
        }
    }
    return 0;
}

#endif
