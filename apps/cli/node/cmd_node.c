/* SPDX-License-Identifier: Apache-2.0 */
#include "node_config.h"
#include "base/commands.h"
#include "job/job.h"

#include <stdio.h>
#include <string.h>

struct options {
    const char *config, *json;
    struct uw_opt_sets set;
};

static const struct uw_opt rows[] = {
    {"config", UW_OPT_TEXT, offsetof(struct options, config), 0, 0, "FILE",
     "configuration of the node as JSON; its keys are below"},
    {"set", UW_OPT_SET, offsetof(struct options, set), 0, 0, "KEY=VALUE",
     "sets a key, as --KEY VALUE and --KEY=VALUE do; overrides the file; may be repeated"},
    {"json", UW_OPT_TEXT, offsetof(struct options, json), 0, 0, "FILE|-",
     "append events as JSON lines; SIGHUP opens the file again"},
};

static const struct uw_args_spec spec = {
    .command = "node",
    .summary = "join a run: train on the data of this device, exchange parameters with others",
    .usage = "[--config FILE] [--KEY VALUE ...] [--set KEY=VALUE ...] [--json FILE|-]",
    .example = "uwasa node --config node.json --seeds 10.0.0.9:4433",
    .epilogue = "name, run, key and model are required; the default of every other key is in "
                "brackets. Every key\nworks as a flag, too: uwasa node --config node.json "
                "--period 5. The first node needs a known\nport, the others its address:\n"
                "  {\"name\": \"attic\", \"run\": \"home\", \"key\": \"run.key\", \"model\": "
                "\"lenet5\", \"listen\": \":4433\"}\n"
                "  {\"name\": \"cellar\", \"run\": \"home\", \"key\": \"run.key\", \"model\": "
                "\"lenet5\", \"seeds\": [\"10.0.0.9:4433\"]}\n"
                "Over MPI one configuration serves all ranks: {rank} and {size} in texts become "
                "numbers. A name\nor a file to write without {rank} gets the rank added:\n"
                "  mpirun -n 4 uwasa node --link mpi --name n --run r --model lenet5 --exchange "
                "allreduce\n"
                "In the file \"emulate.x\" may be \"emulate\": {\"x\": ...}; \"link.x\" likewise. "
                "Paths are relative to\nthe working directory. SIGINT and SIGTERM save and stop "
                "within a second; a second signal\nstops at once.",
    .opts = {rows, sizeof rows / sizeof rows[0]},
    .keys = &uw_node_keys,
    .keys_at = offsetof(struct options, set),
};

int uw_cmd_node(int argc, char **argv)
{
    struct options o = {.config = NULL};
    struct uw_error err = {.text = ""};
    struct uw_node_file file;
    int status = uw_args_parse(&spec, argc, argv, &o, NULL);
    if (status == UW_EXIT_DONE) { /* it was asked for help */
        printf("\nKeys of the configuration, each also a flag, such as --period 5:\n\n");
        uw_opts_print(uw_node_keys, true);
    }
    if (status >= 0) {
        return status;
    }
    if (o.config == NULL && o.set.n == 0) {
        return uw_cli_error("node", UW_EXIT_USAGE, "needs --config FILE, or "
                            "--name, --run, --key and --model; see uwasa node --help");
    }
    int rc = uw_node_config_load(&file, o.config, &o.set, &err);
    if (rc < 0) {
        status = uw_cli_error("node", uw_job_exit(rc), "%s", err.text);
    } else {
        file.o.events = o.json != NULL ? o.json : file.o.events;
        bool bare = file.o.pcap != NULL && strcmp(file.o.pcap, "-") == 0;
        status = bare ? uw_cli_error("node", UW_EXIT_USAGE, "--pcap -: needs the name of a file, "
                                     "or of a pipe (mkfifo) that is being read")
                      : uw_node_run(&file);
    }
    uw_node_config_deinit(&file);
    return status;
}
