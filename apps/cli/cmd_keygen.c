/* SPDX-License-Identifier: Apache-2.0 */
#include "base/commands.h"
#include "links/keyfile.h"


struct options {
    bool force;
};

static const struct uw_opt rows[] = {
    {"force", UW_OPT_FLAG, offsetof(struct options, force), 0, 0, NULL,
     "replace the file if there is one"},
};

static const struct uw_args_spec spec = {
    .command = "keygen",
    .summary = "make the key of a run, which all of its nodes share",
    .usage = "FILE [--force]",
    .example = "uwasa keygen run.key",
    .epilogue = "The file holds 64 hex digits, and only its owner can read it. Every device that "
                "has it can\njoin the run.",
    .opts = {rows, sizeof rows / sizeof rows[0]},
    .positional_max = 1,
};

int uw_cmd_keygen(int argc, char **argv)
{
    struct options o = {.force = false};
    struct uw_error err = {.text = ""};
    const char *file = NULL;
    int status = uw_args_parse(&spec, argc, argv, &o, &file);
    if (status >= 0) {
        return status;
    }
    if (file == NULL) {
        return uw_cli_error("keygen", UW_EXIT_USAGE, "FILE: is needed, uwasa keygen run.key");
    }
    if (uw_keyfile_create(file, o.force, &err) < 0) {
        return uw_cli_error("keygen", UW_EXIT_FAILED, "%s", err.text);
    }
    return UW_EXIT_DONE;
}
