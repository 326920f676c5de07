/* SPDX-License-Identifier: Apache-2.0
 *
 * demo.h - the demo's nodes: processes of this program or emulated boards, and their events
 *
 * Every node is an honest `uwasa node`, native or of another processor, or a board's firmware in
 * its emulator, with its own port, data, checkpoint and settings; the demo only starts and ends
 * them and reads their events.
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
#define UW_DEMO_BOARDS_N 2              /* of --boards, the first nodes; then one of aarch64 */

/* How nodes train. A board in its emulator trains on some 100 samples a second, a native node on
 * many times as many: beside boards a native node rests, or all would lean to the digits that it
 * has seen. All end together: a node that trained on alone would forget the others' digits. */
#define UW_DEMO_CONSENSUS_SECONDS 4.0
#define UW_DEMO_CONSENSUS_ROUNDS 12
#define UW_DEMO_LINGER_SECONDS 2            /* at most: as long as others train or pull */

#define UW_DEMO_BOARDS_SECONDS 150.0
#define UW_DEMO_BOARDS_BATCH 8
#define UW_DEMO_BOARDS_LR 0.3
#define UW_DEMO_BOARDS_PERIOD 10
#define UW_DEMO_BOARDS_STEP_SECONDS 0.06    /* at least; then as long as the boards' */
#define UW_DEMO_BOARDS_EVAL_SECONDS 10
#define UW_DEMO_BOARDS_EVAL_SAMPLES 200
#define UW_DEMO_BOARDS_FINAL_SAMPLES 500    /* of aarch64 and native nodes, all takes a minute */
#define UW_DEMO_BOARDS_CHECKPOINT_SECONDS 3
#define UW_DEMO_BOARDS_CONSENSUS_SECONDS 30.0
#define UW_DEMO_BOARDS_CONSENSUS_ROUNDS 30
#define UW_DEMO_BOARDS_LINGER_SECONDS 60

enum uw_demo_kind {
    UW_DEMO_NATIVE,
    UW_DEMO_AARCH64,                    /* this program for aarch64, in qemu-user */
    UW_DEMO_BOARD                       /* the firmware on a Cortex-M7, in qemu-system-arm */
};

/* A temporary directory that disappears with its owner, however that ends: a small process waits
 * for the owner's end (the other end of a pipe closes even after SIGKILL), then removes it. */
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
    char *line;                 /* [UW_DEMO_LINE_BYTES] an event on its way */
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
    double step_seconds;        /* the others' steps take at least so long, as the boards' do */
    char firmware[UW_DEMO_PATH_BYTES], aarch64[UW_DEMO_PATH_BYTES];  /* programs, with boards */
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
    double seconds;             /* to train, and those of them that are over */
    double elapsed_seconds;
    double consensus_seconds;   /* of an exact average, and of pulls, at the end */
    uint32_t consensus_rounds;
};

/* A command line: the words lie in text. */
struct uw_demo_command {
    char *argv[24];
    char text[4096];
    size_t words_n, text_bytes;
};

/* Add a word. One that finds no room is not added, and the command ends there. */
void uw_demo_add_word(struct uw_demo_command *c, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

/* The settings that are numbers, of a `uwasa node` as of a board. */
struct uw_demo_number {
    const char *key;
    double value;
};
#define UW_DEMO_NUMBERS 9u

/* Those of nodes that start so, in d. */
void uw_demo_numbers(const struct uw_demo *d, const struct uw_demo_start *how,
                     struct uw_demo_number numbers[UW_DEMO_NUMBERS]);

/* demo_boards.c: find the emulators and the programs for them, and set what each node is. A
 * program that is not named is searched beside this one; without the one for aarch64 the demo goes
 * on without that node, after a sentence.
 *
 *   firmware, aarch64   files or NULL
 *
 * Returns UW_OK or UW_ERR_NOTFOUND: err names what is missing, and the command that makes it. */
int uw_demo_find_boards(struct uw_demo *d, const char *firmware, const char *aarch64,
                        struct uw_error *err);

/* Write the settings of node i, a board, and report the command that starts it in the demo's
 * directory. Returns UW_OK, UW_ERR_IO or an error of the key's file. */
int uw_demo_board_command(const struct uw_demo *d, uint32_t i, const struct uw_demo_start *how,
                          struct uw_demo_command *c, struct uw_error *err);

/* "Cortex-M7", "aarch64" or "native". */
const char *uw_demo_kind_name(enum uw_demo_kind kind);

/* Give every node its name, classes and a free port. Returns UW_OK or UW_ERR_IO. */
int uw_demo_prepare(struct uw_demo *d, struct uw_error *err);

/* Write the configuration of node i and start it. Returns UW_OK or UW_ERR_IO. */
int uw_demo_start(struct uw_demo *d, uint32_t i, const struct uw_demo_start *how,
                  struct uw_error *err);

/* Wait up to wait_us for events, take them in, notice nodes that have ended. A node that fails
 * gives UW_ERR_CLOSED and the last line that it wrote; one that was killed on purpose does not. */
int uw_demo_poll(struct uw_demo *d, uint64_t wait_us, struct uw_error *err);

/* Kill node i with SIGKILL and wait for its end. */
void uw_demo_kill(struct uw_demo *d, uint32_t i);

/* How many nodes run. */
uint32_t uw_demo_running(const struct uw_demo *d);

/* Draw the live view when it is due: rows on a terminal, a line now and then on a pipe. `force`:
 * now. */
void uw_demo_draw(struct uw_demo *d, uint64_t now_us, bool force);

/* A sentence above the live view. */
void uw_demo_log(struct uw_demo *d, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

/* The table at the end, on standard output. */
void uw_demo_print_result(const struct uw_demo *d);

/* Make a directory (in TMPDIR or /tmp, readable by its owner only) and set the janitor to it.
 * Returns UW_OK or UW_ERR_IO, err filled. */
int uw_janitor_open(struct uw_janitor *j, const char *prefix, struct uw_error *err);

/* In a child, between fork and exec: let go of the pipe. (exec does it as well.) */
void uw_janitor_disown(struct uw_janitor *j);

/* Have the directory removed now. Safe on a closed one. */
void uw_janitor_close(struct uw_janitor *j);

#endif
