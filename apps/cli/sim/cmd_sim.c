/* SPDX-License-Identifier: Apache-2.0 */
#include "sim.h"
#include "sim_advise.h"
#include "sim_draw.h"
#include "sim_file.h"
#include "base/commands.h"
#include "job/job_data.h"
#include "job/recipe.h"
#include "job/results.h"

#include "uwasa/hash.h"

#include <stdlib.h>
#include <string.h>

#define ADVISE_EVAL_SAMPLES 300     /* default; small, as candidates are tested often */
#define ADVISE_EVAL_NODES 16
#define EVAL_SECONDS_MIN 1e-6       /* resolution of the clock */
#define MTU 16384                   /* by default */
#define PULL_WINDOW (512u << 10)

static bool has_steps(const struct uw_sim_options *o)
{
    return o->steps != 0 && o->steps != UW_SIM_STEPS_ENDLESS;
}

/* The begin of a sentence: the given flag, or the file's line and key. */
static const char *given_as(const struct uw_sim_file *f, const struct uw_sim_options *o,
                            const char *flag)
{
    static char text[256];
    char value[128];
    uw_opt_text(uw_opt_find(uw_sim_flags, flag, strlen(flag)), o, value, sizeof value);
    return uw_sim_file_where(f, flag, value, text, sizeof text);
}

static int refuse(const struct uw_sim_file *f, const struct uw_sim_options *o, const char *flag,
                  const char *sentence)
{
    return uw_cli_error("sim", UW_EXIT_USAGE, "%s: %s", given_as(f, o, flag), sentence);
}

/* Report the first broken rule; f NULL: name only the flag. Returns -1 if there is none. */
static int check_rules(const struct uw_sim_file *f, const struct uw_sim_options *o,
                       const struct uw_rule *rules)
{
    const struct uw_rule r = uw_rule_broken(rules);
    return !r.broken   ? -1
           : f != NULL ? refuse(f, o, r.name, r.sentence)
                       : uw_cli_error("sim", UW_EXIT_USAGE, "--%s: %s", r.name, r.sentence);
}

/* Check the options as a node's configuration. */
static int check_node(const struct uw_sim_file *f, const struct uw_sim_options *o)
{
#define FIELD(member) offsetof(struct uw_node_config, member)
    static const struct {
        size_t field;
        const char *flag;
    } flags[] = {{FIELD(mode), "exchange"}, {FIELD(rule), "momentum-rule"},
                 {FIELD(period_share), "period"}, {FIELD(slices_n), "slices"},
                 {FIELD(pulls_n), "pulls"}};
    const enum uw_allreduce_kind kind = UW_ALLREDUCE_RING;      /* any will do for the check */
    struct uw_link link = {.frames = o->link != NULL, .shared = o->link != NULL};
    struct uw_node_config c = {.name = "node", .run = "sim", .link = &link,
                               .parts = &uw_node_parts_all,
                               .algorithm = o->algorithm.word != NULL ? &kind : NULL};
    struct uw_node_fault fault;
    const char *sentence;
    const char *flag = uw_exchange_wrong(&o->exchange, &sentence);
    uw_exchange_fill(&o->exchange, &c);
    c.gossip = UW_GOSSIP_PULL;          /* see check_exchange */
    if (flag == NULL && uw_node_check(&c, &fault) < 0) {
        flag = fault.name;
        sentence = fault.sentence;
        for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
            flag = flags[i].field == fault.field ? flags[i].flag : flag;
        }
    }
    return flag == NULL ? -1 : refuse(f, o, flag, sentence);
}

/* Check options that only one of the networks has (cost formulas, messages), or no search. */
static int check_network(const struct uw_sim_file *f, const struct uw_sim_options *o)
{
    static const char formula_only[] = "is for --network formula";
    static const char events_only[] = "is for --network events: closed costs have no messages";
    bool formula = o->network.at == UW_WORLD_FORMULA, limited = o->advise || formula;
    const char *number = o->advise ? "needs a number, not auto and not slices, with --advise"
                                   : "auto and slices are for --network events";
    return check_rules(f, o, UW_RULES(
        {limited && o->exchange.period.automatic, "period", number},
        {limited && o->exchange.slices > 1u, "slices", number},
        {!formula && o->model_bytes != 0, "model-bytes", formula_only},
        {!formula && o->pull_latencies != 0, "pull-latencies", formula_only},
        {!formula && o->pull_waits, "pull-waits", formula_only},
        {formula && o->mtu != 0, "mtu", events_only},
        {formula && o->pull_window != 0, "pull-window", events_only},
        {!formula && o->algorithm.at == UW_SIM_RING_STUDY, "algorithm",
         "is for --network formula: no rank sends a whole model to the next one of a ring"}));
}

/* Is the schedule a tree? A graph links all nodes, see check_graph. */
static bool is_tree(const struct uw_sim_options *o)
{
    const char *name = uw_exchange_peers(&o->exchange)->name;
    return strcmp(name, "tree") == 0 || strcmp(name, "chain") == 0 ||
           o->exchange.graph.edges_n + 1u == o->nodes;
}

/* Check options against the exchange of a single run. */
static int check_exchange(const struct uw_sim_file *f, struct uw_sim_options *o)
{
    enum uw_node_mode mode = (enum uw_node_mode)o->exchange.mode.at;
    bool formula = o->network.at == UW_WORLD_FORMULA;
    bool waits = mode == UW_NODE_GOSSIP && o->exchange.rule->over == UW_MIX_OVER_ANY;
    bool radio = o->link == NULL ||
                 (uw_radio_profile_find(o->link, &o->radio) >= 0 && o->radio.frames &&
                  o->radio.broadcasts);
    char both[160];
    snprintf(both, sizeof both, "is for --exchange gossip, push, push-sum and relay, not in pairs: "
             "these are %s and %s", o->exchange.mode.word, o->exchange.rule->name);
    return check_rules(f, o, UW_RULES(
        {o->pull_waits && !waits, "pull-waits", both},
        {formula && mode == UW_NODE_AUTO, "exchange", "nodes find their cells by messages, which "
                                                      "--network formula does not have"},
        {!radio, "link", "needs a radio with all nodes in range of each other: 802154, espnow, "
                         "lora:SF7 to lora:SF12, bus:9600"},
        {!formula && o->exchange.gossip != UW_GOSSIP_PULL, "exchange",
         "push, push-sum and relay are for --network formula"},
        {o->exchange.gossip == UW_GOSSIP_PUSH_SUM && o->exchange.rule != &uw_mix_none,
         "momentum-rule", "must be none with --exchange push-sum"},
        {o->exchange.gossip == UW_GOSSIP_RELAY && !is_tree(o), "schedule",
         "must be a tree with --exchange relay: tree, chain, or a --graph"},
        {o->link != NULL && formula, "link", "a radio is for --network events"},
        {o->link != NULL && o->exchange.graph_file != NULL, "graph", "is not for --link"}));
}

/* The end of a chain of nodes. */
static uint32_t root_of(const uint32_t *next, uint32_t i)
{
    while (next[i] != i) {
        i = next[i];
    }
    return i;
}

/* Check that a graph links all nodes to each other, and no others. */
static int check_graph(const struct uw_sim_file *f, const struct uw_sim_options *o)
{
    const struct uw_peer_graph *g = &o->exchange.graph;
    uint32_t *next = calloc(2u * o->nodes, sizeof *next), parts = o->nodes, at[2];
    const char *wrong = NULL;
    for (uint32_t i = 0; next != NULL && i < o->nodes; i++) {
        char name[16];
        snprintf(name, sizeof name, "node%u", (unsigned)i);
        next[i] = i;
        next[o->nodes + i] = uw_hash32_text(name);
    }
    for (uint32_t e = 0; next != NULL && e < g->edges_n && wrong == NULL; e++) {
        for (uint32_t k = 0; k < 2; k++) {
            for (at[k] = 0; at[k] < o->nodes && next[o->nodes + at[k]] != g->edges[e].id[k];
                 at[k]++) {
            }
            wrong = at[k] == o->nodes ? "needs names of nodes: node0, node1 ..." : wrong;
        }
        uint32_t a = wrong == NULL ? root_of(next, at[0]) : 0;
        uint32_t b = wrong == NULL ? root_of(next, at[1]) : 0;
        parts -= a != b ? 1u : 0u;
        next[a] = b;
    }
    wrong = wrong == NULL && g->edges_n != 0 && parts > 1u ? "does not link all nodes" : wrong;
    wrong = next == NULL ? "needs memory" : wrong;
    free(next);
    return wrong == NULL ? -1 : refuse(f, o, "graph", wrong);
}

static int check_nodes(const struct uw_sim_file *f, const struct uw_sim_options *o)
{
    double max = uw_opt_find(uw_sim_flags, "nodes", strlen("nodes"))->max;
    const cJSON *m = cJSON_GetObjectItemCaseSensitive(f->json.root, "nodes");
    if (o->nodes >= 2 && o->nodes <= max) {
        return -1;
    }
    return m == NULL ? uw_cli_error("sim", UW_EXIT_USAGE, "--nodes %u: needs 2 to %.0f",
                                    (unsigned)o->nodes, max)
                     : uw_cli_error("sim", UW_EXIT_USAGE, "%.120s:%u: \"nodes\" needs 2 to %.0f of "
                                    "all groups together", f->json.file,
                                    (unsigned)uw_json_line(&f->json, m), max);
}

/* Check that the devices can be drawn. */
static int check_fleet(const struct uw_sim_options *o)
{
    struct uw_sim_draw d;
    struct uw_error err = {.text = ""};
    int rc = uw_sim_draw_open(&d, o->scenario, &(struct uw_sim_cost){1, 1}, &err);
    uw_sim_draw_close(&d);
    return rc == UW_OK ? -1 : uw_cli_error("sim", uw_job_exit(rc), "%.120s: %s",
                                           o->config != NULL ? o->config : "the fleet", err.text);
}

/* Refuse options of a single run with --advise. */
static int check_advise(const struct uw_sim_options *o)
{
    static const char many[] = "is not for --advise, which makes many runs";
    return check_rules(NULL, o, UW_RULES(
        {o->csv != NULL, "csv", many}, {o->checkpoint != NULL, "checkpoint", many},
        {o->resume != NULL, "resume", many}, {o->timeline > 0.0, "timeline", many},
        {o->per_node, "per-node", many}, {o->dry_run, "dry-run", many},
        {o->profile, "profile", many}, {o->link != NULL, "link", many},
        {o->exchange.share > 0.0, "share", many}));
}

/* Check combinations of options for a single run. */
static int check_run(const struct uw_sim_file *f, struct uw_sim_options *o)
{
    bool cells = o->exchange.mode.at == UW_NODE_HIERARCHICAL;
    int status = check_rules(NULL, o, UW_RULES({o->cell_nodes != 0 && !cells, "cell-nodes",
                                                "is for --exchange hierarchical"}));
    status = status >= 0 ? status : check_node(f, o);
    return status >= 0 ? status : check_exchange(f, o);
}

/* Flags that read files, then the traces of the scenario. */
#define READ_FLAGS 5u

static int check_results(const struct uw_sim_file *f, const struct uw_sim_options *o)
{
    const struct uw_named_file results[] = {{.flag = "--json", .file = o->json},
                                            {.flag = "--csv", .file = o->csv},
                                            {"--checkpoint", o->checkpoint,
                                             .goes_on = "--resume"}};
    struct uw_named_file read[READ_FLAGS + UW_SIM_TRACES_MAX] = {
        {.flag = "--config", .file = o->config},
        {.flag = "--model", .file = uw_files_of_model(o->model)},
        {.flag = "--data", .file = uw_files_of_data(o->data)},
        {.flag = "--resume", .file = o->resume},
        {.flag = "--graph", .file = o->exchange.graph_file}};
    struct uw_error err = {.text = ""};
    for (uint32_t i = 0; i < f->traces_n; i++) {
        read[READ_FLAGS + i] = (struct uw_named_file){"--config", f->trace_files[i], NULL};
    }
    return uw_check_results(results, 3, read, READ_FLAGS + f->traces_n, &err) < 0
               ? uw_cli_error("sim", UW_EXIT_USAGE, "%s", err.text)
               : -1;
}

/* Replace words that were not given by the actual choices, since saved runs compare them. */
static void set_words(struct uw_exchange *x)
{
    x->rule_word.word = x->rule->name;
    x->peers_word.word = uw_exchange_peers(x)->name;
    x->share = uw_exchange_share(x);
}

static int check(const struct uw_sim_file *f, struct uw_sim_options *o)
{
    if (o->model == NULL) {
        return uw_cli_error("sim", UW_EXIT_USAGE, "--model: is needed, uwasa models lists some");
    }
    struct uw_schedule lr;
    int status = check_rules(f, o, UW_RULES(
        {o->steps != UW_SIM_STEPS_ENDLESS && o->epochs != 0, "steps",
         "and epochs: give one of them"},
        {o->steps == 0 && o->epochs == 0 && o->virtual_seconds == 0.0, "steps",
         "needs --virtual-seconds, which then ends the run"},
        {uw_skew_parse(o->skew, &o->dealt) < 0, "skew", "needs " UW_SKEW_ALLOWED},
        {o->csv != NULL && strcmp(o->csv, "-") == 0, "csv", "needs the name of a file"},
        {o->eval_seconds > 0.0 && o->eval_seconds < EVAL_SECONDS_MIN, "eval-seconds",
         "needs 0, or 1e-06 or more"},
        {uw_lr_parse(o->lr_schedule, &lr) < 0, "lr-schedule", "needs " UW_LR_ALLOWED}));
    if (status >= 0) {
        return status;
    }
    struct uw_error err = {.text = ""};
    if (uw_exchange_read(&o->exchange, &err) < 0) {
        return uw_cli_error("sim", UW_EXIT_USAGE, "%s", err.text);
    }
    o->steps = has_steps(o) ? o->steps : 0;
    uw_exchange_resolve(&o->exchange, &uw_mix_qg);
    status = check_results(f, o);
    status = status >= 0 ? status : check_nodes(f, o);
    status = status >= 0 ? status : check_graph(f, o);
    status = status >= 0 ? status : check_network(f, o);
    status = status >= 0 ? status : o->advise ? check_advise(o) : check_run(f, o);
    set_words(&o->exchange);
    o->cell_nodes = o->cell_nodes != 0 ? o->cell_nodes : UW_SIM_CELL_NODES;
    o->mtu = o->mtu != 0 ? o->mtu : MTU;
    o->pull_window = o->pull_window != 0 ? o->pull_window : PULL_WINDOW;
    return status >= 0 ? status : check_fleet(o);
}

/* Refuse values that drawing would silently clamp to their range. */
static int check_devices(const struct uw_sim_file *f, const struct uw_sim_options *o)
{
    bool rate = o->bandwidth != UINT64_MAX && o->bandwidth != 0;
    char bits[64];
    snprintf(bits, sizeof bits, "needs 0 (unlimited), or %.0f to %.0f", UW_SIM_BITS_MIN,
             UW_SIM_BITS_MAX);
    return check_rules(f, o, UW_RULES(
        {rate && ((double)o->bandwidth < UW_SIM_BITS_MIN || (double)o->bandwidth > UW_SIM_BITS_MAX),
         "bandwidth", bits},
        {o->step_seconds > 0.0 && o->step_seconds < UW_SIM_STEP_MIN, "step-seconds",
         "needs 0 (as long as here), or 1e-06 or more"}));
}

/* Set up the devices from the file, then the flags. */
static int make_fleet(struct uw_sim_file *f, struct uw_sim_options *o)
{
    bool cells = !o->advise && o->exchange.mode.at == UW_NODE_HIERARCHICAL;
    struct uw_error err = {.text = ""};
    if (uw_sim_file_flags(f, o, cells, &err) < 0) {
        return uw_cli_error("sim", UW_EXIT_USAGE, "%s", err.text);
    }
    const struct uw_sim_group *first = &f->scenario.groups[0];
    f->scenario.seed = o->seed;
    o->scenario = &f->scenario;
    o->nodes = uw_sim_scenario_devices(&f->scenario);
    o->bandwidth = (uint64_t)first->up.a;
    o->latency = first->latency.a;
    o->loss = first->loss;
    o->step_seconds = first->step == UW_SIM_STEP_SECONDS ? first->seconds.a : 0.0;
    return -1;
}

/* Ignore keys of the file for an exchange or network that the command line replaces. */
static void drop_keys(const struct uw_sim_options *flags, struct uw_sim_options *o)
{
    if (flags->network.word != NULL && o->network.at == UW_WORLD_FORMULA) {
        o->mtu = flags->mtu;
        o->pull_window = flags->pull_window;
    } else if (flags->network.word != NULL) {
        o->model_bytes = flags->model_bytes;
        o->pull_latencies = flags->pull_latencies;
        o->pull_waits = flags->pull_waits;
        o->algorithm = o->algorithm.at == UW_SIM_RING_STUDY ? flags->algorithm : o->algorithm;
    }
    if (flags->exchange.mode.word == NULL) {
        return;
    }
    if (o->exchange.mode.at == UW_NODE_ALLREDUCE || o->exchange.mode.at == UW_NODE_BROADCAST) {
        o->exchange.peers_word = flags->exchange.peers_word;
    } else if (o->exchange.mode.at == UW_NODE_GOSSIP) {
        o->algorithm = flags->algorithm;
    }
}

/* Refuse flags that have no effect without, or with, another one. flags: those given on the command
 * line (seconds of -1: not given); o: with the file's. */
static int check_given(const struct uw_sim_options *flags, const struct uw_sim_options *o)
{
    static const char radio[] = "is not for --link, a radio with its own rate, frames and no "
                                "latency: choose another radio, or leave --link out";
    static const char dry[] = "is not for --dry-run, which runs nothing";
    return check_rules(NULL, o, UW_RULES(
        {flags->bandwidth != UINT64_MAX && o->link != NULL, "bandwidth", radio},
        {flags->latency >= 0.0 && o->link != NULL, "latency", radio},
        {flags->mtu != 0 && o->link != NULL, "mtu", radio},
        {flags->advise_seconds >= 0.0 && !o->advise, "advise-seconds", "is for --advise"},
        {flags->advise_runs != 0.0 && !o->advise, "advise-runs", "is for --advise"},
        {flags->checkpoint_seconds >= 0.0 && o->checkpoint == NULL, "checkpoint-seconds",
         "is for --checkpoint"},
        {flags->csv != NULL && o->dry_run, "csv", dry},
        {flags->checkpoint != NULL && o->dry_run, "checkpoint", dry},
        {flags->resume != NULL && o->dry_run, "resume", dry}));
}

/* Read defaults, then the file, then the flags. Returns -1 to continue, or the exit status. asked:
 * the choices that flags (not the file) fix for --advise. */
static int read_options(struct uw_sim_file *f, struct uw_sim_options *o,
                        struct uw_advice_asked *asked, int argc, char **argv)
{
    struct uw_sim_options flags = *o;
    struct uw_error err = {.text = ""};
    flags.exchange = (struct uw_exchange){.momentum = -1.0};
    flags.network.word = NULL;
    flags.advise_seconds = flags.checkpoint_seconds = -1.0;
    int status = uw_args_parse(&uw_sim_args, argc, argv, &flags, NULL);
    if (status >= 0) {
        return status;
    }
    uw_exchange_resolve(&flags.exchange, NULL);
    *asked = (struct uw_advice_asked){.mode = flags.exchange.mode, .peers = flags.exchange.peers,
                                      .rule = flags.exchange.rule,
                                      .period = flags.exchange.period.n,
                                      .argc = argc, .argv = argv};
    if (flags.advise) {
        o->eval_samples = ADVISE_EVAL_SAMPLES;
        o->eval_nodes = ADVISE_EVAL_NODES;
    }
    int rc = flags.config != NULL ? uw_sim_file_load(f, flags.config, uw_sim_flags, o, &err)
                                  : uw_sim_file_plain(f, &err);
    if (rc < 0) {
        return uw_cli_error("sim", uw_job_exit(rc), "%s", err.text);
    }
    if (uw_sim_file_check_radio(f, &err) < 0) {
        return uw_cli_error("sim", UW_EXIT_USAGE, "%s", err.text);
    }
    asked->file_counts = has_steps(o) || o->epochs != 0;
    if (flags.steps != UW_SIM_STEPS_ENDLESS || flags.epochs != 0) {
        o->steps = UW_SIM_STEPS_ENDLESS;        /* the one given replaces the other */
        o->epochs = 0;
    }
    status = uw_args_parse(&uw_sim_args, argc, argv, o, NULL);
    drop_keys(&flags, o);
    if (status < 0 && !o->devices) {
        status = check_given(&flags, o);
        status = status >= 0 ? status : check_devices(f, o);
        status = status >= 0 ? status : make_fleet(f, o);
        status = status >= 0 ? status : check(f, o);
    }
    return status;
}

static int start(const struct uw_sim_options *o, const struct uw_advice_asked *asked)
{
    if (o->devices) {
        return uw_sim_print_devices(o->json);
    }
    if (o->dry_run) {
        return uw_sim_dry_run(o);
    }
    return o->advise ? uw_sim_advise(o, asked) : uw_sim_run(o);
}

int uw_cmd_sim(int argc, char **argv)
{
    struct uw_sim_options o = {.data = "digits", .exchange = UW_EXCHANGE_DEFAULTS,
                               .skew = "even", .backend = {"auto", UW_BACKEND_AUTO},
                               .lr_schedule = "constant",
                               .network = {"events", UW_WORLD_EVENTS}, .batch = 32,
                               .eval_samples = 1000, .eval_epochs = 1, .eval_nodes = 64,
                               .train_loss = UW_LOSS_DEFAULT,
                               .consensus_rounds = 1, .steps = UW_SIM_STEPS_ENDLESS, .seed = 1,
                               .bandwidth = UINT64_MAX, .latency = -1.0, .loss = -1.0,
                               .step_seconds = -1.0, .start_spread = -1.0,
                               .lr = 0.05,
                               .checkpoint_seconds = 300.0, .advise_seconds = 60.0,
                               .flags = &uw_sim_flags};
    struct uw_sim_file file = {.grouped = false};
    struct uw_advice_asked asked;
    if (argc > 1 && strcmp(argv[1], "time") == 0) {
        return uw_cmd_sim_time(argc - 1, argv + 1);
    }
    int status = read_options(&file, &o, &asked, argc, argv);
    status = status >= 0 ? status : start(&o, &asked);
    uw_sim_file_close(&file);
    uw_exchange_close(&o.exchange);
    return status;
}
