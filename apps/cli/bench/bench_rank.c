/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_rank.h"

#include "bench_rank_node.h"
#include "links/link_cost.h"

#include "uwasa/board.h"
#include "uwasa/collective.h"
#include "uwasa/link_tcp.h"
#include "uwasa/link_udp.h"
#include "uwasa/secure_stream.h"

#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define ROUND_LIMIT_US 60000000u
#define CONNECT_LIMIT_US 20000000u  /* and for each pair of ranks: */
#define CONNECT_PAIR_US 4000u
#define BARRIER_LIMIT_US 120000000u
#define UDP_MTU 1400u
#define SPIN_MAX_US 50u             /* a rank looks again and again before it sleeps ... */
#define WORTH_US 100u               /* ... where what it waits for mostly comes that soon */
#define CALIBRATE_N (256u * 1024u)
#define CALIBRATE_ROUNDS 20u
#define CALIBRATE_WINDOWS 4u
#define CLOSE 1.5                   /* what is predicted to take so much longer is tried as well */
#define CLOSE_S 0.005               /* in windows of about so long */
#define ROUNDS_MAX 100000u
#define WARM_ROUNDS 8u              /* of nodes: the first ones learn what the network costs */
#define MEET_PAUSE_NS 50000         /* between nodes, whose threads need the cores */

struct rank {
    struct uw_bench_meeting *m;
    uint32_t rank;
    struct uw_link_tcp tcp;
    struct uw_secure_stream tls;
    struct uw_link_udp udp;
    struct uw_link_loopback loopback;
    struct uw_link *link;
    struct uw_collective collective;
    uint16_t stations[UW_BENCH_RANKS_MAX];
    struct uw_stack_block block[4]; /* link, collective, vector, TLS */
    float *x;
    uint32_t x_n;
    uint64_t idle_us;               /* nothing happened since; 0: it does */
    uint32_t spin_us;
    bool crowded;                   /* more ranks than cores */
    bool serves;                    /* others may ask for what is lost: also while this one waits */
    struct uw_bench_rank_node node; /* with b.node only */
};

void uw_bench_fail(struct uw_bench_meeting *m, int rc, const char *text)
{
    int none = 0;
    if (atomic_compare_exchange_strong(&m->failed, &none, rc)) {
        strncpy(m->text, text, sizeof m->text - 1u);
    }
}

static int failed(const struct rank *r)
{
    return atomic_load(&r->m->failed);
}

static int fail(const struct rank *r, int rc, const char *text)
{
    uw_bench_fail(r->m, rc, text);
    return rc;
}

/* All ranks meet. Returns UW_OK, or what failed. */
static int meet(struct rank *r)
{
    struct uw_bench_meeting *m = r->m;
    uint32_t generation = atomic_load(&m->generation);
    uint64_t limit_us = uw_board_now_us() + BARRIER_LIMIT_US;
    if (atomic_fetch_add(&m->arrived, 1) + 1u == m->b.ranks) {
        atomic_store(&m->arrived, 0);
        atomic_fetch_add(&m->generation, 1);
    }
    for (uint32_t i = 0; atomic_load(&m->generation) == generation && failed(r) == 0; i++) {
        if (r->serves) {
            (void)uw_collective_step(&r->collective, uw_board_now_us());
        }
        if (m->b.node) {
            nanosleep(&(struct timespec){.tv_nsec = MEET_PAUSE_NS}, NULL);
        } else if (r->crowded || i % 64 == 0) {
            sched_yield();
        }
        if ((m->b.node || i % 1024 == 0) && uw_board_now_us() > limit_us) {
            return fail(r, UW_ERR_TIMEOUT, "a rank is missing");
        }
    }
    return failed(r);
}

static int take(struct rank *r, uint32_t block, size_t bytes)
{
    int rc = bytes == SIZE_MAX ? UW_ERR_INVALID : uw_board_memory_take(bytes, &r->block[block].at);
    r->block[block].bytes = rc == UW_OK ? bytes : 0;
    return rc < 0 ? fail(r, rc, "a rank has no memory, or its link does not accept the "
                                "sizes") : rc;
}

static int open_tls(struct rank *r)
{
    struct uw_secure_stream_config c = {.key = {1}, .identity = "bench",
                                       .entropy = uw_stack_entropy};
    c.memory_bytes = uw_secure_stream_bytes(&c);
    int rc = take(r, 3, c.memory_bytes);
    c.memory = r->block[3].at;
    return rc < 0 ? rc : uw_secure_stream_init(&r->tls, &c);
}

static int open_tcp(struct rank *r, struct uw_error *err)
{
    int rc = r->m->b.tls ? open_tls(r) : UW_OK;
    struct uw_link_tcp_config c = {.bind = "127.0.0.1:0",
                                   .stations_n = (uint16_t)(r->m->b.ranks + 2u),
                                   .strangers_n = UW_BENCH_RANKS_MAX,
                                   .guard = r->m->b.tls ? &r->tls.guard : NULL};
    if (rc < 0) {
        return rc;
    }
    c.memory_bytes = uw_link_tcp_bytes(&c);
    rc = take(r, 0, c.memory_bytes);
    c.memory = r->block[0].at;
    rc = rc < 0 ? rc : uw_link_tcp_init(&r->tcp, &c, err);
    r->link = &r->tcp.link;
    return rc < 0 ? rc : uw_link_tcp_local(&r->tcp, r->m->address[r->rank]);
}

static int open_udp(struct rank *r, struct uw_error *err)
{
    struct uw_link_udp_config c = {.bind = "127.0.0.1:0", .mtu_bytes = UDP_MTU,
                                   .stations_n = (uint16_t)(r->m->b.ranks + 2u),
                                   .socket_buffer_bytes = 4u << 20};
    c.memory_bytes = uw_link_udp_bytes(&c);
    int rc = take(r, 0, c.memory_bytes);
    c.memory = r->block[0].at;
    rc = rc < 0 ? rc : uw_link_udp_init(&r->udp, &c, err);
    r->link = &r->udp.link;
    return rc < 0 ? rc : uw_link_udp_local(&r->udp, r->m->address[r->rank]);
}

static int open_link(struct rank *r, struct uw_loopback_hub *hub)
{
    struct uw_error err = {.text = ""};
    int rc;
    switch (r->m->b.link) {
    case UW_BENCH_TCP: rc = open_tcp(r, &err); break;
    case UW_BENCH_UDP: rc = open_udp(r, &err); break;
    default:
        rc = uw_link_loopback_init(&r->loopback, hub, (uint16_t)r->rank);
        r->link = &r->loopback.link;
        snprintf(r->m->address[r->rank], UW_LINK_ADDRESS_BYTES, "%u", r->rank);
        break;
    }
    return rc < 0 ? fail(r, rc, err.text[0] != '\0' ? err.text : "a link could not be opened") : rc;
}

/* What was waited for is here: was it worth looking out for it? */
static void end_wait(struct rank *r, uint64_t now_us)
{
    if (r->idle_us != 0) {
        bool soon = now_us - r->idle_us < WORTH_US;
        r->spin_us = soon ? 2u * r->spin_us + 1u : r->spin_us / 2u;
        r->spin_us = r->spin_us < SPIN_MAX_US ? r->spin_us : SPIN_MAX_US;
        r->idle_us = 0;
    }
}

/* Look again at once, let others run, or sleep until something arrives or next_us. */
static void rest(struct rank *r, uint64_t now_us, uint64_t next_us)
{
    r->idle_us = r->idle_us != 0 ? r->idle_us : now_us;
    if (r->link->fd < 0 || now_us - r->idle_us < r->spin_us) {
        sched_yield();
        return;
    }
    uint64_t wait_us = next_us - now_us;
    struct pollfd fd = {.fd = r->link->fd, .events = POLLIN};
    (void)poll(&fd, 1, wait_us < 100000u ? (int)(wait_us / 1000u) + 1 : 100);
}

static uint64_t connect_until_us(const struct rank *r)
{
    uint64_t pairs = (uint64_t)r->m->b.ranks * (r->m->b.ranks - 1u) / 2u;
    return uw_board_now_us() + CONNECT_LIMIT_US + pairs * CONNECT_PAIR_US;
}

/* Send a byte to every rank, until all connections are open. */
static int connect_all(struct rank *r)
{
    uint64_t limit_us = connect_until_us(r);
    for (uint32_t i = 0; i < r->m->b.ranks; i++) {
        if (i == r->rank) {
            continue;
        }
        int rc = uw_link_resolve(r->link, r->m->address[i], &r->stations[i]);
        while (rc >= 0 && failed(r) == 0) {
            uint8_t byte = 0, in[16];
            uint16_t from;
            uint64_t now_us = uw_board_now_us();
            (void)uw_link_step(r->link, now_us);
            rc = uw_link_send(r->link, r->stations[i], &byte, 1);
            if (rc != UW_ERR_AGAIN || now_us > limit_us) {
                break;
            }
            while (uw_link_recv(r->link, &from, in, sizeof in) >= 0) {
            }
            sched_yield();
            rc = UW_OK;
        }
        if (rc < 0 || failed(r) != 0) {
            return fail(r, rc < 0 ? rc : UW_ERR_IO, "ranks could not reach each other");
        }
    }
    return UW_OK;
}

static int settle(struct rank *r)
{
    uint64_t limit_us = uw_board_now_us() + ROUND_LIMIT_US;
    while (!uw_collective_settled(&r->collective)) {
        uint64_t now_us = uw_board_now_us(), next_us = uw_collective_step(&r->collective, now_us);
        if (next_us > now_us) {
            rest(r, now_us, next_us);
        }
        if (now_us > limit_us || failed(r) != 0) {
            return fail(r, UW_ERR_TIMEOUT, "a round is not settled");
        }
    }
    return UW_OK;
}

static int one_round(struct rank *r, enum uw_allreduce_kind kind, uint32_t n)
{
    uint64_t now_us = uw_board_now_us(), limit_us = now_us + ROUND_LIMIT_US;
    int rc = settle(r);
    rc = rc < 0 ? rc : uw_collective_begin(&r->collective, kind, false, r->x, n, now_us);
    while (rc == UW_OK) {
        uint64_t next_us = uw_collective_step(&r->collective, now_us);
        now_us = uw_board_now_us();
        bool done = uw_collective_done(&r->collective);
        if (done || next_us <= now_us) {
            end_wait(r, now_us);
        } else {
            rest(r, now_us, next_us);
            now_us = uw_board_now_us();
        }
        if (done) {
            return UW_OK;
        }
        if (now_us > limit_us || failed(r) != 0) {
            rc = fail(r, UW_ERR_TIMEOUT, "a round does not end");
        }
    }
    return rc;
}

/* Small whole numbers, so that any order of adding gives the same sum. */
static float value(uint32_t rank, uint32_t i)
{
    return (float)((rank + 1u) * (i % 13u + 1u));
}

static int check(struct rank *r, enum uw_allreduce_kind kind, uint32_t n)
{
    uint32_t p = r->m->b.ranks;
    float whole = (float)(p * (p + 1u) / 2u), share = kind == UW_ALLREDUCE_SWEEP ? 1.0f / (float)p
                                                                                  : 1.0f;
    int rc = settle(r);
    for (uint32_t i = 0; i < n && rc == UW_OK; i++) {
        r->x[i] = value(r->rank, i);
    }
    rc = rc < 0 ? rc : one_round(r, kind, n);
    for (uint32_t i = 0; i < n && rc == UW_OK; i++) {
        float expected = whole * (float)(i % 13u + 1u) * share, off = r->x[i] - expected;
        if (!(off >= -1e-5f * expected && off <= 1e-5f * expected)) {
            rc = fail(r, UW_ERR_CORRUPT, "a sum is wrong");
        }
    }
    rc = rc < 0 ? rc : settle(r);
    if (rc == UW_OK) {
        memset(r->x, 0, (size_t)n * sizeof(float));
    }
    return rc;
}

/* All ranks meet; the longest of what they took. */
static int meet_slowest(struct rank *r, double took, double *slowest)
{
    r->m->elapsed[r->rank] = took;
    int rc = meet(r);
    *slowest = 0.0;
    for (uint32_t i = 0; i < r->m->b.ranks; i++) {
        *slowest = r->m->elapsed[i] > *slowest ? r->m->elapsed[i] : *slowest;
    }
    return rc < 0 ? rc : meet(r);
}

/* Rounds between two meetings; the slowest rank's time of one. */
static int window(struct rank *r, enum uw_allreduce_kind kind, uint32_t n, uint32_t rounds,
                  double *seconds)
{
    int rc = meet(r);
    uint64_t from_us = uw_board_now_us();
    for (uint32_t i = 0; i < rounds && rc == UW_OK; i++) {
        rc = one_round(r, kind, n);
    }
    rc = rc < 0 ? rc : meet_slowest(r, uw_seconds_since(from_us), seconds);
    *seconds /= rounds;
    return rc;
}

static uint64_t last_of(const atomic_uint_least64_t *ready_us, uint32_t ranks)
{
    uint64_t last_us = 0;
    for (uint32_t i = 0; i < ranks; i++) {
        uint64_t us = atomic_load(&ready_us[i]);
        last_us = us > last_us ? us : last_us;
    }
    return last_us;
}

/* The same of nodes' averages. An average begins when the last node is ready for it: before that,
 * nodes wait for each other's training. */
static int node_window(struct rank *r, uint32_t rounds, double *seconds, double *round_seconds)
{
    struct uw_bench_meeting *m = r->m;
    int rc = meet(r);
    uint64_t begin_us = uw_board_now_us(), average_us = 0;
    for (uint32_t i = 0; i < rounds && rc == UW_OK; i++) {
        atomic_uint_least64_t *ready_us = m->ready_us[i % 2u];
        uint64_t to_us = 0;
        rc = uw_bench_rank_node_round(&r->node, uw_board_now_us() + ROUND_LIMIT_US,
                                      &ready_us[r->rank], &to_us);
        uint64_t from_us = last_of(ready_us, m->b.ranks);
        average_us += to_us > from_us ? to_us - from_us : 0;
        rc = rc < 0 ? fail(r, rc, "a node's average failed") : UW_OK;
    }
    uint64_t took_us = uw_board_now_us() - begin_us;
    rc = rc < 0 ? rc : meet_slowest(r, (double)took_us * 1e-6, round_seconds);
    rc = rc < 0 ? rc : meet_slowest(r, (double)average_us * 1e-6, seconds);
    *seconds /= rounds;
    *round_seconds /= rounds;
    return rc;
}

/* The best of some windows, the first of which warms up. */
static int best_window(struct rank *r, enum uw_allreduce_kind kind, uint32_t n, uint32_t rounds,
                       double *best)
{
    double seconds;
    int rc = window(r, kind, n, 1, best);
    for (uint32_t i = 0; i < CALIBRATE_WINDOWS && rc == UW_OK; i++) {
        rc = window(r, kind, n, rounds, &seconds);
        *best = rc == UW_OK && seconds < *best ? seconds : *best;
    }
    return rc;
}

/* What a round would take if one of the costs were 1 and the others nothing. */
static double share_of(const struct uw_bench_meeting *m, enum uw_allreduce_kind kind, uint32_t n,
                       struct uw_network_cost unit, bool shared)
{
    double at[2 * UW_BENCH_RANKS_MAX];
    unit.shared = shared;
    return uw_allreduce_seconds(kind, m->b.ranks, n, &unit, at);
}

/* Latency from a round of one float; the time of a byte sent and of a byte added from rounds of a
 * large vector, of which doubling adds more than halving does: costs are linear in the three. */
static struct uw_network_cost fit(struct rank *r, double small, double halving, double doubling,
                                  uint32_t n)
{
    const struct uw_bench_meeting *m = r->m;
    const struct uw_network_cost latency = {.latency_s = 1.0}, byte = {.byte_s = 1.0},
                                 add = {.reduce_s = 1.0};
    struct uw_network_cost c = {.shared = r->crowded};
    double steps = share_of(m, UW_ALLREDUCE_DOUBLING, 1, latency, c.shared);
    c.latency_s = steps > 0.0 ? small / steps : 0.0;
    double h = halving - c.latency_s * share_of(m, UW_ALLREDUCE_HALVING, n, latency, c.shared);
    double d = doubling - c.latency_s * share_of(m, UW_ALLREDUCE_DOUBLING, n, latency, c.shared);
    double hb = share_of(m, UW_ALLREDUCE_HALVING, n, byte, c.shared);
    double ha = share_of(m, UW_ALLREDUCE_HALVING, n, add, c.shared);
    double db = share_of(m, UW_ALLREDUCE_DOUBLING, n, byte, c.shared);
    double da = share_of(m, UW_ALLREDUCE_DOUBLING, n, add, c.shared);
    double det = hb * da - db * ha, least = uw_add_time(r->x, n);
    c.reduce_s = det > 0.0 ? (d * hb - h * db) / det : 0.0;
    c.reduce_s = c.reduce_s > least ? c.reduce_s : least;   /* nothing adds in no time */
    c.byte_s = hb > 0.0 && h > ha * c.reduce_s ? (h - ha * c.reduce_s) / hb : 0.0;
    return c;
}

/* Of the algorithms whose predictions come close to the best, the one that is fastest here. */
static int try_close(struct rank *r)
{
    struct uw_bench_meeting *m = r->m;
    const double limit = CLOSE * m->result.predicted_seconds;
    enum uw_allreduce_kind kind = m->b.kind;
    double at[2 * UW_BENCH_RANKS_MAX], fastest = 0.0, predicted = 0.0;
    for (enum uw_allreduce_kind k = 0; k < UW_ALLREDUCE_SWEEP; k++) {
        double takes = uw_allreduce_seconds(k, m->b.ranks, m->b.n, &m->result.cost, at), seconds;
        if (takes > limit) {
            continue;
        }
        double rounds = takes > 0.0 ? CLOSE_S / takes : 1.0;
        int rc = best_window(r, k, m->b.n, rounds < CALIBRATE_ROUNDS ? (uint32_t)rounds + 1u
                                                                     : CALIBRATE_ROUNDS, &seconds);
        if (rc < 0) {
            return rc;
        }
        if (fastest == 0.0 || seconds < fastest) {
            fastest = seconds;
            kind = k;
            predicted = takes;
        }
    }
    if (r->rank == 0 && fastest > 0.0) {
        m->b.kind = kind;
        m->result.predicted_seconds = predicted;
    }
    return UW_OK;
}

static int calibrate(struct rank *r)
{
    struct uw_bench_meeting *m = r->m;
    double small = 0.0, halving = 0.0, doubling = 0.0, at[2 * UW_BENCH_RANKS_MAX];
    uint32_t n = r->x_n < CALIBRATE_N ? r->x_n : CALIBRATE_N;
    int rc = best_window(r, UW_ALLREDUCE_DOUBLING, 1, CALIBRATE_ROUNDS, &small);
    rc = rc < 0 ? rc : best_window(r, UW_ALLREDUCE_HALVING, n, CALIBRATE_ROUNDS / 5u, &halving);
    rc = rc < 0 ? rc : best_window(r, UW_ALLREDUCE_DOUBLING, n, CALIBRATE_ROUNDS / 5u, &doubling);
    if (rc < 0 || r->rank != 0) {
        return rc;
    }
    m->result.cost = fit(r, small, halving, doubling, n);
    if (m->b.automatic) {
        m->b.kind = uw_allreduce_choose(m->b.ranks, m->b.n, true, &m->result.cost, at, NULL);
    }
    m->result.predicted_seconds = uw_allreduce_seconds(m->b.kind, m->b.ranks, m->b.n,
                                                       &m->result.cost, at);
    return UW_OK;
}

/* Nodes of all ranks, which know each other. */
static int open_nodes(struct rank *r)
{
    struct uw_bench_meeting *m = r->m;
    struct uw_error err = {.text = ""};
    int rc = UW_OK;
    for (uint32_t first = 0; first < 2u && rc == UW_OK; first++) {  /* rank 0 before the others */
        if ((r->rank == 0) == (first == 0)) {
            rc = uw_bench_rank_node_open(&r->node, &m->b, r->rank,
                                         r->rank != 0 ? m->node_address : NULL, m->address[r->rank],
                                         &err);
            rc = rc < 0 ? fail(r, rc, err.text) : UW_OK;
        }
        if (r->rank == 0 && first == 0) {
            memcpy(m->node_address, m->address[0], sizeof m->node_address);
        }
        rc = rc < 0 ? rc : meet(r);
    }
    uint64_t limit_us = connect_until_us(r);
    while (rc == UW_OK && !uw_bench_rank_node_sees(&r->node, m->b.ranks)) {
        uw_node_net_wait(&r->node.net);
        rc = failed(r);
        if (rc == UW_OK && uw_board_now_us() > limit_us) {
            rc = fail(r, UW_ERR_TIMEOUT, "the nodes do not find each other");
        }
    }
    double seconds, round_seconds;
    rc = rc < 0 ? rc : meet(r);
    return rc < 0 ? rc : node_window(r, WARM_ROUNDS, &seconds, &round_seconds);
}

static int measure(struct rank *r)
{
    struct uw_bench_meeting *m = r->m;
    double seconds = 0.0, node_seconds = 0.0, round_seconds = 0.0;
    int rc = check(r, m->b.automatic ? UW_ALLREDUCE_HALVING : m->b.kind, m->b.n);
    rc = rc < 0 ? rc : calibrate(r);
    rc = rc < 0 ? rc : meet(r);
    rc = rc < 0 || !m->b.automatic ? rc : try_close(r);
    rc = rc < 0 ? rc : meet(r);
    rc = rc < 0 ? rc : window(r, m->b.kind, m->b.n, 1, &seconds);
    rc = rc < 0 ? rc : window(r, m->b.kind, m->b.n, 2, &seconds);
    if (rc == UW_OK && r->rank == 0) {
        double rounds = seconds > 0.0 ? m->b.seconds / seconds : ROUNDS_MAX;
        m->result.rounds = rounds < 1.0 ? 1 : rounds < ROUNDS_MAX ? (uint32_t)rounds : ROUNDS_MAX;
    }
    rc = rc < 0 ? rc : meet(r);
    rc = rc < 0 || !m->b.node ? rc : open_nodes(r);
    for (uint32_t i = 0; i < m->b.windows && rc == UW_OK; i++) {
        rc = window(r, m->b.kind, m->b.n, m->result.rounds, &seconds);
        rc = rc < 0 || !m->b.node ? rc : node_window(r, m->result.rounds, &node_seconds,
                                                     &round_seconds);
        if (r->rank == 0) {
            m->result.seconds[i] = seconds;
            m->result.node_seconds[i] = node_seconds;
            m->result.node_round_seconds[i] = round_seconds;
        }
    }
    if (rc == UW_OK && m->b.node && !uw_bench_rank_node_is_right(&r->node, m->b.ranks)) {
        rc = fail(r, UW_ERR_CORRUPT, "a node's average is wrong");
    }
    rc = rc < 0 ? rc : check(r, m->b.kind, m->b.n);
    rc = rc < 0 ? rc : settle(r);
    return rc < 0 ? rc : meet(r);
}

static int set_up(struct rank *r, struct uw_loopback_hub *hub)
{
    const struct uw_bench_allreduce *b = &r->m->b;
    int rc = open_link(r, hub);
    rc = rc < 0 ? rc : meet(r);
    rc = rc < 0 ? rc : connect_all(r);
    rc = rc < 0 ? rc : meet(r);
    if (rc < 0) {
        return rc;
    }
    r->x_n = b->n < CALIBRATE_N ? CALIBRATE_N : b->n;
    struct uw_collective_config c = {
        .link = r->link, .stations = r->stations, .ranks = b->ranks, .rank = r->rank, .run = 1,
        .size_n = r->x_n, .chunk_n = b->chunk_n, .segment_n = b->segment_n, .rtt_us = 200};
    c.memory_bytes = uw_collective_bytes(&c);
    rc = take(r, 1, c.memory_bytes);
    rc = rc < 0 ? rc : take(r, 2, (size_t)r->x_n * sizeof(float));
    c.memory = r->block[1].at;
    r->x = r->block[2].at;
    if (rc == UW_OK && uw_collective_init(&r->collective, &c) < 0) {
        rc = fail(r, UW_ERR_NOMEM, "a rank found no memory");
    }
    r->serves = rc == UW_OK && !(r->link->reliable && uw_link_defers(r->link));
    return rc;
}

void uw_bench_rank(struct uw_bench_meeting *m, uint32_t rank, struct uw_loopback_hub *hub)
{
    struct rank r = {.m = m, .rank = rank, .crowded = m->b.ranks > uw_board_cores()};
    if (set_up(&r, hub) == UW_OK) {
        (void)measure(&r);
    }
    uw_bench_rank_node_close(&r.node);
    uw_link_deinit(r.link);
    uw_secure_stream_deinit(&r.tls);
    for (size_t i = 0; i < sizeof r.block / sizeof r.block[0]; i++) {
        uw_board_memory_release(r.block[i].at, r.block[i].bytes);
    }
}
