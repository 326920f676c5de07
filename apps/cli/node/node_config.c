/* SPDX-License-Identifier: Apache-2.0 */
#include "node_config_check.h"

#include "job/choices.h"
#include "job/job.h"
#include "job/lr.h"
#include "job/period_said.h"

#include "uwasa/mix.h"
#include "uwasa/node.h"
#include "uwasa/peer_schedule.h"
#include "uwasa/radio.h"

#include <stdlib.h>
#include <string.h>

#define ROW(name, kind, member, min, max, values, help) \
    {name, kind, offsetof(struct uw_node_options, member), min, max, values, help}

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
        "how peers are known: found and pinged; or \"seeds\" alone, which are pulled from without "
        "a ping and need no answer but that, for gossip (swim)"),
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
    ROW("momentum_rule", UW_OPT_CHOICE, momentum_rule, 0, 0, UW_MOMENTUM_RULES,
        "quasi-global, over whole rounds (slowmo, diloco: of averages), gradient tracking over "
        "pairs, or the steps' own (qg; none where gradients are averaged)"),
    ROW("momentum", UW_OPT_REAL, momentum, 0, 1, "X", "of the steps (0.9 with qg, else 0)"),
    ROW("weight_decay", UW_OPT_REAL, weight_decay, 0, 0, "X", "(0)"),
    ROW("schedule", UW_OPT_TEXT, schedule, 0, 0, "S",
        "constant, step:N:F, or cosine: 0 at the end (constant)"),
    ROW("exchange", UW_OPT_CHOICE, exchange, 0, 0, UW_EXCHANGES "|broadcast",
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
    ROW("peer_schedule", UW_OPT_CHOICE, peer_schedule, 0, 0, UW_PEER_SCHEDULES,
        "whom to pull from, or to be paired with (random; matching with kgt)"),
    ROW("period", UW_OPT_U32_AUTO, period, 1, UW_PERIOD_MOST, "T",
        "local steps a round, at least; \"auto\": from what pulls take, see share (10)"),
    ROW("share", UW_OPT_REAL, share, 0.0001, 1, "F",
        "of the time that this node's pulls may take, with \"period\": \"auto\" (0.1)"),
    ROW("slices", UW_OPT_U32, slices, 1, UW_NODE_SLICES_MAX, "F",
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
    ROW("trace", UW_OPT_TEXT, trace, 0, 0, "FILE", "what happens when, as --trace"),
    ROW("pcap", UW_OPT_TEXT, pcap, 0, 0, "FILE", "what goes over the wire, as --pcap"),
    ROW("sensors", UW_OPT_TEXT, sensors, 0, 0, "DIR", "power and heat for peers, or none (/sys)"),
};

const struct uw_opts uw_node_keys = {rows, sizeof rows / sizeof rows[0]};

static const struct uw_node_options defaults = {
    .tls = true, .nccl = true,
    .link_address = UW_NODE_ADDRESS_UNSAID, .together = UW_NODE_TOGETHER_UNSAID,
    .listen = ":0", .data = "digits", .batch = 32, .threads = 1, .period = 10, .lr = 0.05,
    .momentum = -1.0, .seed = 1, .schedule = "constant",
    .backend = "auto", .exchange = "gossip", .membership = "swim", .average = "parameters",
    .algorithm = "auto",
    .head_weight = 1, .shuffle_seconds = 30.0, .gather_seconds = 30.0, .round_seconds = 60.0,
    .checkpoint_seconds = 30.0, .linger_seconds = 5.0, .eval_samples = 1000, .consensus_rounds = 4,
    .consensus_seconds = UW_NODE_CONSENSUS_UNSAID, .emulate_seed = 1, .members = 32,
    .pull_window = 512u << 10, .sensors = "/sys",
};

static bool is_one_of(const char *exchange, const char *a, const char *b)
{
    return strcmp(exchange, a) == 0 || strcmp(exchange, b) == 0;
}

/* Gradients are averaged by allreduce, and the momentum is the steps' own. */
static int check_average(struct uw_node_file *f, struct uw_error *err)
{
    struct uw_node_options *o = &f->o;
    bool gradients = strcmp(o->average, "gradients") == 0;
    if (o->momentum_rule == NULL) {
        o->momentum_rule = gradients ? "none" : "qg";
    }
    if (gradients && strcmp(o->exchange, "allreduce") != 0) {
        return fail_key(f, "average", "gradients needs \"exchange\" allreduce", err);
    }
    if (gradients && strcmp(o->momentum_rule, "none") != 0) {
        return fail_key(f, "momentum_rule", "needs none with \"average\" gradients", err);
    }
    if (gradients && strcmp(o->algorithm, "doubling") == 0) {
        return fail_key(f, "algorithm",
                        "needs auto, tree, halving or ring with \"average\" gradients", err);
    }
    return UW_OK;
}

static int check_rule(struct uw_node_file *f, struct uw_error *err)
{
    struct uw_node_options *o = &f->o;
    const struct uw_mix_rule *rule = uw_mix_find(o->momentum_rule);
    bool pairs = rule->over == UW_MIX_OVER_PAIRS;
    if (o->peer_schedule != NULL && !f->ranked &&
        is_one_of(o->exchange, "allreduce", "broadcast")) {
        return fail_key(f, "peer_schedule",
                        "is not for \"exchange\" allreduce or broadcast: all average", err);
    }
    if (o->peer_schedule == NULL) {
        o->peer_schedule = pairs ? "matching" : "random";
    }
    if (pairs && strcmp(o->exchange, "gossip") != 0) {
        return fail_key(f, "momentum_rule", "kgt is for \"exchange\" gossip", err);
    }
    if (rule->over == UW_MIX_OVER_AVERAGES && is_one_of(o->exchange, "gossip", "broadcast")) {
        return fail_key(f, "momentum_rule", "slowmo and diloco need \"exchange\" allreduce, "
                                            "hierarchical or auto", err);
    }
    if (pairs && !uw_peer_schedule_find(o->peer_schedule)->mutual) {
        return fail_key(f, "peer_schedule", "needs matching, hypercube or base2 with momentum_rule "
                                            "kgt, whose pairs are mutual", err);
    }
    if (rule->frozen && o->momentum == 0.0) {
        return fail_key(f, "momentum", "needs more than 0 with momentum_rule qg or kgt", err);
    }
    return UW_OK;
}

static int check_period(struct uw_node_file *f, struct uw_error *err)
{
    struct uw_node_options *o = &f->o;
    const struct uw_period_said said = {o->exchange, o->momentum_rule, o->period, o->slices,
                                        o->share};
    const char *sentence;
    const char *key = uw_period_wrong(&said, &sentence);
    if (key != NULL) {
        return fail_key(f, key, sentence, err);
    }
    bool gossips = strcmp(o->exchange, "gossip") == 0 &&
                   uw_period_pulls(o->exchange, o->momentum_rule);
    if (o->pull_peers > 1u && (!gossips || strcmp(o->peer_schedule, "random") != 0)) {
        return fail_key(f, "pull_peers", "more than 1 are for \"exchange\" gossip with "
                        "\"peer_schedule\" random, not with kgt", err);
    }
    if (o->pull_peers > 1u && o->pull_peers * o->slices > UW_NODE_SLICES_MAX) {
        return fail_key(f, "pull_peers", "times \"slices\" is 32 at most", err);
    }
    o->share = o->period == UW_AUTO && o->share == 0.0 ? UW_PERIOD_SHARE : o->share;
    return UW_OK;
}

/* What casts send goes as it is, and links that are wide gain nothing. */
static int check_code(struct uw_node_file *f, struct uw_error *err)
{
    const struct uw_node_options *o = &f->o;
    if (o->code && strcmp(o->exchange, "gossip") != 0) {
        return fail_key(f, "code", "is for pulls, \"exchange\" gossip", err);
    }
    if (o->code && !is_link(o, "radio") && !is_link(o, "bus")) {
        return fail_key(f, "code", "needs \"link.radio\" or \"link.bus\", whose frames it fills",
                        err);
    }
    return UW_OK;
}

/* Windows of whole milliseconds, as others are told. */
static int check_sleep(struct uw_node_file *f, struct uw_error *err)
{
    const struct uw_node_options *o = &f->o;
    if (o->sleep_period == 0.0 && o->sleep_awake == 0.0) {
        return UW_OK;
    }
    if (o->sleep_period == 0.0 || o->sleep_awake == 0.0) {
        return o->sleep_period == 0.0
                   ? fail_key(f, "sleep.awake", "needs \"sleep.period\", more than that", err)
                   : fail_key(f, "sleep.period", "needs \"sleep.awake\", less than that", err);
    }
    uint64_t period_ms = (uint64_t)(o->sleep_period * 1e6) / 1000u;
    if ((uint64_t)(o->sleep_awake * 1e6) / 1000u >= period_ms) {
        return fail_key(f, "sleep.awake", "needs less than \"sleep.period\"", err);
    }
    if (!uw_period_pulls(o->exchange, o->momentum_rule)) {
        bool pairs = uw_mix_find(o->momentum_rule)->over == UW_MIX_OVER_PAIRS;
        return fail_key(f, pairs ? "momentum_rule" : "exchange",
                        pairs ? "kgt is not for a node with \"sleep\": its pairs wait for it"
                              : "needs gossip or broadcast with \"sleep\": exact averages "
                                "wait for all", err);
    }
    return o->shuffle > 0.0 ? fail_key(f, "shuffle", "needs 0 with \"sleep\"", err) : UW_OK;
}

static int check_needed(struct uw_node_file *f, struct uw_error *err)
{
    const struct uw_node_options *o = &f->o;
    bool secret = !is_link(o, "mpi") && (o->tls || !is_link(o, "tcp"));
    const struct {
        const char *key, *value;
    } needed[] = {{"name", o->name}, {"run", o->run}, {"key", secret ? o->key : ""},
                  {"model", o->model}};
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        if (needed[i].value == NULL) {
            return fail_key(f, needed[i].key, "is missing", err);
        }
    }
    if (o->name[0] == '\0' || strlen(o->name) > 31) {
        return fail_key(f, "name", "needs 1 to 31 characters", err);
    }
    for (const char *c = o->name; *c != '\0'; c++) {
        if (*c <= ' ' || *c > '~') {
            return fail_key(f, "name", "needs printable characters without spaces", err);
        }
    }
    if (!o->tls && !is_link(o, "tcp")) {
        return fail_key(f, "tls", "false is for \"link\" tcp: udp, radios and serial lines "
                                  "are always encrypted, mpi never", err);
    }
    if (is_link(o, "mpi") && !f->ranked && (o->seeds.n != 0 || o->advertise != NULL)) {
        return fail_key(f, o->seeds.n != 0 ? "seeds" : "advertise",
                        "is not for \"link\" mpi: its ranks know each other", err);
    }
    return UW_OK;
}

/* What would do nothing is a mistake. */
static int check_emulated(struct uw_node_file *f, struct uw_error *err)
{
    const struct uw_node_options *o = &f->o;
    bool bad = o->emulate_loss > 0.0 || o->emulate_duplicate > 0.0 || o->emulate_reorder > 0.0 ||
               o->emulate_corrupt > 0.0 || o->emulate_delay_ms > 0.0 ||
               o->emulate_jitter_ms > 0.0 || o->emulate_rate != 0;
    if (o->emulate_cut_after > 0.0 && o->emulate_cut_seconds <= 0.0) {
        return fail_key(f, "emulate.cut_after", "needs \"emulate.cut_seconds\"", err);
    }
    if (o->emulate_far.n != 0 && !bad && o->emulate_cut_seconds <= 0.0) {
        return fail_key(f, "emulate.far", "needs something that is bad towards them: "
                                          "\"emulate.loss\", \"emulate.cut_seconds\" or another",
                        err);
    }
    return UW_OK;
}

/* The same deal on all nodes: each takes its part. */
static int check_skew(struct uw_node_file *f, struct uw_error *err)
{
    struct uw_node_options *o = &f->o;
    if (o->skew != NULL && uw_skew_parse(o->skew, &o->dealt) < 0) {
        return fail_key(f, "skew", "needs " UW_SKEW_ALLOWED, err);
    }
    return o->skew == NULL || o->shard != NULL
               ? UW_OK : fail_key(f, "skew", "needs \"shard\", this node's part", err);
}

int uw_node_config_check(struct uw_node_file *f, struct uw_error *err)
{
    struct uw_node_options *o = &f->o;
    bool unranked = is_link(o, "mpi") && !f->ranked;
    int rc = check_needed(f, err);
    if (rc < 0) {
        return rc;
    }
    if (o->cell != NULL && (strlen(o->cell) > 31 || strpbrk(o->cell, " \t~*") != NULL)) {
        return fail_key(f, "cell", "needs 1 to 31 characters, none of them a space, ~ or *", err);
    }
    bool has_cells = is_one_of(o->exchange, "hierarchical", "auto");
    if (o->cell != NULL && !has_cells) {
        return fail_key(f, "cell", "is for \"exchange\" hierarchical or auto", err);
    }
    if (strlen(o->run) > 64) {
        return fail_key(f, "run", "needs 1 to 64 characters", err);
    }
    if (!unranked) {
        o->together = o->together != UW_NODE_TOGETHER_UNSAID ? o->together : 0;
        if (o->cell_first == 0 && !has_cells) {
            o->cell_first = o->together;
        }
    }
    if (!unranked && (o->together > o->members || o->cell_first > o->members)) {
        return fail_key(f, o->together > o->members ? "together" : "cell_first",
                        "needs at most \"members\"", err);
    }
    if (!(unranked && o->shard != NULL && strchr(o->shard, '{') != NULL) &&
        uw_node_config_shard(o->shard, &o->shard_i, &o->shards_n) < 0) {
        return fail_key(f, "shard", "needs I/K with I from 0 to K-1", err);
    }
    struct uw_schedule lr;
    if (uw_lr_parse(o->schedule, &lr) < 0) {
        return fail_key(f, "schedule", "needs " UW_LR_ALLOWED, err);
    }
    bool to_the_end = lr.kind == UW_SCHEDULE_COSINE || lr.kind == UW_SCHEDULE_LINEAR;
    if (to_the_end && o->steps == 0 && o->epochs == 0 && o->seconds <= 0.0) {
        return fail_key(f, "schedule",
                        "cosine and linear need \"steps\", \"epochs\" or \"seconds\"", err);
    }
    if (o->steps != 0 && o->epochs != 0) {
        return fail_key(f, "steps", "and \"epochs\": give one of them", err);
    }
    if (o->exact && strcmp(o->backend, "auto") != 0 && strcmp(o->backend, "ref") != 0) {
        return fail_key(f, "backend", "needs auto or ref with \"exact\"", err);
    }
    if (o->elapsed > 0.0 && o->seconds <= 0.0) {
        return fail_key(f, "elapsed", "needs \"seconds\"", err);
    }
    rc = check_average(f, err);
    rc = rc < 0 ? rc : check_rule(f, err);
    rc = rc < 0 ? rc : check_period(f, err);
    rc = rc < 0 ? rc : check_code(f, err);
    rc = rc < 0 ? rc : check_sleep(f, err);
    rc = rc < 0 ? rc : check_emulated(f, err);
    rc = rc < 0 ? rc : check_skew(f, err);
    return rc < 0 ? rc : uw_node_config_check_link(f, err);
}

/* A list that --set gives replaces the file's; each --set adds to it. */
static void forget_lists(struct uw_node_file *f, const struct uw_opt_list *set)
{
    for (uint32_t i = 0; set != NULL && i < set->n; i++) {
        const char *item = set->item[i];
        const struct uw_opt *o = uw_opt_find(uw_node_keys, item, strcspn(item, "="));
        if (o != NULL && o->kind == UW_OPT_LIST) {
            struct uw_opt_list *list = (void *)((uint8_t *)&f->o + o->offset);
            list->n = 0;
        }
    }
}

/* Shared end of the two ways in. */
static int finish(struct uw_node_file *f, int rc, const struct uw_opt_list *set,
                  struct uw_error *err)
{
    if (rc == UW_OK && f->json.root != NULL) {
        uw_node_config_check_kind(f);
        uw_json_options(&f->json, f->json.root, uw_node_keys, &f->o);
        rc = f->json.err.code;
    }
    if (rc < 0) {
        return uw_error_set(err, rc, "%s", f->json.err.text);
    }
    forget_lists(f, set);
    f->set = set;
    for (uint32_t i = 0; set != NULL && i < set->n; i++) {
        rc = uw_opt_assign(uw_node_keys, set->item[i], &f->o, err);
        if (rc < 0) {
            return uw_node_config_refuse_kind(set->item[i], rc, err);
        }
    }
    rc = uw_node_config_choose_link(f, err);
    return rc < 0 ? rc : uw_node_config_check(f, err);
}

int uw_node_config_load(struct uw_node_file *f, const char *file, const struct uw_opt_list *set,
                        struct uw_error *err)
{
    *f = (struct uw_node_file){.o = defaults};
    return finish(f, file != NULL ? uw_json_open_file(&f->json, file) : UW_OK, set, err);
}

int uw_node_config_parse(struct uw_node_file *f, const char *file, const char *text,
                         size_t text_bytes, struct uw_error *err)
{
    *f = (struct uw_node_file){.o = defaults};
    return finish(f, uw_json_open_text(&f->json, file, text, text_bytes), NULL, err);
}

void uw_node_config_deinit(struct uw_node_file *f)
{
    uw_json_close(&f->json);
    while (f->texts_n != 0) {
        free(f->texts[--f->texts_n]);
    }
}
