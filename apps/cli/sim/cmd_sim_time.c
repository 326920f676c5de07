/* SPDX-License-Identifier: Apache-2.0 */
#include "base/args.h"
#include "base/commands.h"
#include "base/events.h"
#include "job/job.h"
#include "job/results.h"

#include "uwasa/describe.h"
#include "uwasa/sim_devices.h"
#include "uwasa/sim_step_time.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES_MAX 1024u
#define LIST_MAX 32u
#define BATCH_MAX (1u << 30)
#define RATE 1e12
#define LATENCY_MAX 3600

enum { ALLREDUCE, GOSSIP };
enum { ON, OFF };
#define HYBRID 4                /* follows tree, doubling, halving and ring */

struct options {
    const char *model, *nodes, *device, *json;
    struct uw_choice exchange;      /* of ALLREDUCE, GOSSIP */
    struct uw_choice algorithm;     /* enum uw_allreduce_kind, HYBRID; word NULL: not given */
    struct uw_choice overlap;       /* of ON, OFF */
    uint32_t batch, one_batch, fragment, chunk, bucket;
    uint64_t bandwidth;
    double device_rate, half_batch, latency, message_seconds, add_rate, interference;
};

#define ROW(...) UW_OPT_ROW(struct options, __VA_ARGS__)

static const struct uw_opt rows[] = {
    ROW("model", UW_OPT_TEXT, model, 0, 0, "M",
        "built-in name (see uwasa models), ONNX file or JSON file"),
    ROW("nodes", UW_OPT_TEXT, nodes, 0, 0, "N,...", "numbers of nodes (1,2,4,8,16,32,64,128,256)"),
    ROW("batch", UW_OPT_U32, batch, 1, BATCH_MAX, "B", "samples of one node's step (256)"),
    ROW("one-batch", UW_OPT_U32, one_batch, 1, BATCH_MAX, "B",
        "samples of a step on the single node that speed-ups are relative to (batch)"),
    ROW("exchange", UW_OPT_CHOICE, exchange, 0, 0, "allreduce|gossip",
        "allreduce: gradients of all nodes, every step; gossip: with one partner, every step "
        "(allreduce)"),
    ROW("algorithm", UW_OPT_CHOICE, algorithm, 0, 0, "tree|doubling|halving|ring|hybrid",
        "algorithm of the all-reduce; hybrid: doubling for small vectors, else halving (hybrid)"),
    ROW("overlap", UW_OPT_CHOICE, overlap, 0, 0, "on|off",
        "exchange while computing; off: compute, then exchange (on)"),
    ROW("device", UW_OPT_TEXT, device, 0, 0, "D",
        "device that computes, which gives the rate; see uwasa sim --devices"),
    ROW("device-rate", UW_OPT_REAL, device_rate, 1, 0, "MACS",
        "multiply-adds a second with a large minibatch, instead of --device (1e12)"),
    ROW("half-batch", UW_OPT_REAL, half_batch, 0, 0, "B",
        "minibatch that reaches half of the rate (0)"),
    ROW("interference", UW_OPT_REAL, interference, 0, 0, "X",
        "with overlap: computing takes 1 + X times as long while the link is busy (0)"),
    ROW("bandwidth", UW_OPT_U64, bandwidth, 1, 0, "BITS",
        "bits a second that each node can send, and receive (10000000000)"),
    ROW("latency", UW_OPT_REAL, latency, 0, LATENCY_MAX, "S",
        "seconds from node to node, one way (0.000005)"),
    ROW("message-seconds", UW_OPT_REAL, message_seconds, 0, LATENCY_MAX, "S",
        "time that each message occupies the link besides its bytes (0.000001)"),
    ROW("add-rate", UW_OPT_REAL, add_rate, 0, 0, "BYTES",
        "bytes a second that a node adds up; 0: no time (0)"),
    ROW("fragment", UW_OPT_U32, fragment, 0, 0, "FLOATS",
        "with overlap: floats of one all-reduce; 0: a layer (65536)"),
    ROW("chunk", UW_OPT_U32, chunk, 0, 0, "FLOATS",
        "largest message of an all-reduce; 0: no limit (65536)"),
    ROW("bucket", UW_OPT_U32, bucket, 0, 0, "FLOATS",
        "least floats of neighbouring layers that are sent together (2048)"),
    ROW("json", UW_OPT_TEXT, json, 0, 0, "FILE|-", "write events as JSON lines"),
};

static const struct uw_args_spec spec = {
    .command = "sim time",
    .summary = "show how long a training step takes on many nodes, without training",
    .usage = "--model M [flags]",
    .example = "uwasa sim time --model alexnet --nodes 64,256 --batch 256 --overlap off",
    .epilogue =
        "All nodes are equal. Layer by layer, multiply-adds take time at the device's rate, and\n"
        "gradients over the network. Speed-up:\n"
        "t(1, one-batch) / t(N, batch) * batch / one-batch * N.",
    .opts = {rows, sizeof rows / sizeof rows[0]},
};

struct table {
    struct uw_step_layer *layers;
    uint32_t layers_n;
};

static void add_layer(void *arg, const struct uw_layer_info *l)
{
    struct table *t = arg;
    double products = (double)l->multiply_adds;
    t->layers[t->layers_n++] = (struct uw_step_layer){
        .forward = products, .backward = l->passes > 0 ? (l->passes - 1) * products : 0.0,
        .params_n = l->trained_n};
}

/* Read the model's layers; the caller frees the table. Returns UW_OK or a code, err filled. */
static int read_layers(const char *model, struct table *t, struct uw_error *err)
{
    struct uw_job job = {.pool = NULL};
    const struct uw_job_config config = {.model = model, .backend = {"ref", UW_BACKEND_REF},
                                         .threads = 1,
                                         .plan = {.batch_n = 1, .mode = UW_PLAN_BUCKETS}};
    const struct uw_visitor visitor = {.layer = add_layer, .arg = t};
    int rc = uw_job_plan(&job, &config, err);
    if (rc == UW_OK) {
        t->layers = calloc(job.file.def.layers_n, sizeof *t->layers);
        rc = t->layers != NULL ? UW_OK : uw_error_set(err, UW_ERR_NOMEM, "out of memory");
    }
    if (rc == UW_OK) {
        struct uw_workers planned = job.planned;
        job.config.workers = &planned;
        rc = uw_model_describe(&job.config, &visitor, err);
    }
    uw_job_deinit(&job);
    return rc;
}

/* Read "1,2,4". Returns the count; 0: not such a list. */
static uint32_t read_nodes(const char *text, uint32_t nodes[LIST_MAX])
{
    for (uint32_t n = 0; n < LIST_MAX; n++) {
        char *end;
        unsigned long value = *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : 0;
        if (value == 0 || value > NODES_MAX || (*end != ',' && *end != '\0')) {
            return 0;
        }
        nodes[n] = (uint32_t)value;
        if (*end == '\0') {
            return n + 1;
        }
        text = end + 1;
    }
    return 0;
}

static struct uw_step_config config_of(const struct options *o, const struct table *t)
{
    bool overlap = o->overlap.at == ON, gossip = o->exchange.at == GOSSIP;
    struct uw_step_config c = {
        .layers = t->layers, .layers_n = t->layers_n, .bucket_n = o->bucket, .batch_n = o->batch,
        .macs_per_s = o->device_rate, .half_batch_n = o->half_batch,
        .interference = o->interference, .exchange = UW_STEP_ALLREDUCE,
        .network = {.latency_s = o->latency, .byte_s = 8.0 / (double)o->bandwidth,
                    .reduce_s = o->add_rate > 0.0 ? 1.0 / o->add_rate : 0.0,
                    .access_s = o->message_seconds, .chunk_n = o->chunk},
        .overlap = overlap, .asked = !gossip, .fragment_n = o->fragment};
    if (gossip) {
        c.exchange = UW_STEP_PARTNER;
    } else if (o->algorithm.at == HYBRID) {
        c.exchange = UW_STEP_HYBRID;
    } else {
        c.kind = (enum uw_allreduce_kind)o->algorithm.at;
    }
    return c;
}

static void report(struct uw_events *events, const struct options *o, uint32_t nodes_n,
                   const struct uw_step_time *t, double speed_up)
{
    double efficiency = speed_up / nodes_n;
    cJSON *ev = uw_event("step_time");
    UW_EVENT_NUMBERS(ev, {"nodes", nodes_n}, {"batch", o->batch}, {"step_seconds", t->step_s},
                     {"compute_seconds", t->compute_s}, {"network_seconds", t->network_s},
                     {"speed_up", speed_up}, {"efficiency", efficiency},
                     {"bytes_sent", t->sent_bytes}, {"bytes_busiest", t->busiest_bytes});
    uw_events_put(events, ev);
    if (!uw_events_take_stdout(events)) {
        printf("%5u %12.6f %12.6f %12.6f %9.2f %9.1f%% %13.0f %13.0f\n", (unsigned)nodes_n,
               t->step_s, t->compute_s, t->network_s, speed_up, 100.0 * efficiency,
               t->sent_bytes, t->busiest_bytes);
    }
}

static int time_one(const struct uw_step_config *c, struct uw_step_time *t, struct uw_error *err)
{
    int rc = uw_step_time(c, t);
    return rc < 0 ? uw_error_set(err, rc, "a step of %u nodes: %s",
                                 (unsigned)c->nodes_n,
                                 rc == UW_ERR_NOMEM    ? "out of memory"
                                 : rc == UW_ERR_TOOBIG ? "takes 30 years or more"
                                                       : "there is none") : UW_OK;
}

static void report_start(struct uw_events *events, const struct options *o, const struct table *t)
{
    double products = 0.0, params = 0.0;
    for (uint32_t i = 0; i < t->layers_n; i++) {
        products += t->layers[i].forward + t->layers[i].backward;
        params += t->layers[i].params_n;
    }
    cJSON *ev = uw_event("start");
    cJSON_AddStringToObject(ev, "model", o->model);
    cJSON_AddStringToObject(ev, "exchange", o->exchange.word);
    if (o->exchange.at != GOSSIP) {
        cJSON_AddStringToObject(ev, "algorithm", o->algorithm.word);
    }
    cJSON_AddStringToObject(ev, "overlap", o->overlap.word);
    UW_EVENT_NUMBERS(ev, {"multiply_adds", products}, {"trained", params});
    uw_events_put(events, ev);
    if (!uw_events_take_stdout(events)) {
        printf("%s: %.0f multiply-adds a sample and step, %.0f parameters trained\n\n%5s %12s %12s "
               "%12s %9s %10s %13s %13s\n", o->model, products, params, "nodes", "step s",
               "computing s", "network s", "speed-up", "efficiency", "bytes sent", "of busiest");
    }
}

static int run(const struct options *o, const uint32_t *nodes, uint32_t nodes_n,
               struct uw_events *events, struct uw_error *err)
{
    struct table t = {.layers = NULL};
    struct uw_step_time one, many;
    int rc = read_layers(o->model, &t, err);
    struct uw_step_config c = config_of(o, &t);
    if (rc == UW_OK) {
        report_start(events, o, &t);
        c.nodes_n = 1;
        c.batch_n = o->one_batch;
        rc = time_one(&c, &one, err);
        c.batch_n = o->batch;
    }
    for (uint32_t i = 0; i < nodes_n && rc == UW_OK; i++) {
        c.nodes_n = nodes[i];
        rc = time_one(&c, &many, err);
        if (rc == UW_OK) {
            report(events, o, nodes[i], &many,
                   uw_step_speed_up(one.step_s, o->one_batch, many.step_s, o->batch, nodes[i]));
        }
    }
    if (rc == UW_OK) {
        uw_events_put(events, uw_event("done"));
    }
    free(t.layers);
    return rc;
}

/* Check options that need others. Returns -1 to continue, or the exit status. */
static int check(struct options *o)
{
    if (o->exchange.at == GOSSIP && o->algorithm.word != NULL) {
        return uw_cli_error(spec.command, UW_EXIT_USAGE,
                            "--algorithm %s: is for --exchange allreduce", o->algorithm.word);
    }
    if (o->interference > 0.0 && o->overlap.at != ON) {
        return uw_cli_error(spec.command, UW_EXIT_USAGE,
                            "--interference %g: is for --overlap on", o->interference);
    }
    o->algorithm = o->algorithm.word != NULL ? o->algorithm : (struct uw_choice){"hybrid", HYBRID};
    return -1;
}

/* Choose the rate from the options. Returns as check. */
static int choose_rate(struct options *o)
{
    const struct uw_sim_kind *kind = o->device != NULL ? uw_sim_kind_find(o->device) : NULL;
    if (o->device != NULL && o->device_rate > 0.0) {
        return uw_cli_error(spec.command, UW_EXIT_USAGE,
                            "--device and --device-rate: give one of them");
    }
    if (o->device != NULL && kind == NULL) {
        return uw_cli_error(spec.command, UW_EXIT_USAGE,
                            "--device %.60s: is not one of uwasa sim --devices", o->device);
    }
    o->device_rate = kind != NULL ? uw_sim_kind_rate(kind) : o->device_rate;
    o->device_rate = o->device_rate > 0.0 ? o->device_rate : RATE;
    return -1;
}

static int check_result(const struct options *o)
{
    const struct uw_named_file result = {.flag = "--json", .file = o->json};
    const struct uw_named_file read = {.flag = "--model", .file = uw_files_of_model(o->model)};
    struct uw_error err;
    return uw_check_results(&result, 1, &read, 1, &err) < 0
               ? uw_cli_error(spec.command, UW_EXIT_USAGE, "%s", err.text)
               : -1;
}

int uw_cmd_sim_time(int argc, char **argv)
{
    struct options o = {.nodes = "1,2,4,8,16,32,64,128,256", .batch = 256,
                        .exchange = {"allreduce", ALLREDUCE}, .overlap = {"on", ON},
                        .bandwidth = 10000000000u, .latency = 5e-6,
                        .message_seconds = 1e-6, .fragment = 65536, .chunk = 65536,
                        .bucket = 2048};
    struct uw_error err = {.text = ""};
    struct uw_events events = {.file = NULL};
    uint32_t nodes[LIST_MAX];
    int status = uw_args_parse(&spec, argc, argv, &o, NULL);
    if (status >= 0) {
        return status;
    }
    uint32_t nodes_n = read_nodes(o.nodes, nodes);
    o.one_batch = o.one_batch != 0 ? o.one_batch : o.batch;
    if (o.model == NULL) {
        return uw_cli_error(spec.command, UW_EXIT_USAGE,
                            "--model: is needed, uwasa models lists some");
    }
    if (nodes_n == 0) {
        return uw_cli_error(spec.command, UW_EXIT_USAGE,
                            "--nodes %.60s: needs numbers from 1 to %u, up to %u of them, as in "
                            "2,4,8", o.nodes, NODES_MAX, LIST_MAX);
    }
    status = check(&o);
    status = status >= 0 ? status : check_result(&o);
    status = status >= 0 ? status : choose_rate(&o);
    if (status >= 0) {
        return status;
    }
    int rc = uw_events_open(&events, o.json, UW_EVENTS_TIMELESS, &err);
    rc = rc < 0 ? rc : run(&o, nodes, nodes_n, &events, &err);
    int closed = uw_events_close(&events, rc < 0 ? NULL : &err);
    rc = rc < 0 ? rc : closed;
    return rc < 0 ? uw_cli_error(spec.command, uw_job_exit(rc), "%s", err.text) : UW_EXIT_DONE;
}
