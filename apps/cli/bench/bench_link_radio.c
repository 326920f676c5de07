/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_link.h"
#include "base/progress.h"
#include "links/capture_file.h"
#include "links/link_cost.h"

#include "uwasa/arena.h"
#include "uwasa/board.h"
#include "uwasa/link_emulated.h"
#include "uwasa/link_frame.h"
#include "uwasa/link_loopback.h"
#include "uwasa/radio_link.h"
#include "uwasa/rng.h"
#include "uwasa/secure_frames.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUEUE_N 3u                  /* frames that a radio holds */
#define TICK_US 10u                 /* least step of the clock */
#define IDLE_FRAMES 850000u         /* give up after the time of so many longest frames without
                                       progress, at most a virtual day: 1 h of 802.15.4 */
#define SETTLE_FRAMES 2350u         /* time of so many longest frames: 10 s of 802.15.4 */
#define PULL_LIMIT_US UINT64_C(86400000000)
#define TELL_TICKS 256u             /* ticks between two reads of the real clock */

struct station {
    struct uw_bench_node own;
    struct uw_link_loopback loopback;
    struct uw_link_emulated emulated;
    struct uw_radio_link radio;
    struct uw_link_frame frame;
    struct uw_secure_frames secure;
    struct uw_rng rng;
    struct uw_node node;
    bool active;                        /* takes part in the measurement */
};

struct world {
    const struct uw_bench_link *b;
    uint64_t now_us;
    struct uw_emulated_medium medium;
    struct uw_loopback_hub hub;
    struct station *stations;           /* [nodes] */
    struct uw_capture_file capture;     /* of the first */
    struct uw_stack_block blocks[2u + 3u * UW_BENCH_LINK_NODES_MAX];
    uint32_t blocks_n;
    uint64_t received_bytes, received_us;     /* of parameters, when that last grew */
};

static int take(struct world *w, size_t bytes, void **at)
{
    struct uw_stack_block *b = &w->blocks[w->blocks_n];
    int rc = bytes == SIZE_MAX ? UW_ERR_INVALID : uw_board_memory_take(bytes, &b->at);
    if (rc == UW_OK) {
        b->bytes = bytes;
        w->blocks_n++;
        *at = b->at;
    }
    return rc;
}

static uint64_t world_now(void *arg)
{
    return ((const struct world *)arg)->now_us;
}

/* Entropy from a seeded generator, so that runs repeat. */
static int draw(void *user, uint8_t *out, size_t bytes)
{
    struct uw_rng *rng = user;
    for (size_t i = 0; i < bytes; i++) {
        out[i] = (uint8_t)uw_rng_u32(rng);
    }
    return 0;
}

static int open_secure(struct world *w, struct station *s, struct uw_link *lower)
{
    struct uw_secure_frames_config c = {
        .lower = lower, .run = "bench", .peers_n = (uint16_t)w->b->nodes,
        .entropy = draw, .user = &s->rng};      /* the key: zeros do */
    c.memory_bytes = uw_secure_frames_bytes(&c);
    int rc = take(w, c.memory_bytes, &c.memory);
    return rc < 0 ? rc : uw_secure_frames_init(&s->secure, &c);
}

/* Open the link of a node. Losses are independent at each receiver, as on the air. */
static int open_links(struct world *w, uint32_t i, struct uw_link **top, struct uw_error *err)
{
    const struct uw_radio_profile *p = w->b->radio;
    struct station *s = &w->stations[i];
    uint64_t latency_us = (uint64_t)(w->b->latency_s * 1e6);
    uint64_t under_way_n = latency_us / (1u + uw_radio_profile_airtime_us(p, 0));
    struct uw_link_emulated_config e = {
        .lower = &s->loopback.link, .queue_n = QUEUE_N + (uint32_t)under_way_n,
        .medium = &w->medium, .seed = uw_rng_mix(w->b->seed, i),
        .send = {.delay_us = latency_us},
        .receive = {.loss = (float)w->b->loss}};
    struct uw_radio_link_config r = {.lower = &s->emulated.link, .medium = &w->medium,
                                     .duty_ppm = p->duty_ppm, .no_broadcasts = !p->broadcasts};
    struct uw_link_frame_config f = {.radio = &s->radio.base};
    uw_rng_seed(&s->rng, e.seed);
    int rc = uw_link_loopback_init(&s->loopback, &w->hub, (uint16_t)i);
    e.memory_bytes = rc == UW_OK ? uw_link_emulated_bytes(&e) : 0;
    rc = rc < 0 ? rc : take(w, e.memory_bytes, &e.memory);
    rc = rc < 0 ? rc : uw_link_emulated_init(&s->emulated, &e);
    rc = rc < 0 ? rc : uw_radio_link_init(&s->radio, &r);
    rc = rc < 0 ? rc : uw_link_frame_init(&s->frame, &f);
    struct uw_link *lower = &s->frame.link;
    if (rc == UW_OK && i == 0 && w->b->pcap != NULL) {
        rc = uw_capture_file_open(&w->capture, w->b->pcap, lower, err);
        lower = &w->capture.link.link;
    }
    rc = rc < 0 ? rc : open_secure(w, s, lower);
    if (rc == UW_OK) {
        *top = uw_bench_count_init(&s->own.count, &s->secure.link);
    }
    return rc;
}

static int open_station(struct world *w, uint32_t i, struct uw_error *err)
{
    struct station *s = &w->stations[i];
    struct uw_arena arena;
    void *memory = NULL;
    size_t bytes = 0;
    s->active = w->b->average || i < w->b->pulls;
    int rc = uw_bench_node_open(&s->own, i, (uint32_t)(w->b->bytes / sizeof(float)), s->active,
                                world_now, w, w->b->seed);
    struct uw_node_config c = s->own.config;
    c.mode = w->b->average ? UW_NODE_BROADCAST : UW_NODE_GOSSIP;
    c.address = s->own.name;
    c.code = w->b->code;
    rc = rc < 0 ? rc : open_links(w, i, &c.link, err);
    if (rc < 0 && err->text[0] != '\0') {
        return rc;
    }
    if (rc < 0) {
        return uw_error_set(err, rc, "node %u: %s", (unsigned)i, uw_status_text(rc));
    }
    rc = uw_node_measure(&c, &bytes, err);
    bytes += uw_arena_slack_bytes();
    rc = rc < 0 ? rc : take(w, bytes, &memory);
    if (rc < 0) {
        return rc;
    }
    uw_arena_init(&arena, memory, bytes);
    rc = uw_node_bind(&s->node, &c, &arena, err);
    uw_arena_seal(&arena);
    return rc < 0 ? rc : uw_bench_node_start(&s->own, &s->node);
}

static int open_world(struct world *w, struct uw_error *err)
{
    struct uw_loopback_config hub = {.endpoints_n = (uint16_t)w->b->nodes,
                                     .mtu_bytes = w->b->radio->frame_bytes};
    void *stations = NULL;
    hub.memory_bytes = uw_loopback_hub_bytes(&hub);
    int rc = take(w, w->b->nodes * sizeof *w->stations, &stations);
    rc = rc < 0 ? rc : take(w, hub.memory_bytes, &hub.memory);
    rc = rc < 0 ? rc : uw_loopback_hub_init(&w->hub, &hub);
    if (rc < 0) {
        return uw_error_set(err, rc, "the nodes: %s", uw_status_text(rc));
    }
    w->stations = stations;
    memset(w->stations, 0, w->b->nodes * sizeof *w->stations);
    w->now_us = 1000000;
    uw_radio_profile_medium(w->b->radio, &w->medium);
    for (uint32_t i = 0; rc == UW_OK && i < w->b->nodes; i++) {
        rc = open_station(w, i, err);
    }
    return rc;
}

static void close_world(struct world *w)
{
    for (uint32_t i = 0; w->stations != NULL && i < w->b->nodes; i++) {
        struct station *s = &w->stations[i];
        uw_link_deinit(&s->own.count.link);
        uw_link_deinit(&s->secure.link);
        if (i == 0) {
            uw_capture_file_close(&w->capture);
        }
        uw_link_deinit(&s->frame.link);
        uw_link_deinit(&s->emulated.link);
        uw_link_deinit(&s->loopback.link);
        uw_bench_node_close(&s->own);
    }
    while (w->blocks_n > 0) {
        const struct uw_stack_block *b = &w->blocks[--w->blocks_n];
        uw_board_memory_release(b->at, b->bytes);
    }
}

/* Step all nodes, repeatedly while messages arrive; then advance the clock to the next event. */
static void step_all(struct world *w)
{
    uint64_t next_us = UINT64_MAX;
    bool waiting = false;
    for (uint32_t i = 0; i < w->b->nodes; i++) {
        uint64_t wants_us = uw_node_step(&w->stations[i].node, w->now_us);
        next_us = wants_us < next_us ? wants_us : next_us;
    }
    for (uint32_t i = 0; i < w->b->nodes; i++) {
        waiting = waiting || uw_link_loopback_waiting(&w->stations[i].loopback);
    }
    if (!waiting) {
        w->now_us = next_us > w->now_us + TICK_US ? next_us : w->now_us + TICK_US;
    }
}

static bool all_met(const struct world *w)
{
    struct uw_node_member rows[UW_BENCH_LINK_NODES_MAX + 1u];
    for (uint32_t i = 0; i < w->b->nodes; i++) {
        uint32_t n = uw_node_status(&w->stations[i].node, w->now_us, rows,
                                    UW_BENCH_LINK_NODES_MAX + 1u, NULL);
        if (!uw_bench_node_sees(rows, n, w->b->nodes)) {
            return false;
        }
    }
    return true;
}

static uint64_t idle_limit_us(const struct world *w)
{
    uint64_t us = IDLE_FRAMES * uw_emulated_airtime_us(&w->medium, w->b->radio->frame_bytes);
    return us < PULL_LIMIT_US ? us : PULL_LIMIT_US;
}

static int meet(struct world *w, struct uw_error *err)
{
    uint64_t until_us = w->now_us + idle_limit_us(w);
    while (!all_met(w)) {
        if (w->now_us >= until_us) {
            return uw_error_set(err, UW_ERR_TIMEOUT,
                                "the nodes do not find each other in %.0f s of virtual time",
                                (double)idle_limit_us(w) * 1e-6);
        }
        step_all(w);
    }
    uint64_t settle_us = SETTLE_FRAMES * uw_emulated_airtime_us(&w->medium,
                                                                w->b->radio->frame_bytes);
    for (until_us = w->now_us + settle_us; w->now_us < until_us;) {
        step_all(w);
    }
    return UW_OK;
}

/* Whether its pull or average has ended. */
static bool is_done(const struct world *w, struct station *s)
{
    struct uw_node_counters c;
    if (w->b->average && atomic_load(&s->own.ended_us) == 0) {
        (void)uw_node_status(&s->node, w->now_us, NULL, 0, &c);
        atomic_store(&s->own.ended_us,
                     c.averages_done + c.averages_cut != 0 ? w->now_us : 0);
    }
    return atomic_load(&s->own.ended_us) != 0;
}

/* Mix what has arrived; at first, start the pulls. Returns how many nodes have not ended. */
static uint32_t train(struct world *w)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < w->b->nodes; i++) {
        struct station *s = &w->stations[i];
        if (s->active && !is_done(w, s)) {
            (void)uw_node_after_step(&s->node, &s->own.progress);
            left++;
        }
    }
    return left;
}

static void count(const struct world *w, struct uw_bench_link_window *c)
{
    uint64_t sent[UW_NODE_SAYS_N] = {0};
    for (uint32_t i = 0; i < w->b->nodes; i++) {
        for (size_t k = 0; k < UW_NODE_SAYS_N; k++) {
            sent[k] += atomic_load(&w->stations[i].own.count.sent[k]);
        }
    }
    *c = (struct uw_bench_link_window){
        .data_frames = sent[UW_NODE_SAYS_DATA], .membership_frames = sent[UW_NODE_SAYS_MEMBERSHIP],
        .control_frames = sent[UW_NODE_SAYS_CONTROL], .air_frames = w->medium.messages_n,
        .air_s = (double)w->medium.busy_us * 1e-6};
}

/* Bytes of parameters that all nodes have received. */
static uint64_t received_bytes(const struct world *w)
{
    struct uw_node_counters c;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < w->b->nodes; i++) {
        (void)uw_node_status(&w->stations[i].node, w->now_us, NULL, 0, &c);
        sum += c.pulled_bytes;
    }
    return sum;
}

/* Bytes to receive: the model of each pull, or that of every node at all others. */
static double share_received(const struct world *w)
{
    double models = w->b->average ? (double)w->b->nodes * (w->b->nodes - 1u) : w->b->pulls;
    return (double)received_bytes(w) / (models * (double)w->b->bytes);
}

/* Count the chunks that were not received, in the chunk size of the radio's frames. */
static void count_chunks(const struct world *w, struct uw_bench_link_window *window)
{
    const struct uw_link_cost_config config = {.link = *w->b->radio, .nodes_n = w->b->nodes,
                                               .floats_n = (uint32_t)(w->b->bytes / sizeof(float)),
                                               .share = 1.0};
    struct uw_link_cost cost;
    uw_link_cost(&config, &cost);
    uint64_t models = (uint64_t)w->b->nodes * (w->b->nodes - 1u);
    uint64_t bytes = models * w->b->bytes - received_bytes(w), chunk = cost.chunk_n * sizeof(float);
    window->chunks = models * cost.chunks;
    window->missed = (bytes + chunk - 1u) / chunk;
}

static void show_progress(const struct world *w, uint64_t start_us)
{
    if (uw_progress_due(w->b->progress, uw_board_now_us())) {
        uw_progress_show(w->b->progress, "%.0f %% of the parameters have arrived in %.1f s of "
                         "virtual time", 100.0 * share_received(w),
                         (double)(w->now_us - start_us) * 1e-6);
    }
}

/* Check for a failure, a time-out or the end. */
static int look(struct world *w, uint64_t start_us, struct uw_error *err)
{
    uint64_t bytes = received_bytes(w);
    if (bytes != w->received_bytes || w->received_us == 0) {
        w->received_bytes = bytes;
        w->received_us = w->now_us;
    }
    show_progress(w, start_us);
    if (w->now_us - w->received_us >= idle_limit_us(w)) {
        return uw_error_set(err, UW_ERR_TIMEOUT,
                            "no parameter has arrived in the last %.0f s of virtual time",
                            (double)(w->now_us - w->received_us) * 1e-6);
    }
    return w->now_us - start_us < PULL_LIMIT_US
               ? UW_OK
               : uw_error_set(err, UW_ERR_TIMEOUT, "the pull does not end within a virtual day");
}

static int exchange(struct world *w, struct uw_bench_link_window *window, struct uw_error *err)
{
    struct uw_bench_link_window before;
    uint64_t start_us = w->now_us;
    count(w, &before);
    for (uint32_t ticks = 0; train(w) != 0; ticks++) {
        step_all(w);
        int rc = ticks % TELL_TICKS == 0 ? look(w, start_us, err) : UW_OK;
        if (rc < 0) {
            return rc;
        }
        for (uint32_t i = 0; i < w->b->nodes; i++) {
            struct uw_bench_node *n = &w->stations[i].own;
            if (atomic_load(&n->failed) < 0) {
                return uw_error_set(err, atomic_load(&n->failed), "node %u: %s", (unsigned)i,
                                    n->why);
            }
        }
    }
    count(w, window);
    window->received = share_received(w);
    if (w->b->average) {
        count_chunks(w, window);
    }
    uint64_t end_us = 0;
    for (uint32_t i = 0; i < w->b->nodes; i++) {
        uint64_t ended_us = atomic_load(&w->stations[i].own.ended_us);
        end_us = ended_us > end_us ? ended_us : end_us;
    }
    window->seconds = (double)(end_us - start_us) * 1e-6;
    window->data_frames -= before.data_frames;
    window->membership_frames -= before.membership_frames;
    window->control_frames -= before.control_frames;
    window->air_frames -= before.air_frames;
    window->air_s -= before.air_s;
    return UW_OK;
}

static int check(struct world *w, struct uw_bench_link_window *window, struct uw_error *err)
{
    struct uw_node_counters c;
    uint32_t cut = 0;
    for (uint32_t i = 0; i < w->b->nodes; i++) {
        (void)uw_node_status(&w->stations[i].node, w->now_us, NULL, 0, &c);
        cut += c.averages_cut;
    }
    window->exact = w->b->average && cut == 0;
    for (uint32_t i = 0; i < w->b->nodes; i++) {
        struct station *s = &w->stations[i];
        if (!s->active) {
            continue;
        }
        (void)uw_node_after_step(&s->node, &s->own.progress);   /* what came last */
        if (!(w->b->average
                  ? uw_bench_node_averaged(&s->own, w->b->nodes, window->exact, w->b->seed)
                  : uw_bench_node_mixed(&s->own, i, w->b->nodes, 0.5, w->b->seed))) {
            return uw_error_set(err, UW_ERR_CORRUPT, "node %u: a parameter is not the mean",
                                (unsigned)i);
        }
    }
    return UW_OK;
}

int uw_bench_link_radio(const struct uw_bench_link *b, struct uw_bench_link_window *window,
                        struct uw_error *err)
{
    struct world w = {.b = b};
    int rc = open_world(&w, err);
    rc = rc < 0 ? rc : meet(&w, err);
    rc = rc < 0 ? rc : exchange(&w, window, err);
    rc = rc < 0 ? rc : check(&w, window, err);
    rc = rc < 0 ? rc : uw_capture_file_check(&w.capture, err);
    close_world(&w);
    return rc;
}
