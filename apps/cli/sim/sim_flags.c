/* SPDX-License-Identifier: Apache-2.0 */
#include "sim.h"
#include "job/job.h"
#include "uwasa/node.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define ROW(...) UW_OPT_ROW(struct uw_sim_options, __VA_ARGS__)

#define LATENCY_MAX 3600            /* seconds; keeps microseconds far from overflow */
#define LOSS_MAX 0.9                /* with more nodes hardly meet */
#define STEP_SECONDS_MAX 86400

static const struct uw_opt rows[] = {
    ROW("config", UW_OPT_TEXT, config, 0, 0, "FILE",
        "a scenario: devices, links, who sleeps, these flags as keys; a flag wins"),
    ROW("scenario", UW_OPT_TEXT, config, 0, 0, "FILE", "the same as --config"),
    ROW("dry-run", UW_OPT_FLAG, dry_run, 0, 0, NULL,
        "only show the devices that are drawn, by groups, and run nothing"),
    ROW("devices", UW_OPT_FLAG, devices, 0, 0, NULL,
        "only list the devices whose speed is known, with sources"),
    ROW("nodes", UW_OPT_U32, nodes, 2, 100000, "K", "devices (16)"),
    ROW("model", UW_OPT_TEXT, model, 0, 0, "M",
        "built-in name (see uwasa models), ONNX file or JSON file"),
    ROW("data", UW_OPT_TEXT, data, 0, 0, "D",
        "digits, mnist:DIR, csv:FILE ..., as for uwasa train (digits)"),
    ROW("skew", UW_OPT_TEXT, skew, 0, 0, "S",
        "who holds which samples: even, sorted or dirichlet:A (even)"),
    ROW("exchange", UW_OPT_CHOICE, exchange.mode, 0, 0, UW_NODE_MODES,
        "pull, average over all, over cells whose heads pull, or by sending to all (gossip)"),
    ROW("cell-nodes", UW_OPT_U32, cell_nodes, 1, 0, "N",
        "nodes of a cell, for --exchange hierarchical (4)"),
    ROW("period", UW_OPT_U32_AUTO, exchange.period, 1, UW_PERIOD_MOST, "T|auto",
        "local steps a round, at least; auto: from what exchanges take, see share (10)"),
    ROW("share", UW_OPT_REAL, exchange.share, 0.0001, 1, "F",
        "of the time that a node's pulls may take, with --period auto (0.1)"),
    ROW("slices", UW_OPT_U32, exchange.slices, 1, UW_NODE_SLICES_MAX, "F",
        "a round pulls one of F slices of the model, for --exchange gossip (1)"),
    ROW("schedule", UW_OPT_CHOICE, exchange.peers_word, 0, 0, UW_PEER_SCHEDULES,
        "whom a node pulls from, or is paired with (random; matching with kgt)"),
    ROW("momentum-rule", UW_OPT_CHOICE, exchange.rule_word, 0, 0, UW_MOMENTUM_RULES,
        "what a round does beside averaging (qg)"),
    ROW("bandwidth", UW_OPT_U64, bandwidth, 0, 0, "BITS",
        "a second that each node can send, not receive; 0: unlimited (1000000000)"),
    ROW("latency", UW_OPT_REAL, latency, 0, LATENCY_MAX, "S",
        "seconds from node to node, one way (0.005)"),
    ROW("loss", UW_OPT_REAL, loss, 0, LOSS_MAX, "F",
        "share of the messages that is lost, up to 0.9; of a radio: for each who hears (0)"),
    ROW("link", UW_OPT_TEXT, link, 0, 0, "RADIO",
        "one channel for all, in place of bandwidth and latency: 802154, espnow, lora:SF7"),
    ROW("network", UW_OPT_CHOICE, network, 0, 0, "events|formula",
        "the shipped protocols over simulated links, or the closed costs of exchanges (events)"),
    ROW("algorithm", UW_OPT_CHOICE, algorithm, 0, 0, UW_SIM_ALGORITHMS,
        "of exact averages; ring-study: as the wide-area study prints it (auto: the fastest)"),
    ROW("model-bytes", UW_OPT_U64, model_bytes, 1, 1e12, "N",
        "that --network formula takes a model to have (4 a parameter)"),
    ROW("pull-latencies", UW_OPT_U32, pull_latencies, 1, 2, "N",
        "of a pull with --network formula: 2, question and answer, or 1 as the study counts (2)"),
    ROW("pull-waits", UW_OPT_FLAG, pull_waits, 0, 0, NULL,
        "with --network formula: whoever pulls does no step meanwhile, as plain gossip is written"),
    ROW("mtu", UW_OPT_BYTES_U32, mtu, 256, 16384, "BYTES",
        "largest message of --network events (16384)"),
    ROW("pull-window", UW_OPT_BYTES, pull_window, 4096, 1u << 30, "BYTES",
        "what a pull moves during a local step at most (512K)"),
    ROW("step-seconds", UW_OPT_REAL, step_seconds, 0, STEP_SECONDS_MAX, "S",
        "virtual time of a local step; 0: as long as here (0)"),
    ROW("start-spread", UW_OPT_REAL, start_spread, 0, STEP_SECONDS_MAX, "S",
        "devices begin at random within so many seconds; 0: all at once (a step of each)"),
    ROW("epochs", UW_OPT_U32, epochs, 1, 0, "E", "passes over the data by all together (1)"),
    ROW("steps", UW_OPT_U64, steps, 0, 0, "N",
        "of each node, instead of epochs; 0: until --virtual-seconds"),
    ROW("virtual-seconds", UW_OPT_REAL, virtual_seconds, 0, UW_SIM_SECONDS_MAX, "S",
        "end with the first step that ends so late; 0: no limit (0)"),
    ROW("until-accuracy", UW_OPT_REAL, until_accuracy, 0, 1, "A",
        "end with the test that reaches it, from 0 to 1"),
    ROW("consensus-rounds", UW_OPT_U32, consensus_rounds, 0, 1000, "N",
        "models to pull by gossip after the last step; with kgt one average over all (1)"),
    ROW("batch", UW_OPT_U32, batch, 1, 0, "B", "samples in a minibatch (32)"),
    ROW("lr", UW_OPT_REAL, lr, 0, 0, "X", "learning rate (0.05)"),
    ROW("lr-schedule", UW_OPT_TEXT, lr_schedule, 0, 0, "S",
        "constant, cosine, linear, as --schedule of uwasa train (constant)"),
    ROW("momentum", UW_OPT_REAL, exchange.momentum, 0, 1, "X",
        "of the steps (0.9 with qg, else 0)"),
    ROW("weight-decay", UW_OPT_REAL, weight_decay, 0, 0, "X", "(0)"),
    ROW("seed", UW_OPT_U64, seed, 0, 0, "N", "of weights, samples and network (1)"),
    ROW("eval-samples", UW_OPT_U32, eval_samples, 0, 0, "N",
        "of a node's test on the way; 0: all. The last test takes all (1000, 300 to advise)"),
    ROW("eval-nodes", UW_OPT_U32, eval_nodes, 1, 0, "N",
        "whose models are tested, at most, spread evenly (64, 16 to advise)"),
    ROW("eval-epochs", UW_OPT_U32, eval_epochs, 0, 0, "N",
        "test after every N epochs; 0: after none, only at the end (1)"),
    ROW("eval-seconds", UW_OPT_REAL, eval_seconds, 0, 0, "S",
        "test every S virtual seconds too; 0: do not (0)"),
    ROW("eval-steps", UW_OPT_U64, eval_steps, 0, 0, "N", "test every N steps too; 0: do not (0)"),
    ROW("threads", UW_OPT_U32, threads, 1, 256, "N",
        "nodes' steps computed at a time; any number gives the same run (one a core)"),
    ROW("backend", UW_OPT_CHOICE, backend, 0, 0, UW_BACKENDS, "kernels (auto)"),
    ROW("advise", UW_OPT_FLAG, advise, 0, 0, NULL,
        "try exchanges, periods, schedules and momentum rules, and say which to use"),
    ROW("advise-seconds", UW_OPT_REAL, advise_seconds, 1, 0, "S",
        "of computing that --advise may take, about (60); a few steps of all nodes at least"),
    ROW("advise-runs", UW_OPT_REAL, advise_runs, 0, 1000, "N",
        "the same in whole runs, whatever they take; 0: the seconds count (0)"),
    ROW("checkpoint", UW_OPT_TEXT, checkpoint, 0, 0, "FILE",
        "save the whole run there when it ends or is stopped, and now and then"),
    ROW("checkpoint-seconds", UW_OPT_REAL, checkpoint_seconds, 0, 0, "S",
        "of computing between two; 0: at the end only (300)"),
    ROW("resume", UW_OPT_TEXT, resume, 0, 0, "FILE",
        "go on from a checkpoint; the other flags must be the same"),
    ROW("json", UW_OPT_TEXT, json, 0, 0, "FILE|-", "write events as JSON lines"),
    ROW("csv", UW_OPT_TEXT, csv, 0, 0, "FILE", "write a table with a row for each test"),
    ROW("label", UW_OPT_TEXT, label, 0, 0, "TEXT", "what plots and tables call this run"),
    ROW("profile", UW_OPT_FLAG, profile, 0, 0, NULL, "tell where the processors' time went"),
    ROW("per-node", UW_OPT_FLAG, per_node, 0, 0, NULL, "events tell the accuracy of every node"),
    ROW("timeline", UW_OPT_REAL, timeline, 0, 0, "S",
        "events tell who exchanged when, and every step, in the first S virtual seconds"),
};

static const struct uw_args_heading headings[] = {
    {"config", "What is simulated"},
    {"exchange", "How nodes learn from each other"},
    {"bandwidth", "Network"},
    {"step-seconds", "Time, and the end"},
    {"batch", "Training"},
    {"eval-samples", "Tests"},
    {"threads", "Computing here"},
    {"advise", "Advice instead of one run"},
    {"checkpoint", "Keeping a run"},
    {"json", "Results"},
    {NULL, NULL}};

/* Flags of this process, not of the run. */
#define OF_PROCESS \
    "|config|scenario|advise|advise-seconds|advise-runs|dry-run|devices|json|csv|resume|"

static const char *const facts[] = {
    [UW_SIM_FLAG_NO_KEY] = OF_PROCESS "nodes|cell-nodes|bandwidth|latency|loss|step-seconds|",
    [UW_SIM_FLAG_FREE] = OF_PROCESS "label|profile|threads|per-node|checkpoint|checkpoint-seconds|"
                         "timeline|eval-samples|eval-nodes|eval-epochs|eval-seconds|eval-steps|"
                         "until-accuracy|",
    [UW_SIM_FLAG_UNTOLD] = OF_PROCESS "label|profile|threads|per-node|checkpoint|"
                           "checkpoint-seconds|epochs|"};

bool uw_sim_flag_is(enum uw_sim_flag_fact fact, const char *flag)
{
    char quoted[40];
    snprintf(quoted, sizeof quoted, "|%s|", flag);
    return strstr(facts[fact], quoted) != NULL;
}

const struct uw_opts uw_sim_flags = {rows, sizeof rows / sizeof rows[0]};

const struct uw_args_spec uw_sim_args = {
    .command = "sim",
    .summary = "simulate a run: many nodes, a network, a virtual clock",
    .usage = "[--advise] --config FILE | --model M [--nodes K] [--data D] [flags]",
    .example = "uwasa sim --model mlp --nodes 16 --skew sorted --period 10 --step-seconds 0.01",
    .epilogue =
        "The nodes run the very protocols of uwasa node, without encryption, and train for real;\n"
        "only time is simulated. test_accuracy is the mean over the nodes, each with its own\n"
        "model; mean_model_accuracy is that of all models' mean, which the exact average at the\n"
        "end of a run leaves. virtual_seconds begin when all nodes know each other. With\n"
        "--step-seconds the same flags give the same run, bit for bit, on one machine.\n"
        "--advise judges candidates by the virtual time to --until-accuracy, else to 98 % of the\n"
        "best one's accuracy, within --virtual-seconds; what the command line says of exchange,\n"
        "period, schedule and momentum rule stays, what a file says of them does not.\n"
        "Scenarios to begin with are in tools/experiments/scenarios; their keys are in\n"
        "apps/sim/README.md.\n"
        "`uwasa sim time --help` tells the flags of speed-ups without training.",
    .opts = {rows, sizeof rows / sizeof rows[0]},
    .headings = headings,
};
