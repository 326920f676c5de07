/* SPDX-License-Identifier: Apache-2.0
 *
 * Every key, with what it allows and its line of help; and what holds where nothing is said. */
#include "node_config.h"

#include "job/job.h"

#include "uwasa/radio.h"

#define ROW(...) UW_OPT_ROW(struct uw_node_options, __VA_ARGS__)

#define PULL_WINDOW_MAX (1u << 30)  /* fits a size_t of 32 bits */
#define STEP_SECONDS_MAX 86400
#define SECONDS_MAX 1e9             /* 30 years: microseconds and their sums fit */

static const struct uw_opt rows[] = {
    ROW("name", UW_OPT_TEXT, name, 0, 0, "TEXT", "of this node, unique in the run"),
    ROW("run", UW_OPT_TEXT, run, 0, 0, "TEXT", "name of the run; other runs are refused"),
    ROW("key", UW_OPT_TEXT, key, 0, 0, "FILE", "key of the run, from uwasa keygen"),
    ROW("link", UW_OPT_CHOICE, link, 0, 0, "udp|tcp|mpi",
        "UDP with DTLS; TCP with TLS, for large models on good networks; ranks of mpirun (udp)"),
    ROW("link.serial", UW_OPT_TEXT, link_serial, 0, 0, "DEVICE",
        "a serial line with DTLS to one other node, \"link\": {\"serial\": \"/dev/ttyACM0\"}"),
    ROW("link.bus", UW_OPT_TEXT, link_bus, 0, 0, "DEVICE",
        "a serial line with many nodes, RS-485, each with an \"address\""),
    ROW("link.baud", UW_OPT_U32, link_baud, 1200, 4000000, "N",
        "bits a second of either line (115200)"),
    ROW("link.radio", UW_OPT_TEXT, link_radio, 0, 0, "udp:GROUP:PORT",
        "multicast in the place of a radio, \"link\": {\"radio\": \"udp:239.255.85.87:4785\", "
        "\"address\": 3}"),
    ROW("link.interface", UW_OPT_TEXT, link_interface, 0, 0, "ADDRESS",
        "its network interface, by an IPv4 address of this machine (127.0.0.1)"),
    ROW("link.address", UW_OPT_U32, link_address, 0, UW_RADIO_ADDRESS_MAX, "N",
        "of this node on a radio or a bus, unique there"),
    ROW("tls", UW_OPT_FLAG, tls, 0, 0, NULL, "TCP is encrypted, peers are authenticated (true)"),
    ROW("listen", UW_OPT_TEXT, listen, 0, 0, "ADDRESS",
        "address to bind, \"10.0.0.2:4433\", \"[::]:4433\", port 0: any (:0)"),
    ROW("advertise", UW_OPT_TEXT, advertise, 0, 0, "ADDRESS",
        "where others reach this node (what they see)"),
    ROW("seeds", UW_OPT_LIST, seeds, 0, 0, "ADDRESSES",
        "nodes to greet first, [\"10.0.0.9:4433\", ...]"),
    ROW("membership", UW_OPT_CHOICE, membership, 0, 0, "swim|static",
        "peers are found and pinged; or they are the seeds alone, which this node pulls from "
        "without a ping, for gossip (swim)"),
    ROW("model", UW_OPT_TEXT, model, 0, 0, "M", "built-in name or JSON file"),
    ROW("data", UW_OPT_TEXT, data, 0, 0, "D", "as for uwasa train (digits)"),
    ROW("classes", UW_OPT_BITS, classes_mask, 0, 0, "NUMBERS", "train only on [0, 1, 2] (all)"),
    ROW("shard", UW_OPT_TEXT, shard, 0, 0, "I/K", "train on part I of K, I from 0 (all)"),
    ROW("skew", UW_OPT_TEXT, skew, 0, 0, "S",
        "what the K parts of \"shard\" are: even, sorted or dirichlet:A, as \"seed\" deals them "
        "out to all nodes, and --skew of uwasa sim to its own (every K-th sample)"),
    ROW("shuffle", UW_OPT_REAL, shuffle, 0, 0.5, "X",
        "lend up to so large a share of the samples to nodes that do as well, and train on theirs "
        "meanwhile; 0: no sample leaves this node (0)"),
    ROW("shuffle_seconds", UW_OPT_REAL, shuffle_seconds, 0.5, 86400, "S",
        "for so long each; the same on all nodes, always (30)"),
    ROW("batch", UW_OPT_U32, batch, 1, 0, "B", "samples in a minibatch (32)"),
    ROW("lr", UW_OPT_REAL, lr, 0, 0, "X", "learning rate (0.05)"),
    ROW("momentum_rule", UW_OPT_CHOICE, exchange.rule_word, 0, 0, UW_MOMENTUM_RULES,
        "quasi-global, over whole rounds (slowmo, diloco: of averages), gradient tracking over "
        "pairs, or the steps' own (qg; none where gradients are averaged)"),
    ROW("momentum", UW_OPT_REAL, exchange.momentum, 0, 1, "X",
        "of the steps (0.9 with qg, else 0)"),
    ROW("weight_decay", UW_OPT_REAL, weight_decay, 0, 0, "X", "(0)"),
    ROW("schedule", UW_OPT_TEXT, schedule, 0, 0, "S",
        "constant, step:N:F, or cosine: 0 at the end (constant)"),
    ROW("exchange", UW_OPT_CHOICE, exchange.mode, 0, 0, UW_NODE_MODES,
        "pull from peers and wait for nobody; average exactly over all; exactly inside a cell, "
        "whose head pulls from others; the same with cells that are found; or, on a radio or a "
        "bus, average what each sends once to all (gossip)"),
    ROW("average", UW_OPT_CHOICE, average, 0, 0, "parameters|gradients",
        "what allreduce averages: every period steps, or every step (parameters)"),
    ROW("cell", UW_OPT_TEXT, cell, 0, 0, "TEXT",
        "name of this node's cell (hierarchical: one of its own; auto: the nodes that are near)"),
    ROW("algorithm", UW_OPT_CHOICE, algorithm, 0, 0, "auto|tree|doubling|halving|ring",
        "of exact averages (auto: the fastest)"),
    ROW("head_weight", UW_OPT_U32, head_weight, 0, 0, "N",
        "the highest leads the averages: mains power, a good link (1)"),
    ROW("cell_first", UW_OPT_U32, cell_first, 0, 64, "N",
        "nodes that the first average waits for; 0: those in sight (0)"),
    ROW("together", UW_OPT_U32, together, 0, 64, "N",
        "so many nodes start together and stay: averages wait for all of them, nobody takes over "
        "a model; 0: they come and go (mpi: all ranks, else 0)"),
    ROW("gather_seconds", UW_OPT_REAL, gather_seconds, 0.1, 86400, "S",
        "an average waits so long for members at most, a broadcast one for who is silent (30)"),
    ROW("round_seconds", UW_OPT_REAL, round_seconds, 0.1, 86400, "S",
        "and takes so long at most (60)"),
    ROW("peer_schedule", UW_OPT_CHOICE, exchange.peers_word, 0, 0, UW_PEER_SCHEDULES,
        "whom to pull from, or to be paired with (random; matching with kgt)"),
    ROW("period", UW_OPT_U32_AUTO, exchange.period, 1, UW_PERIOD_MOST, "T",
        "local steps a round, at least; \"auto\": from what pulls take, see share (10)"),
    ROW("share", UW_OPT_REAL, exchange.share, 0.0001, 1, "F",
        "of the time that this node's pulls may take, with \"period\": \"auto\" (0.1)"),
    ROW("slices", UW_OPT_U32, exchange.slices, 1, UW_NODE_SLICES_MAX, "F",
        "a round pulls one of F slices of the model, for \"exchange\" gossip (1)"),
    ROW("pull_peers", UW_OPT_U32, pull_peers, 1, UW_NODE_PULL_PEERS_MAX, "N",
        "a round asks N peers at once, each for its share, for \"exchange\" gossip (1)"),
    ROW("code", UW_OPT_FLAG, code, 0, 0, NULL,
        "pulls over a radio or a bus ask for chunks in a lossless code, for \"exchange\" gossip "
        "(false)"),
    ROW("sleep.period", UW_OPT_REAL, sleep_period, 0.1, 3600, "S",
        "its radio listens for sleep.awake in so many seconds, else for nobody (always)"),
    ROW("sleep.awake", UW_OPT_REAL, sleep_awake, 0.02, 3600, "S", "less than sleep.period"),
    ROW("steps", UW_OPT_U64, steps, 1, 0, "N", "end after that many steps in all (no limit)"),
    ROW("epochs", UW_OPT_U32, epochs, 1, 0, "N", "end after that many epochs (no limit)"),
    ROW("seconds", UW_OPT_REAL, seconds, 0, SECONDS_MAX, "S",
        "train for so long; mixing with others, the test and serving come after it (no limit)"),
    ROW("elapsed", UW_OPT_REAL, elapsed, 0, SECONDS_MAX, "S", "of \"seconds\", at the start (0)"),
    ROW("step_seconds", UW_OPT_REAL, step_seconds, 0, STEP_SECONDS_MAX, "S",
        "a local step takes at least so long, its rest is left to others; 0: no rest (0)"),
    ROW("weights", UW_OPT_TEXT, weights, 0, 0, "FILE", "start from these (safetensors)"),
    ROW("checkpoint", UW_OPT_TEXT, checkpoint, 0, 0, "FILE",
        "written now and then and at the end; a start goes on from it, with all of \"seconds\" "
        "anew, less \"elapsed\""),
    ROW("checkpoint_seconds", UW_OPT_REAL, checkpoint_seconds, 0, SECONDS_MAX, "S",
        "how often (30)"),
    ROW("seed", UW_OPT_U64, seed, 0, 0, "N", "of the first weights: the same in the run (1)"),
    ROW("threads", UW_OPT_U32, threads, 1, 256, "N", "threads that compute (1)"),
    ROW("backend", UW_OPT_CHOICE, backend, 0, 0, UW_BACKENDS_GPU, UW_BACKENDS_GPU_HELP),
    ROW("exact", UW_OPT_FLAG, exact, 0, 0, NULL, UW_EXACT_HELP " (false)"),
    ROW("tf32", UW_OPT_FLAG, tf32, 0, 0, NULL, UW_TF32_HELP " (false)"),
    ROW("nccl", UW_OPT_FLAG, nccl, 0, 0, NULL,
        "with a GPU: where all members of an average have one, and NCCL, the GPUs make it (true)"),
    ROW("eval_seconds", UW_OPT_REAL, eval_seconds, 0, SECONDS_MAX, "S",
        "test now and then; 0: at the end only (0)"),
    ROW("eval_samples", UW_OPT_U32, eval_samples, 0, 0, "N", "of such a test; 0: all (1000)"),
    ROW("final_eval_samples", UW_OPT_U32, final_eval_samples, 0, 0, "N",
        "of the test at the end; 0: all (0)"),
    ROW("consensus_rounds", UW_OPT_U32, consensus_rounds, 0, 0, "N",
        "models to pull after the last step, where there is no exact average of all at the end "
        "(4)"),
    ROW("consensus_seconds", UW_OPT_REAL, consensus_seconds, 0, SECONDS_MAX, "S",
        "the exact average at the end waits so long for others, with together as long as "
        "gather_seconds if that is longer; or the pulls take so long. 0: neither (10, of pulls 10 "
        "in which nothing comes)"),
    ROW("linger_seconds", UW_OPT_REAL, linger_seconds, 0, SECONDS_MAX, "S",
        "at the end, go on serving while others train or pull, at most (5)"),
    ROW("mtu", UW_OPT_BYTES_U32, mtu, 51, 65507, "BYTES",
        "largest message (udp: 1232; a serial line: 512, both ends the same; a radio or a bus: "
        "frames of 250, for broadcast all alike; else a sixteenth of the model, 8192 to 63552)"),
    ROW("members", UW_OPT_U32, members, 2, 1024, "N", "nodes that can be known (32)"),
    ROW("membership_rate", UW_OPT_BYTES_U32, membership_rate, 16, 1000000, "BYTES",
        "a second for telling who is here; on a thin link at most a sixteenth of it (4096)"),
    ROW("pull_window", UW_OPT_BYTES, pull_window, 4096, PULL_WINDOW_MAX, "BYTES",
        "that may wait for the training thread (512K)"),
    ROW("emulate.loss", UW_OPT_REAL, emulate_loss, 0, 1, "P", "bad network, for trials: lost (0)"),
    ROW("emulate.duplicate", UW_OPT_REAL, emulate_duplicate, 0, 1, "P", "sent twice (0)"),
    ROW("emulate.reorder", UW_OPT_REAL, emulate_reorder, 0, 1, "P", "overtaken (0)"),
    ROW("emulate.corrupt", UW_OPT_REAL, emulate_corrupt, 0, 1, "P", "damaged (0)"),
    ROW("emulate.delay_ms", UW_OPT_REAL, emulate_delay_ms, 0, SECONDS_MAX, "MS", "delayed (0)"),
    ROW("emulate.jitter_ms", UW_OPT_REAL, emulate_jitter_ms, 0, SECONDS_MAX, "MS", "and more (0)"),
    ROW("emulate.rate", UW_OPT_U64, emulate_rate, 0, 0, "BITS", "bits a second; 0: unlimited (0)"),
    ROW("emulate.far", UW_OPT_LIST, emulate_far, 0, 0, "ADDRESSES",
        "all this towards these nodes only, as they listen (all)"),
    ROW("emulate.cut_after", UW_OPT_REAL, emulate_cut_after, 0, SECONDS_MAX, "S",
        "cut off from them after that time (0)"),
    ROW("emulate.cut_seconds", UW_OPT_REAL, emulate_cut_seconds, 0, SECONDS_MAX, "S",
        "for so long; 0: never (0)"),
    ROW("emulate.seed", UW_OPT_U64, emulate_seed, 0, 0, "N", "(1)"),
    ROW("events", UW_OPT_TEXT, events, 0, 0, "FILE|-", "JSON lines, as --json"),
    ROW("trace", UW_OPT_TEXT, trace, 0, 0, "FILE",
        "write what happens when, for chrome://tracing and ui.perfetto.dev"),
    ROW("pcap", UW_OPT_TEXT, pcap, 0, 0, "FILE",
        "write what goes over the wire, for Wireshark; see uwasa/link_capture.h"),
    ROW("sensors", UW_OPT_TEXT, sensors, 0, 0, "DIR", "power and heat for peers, or none (/sys)"),
};

const struct uw_opts uw_node_keys = {rows, sizeof rows / sizeof rows[0]};

const struct uw_node_options uw_node_defaults = {
    .exchange = UW_EXCHANGE_DEFAULTS,
    .tls = true, .nccl = true,
    .link_address = UW_NODE_ADDRESS_UNSET, .together = UW_NODE_TOGETHER_UNSET,
    .listen = ":0", .data = "digits", .batch = 32, .threads = 1, .lr = 0.05, .seed = 1,
    .schedule = "constant", .membership = {"swim", UW_MEMBERSHIP_SWIM},
    .backend = {"auto", UW_BACKEND_AUTO}, .average = {"parameters", UW_AVERAGE_PARAMETERS},
    .algorithm = {"auto", 0}, .head_weight = 1, .shuffle_seconds = 30.0, .gather_seconds = 30.0,
    .round_seconds = 60.0,
    .checkpoint_seconds = 30.0, .linger_seconds = 5.0, .eval_samples = 1000, .consensus_rounds = 4,
    .consensus_seconds = UW_NODE_CONSENSUS_UNSET, .emulate_seed = 1, .members = 32,
    .pull_window = 512u << 10, .sensors = "/sys",
};
