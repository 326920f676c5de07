/* SPDX-License-Identifier: Apache-2.0
 *
 * frame_node - a node of eight members on 802.15.4 frames, one pull in and one out at a time, over
 * a radio that hears nobody: what tools/size_report counts as gossip over frames. As
 * frame_node_listed its peers are a list (uw_node_bind_listed). Prints the bytes
 * of RAM it takes beside the model and its snapshot, and exits 1 when they are not as measured. */
#include "uwasa/link_frame.h"
#include "uwasa/node.h"
#include "uwasa/node_parts.h"
#include "uwasa/secure_frames.h"

#include <stdio.h>
#include <string.h>

#define SIZE_N 10000u               /* 40 kB */
#define FRAME_BYTES 116u            /* of 127, 11 are the radio's own */
#define MEMBERS 8u
#define WINDOW_BYTES 1024u
#define STEPS 200u
#define STEP_US 10000u

#if FRAME_NODE_LISTED
#define MEASURE uw_node_measure_listed
#define BIND uw_node_bind_listed
#else
#define MEASURE uw_node_measure
#define BIND uw_node_bind
#endif

static float x[SIZE_N], shown[SIZE_N];
static const struct uw_segment segment = {.name = "w", .size_n = SIZE_N, .rank = 1};
static const struct uw_params params = {
    .x = x, .size_n = SIZE_N, .segments = &segment, .segments_n = 1, .hash = 1};
static struct uw_snapshot snapshot = {.data = shown, .size_n = SIZE_N};
static struct uw_link_frame frame;
static struct uw_secure_frames frames;
static struct uw_node node;
static _Alignas(16) unsigned char memory[32768], frames_memory[2048];
static uint32_t sent_n;

static int send(struct uw_radio *r, uint16_t to, const void *data, uint32_t bytes)
{
    (void)r;
    (void)to;
    (void)data;
    (void)bytes;
    sent_n++;
    return UW_OK;
}

static int recv(struct uw_radio *r, uint16_t *from, void *data, uint32_t cap_bytes)
{
    (void)r;
    (void)from;
    (void)data;
    (void)cap_bytes;
    return UW_ERR_AGAIN;
}

static uint64_t airtime_us(const struct uw_radio *r, uint32_t frame_bytes)
{
    (void)r;
    return (frame_bytes + 17u) * 32u;
}

static int no_chance(void *user, uint8_t *out, size_t bytes)
{
    (void)user;
    memset(out, 1, bytes);
    return 0;
}

static int open_node(size_t *node_bytes, size_t *frames_bytes)
{
    static const struct uw_radio_ops ops = {
        .name = "none", .send = send, .recv = recv, .airtime_us = airtime_us};
    static struct uw_radio radio = {
        .ops = &ops, .frame_bytes = FRAME_BYTES, .address = 1, .broadcasts = true, .fd = -1};
    struct uw_secure_frames_config secure = {
        .lower = &frame.link, .run = "run", .peers_n = MEMBERS, .memory = frames_memory,
        .memory_bytes = sizeof frames_memory, .entropy = no_chance};
    static const struct uw_node_parts parts = {.frames = &uw_node_frames};
    static const char *const seeds[] = {"2"};
    struct uw_node_config c = {
        .name = "a", .run = "run", .incarnation = 1, .link = &frames.link, .params = &params,
        .parts = &parts, .snapshot = &snapshot, .window_bytes = WINDOW_BYTES,
        .members_max = MEMBERS, .serves_max = 1,
        .seeds = seeds, .seeds_n = FRAME_NODE_LISTED};
    struct uw_arena arena;
    struct uw_error err = {.text = ""};
    int rc = uw_link_frame_init(&frame, &(struct uw_link_frame_config){.radio = &radio});
    if (rc == UW_OK) {
        *frames_bytes = uw_secure_frames_bytes(&secure);
        rc = uw_secure_frames_init(&frames, &secure);
    }
    if (rc == UW_OK) {
        rc = MEASURE(&c, node_bytes, &err);
    }
    uw_arena_init(&arena, memory, sizeof memory);
    if (rc == UW_OK) {
        rc = BIND(&node, &c, &arena, &err);
    }
    if (rc < 0) {
        puts(err.text);
    }
    return rc < 0 || arena.used_bytes > *node_bytes ? 1 : 0;
}

int main(void)
{
    size_t node_bytes = 0, frames_bytes = 0;
    struct uw_node_progress progress = {.lr = 0.1f, .loss = 1.0f};
    if (open_node(&node_bytes, &frames_bytes) != 0) {
        return 1;
    }
    for (uint32_t i = 0; i < STEPS; i++) {
        (void)uw_node_step(&node, (uint64_t)i * STEP_US + 1u);
        progress.step++;
        if (uw_node_after_step(&node, &progress) < 0) {
            return 1;
        }
    }
    printf("node %lu frames %lu links %lu total %lu\n", (unsigned long)node_bytes,
           (unsigned long)frames_bytes, (unsigned long)(sizeof frame + sizeof frames),
           (unsigned long)(node_bytes + frames_bytes + sizeof frame + sizeof frames));
    return sent_n != 0 ? 0 : 1;
}
