/* SPDX-License-Identifier: Apache-2.0 */
#include "node_config.h"
#include "node_run.h"
#include "base/commands.h"
#include "job/job.h"

#include <stdio.h>
#include <string.h>

struct options {
    const char *config, *json, *link, *trace, *pcap;
    struct uw_opt_list set;
};

static const struct uw_opt rows[] = {
    {"config", UW_OPT_TEXT, offsetof(struct options, config), 0, 0, "FILE",
     "what the node is told, as JSON; the keys are below"},
    {"set", UW_OPT_LIST, offsetof(struct options, set), 0, 0, "KEY=VALUE",
     "one key, instead of or over the file; may be repeated"},
    {"link", UW_OPT_CHOICE, offsetof(struct options, link), 0, 0, "udp|tcp|mpi|serial|bus|radio",
     "the key of that name; the last three need more: --set link.serial=DEVICE and the like"},
    {"json", UW_OPT_TEXT, offsetof(struct options, json), 0, 0, "FILE|-",
     "write events as JSON lines"},
    {"trace", UW_OPT_TEXT, offsetof(struct options, trace), 0, 0, "FILE",
     "write what happens when, for chrome://tracing and ui.perfetto.dev"},
    {"pcap", UW_OPT_TEXT, offsetof(struct options, pcap), 0, 0, "FILE",
     "write what goes over the wire, for Wireshark; see uwasa/link_capture.h"},
};

static const struct uw_args_spec spec = {
    .command = "node",
    .summary = "join a run: train on this device's data, and learn from the other nodes",
    .usage = "--config FILE [--set KEY=VALUE ...] [--link L] [--json FILE|-] [--trace FILE] "
             "[--pcap FILE]",
    .example = "uwasa node --config node.json --set seeds=10.0.0.9:4433",
    .epilogue = "name, run, key and model are needed, every other key may be left out (its default "
                "in\nbrackets). The first node needs a port that others know, the others its "
                "address:\n"
                "  {\"name\": \"attic\", \"run\": \"home\", \"key\": \"run.key\", \"model\": "
                "\"lenet5\", \"listen\": \":4433\"}\n"
                "  {\"name\": \"cellar\", \"run\": \"home\", \"key\": \"run.key\", \"model\": "
                "\"lenet5\", \"seeds\": [\"10.0.0.9:4433\"]}\n"
                "Over MPI one configuration serves all ranks: {rank} and {size} in texts become "
                "numbers, and a\nname or a file to write without {rank} gets it:\n"
                "  mpirun -n 4 uwasa node --link mpi --set name=n --set run=r --set model=lenet5 "
                "--set exchange=allreduce\n"
                "An \"emulate.x\" stands for \"emulate\": {\"x\": ...}, \"link.x\" likewise. Files "
                "are looked for from the\nworking directory. SIGINT and SIGTERM save and end "
                "within a second; a second one ends at once.",
    .opts = {rows, sizeof rows / sizeof rows[0]},
};

/* A line, a bus and a radio have names of their own. Returns an exit status, -1: another link. */
static int check_link(const char *link)
{
    static const struct {
        const char *link, *set;
    } named[] = {{"serial", "--set link.serial=/dev/ttyACM0"},
                 {"bus", "--set link.bus=/dev/ttyUSB0 --set link.address=3"},
                 {"radio", "--set link.radio=udp:239.255.85.87:4785 --set link.address=3"}};
    for (size_t i = 0; link != NULL && i < sizeof named / sizeof named[0]; i++) {
        if (strcmp(link, named[i].link) == 0) {
            return uw_cli_error("node", UW_EXIT_USAGE, "--link %s: say which one in its place, %s",
                                link, named[i].set);
        }
    }
    return -1;
}

int uw_cmd_node(int argc, char **argv)
{
    struct options o = {.config = NULL};
    struct uw_error err = {.text = ""};
    struct uw_node_file file;
    int status = uw_args_parse(&spec, argc, argv, &o, NULL);
    if (status == UW_EXIT_DONE) { /* it was asked for help */
        printf("\nKeys of the configuration:\n\n");
        uw_opts_print(uw_node_keys, true);
    }
    if (status >= 0) {
        return status;
    }
    status = check_link(o.link);
    if (status >= 0) {
        return status;
    }
    if (o.config == NULL && o.set.n == 0) {
        return uw_cli_error("node", UW_EXIT_USAGE, "--config: is needed, see uwasa node --help");
    }
    char link[16];
    if (o.link != NULL && o.set.n == UW_OPT_LIST_MAX) {
        return uw_cli_error("node", UW_EXIT_USAGE, "--link: is one --set too many, %d are allowed",
                            UW_OPT_LIST_MAX);
    }
    if (o.link != NULL) {
        snprintf(link, sizeof link, "link=%s", o.link);
        o.set.item[o.set.n++] = link;
    }
    int rc = uw_node_config_load(&file, o.config, &o.set, &err);
    if (rc < 0) {
        status = uw_cli_error("node", uw_job_exit(rc), "%s", err.text);
    } else {
        file.o.events = o.json != NULL ? o.json : file.o.events;
        file.o.trace = o.trace != NULL ? o.trace : file.o.trace;
        file.o.pcap = o.pcap != NULL ? o.pcap : file.o.pcap;
        bool bare = file.o.pcap != NULL && strcmp(file.o.pcap, "-") == 0;
        status = bare ? uw_cli_error("node", UW_EXIT_USAGE, "--pcap -: needs the name of a file, "
                                     "or of a pipe (mkfifo) that is being read")
                      : uw_node_run(&file);
    }
    uw_node_config_deinit(&file);
    return status;
}
