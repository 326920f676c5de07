/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_link.h - measure how long a node takes to pull another's parameters over a link
 *
 * The nodes run the library's code (uwasa/node.h). Over UDP, TCP and a serial line two nodes run in
 * real time, each in the network thread of `uwasa node`, over the same links. Over a radio the
 * nodes run on a virtual clock and share one medium; the same seed gives the same result. A radio
 * has the stack of a board: secure frames over link_frame, with its duty cycle. The result is
 * checked: every parameter is the mean of the puller's and one other node's, or of all.
 *
 * Units      bytes; seconds where a name ends in _s
 * Memory     the board's, released before return
 * Blocking   until measured      Context  main thread
 */
#ifndef UWASA_CLI_BENCH_LINK_H
#define UWASA_CLI_BENCH_LINK_H

#include "links/link_stack.h"

#include "uwasa/node.h"
#include "uwasa/node_says.h"
#include "uwasa/radio_profile.h"
#include "uwasa/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct uw_progress;

#define UW_BENCH_LINK_NODES_MAX 32u
#define UW_BENCH_LINK_WINDOWS_MAX 101u

struct uw_bench_link {
    const char *link;               /* "udp", "tcp", "serial" or a radio's name */
    enum uw_stack_carrier carrier;  /* of udp, tcp, serial; unused with a radio */
    const struct uw_radio_profile *radio;   /* NULL: no radio; frames and shared are set */
    uint64_t bytes;                 /* of parameters, a multiple of 4 */
    uint32_t nodes, pulls;          /* radio: nodes on the air; how many of them pull at once */
    bool code;                      /* radio: pulls ask for chunks in the lossless code */
    bool average;                   /* radio: all average by broadcast instead of pulling */
    uint32_t windows;               /* udp, tcp, serial: consecutive pulls */
    uint32_t mtu_bytes;             /* 0: the default of `uwasa node` */
    double loss, latency_s;
    uint64_t rate_bits_per_s;       /* 0: not limited; must not be 0 for a serial line; ignored
                                       for a radio */
    bool clear;                     /* tcp: without TLS */
    const uint16_t *suites;         /* of DTLS or TLS, ended by 0; NULL: those of `uwasa node` */
    uint64_t seed;
    struct uw_progress *progress;   /* for live output */
    const char *pcap;               /* file to capture what the puller (radio: node 0) sends and
                                       receives, encrypted as on the link; NULL: none */
};

/* The cost of one window; with a radio of all pulls or of the average. Frames are messages that
 * nodes handed to the link. */
struct uw_bench_link_window {
    double seconds;                 /* from the first start to the last end */
    uint64_t data_frames;           /* parameters */
    uint64_t membership_frames;     /* hellos, pings, their answers, goodbyes */
    uint64_t control_frames;        /* all others: requests for chunks, refusals */
    uint64_t air_frames;            /* radio: all frames on the air, with joins */
    uint16_t suite;                 /* negotiated by DTLS or TLS, IANA's number; else 0 */
    bool exact;                     /* average: every node received everything */
    double received;                /* average: share of the others' parameters received */
    uint64_t chunks, missed;        /* average: chunks to receive, and those lost, of all nodes
                                       together */
    double air_s;                   /* radio: time that the medium was busy */
};

/* Measure. Fills windows[0 .. b->windows - 1], with a radio windows[0].
 * Returns UW_OK, UW_ERR_NOMEM, UW_ERR_IO, UW_ERR_TIMEOUT (the nodes do not find each other, a pull
 * ends early), UW_ERR_CORRUPT (a parameter has a wrong value), err filled. */
int uw_bench_link_radio(const struct uw_bench_link *b, struct uw_bench_link_window *window,
                        struct uw_error *err);
int uw_bench_link_line(const struct uw_bench_link *b, struct uw_bench_link_window *windows,
                       struct uw_error *err);

/* ---- bench_link_node.c: a node with a vector instead of a model; counts what it sends ----
 *
 * Fields that a callback writes are atomic: the thread that steps the node calls it. */

/* A link that passes messages to a lower link and counts what is sent. */
struct uw_bench_count {
    struct uw_link link;
    struct uw_link_ops ops;         /* the entries that the lower link has */
    struct uw_link *lower;
    atomic_uint_least64_t sent[UW_NODE_SAYS_N];
};

/* Set it up over lower, which is borrowed. Returns c->link. */
struct uw_link *uw_bench_count_init(struct uw_bench_count *c, struct uw_link *lower);

struct uw_bench_node {
    char name[12];
    struct uw_bench_count count;
    struct uw_segment segment;
    struct uw_params params;
    struct uw_snapshot snapshot;
    struct uw_node_progress progress;
    struct uw_node_config config;       /* without a link */
    void *memory;
    size_t memory_bytes;
    uint64_t (*now_us)(void *arg);      /* clock for the events */
    void *arg;
    atomic_uint_least64_t started_us, ended_us;     /* of its pull; 0: not yet */
    atomic_int failed;                  /* 0, or why its pull ended early */
    char why[UW_NODE_TEXT_BYTES];       /* the same as a sentence */
};

/* Make vector number i, whose elements are base + i STEP, and a configuration.
 *   pulls        whether it pulls, from the node with the next identity
 *   now_us, arg  clock for started_us and ended_us; NULL: the board's
 * Returns UW_OK or UW_ERR_NOMEM. Close in every case. */
int uw_bench_node_open(struct uw_bench_node *n, uint32_t i, uint32_t size_n, bool pulls,
                       uint64_t (*now_us)(void *arg), void *arg, uint64_t seed);
void uw_bench_node_close(struct uw_bench_node *n);

/* Report a first training step, before any step of the network: the snapshot becomes the vector,
 * and there is no peer to pull from yet. */
int uw_bench_node_start(struct uw_bench_node *n, struct uw_node *node);

/* Publish the same vector as a new version. */
int uw_bench_node_renew(struct uw_bench_node *n, struct uw_node *node);

/* Whether its pull would find the peer that it needs. rows: as from uw_node_status. */
bool uw_bench_node_sees(const struct uw_node_member *rows, uint32_t rows_n, uint32_t nodes);

/* Whether all elements are base + (i + share (j - i)) STEP for the same j != i, 0 .. nodes - 1: the
 * result of mixing with another node's vector. */
bool uw_bench_node_mixed(const struct uw_bench_node *n, uint32_t i, uint32_t nodes, double share,
                         uint64_t seed);

/* Whether every element is the mean of all nodes' elements; not exact: between their extremes. */
bool uw_bench_node_averaged(const struct uw_bench_node *n, uint32_t nodes, bool exact,
                            uint64_t seed);

#endif
