/* SPDX-License-Identifier: Apache-2.0 */
#include "base/args.h"
#include "base/commands.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void print_help(FILE *out)
{
    fputs("uwasa: neural networks that learn where the data is, together and without a server\n\n"
          "Usage: uwasa COMMAND [flags]\n\n",
          out);
    for (uint32_t i = 0; i < uw_commands_n; i++) {
        if (uw_commands[i].summary != NULL) {
            fprintf(out, "  %-8s %s\n", uw_commands[i].name, uw_commands[i].summary);
        }
    }
    fprintf(out,
            "\nuwasa COMMAND --help lists the flags of a command. Start with: %s\n"
            "Exit status: 0 done, 1 failed, 2 wrong use. SIGINT and SIGTERM end training, tests\n"
            "and simulations with 0 if the state is saved, else 1, and other commands at once,\n"
            "which shells show as 130 and 143.\n",
            uw_commands_start);
}

static int unknown_command(const char *word)
{
    struct uw_guess g = {.word = word, .word_bytes = strlen(word)};
    for (uint32_t i = 0; i < uw_commands_n; i++) {
        uw_guess_try(&g, uw_commands[i].name, strlen(uw_commands[i].name));
    }
    return uw_cli_error("", UW_EXIT_USAGE, "%s: no such command%s", word,
                        uw_guess_hint(&g, "", ", see uwasa --help"));
}

/* Whether nobody reads standard output any more, as behind `| head`. */
static bool has_no_reader(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

/* Results that could not be written make the command fail, without a word where nobody reads. */
static int finish(const char *command, int status)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        if (has_no_reader()) {
            return status != UW_EXIT_DONE ? status : UW_EXIT_FAILED;
        }
        return status != UW_EXIT_DONE ? status
                                      : uw_cli_error(command, UW_EXIT_FAILED,
                                                     "standard output cannot be written");
    }
    return status;
}

/* argv[0] is the command. */
static int run(int argc, char **argv)
{
    for (uint32_t i = 0; i < uw_commands_n; i++) {
        if (strcmp(argv[0], uw_commands[i].name) == 0) {
            return finish(argv[0], uw_commands[i].run(argc, argv));
        }
    }
    if (argv[0][0] == '-') {
        return uw_cli_error("", UW_EXIT_USAGE, "%s: no such flag, see uwasa --help", argv[0]);
    }
    return unknown_command(argv[0]);
}

/* If a standard descriptor is closed, the next file opened would take its number and get the
 * program's messages. So open /dev/null there, for reading: writes still fail. */
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
    signal(SIGXFSZ, SIG_IGN); /* exceeding a file size limit is a failed write, not a crash */
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
