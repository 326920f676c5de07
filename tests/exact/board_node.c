/* SPDX-License-Identifier: Apache-2.0
 *
 * board_node - two nodes as a board without an operating system has them, in little memory
 *
 * Plain gossip over messages of 1232 bytes, without a snapshot, a table of 8 members, none of the
 * optional parts of uwasa/node_parts.h. They agree on parameters of the size of lenet5's. Prints
 * what a node takes of its arena; exits 1 when that is too much, or when they do not agree. */
#include "furthest.h"

#include "uwasa/link_loopback.h"
#include "uwasa/node.h"

#include <stdio.h>
#include <string.h>

#define SIZE_N 61706u
#define MTU_BYTES 1232u
#define QUEUE_N 16u
#define WINDOW_BYTES (3u * MTU_BYTES)
#define BUDGET_BYTES 13000u         /* on a processor of 32 bits */
#define STEP_US 2000u
#define LIMIT_US 600000000u
#define NEAR 1e-3f

static float x[2][SIZE_N];
static _Alignas(64) unsigned char memory[2][32768];
static _Alignas(16) unsigned char hub_memory[2u * QUEUE_N * (MTU_BYTES + 64u) + 256u];

static int open_node(struct uw_node *node, uint32_t i, struct uw_link *link, size_t *bytes)
{
    static const char *const names[2] = {"board-a", "board-b"}, *const seeds[2] = {"1", "0"};
    static const struct uw_segment segment = {.name = "w", .size_n = SIZE_N};
    static struct uw_params params[2];
    struct uw_error err = {.text = ""};
    struct uw_arena arena;
    params[i] = (struct uw_params){.x = x[i], .size_n = SIZE_N, .segments = &segment,
                                   .segments_n = 1, .hash = 1};
    const struct uw_node_config c = {
        .name = names[i], .run = "boards", .seeds = &seeds[i], .seeds_n = 1, .incarnation = 1,
        .link = link, .params = &params[i], .rule = &uw_mix_none, .period_steps = 10,
        .seed = i, .window_bytes = WINDOW_BYTES, .members_max = 8, .serves_max = 2,
        .chunk_least_n = 64};
    int rc = uw_node_measure(&c, bytes, &err);
    uw_arena_init(&arena, memory[i], sizeof memory[i]);
    rc = rc < 0 ? rc : uw_node_bind(node, &c, &arena, &err);
    if (rc < 0) {
        printf("board_node: %s\n", err.text);
    }
    return rc;
}

int main(void)
{
    struct uw_loopback_hub hub;
    const struct uw_loopback_config config = {.memory = hub_memory, .endpoints_n = 2,
                                              .memory_bytes = sizeof hub_memory,
                                              .mtu_bytes = MTU_BYTES, .queue_n = QUEUE_N};
    struct uw_link_loopback link[2];
    struct uw_node node[2];
    size_t bytes = 0;
    int rc = uw_loopback_hub_init(&hub, &config);
    for (uint16_t i = 0; rc == UW_OK && i < 2u; i++) {
        for (uint32_t k = 0; k < SIZE_N; k++) {
            x[i][k] = (float)i + 1.0f;
        }
        rc = uw_link_loopback_init(&link[i], &hub, i);
        rc = rc < 0 ? rc : open_node(&node[i], i, &link[i].link, &bytes);
    }
    if (rc < 0) {
        printf("board_node: %s\n", uw_status_text(rc));
        return 1;
    }
    struct uw_node_progress progress = {.lr = 0.1f};
    uint64_t now_us = 0;
    for (; now_us < LIMIT_US; now_us += STEP_US) {
        bool look = now_us % (100u * STEP_US) == 0;
        if (look && furthest(x[0], x[1], SIZE_N) < NEAR) {
            break;
        }
        progress.step++;
        for (uint32_t i = 0; i < 2u; i++) {
            (void)uw_node_step(&node[i], now_us);
            (void)uw_node_after_step(&node[i], &progress);
        }
    }
    printf("board_node: %u bytes of arena, agreed after %u steps, as far apart as %u millionths\n",
           (unsigned)bytes, (unsigned)progress.step,
           (unsigned)(1e6f * furthest(x[0], x[1], SIZE_N)));
    bool fits = sizeof(void *) > 4u || bytes <= BUDGET_BYTES;
    return fits && now_us < LIMIT_US ? 0 : 1;
}
