/* SPDX-License-Identifier: Apache-2.0
 *
 * A small world on virtual time: nodes with a secure channel, each over its own emulated link,
 * all on one loopback hub, and spare endpoints for whoever means harm. Entropy is seeded, so a
 * world repeats exactly. */
#ifndef UWASA_TEST_SECURE_WORLD_H
#define UWASA_TEST_SECURE_WORLD_H

#include "test_support.h"

#include "uwasa/link_emulated.h"
#include "uwasa/link_loopback.h"
#include "uwasa/secure.h"
#ifdef UW_TEST_SECURE_BOARD
#include "uwasa/secure_memory.h"
#endif

#define WORLD_NODES 8u
#define WORLD_RAW 40u           /* endpoints WORLD_NODES .. without a channel */
#define WORLD_MTU 1232u
#define WORLD_MESSAGE 100u
#define WORLD_TLS_BYTES (256u * 1024u)  /* of all nodes, where they are built as boards */

struct world;

struct node {
    struct world *world;
    uint16_t self;
    struct uw_link_loopback loopback;
    struct uw_link_emulated emulated;
    struct uw_secure_dtls dtls;
    void *memory[2];
    struct uw_rng entropy;
    uint32_t events[UW_SECURE_PATH_WIDE + 1];   /* by kind */
    char last_text[UW_SECURE_PATH_WIDE + 1][UW_SECURE_TEXT_BYTES];
    uint32_t received[WORLD_NODES + WORLD_RAW];     /* good messages by station */
};

struct world {
    uint64_t now_us, seed;
    struct uw_loopback_hub hub;
    void *memory, *tls;
    struct node node[WORLD_NODES];
    struct uw_link_loopback raw[WORLD_RAW];
};

static inline int world_entropy(void *user, uint8_t *out, size_t bytes)
{
    struct node *n = user;
    for (size_t i = 0; i < bytes; i++) {
        out[i] = (uint8_t)uw_rng_u32(&n->entropy);
    }
    return 0;
}

static inline void world_event(void *user, const struct uw_secure_event *event)
{
    struct node *n = user;
    n->events[event->kind]++;
    snprintf(n->last_text[event->kind], UW_SECURE_TEXT_BYTES, "%s", event->text);
}

static inline void world_open(struct world *w, uint64_t seed)
{
    struct uw_loopback_config config = {.endpoints_n = WORLD_NODES + WORLD_RAW,
                                        .mtu_bytes = WORLD_MTU, .queue_n = 64};
    memset(w, 0, sizeof *w);
#ifdef UW_TEST_SECURE_BOARD
    w->tls = malloc(WORLD_TLS_BYTES);
    assert_non_null(w->tls);
    uw_secure_memory_init(w->tls, WORLD_TLS_BYTES);
#endif
    w->seed = seed;
    w->now_us = 1000000;
    config.memory_bytes = uw_loopback_hub_bytes(&config);
    config.memory = w->memory = malloc(config.memory_bytes);
    assert_non_null(w->memory);
    assert_int_equal(uw_loopback_hub_init(&w->hub, &config), UW_OK);
    for (uint16_t i = 0; i < WORLD_RAW; i++) {
        assert_int_equal(
            uw_link_loopback_init(&w->raw[i], &w->hub, (uint16_t)(WORLD_NODES + i)), UW_OK);
    }
}

/* What a node may ask for; zero: key 7, run "fault", defaults. */
struct node_config {
    uint8_t key;
    struct uw_secure_keys *keys;    /* instead of key */
    const char *identity;
    uint16_t sessions_n, handshakes_n;
    uint32_t mtu_bytes;         /* below the channel */
    const uint16_t *suites;
    bool bulk;
    const struct uw_secure_paths *paths;
    struct uw_impairment send;
};

static inline struct node *node_open(struct world *w, uint16_t i, const struct node_config *c)
{
    struct node *n = &w->node[i];
    memset(n, 0, sizeof *n);
    n->world = w;
    n->self = i;
    uw_rng_seed(&n->entropy, uw_rng_mix(uw_rng_mix(w->seed, w->now_us), i));
    assert_int_equal(uw_link_loopback_init(&n->loopback, &w->hub, i), UW_OK);
    struct uw_link_emulated_config e = {.lower = &n->loopback.link, .send = c->send,
                                        .mtu_bytes = c->mtu_bytes, .queue_n = 256,
                                        .seed = uw_rng_mix(w->seed, i)};
    e.memory_bytes = uw_link_emulated_bytes(&e);
    e.memory = n->memory[0] = malloc(e.memory_bytes);
    assert_int_equal(uw_link_emulated_init(&n->emulated, &e), UW_OK);
    struct uw_secure_dtls_config d = {.lower = &n->emulated.link,
                                      .keys = c->keys,
                                      .identity = c->identity != NULL ? c->identity : "fault",
                                      .sessions_n = c->sessions_n,
                                      .handshakes_n = c->handshakes_n,
                                      .suites = c->suites,
                                      .bulk = c->bulk,
                                      .paths = c->paths,
                                      .entropy = world_entropy,
                                      .event = world_event,
                                      .user = n};
    memset(d.key, c->key != 0 ? c->key : 7, sizeof d.key);
    d.memory_bytes = uw_secure_dtls_bytes(&d);
    d.memory = n->memory[1] = malloc(d.memory_bytes);
    assert_int_equal(uw_secure_dtls_init(&n->dtls, &d), UW_OK);
    uw_link_step(&n->dtls.link, w->now_us);
    return n;
}

/* Gone without a word, as after SIGKILL. */
static inline void node_kill(struct node *n)
{
    if (n->world == NULL) {
        return;
    }
    uw_link_emulated_cut(&n->emulated, UW_LINK_STATION_BROADCAST, UW_EMULATED_BOTH);
    uw_link_deinit(&n->dtls.link);
    uw_link_deinit(&n->emulated.link);
    uw_link_deinit(&n->loopback.link);
    free(n->memory[0]);
    free(n->memory[1]);
    memset(n, 0, sizeof *n);
}

static inline void world_close(struct world *w)
{
    for (uint16_t i = 0; i < WORLD_NODES; i++) {
        node_kill(&w->node[i]);
    }
    for (uint16_t i = 0; i < WORLD_RAW; i++) {
        uw_link_deinit(&w->raw[i].link);
    }
    free(w->memory);
    free(w->tls);
}

/* Take what has arrived; every message must be one that node_say() made. */
static inline void node_listen(struct node *n)
{
    uint8_t buf[WORLD_MTU];
    uint16_t from;
    int rc;
    while ((rc = uw_link_recv(&n->dtls.link, &from, buf, sizeof buf)) >= 0) {
        assert_int_equal(rc, WORLD_MESSAGE);
        for (uint32_t i = 1; i < WORLD_MESSAGE; i++) {
            assert_int_equal(buf[i], (uint8_t)(buf[0] + i * 3u));
        }
        n->received[from]++;
    }
    assert_int_equal(rc, UW_ERR_AGAIN);
}

static inline int node_say(struct node *n, uint16_t to, uint8_t mark)
{
    uint8_t buf[WORLD_MESSAGE];
    for (uint32_t i = 0; i < WORLD_MESSAGE; i++) {
        buf[i] = (uint8_t)(mark + i * 3u);
    }
    return uw_link_send(&n->dtls.link, to, buf, sizeof buf);
}

/* Let time pass in steps of 2 ms for every node. */
static inline void world_run(struct world *w, uint64_t us)
{
    for (uint64_t end = w->now_us + us; w->now_us < end;) {
        w->now_us += 2000;
        for (uint16_t i = 0; i < WORLD_NODES; i++) {
            if (w->node[i].world != NULL) {
                uw_link_step(&w->node[i].dtls.link, w->now_us);
                node_listen(&w->node[i]);
            }
        }
    }
}

/* Say one thing every 10 ms until it is accepted; the time it took, or UINT64_MAX. */
static inline uint64_t world_connect(struct world *w, struct node *n, uint16_t to, uint64_t max_us)
{
    for (uint64_t start = w->now_us; w->now_us - start <= max_us; world_run(w, 10000)) {
        if (node_say(n, to, 1) == UW_OK) {
            return w->now_us - start;
        }
    }
    return UINT64_MAX;
}

/* A message each way must arrive, within tries that allow for loss. */
static inline void expect_talk(struct world *w, struct node *a, struct node *b)
{
    uint32_t heard[2] = {a->received[b->self], b->received[a->self]};
    for (int i = 0; i < 200; i++) {
        if (a->received[b->self] > heard[0] && b->received[a->self] > heard[1]) {
            return;
        }
        (void)node_say(a, b->self, (uint8_t)i);
        (void)node_say(b, a->self, (uint8_t)i);
        world_run(w, 20000);
    }
    fail_msg("no talk between %u and %u, seed %llu", a->self, b->self,
             (unsigned long long)w->seed);
}

#endif
