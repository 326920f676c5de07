/* SPDX-License-Identifier: Apache-2.0
 *
 * Every key, with what it allows and its line of help; and the defaults. */
#include "node_config.h"

#include "job/job_data.h"
#include "job/job_weights.h"

#include "uwasa/radio.h"

#define ROW(...) UW_OPT_ROW(struct uw_node_options, __VA_ARGS__)

#define PULL_WINDOW_MAX (1u << 30)  /* fits a size_t of 32 bits */
#define STEP_SECONDS_MAX 86400
#define SECONDS_MAX 1e9             /* 30 years: microseconds and their sums fit */

static const struct uw_opt rows[] = {
    ROW("name", UW_OPT_TEXT, name, 0, 0, "TEXT", "name of this node, unique in the run"),
    ROW("run", UW_OPT_TEXT, run, 0, 0, "TEXT", "name of the run; other runs are refused"),
    ROW("key", UW_OPT_TEXT, key, 0, 0, "FILE", "key of the run or of this device, from "
        "uwasa keygen; SIGHUP loads it again"),
    ROW("link", UW_OPT_CHOICE, link, 0, 0, "udp|tcp|mpi",
        "UDP with DTLS; TCP with TLS, for large models on good networks; ranks of mpirun (udp)"),
    ROW("link.serial", UW_OPT_TEXT, link_serial, 0, 0, "DEVICE",
        "a serial line with DTLS to one other node, \"link\": {\"serial\": \"/dev/ttyACM0\"}"),
    ROW("link.bus", UW_OPT_TEXT, link_bus, 0, 0, "DEVICE",
        "a serial line shared by many nodes (RS-485); each has an \"address\""),
    ROW("link.baud", UW_OPT_U32, link_baud, 1200, 4000000, "N",
        "bits a second of either line (115200)"),
    ROW("link.radio", UW_OPT_TEXT, link_radio, 0, 0, "udp:GROUP:PORT",
        "multicast in place of a radio, \"link\": {\"radio\": \"udp:239.255.85.87:4785\", "
        "\"address\": 3}"),
    ROW("link.interface", UW_OPT_TEXT, link_interface, 0, 0, "ADDRESS",
        "network interface of link.radio, an IPv4 address of this machine (127.0.0.1)"),
    ROW("link.address", UW_OPT_U32, link_address, 0, UW_RADIO_ADDRESS_MAX, "N",
        "address of this node on a radio or a bus, unique there"),
    ROW("tls", UW_OPT_FLAG, tls, 0, 0, NULL, "TCP is encrypted and peers are authenticated (true)"),
    ROW("listen", UW_OPT_TEXT, listen, 0, 0, "ADDRESS",
        "address to bind, \"10.0.0.2:4433\" or \"[::]:4433\"; port 0: any (:0)"),
    ROW("advertise", UW_OPT_TEXT, advertise, 0, 0, "ADDRESS",
        "address at which peers reach this node (the one that they see)"),
    ROW("seeds", UW_OPT_LIST, seeds, 0, 0, "ADDRESSES",
        "addresses of the first peers, [\"10.0.0.9:4433\", ...]; as a flag once for each"),
    ROW("membership", UW_OPT_CHOICE, membership, 0, 0, "swim|static",
        "swim: peers are found and pinged; static: the peers are the seeds, not pinged, for "
        "gossip (swim)"),
    ROW("model", UW_OPT_TEXT, model, 0, 0, "M", "built-in name, ONNX file or JSON file"),
    UW_JOB_ONNX_ROWS(struct uw_node_options),
    ROW("data", UW_OPT_TEXT, data, 0, 0, "D", "as for uwasa train (digits)"),
    ROW("loss", UW_OPT_CHOICES, loss, 0, 0, UW_LOSS_WORDS, UW_LOSS_HELP),
    ROW("classes", UW_OPT_BITS, classes_mask, 0, 0, "NUMBERS",
        "train on these classes only, [0, 1, 2] or 0,1,2 (all)"),
    ROW("shard", UW_OPT_TEXT, shard, 0, 0, "I/K", "train on part I of K, I from 0 (all)"),
    ROW("skew", UW_OPT_TEXT, skew, 0, 0, "S",
        "how samples are divided into the K parts of \"shard\": even, sorted or dirichlet:A, "
        "drawn by \"seed\", as uwasa sim --skew divides them (every K-th sample)"),
    ROW("shuffle", UW_OPT_REAL, shuffle, 0, 0.5, "X",
        "largest share of the samples to lend to peers in exchange for theirs; 0: no sample "
        "leaves this node (0)"),
    ROW("shuffle_seconds", UW_OPT_REAL, shuffle_seconds, 0.5, 86400, "S",
        "term of a lease; the same on all nodes, in every start (30)"),
    ROW("batch", UW_OPT_U32, batch, 1, 0, "B", "samples in a minibatch (32)"),
    ROW("lr", UW_OPT_REAL, lr, 0, 0, "X", "learning rate (0.05)"),
    ROW("momentum_rule", UW_OPT_CHOICE, exchange.rule_word, 0, 0, UW_MOMENTUM_RULES,
        "qg: quasi-global momentum; noloco: over whole rounds; slowmo, diloco: over whole rounds "
        "of averages; kgt: gradient tracking over pairs; updates: pairs exchange what steps "
        "changed, no parameters, as GossipGraD; none: of the steps alone (qg; none where "
        "gradients are averaged)"),
    ROW("momentum", UW_OPT_REAL, exchange.momentum, 0, 1, "X",
        "momentum of the steps (0.9 with qg, else 0)"),
    ROW("nesterov", UW_OPT_FLAG, exchange.nesterov, 0, 0, NULL,
        "Nesterov's momentum, not with qg or kgt (false)"),
    ROW("weight_decay", UW_OPT_REAL, weight_decay, 0, 0, "X", "weight decay (0)"),
    ROW("schedule", UW_OPT_TEXT, schedule, 0, 0, "S",
        "constant, step:N:F, multistep:N,M:F, cosine: 0 at the end, linear, with warmup:STEPS+ in "
        "front (constant)"),
    ROW("exchange", UW_OPT_CHOICE, exchange.mode, 0, 0, UW_NODE_MODES,
        "gossip: pull from peers, wait for nobody; allreduce: average exactly over all nodes; "
        "hierarchical: average inside a cell, its head pulls from other heads; auto: the same, "
        "cells are found; broadcast: on a radio or a bus, each node sends once to all (gossip)"),
    ROW("average", UW_OPT_CHOICE, average, 0, 0, "parameters|gradients",
        "what allreduce averages: parameters every period, or gradients every step (parameters)"),
    ROW("cell", UW_OPT_TEXT, cell, 0, 0, "TEXT",
        "name of the cell of this node (hierarchical: a cell of its own; auto: the nodes nearby)"),
    ROW("algorithm", UW_OPT_CHOICE, algorithm, 0, 0, "auto|tree|doubling|halving|ring",
        "algorithm of exact averages (auto: the fastest)"),
    ROW("ranks", UW_OPT_U32, exchange.ranks, 2, UW_NODE_RANKS_MAX, "N",
        "most nodes of one exact average; more average in parts, whose heads pull from each other "
        "(64, or together)"),
    ROW("head_weight", UW_OPT_U32, head_weight, 0, 0, "N",
        "the node with the highest weight leads averages: give it to one with mains power and a "
        "good link (1)"),
    ROW("cell_first", UW_OPT_U32, cell_first, 0, 256, "N",
        "nodes that training and the first average wait for; 0: the nodes in sight (0)"),
    ROW("together", UW_OPT_U32, together, 0, 256, "N",
        "number of nodes that start together and stay: averages wait for all of them, no node "
        "adopts a model; 0: nodes come and go (mpi: all ranks, else 0)"),
    ROW("gather_seconds", UW_OPT_REAL, gather_seconds, 0.1, 86400, "S",
        "longest time that an average waits for members, and a broadcast for a silent node (30)"),
    ROW("round_seconds", UW_OPT_REAL, round_seconds, 0.1, 86400, "S",
        "longest time of an average (60)"),
    ROW("peer_schedule", UW_OPT_CHOICE, exchange.peers_word, 0, 0, UW_PEER_SCHEDULES,
        "which peer to pull from or to be paired with (random; matching with kgt)"),
    ROW("graph", UW_OPT_TEXT, exchange.graph_file, 0, 0, "FILE",
        "pull from neighbours in a graph: a line of the file has two names of nodes that are "
        "linked, and perhaps the weight of the link, else Metropolis'"),
    ROW("pulls", UW_OPT_U32, exchange.pulls, 1, UW_PULLS_MOST, "N",
        "pulls of a round, one after the other, each from the next peer of the schedule (1)"),
    ROW("period", UW_OPT_U32_PHASES, exchange.period, 1, UW_PERIOD_MOST, "T",
        "least local steps in a round; \"100:0.9,10\": 100, and 10 after 0.9 of the run; \"auto\": "
        "from the time of pulls, see share (10)"),
    ROW("share", UW_OPT_REAL, exchange.share, 0.0001, 1, "F",
        "with \"period\": \"auto\": largest share of the time spent on pulls of this node (0.1)"),
    ROW("slices", UW_OPT_U32, exchange.slices, 1, UW_NODE_SLICES_MAX, "F",
        "with \"exchange\" gossip: a round pulls one of F slices of the model (1)"),
    ROW("guard", UW_OPT_CHOICE, exchange.guard, 0, 0, UW_GUARDS,
        "refuse models that are much further away than usual; all: in averages, too, and there "
        "what goes against what is learned (all)"),
    ROW("pull_peers", UW_OPT_U32, pull_peers, 1, UW_NODE_PULL_PEERS_MAX, "N",
        "with \"exchange\" gossip: a round pulls from N peers at once, a share from each (1)"),
    ROW("code", UW_OPT_FLAG, code, 0, 0, NULL,
        "with \"exchange\" gossip: pulls over a radio or a bus fetch chunks in a lossless code "
        "(false)"),
    ROW("sleep.period", UW_OPT_REAL, sleep_period, 0.1, 3600, "S",
        "the radio receives for sleep.awake once in this time (always on)"),
    ROW("sleep.awake", UW_OPT_REAL, sleep_awake, 0.02, 3600, "S", "shorter than sleep.period"),
    ROW("steps", UW_OPT_U64, steps, 1, 0, "N", "stop after N steps in all (no limit)"),
    ROW("epochs", UW_OPT_U32, epochs, 1, 0, "N", "stop after N epochs (no limit)"),
    ROW("seconds", UW_OPT_REAL, seconds, 0, SECONDS_MAX, "S",
        "stop training after this time; mixing, the last test and serving follow (no limit)"),
    ROW("elapsed", UW_OPT_REAL, elapsed, 0, SECONDS_MAX, "S",
        "part of \"seconds\" that has passed at the start (0)"),
    ROW("step_seconds", UW_OPT_REAL, step_seconds, 0, STEP_SECONDS_MAX, "S",
        "least time of a local step; the processor is idle for the rest of it (0)"),
    ROW("weights", UW_OPT_TEXT, weights, 0, 0, "FILE", "initial weights: " UW_WEIGHTS_HELP),
    ROW("checkpoint", UW_OPT_TEXT, checkpoint, 0, 0, "FILE",
        "written during the run and at its end, held for this node alone; the next start resumes "
        "from it, with all of \"seconds\" again, less \"elapsed\""),
    ROW("checkpoint_seconds", UW_OPT_REAL, checkpoint_seconds, 0, SECONDS_MAX, "S",
        "time between two checkpoints (30)"),
    ROW("seed", UW_OPT_U64, seed, 0, 0, "N",
        "seed of the initial weights, the same on all nodes of the run (1)"),
    ROW("threads", UW_OPT_U32, threads, 1, 256, "N", "threads that compute (1)"),
    ROW("backend", UW_OPT_CHOICE, backend, 0, 0, UW_BACKENDS_GPU, UW_BACKENDS_GPU_HELP),
    ROW("exact", UW_OPT_FLAG, exact, 0, 0, NULL, UW_EXACT_HELP " (false)"),
    ROW("tf32", UW_OPT_FLAG, tf32, 0, 0, NULL, UW_TF32_HELP " (false)"),
    ROW("nccl", UW_OPT_FLAG, nccl, 0, 0, NULL,
        "with GPUs: average by NCCL where all members have it (true)"),
    ROW("eval_seconds", UW_OPT_REAL, eval_seconds, 0, SECONDS_MAX, "S",
        "time between two tests; 0: test at the end only (0)"),
    ROW("eval_samples", UW_OPT_U32, eval_samples, 0, 0, "N",
        "samples of such a test; 0: all (1000)"),
    ROW("final_eval_samples", UW_OPT_U32, final_eval_samples, 0, 0, "N",
        "samples of the last test; 0: all (0)"),
    ROW("consensus_rounds", UW_OPT_U32, consensus_rounds, 0, 0, "N",
        "models to pull after the last step, where no exact average of all ends the run (4)"),
    ROW("consensus_seconds", UW_OPT_REAL, consensus_seconds, 0, SECONDS_MAX, "S",
        "longest time that the last exact average waits for others (with together: "
        "gather_seconds if that is longer), or that the last pulls take; 0: neither (10; pulls: "
        "10 without progress)"),
    ROW("linger_seconds", UW_OPT_REAL, linger_seconds, 0, SECONDS_MAX, "S",
        "longest time to go on serving at the end while others train or pull (5)"),
    ROW("mtu", UW_OPT_BYTES_U32, mtu, 51, 65507, "BYTES",
        "largest message (udp: 1232; a serial line: 512, the same at both ends; a radio or a "
        "bus: frames of 250, the same on all nodes for broadcast; else a sixteenth of the model, "
        "8192 to 63552)"),
    ROW("members", UW_OPT_U32, members, 2, 1024, "N",
        "largest number of nodes in the member table (256)"),
    ROW("membership_rate", UW_OPT_BYTES_U32, membership_rate, 16, 1000000, "BYTES",
        "bytes a second of membership messages; on a slow link at most a sixteenth of its rate "
        "(4096)"),
    ROW("pull_window", UW_OPT_BYTES, pull_window, 4096, PULL_WINDOW_MAX, "BYTES",
        "pulled data that may wait for the training thread: a local step mixes no more (512K)"),
    ROW("emulate.loss", UW_OPT_REAL, emulate_loss, 0, 1, "P",
        "emulated network: probability of a loss (0)"),
    ROW("emulate.duplicate", UW_OPT_REAL, emulate_duplicate, 0, 1, "P",
        "probability that a message is sent twice (0)"),
    ROW("emulate.reorder", UW_OPT_REAL, emulate_reorder, 0, 1, "P",
        "probability that a message is overtaken (0)"),
    ROW("emulate.corrupt", UW_OPT_REAL, emulate_corrupt, 0, 1, "P",
        "probability that a message is damaged (0)"),
    ROW("emulate.delay_ms", UW_OPT_REAL, emulate_delay_ms, 0, SECONDS_MAX, "MS",
        "delay of every message (0)"),
    ROW("emulate.jitter_ms", UW_OPT_REAL, emulate_jitter_ms, 0, SECONDS_MAX, "MS",
        "largest additional random delay (0)"),
    ROW("emulate.rate", UW_OPT_U64, emulate_rate, 0, 0, "BITS", "bits a second; 0: unlimited (0)"),
    ROW("emulate.mtu", UW_OPT_BYTES_U32, emulate_mtu, 0, 0, "BYTES",
        "larger datagrams are lost without a word; 0: none (0)"),
    ROW("emulate.far", UW_OPT_LIST, emulate_far, 0, 0, "ADDRESSES",
        "emulate only towards the nodes that listen at these addresses (all)"),
    ROW("emulate.cut_after", UW_OPT_REAL, emulate_cut_after, 0, SECONDS_MAX, "S",
        "time after which the link to them is cut (0)"),
    ROW("emulate.cut_seconds", UW_OPT_REAL, emulate_cut_seconds, 0, SECONDS_MAX, "S",
        "how long it is cut; 0: never (0)"),
    ROW("emulate.seed", UW_OPT_U64, emulate_seed, 0, 0, "N", "seed of the emulated network (1)"),
    ROW("events", UW_OPT_TEXT, events, 0, 0, "FILE|-",
        "append events to a file as JSON lines, as --json; SIGHUP opens it again"),
    ROW("events_seconds", UW_OPT_REAL, events_seconds, 0, SECONDS_MAX, "S",
        "least time between two events step, status, and of each kind of pull and average; 0: "
        "write all of them (0)"),
    ROW("trace", UW_OPT_TEXT, trace, 0, 0, "FILE",
        "write a timeline for chrome://tracing or ui.perfetto.dev"),
    ROW("pcap", UW_OPT_TEXT, pcap, 0, 0, "FILE",
        "write the messages of the link for Wireshark; see uwasa/link_capture.h"),
    ROW("sensors", UW_OPT_TEXT, sensors, 0, 0, "DIR",
        "folder of the power and temperature sensors that are reported to peers, or none (/sys)"),
};

const struct uw_opts uw_node_keys = {rows, sizeof rows / sizeof rows[0]};

const struct uw_node_options uw_node_defaults = {
    .exchange = UW_EXCHANGE_DEFAULTS,
    .tls = true, .nccl = true,
    .link_address = UW_NODE_ADDRESS_UNSET, .together = UW_NODE_TOGETHER_UNSET,
    .listen = ":0", .data = "digits",
    .loss = UW_LOSS_DEFAULT, .batch = 32, .threads = 1, .lr = 0.05, .seed = 1,
    .schedule = "constant", .membership = {"swim", UW_MEMBERSHIP_SWIM},
    .backend = {"auto", UW_BACKEND_AUTO}, .average = {"parameters", UW_AVERAGE_PARAMETERS},
    .algorithm = {"auto", 0}, .head_weight = 1, .shuffle_seconds = 30.0, .gather_seconds = 30.0,
    .round_seconds = 60.0,
    .checkpoint_seconds = 30.0, .linger_seconds = 5.0, .eval_samples = 1000, .consensus_rounds = 4,
    .consensus_seconds = UW_NODE_CONSENSUS_UNSET, .emulate_seed = 1, .members = 256,
    .pull_window = 512u << 10, .sensors = "/sys",
};
