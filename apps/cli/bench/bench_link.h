/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_link.h - how long a node takes to pull another's parameters over a link
 *
 * The nodes are those that ship (uwasa/node.h). Over UDP, TCP and a serial line two nodes run on
 * this machine's clock, each in the network thread of `uwasa node`, over the same links. Over a
 * radio the nodes run on a virtual clock and share one medium; the same seed gives the same result.
 * A radio's stack is that of a board: secure frames over link_frame, with its duty cycle. What
 * arrived is checked: every parameter is the mean of the puller's and one other node's, or of all.
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
    enum uw_stack_carrier carrier;  /* of those; a radio has none: radio */
    const struct uw_radio_profile *radio;   /* NULL: no radio; frames and shared are set */
    uint64_t bytes;                 /* of parameters, a multiple of 4 */
    uint32_t nodes, pulls;          /* radio: on the air, and of those that pull at once */
    bool code;                      /* radio: pulls ask for chunks in the lossless code */
    bool average;                   /* radio: all average by broadcast, in place of pulls */
    uint32_t windows;               /* udp, tcp, serial: pulls, one after the other */
    uint32_t mtu_bytes;             /* 0: as `uwasa node` has it */
    double loss, latency_s;
    uint64_t rate_bits_per_s;       /* 0: not limited; of a serial line not 0; of a radio not
                                       looked at */
    bool clear;                     /* tcp: without TLS */
    const uint16_t *suites;         /* of DTLS or TLS, ended by 0; NULL: as `uwasa node` */
    uint64_t seed;
    struct uw_progress *progress;   /* called with the progress, now and then */
    const char *pcap;               /* file: what node 0 of a radio, else the puller, sends and
                                       receives, below its encryption; NULL: none */
};

/* What one window, of a radio all of its pulls or the average, took. Frames are messages that the
 * nodes handed to the link. */
struct uw_bench_link_window {
    double seconds;                 /* from the start of the first to the end of the last */
    uint64_t data_frames;           /* parameters */
    uint64_t membership_frames;     /* hellos, pings, their answers, goodbyes */
    uint64_t control_frames;        /* all others of the nodes: questions for chunks, refusals */
    uint64_t air_frames;            /* radio: all that were on the air, joins too */
    uint16_t suite;                 /* that DTLS or TLS agreed on, IANA's number; else 0 */
    bool exact;                     /* average: every node received everything */
    double received;                /* average: the share received of what all others have */
    uint64_t chunks, missed;        /* average: chunks to receive, by all together, and those that
                                       were lost */
    double air_s;                   /* radio: how long it was busy */
};

/* Measure. Fills windows[0 .. b->windows - 1], of a radio windows[0].
 * Returns UW_OK, UW_ERR_NOMEM, UW_ERR_IO, UW_ERR_TIMEOUT (the nodes do not find each other, a pull
 * ends early), UW_ERR_CORRUPT (a parameter is not what it must be); err says what. */
int uw_bench_link_radio(const struct uw_bench_link *b, struct uw_bench_link_window *window,
                        struct uw_error *err);
int uw_bench_link_line(const struct uw_bench_link *b, struct uw_bench_link_window *windows,
                       struct uw_error *err);

/* ---- bench_link_node.c: a node with a vector in place of a model, and what it sends ----
 *
 * Fields that a callback writes are atomic: it comes from the thread that steps the node. */

/* A link that counts what passes on its way out, in front of any other. */
struct uw_bench_count {
    struct uw_link link;
    struct uw_link_ops ops;         /* those that the lower link has */
    struct uw_link *lower;
    atomic_uint_least64_t sent[UW_NODE_SAYS_N];
};

/* Put it in front of lower, which is borrowed. Returns c->link. */
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
    uint64_t (*now_us)(void *arg);      /* of the events */
    void *arg;
    atomic_uint_least64_t started_us, ended_us;     /* of its pull; 0: not yet */
    atomic_int failed;                  /* 0, or why its pull was cut */
    char why[UW_NODE_TEXT_BYTES];       /* in a sentence */
};

/* Vector number i, whose elements are base + i STEP, and a configuration.
 *   pulls        from the next node by identity; false: none
 *   now_us, arg  the clock for started_us and ended_us; NULL: the board's
 * Returns UW_OK or UW_ERR_NOMEM. Close in every case. */
int uw_bench_node_open(struct uw_bench_node *n, uint32_t i, uint32_t size_n, bool pulls,
                       uint64_t (*now_us)(void *arg), void *arg, uint64_t seed);
void uw_bench_node_close(struct uw_bench_node *n);

/* Has the first training step, before any step of the network: the snapshot is the vector, and
 * there is no peer to pull from. */
int uw_bench_node_start(struct uw_bench_node *n, struct uw_node *node);

/* Show the same vector as a new version. */
int uw_bench_node_renew(struct uw_bench_node *n, struct uw_node *node);

/* Would its pull find the peer that it needs? rows: as uw_node_status has them. */
bool uw_bench_node_sees(const struct uw_node_member *rows, uint32_t rows_n, uint32_t nodes);

/* Is every element base + (i + share (j - i)) STEP with one j of 0 .. nodes - 1, which is not i?
 * That comes of mixing, where only others' vectors were there to be mixed in. */
bool uw_bench_node_mixed(const struct uw_bench_node *n, uint32_t i, uint32_t nodes, double share,
                         uint64_t seed);

/* Is every element the mean of all nodes'; not exact: somewhere among theirs? */
bool uw_bench_node_averaged(const struct uw_bench_node *n, uint32_t nodes, bool exact,
                            uint64_t seed);

#endif
