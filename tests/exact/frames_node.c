/* SPDX-License-Identifier: Apache-2.0
 *
 * frames_node - two nodes as boards on 802.15.4 have them: Mbed TLS with the board's configuration,
 * secure frames, a radio in memory that loses one frame in sixteen
 *
 * They join, pull from each other, and agree on their parameters; in the middle the second one
 * begins a new epoch, and a third device with another key says hello all the time. Prints what
 * secure frames and Mbed TLS take; exits 1 when that is too much, or when they do not agree. */
#include "furthest.h"

#include "uwasa/link_frame.h"
#include "uwasa/node.h"
#include "uwasa/node_parts.h"
#include "uwasa/rng.h"
#include "uwasa/secure_frames.h"
#include "uwasa/secure_memory.h"

#include <stdio.h>
#include <string.h>

#define STATIONS 3u                 /* the third has another key */
#define NODES 2u
#define SIZE_N 1000u
#define FRAME_BYTES 116u
#define QUEUE_N 8u
#define WINDOW_BYTES 1024u
#define MEMBERS 8u
#define STEP_US 4000u
#define LIMIT_US 120000000u
#define LOST_ONE_IN 16u
#define NEAR 1e-3f
#define TLS_BYTES 8192u
#define BUDGET_BYTES 2000u          /* of Mbed TLS, for three stations on 32 bits */

struct frame {
    uint8_t data[FRAME_BYTES];
    uint32_t bytes;
    uint16_t from;
};

struct station {
    struct uw_radio radio;
    struct frame queue[QUEUE_N];
    uint32_t at, n;
    struct uw_link_frame frame;
    struct uw_secure_frames frames;
    uint32_t refused_n;
};

static struct station stations[STATIONS];
static struct uw_rng chance;
static float x[NODES][SIZE_N], shown[NODES][SIZE_N];
static _Alignas(16) unsigned char frames_memory[STATIONS][2048], memory[NODES][24576];
static _Alignas(16) unsigned char tls_memory[TLS_BYTES];

/* ---- the radio ---- */

static void put(struct station *to, uint16_t from, const void *data, uint32_t bytes)
{
    if (to->n == QUEUE_N || uw_rng_below(&chance, LOST_ONE_IN) == 0) {
        return;
    }
    struct frame *f = &to->queue[(to->at + to->n++) % QUEUE_N];
    memcpy(f->data, data, bytes);
    f->bytes = bytes;
    f->from = from;
}

static int radio_send(struct uw_radio *r, uint16_t to, const void *data, uint32_t bytes)
{
    for (uint16_t i = 0; i < STATIONS; i++) {
        if (i != r->address && (to == i || to == UW_RADIO_ALL)) {
            put(&stations[i], r->address, data, bytes);
        }
    }
    return UW_OK;
}

static int radio_recv(struct uw_radio *r, uint16_t *from, void *data, uint32_t cap_bytes)
{
    struct station *s = (struct station *)r;    /* the radio is its first member */
    if (s->n == 0) {
        return UW_ERR_AGAIN;
    }
    const struct frame *f = &s->queue[s->at];
    s->at = (s->at + 1u) % QUEUE_N;
    s->n--;
    if (f->bytes > cap_bytes) {
        return UW_ERR_TOOBIG;
    }
    memcpy(data, f->data, f->bytes);
    *from = f->from;
    return (int)f->bytes;
}

static uint64_t radio_airtime_us(const struct uw_radio *r, uint32_t frame_bytes)
{
    (void)r;
    return (frame_bytes + 17u) * 32u;
}

/* ---- the stations ---- */

static int draw(void *user, uint8_t *out, size_t bytes)
{
    (void)user;
    for (size_t i = 0; i < bytes; i++) {
        out[i] = (uint8_t)uw_rng_u32(&chance);
    }
    return 0;
}

static void on_event(void *user, const struct uw_secure_event *event)
{
    struct station *s = user;
    s->refused_n += event->kind == UW_SECURE_PEER_REFUSED;
}

static int open_station(uint16_t i)
{
    static const struct uw_radio_ops ops = {
        .name = "memory", .send = radio_send, .recv = radio_recv, .airtime_us = radio_airtime_us};
    struct station *s = &stations[i];
    s->radio = (struct uw_radio){.ops = &ops, .frame_bytes = FRAME_BYTES, .address = i,
                                 .broadcasts = true, .fd = -1};
    struct uw_secure_frames_config c = {
        .lower = &s->frame.link, .run = "boards", .peers_n = MEMBERS, .memory = frames_memory[i],
        .memory_bytes = sizeof frames_memory[i], .entropy = draw, .event = on_event, .user = s};
    memset(c.key, i < NODES ? 7 : 8, sizeof c.key);
    int rc = uw_link_frame_init(&s->frame, &(struct uw_link_frame_config){.radio = &s->radio});
    return rc < 0 ? rc : uw_secure_frames_init(&s->frames, &c);
}

static int open_node(struct uw_node *node, uint32_t i)
{
    static const char *const names[NODES] = {"board-a", "board-b"};
    static const struct uw_segment segment = {.name = "w", .size_n = SIZE_N};
    static struct uw_params params[NODES];
    static struct uw_snapshot snapshots[NODES];
    struct uw_error err = {.text = ""};
    struct uw_arena arena;
    params[i] = (struct uw_params){.x = x[i], .size_n = SIZE_N, .segments = &segment,
                                   .segments_n = 1, .hash = 1};
    snapshots[i] = (struct uw_snapshot){.data = shown[i], .size_n = SIZE_N};
    static const struct uw_node_parts parts = {.frames = &uw_node_frames};
    const struct uw_node_config c = {
        .name = names[i], .run = "boards", .incarnation = 1, .parts = &parts,
        .link = &stations[i].frames.link, .params = &params[i],
        .snapshot = &snapshots[i], .period_steps = 10, .seed = i,
        .window_bytes = WINDOW_BYTES, .members_max = MEMBERS, .serves_max = 1};
    for (uint32_t k = 0; k < SIZE_N; k++) {
        x[i][k] = (float)i + 1.0f;
    }
    uw_arena_init(&arena, memory[i], sizeof memory[i]);
    int rc = uw_node_bind(node, &c, &arena, &err);
    if (rc < 0) {
        printf("frames_node: %s\n", err.text);
    }
    return rc;
}

/* Returns how long it took, or LIMIT_US. */
static uint64_t run(struct uw_node node[NODES], struct uw_node_progress *progress)
{
    struct station *stranger = &stations[NODES];
    uint8_t buf[FRAME_BYTES] = {0x11};
    uint16_t from;
    for (uint64_t now_us = STEP_US; now_us < LIMIT_US; now_us += STEP_US) {
        bool look = now_us % (100u * STEP_US) == 0;
        if (look && furthest(x[0], x[1], SIZE_N) < NEAR && stations[0].frames.epoch == 1u) {
            return now_us;
        }
        if (now_us == 500u * STEP_US && uw_secure_frames_rotate(&stations[1].frames) < 0) {
            return LIMIT_US;
        }
        progress->step++;
        for (uint32_t i = 0; i < NODES; i++) {
            (void)uw_node_step(&node[i], now_us);
            (void)uw_node_after_step(&node[i], progress);
        }
        (void)uw_link_step(&stranger->frames.link, now_us);
        (void)uw_link_send(&stranger->frames.link, UW_LINK_STATION_BROADCAST, buf, 8);
        (void)uw_link_recv(&stranger->frames.link, &from, buf, sizeof buf);
    }
    return LIMIT_US;
}

int main(void)
{
    struct uw_node node[NODES];
    struct uw_node_progress progress = {.lr = 0.1f};
    int rc = UW_OK;
    uw_secure_memory_init(tls_memory, sizeof tls_memory);
    uw_rng_seed(&chance, 1);
    for (uint16_t i = 0; rc == UW_OK && i < STATIONS; i++) {
        rc = open_station(i);
    }
    for (uint32_t i = 0; rc == UW_OK && i < NODES; i++) {
        rc = open_node(&node[i], i);
    }
    if (rc < 0) {
        printf("frames_node: %s\n", uw_status_text(rc));
        return 1;
    }
    uint64_t took_us = run(node, &progress);
    size_t tls_bytes = uw_secure_memory_peak_bytes();
    const struct uw_secure_frames_stats *stats = &stations[0].frames.stats;
    printf("frames_node: agreed after %u ms, as far apart as %u millionths; %u peers, %u frames "
           "refused; struct %u bytes, Mbed TLS %u for three\n",
           (unsigned)(took_us / 1000u), (unsigned)(1e6f * furthest(x[0], x[1], SIZE_N)),
           (unsigned)stations[0].frames.known_n, (unsigned)stats->refused_n,
           (unsigned)sizeof(struct uw_secure_frames), (unsigned)tls_bytes);
    bool fits = sizeof(void *) > 4u || tls_bytes <= BUDGET_BYTES;
    bool apart = stations[0].frames.known_n == 1u && stats->refused_n != 0 &&
                 stations[0].refused_n != 0 && stations[NODES].frames.known_n == 0;
    return fits && apart && took_us < LIMIT_US ? 0 : 1;
}
