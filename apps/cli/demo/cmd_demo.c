/* SPDX-License-Identifier: Apache-2.0 */
#include "demo.h"
#include "base/args.h"
#include "base/commands.h"
#include "base/stop.h"
#include "links/keyfile.h"

#include "uwasa/board.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Shares of the time; the rest goes to the tests at the end of each phase. */
#define ALONE_SHARE 0.15
#define TOGETHER_SHARE 0.70
#define DOWN_SECONDS 3.0
#define WAIT_US 100000u
#define LATE_SECONDS 120.0          /* after this a node that still runs is considered stuck */

struct options {
    uint32_t nodes;
    double seconds;
    bool boards;
    const char *data, *json, *firmware, *aarch64;
};

#define ROW(...) UW_OPT_ROW(struct options, __VA_ARGS__)

static const struct uw_opt rows[] = {
    ROW("nodes", UW_OPT_U32, nodes, 2, UW_DEMO_NODES_MAX, "N", "number of devices (4)"),
    ROW("seconds", UW_OPT_REAL, seconds, 10, 86400, "S", "duration (60; with --boards 150)"),
    ROW("boards", UW_OPT_FLAG, boards, 0, 0, NULL,
        "run two Cortex-M7 boards and an aarch64 node in QEMU, and a native node"),
    ROW("firmware", UW_OPT_TEXT, firmware, 0, 0, "FILE",
        "firmware of the boards ($UWASA_FIRMWARE, else looked for beside this program)"),
    ROW("aarch64", UW_OPT_TEXT, aarch64, 0, 0, "FILE",
        "uwasa for aarch64 ($UWASA_AARCH64, else looked for beside this program)"),
    ROW("data", UW_OPT_TEXT, data, 0, 0, "D", "digits or mnist:DIR (digits)"),
    ROW("json", UW_OPT_TEXT, json, 0, 0, "FILE|-", "write events as JSON lines"),
};

static const struct uw_args_spec spec = {
    .command = "demo",
    .summary = "let four devices learn together on this machine, in a minute",
    .usage = "[--nodes N | --boards] [--seconds S] [--data D] [--json FILE]",
    .example = "uwasa demo --seconds 60",
    .epilogue = "Every device is a process that holds its share of the ten digits. First each "
                "trains\nalone, then they gossip. Halfway one of them is killed and restarted. "
                "Ctrl-C leaves\nno process and no file behind.",
    .opts = {rows, sizeof rows / sizeof rows[0]},
};

/* Let the nodes run until all have ended, or until_us. Returns UW_OK, UW_ERR_CLOSED (stopped by a
 * signal: err filled; or a node failed). */
static int watch(struct uw_demo *d, struct uw_stop *stop, uint64_t until_us, struct uw_error *err)
{
    int rc = UW_OK;
    uint64_t now_us = uw_board_now_us();
    while (rc == UW_OK && now_us < until_us && uw_demo_running(d) > 0) {
        if (uw_stop_asked(stop)) {
            return uw_error_set(err, UW_ERR_CLOSED, "stopped");
        }
        rc = uw_demo_poll(d, WAIT_US, err);
        now_us = uw_board_now_us();
        uw_demo_draw(d, now_us, false);
    }
    return rc;
}

static int start_all(struct uw_demo *d, const struct uw_demo_start *how, struct uw_error *err)
{
    int rc = UW_OK;
    for (uint32_t i = 0; rc == UW_OK && i < d->nodes_n; i++) {
        rc = uw_demo_start(d, i, how, err);
    }
    return rc;
}

static void put_phase(struct uw_demo *d, const char *phase)
{
    cJSON *ev = uw_event("phase");
    d->phase = phase;
    cJSON_AddStringToObject(ev, "phase", phase);
    uw_events_put(&d->events, ev);
}

/* Wait until all nodes have ended, which takes about `seconds`. */
static int finish(struct uw_demo *d, struct uw_stop *stop, double seconds, struct uw_error *err)
{
    int rc = watch(d, stop, uw_board_now_us() + (uint64_t)((seconds + LATE_SECONDS) * 1e6), err);
    for (uint32_t i = 0; rc == UW_OK && i < d->nodes_n; i++) {
        if (d->nodes[i].pid > 0 && !d->nodes[i].done) {
            rc = uw_error_set(err, UW_ERR_TIMEOUT, "node %s does not end", d->nodes[i].name);
        }
    }
    return rc;
}

/* Slow the other nodes down to the boards' current pace: faster nodes would dominate the model with
 * their digits. */
static void set_pace(struct uw_demo *d)
{
    d->step_seconds = d->boards ? UW_DEMO_BOARDS_STEP_SECONDS : 0.0;
    for (uint32_t i = 0; i < d->nodes_n; i++) {
        const struct uw_demo_node *n = &d->nodes[i];
        double step_seconds = n->samples_per_s > 0 ? UW_DEMO_BOARDS_BATCH / n->samples_per_s : 0.0;
        if (n->kind == UW_DEMO_BOARD && step_seconds > d->step_seconds) {
            d->step_seconds = step_seconds;
        }
    }
}

static int alone(struct uw_demo *d, struct uw_stop *stop, double seconds, struct uw_error *err)
{
    const struct uw_demo_start how = {.seconds = ALONE_SHARE * seconds};
    put_phase(d, "alone");
    set_pace(d);
    uw_demo_log(d, "%u devices, each with its own share of the ten digits, train alone",
                (unsigned)d->nodes_n);
    int rc = start_all(d, &how, err);
    rc = rc < 0 ? rc : finish(d, stop, how.seconds, err);
    for (uint32_t i = 0; i < d->nodes_n; i++) {
        d->nodes[i].alone_accuracy = d->nodes[i].accuracy;
    }
    return rc;
}

static void put_node_event(struct uw_demo *d, const char *event, uint32_t i)
{
    cJSON *ev = uw_event(event);
    cJSON_AddStringToObject(ev, "node", d->nodes[i].name);
    uw_events_put(&d->events, ev);
}

/* Log a kill; ending the emulator is like switching a board off. */
static void log_killed(struct uw_demo *d, const struct uw_demo_node *n, bool down)
{
    bool board = n->kind == UW_DEMO_BOARD;
    uw_demo_log(d, down ? board ? "%s loses power; the others go on"
                                : "%s is killed (SIGKILL); the others go on"
                        : board ? "%s has power again"
                                : "%s restarts from its checkpoint", n->name);
}

/* SIGKILL one node, wait, start it again for the rest of the time, so that it has the others'
 * learning rate and ends with them. */
static int kill_one(struct uw_demo *d, struct uw_stop *stop, const struct uw_demo_start *how,
                    uint64_t start_us, struct uw_error *err)
{
    const uint32_t victim = 1;
    log_killed(d, &d->nodes[victim], true);
    put_node_event(d, "killed", victim);
    uw_demo_kill(d, victim);
    int rc = watch(d, stop, uw_board_now_us() + (uint64_t)(DOWN_SECONDS * 1e6), err);
    if (rc < 0) {
        return rc;
    }
    struct uw_demo_start again = *how;
    again.elapsed_seconds += uw_seconds_since(start_us);
    log_killed(d, &d->nodes[victim], false);
    put_node_event(d, "restarted", victim);
    d->nodes[victim].restarts++;
    return uw_demo_start(d, victim, &again, err);
}

static int together(struct uw_demo *d, struct uw_stop *stop, double seconds,
                    struct uw_error *err)
{
    const double learn_seconds = TOGETHER_SHARE * seconds;
    const double alone_seconds = ALONE_SHARE * seconds;     /* a board's checkpoint counts them */
    const struct uw_demo_start how = {
        .together = true,
        .seconds = alone_seconds + learn_seconds,
        .elapsed_seconds = alone_seconds,
        .consensus_seconds =
            d->boards ? UW_DEMO_BOARDS_CONSENSUS_SECONDS : UW_DEMO_CONSENSUS_SECONDS,
        .consensus_rounds = d->boards ? UW_DEMO_BOARDS_CONSENSUS_ROUNDS : UW_DEMO_CONSENSUS_ROUNDS,
    };
    uint64_t start_us = uw_board_now_us();
    put_phase(d, "together");
    set_pace(d);
    uw_demo_log(d, "now they learn together: each pulls the parameters of a peer now and then");
    int rc = start_all(d, &how, err);
    rc = rc < 0 ? rc : watch(d, stop, start_us + (uint64_t)(0.45e6 * learn_seconds), err);
    rc = rc < 0 ? rc : kill_one(d, stop, &how, start_us, err);
    rc = rc < 0 ? rc : finish(d, stop, learn_seconds, err);
    for (uint32_t i = 0; i < d->nodes_n; i++) {
        d->nodes[i].together_accuracy = d->nodes[i].accuracy;
    }
    return rc;
}

static void put_done(struct uw_demo *d)
{
    cJSON *ev = uw_event("done");
    cJSON *alone_accuracy = cJSON_AddArrayToObject(ev, "alone_accuracy");
    cJSON *together_accuracy = cJSON_AddArrayToObject(ev, "together_accuracy");
    cJSON *pulled = cJSON_AddArrayToObject(ev, "pulled_bytes");
    cJSON *kinds = cJSON_AddArrayToObject(ev, "kind");
    for (uint32_t i = 0; i < d->nodes_n; i++) {
        const struct uw_demo_node *n = &d->nodes[i];
        cJSON_AddItemToArray(alone_accuracy, cJSON_CreateNumber(n->alone_accuracy));
        cJSON_AddItemToArray(together_accuracy, cJSON_CreateNumber(n->together_accuracy));
        cJSON_AddItemToArray(pulled, cJSON_CreateNumber(n->pulled_bytes));
        cJSON_AddItemToArray(kinds, cJSON_CreateString(uw_demo_kind_name(n->kind)));
    }
    cJSON_AddBoolToObject(ev, "boards", d->boards);
    cJSON_AddNumberToObject(ev, "seconds", uw_seconds_since(d->start_us));
    uw_events_put(&d->events, ev);
}

static int run(struct uw_demo *d, const struct options *o, struct uw_error *err)
{
    struct uw_stop stop;
    char key[UW_DEMO_PATH_BYTES];
    uw_stop_init(&stop);
    int rc = uw_events_open(&d->events, o->json, UW_EVENTS_NEW, err);
    rc = rc < 0 ? rc : uw_janitor_open(&d->directory, "uwasa-demo", err);
    if (rc < 0) {
        return rc;
    }
    snprintf(key, sizeof key, "%s/run.key", d->directory.path);
    rc = uw_keyfile_create(key, false, err);
    rc = rc < 0 ? rc : uw_demo_prepare(d, err);
    rc = rc < 0 ? rc : alone(d, &stop, o->seconds, err);
    rc = rc < 0 ? rc : together(d, &stop, o->seconds, err);
    if (rc == UW_OK) {
        uw_demo_draw(d, uw_board_now_us(), true);
        bool quiet = uw_events_take_stdout(&d->events);
        put_done(d);
        if (!quiet) {
            uw_demo_print_result(d);
        }
        rc = uw_events_close(&d->events, err);
    }
    return rc;
}

/* Choose the nodes and times from the options. */
static int choose(struct uw_demo *d, struct options *o, struct uw_error *err)
{
    if (!o->boards && (o->firmware != NULL || o->aarch64 != NULL)) {
        return uw_error_set(err, UW_ERR_INVALID, "--firmware and --aarch64 are for --boards");
    }
    if (o->boards && (o->nodes != 0 || o->data != NULL)) {
        return uw_error_set(err, UW_ERR_INVALID, "--boards has its own nodes and digits: without "
                                                 "--nodes and --data");
    }
    d->nodes_n = o->nodes != 0 ? o->nodes : 4;
    d->data = o->data != NULL ? o->data : "digits";
    d->boards = o->boards;
    d->model = d->boards ? "mlp" : "lenet5";
    o->seconds = o->seconds > 0.0 ? o->seconds : o->boards ? UW_DEMO_BOARDS_SECONDS : 60.0;
    return o->boards ? uw_demo_find_boards(d, o->firmware, o->aarch64, err) : UW_OK;
}

int uw_cmd_demo(int argc, char **argv)
{
    struct options o = {.nodes = 0};
    struct uw_error err = {.text = ""};
    int status = uw_args_parse(&spec, argc, argv, &o, NULL);
    if (status >= 0) {
        return status;
    }
    struct uw_demo d = {.directory = {.owner_fd = -1}, .start_us = uw_board_now_us()};
    uw_progress_init(&d.progress);
    for (uint32_t i = 0; i < UW_DEMO_NODES_MAX; i++) {
        d.nodes[i].fd = -1;
    }
    int rc = choose(&d, &o, &err);
    if (rc == UW_ERR_INVALID) {
        return uw_cli_error("demo", UW_EXIT_USAGE, "%s", err.text);
    }
    rc = rc < 0 ? rc : run(&d, &o, &err);
    for (uint32_t i = 0; i < d.nodes_n; i++) {
        uw_demo_kill(&d, i);
        free(d.nodes[i].line);
    }
    uw_janitor_close(&d.directory);
    uw_events_close(&d.events, NULL);
    return rc < 0 ? uw_cli_error("demo", UW_EXIT_FAILED, "%s", err.text) : UW_EXIT_DONE;
}
