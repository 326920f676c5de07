/* SPDX-License-Identifier: Apache-2.0
 *
 * commands.h - one function per command
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
    const char *summary;        /* NULL: not in this build; run prints an error */
};

/* All commands, in the order of --help, and the command for beginners. */
extern const struct uw_command uw_commands[];
extern const uint32_t uw_commands_n;
extern const char *const uw_commands_start;

int uw_cmd_train(int argc, char **argv);
int uw_cmd_eval(int argc, char **argv);
int uw_cmd_predict(int argc, char **argv);
int uw_cmd_plan(int argc, char **argv);
int uw_cmd_models(int argc, char **argv);
int uw_cmd_keygen(int argc, char **argv);
int uw_cmd_node(int argc, char **argv);
int uw_cmd_status(int argc, char **argv);
int uw_cmd_sim(int argc, char **argv);
int uw_cmd_sim_time(int argc, char **argv);         /* part of sim */
int uw_cmd_demo(int argc, char **argv);
int uw_cmd_convert(int argc, char **argv);
int uw_cmd_bench(int argc, char **argv);
int uw_cmd_bench_allreduce(int argc, char **argv);  /* part of bench, as the next */
int uw_cmd_bench_link(int argc, char **argv);

#endif
