/* SPDX-License-Identifier: Apache-2.0 */
#include "sim.h"
#include "job/job_data.h"
#include "uwasa/node.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define ROW(...) UW_OPT_ROW(struct uw_sim_options, __VA_ARGS__)

#define LATENCY_MAX 3600            /* seconds; keeps microseconds far from overflow */
#define LOSS_MAX 0.9                /* with a higher loss nodes hardly find each other */
#define STEP_SECONDS_MAX 86400

static const struct uw_opt rows[] = {
    ROW("config", UW_OPT_TEXT, config, 0, 0, "FILE",
        "a scenario: devices, links, availability, and these flags as keys; a flag overrides its "
        "key"),
    ROW("scenario", UW_OPT_TEXT, config, 0, 0, "FILE", "the same as --config"),
    ROW("dry-run", UW_OPT_FLAG, dry_run, 0, 0, NULL,
        "show the devices that would be simulated, by groups, and stop"),
    ROW("devices", UW_OPT_FLAG, devices, 0, 0, NULL,
        "list the devices of known speed, with sources, and stop"),
    ROW("nodes", UW_OPT_U32, nodes, 2, 100000, "K", "number of devices (16)"),
    ROW("model", UW_OPT_TEXT, model, 0, 0, "M",
        "built-in name (see uwasa models), ONNX file or JSON file"),
    ROW("data", UW_OPT_TEXT, data, 0, 0, "D",
        "digits, mnist:DIR, csv:FILE ..., as for uwasa train (digits)"),
    ROW("train-loss", UW_OPT_CHOICES, train_loss, 0, 0, UW_LOSS_WORDS,
        "as --loss of uwasa train: what the model learns (auto)"),
    ROW("skew", UW_OPT_TEXT, skew, 0, 0, "S",
        "how samples are divided among nodes: even, sorted or dirichlet:A (even)"),
    ROW("exchange", UW_OPT_CHOICE, exchange.mode, 0, 0, UW_EXCHANGES,
        "gossip: pull from a peer; allreduce: average over all; hierarchical, auto: average in "
        "cells, whose heads pull; broadcast: send to all; with --network formula also push: send "
        "to a peer; push-sum: the same with weights, SGP; relay: RelaySum over a tree (gossip)"),
    ROW("cell-nodes", UW_OPT_U32, cell_nodes, 1, 0, "N",
        "nodes of a cell, with --exchange hierarchical (4)"),
    ROW("period", UW_OPT_U32_PHASES, exchange.period, 1, UW_PERIOD_MOST, "T|auto",
        "least local steps in a round; 100:0.9,10: 100, and 10 after 0.9 of the run; auto: from "
        "the time of exchanges, see share (10)"),
    ROW("share", UW_OPT_REAL, exchange.share, 0.0001, 1, "F",
        "with --period auto: largest share of the time spent on pulls of a node (0.1)"),
    ROW("slices", UW_OPT_U32, exchange.slices, 1, UW_NODE_SLICES_MAX, "F",
        "with --exchange gossip: a round pulls one of F slices of the model (1)"),
    ROW("guard", UW_OPT_CHOICE, exchange.guard, 0, 0, UW_GUARDS,
        "refuse models that are much further away than usual; all: in averages, too, and there "
        "what goes against what is learned (all)"),
    ROW("schedule", UW_OPT_CHOICE, exchange.peers_word, 0, 0, UW_PEER_SCHEDULES,
        "which peer a node pulls from, sends to or is paired with (random; matching with kgt, "
        "exponential with push-sum, tree with relay)"),
    ROW("graph", UW_OPT_TEXT, exchange.graph_file, 0, 0, "FILE",
        "pull from neighbours in a graph: a line of the file has two of node0, node1, ..., which "
        "are linked, and perhaps the weight of the link, else Metropolis'"),
    ROW("pulls", UW_OPT_U32, exchange.pulls, 1, UW_PULLS_MOST, "N",
        "pulls of a round, one after the other, each from the next peer of the schedule (1)"),
    ROW("momentum-rule", UW_OPT_CHOICE, exchange.rule_word, 0, 0, UW_MOMENTUM_RULES,
        "what a round does besides averaging: qg, quasi-global momentum; noloco, slowmo, diloco, "
        "outer momentum; kgt, gradient tracking over pairs; updates, pairs exchange what steps "
        "changed and no parameters, as GossipGraD (qg)"),
    ROW("bandwidth", UW_OPT_U64, bandwidth, 0, 0, "BITS",
        "bits a second that each node can send; receiving is not limited; 0: unlimited "
        "(1000000000)"),
    ROW("latency", UW_OPT_REAL, latency, 0, LATENCY_MAX, "S",
        "seconds from node to node, one way (0.005)"),
    ROW("loss", UW_OPT_REAL, loss, 0, LOSS_MAX, "F",
        "share of messages lost, up to 0.9; over a radio for each receiver; with --network "
        "formula of whole exchanges (0)"),
    ROW("link", UW_OPT_TEXT, link, 0, 0, "RADIO",
        "one channel for all nodes instead of bandwidth and latency: 802154, espnow, lora:SF7"),
    ROW("network", UW_OPT_CHOICE, network, 0, 0, "events|formula",
        "events: the protocols of uwasa node over simulated links; formula: exchanges take the "
        "time of closed formulas (events)"),
    ROW("algorithm", UW_OPT_CHOICE, algorithm, 0, 0, UW_SIM_ALGORITHMS,
        "algorithm of exact averages; ring-study: as printed in the wide-area study (auto: the "
        "fastest)"),
    ROW("ranks", UW_OPT_U32, exchange.ranks, 2, UW_NODE_RANKS_MAX, "N",
        "with --network events: most nodes of one exact average; more average in parts (64)"),
    ROW("model-bytes", UW_OPT_U64, model_bytes, 1, 1e12, "N",
        "with --network formula: size of the model (4 a parameter)"),
    ROW("pull-latencies", UW_OPT_U32, pull_latencies, 1, 2, "N",
        "with --network formula: latencies in a pull, 2 (request and answer) or 1 as in the "
        "study (2)"),
    ROW("pull-waits", UW_OPT_FLAG, pull_waits, 0, 0, NULL,
        "with --network formula: a node that pulls or pushes does no step meanwhile, as in "
        "textbook gossip"),
    ROW("mtu", UW_OPT_BYTES_U32, mtu, 256, 16384, "BYTES",
        "with --network events: largest message (16384)"),
    ROW("pull-window", UW_OPT_BYTES, pull_window, 4096, 1u << 30, "BYTES",
        "pulled data that may wait for the training thread: a local step mixes no more (512K)"),
    ROW("step-seconds", UW_OPT_REAL, step_seconds, 0, STEP_SECONDS_MAX, "S",
        "virtual time of a local step; 0: the time it takes on this machine (0)"),
    ROW("start-spread", UW_OPT_REAL, start_spread, 0, STEP_SECONDS_MAX, "S",
        "devices start at random within S seconds; 0: all at once (a step of each)"),
    ROW("epochs", UW_OPT_U32, epochs, 1, 0, "E", "passes over the data by all nodes together (1)"),
    ROW("steps", UW_OPT_U64, steps, 0, 0, "N",
        "steps of each node, instead of epochs; 0: until --virtual-seconds"),
    ROW("virtual-seconds", UW_OPT_REAL, virtual_seconds, 0, UW_SIM_SECONDS_MAX, "S",
        "stop after this virtual time; 0: no limit (0)"),
    ROW("until-accuracy", UW_OPT_REAL, until_accuracy, 0, 1, "A",
        "stop when a test reaches this accuracy, from 0 to 1"),
    ROW("consensus-rounds", UW_OPT_U32, consensus_rounds, 0, 1000, "N",
        "models that gossip pulls after the last step; with kgt one average over all (1)"),
    ROW("batch", UW_OPT_U32, batch, 1, 0, "B", "samples in a minibatch (32)"),
    ROW("lr", UW_OPT_REAL, lr, 0, 0, "X", "learning rate (0.05)"),
    ROW("lr-schedule", UW_OPT_TEXT, lr_schedule, 0, 0, "S",
        "constant, step:N:F, multistep:N,M:F, cosine, linear, with warmup:STEPS+ in front, as "
        "--schedule of uwasa train (constant)"),
    ROW("momentum", UW_OPT_REAL, exchange.momentum, 0, 1, "X",
        "momentum of the steps (0.9 with qg, else 0)"),
    ROW("nesterov", UW_OPT_FLAG, exchange.nesterov, 0, 0, NULL,
        "Nesterov's momentum, not with qg or kgt"),
    ROW("weight-decay", UW_OPT_REAL, weight_decay, 0, 0, "X", "weight decay (0)"),
    ROW("seed", UW_OPT_U64, seed, 0, 0, "N", "seed of weights, samples and network (1)"),
    ROW("eval-samples", UW_OPT_U32, eval_samples, 0, 0, "N",
        "samples of a test during the run; 0: all. The last test takes all (1000; 300 with "
        "--advise)"),
    ROW("eval-nodes", UW_OPT_U32, eval_nodes, 1, 0, "N",
        "largest number of nodes that are tested (64; 16 with --advise)"),
    ROW("eval-epochs", UW_OPT_U32, eval_epochs, 0, 0, "N",
        "test every N epochs; 0: at the end only (1)"),
    ROW("eval-seconds", UW_OPT_REAL, eval_seconds, 0, 0, "S",
        "also test every S virtual seconds; 0: off (0)"),
    ROW("eval-steps", UW_OPT_U64, eval_steps, 0, 0, "N", "also test every N steps; 0: off (0)"),
    ROW("eval-mixed", UW_OPT_FLAG, eval_mixed, 0, 0, NULL,
        "test after the exchange that follows a step, where nodes wait for it: averages, pairs, "
        "--pull-waits; else models are tested at the end of the step"),
    ROW("threads", UW_OPT_U32, threads, 1, 256, "N",
        "threads that compute steps of nodes; results do not depend on it (one a core)"),
    ROW("backend", UW_OPT_CHOICE, backend, 0, 0, UW_BACKENDS, "kernels (auto)"),
    ROW("advise", UW_OPT_FLAG, advise, 0, 0, NULL,
        "try exchanges, periods, schedules and momentum rules, and recommend one"),
    ROW("advise-seconds", UW_OPT_REAL, advise_seconds, 1, 0, "S",
        "approximate computing time of --advise (60); at least a few steps of all nodes"),
    ROW("advise-runs", UW_OPT_REAL, advise_runs, 0, 1000, "N",
        "the same as a number of whole runs; 0: --advise-seconds counts (0)"),
    ROW("checkpoint", UW_OPT_TEXT, checkpoint, 0, 0, "FILE",
        "save the whole run in this file, during the run and at its end"),
    ROW("checkpoint-seconds", UW_OPT_REAL, checkpoint_seconds, 0, 0, "S",
        "computing time between two checkpoints; 0: at the end only (300)"),
    ROW("resume", UW_OPT_TEXT, resume, 0, 0, "FILE",
        "resume from a checkpoint; all other flags must be the same"),
    ROW("json", UW_OPT_TEXT, json, 0, 0, "FILE|-", "write events as JSON lines"),
    ROW("csv", UW_OPT_TEXT, csv, 0, 0, "FILE", "write a table with a row for each test"),
    ROW("label", UW_OPT_TEXT, label, 0, 0, "TEXT", "name of this run in plots and tables"),
    ROW("profile", UW_OPT_FLAG, profile, 0, 0, NULL, "report where the processor time went"),
    ROW("per-node", UW_OPT_FLAG, per_node, 0, 0, NULL,
        "report the accuracy of every node in events"),
    ROW("timeline", UW_OPT_REAL, timeline, 0, 0, "S",
        "report every step and exchange of the first S virtual seconds in events"),
};

static const struct uw_args_heading headings[] = {
    {"config", "What is simulated"},
    {"exchange", "Exchange"},
    {"bandwidth", "Network"},
    {"step-seconds", "Time and duration"},
    {"batch", "Training"},
    {"eval-samples", "Tests"},
    {"threads", "Computing"},
    {"advise", "Advice"},
    {"checkpoint", "Checkpoints"},
    {"json", "Results"},
    {NULL, NULL}};

/* Flags of this process, not of the run. */
#define OF_PROCESS \
    "|config|scenario|advise|advise-seconds|advise-runs|dry-run|devices|json|csv|resume|"

static const char *const facts[] = {
    [UW_SIM_FLAG_NO_KEY] = OF_PROCESS "nodes|cell-nodes|bandwidth|latency|loss|step-seconds|",
    [UW_SIM_FLAG_FREE] = OF_PROCESS "label|profile|threads|per-node|checkpoint|checkpoint-seconds|"
                         "timeline|eval-samples|eval-nodes|eval-epochs|eval-seconds|eval-steps|"
                         "eval-mixed|until-accuracy|",
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
        "The nodes run the protocols of uwasa node, without encryption, and train for real. Only\n"
        "time is simulated. test_accuracy is the mean over the nodes, each with its own model;\n"
        "mean_model_accuracy is that of the mean of all models, which the exact average at\n"
        "the end\n"
        "of a run gives. virtual_seconds start when all nodes know each other. With\n"
        "--step-seconds\n"
        "the same flags give the same run, bit for bit, on one machine. --advise ranks candidates\n"
        "by the virtual time to --until-accuracy, or else to 98 % of the best accuracy, within\n"
        "--virtual-seconds. Exchange, period, schedule and momentum rule are fixed where the\n"
        "command line gives them; those of a file are only tried.\n"
        "Example scenarios are in tools/experiments/scenarios, their keys in apps/sim/README.md.\n"
        "`uwasa sim time --help` lists the flags of speed-ups without training.",
    .opts = {rows, sizeof rows / sizeof rows[0]},
    .headings = headings,
};
