/* SPDX-License-Identifier: Apache-2.0
 *
 * demo.h - the demo's nodes: processes of this program, and what they tell
 *
 * Every node is an honest `uwasa node` with its own port, data, checkpoint and configuration
 * file; the demo only starts and ends them and reads their events.
 *
 * Memory     the caller's; configuration and events use the heap
 * Blocking   never, unless said      Context  main thread
 */
#ifndef UWASA_CLI_DEMO_H
#define UWASA_CLI_DEMO_H

#include "events.h"
#include "janitor.h"
#include "progress.h"

#include "uwasa/link.h"

#include <stdbool.h>
#include <stdint.h>

#define UW_DEMO_NODES_MAX 10
#define UW_DEMO_LINE_BYTES 65536
#define UW_DEMO_PATH_BYTES (UW_JANITOR_PATH_BYTES + 64)

struct uw_demo_node {
    const char *name;
    char address[UW_LINK_ADDRESS_BYTES];
    char classes[24];           /* "0,4,8" */
    pid_t pid;                  /* 0: not running */
    int fd;                     /* its events; -1: closed */
    bool down;                  /* killed and not yet back */
    bool done;                  /* told "done" */
    int exit_code;              /* of the last end; -1: killed */
    char *line;                 /* [UW_DEMO_LINE_BYTES] an event on its way */
    size_t line_bytes;
    /* as it last told */
    uint64_t step;
    double loss, accuracy, samples_per_s, pulled_bytes, sent_bytes, rss_bytes;
    uint32_t peers, peers_n, restarts;
    double earlier_pulled_bytes, earlier_sent_bytes;    /* before a restart */
    double alone_accuracy, together_accuracy;
};

struct uw_demo {
    struct uw_demo_node nodes[UW_DEMO_NODES_MAX];
    uint32_t nodes_n;
    const char *data, *model;
    struct uw_janitor directory;
    struct uw_events events;
    uint64_t start_us;
    struct uw_progress progress;
    uint32_t drawn_lines;       /* of the live view, to go back up */
    const char *phase;
};

/* What a start of a node needs to know. */
struct uw_demo_start {
    bool together;              /* with the others as seeds */
    double seconds;
    double consensus_seconds;
};

/* Give every node its name, classes and a free port. Returns UW_OK or UW_ERR_IO. */
int uw_demo_prepare(struct uw_demo *d, struct uw_error *err);

/* Write the configuration of node i and start it. Returns UW_OK or UW_ERR_IO. */
int uw_demo_start(struct uw_demo *d, uint32_t i, const struct uw_demo_start *how,
                  struct uw_error *err);

/* Wait up to wait_us for events, take them in, notice who has ended. A node that fails gives
 * UW_ERR_CLOSED and the last line that it wrote; one that was killed on purpose does not. */
int uw_demo_poll(struct uw_demo *d, uint64_t wait_us, struct uw_error *err);

/* Kill node i with SIGKILL and wait for its end. */
void uw_demo_kill(struct uw_demo *d, uint32_t i);

/* How many nodes run. */
uint32_t uw_demo_running(const struct uw_demo *d);

/* Draw the live view when it is due: rows on a terminal, a line now and then on a pipe. `force`:
 * now. */
void uw_demo_draw(struct uw_demo *d, uint64_t now_us, bool force);

/* A sentence above the live view. */
void uw_demo_say(struct uw_demo *d, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

/* The table at the end, on standard output. */
void uw_demo_print_result(const struct uw_demo *d);

#endif
