/* SPDX-License-Identifier: Apache-2.0 */
#define _XOPEN_SOURCE 700 /* posix_openpt */
#include "bench_link.h"
#include "base/progress.h"
#include "node/node_net.h"

#include "uwasa/board.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define MEET_US 60000000u
#define PEERS 4u
#define SILENCE_US 60000000u        /* without a chunk for so long, the link is broken */
#define BYTE_BITS 10u
#define LOOK_NS 200000
#define BURST_US 5000u              /* idle time that may be caught up */
#define HELD_BYTES 4096u

/* ---- a serial cable ---- */

/* One direction. */
struct lane {
    uint8_t held[HELD_BYTES];       /* read and not written yet */
    size_t held_n;
    uint64_t until_us;              /* the line is busy with what was read */
};

/* Two pseudo terminals, and a thread that moves bytes between them at a line's rate, in both
 * directions at once, ten bits per byte. */
struct cable {
    int ends[2];                    /* masters of the terminals; -1: none */
    int lines[2];                   /* the terminals, kept open; -1: none */
    char names[2][64];
    uint32_t baud;
    pthread_t thread;
    bool opened, running;
    atomic_bool quit;
};

/* Read as much as the rate allows, write as much as the other side accepts. */
static void carry(struct lane *l, int from, int to, uint32_t baud, uint64_t now_us)
{
    uint64_t least_us = now_us > BURST_US ? now_us - BURST_US : 0;
    l->until_us = l->until_us > least_us ? l->until_us : least_us;
    if (l->held_n == 0 && l->until_us < now_us) {
        uint64_t most = (now_us - l->until_us) * baud / (BYTE_BITS * UINT64_C(1000000));
        size_t n_most = most < HELD_BYTES ? (size_t)most : HELD_BYTES;
        ssize_t n = most > 0 ? read(from, l->held, n_most) : 0;
        l->held_n = n > 0 ? (size_t)n : 0;
        l->until_us += l->held_n * BYTE_BITS * UINT64_C(1000000) / baud;
    }
    ssize_t n = l->held_n > 0 ? write(to, l->held, l->held_n) : 0;
    if (n > 0) {
        l->held_n -= (size_t)n;
        memmove(l->held, l->held + n, l->held_n);
    }
}

static void *cable_thread(void *arg)
{
    struct cable *c = arg;
    struct lane lanes[2] = {{.held_n = 0}, {.held_n = 0}};
    while (!atomic_load(&c->quit)) {
        uint64_t now_us = uw_board_now_us();
        carry(&lanes[0], c->ends[0], c->ends[1], c->baud, now_us);
        carry(&lanes[1], c->ends[1], c->ends[0], c->baud, now_us);
        nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
    }
    return NULL;
}

/* Open a terminal without echo, and its master. */
static bool open_terminal(struct cable *c, int i)
{
    struct termios t;
    c->ends[i] = posix_openpt(O_RDWR | O_NOCTTY);
    if (c->ends[i] < 0 || grantpt(c->ends[i]) != 0 || unlockpt(c->ends[i]) != 0 ||
        fcntl(c->ends[i], F_SETFL, O_NONBLOCK) != 0) {
        return false;
    }
    const char *name = ptsname(c->ends[i]);
    if (name == NULL || strlen(name) >= sizeof c->names[i]) {
        return false;
    }
    snprintf(c->names[i], sizeof c->names[i], "%s", name);
    c->lines[i] = open(name, O_RDWR | O_NOCTTY);
    if (c->lines[i] < 0 || tcgetattr(c->lines[i], &t) != 0) {
        return false;
    }
    t.c_iflag &= ~(tcflag_t)(BRKINT | ICRNL | INLCR | IGNCR | ISTRIP | IXON);
    t.c_oflag &= ~(tcflag_t)OPOST;
    t.c_lflag &= ~(tcflag_t)(ECHO | ECHONL | ICANON | ISIG | IEXTEN);
    return tcsetattr(c->lines[i], TCSANOW, &t) == 0;
}

static int cable_open(struct cable *c, uint32_t baud, struct uw_error *err)
{
    *c = (struct cable){.ends = {-1, -1}, .lines = {-1, -1}, .baud = baud,
                                 .opened = true};
    if (!open_terminal(c, 0) || !open_terminal(c, 1)) {
        return uw_error_set(err, UW_ERR_IO, "no pseudo terminal can be opened");
    }
    if (pthread_create(&c->thread, NULL, cable_thread, c) != 0) {
        return uw_error_set(err, UW_ERR_IO, "the system refused another thread");
    }
    c->running = true;
    return UW_OK;
}

static void cable_close(struct cable *c)
{
    if (!c->opened) {
        return;
    }
    if (c->running) {
        atomic_store(&c->quit, true);
        pthread_join(c->thread, NULL);
    }
    for (int i = 0; i < 2; i++) {
        if (c->lines[i] >= 0) {
            close(c->lines[i]);
        }
        if (c->ends[i] >= 0) {
            close(c->ends[i]);
        }
    }
    c->opened = c->running = false;
}

/* ---- two nodes ---- */

/* Node 0 serves its parameters, node 1 pulls them. */
struct end {
    struct uw_bench_node own;
    struct uw_node_net net;
    char address[UW_LINK_ADDRESS_BYTES];
    const char *seeds[1];
};

struct pair {
    const struct uw_bench_link *b;
    uint8_t key[UW_KEY_BYTES];
    struct cable cable;
    struct end ends[2];
};

static struct uw_link *count_over(void *arg, struct uw_link *top)
{
    return uw_bench_count_init(arg, top);
}

static int open_end(struct pair *p, uint32_t i, struct uw_error *err)
{
    const struct uw_bench_link *b = p->b;
    struct end *e = &p->ends[i];
    enum uw_stack_carrier carrier = b->carrier;
    const struct uw_impairment bad = {
        .loss = (float)b->loss, .delay_us = (uint64_t)(b->latency_s * 1e6),
        .rate_bits_per_s = carrier == UW_STACK_SERIAL ? 0 : b->rate_bits_per_s};
    const struct uw_stack_config stack = {
        .carrier = carrier, .plain = b->clear, .listen = "127.0.0.1:0",
        .device = p->cable.names[i], .baud = (uint32_t)b->rate_bits_per_s, .run = "bench",
        .key = p->key, .mtu_bytes = b->mtu_bytes, .together = true,
        .suites = b->suites, .bulk = b->bytes >= UW_STACK_BULK_BYTES, .peers_n = PEERS, .bad = &bad,
        .bad_seed = b->seed + i, .over = count_over, .over_arg = &e->own.count,
        .pcap = i == 1 ? b->pcap : NULL};
    int rc = uw_bench_node_open(&e->own, i, (uint32_t)(b->bytes / sizeof(float)), i == 1, NULL,
                                NULL, b->seed);
    if (rc < 0) {
        return uw_error_set(err, rc, "no memory for %lu bytes of parameters, twice each",
                            (unsigned long)b->bytes);
    }
    struct uw_node_config c = e->own.config;
    e->seeds[0] = carrier == UW_STACK_SERIAL ? "peer" : p->ends[0].address;
    c.seeds = e->seeds;
    c.seeds_n = i;
    c.pull_silence_us = SILENCE_US;
    rc = uw_node_net_open(&e->net, &stack, &c, false, err);
    rc = rc < 0 ? rc : uw_stack_local(&e->net.stack, e->address);
    return rc < 0 ? rc : uw_bench_node_start(&e->own, &e->net.node);
}

static int open_pair(struct pair *p, struct uw_error *err)
{
    int rc = uw_board_entropy(p->key, sizeof p->key);
    if (rc == UW_OK && p->b->carrier == UW_STACK_SERIAL) {
        rc = cable_open(&p->cable, (uint32_t)p->b->rate_bits_per_s, err);
    }
    for (uint32_t i = 0; rc == UW_OK && i < 2u; i++) {
        rc = open_end(p, i, err);
    }
    for (uint32_t i = 0; rc == UW_OK && i < 2u; i++) {
        rc = uw_node_net_start(&p->ends[i].net, err);
    }
    return rc;
}

static void close_pair(struct pair *p)
{
    for (uint32_t i = 2; i-- > 0;) {
        uw_node_net_close(&p->ends[i].net);
        uw_bench_node_close(&p->ends[i].own);
    }
    cable_close(&p->cable);
    uw_key_wipe(p->key, sizeof p->key);
}

/* Wait until both nodes know each other, and the puller knows the other's snapshot. */
static int wait_until_met(struct pair *p, struct uw_error *err)
{
    const struct uw_node_member *rows;
    struct uw_node_counters counters;
    uint64_t until_us = uw_board_now_us() + MEET_US;
    for (uint32_t i = 0; i < 2u;) {
        uint32_t n = uw_node_net_members(&p->ends[i].net, &rows, &counters);
        if (uw_bench_node_sees(rows, n, 2)) {
            i++;
            continue;
        }
        if (uw_board_now_us() >= until_us) {
            return uw_error_set(err, UW_ERR_TIMEOUT, "the nodes do not find each other in %.0f s",
                                MEET_US * 1e-6);
        }
        uw_node_net_wait(&p->ends[i].net);
    }
    return UW_OK;
}

static void count(const struct pair *p, uint64_t sent[UW_NODE_SAYS_N])
{
    for (size_t k = 0; k < UW_NODE_SAYS_N; k++) {
        sent[k] = atomic_load(&p->ends[0].own.count.sent[k]) +
                  atomic_load(&p->ends[1].own.count.sent[k]);
    }
}

static void show_progress(struct pair *p, uint32_t i)
{
    struct uw_node_counters c;
    if (uw_progress_due(p->b->progress, uw_board_now_us())) {
        (void)uw_node_net_members(&p->ends[1].net, NULL, &c);
        double done = (double)c.pulled_bytes / (double)p->b->bytes - i;
        uw_progress_show(p->b->progress, "pull %u of %u: %.0f %% of the parameters have arrived",
                         (unsigned)i + 1u, (unsigned)p->b->windows,
                         100.0 * fmin(fmax(done, 0.0), 1.0));
    }
}

static int pull(struct pair *p, uint32_t i, struct uw_bench_link_window *window,
                struct uw_error *err)
{
    struct end *e = &p->ends[1];
    uint64_t before[UW_NODE_SAYS_N], after[UW_NODE_SAYS_N];
    atomic_store(&e->own.started_us, 0);
    atomic_store(&e->own.ended_us, 0);
    count(p, before);
    while (atomic_load(&e->own.ended_us) == 0) {
        int rc = uw_node_after_step(&e->net.node, &e->own.progress);
        rc = rc < 0 ? rc : atomic_load(&e->own.failed);
        if (rc < 0) {
            return uw_error_set(err, rc, "%s", e->own.why);
        }
        if (uw_node_asks(&e->net.node)) {
            uw_node_net_wake(&e->net);
        }
        uw_node_net_wait(&e->net);
        show_progress(p, i);
    }
    count(p, after);
    *window = (struct uw_bench_link_window){
        .seconds = (double)(atomic_load(&e->own.ended_us) - atomic_load(&e->own.started_us)) * 1e-6,
        .data_frames = after[UW_NODE_SAYS_DATA] - before[UW_NODE_SAYS_DATA],
        .membership_frames = after[UW_NODE_SAYS_MEMBERSHIP] - before[UW_NODE_SAYS_MEMBERSHIP],
        .control_frames = after[UW_NODE_SAYS_CONTROL] - before[UW_NODE_SAYS_CONTROL]};
    return UW_OK;
}

static int check(struct pair *p, struct uw_error *err)
{
    struct end *e = &p->ends[1];
    uw_node_net_stop(&e->net);
    (void)uw_node_after_step(&e->net.node, &e->own.progress);   /* mix what arrived last */
    double share = 1.0 - pow(0.5, (double)p->b->windows);
    return uw_bench_node_mixed(&e->own, 1, 2, share, p->b->seed)
               ? UW_OK
               : uw_error_set(err, UW_ERR_CORRUPT, "a parameter is not the mean of both nodes'");
}

/* The puller's network thread has ended. */
static uint16_t suite_of(const struct pair *p)
{
    uint16_t suite = p->ends[1].net.stack.tls.suite;
    for (uint16_t i = 0; i < PEERS && suite == 0; i++) {
        suite = uw_secure_dtls_suite(&p->ends[1].net.stack.secure, i);
    }
    return suite;
}

int uw_bench_link_line(const struct uw_bench_link *b, struct uw_bench_link_window *windows,
                       struct uw_error *err)
{
    struct pair *p = calloc(1, sizeof *p);
    if (p == NULL) {
        return uw_error_set(err, UW_ERR_NOMEM, "no memory for two nodes");
    }
    p->b = b;
    int rc = open_pair(p, err);
    rc = rc < 0 ? rc : wait_until_met(p, err);
    for (uint32_t i = 0; rc == UW_OK && i < b->windows; i++) {
        rc = i == 0 ? rc : uw_bench_node_renew(&p->ends[0].own, &p->ends[0].net.node);
        rc = rc < 0 ? rc : pull(p, i, &windows[i], err);
    }
    rc = rc < 0 ? rc : check(p, err);
    for (uint32_t i = 0; rc == UW_OK && i < b->windows; i++) {
        windows[i].suite = suite_of(p);
    }
    rc = rc < 0 ? rc : uw_capture_file_check(&p->ends[1].net.stack.capture, err);
    close_pair(p);
    free(p);
    return rc;
}
