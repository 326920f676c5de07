/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_link.h"
#include "base/commands.h"
#include "base/events.h"
#include "base/progress.h"
#include "job/job_weights.h"
#include "job/recipe.h"

#include "uwasa/describe.h"
#include "uwasa/radio_profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
    const char *model;
    struct uw_job_onnx onnx;
    struct uw_choice backend;
    struct uw_recipe recipe;
    uint32_t batch, threads;
    struct uw_opt_list regions;
    struct uw_plan_link link;
    bool snapshot, layers, json, exact;
};

#define ROW(...) UW_OPT_ROW(struct options, __VA_ARGS__)

static const struct uw_opt rows[] = {
    ROW("model", UW_OPT_TEXT, model, 0, 0, "M", "built-in name, ONNX file or JSON file"),
    UW_JOB_ONNX_ROWS(struct options),
    ROW("batch", UW_OPT_U32, batch, 1, 0, "B", "samples in a minibatch (32)"),
    UW_RECIPE_ROWS(struct options),
    ROW("mode", UW_OPT_CHOICE, recipe.mode, 0, 0, "auto|immediate|buckets|full|inference",
        "immediate: no gradient array (auto)"),
    ROW("snapshot", UW_OPT_FLAG, snapshot, 0, 0, NULL, "include the snapshot that a node shares"),
    ROW("threads", UW_OPT_U32, threads, 1, 256, "N", "threads that compute (one a core)"),
    ROW("backend", UW_OPT_CHOICE, backend, 0, 0, UW_BACKENDS_GPU, UW_BACKENDS_GPU_HELP),
    ROW("exact", UW_OPT_FLAG, exact, 0, 0, NULL, UW_EXACT_HELP),
    ROW("region", UW_OPT_LIST, regions, 0, 0, "NAME=BYTES",
        "a memory of the device, the fastest first: show what is placed where"),
    ROW("layers", UW_OPT_FLAG, layers, 0, 0, NULL,
        "also show every layer: shape, parameters, products, and when it is in memory"),
    ROW("link", UW_OPT_TEXT, link.link, 0, 0, "L",
        "show what an exchange takes over a link instead of memory: 802154, lora:SF7, bus:9600, "
        "..."),
    ROW("nodes", UW_OPT_U32, link.nodes, 2, 4096, "N",
        "with --link: nodes that exchange, and share a channel or a bus (8; serial: 2)"),
    ROW("loss", UW_OPT_REAL, link.loss, 0, 0.9, "F", "with --link: share of frames lost (0)"),
    ROW("share", UW_OPT_REAL, link.share, 0, 1, "F",
        "with --link: largest share of the time for pulls, of all nodes on a shared channel (0.1)"),
    ROW("steps-per-s", UW_OPT_REAL, link.steps_per_s, 0, 1e9, "X",
        "with --link: training steps of a node in a second, to give the period in steps"),
    ROW("json", UW_OPT_FLAG, json, 0, 0, NULL, "write one JSON object"),
};

static const struct uw_args_spec spec = {
    .command = "plan",
    .summary = "show the memory of a model, or what its exchange takes, before anything runs",
    .usage = "--model M [flags]",
    .example = "uwasa plan --model lenet5 --batch 4 --threads 1 --budget 1M",
    .epilogue = "uwasa train with the same flags allocates exactly the total. A dataset read from "
                "files has\nmemory of its own. Fewer threads need less scratch; for a board: "
                "--threads 1 --backend ref.\nWith a GPU --budget limits the GPU's memory. What "
                "CUDA's libraries allocate for\nthemselves is not in the plan.\n\n"
                "--json with a GPU: device_bytes is the GPU's memory, the sum of on_device; "
                "total_bytes the\nprocessor's, the sum of beside_device. Without a GPU "
                "total_bytes is all. Where there is no\nGPU, --backend cuda shows what is the "
                "same on all GPUs with memory of their own: all but\nscratch and the kernels' "
                "own, and nothing with --budget.\n\n"
                "Exit status 1: the budget cannot be met, or the plan lacks what only a GPU can "
                "answer.\n\n"
                "--link: " UW_RADIO_PROFILES ".\n\n"
                "JSON of --link: pull, round and average (null without broadcasts) with "
                "data_frames,\nwant_frames, bytes, airtime_seconds, seconds; period_seconds, "
                "period_steps; verdict good,\nslow (a round takes more than an hour) or hopeless "
                "(more than a day); then instead:\nslices, one a round of slice_seconds, "
                "fits_floats (in an hour), model (built-in),\nsf7_seconds (of LoRa), link (that "
                "takes an hour at most). Advice may be too slow itself:\nsee its seconds. --train "
                "lora:4 adds to what is exchanged; no other flag about memory\ngoes with --link.",
    .opts = {rows, sizeof rows / sizeof rows[0]},
};

#define BATCH 32u                   /* by default */
#define BATCH_MAX (1u << 30)

struct answer {
    bool fits;
    uint32_t largest_batch;     /* 0: none fits */
    size_t smallest_bytes;      /* batch 1, plain SGD */
    size_t asked_bytes;         /* if the configuration does not fit: its smallest plan */
};

static bool fits(const struct uw_job *job, uint32_t batch_n, size_t budget)
{
    struct uw_model_need need;
    struct uw_model_config config = job->config;
    config.batch_n = batch_n;
    config.budget_bytes = budget;
    return uw_job_measure(job, &config, &need, NULL) == UW_OK;
}

/* Bytes of the smallest plan of a configuration. */
static size_t smallest_of(const struct uw_job *job, struct uw_model_config config)
{
    struct uw_model_need need = {0};
    config.budget_bytes = 1;
    uw_job_measure(job, &config, &need, NULL);
    return uw_job_budgeted_bytes(job, &need);
}

static size_t smallest(const struct uw_job *job)
{
    struct uw_model_config config = job->config;
    config.batch_n = 1;
    config.micro_n = 0;
    config.optimizer = (struct uw_optimizer){.lr = 0.0f};
    config.mode = config.mode == UW_PLAN_INFERENCE ? config.mode : UW_PLAN_IMMEDIATE;
    return smallest_of(job, config);
}

/* Whether the plan fits, with recomputation if needed; if so, sets job->need to it. */
static struct answer ask(struct uw_job *job, size_t budget)
{
    struct answer a = {.smallest_bytes = smallest(job)};
    uint32_t low = 0;
    uint32_t high = 1;

    job->config.budget_bytes = budget;
    a.fits = uw_job_measure(job, &job->config, &job->need, NULL) == UW_OK;
    if (!a.fits) {
        a.asked_bytes = smallest_of(job, job->config);
        job->config.budget_bytes = 0;
        uw_job_measure(job, &job->config, &job->need, NULL);
    }
    while (high < BATCH_MAX && fits(job, high, budget)) {
        low = high;
        high *= 2;
    }
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (fits(job, middle, budget)) {
            low = middle;
        } else {
            high = middle;
        }
    }
    a.largest_batch = low;
    return a;
}

/* Read "dtcm=64K" and the like, and place the plan. */
static int place(const struct options *o, const struct uw_model_need *need,
                 struct uw_regions *r, char names[UW_REGIONS_MAX][32], struct uw_error *err)
{
    static const struct uw_opt bytes = {"region", UW_OPT_BYTES, 0, 1, 0, "BYTES", ""};

    *r = (struct uw_regions){.n = o->regions.n};
    if (r->n > UW_REGIONS_MAX) {
        return uw_error_set(err, UW_ERR_INVALID, "--region: at most %u of them", UW_REGIONS_MAX);
    }
    for (uint32_t i = 0; i < r->n; i++) {
        const char *text = o->regions.item[i];
        const char *equals = strchr(text, '=');
        uint64_t n = 0;
        if (equals == NULL || equals == text || equals - text >= 32 ||
            uw_opt_set(&bytes, equals + 1, &n) < 0 || n > SIZE_MAX) {
            return uw_error_set(err, UW_ERR_INVALID,
                                "--region %.60s: needs NAME=BYTES, as dtcm=64K", text);
        }
        memcpy(names[i], text, (size_t)(equals - text));
        names[i][equals - text] = '\0';
        r->region[i] = (struct uw_region){.name = names[i], .bytes = (size_t)n};
    }
    return r->n != 0 ? uw_regions_place(r, need, err) : UW_OK;
}

/* The order in which to print them. */
static const enum uw_purpose purposes[UW_PURPOSES_N] = {
    UW_PURPOSE_PARAMETERS, UW_PURPOSE_GRADIENTS, UW_PURPOSE_OPTIMIZER, UW_PURPOSE_ACTIVATIONS,
    UW_PURPOSE_SCRATCH,    UW_PURPOSE_SNAPSHOT,  UW_PURPOSE_INPUT,     UW_PURPOSE_GRAPH};

/* Plan for a GPU: purposes that stay in the processor's memory. */
#define BESIDE (1u << UW_PURPOSE_GRAPH | 1u << UW_PURPOSE_SNAPSHOT)
#define ALL ((1u << UW_PURPOSES_N) - 1u)
#define ON_DEVICE (ALL & ~BESIDE)
/* Purposes whose size is known without the GPU; scratch can only be measured on it. */
#define UNSEEN (ON_DEVICE & ~(1u << UW_PURPOSE_SCRATCH))

static cJSON *add_purposes(cJSON *to, const char *name, const struct uw_model_need *n, uint32_t set)
{
    cJSON *object = cJSON_AddObjectToObject(to, name);
    for (uint32_t i = 0; i < UW_PURPOSES_N; i++) {
        if ((set >> purposes[i] & 1u) != 0) {
            cJSON_AddNumberToObject(object, uw_purpose_name(purposes[i]),
                                    (double)uw_model_need_of(n, purposes[i]));
        }
    }
    return object;
}

/* Add the memory by place, as print_device prints it. */
static void add_device(cJSON *plan, const struct uw_job *job)
{
    if (job->gpu.cuda != NULL) {
        bool unseen = job->gpu.unseen;
        cJSON *there = add_purposes(plan, "on_device", &job->need, unseen ? UNSEEN : ON_DEVICE);
        if (!unseen) {
            uw_job_device_json(job, plan);
            cJSON_AddNumberToObject(there, "own", (double)uw_cuda_own_bytes(job->gpu.cuda));
        }
        cJSON *here = add_purposes(plan, "beside_device", &job->need, BESIDE);
        cJSON_AddNumberToObject(here, "image", (double)job->need.image_bytes);
    }
}

static void print_json(const struct uw_job *job, const struct options *o, const struct answer *a,
                       const struct uw_regions *regions)
{
    cJSON *plan = cJSON_CreateObject();
    cJSON_AddStringToObject(plan, "model", job->file.def.name);
    UW_EVENT_NUMBERS(plan, {"params", job->need.parameters_n}, {"batch", job->config.batch_n},
                     {"threads", job->planned.threads});
    cJSON_AddStringToObject(plan, "backend", job->config.kernels->name);
    cJSON_AddStringToObject(plan, "mode", uw_recipe_mode_name(job->config.mode));
    cJSON_AddNumberToObject(plan, "trained", job->need.trainable_n);
    cJSON_AddNumberToObject(plan, "recomputed_layers", job->need.recomputed_n);
    add_device(plan, job);
    if (!job->gpu.unseen) {
        cJSON *bytes = add_purposes(plan, "bytes", &job->need, ALL);
        if (job->need.image_bytes != 0) {
            cJSON_AddNumberToObject(bytes, "image", (double)job->need.image_bytes);
        }
    }
    cJSON_AddNumberToObject(plan, "total_bytes", (double)job->need.total_bytes);
    if (o->recipe.budget != 0) {
        cJSON_AddNumberToObject(plan, "budget_bytes", (double)o->recipe.budget);
        cJSON_AddBoolToObject(plan, "fits", a->fits);
        cJSON_AddNumberToObject(plan, "largest_batch", a->largest_batch);
        cJSON_AddNumberToObject(plan, "smallest_bytes", (double)a->smallest_bytes);
    }
    cJSON *where = regions->n != 0 ? cJSON_AddObjectToObject(plan, "region") : NULL;
    for (uint32_t p = 0; p < UW_PURPOSES_N && where != NULL; p++) {
        cJSON_AddStringToObject(where, uw_purpose_name((enum uw_purpose)p),
                                regions->region[regions->of[p]].name);
    }
    uw_event_print(stdout, plan);
}

static void print_row(const char *purpose, size_t bytes, const char *region)
{
    char text[UW_TEXT_BYTES];
    if (bytes != 0) {
        printf("%-14s %14zu %12s%s%s\n", purpose, bytes, uw_text_bytes((double)bytes, text),
               region[0] != '\0' ? "  " : "", region);
    }
}

/* Print the purposes of a set: bit p for purpose p. */
static void print_purposes(const struct uw_model_need *n, uint32_t set,
                           const struct uw_regions *regions)
{
    for (uint32_t i = 0; i < UW_PURPOSES_N; i++) {
        if ((set >> purposes[i] & 1u) != 0) {
            print_row(uw_purpose_name(purposes[i]), uw_model_need_of(n, purposes[i]),
                      regions->n != 0 ? regions->region[regions->of[purposes[i]]].name : "");
        }
    }
}

/* Print the memory by place: GPU, shared, processor. */
static void print_device(const struct uw_job *job)
{
    static const struct uw_regions none = {.n = 0};
    const struct uw_model_need *n = &job->need;
    const struct uw_cuda_info *info = &job->gpu.info;
    char name[UW_GPU_TEXT_BYTES], all[UW_TEXT_BYTES], left[UW_TEXT_BYTES];
    if (job->gpu.unseen) {
        print_purposes(n, UNSEEN, &none);
        printf("%-14s %14s\n%-14s %14s\n\n", "scratch", "?", "kernels' own", "?");
    } else {
        printf("%s\n%s of memory, %s free\n\n", uw_job_gpu_text(&job->gpu, name),
               uw_text_bytes((double)info->memory_bytes, all),
               uw_text_bytes((double)info->free_bytes, left));
        print_purposes(n, ON_DEVICE, &none);
        print_row("kernels' own", uw_cuda_own_bytes(job->gpu.cuda), "");
        print_row("on the GPU", uw_job_device_bytes(job), "");
        printf("\n");
    }
    print_purposes(n, BESIDE, &none);
    print_row("image", n->image_bytes, "");
    print_row("beside it", n->total_bytes, "");
}

static void print_table(const struct uw_job *job, const struct options *o, const struct answer *a,
                        const struct uw_regions *regions)
{
    const struct uw_model_need *n = &job->need;
    char text[UW_TEXT_BYTES];
    printf("%s, %u parameters, batch %u, %s, %u thread%s, %s kernels\n\n", job->file.def.name,
           (unsigned)n->parameters_n, (unsigned)job->config.batch_n,
           uw_recipe_mode_name(job->config.mode),
           (unsigned)job->planned.threads, job->planned.threads == 1 ? "" : "s",
           job->config.kernels->name);
    if (job->gpu.cuda != NULL) {
        print_device(job);
    } else {
        print_purposes(n, ALL, regions);
        print_row("total", n->total_bytes, "");
    }
    if (n->recomputed_n > 0) {
        printf("\n%u of %u layers run forward twice to save memory\n", (unsigned)n->recomputed_n,
               (unsigned)job->file.def.layers_n);
    }
    if (n->trainable_n != n->parameters_n && job->config.mode != UW_PLAN_INFERENCE) {
        printf("\n%u of the parameters are trained\n", (unsigned)n->trainable_n);
    }
    if (o->recipe.budget != 0 && a->fits) {
        printf("\nfits into %s; the largest batch that does is %u\n",
               uw_text_bytes((double)o->recipe.budget, text), (unsigned)a->largest_batch);
    }
}

/* Print what would fit. Returns the exit status. */
static int does_not_fit(const struct options *o, const struct answer *a)
{
    char text[UW_TEXT_BYTES];
    uw_text_bytes((double)o->recipe.budget, text);
    if (a->largest_batch > 0) {
        return uw_cli_error("plan", UW_EXIT_FAILED,
                            "does not fit into %s: the smallest plan for this takes %zu bytes; "
                            "batch %u fits", text, a->asked_bytes, (unsigned)a->largest_batch);
    }
    return uw_cli_error("plan", UW_EXIT_FAILED,
                        "does not fit into %s: the smallest plan for this takes %zu bytes, with "
                        "batch 1%s %zu bytes", text, a->asked_bytes,
                        o->recipe.mode.at == UW_PLAN_INFERENCE + 1 ? "" : " and plain sgd",
                        a->smallest_bytes);
}

/* Print what a plan lacks without its GPU, and what to do. Returns the exit status. */
static int unseen(const struct uw_job *job, const struct options *o)
{
    return uw_cli_error("plan", UW_EXIT_FAILED,
                        "--backend cuda: %s; %s: ask where the GPU is; with --backend auto the "
                        "plan is for the processor", job->gpu.note,
                        o->recipe.budget != 0 ? "what fits --budget depends on the GPU"
                                              : "scratch is measured on the GPU, and the memory "
                                                "of its kernels depends on it");
}

/* Check the flags for --link, then set its defaults. */
static int check_link(struct options *o, struct uw_error *err)
{
    const struct uw_recipe *r = &o->recipe, plain = UW_RECIPE_DEFAULTS;
    struct uw_plan_link *l = &o->link;
    if (l->link == NULL) {
        return uw_rules_check(UW_RULES(
            {l->nodes != 0, "nodes", "needs --link"}, {l->loss >= 0.0, "loss", "needs --link"},
            {l->share >= 0.0, "share", "needs --link"},
            {l->steps_per_s != 0.0, "steps-per-s", "needs --link"}), err);
    }
    static const char memory[] = "is about memory, --link about what is exchanged: ask for one of "
                                 "them at a time";
    int rc = uw_rules_check(UW_RULES(
        {o->batch != 0, "batch", memory}, {o->threads != 0, "threads", memory},
        {o->regions.n != 0, "region", memory}, {o->snapshot, "snapshot", memory},
        {o->layers, "layers", memory}, {o->exact, "exact", memory},
        {o->backend.at != UW_BACKEND_AUTO, "backend", memory},
        {r->optimizer.at != plain.optimizer.at, "optimizer", memory},
        {r->mode.at != plain.mode.at, "mode", memory}, {r->momentum >= 0.0, "momentum", memory},
        {r->weight_decay > 0.0, "weight-decay", memory}, {r->nesterov, "nesterov", memory},
        {r->beta1 >= 0.0, "beta1", memory}, {r->beta2 >= 0.0, "beta2", memory},
        {r->alpha >= 0.0, "alpha", memory}, {r->epsilon >= 0.0, "epsilon", memory},
        {r->clip_tensor > 0.0, "clip", memory}, {r->clip_norm > 0.0, "clip-norm", memory},
        {r->micro_batch != 0, "micro-batch", memory}, {r->budget != 0, "budget", memory}), err);
    if (rc < 0) {
        return rc;
    }
    l->nodes = l->nodes != 0 ? l->nodes : uw_plan_link_nodes(l->link);
    l->loss = l->loss >= 0.0 ? l->loss : 0.0;
    l->share = l->share >= 0.0 ? l->share : 0.1;
    return uw_plan_link_check(l, err);
}

/* ---- the layers, and what is in memory when ---- */

#define BAR_COLUMNS 40u
#define CHART_COLUMNS 64u
#define CHART_ROWS 8u

struct view {
    struct uw_layer_info *layers;
    struct uw_block_info *blocks;
    uint32_t layers_n, blocks_n;
    uint32_t end;               /* last step of the plan */
    bool training;
};

static void add_layer(void *arg, const struct uw_layer_info *layer)
{
    struct view *v = arg;
    v->layers[v->layers_n++] = *layer;
    v->end = v->training && layer->backward_step > v->end ? layer->backward_step : v->end;
}

static void add_block(void *arg, const struct uw_block_info *block)
{
    struct view *v = arg;
    v->blocks[v->blocks_n++] = *block;
    v->end = block->death > v->end ? block->death : v->end;
}

static int collect(const struct uw_job *job, struct view *v, struct uw_error *err)
{
    struct uw_model_config config = job->config;
    struct uw_workers planned = job->planned;
    size_t n = config.def->layers_n;
    const struct uw_visitor visitor = {add_layer, add_block, v};

    *v = (struct view){.layers = calloc(n, sizeof *v->layers),
                       .blocks = calloc(5 * n + 1, sizeof *v->blocks),
                       .training = config.mode != UW_PLAN_INFERENCE};
    if (v->layers == NULL || v->blocks == NULL) {
        return uw_error_set(err, UW_ERR_NOMEM, "out of memory");
    }
    config.workers = &planned;
    return uw_model_describe(&config, &visitor, err);
}

static void print_shape(const struct uw_layer_info *l)
{
    char text[40];
    size_t used = 0;
    for (uint32_t i = 0; i < l->out_rank; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, i > 0 ? "x%u" : "%u",
                                 (unsigned)l->out[i]);
    }
    printf(" %-12s", text);
}

static void print_bar(const struct view *v, uint32_t layer)
{
    static const char marks[] = "#=-#-#";
    char bar[BAR_COLUMNS + 1];

    memset(bar, ' ', BAR_COLUMNS);
    bar[BAR_COLUMNS] = '\0';
    for (uint32_t i = 0; i < v->blocks_n; i++) {
        const struct uw_block_info *b = &v->blocks[i];
        if (b->layer != layer) {
            continue;
        }
        uint32_t from = b->birth * (BAR_COLUMNS - 1) / (v->end > 0 ? v->end : 1);
        uint32_t to = b->death * (BAR_COLUMNS - 1) / (v->end > 0 ? v->end : 1);
        for (uint32_t c = from; c <= to; c++) {
            bar[c] = bar[c] == '#' ? '#' : marks[b->kind];
        }
    }
    printf(" |%s|\n", bar);
}

static void print_layer(const struct view *v, uint32_t i)
{
    const struct uw_layer_info *l = &v->layers[i];
    size_t bytes = 0;

    for (uint32_t k = 0; k < v->blocks_n; k++) {
        bytes += v->blocks[k].layer == i ? v->blocks[k].bytes : 0;
    }
    printf("%-16.16s %-12.12s", l->name, l->kind);
    print_shape(l);
    printf(" %10u %12llu %10zu", (unsigned)l->parameters_n, (unsigned long long)l->multiply_adds,
           bytes);
    print_bar(v, i);
}

static void print_layers(const struct view *v)
{
    printf("\n%-16s %-12s %-12s %10s %12s %10s  %s\n", "layer", "type", "output", "parameters",
           "multiply-add", "bytes", "in memory: # output, = gradient, - kept");
    for (uint32_t i = 0; i < v->layers_n; i++) {
        print_layer(v, i);
    }
}

/* Bytes alive at one step. */
static size_t alive(const struct view *v, uint32_t step)
{
    size_t sum = 0;
    for (uint32_t i = 0; i < v->blocks_n; i++) {
        const struct uw_block_info *b = &v->blocks[i];
        sum += b->birth <= step && step <= b->death ? b->bytes : 0;
    }
    return sum;
}

/* A column is several steps, of which it shows the maximum, or a part of one step. */
static size_t column_bytes(const struct view *v, uint32_t column)
{
    uint32_t steps = v->end + 1;
    uint32_t from = (uint32_t)((uint64_t)column * steps / CHART_COLUMNS);
    uint32_t to = (uint32_t)((uint64_t)(column + 1) * steps / CHART_COLUMNS);
    size_t most = alive(v, from);

    for (uint32_t s = from + 1; s < to; s++) {
        size_t now = alive(v, s);
        most = now > most ? now : most;
    }
    return most;
}

static void print_chart(const struct view *v)
{
    size_t column[CHART_COLUMNS], most = 0;
    char text[UW_TEXT_BYTES];

    for (uint32_t c = 0; c < CHART_COLUMNS; c++) {
        column[c] = column_bytes(v, c);
        most = column[c] > most ? column[c] : most;
    }
    printf("\nactivations in use over one %s\n", v->training ? "training step" : "forward pass");
    for (uint32_t row = CHART_ROWS; row > 0; row--) {
        size_t level = most / CHART_ROWS * (row - 1);
        printf("%10s |", row == CHART_ROWS ? uw_text_bytes((double)most, text) : "");
        for (uint32_t c = 0; c < CHART_COLUMNS; c++) {
            putchar(column[c] > level ? '#' : ' ');
        }
        putchar('\n');
    }
    uint32_t turn = v->layers_n * CHART_COLUMNS / (v->end + 1);
    printf("%10s +%-*.*s%s\n", "", (int)turn, (int)turn, "forward",
           v->training ? "backward" : "");
}

/* Print the bytes of activations in use over the training step, then, if asked for, every layer:
 * shape, parameters, multiply-adds, and a bar that shows when its output (#), its gradient (=) or
 * what it keeps (-) is in memory. */
static int view(const struct uw_job *job, bool layers, struct uw_error *err)
{
    struct view v;
    int rc = collect(job, &v, err);
    if (rc == UW_OK) {
        print_chart(&v);
    }
    if (rc == UW_OK && layers) {
        print_layers(&v);
    }
    free(v.layers);
    free(v.blocks);
    return rc;
}

/* ---- the command ---- */

/* Print the plan. Returns UW_OK or a code, err filled. */
static int show(const struct uw_job *job, const struct options *o, const struct answer *a,
                struct uw_error *err)
{
    if (o->link.link != NULL) {
        return uw_plan_link_show(&o->link, job, o->json, err);
    }
    struct uw_regions regions;
    char names[UW_REGIONS_MAX][32];
    int rc = place(o, &job->need, &regions, names, err);
    if (rc < 0) {
        return rc;
    }
    if (o->json) {
        print_json(job, o, a, &regions);
        return UW_OK;
    }
    print_table(job, o, a, &regions);
    return view(job, o->layers, err);
}

int uw_cmd_plan(int argc, char **argv)
{
    struct options o = {.recipe = UW_RECIPE_DEFAULTS, .backend = {"auto", UW_BACKEND_AUTO},
                        .link = {.loss = -1.0, .share = -1.0}};
    struct uw_error err = {.text = ""};
    struct uw_job job = {.pool = NULL};
    struct answer a = {.fits = true};
    int status = uw_args_parse(&spec, argc, argv, &o, NULL);
    if (status >= 0) {
        return status;
    }
    int rc = uw_rules_check(UW_RULES(
        {o.model == NULL, "model", "is needed, uwasa models lists some"},
        {o.json && o.layers, "json and --layers", "give one of them"},
        {o.regions.n != 0 && o.backend.at == UW_BACKEND_CUDA, "region",
         "is about memories of a board, not of a GPU"}), &err);
    if (rc < 0 || check_link(&o, &err) < 0) {
        return uw_cli_error("plan", UW_EXIT_USAGE, "%s", err.text);
    }
    o.batch = o.batch != 0 ? o.batch : BATCH;
    struct uw_job_config config = {.model = o.model,
                                   .onnx = o.onnx,
                                   .backend = o.backend,
                                   .exact = o.exact,
                                   .gpu = o.link.link == NULL && o.regions.n == 0,
                                   .unseen = true,
                                   .threads = o.threads,
                                   .plan = {.batch_n = o.batch, .snapshot = o.snapshot}};
    rc = uw_recipe_apply(&o.recipe, &config.plan, &err);
    config.plan.budget_bytes = 0; /* first a plan without a limit */
    rc = rc < 0 ? rc : uw_job_plan(&job, &config, &err);
    if (rc == UW_OK && o.recipe.budget != 0 && !job.gpu.unseen) {
        a = ask(&job, o.recipe.budget <= SIZE_MAX ? (size_t)o.recipe.budget : SIZE_MAX);
    }
    const char *why = job.gpu.cuda != NULL ? uw_cuda_failure(job.gpu.cuda) : NULL;
    if (why != NULL) {              /* its measurements are useless */
        rc = uw_job_gpu_error(&err, why, "plans");
    }
    if (!job.gpu.unseen || o.recipe.budget == 0) {
        rc = rc < 0 ? rc : show(&job, &o, &a, &err);
    }
    if (rc == UW_OK && job.gpu.unseen) {
        status = unseen(&job, &o);
        uw_job_deinit(&job);
        return status;
    }
    uw_job_gpu_log(&job.gpu, "plan");
    uw_job_print_notes(&job);
    uw_job_deinit(&job);
    if (rc < 0) {
        return uw_cli_error("plan", uw_job_exit(rc), "%s", err.text);
    }
    return a.fits ? UW_EXIT_DONE : does_not_fit(&o, &a);
}
