/* SPDX-License-Identifier: Apache-2.0 */
#include "args.h"
#include "commands.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} commands[] = {
    {"demo", uw_cmd_demo, "four devices learn together on this machine, in a minute"},
    {"train", uw_cmd_train, "train a model on this device"},
    {"eval", uw_cmd_eval, "test a model's weights"},
    {"plan", uw_cmd_plan, "tell the memory of a model, before anything runs"},
    {"node", uw_cmd_node, "join a run: train, and learn from the other nodes"},
    {"status", uw_cmd_status, "show a run as one of its nodes sees it"},
    {"sim", uw_cmd_sim, "simulate a run: many nodes, a network, a virtual clock"},
    {"keygen", uw_cmd_keygen, "make the key of a run"},
    {"models", uw_cmd_models, "list the built-in models"},
    {"convert", uw_cmd_convert, "read a model from ONNX; write a trained one as ONNX or C"},
    {"bench", uw_cmd_bench, "measure this machine"},
};
#define COMMANDS_N (sizeof commands / sizeof commands[0])

static void print_help(FILE *out)
{
    fputs("uwasa: neural networks that learn where the data is, together and without a server\n\n"
          "Usage: uwasa COMMAND [flags]\n\n",
          out);
    for (size_t i = 0; i < COMMANDS_N; i++) {
        fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].summary);
    }
    fputs("\nuwasa COMMAND --help tells a command's flags. Start with: uwasa demo\n"
          "Exit status: 0 done, 1 failed, 2 wrong use.\n",
          out);
}

static int unknown_command(const char *word)
{
    struct uw_guess g = {.word = word, .word_bytes = strlen(word)};
    for (size_t i = 0; i < COMMANDS_N; i++) {
        uw_guess_try(&g, commands[i].name, strlen(commands[i].name));
    }
    if (g.nearest != NULL) {
        return uw_cli_error("", UW_EXIT_USAGE, "%s: no such command, did you mean %s?", word,
                            g.nearest);
    }
    return uw_cli_error("", UW_EXIT_USAGE, "%s: no such command, see uwasa --help", word);
}

/* Results that could not be written are a failure, even when everything else went well. */
static int finish(const char *command, int status)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        return status != UW_EXIT_DONE ? status
                                      : uw_cli_error(command, UW_EXIT_FAILED,
                                                     "standard output cannot be written");
    }
    return status;
}

/* argv[0] is the command. */
static int run(int argc, char **argv)
{
    for (size_t i = 0; i < COMMANDS_N; i++) {
        if (strcmp(argv[0], commands[i].name) == 0) {
            return finish(argv[0], commands[i].run(argc, argv));
        }
    }
    if (argv[0][0] == '-') {
        return uw_cli_error("", UW_EXIT_USAGE, "%s: no such flag, see uwasa --help", argv[0]);
    }
    return unknown_command(argv[0]);
}

/* A file opened on a standard descriptor that was closed would get the program's messages. Reading
 * /dev/null there, a write still fails. */
static void hold_standard_descriptors(void)
{
    int fd = open("/dev/null", O_RDONLY);
    while (fd >= 0 && fd <= STDERR_FILENO) {
        fd = open("/dev/null", O_RDONLY);
    }
    if (fd >= 0) {
        close(fd);
    }
}

int main(int argc, char **argv)
{
    hold_standard_descriptors();
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file that outgrows its limit is a failed write, no crash */
    if (argc < 2) {
        print_help(stderr);
        return UW_EXIT_USAGE;
    }
    const char *word = argv[1];
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 ||
        (strcmp(word, "help") == 0 && argc == 2)) {
        print_help(stdout);
        return finish("", UW_EXIT_DONE);
    }
    if (strcmp(word, "--version") == 0 || strcmp(word, "version") == 0) {
        printf("uwasa %s\n", UWASA_VERSION);
        return finish("", UW_EXIT_DONE);
    }
    if (strcmp(word, "help") == 0) {
        char flag[] = "--help";
        return run(2, (char *[]){argv[2], flag, NULL});
    }
    return run(argc - 1, argv + 1);
}
