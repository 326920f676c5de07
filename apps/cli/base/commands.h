/* SPDX-License-Identifier: Apache-2.0
 *
 * commands.h - one function a command
 *
 * Each takes the arguments from the command's name on (argv[0] is "train") and returns the exit
 * status: 0 done, 1 failed, 2 wrong use. Results go to standard output, progress and one line
 * about a mistake to standard error.
 */
#ifndef UWASA_CLI_COMMANDS_H
#define UWASA_CLI_COMMANDS_H

#include <stdint.h>

struct uw_command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;        /* NULL: not in this build, run says so */
};

/* All of them, and what --help tells to begin with. */
extern const struct uw_command uw_commands[];
extern const uint32_t uw_commands_n;
extern const char *const uw_commands_start;

/* Train a model on one device. */
int uw_cmd_train(int argc, char **argv);

/* Test a model's weights. */
int uw_cmd_eval(int argc, char **argv);

/* Tell the memory of a model before anything runs. */
int uw_cmd_plan(int argc, char **argv);

/* List the built-in models, or print one. */
int uw_cmd_models(int argc, char **argv);

/* Make the key of a run. */
int uw_cmd_keygen(int argc, char **argv);

/* Join a run. */
int uw_cmd_node(int argc, char **argv);

/* Show a run as one of its nodes sees it. */
int uw_cmd_status(int argc, char **argv);

/* A run of many nodes on a virtual clock. */
int uw_cmd_sim(int argc, char **argv);

/* A part of sim: how long a step takes on many nodes. */
int uw_cmd_sim_time(int argc, char **argv);

/* Four devices that learn together, on this machine. */
int uw_cmd_demo(int argc, char **argv);

/* Models from ONNX, and trained ones as ONNX or C source. */
int uw_cmd_convert(int argc, char **argv);

/* Measure this machine. */
int uw_cmd_bench(int argc, char **argv);

/* A part of bench: ranks on this machine that add up a vector. */
int uw_cmd_bench_allreduce(int argc, char **argv);

/* A part of bench: parameters from node to node over a link. */
int uw_cmd_bench_link(int argc, char **argv);

#endif
