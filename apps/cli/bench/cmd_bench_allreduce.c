/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_allreduce.h"
#include "bench_train.h"
#include "base/args.h"
#include "base/commands.h"
#include "base/events.h"
#include "job/job.h"

#include <stdio.h>
#include <string.h>

#define LINKS "tcp|udp|loopback"

struct options {
    struct uw_choice algorithm;     /* enum uw_allreduce_kind, UW_ALLREDUCE_KINDS_N: auto */
    struct uw_choice link;          /* enum uw_bench_rank_link */
    const char *json;
    uint32_t nodes, windows;
    uint64_t bytes, chunk, segment;
    double seconds;
    bool tls, node;
};

#define ROW(...) UW_OPT_ROW(struct options, __VA_ARGS__)

static const struct uw_opt rows[] = {
    ROW("algorithm", UW_OPT_CHOICE, algorithm, 0, 0, "tree|doubling|halving|ring|sweep|auto",
        "algorithm of the all-reduce (auto)"),
    ROW("nodes", UW_OPT_U32, nodes, 1, UW_BENCH_RANKS_MAX, "P",
        "number of ranks, each a process on this machine, with loopback a thread (4)"),
    ROW("bytes", UW_OPT_BYTES, bytes, 4, 4294967292.0, "N",
        "size of the vector, four bytes a float (1M)"),
    ROW("link", UW_OPT_CHOICE, link, 0, 0, LINKS, "link between the ranks (tcp)"),
    ROW("tls", UW_OPT_FLAG, tls, 0, 0, NULL, "encrypt tcp"),
    ROW("node", UW_OPT_FLAG, node, 0, 0, NULL,
        "in turns with the same average by nodes over tcp: gather, average, commit"),
    ROW("windows", UW_OPT_U32, windows, 1, UW_BENCH_ALLREDUCE_WINDOWS_MAX, "N",
        "number of measurements; the median counts (11)"),
    ROW("seconds", UW_OPT_REAL, seconds, 0.0001, 60, "S",
        "approximate time of a measurement (0.05)"),
    ROW("chunk", UW_OPT_BYTES, chunk, 1024, 1 << 26, "BYTES", "largest message, 1K or more (248K)"),
    ROW("segment", UW_OPT_BYTES, segment, 4096, 4294967292.0, "BYTES",
        "over tcp: bytes in work at a time, 4K or more (62K a rank, 248K at least)"),
    ROW("json", UW_OPT_TEXT, json, 0, 0, "FILE|-", "write events as JSON lines"),
};

static const struct uw_args_spec spec = {
    .command = "bench allreduce",
    .summary = "measure an exact average among processes of this machine",
    .usage = "[flags]",
    .example = "uwasa bench allreduce --algorithm halving --nodes 4 --bytes 4M --json -",
    .opts = {rows, sizeof rows / sizeof rows[0]},
};

/* Times of nodes, and their ratios to the times of ranks. */
struct node_spread {
    struct uw_spread average, round, ratio;
};

static struct node_spread node_spread_of(struct uw_bench_allreduce_result *r, uint32_t windows)
{
    return (struct node_spread){.ratio = uw_spread_ratio(r->node_seconds, r->seconds, windows),
                                .average = uw_spread_of(r->node_seconds, windows),
                                .round = uw_spread_of(r->node_round_seconds, windows)};
}

static void put_done(struct uw_events *events, const struct options *o,
                     const struct uw_bench_allreduce *b,
                     const struct uw_bench_allreduce_result *r, const struct uw_spread *s,
                     const struct node_spread *n)
{
    cJSON *ev = uw_event("done");
    cJSON_AddStringToObject(ev, "algorithm", o->algorithm.word);
    cJSON_AddStringToObject(ev, "chosen", uw_allreduce_name(b->kind));
    cJSON_AddStringToObject(ev, "link", o->link.word);
    cJSON_AddBoolToObject(ev, "tls", b->tls);
    UW_EVENT_NUMBERS(ev, {"nodes", b->ranks}, {"bytes", (double)b->n * sizeof(float)},
                     {"seconds", s->median}, {"seconds_low", s->low}, {"seconds_high", s->high},
                     {"bus_bytes_per_s", uw_bench_bus_bytes_per_s(b->ranks, b->n, s->median)},
                     {"predicted_seconds", r->predicted_seconds},
                     {"latency_s", r->cost.latency_s}, {"byte_s", r->cost.byte_s},
                     {"reduce_s", r->cost.reduce_s}, {"rounds", r->rounds});
    if (b->node) {
        UW_EVENT_NUMBERS(ev, {"node_seconds", n->average.median},
                         {"node_seconds_low", n->average.low},
                         {"node_seconds_high", n->average.high},
                         {"node_round_seconds", n->round.median}, {"node_ratio", n->ratio.median});
    }
    uw_events_put(events, ev);
}

static int run(const struct options *o, struct uw_events *events, struct uw_error *err)
{
    struct uw_bench_allreduce_result r;
    struct uw_bench_allreduce b = {
        .link = (enum uw_bench_rank_link)o->link.at, .tls = o->tls, .node = o->node,
        .automatic = o->algorithm.at == UW_ALLREDUCE_KINDS_N,
        .kind = (enum uw_allreduce_kind)o->algorithm.at,
        .ranks = o->nodes, .n = (uint32_t)(o->bytes / sizeof(float)), .windows = o->windows,
        .seconds = o->seconds, .chunk_n = (uint32_t)(o->chunk / sizeof(float)),
        .segment_n = (uint32_t)(o->segment / sizeof(float))};
    int rc = uw_bench_allreduce(&b, &r, err);
    if (rc < 0) {
        return rc;
    }
    const struct node_spread n = node_spread_of(&r, b.windows);
    const struct uw_spread s = uw_spread_of(r.seconds, b.windows);
    put_done(events, o, &b, &r, &s, &n);
    if (!uw_events_take_stdout(events)) {
        printf("%s of %lu bytes on %u nodes over %s%s: %.1f us (%.1f to %.1f), %.1f MB/s on the "
               "bus, predicted %.1f us\n",
               uw_allreduce_name(b.kind), (unsigned long)b.n * 4u, b.ranks, o->link.word,
               o->tls ? " with tls" : "", s.median * 1e6, s.low * 1e6, s.high * 1e6,
               uw_bench_bus_bytes_per_s(b.ranks, b.n, s.median) * 1e-6,
               r.predicted_seconds * 1e6);
        if (b.node) {
            printf("as nodes, gather and commit included: %.1f us (%.1f to %.1f), %.2f times as "
                   "long (%.2f to %.2f, median of the windows' ratios); a round with training's "
                   "copies: %.1f us\n",
                   n.average.median * 1e6, n.average.low * 1e6, n.average.high * 1e6,
                   n.ratio.median, n.ratio.low, n.ratio.high, n.round.median * 1e6);
        }
    }
    return UW_OK;
}

int uw_cmd_bench_allreduce(int argc, char **argv)
{
    struct options o = {.algorithm = {"auto", UW_ALLREDUCE_KINDS_N},
                        .link = {"tcp", UW_BENCH_TCP}, .nodes = 4, .bytes = 1u << 20,
                        .windows = 11, .seconds = 0.05};
    struct uw_error err = {.text = ""};
    struct uw_events events;
    int status = uw_args_parse(&spec, argc, argv, &o, NULL);
    if (status >= 0) {
        return status;
    }
    if (o.tls && o.link.at != UW_BENCH_TCP) {
        return uw_cli_error(spec.command, UW_EXIT_USAGE, "--tls: means nothing to --link %s",
                            o.link.word);
    }
    if (o.node && (o.link.at != UW_BENCH_TCP || o.nodes < 2)) {
        return uw_cli_error(spec.command, UW_EXIT_USAGE,
                            "--node: needs --link tcp and two nodes or more");
    }
    const struct {
        const char *name;
        uint64_t bytes;
    } whole[] = {{"bytes", o.bytes}, {"chunk", o.chunk}, {"segment", o.segment}};
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
        if (whole[i].bytes % sizeof(float) != 0) {
            return uw_cli_error(spec.command, UW_EXIT_USAGE, "--%s %lu: needs a multiple of 4",
                                whole[i].name, (unsigned long)whole[i].bytes);
        }
    }
    int rc = uw_events_open(&events, o.json, UW_EVENTS_NEW, &err);
    rc = rc < 0 ? rc : run(&o, &events, &err);
    int closed = uw_events_close(&events, rc < 0 ? NULL : &err);
    rc = rc < 0 ? rc : closed;
    return rc < 0 ? uw_cli_error(spec.command, uw_job_exit(rc), "%s", err.text) : UW_EXIT_DONE;
}
