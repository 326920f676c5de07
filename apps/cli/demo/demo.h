/* SPDX-License-Identifier: Apache-2.0
 *
 * demo.h - the demo's nodes, which are processes of this program or emulated boards
 *
 * Every node is a real `uwasa node`, native or for another processor, or a board's firmware in its
 * emulator, with its own port, data, checkpoint and settings. The demo only starts and ends them
 * and reads their events.
 *
 * Memory     the caller's; configuration and events use the heap
 * Blocking   never, unless said      Context  main thread
 */
#ifndef UWASA_CLI_DEMO_H
#define UWASA_CLI_DEMO_H

#include "base/events.h"
#include "base/progress.h"

#include "uwasa/link.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define UW_JANITOR_PATH_BYTES 256
#define UW_DEMO_NODES_MAX 10
#define UW_DEMO_LINE_BYTES 65536
#define UW_DEMO_PATH_BYTES (UW_JANITOR_PATH_BYTES + 64)
#define UW_DEMO_BOARDS_N 2              /* with --boards: the first nodes; the next is aarch64 */

/* How nodes train. An emulated board trains on about 100 samples per second, a native node on many
 * times more. So with boards a native node pauses between steps; otherwise all models would favour
 * its digits. All nodes end together: one that went on alone would forget the others' digits. */
#define UW_DEMO_CONSENSUS_SECONDS 4.0
#define UW_DEMO_CONSENSUS_ROUNDS 12
#define UW_DEMO_LINGER_SECONDS 2            /* limit; ends when no other node trains or pulls */

#define UW_DEMO_BOARDS_SECONDS 150.0
#define UW_DEMO_BOARDS_BATCH 8
#define UW_DEMO_BOARDS_LR 0.3
#define UW_DEMO_BOARDS_PERIOD 10
#define UW_DEMO_BOARDS_STEP_SECONDS 0.06    /* minimum; grows to the boards' step time */
#define UW_DEMO_BOARDS_EVAL_SECONDS 10
#define UW_DEMO_BOARDS_EVAL_SAMPLES 200
#define UW_DEMO_BOARDS_FINAL_SAMPLES 500    /* for aarch64 and native nodes; all take a minute */
#define UW_DEMO_BOARDS_CHECKPOINT_SECONDS 3
#define UW_DEMO_BOARDS_CONSENSUS_SECONDS 30.0
#define UW_DEMO_BOARDS_CONSENSUS_ROUNDS 30
#define UW_DEMO_BOARDS_LINGER_SECONDS 60

enum uw_demo_kind {
    UW_DEMO_NATIVE,
    UW_DEMO_AARCH64,                    /* this program for aarch64, in qemu-user */
    UW_DEMO_BOARD                       /* the firmware on a Cortex-M7, in qemu-system-arm */
};

/* A temporary directory that is removed when its owner ends, in whatever way: a small process waits
 * until its pipe to the owner closes, which happens even after SIGKILL, and removes it. */
struct uw_janitor {
    char path[UW_JANITOR_PATH_BYTES];
    int owner_fd;                       /* -1: closed */
    pid_t pid;
};

struct uw_demo_node {
    const char *name;
    enum uw_demo_kind kind;
    char address[UW_LINK_ADDRESS_BYTES];
    char classes[24];           /* "0,4,8" */
    pid_t pid;                  /* 0: not running */
    int fd;                     /* its events; -1: closed */
    bool down;                  /* killed and not yet back */
    bool returning;             /* restarted, no event so far */
    uint64_t started_us;
    bool done;                  /* its event "done" came */
    int exit_code;              /* of the last end; -1: killed */
    char *line;                 /* [UW_DEMO_LINE_BYTES] of an incomplete event */
    size_t line_bytes;
    /* of its last events */
    uint64_t step;
    double loss, accuracy, samples_per_s, pulled_bytes, sent_bytes, rss_bytes;
    uint32_t peers, peers_n, pulls, restarts;
    char error[200];            /* the error that a board reported */
    double earlier_pulled_bytes, earlier_sent_bytes;    /* before a restart */
    double alone_accuracy, together_accuracy;
};

struct uw_demo {
    struct uw_demo_node nodes[UW_DEMO_NODES_MAX];
    uint32_t nodes_n;
    const char *data, *model;
    bool boards;
    double step_seconds;        /* least time of the other nodes' steps: that of the boards' */
    char firmware[UW_DEMO_PATH_BYTES], aarch64[UW_DEMO_PATH_BYTES];  /* programs, with boards */
    struct uw_janitor directory;
    struct uw_events events;
    uint64_t start_us;
    struct uw_progress progress;
    uint32_t drawn_lines;       /* lines of the live view, to move the cursor back up */
    const char *phase;
};

/* How to start a node. */
struct uw_demo_start {
    bool together;              /* with the others as seeds */
    double seconds;             /* to train; of these, elapsed_seconds are over */
    double elapsed_seconds;
    double consensus_seconds;   /* for the exact average, and for pulls, at the end */
    uint32_t consensus_rounds;
};

/* A command line; its words are stored in text. */
struct uw_demo_command {
    char *argv[24];
    char text[4096];
    size_t words_n, text_bytes;
};

/* Add a word. If there is no room, it and all later words are dropped. */
void uw_demo_add_word(struct uw_demo_command *c, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

/* A numeric setting, the same for `uwasa node` and boards. */
struct uw_demo_number {
    const char *key;
    double value;
};
#define UW_DEMO_NUMBERS 9u

/* The numeric settings of d's nodes when started in this way. */
void uw_demo_numbers(const struct uw_demo *d, const struct uw_demo_start *how,
                     struct uw_demo_number numbers[UW_DEMO_NUMBERS]);

/* demo_boards.c: find the emulators and their programs, and set each node's kind. A program that is
 * not named is searched for in the folder of this one. If the one for aarch64 is missing, the demo
 * prints a sentence and goes on without that node.
 *
 *   firmware, aarch64   files or NULL
 *
 * Returns UW_OK or UW_ERR_NOTFOUND: err names what is missing and the command that creates it. */
int uw_demo_find_boards(struct uw_demo *d, const char *firmware, const char *aarch64,
                        struct uw_error *err);

/* Write the settings of node i, a board, and give the command that starts it in the demo's
 * directory. Returns UW_OK, UW_ERR_IO or an error of reading the key's file. */
int uw_demo_board_command(const struct uw_demo *d, uint32_t i, const struct uw_demo_start *how,
                          struct uw_demo_command *c, struct uw_error *err);

/* "Cortex-M7", "aarch64" or "native". */
const char *uw_demo_kind_name(enum uw_demo_kind kind);

/* Give every node its name, classes and a free port. Returns UW_OK or UW_ERR_IO. */
int uw_demo_prepare(struct uw_demo *d, struct uw_error *err);

/* Write the configuration of node i and start it. Returns UW_OK or UW_ERR_IO. */
int uw_demo_start(struct uw_demo *d, uint32_t i, const struct uw_demo_start *how,
                  struct uw_error *err);

/* Wait up to wait_us for events, process them, notice nodes that have ended. If a node failed,
 * returns UW_ERR_CLOSED with the last line that it wrote, unless it was killed on purpose. */
int uw_demo_poll(struct uw_demo *d, uint64_t wait_us, struct uw_error *err);

/* Kill node i with SIGKILL and wait for its end. */
void uw_demo_kill(struct uw_demo *d, uint32_t i);

/* Number of running nodes. */
uint32_t uw_demo_running(const struct uw_demo *d);

/* Draw the live view if it is due, or at once (force): rows on a terminal, a line now and then on a
 * pipe. */
void uw_demo_draw(struct uw_demo *d, uint64_t now_us, bool force);

/* Print a sentence above the live view. */
void uw_demo_log(struct uw_demo *d, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

/* Print the final table on standard output. */
void uw_demo_print_result(const struct uw_demo *d);

/* Create a directory in TMPDIR or /tmp, readable by its owner only, and start its janitor.
 * Returns UW_OK or UW_ERR_IO, err filled. */
int uw_janitor_open(struct uw_janitor *j, const char *prefix, struct uw_error *err);

/* In a child, between fork and exec: close the pipe. (exec closes it as well.) */
void uw_janitor_disown(struct uw_janitor *j);

/* Have the directory removed now. Safe on a closed janitor. */
void uw_janitor_close(struct uw_janitor *j);

#endif
